"""``evenhand search MODEL DATA``: people whom a model decides differently when only protected attributes change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    Source,
    TargetOption,
    TrustOption,
    check_places,
    emit_result,
    read_data,
)
from evenhand.errors import DataError, LimitError, OptionError

if TYPE_CHECKING:
    from evenhand.individual.text import TextResult


def search(
    model: Annotated[str, typer.Argument(help="Model file, http(s) URL or module:function.")],
    data: Annotated[str, typer.Argument(help="CSV or Parquet file, or a data set's name.")],
    protected: ProtectedOption = None,
    method: Annotated[str | None, typer.Option("--method", help="How to search; see the documentation.")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, help="People to start from.")] = None,
    local: Annotated[int | None, typer.Option("--local", min=0, help="Moves around each profile found.")] = None,
    step: Annotated[
        float | None, typer.Option("--step", help="For maft: how far apart it asks for a slope, in steps.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", min=1, help="Ask the model about so many individuals at most.")
    ] = None,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Stop after so many seconds.")] = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option("--constraint", help="Holds for everybody who could exist, like 'age >= 16'; may be repeated."),
    ] = None,
    anything_goes: Annotated[
        bool, typer.Option("--anything-goes", help="Also report profiles with values that never occur together.")
    ] = False,
    samples: Annotated[
        int | None, typer.Option("--samples", min=0, help="Individuals drawn for each violation rate.")
    ] = None,
    examples: Annotated[int | None, typer.Option("--examples", min=0, help="Profiles shown in full.")] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Keep every answer in this file, and go on from what is in it.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write all pairs as a table: .csv or .parquet.")] = None,
    save_tests: Annotated[
        Path | None, typer.Option("--save-tests", help="Write a pytest file that asks a new model again.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to read.")] = None,
    text_column: Annotated[
        str | None, typer.Option("--text-column", help="The model decides about this column's texts: swap terms in it.")
    ] = None,
    terms: Annotated[
        list[Path] | None, typer.Option("--terms", help="For texts: a list of identity terms (YAML); may be repeated.")
    ] = None,
    target: TargetOption = None,
    favourable: FavourableOption = None,
    schema: SchemaOption = None,
    ignore: IgnoreOption = None,
    trust: TrustOption = False,
    seed: SeedOption = 0,
    data_home: HomeOption = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Search for people whom a model decides differently when nothing but protected attributes change."""
    from evenhand import models, report
    from evenhand.audit.run import described
    from evenhand.individual import search as searching
    from evenhand.schema import encode

    _check_places(out, save_tests, html)
    given = {
        "method": method,
        "seeds": seeds,
        "local": local,
        "h": step,
        "budget": budget,
        "time_limit": time_limit,
        "constraints": constraint,
        "anything_goes": anything_goes or None,
        "samples": samples,
        "most_examples": examples,
        "resume": resume,
    }
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if text_column is not None:
        only_rows = options.keys() - {"budget", "time_limit", "most_examples"}
        if only_rows or html is not None or schema is not None:
            raise OptionError(
                "texts are searched by swapping terms: "
                "--budget, --time-limit, --examples, --terms, --out and --save-tests go with --text-column",
                where="--text-column",
            )
        source = read_data(data, schema=None, data_home=data_home)
        result = _texts(model, source, text_column, protected, terms or (), favourable, options, trust, quiet, json)
        _leave(result, out, save_tests, json, quiet)
        return
    if terms:
        raise OptionError("--terms is for texts", mend="name the column of the texts: --text-column NAME")
    if method is not None and method not in searching.METHODS:
        raise OptionError(
            f"there is no method {method!r}", where="--method", mend=f"one of: {', '.join(searching.METHODS)}"
        )
    source = read_data(data, schema=schema, data_home=data_home)
    people_schema = described(
        source.frame,
        schema=source.schema,
        target=target,
        protected=protected,
        favourable=favourable,
        ignore=ignore or (),
    )
    with report.progress(quiet=quiet or json == "-") as progress:
        progress("reading the people", 0.0)
        people = encode(people_schema, source.frame, where=source.name)
        scorer = models.load(model, people.schema, like=source.frame, trust=trust)
        found = searching.run(
            scorer, people, protected=people.schema.protected, seed=seed, progress=progress, **options
        )
    if found.queries == 0 and not found.rates:
        raise LimitError("the search was stopped before anything was asked", mend="give it more time or budget")
    subject = report.Subject(
        name=scorer.name,
        data=source.name,
        people=len(people),
        target=people.schema.target.name,
        favourable=str(scorer.classes[scorer.favourable]),
        label_only=scorer.label_only,
    )
    written = []
    if out is not None:
        searching.save_table(found.to_frame(), out)
        written.append(out)
    if save_tests is not None and found.profiles:
        searching.save_tests(found, save_tests)
        written.append(save_tests)
    if html is not None:
        report.write_page(report.render_search(found, subject), html)
        written.append(html)
    emit_result(found, json)
    if not quiet and json != "-":
        report.show_search(found, subject, written=written)
    if found.interrupted:
        raise typer.Exit(130)


def _texts(
    model: str,
    source: Source,
    column: str,
    protected: Sequence[str] | None,
    terms: Sequence[Path],
    favourable: str | None,
    options: dict[str, Any],
    trust: bool,
    quiet: bool,
    json: str | None,
) -> TextResult:
    """Swap identity terms in a column of texts."""
    from evenhand import report
    from evenhand.datasets import identity
    from evenhand.individual import text

    if column not in source.frame.columns:
        raise DataError(
            f"there is no column {column!r}",
            where=source.name,
            mend=f"the columns are: {', '.join(map(str, source.frame.columns))}",
        )
    own = [one for path in terms for one in identity.read_categories(path)]
    lists: list[str | identity.Category] = [*(protected or ()), *own]
    config = text.Config(
        examples=options.get("most_examples", 100),
        budget=options.get("budget"),
        time_limit=options.get("time_limit"),
    )
    texts = source.frame[column].dropna().astype(str).tolist()
    with report.progress(quiet=quiet or json == "-") as progress:
        return text.run(
            model, texts, protected=lists or None, favourable=favourable, config=config, trust=trust, progress=progress
        )


def _leave(result: TextResult, out: Path | None, save_tests: Path | None, json: str | None, quiet: bool) -> None:
    """Write and print what was found in texts."""
    from evenhand.individual import text
    from evenhand.individual.search import save_table

    written = []
    if out is not None:
        save_table(result.to_frame(), out)
        written.append(out)
    if save_tests is not None and result.examples:
        text.save_tests(result, save_tests)
        written.append(save_tests)
    emit_result(result, json)
    if not quiet and json != "-":
        typer.echo(result.summary())
        for path in written:
            typer.echo(f"written  {path}")
    if result.interrupted:
        raise typer.Exit(130)


def _check_places(out: Path | None, save_tests: Path | None, html: Path | None) -> None:
    """Refuse what cannot be written before any work is done.

    Raises:
        OptionError: a folder is not there, or nobody can tell how to write it.
    """
    from evenhand.individual.search.save import check_table

    if out is not None:
        check_table(out)
    if save_tests is not None and save_tests.suffix != ".py":
        raise OptionError(
            f"tests are a Python file, not {save_tests}", where="--save-tests", mend="name it test_....py"
        )
    check_places({"--out": out, "--save-tests": save_tests, "--html": html})
