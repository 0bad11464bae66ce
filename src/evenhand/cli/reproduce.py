"""``evenhand reproduce NAME``: the experiments of a published paper, run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.factory import grouped
from evenhand.cli.options import HomeOption, PageOptions, SeedOption, WorkerOptions
from evenhand.interrupts import INTERRUPTED

if TYPE_CHECKING:
    from evenhand.core import Result

app = typer.Typer(
    name="reproduce",
    help="Run the experiments of published papers again, with the published figures beside ours.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _reproduce_group() -> None: ...


@app.command("shields")
@grouped
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
    data_home: HomeOption = None,
    seed: SeedOption = 0,
    *,
    working: WorkerOptions,
    output: PageOptions,
) -> None:
    """Fairness Shields (AAAI 2025): shields on four data sets, with a bounded horizon and periodic."""
    from evenhand import view
    from evenhand.reproduce import shields as paper

    output.check_places()
    with view.show_progress(quiet=output.silent) as progress:
        found = paper.reproduce_shields(
            paper.ShieldExperimentSettings.of(quick=quick, runs=runs, classifiers=classifier or ()),
            only=only or (),
            data_home=data_home,
            seed=seed,
            workforce=working.workforce,
            progress=progress,
        )
    _finish(found, output, interrupted=found.interrupted)


@app.command("mitigation")
@grouped
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
        int | None, typer.Option("--runs", help="Networks and classifiers per entry, each on a new split; 3.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One run, trained for a shorter time.")] = False,
    data_home: HomeOption = None,
    seed: SeedOption = 0,
    *,
    output: PageOptions,
) -> None:
    """Mitigation tables: retraining as in TestSGD on six data sets, classifiers as in Fairness Shields on four."""
    from evenhand import view
    from evenhand.reproduce import mitigation as papers

    output.check_places()
    with view.show_progress(quiet=output.silent) as progress:
        found = papers.reproduce_mitigation(
            papers.MitigationExperimentSettings.of(quick=quick, runs=runs),
            only=only or (),
            data_home=data_home,
            seed=seed,
            progress=progress,
        )
    _finish(found, output, interrupted=found.interrupted)


def _finish(found: Result, output: PageOptions, *, interrupted: bool) -> None:
    """Write and show what was found: first what took so long, then what can be drawn from it again."""
    output.emit(found)
    output.show(found.document, output.write_page(found.document))
    if interrupted:
        raise typer.Exit(INTERRUPTED)
