"""``evenhand schema DATA`` and ``evenhand datasets [NAME]``."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from evenhand import view
from evenhand.cli.options import (
    AcceptOption,
    DataArgument,
    IgnoreOption,
    OutputOptions,
    RoleOptions,
    TableOptions,
    save_text,
)
from evenhand.errors import OptionError

if TYPE_CHECKING:
    from evenhand.core.document import Document
    from evenhand.datasets.entry import DatasetCard
    from evenhand.schema.people import People


def schema(
    data: DataArgument,
    roles: RoleOptions,
    output: OutputOptions,
    table: TableOptions,
    ignore: IgnoreOption = None,
    accept_proposals: AcceptOption = False,
    save: Path | None = typer.Option(None, help="File for the schema, instead of the terminal."),
) -> None:
    """Infer a schema file from data, to be edited by hand.

    It describes each column, and proposes rules about which individuals can exist.
    """
    import narwhals as nw
    import numpy as np

    from evenhand.proposals.propose import add_proposals, propose_rules
    from evenhand.schema.infer import infer_schema, propose_columns
    from evenhand.schema.people import encode
    from evenhand.schema.schema import schema_to_yaml

    source = table.read_table(data)
    remarks: dict[str, str] = {}
    if source.schema is not None and roles.target is None:
        described = source.schema.with_protected(roles.protected) if roles.protected else source.schema
    elif roles.target is None:
        raise OptionError("expected the column of the true label, got none", hint="name it: --target NAME")
    else:
        described = infer_schema(
            source.frame,
            target=roles.target,
            protected=roles.protected or (),
            favourable=roles.favourable,
            ignore=ignore or (),
            outcome=roles.outcome,
            accept_proposals=accept_proposals,
        )
        proposed = propose_columns(
            source.frame, target=roles.target, protected=roles.protected or (), ignore=ignore or ()
        )
        remarks = {proposal.column: proposal.problem if accept_proposals else str(proposal) for proposal in proposed}
    # Missing labels are no error here.
    frame = nw.from_native(source.frame, eager_only=True).drop(described.target.name, strict=False)
    people = encode(described, frame, location=source.name)
    proposals = propose_rules(people, np.random.default_rng(0))
    for name, words in _describe_reading(people).items():
        remarks[name] = "; ".join([*([remarks[name]] if name in remarks else []), *words])
    text = schema_to_yaml(described, proposals, remarks)
    output.emit(add_proposals(described, proposals).model_dump_json(indent=2, exclude_defaults=True))
    if save is not None:
        save_text(save, text, "--save")
    elif not output.silent:
        typer.echo(text, nl=False)


def _describe_reading(people: People) -> dict[str, list[str]]:
    """Describe how columns were read, if it is not obvious: their types and their markers of missing values."""
    from evenhand.schema.table import is_unusual_number

    remarks: dict[str, list[str]] = {}
    reading = people.reading
    assert reading is not None  # ``encode`` sets it
    for name, kind in reading.types.items():
        word = next(filter(is_unusual_number, people.schema[name].values or ()), None)
        reason = "the cells are words" if word is None else f"{word!r} is not the usual spelling of a number"
        remarks[name] = [f"read as {kind}: {reason}"]
    for name, counts in reading.unknown.items():
        listed = ", ".join(f"{word or 'empty cells'} ({number:,})" for word, number in counts.items())
        remarks[name] = remarks.get(name, []) + ([f"unknown: {listed}"] if listed else [])
    return {name: words for name, words in remarks.items() if words}


def datasets(
    output: OutputOptions,
    name: str | None = typer.Argument(None, help="Name of a data set; by default, all are listed."),
) -> None:
    """List the data sets known by name, or describe one."""
    from evenhand import datasets

    cards = [datasets.dataset_card(name)] if name is not None else datasets.dataset_cards()
    described = [card.model_dump(mode="json") for card in cards]
    output.emit(jsonlib.dumps(described if name is None else described[0], indent=2))
    if not output.silent:
        document = _list_datasets(cards) if name is None else _describe_dataset(cards[0])
        view.show_document(document, verbose=True)


def _list_datasets(cards: list[DatasetCard]) -> Document:
    from evenhand.core.document import Column, Document, Table, TableRow

    columns = [Column(name) for name in ("name", "what is decided", "favourable", "protected", "where")]
    rows = [
        (card.name, f"{card.rows:,}", card.target, str(card.favourable), ", ".join(card.protected), card.place)
        for card in cards
    ]
    columns.insert(1, Column("people", numeric=True))
    return Document(
        "Data sets",
        "evenhand datasets NAME shows origin, licence and columns; evenhand audit MODEL NAME uses one.",
        (Table("Data sets by name", tuple(columns), tuple(map(TableRow, rows))),),
    )


def _describe_dataset(card: DatasetCard) -> Document:
    from evenhand.core.document import Document, Facts

    facts = {
        "origin": card.origin,
        "publisher": card.publisher,
        "licence": card.licence,
        "cite": card.citation,
        "people": f"{card.rows:,}",
        "attributes": ", ".join(card.attributes),
        "other columns": ", ".join(card.extra) or "none",
        "protected": ", ".join(card.protected),
        "label": f"{card.target}, favourable: {card.favourable}",
        "prepared": card.preparation,
        "checked": card.check,
        "where": card.place if card.path is None else f"{card.place}: {card.path}",
    }
    return Document(f"{card.name}: {card.title}", card.about, (Facts(tuple(facts.items())),))
