"""``evenhand reproduce NAME``: the experiments of a published paper, run again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.factory import grouped
from evenhand.cli.options import HomeOption, PageOptions, SeedOption, WorkerOptions, WorkersOption
from evenhand.interrupts import INTERRUPTED

if TYPE_CHECKING:
    from evenhand.core import Result

app = typer.Typer(
    name="reproduce",
    help="Run the experiments of published papers again, with the published figures beside ours.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

TITLES: dict[str, str] = {
    "maft": "MAFT (ICSE 2024): searches for individual discrimination with estimated gradients, on ten benchmarks.",
    "shields": "Fairness Shields (AAAI 2025): shields on four data sets, with a bounded horizon and periodic.",
    "conditional-fairness": "Conditional Fairness for Generative AIs: sequences of two platforms, and enforcement.",
    "fairquant": "FairQuant (ICSE 2025): how much is certified for 32 networks, and the running example.",
    "testsgd": "TestSGD (TOSEM 2023): subgroups of people and texts, error bounds, times, THEMIS, FairFictPlay.",
}
"""Paper -> what its command's help says; the papers themselves are loaded when one is run."""


@app.callback(invoke_without_command=True)
def _reproduce_group(
    context: typer.Context,
    listed: Annotated[
        bool, typer.Option("--list", help="List every table and drawing, what it needs, and how many minutes it takes.")
    ] = False,
) -> None:
    if listed:
        _list_tables()
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _list_tables() -> None:
    from evenhand.reproduce import PAPERS, load_paper

    for i, paper in enumerate(map(load_paper, PAPERS)):
        minutes = sum(piece.minutes for piece in paper.pieces)
        quick = sum(piece.quick_minutes for piece in paper.pieces)
        typer.echo(f"{chr(10) * (i > 0)}{paper.name}: {paper.title}, {paper.published_in}")
        typer.echo(f"{'':4}all of it: {minutes:.0f} minutes of one core; with --quick {quick:.1f}")
        numbers = max(len(table.number) for table in paper.tables)
        titles = max(len(table.title) for table in paper.tables)
        for table in paper.tables:
            own = sum(piece.minutes for piece in paper.pieces if table.number in piece.tables)
            time = f"{own:.0f} min" if own >= 1 else "< 1 min" if own > 0 else "no work"
            needs = f"  needs {table.needs}" if table.needs else ""
            typer.echo(f"{'':4}{table.number:<{numbers}}  {table.title:<{titles}}  {time:>7}{needs}")


def _reproduce_paper(
    context: typer.Context,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="N", help="Only this table or drawing: II, or 'figure 4'; may be repeated."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Minutes, not hours: fewer runs or less time.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the page, the JSON, and each piece of the work as soon as it is done."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="With --out: go on from the pieces that are in the folder.")
    ] = False,
    data_home: HomeOption = None,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    *,
    output: PageOptions,
) -> None:
    from evenhand import view
    from evenhand.errors import OptionError
    from evenhand.files import write_atomically
    from evenhand.reproduce import comparison, load_paper

    if resume and out is None:
        raise OptionError("expected the folder to go on from", location="--resume", hint="add --out DIR")
    output.check_places()
    paper = load_paper(str(context.info_name))
    with view.show_progress(quiet=output.silent) as progress:
        found = comparison.reproduce_paper(
            paper,
            tables=table or (),
            context=comparison.PieceContext(quick=quick, seed=seed, data_home=data_home),
            folder=None if out is None else out / "pieces",
            resume=resume,
            workers=workers,
            progress=progress,
        )
    written = []
    if out is not None:
        written = [out / f"{paper.name}.json", out / f"{paper.name}.html"]
        write_atomically(written[0], found.to_json() + "\n")
        view.write_page(view.render_page(found.document()), written[1])
    output.emit(found)
    output.show(found.document, [*written, *output.write_page(found.document)])
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)


for _name, _title in TITLES.items():
    app.command(_name, help=_title)(grouped(_reproduce_paper))


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
    working: WorkerOptions,
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
            workforce=working.workforce,
            progress=progress,
        )
    _finish(found, output, interrupted=found.interrupted)


def _finish(found: Result, output: PageOptions, *, interrupted: bool) -> None:
    """Write and show what was found: first what took so long, then what can be drawn from it again."""
    output.emit(found)
    output.show(found.document, output.write_page(found.document))
    if interrupted:
        raise typer.Exit(INTERRUPTED)
