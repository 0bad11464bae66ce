"""What several commands share: their options, reading DATA, writing JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.errors import OptionError

if TYPE_CHECKING:
    from evenhand.result import Result
    from evenhand.schema import Schema

TargetOption = Annotated[str | None, typer.Option("--target", help="Column of the true label.")]
ProtectedOption = Annotated[
    list[str] | None, typer.Option("--protected", help="Attribute that a decision must not depend on; may be repeated.")
]
FavourableOption = Annotated[str | None, typer.Option("--favourable", help="The label that people want.")]
SchemaOption = Annotated[
    Path | None, typer.Option("--schema", help="Schema file (YAML). Without it the schema is inferred from the data.")
]
IgnoreOption = Annotated[
    list[str] | None, typer.Option("--ignore", help="Column that is no attribute (an identifier); may be repeated.")
]
TrustOption = Annotated[
    bool, typer.Option("--trust", help="Load model files that can run code (pickle, joblib, full PyTorch objects).")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Same seed, same result.")]
JsonOption = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is standard output, alone.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
HomeOption = Annotated[
    Path | None, typer.Option("--data-home", help="Folder that holds data sets you fetched yourself.")
]


@dataclass(frozen=True)
class Source:
    """The people a command is about, and what is known of their columns."""

    frame: Any
    schema: Schema | None
    name: str


def read_data(data: str, *, schema: Path | None, data_home: Path | None = None) -> Source:
    """Read DATA: a file, or else a data set's name (which brings its own schema).

    Raises:
        EvenhandError: neither a file nor a known name, or it cannot be read.
    """
    from evenhand import datasets
    from evenhand.schema import read_yaml

    given = read_yaml(schema) if schema is not None else None
    if not Path(data).exists() and data in datasets.names():
        dataset = datasets.load(data, data_home=data_home)
        return Source(dataset.frame, given or dataset.schema, f"data set {data}")
    if not Path(data).exists():
        raise OptionError(
            f"there is no file {data!r}, and no data set of that name",
            mend=f"give a CSV or Parquet file, or one of: {', '.join(datasets.names())}",
        )
    return Source(datasets.read_frame(data), given, Path(data).name)


def check_places(places: Mapping[str, Path | None]) -> None:
    """Refuse files that cannot be written, by the option that names them, before any work is done.

    Raises:
        OptionError: a folder is not there, or the file is one.
    """
    for option, path in places.items():
        if path is not None and not path.absolute().parent.is_dir():
            raise OptionError(f"there is no folder {path.absolute().parent}", where=option, mend="make it first")
        if path is not None and path.is_dir():
            raise OptionError(f"{path} is a folder, not a file", where=option)


def emit_json(text: str, destination: str | None) -> None:
    """Write JSON where ``--json`` says: nowhere, to standard output, or to a file.

    Raises:
        OptionError: the file cannot be written.
    """
    if destination is None:
        return
    if destination == "-":
        sys.stdout.write(text.rstrip("\n") + "\n")
        return
    try:
        Path(destination).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        raise OptionError(f"the JSON file cannot be written: {error}", where="--json") from None


def emit_result(result: Result, destination: str | None) -> None:
    """Write a result's JSON where ``--json`` says."""
    if destination is not None:
        emit_json(result.to_json(), destination)
