"""One function for each thing that Evenhand does, for what users of scikit-learn and fairlearn hold.

They are found on the package itself: ``evenhand.audit``, ``evenhand.search`` and so on. Each takes a fitted model and a
data frame, describes the columns where no schema does, asks the engine, and returns its result.

All take ``progress``: a function that is called with what is being done and the share done, 0 to 1; or True to show a
bar, False to show nothing. By default a notebook shows what takes over a second, in one line that goes away afterwards,
and scripts and libraries stay silent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from evenhand.errors import OptionError
from evenhand.verb_inputs import Names, read_data, read_subject, select_shown, takes_progress

if TYPE_CHECKING:
    from evenhand.auditing.changes import AuditComparison
    from evenhand.auditing.result import AuditResult
    from evenhand.certification.certificate.result import Certificate
    from evenhand.genai.assessment.result import GenaiAssessment
    from evenhand.groups.rankings.result import RankingResult
    from evenhand.individual.search.result import SearchResult
    from evenhand.llm.result import LanguageModelAudit
    from evenhand.mitigation.analysis import Mitigation
    from evenhand.models.outputs import OutputKind
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


@takes_progress
def audit(
    model: Any,
    data: Any,
    y: Any = None,
    *,
    target: str | None = None,
    protected: Names = None,
    sample_weight: Any = None,
    show_people: bool = False,
    **settings: Any,
) -> AuditResult:
    """Audit a model: groups, subgroups, individuals, and proofs where the model can be read from inside.

    Args:
        model: a fitted model (scikit-learn, PyTorch, XGBoost, LightGBM, ...), a function from a frame of n people to n
            labels or probabilities, or the path or URL of a model (see ``evenhand.models.load_model``).
        data: a data frame (pandas, polars, pyarrow, ...) or the path of a table, one row per person: the model's
            columns and the protected ones. With ``y`` it need not hold the true labels.
        y: the true labels, shape (n,), if they are not a column of the data.
        target: the column of the true labels.
        protected: columns that a decision must not depend on.
        sample_weight: how much each person counts, shape (n,), or the column of the data that says it; what is said of
            groups and subgroups is weighted then, with intervals that allow for it. Flip rates, searches for
            individuals and proofs count every person alike.
        show_people: Whether the result shows records of real people. By default it holds aggregates and invented
            profiles only.
        settings: ``favourable``, ``ignore`` and ``schema`` (see ``evenhand.schema.ColumnRoles``); ``kind``, ``order``
            and ``unit`` of what is decided (see ``evenhand.schema.OutcomeRole``); ``data_name``, ``model_name``,
            ``trust`` and ``output`` (see ``evenhand.models.Subject``); ``encoding`` of a text table (see
            ``evenhand.datasets.read_frame``); fields of ``evenhand.auditing.AuditConfig``,
            above all ``time_limit`` in seconds and ``seed``; ``metrics``, functions of one's own by name (see
            ``evenhand.groups.add_metrics``); ``membership`` as for ``audit_predictions``;
            ``progress``, a function that is called with what is being done and the share done, or True to show it.

    Returns:
        The result; print it, or see ``result.groups``, ``result.individual``, ``result.certificates``, ...;
        ``evenhand.view.write_report(result, folder)`` writes a report.

    Raises:
        EvenhandError: the model, the data or the configuration cannot be used.

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
        >>> [round(found.certified, 2) for found in result.certificates]
        [0.81]
    """
    from evenhand import auditing
    from evenhand.schema.arrays import check_type

    check_type("metrics", settings.get("metrics"), Mapping, "a mapping from names to functions")
    subject = read_subject(model, data, y, target, protected, settings, weights=sample_weight)
    metrics, say = settings.pop("metrics", None), settings.pop("progress")
    result = auditing.audit(subject, auditing.AuditConfig(**settings), metrics=metrics, progress=say)
    return select_shown(result, show_people)


@overload
def audit_predictions(
    y_pred: Any = None,
    *,
    sensitive_features: Any,
    y_true: Any = None,
    y_score: Any = None,
    sample_weight: Any = None,
    threshold: Any = None,
    low_is_good: bool = False,
    membership: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AuditResult: ...
@overload
def audit_predictions(
    y_true: Any,
    y_pred: Any,
    sensitive_features: Any,
    *,
    y_score: Any = None,
    sample_weight: Any = None,
    threshold: Any = None,
    low_is_good: bool = False,
    membership: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AuditResult: ...
@takes_progress
def audit_predictions(
    *arrays: Any,
    sensitive_features: Any = None,
    y_true: Any = None,
    y_pred: Any = None,
    y_score: Any = None,
    sample_weight: Any = None,
    threshold: Any = None,
    low_is_good: bool = False,
    membership: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AuditResult:
    """Audit recorded decisions by groups, intersections and subgroups; no model is needed.

    The arguments have the names and the order of ``fairlearn.metrics.MetricFrame``. Columns are lists, tuples, arrays
    or Series of shape (n,) or (n, 1). Rows are matched by position; pandas objects with different indices are an error.

    Args:
        arrays: ``y_pred``; or ``y_true, y_pred``; or ``y_true, y_pred, sensitive_features``. All may be given by name.
        sensitive_features: Columns that define the groups: a data frame, a mapping from names to columns, a column, or
            an array of shape (n, k).
        y_true: True labels, missing where unknown. Error rates are over people with a true label, selection rates over
            everyone. Without true labels, no error rates are computed.
        y_pred: Decisions: two labels, or more of which one is favourable; several labels or grades, each compared
            (``kind="labels"``, ``order=``); or numbers, such as prices. None if ``threshold`` is applied to the scores.
        y_score: Scores of the favourable decision, for calibration or for ``threshold``.
        sample_weight: how much each person counts, shape (n,), such as survey weights; rates and means are weighted
            then, and their intervals allow for it.
        threshold: in place of ``y_pred``: the favourable decision is given from this score on, such as 0.5. With
            ``[0.5, "sex=Female:0.4"]``, what if a group had a threshold of its own.
        low_is_good: whether low scores speak for the favourable decision, as a risk does: people are selected up to a
            threshold then, and calibration is that of 1 minus the score.
        membership: what is known by probability alone, such as race by name and address: attribute -> probabilities of
            its groups, a data frame or a mapping from groups to columns of shape (n,). Rates of these groups stand in
            ``result.groups.proxies``, with bounds beside every estimate (see ``evenhand.groups.measure_proxies``).
        settings: ``data``, a data frame, a lazy one (Polars, DuckDB, Spark, Ibis), or the path of a table or a folder
            of Parquet files, of which the arguments above name columns; rows that are not in memory are counted where
            they are. ``favourable``, ``unfavourable``, ``favourable_target`` and ``schema`` (see
            ``evenhand.schema.DecisionRoles``);
            ``kind``, ``order`` and ``unit`` of what is decided (see ``evenhand.schema.OutcomeRole``); ``data_name``;
            fields of ``evenhand.auditing.DecisionAuditConfig``; ``metrics``, functions of one's own by name (see
            ``evenhand.groups.add_metrics``).

    Returns:
        The result; see ``result.groups`` and ``result.subgroups``.

    Raises:
        EvenhandError: the decisions or the configuration cannot be used.

    Examples:
        >>> import evenhand
        >>> sex = ["F"] * 50 + ["M"] * 50
        >>> decided = [1] * 10 + [0] * 40 + [1] * 25 + [0] * 25
        >>> result = evenhand.audit_predictions(decided, sensitive_features={"sex": sex})
        >>> result.groups.breakdowns[0].gap("demographic_parity_ratio").value.value
        0.4
        >>> scores = [0.9] * 10 + [0.4] * 40 + [0.8] * 25 + [0.3] * 25
        >>> result = evenhand.audit_predictions(y_score=scores, threshold=0.5, sensitive_features={"sex": sex})
        >>> result.groups.breakdowns[0].gap("demographic_parity_ratio").value.value
        0.4
    """
    from evenhand import auditing
    from evenhand.schema.arrays import check_type
    from evenhand.schema.decisions import table_of_decisions
    from evenhand.schema.target import OutcomeRole

    check_type("metrics", settings.get("metrics"), Mapping, "a mapping from names to functions")
    named = {"y_true": y_true, "y_pred": y_pred, "sensitive_features": sensitive_features}
    y_true, y_pred, sensitive_features = _name_arrays(arrays, named)
    if "favorable" in settings:
        settings["favourable"] = settings.pop("favorable")
    kept = ("favourable", "unfavourable", "favourable_target", "schema", "accept_proposals")
    about: dict[str, Any] = {name: settings.pop(name) for name in kept if name in settings}
    about["outcome"] = OutcomeRole.of(**{n: settings.pop(n) for n in ("kind", "order", "unit") if n in settings})
    if "data" in settings:
        about["data"] = read_data(settings.pop("data"), settings, large=True)
    frame, roles = table_of_decisions(
        y_pred,
        sensitive_features,
        y_true=y_true,
        y_score=y_score,
        sample_weight=sample_weight,
        threshold=threshold,
        low_is_good=low_is_good,
        membership=membership,
        **about,
    )
    return auditing.audit_decisions(roles.read(frame), **settings)


def _name_arrays(arrays: Sequence[Any], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return true labels, decisions and sensitive features from positional and named arguments.

    Raises:
        OptionError: There are more than three positional arguments, an argument is given twice, or there are no
            sensitive features.
    """
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


@takes_progress
def audit_rankings(
    rank: Any = None,
    *,
    sensitive_features: Any,
    rank_by: Any = None,
    query: Any = None,
    relevance: Any = None,
    **settings: Any,
) -> RankingResult:
    """Audit rankings: who is selected at k, who gets attention, and who stands above whom, by group.

    Args:
        rank: the place of each candidate in its list, from 1 on, shape (n,). Left out where a score ranks.
        sensitive_features: what groups are made by: a data frame, a dictionary, a column, or an array of shape (n,) or
            (n, attributes).
        rank_by: in place of ``rank``: the score of each candidate, the highest first, shape (n,).
        query: which list each candidate is in, such as a search, shape (n,); left out, all are in one list.
        relevance: how much attention each candidate deserves, such as clicks or grades, at least 0, shape (n,).
        settings: ``schema`` and ``accept_proposals`` (see ``evenhand.schema.RankingRoles``); ``data_name``; fields of
            ``evenhand.groups.RankingConfig``, above all ``at``, how many places count as selected.

    Returns:
        The result; ``result.breakdowns`` has the groups and the gaps between them, ``result.to_frame()`` all numbers.

    Raises:
        EvenhandError: the rankings or the configuration cannot be used.

    Examples:
        >>> import numpy as np, evenhand
        >>> rng = np.random.default_rng(0)
        >>> search = np.repeat(np.arange(100), 20)  # 100 searches, 20 candidates each
        >>> sex = rng.choice(["F", "M"], 2000)
        >>> score = rng.normal(size=2000) + 0.5 * (sex == "M")
        >>> result = evenhand.audit_rankings(rank_by=score, query=search, sensitive_features={"sex": sex}, at=5)
        >>> gap = result.breakdowns[0].gap("exposure_ratio")
        >>> gap.worst, round(gap.number.value, 2), round(gap.number.low, 2), round(gap.number.high, 2)
        ('F', 0.81, 0.79, 0.85)
    """
    from evenhand.groups.rankings.analysis import measure_rankings
    from evenhand.schema.recorded.rankings import table_of_rankings

    kept = ("schema", "accept_proposals")
    about = {name: settings.pop(name) for name in kept if name in settings}
    frame, roles = table_of_rankings(
        sensitive_features, rank=rank, rank_by=rank_by, query=query, relevance=relevance, **about
    )
    return measure_rankings(roles.read(frame), **settings)


@takes_progress
def compare(before: AuditResult | str | Path, after: AuditResult | str | Path, **settings: Any) -> AuditComparison:
    """Compare two audits number by number: two models, two releases, two periods.

    Args:
        before, after: results of ``audit`` or ``audit_predictions``, files that hold them, or folders of reports.
            With ``keep_decisions=True`` in both, about the same people, changes are paired and intervals shorter.
        settings: fields of ``evenhand.auditing.CompareConfig``: ``confidence``.

    Returns:
        The result: ``lines`` with ``before``, ``after``, ``change`` and ``verdict``; ``pairing`` says how the people
        are related.

    Raises:
        EvenhandError: a file is not an audit, or the audits have nothing in common.

    Examples:
        >>> import evenhand
        >>> sex = {"sex": ["F"] * 200 + ["M"] * 200}
        >>> first = [1] * 40 + [0] * 160 + [1] * 100 + [0] * 100
        >>> second = [1] * 88 + [0] * 112 + [1] * 100 + [0] * 100
        >>> audits = [
        ...     evenhand.audit_predictions(decided, sensitive_features=sex, keep_decisions=True)
        ...     for decided in (first, second)
        ... ]
        >>> found = evenhand.compare(*audits)
        >>> line = found.line("demographic_parity_difference", by="sex")
        >>> round(line.change.value, 2), line.pairing, line.verdict
        (-0.24, 'paired', 'better')
    """
    from evenhand import auditing
    from evenhand.schema.arrays import check_type

    settings.pop("progress")("comparing", 0.0)
    for name, audit_or_file in (("before", before), ("after", after)):
        check_type(name, audit_or_file, auditing.AuditResult | str | Path, "a result of `audit` or its JSON file")
        if audit_or_file is None:
            raise OptionError(f"expected a result of `audit` or its JSON file as `{name}=`, got None")
    pair = [one if isinstance(one, auditing.AuditResult) else auditing.read_audit(one) for one in (before, after)]
    return auditing.compare_audits(pair[0], pair[1], **settings)


@takes_progress
def certify(
    model: Any,
    data: Any = None,
    y: Any = None,
    *,
    target: str | None = None,
    protected: Names = None,
    schema: Schema | None = None,
    favourable: Any = None,
    population: Literal["uniform", "data", "independent"] = "uniform",
    model_name: str | None = None,
    trust: bool = False,
    output: OutputKind | None = None,
    **settings: Any,
) -> Certificate:
    """Prove for which share of a population a model decides the same, whatever the protected attributes are.

    Args:
        model: A white box: a network, a linear model, or trees.
        data, y, target, protected: As for ``audit``. With ``schema`` and a uniform population, no data is needed.
        schema: Domain of the people. By default it is inferred from the data.
        favourable: Favourable label. By default that of the schema, or proposed from the data.
        population: Population that shares are measured by: ``uniform`` over the domain, ``data``, as in the data, or
            ``independent``, each attribute as in the data.
        model_name: Name of the model in messages. By default its file or type.
        trust: Whether the file of the model may run code.
        output: Meaning of the model's numeric outputs: ``probability``, ``logit`` or ``score``. By default their values
            decide.
        settings: Other arguments about the data as for ``audit``; fields of ``evenhand.certification.CertifyConfig``;
            ``certificate``, a file for the proof.

    Returns:
        The certificate: ``certified`` and ``falsified`` are proved shares, ``undecided`` is the rest.

    Raises:
        EvenhandError: the model, the data or the configuration cannot be used; ``NotAdditiveError`` where the model is
            no white box.

    Examples:
        >>> import numpy as np, pandas as pd, evenhand
        >>> from sklearn.linear_model import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"skill": rng.integers(0, 10, 200), "female": rng.integers(0, 2, 200)})
        >>> hired = (people["skill"] - 2 * people["female"] > 3).astype(int)
        >>> model = LogisticRegression().fit(people, hired)
        >>> found = evenhand.certify(model, people, hired, protected=["female"])
        >>> round(found.certified, 2), round(found.falsified, 2), round(found.undecided, 2)
        (0.8, 0.2, 0.0)
    """
    from evenhand import certification, models
    from evenhand.population.mixture import PopulationKind, choose_population
    from evenhand.schema.columns import change_target
    from evenhand.schema.target import OutcomeRole

    if population not in get_args(PopulationKind):
        raise OptionError(f"expected population 'uniform', 'data' or 'independent', got {population!r}")
    favourable = settings.pop("favorable", favourable)
    if data is None and schema is not None and population == "uniform":
        if y is not None:
            raise OptionError("expected data beside `y=`, got none", hint="pass the data, or leave `y=` out")
        outcome = OutcomeRole.of(**{name: settings.pop(name) for name in ("kind", "order", "unit") if name in settings})
        schema = change_target(schema, target, favourable, outcome)
        schema = schema.with_protected(protected) if protected else schema
        network = models.load_white_box(model, schema, trust=trust, name=model_name, output=output)
        return certification.certify(network, **settings)
    about = {"schema": schema, "favourable": favourable, "model_name": model_name, "trust": trust, "output": output}
    settings |= {name: value for name, value in about.items() if value is not None}
    subject = read_subject(model, data, y, target, protected, settings)
    wider = None
    if population != "uniform":
        wider = choose_population(population, subject.people, as_published=settings.get("as_published", False))
    certificate = certification.certify(subject.white_box, population=wider, **settings)
    return certificate.model_copy(update={"table_reading": subject.people.reading})


@takes_progress
def search(
    model: Any,
    data: Any,
    y: Any = None,
    *,
    target: str | None = None,
    protected: Names = None,
    show_people: bool = False,
    **settings: Any,
) -> SearchResult:
    """Search for people whom a model decides differently when nothing but protected attributes change.

    Args:
        model, data, y, target, protected: as for ``audit``.
        show_people: Whether examples and ``to_frame()`` show records of real people. By default they hold invented
            profiles only.
        settings: as for ``audit``, with fields of ``evenhand.individual.search.SearchConfig``, such as ``budget``,
            people whom the model may be asked about.

    Returns:
        The result: ``profiles`` is their number, ``examples`` shows the clearest, ``to_frame()`` has all of them.

    Raises:
        EvenhandError: the model, the data or the configuration cannot be used.

    Examples:
        >>> import numpy as np, pandas as pd, evenhand
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"skill": rng.integers(0, 10, 200), "female": rng.integers(0, 2, 200)})
        >>> people["hired"] = (people["skill"] > 3).astype(int)
        >>> def model(frame):
        ...     return (frame["skill"] - 2 * frame["female"] > 3).astype(int)
        >>> found = evenhand.search(model, people, target="hired", protected=["female"], seed=1)
        >>> found.profiles
        2
    """
    from evenhand.individual import search as searching

    subject = read_subject(model, data, y, target, protected, settings)
    subject.ledger.budget = settings.get("budget")
    return select_shown(searching.search(subject.scorer, subject.people, **settings), show_people)


@takes_progress
def find_subgroups(
    model: Any,
    data: Any,
    y: Any = None,
    *,
    target: str | None = None,
    protected: Names = None,
    sample_weight: Any = None,
    **settings: Any,
) -> SubgroupResult:
    """Find subgroups of people, by several attributes at once, that a model treats differently from everyone else.

    Args:
        model, data, y, target: as for ``audit``.
        protected: the attributes that describe subgroups; numbers are cut into ranges.
        sample_weight: how much each person counts, shape (n,), or the column of the data that says it; then all rates,
            gaps and intervals are weighted.
        settings: as for ``audit``, with fields of ``evenhand.subgroups.SubgroupConfig``, such as ``support``; where a
            number is decided, of ``evenhand.subgroups.NumberSubgroupConfig``, such as ``measure="residual"``.

    Returns:
        The result: ``findings``, the subgroups with their gaps, intervals and adjusted p-values.

    Raises:
        EvenhandError: the model, the data or the configuration cannot be used.

    Examples:
        >>> import numpy as np, pandas as pd, evenhand
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"age": rng.integers(20, 60, 800), "sex": rng.choice(["F", "M"], 800)})
        >>> people["hired"] = rng.integers(0, 2, 800)
        >>> def model(frame):
        ...     return 1 - ((frame["sex"] == "F") & (frame["age"] < 40)).astype(int)
        >>> found = evenhand.find_subgroups(model, people, target="hired", protected=["age", "sex"])
        >>> evenhand.subgroups.describe_rules(found.findings[0].rules)
        'age 39 or less, sex F'
    """
    from evenhand import subgroups

    subject = read_subject(model, data, y, target, protected, settings, varied=False, weights=sample_weight)
    subject.ledger.budget = settings.get("budget")
    if protected is not None and "attributes" in settings:
        raise OptionError("expected either `protected=` or the setting `attributes`, got both", location="`protected=`")
    settings = {"attributes": protected, "weights": subject.weights, **settings}
    if subject.people.schema.target.is_number:
        return subgroups.find_number_subgroups(subject.regressor, subject.people, **settings)
    return subgroups.find_subgroups(subject.scorer, subject.people, **settings)


@takes_progress
def mitigate(
    model: Any, data: Any, y: Any = None, *, target: str | None = None, protected: Names = None, **settings: Any
) -> Mitigation:
    """Train new models that do less of what was found, and compare them with the given one on people kept aside.

    Args:
        model, data, y, target, protected: as for ``audit``.
        settings: as for ``audit``, with fields of ``evenhand.mitigation.MitigationConfig``, above all ``methods`` and
            ``findings``, results of ``search``, ``find_subgroups``, ``certify`` or ``audit``, or their JSON files, to
            learn from; besides ``test`` and ``out`` of ``evenhand.mitigation.mitigate``.

    Returns:
        ``result``, the comparison, and ``candidates``, the new models; ``save(path)`` writes the first.

    Raises:
        EvenhandError: the model, the data, the findings or the configuration cannot be used.

    Examples:
        >>> import numpy as np, pandas as pd, evenhand
        >>> from sklearn.linear_model import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> people = pd.DataFrame({"skill": rng.integers(0, 10, 400), "female": rng.integers(0, 2, 400)})
        >>> hired = (people["skill"] - 2 * people["female"] > 3).astype(int)
        >>> model = LogisticRegression().fit(people, hired)
        >>> about = {"y": hired, "protected": ["female"]}
        >>> found = evenhand.search(model, people, **about)
        >>> done = evenhand.mitigate(model, people, **about, findings=[found], methods=["retrain"])
        >>> [(candidate.method, candidate.control) for candidate in done.candidates]
        [('retrain', False), ('refit', True)]
    """
    from evenhand import mitigation

    subject = read_subject(model, data, y, target, protected, settings)
    subject.ledger.budget = settings.get("budget")
    return mitigation.mitigate(subject, **settings)


@takes_progress
def synthesize_shield(config: Mapping[str, Any] | str | Path | None = None, **entries: Any) -> ShieldPolicy:
    """Make the cheapest shield that keeps a fairness property in every run of decisions.

    Args:
        config: a configuration as a mapping, or a file of one (YAML or TOML; see the reference of shield files).
        entries: entries of a configuration, in place of those in a mapping.

    Returns:
        The policy; ``evenhand.shields.Shield(policy)`` decides by it, ``evenhand.shields.save_policy`` writes it.

    Raises:
        OptionError: the configuration makes no sense, or no shield keeps the property.
        LimitError: the shield is too large for this machine's memory.

    Examples:
        >>> import evenhand
        >>> policy = evenhand.synthesize_shield(
        ...     property="demographic_parity",
        ...     kappa="0.2",
        ...     horizon=20,
        ...     groups={"a": {"rate": 0.4, "accept": 0.3}, "b": {"rate": 0.6, "accept": 0.6}},
        ... )
        >>> round(policy.expected_cost, 2)  # decisions overridden in 20
        1.97
        >>> shield = evenhand.shields.Shield(policy)
        >>> shield.decide("a", 1).decision
        1
    """
    from evenhand import shields
    from evenhand.schema.arrays import check_type

    check_type("config", config, Mapping | str | Path, "a mapping or a file")
    say = entries.pop("progress")
    say("synthesizing the shield", 0.0)
    if entries and not isinstance(config, Mapping | None):
        raise OptionError(f"expected a file or entries, got {config} and {', '.join(entries)}")
    source = config if isinstance(config, str | Path) else {**(config or {}), **entries}
    plan = shields.read_plan(source)
    return shields.synthesize(plan, progress=lambda done, of: say("synthesizing the shield", done / of))


@takes_progress
def audit_language_model(model: Any, data: Any, *, show_people: bool = False, **settings: Any) -> LanguageModelAudit:
    """Audit a language model that decides about people: gaps between groups, beyond its own noise and that of names.

    Args:
        model: the file of a language model, or its entries as a mapping.
        data: a data frame or the path of a table, whose rows are templates of the prompt; or a list of texts.
        show_people: Whether the result shows rows of the data, prompts and answers. By default it does not.
        settings: as for ``evenhand.llm.audit_language_model``, such as ``calls``, ``answers``, ``seed``.

    Examples:
        >>> import evenhand
        >>> from evenhand.testing import FakeChat
        >>> entries = {"prompt": "{{ person.name }}: {{ text }} Invite?", "people": {"names": "bertrand-mullainathan"}}
        >>> entries["answers"] = {"choices": ["yes", "no"], "favourable": "yes"}
        >>> with FakeChat(0.5) as chat:
        ...     entries["service"] = {"url": chat.url, "model": "fake"}
        ...     found = evenhand.audit_language_model(entries, ["A clerk.", "A cook."], sweeps=3, findings=0)
        >>> found.usage.calls
        32
    """
    from evenhand import llm
    from evenhand.models.language.file import ScreeningFile
    from evenhand.schema.arrays import check_type

    check_type("model", model, Mapping | ScreeningFile | str | Path, "a file or a mapping of its entries")
    result = llm.audit_language_model(model, read_data(data, settings, words=True), **settings)
    return select_shown(result, show_people)


@takes_progress
def assess_generator(
    items: Any,
    groups: Sequence[str],
    *,
    values: Mapping[str, Sequence[str]] | None = None,
    repeated: int | Mapping[str | tuple[str, ...], int | Sequence[int]] | None = None,
    conditions: Mapping[str, str] | None = None,
    sequence_column: str | None = None,
    **config: Any,
) -> GenaiAssessment:
    """Assess what a generator showed: does every value of a group appear, again and again, and how often?

    Args:
        items: a data frame or the path of a table, one row per item in the order of the requests; an empty label means
            that it was not recognised.
        groups: columns of labels.
        values: group -> the values that are to appear; by default those in the table.
        repeated: within how many items each value must come again: for all groups, or group -> number, or one number
            per value. None: nothing is required, and what would hold is reported.
        conditions: column -> value; only items that have all of these are assessed.
        sequence_column: its values name sequences, which are assessed apart.
        config: other arguments of ``evenhand.genai.assess_sequences``, such as ``confidence`` and ``ways``.

    Returns:
        The assessment: ``sequences``, each with what was found about every group and value.

    Raises:
        EvenhandError: the table or the configuration cannot be used.

    Examples:
        >>> import pandas as pd, evenhand
        >>> items = pd.DataFrame({"gender": ["female", "male", "male", "male", "female", "male"]})
        >>> found = evenhand.assess_generator(items, groups=["gender"], repeated=3)
        >>> [(value.value, value.longest_wait, value.missed) for value in found.sequences[0].groups[0].values]
        [('female', 4, (4,)), ('male', 2, ())]
    """
    from evenhand import genai
    from evenhand.schema.columns import list_names

    config.pop("progress")("assessing", 0.0)
    found = genai.read_sequences(
        items, list_names(groups, "groups"), conditions=conditions, values=values, sequence_column=sequence_column
    )
    return genai.assess_sequences(found, repeated=repeated, conditions=conditions, **config)
