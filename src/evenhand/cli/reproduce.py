"""``evenhand reproduce NAME``: the experiments of a published paper, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import (
    HomeOption,
    JsonOption,
    QuietOption,
    SeedOption,
    check_places,
    emit_result,
)

app = typer.Typer(
    name="reproduce",
    help="Run the experiments of published papers again, with the published figures beside ours.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _papers() -> None: ...


@app.command("shields")
def shields(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="adult, compas, german or bank, or one attribute: adult:race; may be repeated."),
    ] = None,
    classifier: Annotated[
        list[str] | None,
        typer.Option(
            "--classifier", help="ERM, DiffDP, HSIC, LAFTR or PR; may be repeated. Periodic shields are for the first."
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option("--runs", help="Runs per setting; 50. Periodic settings get a fifth of it.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One threshold and fewer runs: minutes, not an hour.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to read.")] = None,
    data_home: HomeOption = None,
    seed: SeedOption = 0,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Fairness Shields (AAAI 2025): shields on four data sets, with a bounded horizon and periodic."""
    from evenhand import report
    from evenhand.reproduce import shields as paper
    from evenhand.reproduce.shields.page import render

    check_places({"--html": html})
    with report.progress(quiet=quiet or json == "-") as progress:
        found = paper.run(
            paper.Settings.of(quick=quick, runs=runs, classifiers=classifier or ()),
            only=only or (),
            data_home=data_home,
            seed=seed,
            progress=progress,
        )
    # First what took so long, then what can be drawn from it again.
    emit_result(found, json)
    if html is not None:
        report.write_page(render(found), html)
    if not quiet and json != "-":
        typer.echo(found.summary())
        if html is not None:
            typer.echo(f"\nwritten  {html}")
    if found.interrupted:
        raise typer.Exit(130)


@app.command("mitigation")
def mitigation(
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="A table (subgroups, classifiers), a data set (adult, bank, german, compas, law-school, "
            "communities-crime) or an environment (adult:race); may be repeated.",
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option("--runs", help="Networks and classifiers per entry, people parted anew; 3.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One run, trained for a shorter time.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to read.")] = None,
    data_home: HomeOption = None,
    seed: SeedOption = 0,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Mitigation tables: retraining as in TestSGD on six data sets, classifiers as in Fairness Shields on four."""
    from evenhand import report
    from evenhand.reproduce import mitigation as papers
    from evenhand.reproduce.mitigation.page import render

    check_places({"--html": html})
    with report.progress(quiet=quiet or json == "-") as progress:
        found = papers.run(
            papers.Settings.of(quick=quick, runs=runs),
            only=only or (),
            data_home=data_home,
            seed=seed,
            progress=progress,
        )
    emit_result(found, json)
    if html is not None:
        report.write_page(render(found), html)
    if not quiet and json != "-":
        typer.echo(found.summary())
        if html is not None:
            typer.echo(f"\nwritten  {html}")
    if found.interrupted:
        raise typer.Exit(130)
