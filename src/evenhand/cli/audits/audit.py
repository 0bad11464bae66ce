"""``evenhand audit MODEL DATA``: audit a model, decisions or rankings, write a report, and check conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, cast

import typer

from evenhand.cli.audits.gates import GateOptions
from evenhand.cli.audits.rankings import RankingOptions, audit_rankings, refuse_for_rankings
from evenhand.cli.factory import ConfigOptions, grouped
from evenhand.cli.options import (
    ConsentOptions,
    DataOptions,
    DataSource,
    OutputOptions,
    PeopleOptions,
    choose_folder,
    open_data,
)
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from evenhand.auditing.config import AuditConfig, DecisionAuditConfig
    from evenhand.auditing.gates.conditions import Gate
    from evenhand.auditing.result import AuditResult
    from evenhand.core.typing import Booleans, Progress
    from evenhand.dossier.result import DossierName
    from evenhand.models.subject import Subject
    from evenhand.schema.decisions import DecisionRoles, RecordedDecisions, RecordedLabels, RecordedNumbers
    from evenhand.schema.people import People, SampleRoles

    Recorded: TypeAlias = RecordedDecisions | RecordedLabels | RecordedNumbers

AUDIT_DOSSIERS = ("ll144", "ugesp", "disparity")
"""Dossiers that are compiled from people and outcomes only."""

DECISIONS: ConfigOptions[DecisionAuditConfig] = ConfigOptions(
    "evenhand.auditing:DecisionAuditConfig",
    about="recorded decisions",
    hint="leave it out, or pass a MODEL instead of --decision",
    without=("confidence", "seed"),
)
SETTINGS: ConfigOptions[AuditConfig] = ConfigOptions(
    "evenhand.auditing:AuditConfig",
    without=("confidence", "samples", "searched", "seed", "threshold"),
)


@grouped
def audit(
    context: typer.Context,
    people: DataOptions,
    rankings: RankingOptions,
    output: OutputOptions,
    run: ConsentOptions,
    gating: GateOptions,
    rows: PeopleOptions,
    model: Annotated[
        str | None,
        typer.Argument(help="Model file, http(s) URL or module:function; none with --decision or --rank."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Argument(
            help="CSV, JSON lines, Parquet or Excel file, folder or pattern of Parquet files, or a data set's name."
        ),
    ] = None,
    example: Annotated[
        str | None, typer.Option("--example", help="Train a model on this data set and audit it, e.g. adult.")
    ] = None,
    decision: Annotated[
        str | None, typer.Option("--decision", help="Audit the decisions in this column of DATA, without a model.")
    ] = None,
    favourable_target: Annotated[
        str | None,
        typer.Option("--favourable-target", help="With --decision: the favourable true label in the --target column."),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option("--score", help="Column of scores of the favourable decision; with --threshold, they decide."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            help="Minimum score of a favourable decision, e.g. 0.5, instead of the decisions of the model or of DATA.",
        ),
    ] = None,
    low_is_good: Annotated[
        bool, typer.Option("--low-is-good", help="Low scores are favourable, as for risks: select up to --threshold.")
    ] = False,
    weight: Annotated[
        str | None, typer.Option("--weight", help="Column of sample weights, for numbers of groups and subgroups.")
    ] = None,
    membership: Annotated[
        list[str] | None,
        typer.Option(
            "--membership",
            metavar="NAME=GROUP:COLUMN,...",
            help="Columns of group probabilities, e.g. race=white:p_white,black:p_black; may be repeated.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME=MODULE:FUNCTION",
            help="Custom metric: function of y_true and y_pred (or y_score), e.g. cost=mymodule:cost. The module is "
            "imported. May be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for report.html and report.json (default evenhand-report; none with --json)."
        ),
    ] = None,
    dossiers: Annotated[
        list[str] | None,
        typer.Option("--dossier", help="Also write this dossier about the same people, e.g. ll144; may be repeated."),
    ] = None,
) -> None:
    """Audit a model, recorded decisions or rankings, and write a report."""
    from evenhand import view
    from evenhand.groups.custom import read_metrics
    from evenhand.schema.decisions import DecisionRoles
    from evenhand.schema.people import SampleRoles

    metrics = read_metrics(metric or ())
    gates = gating.read(metrics)
    output.check_places(**gating.places)
    rows.check()
    dossier_names = _read_dossiers(dossiers or [])
    folder = choose_folder(out, output.json, "evenhand-report")
    if dossier_names and folder is None:
        raise OptionError("a dossier requires a folder for the report", location="--dossier", hint="add --out FOLDER")
    if rankings.are_audited:
        options: dict[str, object] = {"--decision": decision, "--score": score, "--threshold": threshold}
        options |= {"--low-is-good": low_is_good or None}
        options |= {"--weight": weight, "--example": example, "--metric": metric, "--dossier": dossiers}
        options |= {"--membership": membership}
        if data is not None:
            raise OptionError(f"rankings are audited without a model, got MODEL {model}", hint="leave it out")
        refuse_for_rankings(options, people)
        ranked = audit_rankings(context, model, rankings, people, output, gates)
        output.emit(ranked)
        output.show(ranked.document, view.write_report(ranked, folder) if folder is not None else ())
        gating.leave(ranked, gates, str(model))
        return
    memberships = _read_membership(membership or [])
    extras = _Extras(gates, metrics, dossiers=bool(dossier_names))
    if decision is not None or score is not None:
        option = "--score" if decision is None else "--decision"
        if example is not None or data is not None:
            received = "--example" if example is not None else f"MODEL {model}"
            raise OptionError(f"{option} audits decisions without a model, got {received}", hint="leave one out")
        roles = DecisionRoles(
            decision,
            people.protected,
            people.target,
            score,
            weight,
            people.favourable,
            people.unfavourable or (),
            favourable_target,
            threshold=threshold,
            accept_proposals=people.accept_proposals,
            outcome=people.outcome,
            membership=memberships or None,
            low_is_good=low_is_good,
        )
        audited = _audit_decisions(context, model, roles, people, output, extras)
    else:
        if low_is_good:
            hint = "the score of a model is that of its favourable label: --favourable LABEL"
            raise OptionError("--low-is-good requires scores in a column of DATA", location="--score", hint=hint)
        if example is not None and (model is not None or data is not None):
            raise OptionError("--example includes a model and data", hint="leave MODEL and DATA out")
        config = SETTINGS.read(context, seed=people.seed, threshold=threshold)
        source = _ModelSource(model, data, example, SampleRoles(weight, memberships))
        audited = _audit_model(source, config, people, output, run, extras)
    result = rows.tell(audited.result)
    dossier = None
    if dossier_names and audited.people is not None:
        from evenhand.dossier.audited import compile_audited

        dossier = compile_audited(
            audited.people,
            audited.decide(),
            audited.frame,
            protected=result.protected,
            dossiers=dossier_names,
            data_name=result.data.name,
        )
    paths = view.write_report(result, folder, dossier=dossier) if folder is not None else ()
    output.emit(result)
    output.show(result.document, paths)
    gating.leave(result, gates, model or f"example {example}")


class _Extras(NamedTuple):
    """Conditions and custom metrics of an audit, and whether dossiers are written."""

    gates: list[Gate]
    metrics: dict[str, Callable[..., Any]]
    dossiers: bool = False


def _audit_decisions(
    context: typer.Context,
    data: str | None,
    roles: DecisionRoles,
    people: DataOptions,
    output: OutputOptions,
    extras: _Extras,
) -> _Audited:
    """Audit the decisions in a column of DATA."""
    from evenhand import auditing, view

    if data is None:
        raise OptionError(
            "an audit of decisions requires DATA", hint="evenhand audit decisions.csv --decision COLUMN ..."
        )
    config = DECISIONS.read(context, seed=people.seed)
    with view.show_progress(quiet=output.silent) as progress:
        decisions, source = _read_decisions(data, roles, config, people, extras, progress)
        for gate in extras.gates:
            gate.check_attributes((*decisions.people.schema.names, *(roles.membership or {})))
        result = auditing.audit_decisions(
            decisions, config, metrics=extras.metrics, data_name=source.name, progress=progress
        )
    return _Audited(
        result, decisions.people, source.frame, lambda: _require_decisions(getattr(decisions, "selected", None))
    )


def _read_decisions(
    data: str,
    roles: DecisionRoles,
    config: DecisionAuditConfig,
    people: DataOptions,
    extras: _Extras,
    progress: Progress,
) -> tuple[Recorded, DataSource]:
    """Read the decisions in DATA. Large data are counted by their engine, unless single rows are required."""
    from evenhand.errors import EvenhandError

    requires_rows = [
        roles.score,
        roles.weight,
        roles.membership,
        extras.metrics,
        extras.dossiers,
        config.thresholds,
        config.keep_decisions,
    ]
    large = None if any(requires_rows) else open_data(data, schema=people.schema)
    if large is not None:
        progress("counting the rows where they are", 0.0)
        try:
            return dataclasses.replace(roles, schema=large.schema).read(large.frame, location=large.name), large
        except EvenhandError:
            if large.name == data:
                raise
            # A single file is read into memory instead, which also gives the clearer error.
    progress("reading the decisions", 0.0)
    source = people.read(data)
    return dataclasses.replace(roles, schema=source.schema).read(source.frame, location=source.name), source


class _Audited(NamedTuple):
    """Audit with its people, the data as read, and a function that returns who gets the favourable decision."""

    result: AuditResult
    people: People | None
    frame: Any
    decide: Callable[[], Booleans]


class _ModelSource(NamedTuple):
    """MODEL and DATA or an example, and the columns of weights and group probabilities."""

    model: str | None
    data: str | None
    example: str | None
    sample: SampleRoles


def _audit_model(
    source: _ModelSource,
    config: AuditConfig,
    people: DataOptions,
    output: OutputOptions,
    run: ConsentOptions,
    extras: _Extras,
) -> _Audited:
    """Audit MODEL on the people in DATA, or a model trained on an example."""
    from evenhand import auditing, view
    from evenhand.auditing.analysis import forecast_queries

    model, data, example, sample = source
    with view.show_progress(quiet=output.silent) as progress:
        if example is not None:
            progress(f"training a model on {example}", 0.0)
            subject = _train_example(example, people, sample)
        else:
            if model is None or data is None:
                hint = "for decisions without a model: --decision COLUMN; to try it: evenhand audit --example adult"
                raise OptionError("an audit requires MODEL and DATA", hint=hint)
            subject = people.read_subject(model, data, progress, sample=sample)
    for gate in extras.gates:
        gate.check_attributes((*subject.people.schema.protected, *(sample.membership or {})))
    subject.ledger.budget = run.approve(model, config.budget, forecast_queries(subject.people, config))
    with view.show_progress(quiet=output.silent) as progress:
        result = auditing.audit(subject, config, metrics=extras.metrics, progress=progress)
    return _Audited(result, subject.people, subject.people.frame, lambda: _require_decisions(_ask_decisions(subject)))


def _ask_decisions(subject: Subject) -> Booleans | None:
    """Query the model for who gets the favourable decision. None for numbers."""
    import numpy as np

    from evenhand.models.scorer import predict_labels

    if subject.people.schema.target.is_number:
        return None
    labels = predict_labels(subject.scorer, subject.people.individuals)
    return np.asarray(labels == subject.scorer.favourable, dtype=np.bool_)


def _require_decisions(selected: Booleans | None) -> Booleans:
    if selected is None:
        raise OptionError(
            "a dossier of an audit requires decisions, got numbers",
            location="--dossier",
            hint="write a dossier of scores: evenhand dossier DATA, with outcome: {kind: score}",
        )
    return selected


def _read_dossiers(names: list[str]) -> tuple[DossierName, ...]:
    """Check the names of dossiers, and remove duplicates."""
    for name in names:
        if name not in AUDIT_DOSSIERS:
            hint = f"one of: {', '.join(AUDIT_DOSSIERS)}; for alternatives: evenhand dossier --result FILE"
            raise OptionError(f"audits do not write a dossier {name!r}", location="--dossier", hint=hint)
    return cast("tuple[DossierName, ...]", tuple(dict.fromkeys(names)))


def _train_example(name: str, people: DataOptions, sample: SampleRoles) -> Subject:
    """Train a model on a data set, and return it with the people held out from its training."""
    from evenhand import auditing, datasets
    from evenhand.models.subject import Subject

    dataset = datasets.load_dataset(name, data_home=people.data_home)
    trained, held_out = auditing.train_example(dataset, seed=people.seed)
    described = DataSource(held_out, dataset.schema, f"data set {name}, people held out from training")
    encoded, counted = people.weigh(described, sample)
    return Subject(trained, encoded, described.name, f"logistic regression trained on {name}", **counted)


def _read_membership(texts: Sequence[str]) -> dict[str, dict[str, str]]:
    """Parse texts such as ``race=white:p_white,black:p_black`` to the column of each group, by attribute.

    Raises:
        OptionError: A text has another form, or repeats an attribute.
    """
    memberships: dict[str, dict[str, str]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        parts = [part.partition(":") for part in listed.split(",")]
        groups = {group.strip(): column.strip() for group, _, column in parts}
        name = name.strip()
        if not name or not all(groups) or not all(groups.values()) or len(groups) < max(2, len(parts)):
            raise OptionError(
                f"expected a name and a column for each of at least two groups, got {text!r}",
                location="--membership",
                hint="for example race=white:p_white,black:p_black",
            )
        if name in memberships:
            raise OptionError(f"{name!r} is repeated", location="--membership", hint="pass each name once")
        memberships[name] = groups
    return memberships
