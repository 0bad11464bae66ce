"""``evenhand audit MODEL DATA``: audit a model, write a report, and check conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from evenhand import auditing, datasets, models
from evenhand.cli.audits.gates import GateOptions
from evenhand.cli.audits.report import ReportOptions
from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.options import DATA_HELP, AcceptOption, DataOptions, DataSource, PeopleOptions, approve_queries
from evenhand.errors import NotAdditiveError, OptionError

if TYPE_CHECKING:
    from evenhand.stats.metric_specs import Family

SETTINGS: ConfigOptions[auditing.AuditConfig] = ConfigOptions(
    "evenhand.auditing:AuditConfig", ("min_group_size", "keep_decisions", "time_limit", "budget")
)


def audit(
    settings: Settings,
    people: DataOptions,
    output: ReportOptions,
    gating: GateOptions,
    rows: PeopleOptions,
    model: str | None = typer.Argument(None, help="Model file, http(s) URL or module:function."),
    data: str | None = typer.Argument(None, help=DATA_HELP),
    example: str | None = typer.Option(None, help="Train a model on this data set and audit it, e.g. adult."),
    threshold: float | None = typer.Option(
        None, help="Minimum score of a favourable decision, instead of the model's decisions."
    ),
    accept_proposals: AcceptOption = False,
) -> None:
    """Audit a model on people, and write a report."""
    from evenhand.auditing.analysis import forecast_queries

    gates = gating.read()
    config = SETTINGS.read(settings, seed=people.seed, threshold=threshold)
    with output.progress() as progress:
        if example is not None:
            if model is not None:
                raise OptionError("--example includes a model and data", hint="leave MODEL and DATA out")
            progress(f"training a model on {example}", 0.0)
            subject = _train_example(example, people, accept_proposals=accept_proposals)
        elif model is None or data is None:
            hint = "to audit recorded decisions: evenhand audit-decisions DATA --decision COLUMN; to try an audit: "
            raise OptionError("an audit requires MODEL and DATA", hint=hint + "evenhand audit --example adult")
        else:
            subject = people.read_subject(model, data, progress, accept_proposals=accept_proposals)
    _check_gates(gates, subject, threshold)
    subject.ledger.budget = approve_queries(model, config.budget, forecast_queries(subject.people, config))
    with output.progress() as progress:
        result = auditing.audit(subject, config, progress=progress)
    result = rows.hide(result)
    output.publish(result)
    gating.leave(result, gates, model or f"example {example}")


def _check_gates(gates: list[auditing.Gate], subject: models.Subject, threshold: float | None) -> None:
    """Refuse conditions on numbers that the audit will not contain, before the model is queried."""
    from evenhand.auditing.gates.conditions import AUDITED_FAMILIES

    schema = subject.people.schema
    # A threshold or a number is not certified.
    certified = threshold is None and not schema.target.is_number
    individuals: tuple[Family, ...] = ("individual", "proof") if certified else ("individual",)
    for gate in gates:
        gate.check_numbers(schema.protected, AUDITED_FAMILIES[schema.target.kind] + individuals, schema.target.values)
    # Without a favourable label, a model can only be loaded by the audit.
    if schema.target.kind != "labels" and any(gate.names_any("proof") for gate in gates):
        try:
            _ = subject.white_box
        except NotAdditiveError as error:
            raise OptionError(
                f"a condition is on a proof, but {error.message}", location="--fail-on", hint="leave it out"
            ) from None


def _train_example(name: str, people: DataOptions, *, accept_proposals: bool) -> models.Subject:
    """Train a model on a data set, and return it with the people held out from its training."""
    dataset = datasets.load_dataset(name)
    trained, held_out = auditing.train_example(dataset, seed=people.seed)
    source = DataSource(held_out, dataset.schema, f"{name}, held-out people")
    model_name = "logistic regression"
    encoded = people.encode(source, accept_proposals=accept_proposals)
    return models.Subject(trained, encoded, source.name, model_name, held_out=True)
