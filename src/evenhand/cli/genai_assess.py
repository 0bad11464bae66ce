"""``evenhand genai assess``: what a recorded sequence of a generator shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import JsonOption, QuietOption, check_places, emit_result
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence


def assess(
    sequence: Annotated[Path, typer.Argument(help="What a generator answered: a CSV or Parquet file, a row per item.")],
    group_column: Annotated[
        list[str] | None,
        typer.Option("--group-column", help="Column of labels; empty: not recognised. May be repeated."),
    ] = None,
    condition_column: Annotated[
        list[str] | None,
        typer.Option("--condition-column", help="Only items with this value, like asked=leader; may be repeated."),
    ] = None,
    repeated: Annotated[
        list[str] | None,
        typer.Option(
            "--repeated",
            help="Every value again within so many items: 6; or 5,6,6,9; or sex=6; or sex+age=20. May be repeated.",
        ),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--values", help="Values that are to appear, like sex=female,male; else all in the file."),
    ] = None,
    sequence_column: Annotated[
        str | None,
        typer.Option("--sequence-column", help="Assess the sequences named in this column apart; run=3: only that."),
    ] = None,
    ways: Annotated[
        int | None, typer.Option("--ways", min=2, help="Coverage of combinations of so many groups; 2.")
    ] = None,
    image_column: Annotated[
        str | None, typer.Option("--image-column", help="Column of picture files, shown in the page.")
    ] = None,
    confidence: Annotated[float, typer.Option("--confidence", help="Of every interval.")] = 0.95,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page to read.")] = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Assess a recorded sequence: does every value appear, again and again, how often, in which combinations?"""
    from evenhand import report
    from evenhand.genai.assess import assess as run
    from evenhand.genai.sequence import read_sequences
    from evenhand.report.assessment import render_assessment, show_assessment

    check_places({"--html": html})
    groups = list(dict.fromkeys(group_column or ()))
    if not groups:
        raise OptionError("which labels are looked at?", mend="name at least one column: --group-column NAME")
    conditions = dict(_pair(given, "--condition-column") for given in condition_column or ())
    column, _, only = (sequence_column or "").partition("=")
    found = read_sequences(
        sequence,
        groups,
        conditions=conditions,
        values={group: _words(given) for group, given in (_pair(one, "--values") for one in values or ())},
        sequence_column=column or None,
        sequence=only or None,
        image_column=image_column,
    )
    result = run(
        found,
        repeated=_betas(repeated or (), groups),
        ways=ways,
        confidence=confidence,
        conditions=conditions,
        source=sequence.name,
    )
    written = []
    if html is not None:
        report.write_page(render_assessment(result, folder=sequence.absolute().parent), html)
        written.append(html)
    emit_result(result, json)
    if not quiet and json != "-":
        show_assessment(result, written=written)


def _pair(given: str, option: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not (equals and name and value):
        raise OptionError(f"{given!r} does not say which value of which column", where=option, mend="NAME=VALUE")
    return name, value


def _words(given: str) -> list[str]:
    return [word for word in (part.strip() for part in given.split(",")) if word]


def _betas(given: Sequence[str], groups: Sequence[str]) -> dict[str | tuple[str, ...], int | list[int]]:
    """What is asked of each group, or of several together; a number without a name is asked of every group."""
    found: dict[str | tuple[str, ...], int | list[int]] = {}
    for one in given:
        name, _, numbers = one.rpartition("=")
        try:
            betas = [int(number) for number in numbers.split(",")]
        except ValueError:
            raise OptionError(
                f"{numbers!r} is no number of items", where="--repeated", mend="6, or one number per value: 5,6,6,9"
            ) from None
        beta: int | list[int] = betas[0] if len(betas) == 1 else betas
        if not name:
            found |= dict.fromkeys(groups, beta)
        else:
            found[name if name in groups else tuple(part.strip() for part in name.split("+"))] = beta
    return found
