"""``evenhand audit MODEL DATA``: every analysis that fits, a report, and gates for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.factory import ConfigOptions, grouped
from evenhand.cli.options import INTERRUPTED, DataOptions, DataSource, OutputOptions, RunOptions
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from evenhand.auditing import AuditConfig
    from evenhand.models import Subject

DEFAULT_OUT = Path("evenhand-report")


SETTINGS: ConfigOptions[AuditConfig] = ConfigOptions(
    "evenhand.auditing:AuditConfig", without=("confidence", "samples", "searched", "seed")
)


@grouped
def audit(
    context: typer.Context,
    people: DataOptions,
    output: OutputOptions,
    run: RunOptions,
    model: Annotated[str | None, typer.Argument(help="Model file, http(s) URL or module:function.")] = None,
    data: Annotated[str | None, typer.Argument(help="CSV or Parquet file, or a data set's name.")] = None,
    example: Annotated[
        str | None, typer.Option("--example", help="Audit a model trained on the spot on this data set, e.g. adult.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for report.html and report.json (default evenhand-report; none with --json)."
        ),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", help="Exit with 1 if this holds, e.g. 'flip_rate > 0.01'; may be repeated."),
    ] = None,
    allow_unassessable: Annotated[
        bool,
        typer.Option(
            "--allow-unassessable", help="Let a --fail-on pass on numbers that leave out groups too small to assess."
        ),
    ] = False,
) -> None:
    """Audit a model on people with known labels: groups, individuals, proofs; write a report."""
    from evenhand import auditing, view

    gates = [auditing.parse_gate(expression) for expression in fail_on or []]
    config, clock = SETTINGS.read(context, seed=people.seed), run.clock
    folder = out if out is not None else None if output.json is not None else DEFAULT_OUT
    if folder is not None and folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is a file, not a folder", location="--out")
    with view.show_progress(quiet=output.silent) as progress:
        if example is not None:
            if model is not None or data is not None:
                raise OptionError("--example brings its own model and data", hint="leave MODEL and DATA out")
            progress(f"training a model on {example}", 0.0)
            subject = _train_example(example, people)
        else:
            if model is None or data is None:
                raise OptionError("an audit needs a MODEL and DATA", hint="or try: evenhand audit --example adult")
            subject = people.read_subject(model, data, progress)
    for gate in gates:
        gate.check_attributes(subject.people.schema.protected)
    subject.ledger.budget = run.approve(model, config.budget, auditing.forecast_queries(subject.people, config))
    with view.show_progress(quiet=output.silent) as progress:
        result = auditing.audit(subject, config, progress=progress, clock=clock)
    written = view.write_report(result, folder) if folder is not None else ()
    output.emit(result)
    unclear = False
    failed = [gate for gate in gates if gate.holds(result)]
    if not output.silent:
        view.show_document(result.document(), written=written)
    for gate in failed:
        typer.echo(f"--fail-on: this holds: {gate.expression}", err=True)
    if not allow_unassessable:
        for gate in gates:
            for what in gate.not_assessable(result) if gate not in failed else ():
                typer.echo(f"--fail-on: not assessable in {gate.expression}: {what}", err=True)
                unclear = True
        if unclear:
            typer.echo("more people of those groups settle it; --allow-unassessable lets it pass", err=True)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)
    if failed or unclear:
        raise typer.Exit(1)


def _train_example(name: str, people: DataOptions) -> Subject:
    """Return a model trained on the spot on a data set, and the people held out from its training."""
    from evenhand import auditing, datasets
    from evenhand.models import Subject

    dataset = datasets.load_dataset(name, data_home=people.data_home)
    trained, held_out = auditing.train_example(dataset, seed=people.seed)
    described = DataSource(held_out, dataset.schema, f"data set {name}, people held out from training")
    encoded = people.encode(described, people.protected)
    return Subject(trained, encoded, described.name, f"logistic regression trained on {name}")
