"""``evenhand genai confusion``: how often a classifier's labels are right, and what deadlines are worth for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import JsonOption, QuietOption, check_places, emit_result
from evenhand.errors import OptionError


def confusion(
    sample: Annotated[Path, typer.Argument(help="Labelled items: a CSV or Parquet file, a row per item.")],
    true: Annotated[
        str, typer.Option("--true", help="Column of the true values; empty: nobody knows; none: it shows no value.")
    ] = "true",
    said: Annotated[
        str, typer.Option("--said", help="Column of what the classifier says; empty or none: it cannot tell.")
    ] = "said",
    values: Annotated[
        str | None, typer.Option("--values", help="The values of the group, like female,male; else all in the file.")
    ] = None,
    condition_column: Annotated[
        list[str] | None,
        typer.Option("--condition-column", help="Only items with this value, like asked=leader; may be repeated."),
    ] = None,
    repeated: Annotated[
        str | None,
        typer.Option("--repeated", help="Deadlines whose worth is asked for: 6; or one for each value: 5,6,6,9."),
    ] = None,
    tolerated: Annotated[
        float, typer.Option("--tolerated", help="Share of wrong labels up to which a deadline is guaranteed.")
    ] = 0.05,
    confidence: Annotated[float, typer.Option("--confidence", help="Of all intervals together.")] = 0.95,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Count what a classifier says of items whose values are known: how often is it right?"""
    from evenhand import report
    from evenhand.genai.confusion_result import run

    check_places({"--json": None if json in (None, "-") else Path(str(json))})
    result = run(
        sample,
        true=true,
        said=said,
        values=None if values is None else [one.strip() for one in values.split(",") if one.strip()],
        conditions=dict(_pair(given) for given in condition_column or ()),
        repeated=_deadlines(repeated),
        tolerated=tolerated,
        confidence=confidence,
    )
    emit_result(result, json)
    if not quiet and json != "-":
        report.show_confusion(result)


def _pair(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not (equals and name and value):
        raise OptionError(
            f"{given!r} does not say which value of which column", where="--condition-column", mend="NAME=VALUE"
        )
    return name, value


def _deadlines(given: str | None) -> int | list[int] | None:
    if given is None:
        return None
    try:
        numbers = [int(one) for one in given.split(",")]
    except ValueError:
        raise OptionError(
            f"{given!r} is no number of items", where="--repeated", mend="6, or one number per value: 5,6,6,9"
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers
