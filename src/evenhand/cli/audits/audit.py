"""``evenhand audit MODEL DATA``: every analysis that fits, a report, and gates for continuous integration."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias, cast

import typer

from evenhand.cli.audits.gates import GateOptions
from evenhand.cli.audits.rankings import RankingOptions, audit_rankings, refuse_for_rankings
from evenhand.cli.certify import parse_edges
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

BESIDE = ("ll144", "ugesp", "disparity")
"""Dossiers that need people and outcomes alone."""


DECISIONS: ConfigOptions[DecisionAuditConfig] = ConfigOptions(
    "evenhand.auditing:DecisionAuditConfig",
    about="decisions already made",
    hint="leave it out, or give a MODEL in place of --decision",
    without=("confidence", "seed"),
)
SETTINGS: ConfigOptions[AuditConfig] = ConfigOptions(
    "evenhand.auditing:AuditConfig",
    without=("confidence", "samples", "searched", "seed", "threshold"),
    parsed={"bands": lambda given: parse_edges(given)},
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
        str | None, typer.Option("--example", help="Audit a model trained on the spot on this data set, e.g. adult.")
    ] = None,
    decision: Annotated[
        str | None, typer.Option("--decision", help="Audit the decisions in this column of DATA; no model is needed.")
    ] = None,
    favourable_target: Annotated[
        str | None,
        typer.Option("--favourable-target", help="With --decision: the favourable true label in the --target column."),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option("--score", help="Column of the favourable decision's score; with --threshold it decides."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            help="Select from this score on, in place of the model's or the recorded decision, e.g. 0.5.",
        ),
    ] = None,
    low_is_good: Annotated[
        bool, typer.Option("--low-is-good", help="Low scores are good, as of a risk: select up to --threshold.")
    ] = False,
    weight: Annotated[
        str | None, typer.Option("--weight", help="Column of how much each person counts, in what is said of groups.")
    ] = None,
    membership: Annotated[
        list[str] | None,
        typer.Option(
            "--membership",
            metavar="NAME=GROUP:COLUMN,...",
            help="Groups known by probability, e.g. race=white:p_white,black:p_black; may be repeated.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME=MODULE:FUNCTION",
            help="Measure a function of y_true and y_pred (or y_score) by group too, e.g. cost=mymodule:cost; its "
            "module is imported; may be repeated.",
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
        typer.Option("--dossier", help="Write a dossier of the same people beside the report, e.g. ll144."),
    ] = None,
) -> None:
    """Audit a model on people with known labels, decisions already made, or rankings; write a report."""
    from evenhand import view
    from evenhand.groups.custom import read_metrics
    from evenhand.schema.decisions import DecisionRoles
    from evenhand.schema.people import SampleRoles

    metrics = read_metrics(metric or ())
    gates = gating.read(metrics)
    output.check_places(**gating.places)
    rows.check()
    wanted = _read_dossiers(dossiers or [])
    folder = choose_folder(out, output.json, "evenhand-report")
    if wanted and folder is None:
        raise OptionError("a dossier is written beside the report", location="--dossier", hint="name a folder: --out")
    if rankings.wanted:
        others: dict[str, object] = {"--decision": decision, "--score": score, "--threshold": threshold}
        others |= {"--low-is-good": low_is_good or None}
        others |= {"--weight": weight, "--example": example, "--metric": metric, "--dossier": dossiers}
        others |= {"--membership": membership}
        if data is not None:
            raise OptionError(f"rankings are audited without a model, got MODEL {model} too", hint="leave it out")
        refuse_for_rankings(others, people)
        placed = audit_rankings(context, model, rankings, people, output, gates)
        output.emit(placed)
        output.show(placed.document, view.write_report(placed, folder) if folder is not None else ())
        gating.leave(placed, gates, str(model))
        return
    probable = _read_membership(membership or [])
    if decision is not None or score is not None:
        option = "--score" if decision is None else "--decision"
        if example is not None or data is not None:
            given = "--example" if example is not None else f"MODEL {model}"
            raise OptionError(f"{option} audits decisions without a model, got {given} too", hint="leave one out")
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
            membership=probable or None,
            low_is_good=low_is_good,
        )
        result, whom, frame, decide = _audit_decisions(
            context, model, roles, people, output, run, _Asked(gates, metrics, bool(wanted))
        )
    else:
        if low_is_good:
            hint = "a model's score is that of its favourable label, whose name you give: --favourable"
            raise OptionError("--low-is-good is about scores in a column of DATA", location="--score", hint=hint)
        if example is not None and (model is not None or data is not None):
            raise OptionError("--example brings its own model and data", hint="leave MODEL and DATA out")
        config = SETTINGS.read(context, seed=people.seed, threshold=threshold)
        chosen = _Chosen(model, data, example, SampleRoles(weight, probable))
        asked = _Asked(gates, metrics, dossiers=bool(wanted))
        result, whom, frame, decide = _audit_model(chosen, config, people, output, run, asked)
    result = rows.tell(result)
    made = None
    if wanted and whom is not None:
        from evenhand.dossier.audited import compile_audited

        made = compile_audited(
            whom, decide(), frame, protected=result.protected, dossiers=wanted, data_name=result.data.name
        )
    written = view.write_report(result, folder, dossier=made) if folder is not None else ()
    output.emit(result)
    if not output.silent:
        view.show_document(result.document(), written=written)
    gating.leave(result, gates, model or f"example {example}")


class _Asked(NamedTuple):
    """What is asked beyond the settings.

    Attributes:
        gates: conditions to fail on.
        metrics: metrics of the user's own.
        dossiers: whether dossiers are written beside the report.
    """

    gates: list[Gate]
    metrics: dict[str, Callable[..., Any]]
    dossiers: bool = False


def _audit_decisions(
    context: typer.Context,
    data: str | None,
    roles: DecisionRoles,
    people: DataOptions,
    output: OutputOptions,
    run: ConsentOptions,
    asked: _Asked,
) -> _Audited:
    """Audit the decisions in a column of DATA."""
    from evenhand import auditing, view

    if data is None:
        raise OptionError("an audit of decisions needs DATA", hint="evenhand audit decisions.csv --decision COLUMN ...")
    config = DECISIONS.read(context, seed=people.seed)
    with view.show_progress(quiet=output.silent) as progress:
        read, source = _read_decisions(data, roles, config, people, asked, progress)
        for gate in asked.gates:
            gate.check_attributes((*read.people.schema.names, *(roles.membership or {})))
        result = auditing.audit_decisions(read, config, metrics=asked.metrics, data_name=source.name, progress=progress)
    return _Audited(result, read.people, source.frame, lambda: _require_decisions(getattr(read, "selected", None)))


def _read_decisions(
    data: str,
    roles: DecisionRoles,
    config: DecisionAuditConfig,
    people: DataOptions,
    asked: _Asked,
    progress: Progress,
) -> tuple[Recorded, DataSource]:
    """Return the decisions in DATA; those of many rows are counted where these are, unless every person is needed."""
    from evenhand.errors import EvenhandError

    everybody = [
        roles.score,
        roles.weight,
        roles.membership,
        asked.metrics,
        asked.dossiers,
        config.thresholds,
        config.keep_decisions,
    ]
    large = None if any(everybody) else open_data(data, schema=people.schema)
    if large is not None:
        progress("counting the rows where they are", 0.0)
        try:
            return dataclasses.replace(roles, schema=large.schema).read(large.frame, location=large.name), large
        except EvenhandError:
            if large.name == data:
                raise
            # A single file is read whole, as one of few rows is: what cannot be counted is said, or done, of that.
    progress("reading the decisions", 0.0)
    source = people.read(data)
    return dataclasses.replace(roles, schema=source.schema).read(source.frame, location=source.name), source


class _Audited(NamedTuple):
    """An audit, whom it was about, their data as read, and who is given the favourable decision, asked when needed."""

    result: AuditResult
    people: People | None
    frame: Any
    decide: Callable[[], Booleans]


class _Chosen(NamedTuple):
    """What is audited: MODEL on DATA or an example, and the columns of weights and probabilities of groups."""

    model: str | None
    data: str | None
    example: str | None
    sample: SampleRoles


def _audit_model(
    chosen: _Chosen,
    config: AuditConfig,
    people: DataOptions,
    output: OutputOptions,
    run: ConsentOptions,
    asked: _Asked,
) -> _Audited:
    """Audit MODEL on the people of DATA, or a model trained on the spot on an example."""
    from evenhand import auditing, view
    from evenhand.auditing.analysis import forecast_queries

    model, data, example, sample = chosen
    with view.show_progress(quiet=output.silent) as progress:
        if example is not None:
            progress(f"training a model on {example}", 0.0)
            subject = _train_example(example, people, sample)
        else:
            if model is None or data is None:
                hint = "or decisions alone: --decision COLUMN; or try: evenhand audit --example adult"
                raise OptionError("an audit needs a MODEL and DATA", hint=hint)
            subject = people.read_subject(model, data, progress, sample=sample)
    for gate in asked.gates:
        gate.check_attributes((*subject.people.schema.protected, *(sample.membership or {})))
    subject.ledger.budget = run.approve(model, config.budget, forecast_queries(subject.people, config))
    with view.show_progress(quiet=output.silent) as progress:
        result = auditing.audit(subject, config, metrics=asked.metrics, progress=progress)
    return _Audited(result, subject.people, subject.people.frame, lambda: _require_decisions(_ask_decisions(subject)))


def _ask_decisions(subject: Subject) -> Booleans | None:
    """Return whom the model gives the favourable decision; None where it decides a number."""
    import numpy as np

    from evenhand.models.scorer import predict_labels

    if subject.people.schema.target.is_number:
        return None
    labels = predict_labels(subject.scorer, subject.people.individuals)
    return np.asarray(labels == subject.scorer.favourable, dtype=np.bool_)


def _require_decisions(selected: Booleans | None) -> Booleans:
    if selected is None:
        raise OptionError(
            "a dossier counts decisions, and here a number is decided",
            location="--dossier",
            hint="write one from the numbers: evenhand dossier DATA, with outcome: {kind: score}",
        )
    return selected


def _read_dossiers(given: list[str]) -> tuple[DossierName, ...]:
    """Return the dossiers that are wanted beside the report."""
    for name in given:
        if name not in BESIDE:
            hint = f"one of: {', '.join(BESIDE)}; alternatives is made from a mitigation: evenhand dossier --result"
            raise OptionError(f"no dossier {name!r} is written by an audit", location="--dossier", hint=hint)
    return cast("tuple[DossierName, ...]", tuple(dict.fromkeys(given)))


def _train_example(name: str, people: DataOptions, sample: SampleRoles) -> Subject:
    """Return a model trained on the spot on a data set, and the people held out from its training."""
    from evenhand import auditing, datasets
    from evenhand.models.subject import Subject

    dataset = datasets.load_dataset(name, data_home=people.data_home)
    trained, held_out = auditing.train_example(dataset, seed=people.seed)
    described = DataSource(held_out, dataset.schema, f"data set {name}, people held out from training")
    encoded, counted = people.weigh(described, sample)
    return Subject(trained, encoded, described.name, f"logistic regression trained on {name}", **counted)


def _read_membership(given: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return attribute -> group -> column, of texts such as ``race=white:p_white,black:p_black``.

    Raises:
        OptionError: one is written otherwise, or says something twice.
    """
    found: dict[str, dict[str, str]] = {}
    for text in given:
        name, _, listed = text.partition("=")
        parts = [part.partition(":") for part in listed.split(",")]
        groups = {group.strip(): column.strip() for group, _, column in parts}
        name = name.strip()
        if not name or not all(groups) or not all(groups.values()) or len(groups) < max(2, len(parts)):
            raise OptionError(
                f"expected a name and a column for each of at least two groups, got {text!r}",
                location="--membership",
                hint="write for example race=white:p_white,black:p_black",
            )
        if name in found:
            raise OptionError(f"{name!r} is given twice", location="--membership", hint="give each name once")
        found[name] = groups
    return found
