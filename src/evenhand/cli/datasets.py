"""``evenhand datasets [NAME]``: which data sets are known by name, and all about one of them."""

from __future__ import annotations

import json as jsonlib
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import HomeOption, JsonOption, QuietOption, emit_json

if TYPE_CHECKING:
    from evenhand.datasets import Card


def datasets(
    name: Annotated[str | None, typer.Argument(help="A data set's name; without one, all are listed.")] = None,
    data_home: HomeOption = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """List the data sets known by name, or show one: origin, licence, columns, where it is."""
    from evenhand import datasets as known

    if name is not None:
        card = known.card(name, data_home=data_home)
        emit_json(card.model_dump_json(indent=2), json)
        if not quiet and json != "-":
            _show(card)
        return
    cards = known.cards(data_home=data_home)
    emit_json(jsonlib.dumps([card.model_dump(mode="json") for card in cards], indent=2), json)
    if not quiet and json != "-":
        _list(cards)


def _list(cards: list[Card]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("name", "people", "what is decided", "favourable", "protected", "where"):
        table.add_column(
            heading, justify="right" if heading == "people" else "left", no_wrap=heading in ("name", "where")
        )
    for card in cards:
        table.add_row(
            card.name, f"{card.rows:,}", card.target, str(card.favourable), ", ".join(card.protected), card.place
        )
    Console().print(table)
    typer.echo("\nevenhand datasets NAME shows origin, licence and columns; evenhand audit MODEL NAME uses one.")


def _show(card: Card) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in (
        ("name", f"{card.name}: {card.title}"),
        ("about", card.about),
        ("origin", card.origin),
        ("publisher", card.publisher),
        ("licence", card.licence),
        ("cite", card.citation),
        ("people", f"{card.rows:,}"),
        ("attributes", ", ".join(card.attributes)),
        ("beside them", ", ".join(card.extra) or "nothing"),
        ("protected", ", ".join(card.protected)),
        ("label", f"{card.target}, favourable: {card.favourable}"),
        ("prepared", card.preparation),
        ("checked", card.check),
        ("where", card.place if card.path is None else f"{card.place}: {card.path}"),
    ):
        table.add_row(label, value)
    Console(markup=False).print(table)
