"""Verbs: one function for each task of Evenhand, such as ``evenhand.audit`` and ``evenhand.search``.

A verb takes a fitted model and a data frame, infers the schema if none is passed, runs an analysis and returns its
result. Settings are typed dictionaries, so editors can complete their names. All verbs accept ``progress``: a function
that receives the current step and the completed share, from 0 to 1; True shows a progress bar, False disables it. By
default, a progress bar is shown only in notebooks.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack, cast, get_args, overload

from evenhand import auditing, certification, genai, llm, mitigation, models, shields, subgroups, view
from evenhand.core.interrupts import RUNNING_SECONDS
from evenhand.core.text import suggest_name
from evenhand.core.typing import ignore_progress
from evenhand.errors import OptionError
from evenhand.schema.table import check_type, list_names

if TYPE_CHECKING:
    from evenhand.auditing.changes import AuditComparison
    from evenhand.auditing.result import AuditResult
    from evenhand.certification.certificate.result import Certificate
    from evenhand.core.result import Result
    from evenhand.core.typing import Progress
    from evenhand.genai.assessment.result import GenaiAssessment
    from evenhand.groups.rankings.result import RankingResult
    from evenhand.individual.search.result import SearchResult
    from evenhand.llm.result import LanguageModelAudit
    from evenhand.mitigation.analysis import Mitigation
    from evenhand.models.outputs import OutputKind
    from evenhand.models.subject import Subject
    from evenhand.schema.outcome import TargetKind
    from evenhand.schema.schema import Schema
    from evenhand.shields.policy.policy import ShieldPolicy
    from evenhand.subgroups.result import SubgroupResult

__all__ = [
    "assess_generator",
    "audit",
    "audit_language_model",
    "audit_predictions",
    "audit_rankings",
    "certify",
    "compare",
    "find_subgroups",
    "mitigate",
    "search",
    "synthesize_shield",
]

VerbT = TypeVar("VerbT", bound=Callable[..., Any])
ResultT = TypeVar("ResultT", bound="Result")
Names: TypeAlias = Sequence[str] | None
Metrics: TypeAlias = Mapping[str, Callable[..., Any]]


class ProgressSettings(TypedDict, total=False):
    """Progress settings (see ``evenhand.view.follow_progress``)."""

    progress: Progress | bool | None


class FileSettings(ProgressSettings, total=False):
    """Settings for reading a table from a file (see ``evenhand.datasets.read_frame``)."""

    encoding: str | None
    sheet: str | None


class RunSettings(FileSettings, total=False):
    """Settings of most analyses.

    ``confidence`` is the confidence level of the intervals. ``time_limit`` is in seconds.
    """

    data_name: str
    schema: Schema | None
    accept_proposals: bool
    confidence: float
    time_limit: float | None
    seed: int


class TargetSettings(RunSettings, total=False):
    """Settings for the target (see ``evenhand.schema.OutcomeRole`` and ``evenhand.schema.ColumnRoles``)."""

    favourable: Any
    favorable: Any
    unfavourable: Sequence[Any]
    kind: TargetKind | None
    order: Sequence[Any] | None
    unit: str | None


class ModelSettings(TargetSettings, total=False):
    """Settings for the model and the people (see ``evenhand.models.Subject`` and ``evenhand.schema.ColumnRoles``)."""

    ignore: Names
    membership: Mapping[str, Any] | None
    model_name: str | None
    trust: bool
    output: OutputKind | None
    budget: int | None
    as_published: bool


class AuditSettings(ModelSettings, total=False):
    """Settings of ``audit`` (see ``evenhand.auditing.AuditConfig``)."""

    metrics: Metrics | None
    population: Literal["data", "uniform", "independent"]
    min_group_size: int
    samples: int
    searched: int
    repeats: int
    tolerance: float | None
    max_boxes: int | None
    thresholds: bool
    threshold: float | None
    reference: Any
    keep_decisions: bool


class DecisionAuditSettings(TargetSettings, total=False):
    """Settings of ``audit_predictions`` (see ``evenhand.auditing.DecisionAuditConfig``)."""

    data: Any
    favourable_target: Any
    metrics: Metrics | None
    min_group_size: int
    thresholds: bool
    reference: Any
    keep_decisions: bool


class RankingSettings(ProgressSettings, total=False):
    """Settings of ``audit_rankings`` (see ``evenhand.groups.RankingConfig``)."""

    data_name: str
    schema: Schema | None
    accept_proposals: bool
    at: int | Sequence[int]
    position_weights: Any
    confidence: float
    min_group_size: int
    draws: int
    seed: int


class CertifySettings(ModelSettings, total=False):
    """Settings of ``certify`` (see ``evenhand.certification.CertifyConfig`` and ``evenhand.certification.certify``)."""

    method: Literal["linear", "interval"]
    where: Sequence[str]
    threshold: float | None
    tolerance: float | None
    bands: Sequence[float]
    outcomes: int
    max_boxes: int | None
    target_undecided: float | None
    effort: float | None
    min_progress: float | None
    samples: int
    counterexamples: int
    enumeration: bool
    jobs: int | None
    certificate: Path | str | None
    workers: int | None
    compile_limit: float | None


class SearchSettings(ModelSettings, total=False):
    """Settings of ``search`` (see ``evenhand.individual.search.SearchConfig``)."""

    method: str
    seeds: int | None
    local: int
    constraints: Sequence[str]
    allow_infeasible: bool
    samples: int
    most_examples: int


class SubgroupSettings(ModelSettings, total=False):
    """Settings of ``find_subgroups`` (see ``evenhand.subgroups.SubgroupConfig`` and ``NumberSubgroupConfig``)."""

    attributes: Names
    permutations: int
    most: int
    measure: str
    margin: float | None
    support: float
    min_size: int
    depth: int | None
    bins: int
    judged: Sequence[str]
    per: str | None
    method: str
    repeats: int
    above: float | None


class MitigationSettings(ModelSettings, total=False):
    """Settings of ``mitigate`` (see ``evenhand.mitigation.MitigationConfig`` and ``evenhand.mitigation.mitigate``)."""

    methods: Sequence[str]
    findings: Sequence[Result | Path | str]
    fit: str | Callable[..., Any] | None
    strength: float | None
    accuracy_loss: float
    start: int
    share: float
    rounds: int
    subgroups: int
    certify_effort: float
    test: Any
    test_name: str
    out: Path | None


class LanguageModelSettings(FileSettings, total=False):
    """Settings of ``audit_language_model`` (see ``evenhand.llm.LanguageModelConfig``)."""

    answers: Path | str | None
    data_name: str
    goal: Literal["precision", "decision"]
    half_width: float | None
    threshold: float
    calls: int | None
    money: float | None
    at_once: int | None
    sweeps: int
    templates: int
    scenario: str | None
    cluster: str | None
    findings: int
    finding_pairs: int
    confidence: float
    time_limit: float | None
    seed: int | None


class GeneratorSettings(ProgressSettings, total=False):
    """Settings of ``assess_generator`` (see ``evenhand.genai.assess_sequences``)."""

    ways: int | None
    confidence: float
    source: str


class ShieldEntries(ProgressSettings, total=False):
    """Entries of a shield configuration (see the reference of shield files)."""

    property: str
    kappa: Any
    horizon: int
    kind: str
    empty_group: str
    cost: float | None
    costs: Sequence[float] | None
    groups: Mapping[str, Any]
    checks: Any
    terminal: str
    bounds: Sequence[Any] | None
    start: Mapping[str, Sequence[int]] | None
    labels: Any


def _verb(settings_type: type) -> Callable[[VerbT], VerbT]:
    """Decorate a verb to check the names of its arguments and to show its progress.

    The decorated function always receives a function as ``progress``.

    Args:
        settings_type: Typed dictionary of the settings.
    """

    def decorate(function: VerbT) -> VerbT:
        parameters = dict(inspect.signature(function).parameters)
        parameters.popitem()  # the settings
        for name, annotation in settings_type.__annotations__.items():
            setting = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            parameters.setdefault(name, setting)
        signature = inspect.Signature(list(parameters.values()))

        @wraps(function)
        def run(*arguments: Any, progress: Any = None, **settings: Any) -> Any:
            for name in settings.keys() - parameters.keys():
                hint = f"{suggest_name(name, parameters)}known: {', '.join(parameters)}"
                raise OptionError(f"{function.__name__} has no argument {name!r}", hint=hint)
            try:
                signature.bind(*arguments, **settings)
            except TypeError as error:
                positional = [name for name, part in parameters.items() if part.kind is part.POSITIONAL_OR_KEYWORD]
                hint = f"positional arguments are: {', '.join(positional)}; pass the others by name"
                raise OptionError(f"{function.__name__}: {error}", hint=hint) from None
            if not progress and (progress is not None or "IPython" not in sys.modules):
                return function(*arguments, progress=ignore_progress, **settings)
            with view.follow_progress(progress) as record_progress:
                return function(*arguments, progress=record_progress, **settings)

        run.__signature__ = signature  # type: ignore[attr-defined]  # read by help() and by notebooks
        return cast("VerbT", run)

    return decorate


@_verb(AuditSettings)
def audit(
    model: Any,
    data: Any,
    y: Any = None,
    *,
    target: str | None = None,
    protected: Names = None,
    sample_weight: Any = None,
    show_people: bool = False,
    **settings: Unpack[AuditSettings],
) -> AuditResult:
    """Audit a model for groups, subgroups and individuals, with proofs if the model is a white box.

    Args:
        model: Fitted model (scikit-learn, PyTorch, XGBoost, LightGBM, ...), function that maps a frame of n people to n
            labels or probabilities, or path or URL of a model (see ``evenhand.models.load_model``).
        data: Data frame (pandas, polars, pyarrow, ...) or path of a table, one row per person, with the columns of the
            model and the protected attributes.
        y: True labels, shape (n,). None if they are a column of the data.
        target: Column of the true labels.
        protected: Columns that decisions must not depend on.
        sample_weight: Weight of each person, shape (n,), or the name of a column of weights. Results by group and
            subgroup are weighted. Flip rates, searches and proofs count all people equally.
        show_people: Whether the result contains records of real people. By default, it contains only aggregates and
            synthetic profiles.
        settings: ``metrics`` are custom metrics by name (see ``evenhand.groups.custom``). ``membership`` is
            described in ``audit_predictions``. For all others, see the classes named in ``AuditSettings``.

    Returns:
        The result, with the attributes ``groups``, ``individual``, ``certificates`` and others.
        ``evenhand.view.write_report(result, folder)`` writes a report.

    Raises:
        EvenhandError: The model, the data or a setting is invalid.

    Examples:
        >>> import numpy as np, pandas as pd, evenhand
        >>> from sklearn.linear_model import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"skill": rng.integers(0, 10, 200), "female": rng.integers(0, 2, 200)})
        >>> hired = (people["skill"] - 2 * people["female"] > 3).astype(int)
        >>> model = LogisticRegression().fit(people, hired)
        >>> result = evenhand.audit(model, people, hired, protected=["female"], max_boxes=500)
        >>> result.individual.rate(("female",), "data").flips  # of 200 people
        38
        >>> [round(certificate.certified, 2) for certificate in result.certificates]
        [0.81]
    """
    options: dict[str, Any] = {**settings}
    check_type("metrics", options.get("metrics"), Mapping, "a mapping from names to functions")
    subject = _read_subject(model, data, y, target, protected, options, weights=sample_weight)
    return _select_shown(auditing.audit(subject, **options), show_people)


@overload
def audit_predictions(
    y_pred: Any = None,
    *,
    sensitive_features: Any,
    y_true: Any = None,
    y_score: Any = None,
    sample_weight: Any = None,
    threshold: float | None = None,
    low_is_good: bool = False,
    membership: Mapping[str, Any] | None = None,
    **settings: Unpack[DecisionAuditSettings],
) -> AuditResult: ...
@overload
def audit_predictions(
    y_true: Any,
    y_pred: Any,
    sensitive_features: Any,
    *,
    y_score: Any = None,
    sample_weight: Any = None,
    threshold: float | None = None,
    low_is_good: bool = False,
    membership: Mapping[str, Any] | None = None,
    **settings: Unpack[DecisionAuditSettings],
) -> AuditResult: ...
@_verb(DecisionAuditSettings)
def audit_predictions(
    *arrays: Any,
    sensitive_features: Any = None,
    y_true: Any = None,
    y_pred: Any = None,
    y_score: Any = None,
    sample_weight: Any = None,
    threshold: float | None = None,
    low_is_good: bool = False,
    membership: Mapping[str, Any] | None = None,
    **settings: Unpack[DecisionAuditSettings],
) -> AuditResult:
    """Audit recorded decisions by groups, intersections and subgroups, without a model.

    The arguments have the same names and order as in ``fairlearn.metrics.MetricFrame``. Columns are lists, tuples,
    arrays or Series of shape (n,) or (n, 1). Rows are matched by position; pandas objects with different indices are
    rejected.

    Args:
        arrays: ``y_pred``; ``y_true, y_pred``; or ``y_true, y_pred, sensitive_features``. All can be passed by name.
        sensitive_features: Columns that define the groups: a data frame, a mapping from names to columns, a column, or
            an array of shape (n, k).
        y_true: True labels. Unknown labels are missing values. Error rates are computed over people with a true label,
            selection rates over all people. Without true labels, no error rates are computed.
        y_pred: Decisions: two or more labels, one of which is favourable; several labels or grades, each compared
            (``kind="labels"``, ``order=``); or numbers, such as prices. None if ``threshold`` is applied to the scores.
        y_score: Scores of the favourable decision, for calibration or for ``threshold``.
        sample_weight: Weight of each person, shape (n,), such as survey weights. Rates, means and intervals are
            weighted.
        threshold: Minimum score of a favourable decision, such as 0.5, instead of ``y_pred``.
        low_is_good: Whether low scores are favourable, as for risk scores. People are selected if their score is at
            most the threshold, and calibration uses 1 minus the score.
        membership: Attributes whose values are known only as probabilities, such as race inferred from name and
            address. A mapping from attributes to the probabilities of their groups, each a data frame or a mapping from
            groups to columns of shape (n,). The rates of these groups and their bounds are in ``result.groups.proxies``
            (see ``evenhand.groups.ProxyRates``).
        settings: ``data`` is a data frame, a lazy frame (Polars, DuckDB, Spark, Ibis), or the path of a table or of a
            folder of Parquet files. The arguments above are then names of its columns. Data outside memory are
            aggregated where they are stored. ``metrics`` are custom metrics by name (see
            ``evenhand.groups.custom``). For all others, see the classes named in ``DecisionAuditSettings``.

    Returns:
        The result, with the attributes ``groups`` and ``subgroups``.

    Raises:
        EvenhandError: The decisions or a setting is invalid.

    Examples:
        >>> import evenhand
        >>> sex = ["F"] * 50 + ["M"] * 50
        >>> decisions = [1] * 10 + [0] * 40 + [1] * 25 + [0] * 25
        >>> result = evenhand.audit_predictions(decisions, sensitive_features={"sex": sex})
        >>> result.groups.breakdowns[0].gap("demographic_parity_ratio").value.value
        0.4
        >>> scores = [0.9] * 10 + [0.4] * 40 + [0.8] * 25 + [0.3] * 25
        >>> result = evenhand.audit_predictions(y_score=scores, threshold=0.5, sensitive_features={"sex": sex})
        >>> result.groups.breakdowns[0].gap("demographic_parity_ratio").value.value
        0.4
    """
    from evenhand.groups.roles import table_of_decisions

    options: dict[str, Any] = {**settings}
    check_type("metrics", options.get("metrics"), Mapping, "a mapping from names to functions")
    named = {"y_true": y_true, "y_pred": y_pred, "sensitive_features": sensitive_features}
    y_true, y_pred, sensitive_features = _name_arrays(arrays, named)
    roles = _take(options, "favourable", "outcome", "unfavourable", "favourable_target", "schema", "accept_proposals")
    if "data" in options:
        roles["data"] = _read_data(options.pop("data"), options, large=True)
    frame, columns = table_of_decisions(
        y_pred,
        sensitive_features,
        y_true=y_true,
        y_score=y_score,
        sample_weight=sample_weight,
        threshold=threshold,
        low_is_good=low_is_good,
        membership=membership,
        **roles,
    )
    return auditing.audit_decisions(columns.read(frame), **options)


def _name_arrays(arrays: Sequence[Any], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Combine positional and named arguments into true labels, decisions and sensitive features."""
    if len(arrays) > 3:
        raise OptionError(
            f"expected at most 3 positional arguments, got {len(arrays)}",
            hint="audit_predictions(y_true, y_pred, sensitive_features, ...); pass the others by name",
        )
    order = ("y_pred",) if len(arrays) == 1 else ("y_true", "y_pred", "sensitive_features")
    for name, array in zip(order, arrays, strict=False):
        if named[name] is not None:
            raise OptionError(
                f"expected `{name}=` once, got it by position and by name",
                hint="one positional argument is `y_pred=`; two are `y_true=` and `y_pred=`",
            )
        named[name] = array
    if named["sensitive_features"] is None:
        raise OptionError("expected sensitive features, got none", hint="pass `sensitive_features={'sex': sex}`")
    return named["y_true"], named["y_pred"], named["sensitive_features"]


@_verb(RankingSettings)
def audit_rankings(
    rank: Any = None,
    *,
    sensitive_features: Any,
    rank_by: Any = None,
    query: Any = None,
    relevance: Any = None,
    **settings: Unpack[RankingSettings],
) -> RankingResult:
    """Audit rankings by group: selection at k, exposure and pairwise order.

    Args:
        rank: Position of each candidate in its list, counted from 1, shape (n,). None if ``rank_by`` is passed.
        sensitive_features: Columns that define the groups: a data frame, a mapping from names to columns, a column, or
            an array of shape (n, k).
        rank_by: Score of each candidate, shape (n,), instead of ``rank``. The highest score has rank 1.
        query: List of each candidate, such as the ID of a search, shape (n,). None if all candidates are in one list.
        relevance: Non-negative relevance of each candidate, such as clicks or grades, shape (n,).
        settings: ``at`` is the number of positions that count as selected. For all others, see the class named in
            ``RankingSettings``.

    Returns:
        The result. ``result.breakdowns`` contains the groups and the gaps between them, ``result.to_frame()`` contains
        all numbers.

    Raises:
        EvenhandError: The rankings or a setting is invalid.

    Examples:
        >>> import numpy as np, evenhand
        >>> rng = np.random.default_rng(0)
        >>> search = np.repeat(np.arange(100), 20)  # 100 searches, 20 candidates each
        >>> sex = rng.choice(["F", "M"], 2000)
        >>> score = rng.normal(size=2000) + 0.5 * (sex == "M")
        >>> result = evenhand.audit_rankings(rank_by=score, query=search, sensitive_features={"sex": sex}, at=5)
        >>> gap = result.breakdowns[0].gap("exposure_ratio")
        >>> ratio = gap.value
        >>> gap.worst, round(ratio.value, 2), round(ratio.low, 2), round(ratio.high, 2)
        ('F', 0.81, 0.79, 0.85)
    """
    from evenhand.groups.rankings.analysis import measure_rankings
    from evenhand.groups.rankings.recorded import table_of_rankings

    options: dict[str, Any] = {**settings}
    about = _take(options, "schema", "accept_proposals")
    frame, columns = table_of_rankings(
        sensitive_features, rank=rank, rank_by=rank_by, query=query, relevance=relevance, **about
    )
    return measure_rankings(columns.read(frame), **options)


@_verb(ProgressSettings)
def compare(
    before: AuditResult | str | Path,
    after: AuditResult | str | Path,
    *,
    confidence: float = 0.95,
    **settings: Unpack[ProgressSettings],
) -> AuditComparison:
    """Compare the numbers of two audits, such as of two models, two releases or two periods.

    Args:
        before, after: Results of ``audit`` or ``audit_predictions``, their JSON files, or report folders. If both
            audits are of the same people and use ``keep_decisions=True``, changes are paired and intervals are shorter.
        confidence: Confidence level of the intervals.
        settings: ``progress``.

    Returns:
        The result, with the attribute ``pairing`` and ``lines`` with ``before``, ``after``, ``change`` and ``verdict``.

    Raises:
        EvenhandError: A file is not an audit, or the audits have no number in common.

    Examples:
        >>> import evenhand
        >>> sex = {"sex": ["F"] * 200 + ["M"] * 200}
        >>> first = [1] * 40 + [0] * 160 + [1] * 100 + [0] * 100
        >>> second = [1] * 88 + [0] * 112 + [1] * 100 + [0] * 100
        >>> audits = [
        ...     evenhand.audit_predictions(decisions, sensitive_features=sex, keep_decisions=True)
        ...     for decisions in (first, second)
        ... ]
        >>> comparison = evenhand.compare(*audits)
        >>> line = comparison.line("demographic_parity_difference", by="sex")
        >>> round(line.change.value, 2), line.pairing, line.verdict
        (-0.24, 'paired', 'better')
    """
    cast("Progress", settings["progress"])("comparing", 0.0)
    pair = []
    for name, source in (("before", before), ("after", after)):
        if source is None:
            raise OptionError(f"expected a result of `audit` or its JSON file as `{name}=`, got None")
        check_type(name, source, auditing.AuditResult | str | Path, "a result of `audit` or its JSON file")
        pair.append(source if isinstance(source, auditing.AuditResult) else auditing.read_audit(source))
    return auditing.compare_audits(pair[0], pair[1], confidence=confidence)


@_verb(CertifySettings)
def certify(
    model: Any,
    data: Any = None,
    y: Any = None,
    *,
    target: str | None = None,
    protected: Names = None,
    population: Literal["uniform", "data", "independent"] = "uniform",
    **settings: Unpack[CertifySettings],
) -> Certificate:
    """Certify individual fairness of a model over a population.

    Args:
        model: White box: a network, a linear model, or trees.
        data, y, target, protected: As for ``audit``. With ``schema`` and a uniform population, no data are needed.
        population: Population of the certified shares: ``uniform`` for the uniform distribution over the domain,
            ``data`` for the distribution of the data, or ``independent`` for the product of the marginal distributions
            of the data.
        settings: ``schema`` is the domain of the people. Default: inferred from the data. ``certificate`` is the path
            of a file for the proof. For all others, see the classes named in ``CertifySettings``.

    Returns:
        The certificate. ``certified`` and ``falsified`` are proved shares, ``undecided`` is the remaining share.

    Raises:
        EvenhandError: The model, the data or a setting is invalid; ``NotAdditiveError`` if the model is not a white
            box.

    Examples:
        >>> import numpy as np, pandas as pd, evenhand
        >>> from sklearn.linear_model import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"skill": rng.integers(0, 10, 200), "female": rng.integers(0, 2, 200)})
        >>> hired = (people["skill"] - 2 * people["female"] > 3).astype(int)
        >>> model = LogisticRegression().fit(people, hired)
        >>> certificate = evenhand.certify(model, people, hired, protected=["female"])
        >>> round(certificate.certified, 2), round(certificate.falsified, 2), round(certificate.undecided, 2)
        (0.8, 0.2, 0.0)
    """
    from evenhand.population.mixture import PopulationKind, choose_population
    from evenhand.schema.people import change_target

    if population not in get_args(PopulationKind):
        raise OptionError(f"expected population 'uniform', 'data' or 'independent', got {population!r}")
    options: dict[str, Any] = {**settings}
    schema = options.get("schema")
    if data is None and schema is not None and population == "uniform":
        if y is not None:
            raise OptionError("expected data if `y=` is passed, got none", hint="pass the data, or leave `y=` out")
        schema = change_target(options.pop("schema"), target, **_take(options, "favourable", "outcome"))
        schema = schema.with_protected(protected) if protected else schema
        name, trust, output = (options.pop(name, None) for name in ("model_name", "trust", "output"))
        network = models.load_white_box(model, schema, trust=bool(trust), name=name, output=output)
        return certification.certify(network, **options)
    subject = _read_subject(model, data, y, target, protected, options)
    wider = None
    if population != "uniform":
        wider = choose_population(population, subject.people, as_published=options.get("as_published", False))
    certificate = certification.certify(subject.white_box, population=wider, **options)
    return certificate.model_copy(update={"table_reading": subject.people.reading})


@_verb(SearchSettings)
def search(
    model: Any,
    data: Any,
    y: Any = None,
    *,
    target: str | None = None,
    protected: Names = None,
    show_people: bool = False,
    **settings: Unpack[SearchSettings],
) -> SearchResult:
    """Search for people whose decision changes when only protected attributes change.

    Args:
        model, data, y, target, protected: As for ``audit``.
        show_people: Whether examples and ``to_frame()`` contain records of real people. By default, they contain only
            synthetic profiles.
        settings: ``budget`` is the maximum number of people queried. For all others, see the classes named in
            ``SearchSettings``.

    Returns:
        The result. ``profiles`` is the number of profiles found, ``examples`` contains the clearest profiles, and
        ``to_frame()`` returns all profiles.

    Raises:
        EvenhandError: The model, the data or a setting is invalid.

    Examples:
        >>> import numpy as np, pandas as pd, evenhand
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"skill": rng.integers(0, 10, 200), "female": rng.integers(0, 2, 200)})
        >>> people["hired"] = (people["skill"] > 3).astype(int)
        >>> def model(frame):
        ...     return (frame["skill"] - 2 * frame["female"] > 3).astype(int)
        >>> result = evenhand.search(model, people, target="hired", protected=["female"], seed=1)
        >>> result.profiles
        2
    """
    from evenhand.individual import search as engine

    options: dict[str, Any] = {**settings}
    subject = _read_subject(model, data, y, target, protected, options)
    subject.ledger.budget = options.get("budget")
    return _select_shown(engine.search(subject.scorer, subject.people, **options), show_people)


@_verb(SubgroupSettings)
def find_subgroups(
    model: Any,
    data: Any,
    y: Any = None,
    *,
    target: str | None = None,
    protected: Names = None,
    sample_weight: Any = None,
    **settings: Unpack[SubgroupSettings],
) -> SubgroupResult:
    """Find subgroups, defined by several attributes, that a model treats differently from all other people.

    Args:
        model, data, y, target: As for ``audit``.
        protected: Attributes that define subgroups. Numeric attributes are binned.
        sample_weight: Weight of each person, shape (n,), or the name of a column of weights. Rates, gaps and intervals
            are weighted.
        settings: See the classes named in ``SubgroupSettings``. For a numeric target, use the settings of
            ``evenhand.subgroups.NumberSubgroupConfig``, such as ``measure="residual"``.

    Returns:
        The result. ``findings`` contains the subgroups with their gaps, intervals and adjusted p-values.

    Raises:
        EvenhandError: The model, the data or a setting is invalid.

    Examples:
        >>> import numpy as np, pandas as pd, evenhand
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"age": rng.integers(20, 60, 800), "sex": rng.choice(["F", "M"], 800)})
        >>> people["hired"] = rng.integers(0, 2, 800)
        >>> def model(frame):
        ...     return 1 - ((frame["sex"] == "F") & (frame["age"] < 40)).astype(int)
        >>> result = evenhand.find_subgroups(model, people, target="hired", protected=["age", "sex"])
        >>> evenhand.subgroups.describe_rules(result.findings[0].rules)
        'age 39 or less, sex F'
    """
    options: dict[str, Any] = {**settings}
    subject = _read_subject(model, data, y, target, protected, options, varied=False, weights=sample_weight)
    subject.ledger.budget = options.get("budget")
    if protected is not None and "attributes" in options:
        raise OptionError("expected either `protected=` or the setting `attributes`, got both", location="`protected=`")
    options = {"attributes": protected, "weights": subject.weights, **options}
    if subject.people.schema.target.is_number:
        return subgroups.find_number_subgroups(subject.regressor, subject.people, **options)
    return subgroups.find_subgroups(subject.scorer, subject.people, **options)


@_verb(MitigationSettings)
def mitigate(
    model: Any,
    data: Any,
    y: Any = None,
    *,
    target: str | None = None,
    protected: Names = None,
    **settings: Unpack[MitigationSettings],
) -> Mitigation:
    """Train fairer versions of a model, and compare them on held-out data.

    Args:
        model, data, y, target, protected: As for ``audit``.
        settings: ``methods`` are names of mitigation methods. ``findings`` are used for training: results of
            ``search``, ``find_subgroups``, ``certify`` or ``audit``, or their JSON files. For all others, see the class
            and the function named in ``MitigationSettings``.

    Returns:
        The mitigation. ``result`` is the comparison, and ``candidates`` are the mitigated models. ``save(path)`` writes
        the first candidate.

    Raises:
        EvenhandError: The model, the data, the findings or a setting is invalid.

    Examples:
        >>> import numpy as np, pandas as pd, evenhand
        >>> from sklearn.linear_model import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"skill": rng.integers(0, 10, 400), "female": rng.integers(0, 2, 400)})
        >>> hired = (people["skill"] - 2 * people["female"] > 3).astype(int)
        >>> model = LogisticRegression().fit(people, hired)
        >>> about = {"y": hired, "protected": ["female"]}
        >>> profiles = evenhand.search(model, people, **about)
        >>> mitigation = evenhand.mitigate(model, people, **about, findings=[profiles], methods=["retrain"])
        >>> [(candidate.method, candidate.control) for candidate in mitigation.candidates]
        [('retrain', False), ('refit', True)]
    """
    options: dict[str, Any] = {**settings}
    subject = _read_subject(model, data, y, target, protected, options)
    subject.ledger.budget = options.get("budget")
    return mitigation.mitigate(subject, **options)


@_verb(ShieldEntries)
def synthesize_shield(
    config: Mapping[str, Any] | str | Path | None = None, **settings: Unpack[ShieldEntries]
) -> ShieldPolicy:
    """Synthesize the shield with the lowest cost that enforces a fairness property in every sequence of decisions.

    Args:
        config: Configuration as a mapping, or path of a YAML or TOML file (see the reference of shield files).
        settings: Entries of the configuration. They override the entries of a mapping.

    Returns:
        The policy. ``evenhand.shields.Shield(policy)`` enforces it, ``evenhand.shields.save_policy`` writes it.

    Raises:
        OptionError: The configuration is invalid, or no shield can enforce the property.
        LimitError: The shield does not fit into memory.

    Examples:
        >>> import evenhand
        >>> policy = evenhand.synthesize_shield(
        ...     property="demographic_parity",
        ...     kappa="0.2",
        ...     horizon=20,
        ...     groups={"a": {"rate": 0.4, "accept": 0.3}, "b": {"rate": 0.6, "accept": 0.6}},
        ... )
        >>> round(policy.expected_cost, 2)  # interventions in 20 decisions
        1.97
        >>> shield = evenhand.shields.Shield(policy)
        >>> shield.decide("a", 1).decision
        1
    """
    check_type("config", config, Mapping | str | Path, "a mapping or a file")
    entries: dict[str, Any] = {**settings}
    progress = entries.pop("progress")
    progress("synthesizing the shield", 0.0)
    if entries and not isinstance(config, Mapping | None):
        raise OptionError(f"expected either a file or entries, got {config} and {', '.join(entries)}")
    plan = shields.read_plan(config if isinstance(config, str | Path) else {**(config or {}), **entries})
    return shields.synthesize(plan, progress=lambda done, total: progress("synthesizing the shield", done / total))


@_verb(LanguageModelSettings)
def audit_language_model(
    model: Any, data: Any, *, show_people: bool = False, **settings: Unpack[LanguageModelSettings]
) -> LanguageModelAudit:
    """Audit a language model that decides about people.

    Gaps between groups are distinguished from the noise of the model and of names.

    Args:
        model: Path of a language-model file, or its entries as a mapping.
        data: Data frame or path of a table whose rows fill the prompt template, or a list of texts.
        show_people: Whether the result contains rows of the data, prompts and answers. By default, it does not.
        settings: See the class named in ``LanguageModelSettings``.

    Examples:
        >>> import evenhand
        >>> from evenhand.testing import FakeChat
        >>> entries = {"prompt": "{{ person.name }}: {{ text }} Invite?", "people": {"names": "bertrand-mullainathan"}}
        >>> entries["answers"] = {"choices": ["yes", "no"], "favourable": "yes"}
        >>> with FakeChat(0.5) as chat:
        ...     entries["service"] = {"url": chat.url, "model": "fake"}
        ...     result = evenhand.audit_language_model(entries, ["A clerk.", "A cook."], sweeps=3, findings=0)
        >>> result.usage.calls
        32
    """
    from evenhand.llm.file import ScreeningFile

    check_type("model", model, Mapping | ScreeningFile | str | Path, "a file or a mapping of its entries")
    options: dict[str, Any] = {**settings}
    data = _read_data(data, options, words=True)
    return _select_shown(llm.audit_language_model(model, data, **options), show_people)


@_verb(GeneratorSettings)
def assess_generator(
    items: Any,
    groups: Sequence[str],
    *,
    values: Mapping[str, Sequence[str]] | None = None,
    repeated: int | Mapping[str | tuple[str, ...], int | Sequence[int]] | None = None,
    conditions: Mapping[str, str] | None = None,
    sequence_column: str | None = None,
    **settings: Unpack[GeneratorSettings],
) -> GenaiAssessment:
    """Assess how regularly the values of each group appear in the items of a generator.

    Args:
        items: Data frame or path of a table, one row per item in the order of the requests. An empty label means that
            the item was not recognised.
        groups: Columns of labels.
        values: Required values by group. Default: the values in the table.
        repeated: Maximum number of items between two appearances of a value: for all groups, by group, or by value.
            None sets no requirement. The smallest number that the items fulfil is then reported.
        conditions: Required value by column. Only items with all of these values are assessed.
        sequence_column: Column of sequence names. Each sequence is assessed separately.
        settings: See the function named in ``GeneratorSettings``.

    Returns:
        The assessment. ``sequences`` contains the results of each sequence by group and value.

    Raises:
        EvenhandError: The table or a setting is invalid.

    Examples:
        >>> import pandas as pd, evenhand
        >>> items = pd.DataFrame({"gender": ["female", "male", "male", "male", "female", "male"]})
        >>> assessment = evenhand.assess_generator(items, groups=["gender"], repeated=3)
        >>> [(value.value, value.longest_wait, value.missed) for value in assessment.sequences[0].groups[0].values]
        [('female', 4, (4,)), ('male', 2, ())]
    """
    options: dict[str, Any] = {**settings}
    options.pop("progress")("assessing", 0.0)
    sequences = genai.read_sequences(
        items, list_names(groups, "groups"), conditions=conditions, values=values, sequence_column=sequence_column
    )
    return genai.assess_sequences(sequences, repeated=repeated, conditions=conditions, **options)


# Arguments of several verbs


def _take(options: dict[str, Any], *names: str) -> dict[str, Any]:
    """Remove options by name, and return the ones that were set. ``outcome`` is built from its parts."""
    from evenhand.schema.outcome import OutcomeRole

    if "favourable" in names and "favorable" in options:
        options["favourable"] = options.pop("favorable")
    if "outcome" in names and (parts := _take(options, "kind", "order", "unit")):
        options["outcome"] = OutcomeRole(**parts)
    return {name: options.pop(name) for name in names if name in options}


def _select_shown(result: ResultT, show_people: bool) -> ResultT:
    """Remove records of real people from the result, unless ``show_people`` is True."""
    check_type("show_people", show_people, bool, "True or False")
    return result if show_people else result.hide_people()


def _read_data(data: Any, options: dict[str, Any], *, large: bool = False, words: bool = False) -> Any:
    """Read the data as a data frame, and remove ``encoding`` and ``sheet`` from the options.

    Args:
        data: Data frame, or path of a table.
        options: Options of the verb.
        large: Whether to open a large table as a lazy frame.
        words: Whether to read every cell of a file as a string.
    """
    from evenhand.datasets.rows import open_data
    from evenhand.datasets.tables import read_frame

    reading = _take(options, "encoding", "sheet")
    is_file = isinstance(data, str | Path)
    rows = open_data(data) if large and is_file else None
    if reading and (rows is not None or not is_file):
        kind = "are not read into memory" if rows is not None else "are not a file"
        raise OptionError(
            f"`{next(iter(reading))}=` applies only to files that are read into memory, but the data {kind}",
            hint="leave it out, or pass the path of a table",
        )
    if not is_file:
        return data
    return read_frame(data, words=words, **reading) if rows is None else rows


def _read_subject(
    model: Any,
    data: Any,
    y: Any,
    target: str | None,
    protected: Names,
    options: dict[str, Any],
    *,
    varied: bool = True,
    weights: Any = None,
) -> Subject:
    """Read the model and the people, and remove their settings from the options."""
    from evenhand.datasets.rows import is_text_table
    from evenhand.models.subject import Subject
    from evenhand.schema.arrays import check_index
    from evenhand.schema.people import ColumnRoles, add_sample_columns

    requested = RUNNING_SECONDS()  # imports are not part of the time limit
    check_type("budget", options.get("budget"), Integral, "a whole number")
    membership = options.pop("membership", None)
    untyped = isinstance(data, str | Path) and is_text_table(data)
    data, sample = _read_data(data, options), None
    if weights is not None or membership is not None:
        check_index(data=data, y=y, sample_weight=weights, membership=membership)
        data, sample = add_sample_columns(data, weights, membership=membership)
    about = _take(options, "favourable", "outcome", "unfavourable", "ignore", "schema", "accept_proposals")
    roles = ColumnRoles(target=target, protected=protected, y=y, sample=sample, **about)
    people = replace(roles.read(data, varied=varied), untyped=untyped)
    names = _take(options, "data_name", "model_name", "trust", "output")
    if sample is not None:
        names["weights"], names["memberships"] = sample.read(data, people.rows)
    return Subject(model, people, requested=requested, **names)
