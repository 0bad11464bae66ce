"""``evenhand search MODEL DATA``: search for decisions that depend on protected attributes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from evenhand.cli.factory import ConfigOptions, Settings
from evenhand.cli.options import (
    DataArgument,
    DataOptions,
    FindingsOptions,
    ModelArgument,
    OutputOptions,
    PeopleOptions,
    TextOptions,
    approve_queries,
    check_file,
    refuse_options,
)
from evenhand.errors import LimitError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenhand.core.document import Document
    from evenhand.individual import search as searching
    from evenhand.individual.search.result import SearchResult
    from evenhand.individual.search.texts import TextSearchResult

ROWS: ConfigOptions[searching.SearchConfig] = ConfigOptions(
    "evenhand.individual.search:SearchConfig",
    ("method", "constraints", "most_examples", "time_limit", "budget"),
    hint="name the column of the texts: --text-column NAME",
    renamed={"constraints": "constraint", "most_examples": "examples"},
)
TEXTS: ConfigOptions[searching.TextSearchConfig] = ConfigOptions(
    "evenhand.individual.search:TextSearchConfig", ("examples", "time_limit", "budget"), about="texts"
)


def search(
    settings: Settings,
    model: ModelArgument,
    data: DataArgument,
    people: DataOptions,
    output: FindingsOptions,
    rows: PeopleOptions,
    texts: TextOptions,
    save_tests: Path | None = typer.Option(
        None, callback=check_file, help="File for pytest tests that query a new model."
    ),
) -> None:
    """Search for decisions that depend on protected attributes.

    The profiles of a pair differ only in protected attributes, and the model decides them differently.
    """
    from evenhand.individual import search as searching
    from evenhand.individual.search.analysis import forecast_queries
    from evenhand.individual.search.methods.choice import METHODS

    if save_tests is not None and save_tests.suffix != ".py":
        raise OptionError(
            f"expected a Python file, got {save_tests}", location="--save-tests", hint="name it test_....py"
        )
    result: SearchResult | TextSearchResult
    document: Callable[[], Document]
    if texts.text_column is not None:
        rows.require_shown(table=output.table)
        files = {"html": output.html, "schema": people.schema, "save_tests": save_tests}
        refuse_options("does not apply to texts", location="--text-column", **files)
        result = rows.hide(_search_texts(settings, model, data, texts, people, output))
        document = result.document
    else:
        with output.progress() as progress:
            subject = people.read_subject(model, data, progress)
        subject.people.schema.target.require_labels("a search for individuals")
        config = ROWS.read(settings, seed=people.seed)
        if config.method not in METHODS:
            hint = f"one of: {', '.join(METHODS)}"
            raise OptionError(f"there is no method {config.method!r}", location="--method", hint=hint)
        subject.ledger.budget = approve_queries(model, config.budget, forecast_queries(subject.people, config))
        with output.progress() as progress:
            result = profiles = searching.search(subject.scorer, subject.people, config, progress=progress)
        if profiles.queries == 0 and not profiles.rates:
            raise LimitError("the search was stopped before any query", hint="allow more time or budget")
        result = profiles = rows.hide(profiles)
        document = partial(profiles.document, subject.card)
    outputs: list[Path] = []
    if save_tests is not None and isinstance(result, searching.SearchResult) and result.profiles:
        searching.save_tests(result, save_tests)
        outputs.append(save_tests)
    output.finish(result, document, outputs, interrupted=result.interrupted)


def _search_texts(
    settings: Settings, model: str, data: str, texts: TextOptions, people: DataOptions, output: OutputOptions
) -> TextSearchResult:
    """Swap identity terms in a column of texts."""
    from evenhand.individual import search as searching

    config = TEXTS.read(settings, favourable=people.favourable)
    frame, _, reading = texts.read_texts(people, data)
    approve_queries(model, config.budget, None)
    with output.progress() as progress:
        result = searching.search_texts(
            model,
            frame[texts.text_column].astype(str).tolist(),
            protected=texts.categories(people),
            config=config,
            trust=people.trust,
            progress=progress,
        )
    return result.model_copy(update={"table_reading": reading})
