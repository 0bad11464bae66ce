"""Sentences and tables about individual effects on a number."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Heading,
    Metric,
    Note,
    Pair,
    ReportedNumber,
    Side,
    Table,
    TableRow,
)
from evenhand.core.result import PEOPLE_HIDDEN
from evenhand.core.text import SIMULATED, join_names, list_some
from evenhand.individual.changes import ChangeResult
from evenhand.individual.wording import repeat_notes
from evenhand.stats.quantity import show_quantity


def build_document(result: ChangeResult) -> Document:
    """Build the document with the effects, the distribution of changes, and the people most affected."""
    return Document(
        "Individuals: changes of the number with a protected attribute",
        "The model was queried for each person with every other value of the protected attribute. The change is the "
        "largest difference between its numbers for the same person.",
        (*change_answers(result), Heading("Changes", detail=True), *change_blocks(result)),
        brand="Evenhand individuals",
    )


def format_number(number: float, unit: str | None = None) -> str:
    """Format a number with its unit: up to four significant digits, or a whole number if it is large."""
    digits = 0 if number == 0 else max(0, min(8, 3 - int(np.floor(np.log10(abs(number))))))
    return f"{number:,.{digits}f}{f' {unit}' if unit else ''}"


def change_answers(result: ChangeResult) -> list[Metric]:
    """Build the answer for each set of protected attributes, over the data first."""
    unit, answers = result.unit, []
    for protected in dict.fromkeys(change.protected for change in result.changes):
        data, sampled = (change for change in result.changes if change.protected == protected)
        means = [f"{value}: {format_number(mean, unit)}" for value, mean in data.means.items()]
        beyond = f"by more than {format_number(result.tolerance, unit)}" if result.tolerance else "at all"
        notes = [
            f"half of the people change by at most {format_number(data.quantiles['50'], unit)}, 90 % by at most "
            f"{format_number(data.quantiles['90'], unit)}, no person by more than {format_number(data.largest, unit)}",
            *([f"mean number if all people were {list_some(means)}"] if means else []),
            f"of {SIMULATED}: {show_quantity(sampled.rate, 'rate').text} change {beyond}, estimated",
            *repeat_notes(data.repeats),
        ]
        answers.append(
            Metric(
                f"number changes {beyond}",
                show_quantity(data.rate, "rate", basis=f"of {data.n:,} people in the data"),
                tuple(notes),
                about=join_names(protected),
                next_step="read the most affected people under Individuals"
                if data.largest > result.tolerance
                else "no person in the data; only a proof can exclude it for others",
                left_out=f"left out: {data.without:,} people without a plausible counterpart" if data.without else "",
            )
        )
    return answers


def change_blocks(result: ChangeResult) -> Iterator[Block]:
    """Yield the distribution of changes as a table, then the people most affected."""
    levels = (f"{level} % up to" for level in result.changes[0].quantiles)
    numbers = ("people", *levels, "largest", "mean", "beyond the tolerance")
    columns = (Column("what changes"), Column("population"), *(Column(name, numeric=True) for name in numbers))
    rows = tuple(
        TableRow(
            (
                join_names(change.protected),
                change.population,
                change.n,
                *(
                    ReportedNumber(format_number(value), value, "observed" if change.over == "data" else "estimated")
                    for value in (*change.quantiles.values(), change.largest, change.mean)
                ),
                show_quantity(change.rate, "rate"),
            )
        )
        for change in result.changes
    )
    unit = f", in {result.unit}" if result.unit else ""
    yield Table(f"Distribution of the changes{unit}", columns, rows)
    for protected in dict.fromkeys(change.protected for change in result.changes):
        examples = [example for example in result.examples if set(example.better.values) == set(protected)]
        if examples:
            yield Heading(f"People most affected by {join_names(protected)}", level=3)
        for example in examples:
            worse, better = (
                Side(side.everything, format_number(side.score, result.unit))
                for side in (example.worse, example.better)
            )
            change = format_number(example.gap, result.unit)
            yield Pair(f"A person in the data: a change by {change}", worse, better, example.unprotected)
    if result.people_left_out:
        yield Note(PEOPLE_HIDDEN)
    elif result.examples:
        yield Note("These are records of real people: handle this document as you handle the data.")
