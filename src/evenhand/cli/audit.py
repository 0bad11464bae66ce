"""``evenhand audit MODEL DATA``: every analysis that fits, a report, and gates for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import (
    FavourableOption,
    HomeOption,
    IgnoreOption,
    JsonOption,
    ProtectedOption,
    QuietOption,
    SchemaOption,
    SeedOption,
    TargetOption,
    TrustOption,
    emit_result,
    read_data,
)
from evenhand.errors import OptionError

DEFAULT_OUT = Path("evenhand-report")


def audit(
    model: Annotated[str | None, typer.Argument(help="Model file, http(s) URL or module:function.")] = None,
    data: Annotated[str | None, typer.Argument(help="CSV or Parquet file, or a data set's name.")] = None,
    target: TargetOption = None,
    protected: ProtectedOption = None,
    favourable: FavourableOption = None,
    schema: SchemaOption = None,
    ignore: IgnoreOption = None,
    example: Annotated[
        str | None, typer.Option("--example", help="Audit a model trained on the spot on this data set, e.g. adult.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for report.html and report.json (default evenhand-report; none with --json)."
        ),
    ] = None,
    time_limit: Annotated[
        float, typer.Option("--time-limit", help="Seconds for violation rates and certificates together.")
    ] = 60.0,
    population: Annotated[
        str, typer.Option("--population", help="Who else could apply: data (each attribute as in the data) or uniform.")
    ] = "data",
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", help="Exit with 1 if this holds, e.g. 'violation_rate > 0.01'; may be repeated."),
    ] = None,
    trust: TrustOption = False,
    seed: SeedOption = 0,
    data_home: HomeOption = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Audit a model on people with known labels: groups, individuals, proofs; write a report."""
    from evenhand import audit as auditing
    from evenhand import report

    gates = [auditing.parse(expression) for expression in fail_on or []]
    if population not in ("data", "uniform"):
        raise OptionError(f"there is no population {population!r}", where="--population", mend="data or uniform")
    config = auditing.Config(time_limit=time_limit, population="data" if population == "data" else "uniform", seed=seed)
    folder = out if out is not None else None if json is not None else DEFAULT_OUT
    if folder is not None and folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is a file, not a folder", where="--out")
    with report.progress(quiet=quiet or json == "-") as progress:
        if example is not None:
            if model is not None or data is not None:
                raise OptionError("--example brings its own model and data", mend="leave MODEL and DATA out")
            progress(f"training a model on {example}", 0.0)
            from evenhand import datasets

            dataset = datasets.load(example, data_home=data_home)
            trained, held_out = auditing.train_example(dataset, seed=seed)
            result = auditing.run(
                trained,
                held_out,
                schema=dataset.schema,
                target=target,
                protected=protected,
                favourable=favourable,
                config=config,
                data_name=f"data set {example}, people held out from training",
                model_name=f"logistic regression trained on {example}",
                progress=progress,
            )
        else:
            if model is None or data is None:
                raise OptionError("an audit needs a MODEL and DATA", mend="or try: evenhand audit --example adult")
            source = read_data(data, schema=schema, data_home=data_home)
            result = auditing.run(
                model,
                source.frame,
                schema=source.schema,
                target=target,
                protected=protected,
                favourable=favourable,
                ignore=ignore or (),
                config=config,
                trust=trust,
                data_name=source.name,
                progress=progress,
            )
    written = report.write(result, folder) if folder is not None else ()
    emit_result(result, json)
    failed = [gate for gate in gates if gate.holds(result)]
    if not quiet and json != "-":
        report.show(result, written=written)
    for gate in failed:
        typer.echo(f"--fail-on: this holds: {gate.expression}", err=True)
    if result.interrupted:
        raise typer.Exit(130)
    if failed:
        raise typer.Exit(1)
