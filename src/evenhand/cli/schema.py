"""``evenhand schema DATA``: the inferred schema as a file to look at and edit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenhand.cli.options import (
    FavourableOption,
    HomeOption,
    IgnoreOption,
    JsonOption,
    ProtectedOption,
    QuietOption,
    TargetOption,
    emit_json,
    read_data,
)
from evenhand.errors import OptionError


def schema(
    data: Annotated[str, typer.Argument(help="CSV or Parquet file, or a data set's name.")],
    target: TargetOption = None,
    protected: ProtectedOption = None,
    favourable: FavourableOption = None,
    ignore: IgnoreOption = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the YAML here instead of printing it.")] = None,
    data_home: HomeOption = None,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Infer what each column is, as a schema file (YAML) that a person can edit."""
    from evenhand.schema import infer, to_yaml

    source = read_data(data, schema=None, data_home=data_home)
    if source.schema is not None and target is None:
        described = source.schema.protect(protected) if protected else source.schema
    elif target is None:
        raise OptionError("what is decided about these people?", mend="name the column: --target NAME")
    else:
        described = infer(
            source.frame, target=target, protected=protected or (), favourable=favourable, ignore=ignore or ()
        )
    text = to_yaml(described)
    emit_json(described.model_dump_json(indent=2, exclude_defaults=True), json)
    if out is not None:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise OptionError(f"the schema cannot be written: {error}", where="--out") from None
    elif not quiet and json != "-":
        typer.echo(text, nl=False)
