"""``evenhand dossier DATA --config D.yaml --for ll144`` and ``evenhand card REPORT``."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from evenhand import auditing, view
from evenhand.cli.options import DATA_HELP, OutputOptions, TableOptions, check_file, choose_folder, open_data
from evenhand.core.files import write_atomically
from evenhand.errors import DataError, EvenhandError, OptionError

if TYPE_CHECKING:
    from evenhand.dossier.config import DossierConfig
    from evenhand.dossier.result import DataFile, DossierName, DossierResult

T = TypeVar("T")


def dossier(
    output: OutputOptions,
    table: TableOptions,
    data: str | None = typer.Argument(None, help=DATA_HELP),
    config: Path | None = typer.Option(None, help="Meaning of the columns, with its source (YAML)."),
    for_: list[str] | None = typer.Option(None, "--for", help="Dossier, e.g. ll144 (see --list); may be repeated."),
    results: list[Path] | None = typer.Option(
        None, "--result", metavar="FILE", help="JSON of mitigate, alternatives or refute, as evidence; may be repeated."
    ),
    out: Path | None = typer.Option(None, help="Folder for the files (default evenhand-dossier; none with --json)."),
    final: bool = typer.Option(False, "--final", help="Exit with 1 if a required entry is missing."),
    as_of: str | None = typer.Option(
        None, metavar="DATE", help="Apply the law in force on this date instead of the date of the audit."
    ),
    template: str | None = typer.Option(None, metavar="NAME", help="Print a configuration with every entry."),
    check: Path | None = typer.Option(
        None, metavar="FILE", help="Recompute this dossier.json from DATA; exit with 1 if a cell differs."
    ),
    list_: bool = typer.Option(False, "--list", help="List the dossiers and the law that they cite."),
) -> None:
    """Write the tables that a regulation requires.

    They are counted from people and outcomes, by the formula of the regulation.
    """
    from evenhand.dossier.analysis import compile_dossier
    from evenhand.dossier.config import read_dossier_config, write_template
    from evenhand.view.printing import can_print

    if list_:
        _list_dossiers()
        return
    if template is not None:
        typer.echo(write_template(_dossier_names([template], "--template")), nl=False)
        return
    if data is None:
        raise OptionError(
            "expected DATA, got none", hint="evenhand dossier people.csv --config dossier.yaml --for ll144"
        )
    if check is not None:
        _check_dossier(check, results or [], data, table, quiet=output.silent)
        return
    names = _dossier_names(for_ or [], "--for")
    if config is None:
        hint = f"print one to fill in: evenhand dossier --template {names[0]}"
        raise OptionError("expected --config, got none", hint=hint)
    folder = choose_folder(out, output.json, "evenhand-dossier")
    described, day = read_dossier_config(config), _read_day(as_of)

    def compute(frame: Any, source: DataFile) -> DossierResult:
        return compile_dossier(frame, described, dossiers=names, as_of=day, data=source, results=results or [])

    result = _compute(data, table, described, compute)
    outputs = view.write_dossier(result, folder) if folder is not None else ()
    output.finish(result, written=outputs)
    if folder is not None and not can_print() and not output.silent:
        typer.echo("note: for PDF and DOCX files install the extra: pip install '.[dossier]'", err=True)
    if final and result.open_fields:
        for entry in result.open_fields:
            typer.echo(f"--final: not filled in: {entry.field} ({entry.asks})", err=True)
        raise typer.Exit(1)


def _dossier_names(names: list[str], option: str) -> tuple[DossierName, ...]:
    from evenhand.dossier.outline import OUTLINES

    hint = f"one of: {', '.join(OUTLINES)}"
    for name in names:
        if name not in OUTLINES:
            raise OptionError(f"there is no dossier {name!r}", location=option, hint=hint)
    if not names:
        raise OptionError("expected a dossier, got none", location=option, hint=hint)
    return cast("tuple[DossierName, ...]", tuple(names))


def _read_day(text: str | None) -> dt.date | None:
    if text is None:
        return None
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise OptionError(f"expected a date, got {text!r}", location="--as-of", hint="write it as 2026-06-30") from None


def _compute(data: str, table: TableOptions, config: DossierConfig, use: Callable[[Any, DataFile], T]) -> T:
    """Apply a function to the people of DATA. Large tables are counted by their engine, if it can."""
    from evenhand.dossier.result import DataFile

    digest = None
    if Path(data).is_file():
        with Path(data).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    large = None if config.proxy is not None else open_data(data, schema=None)
    if large is not None:
        try:
            return use(large.frame, DataFile(name=large.name, sha256=digest))
        except EvenhandError:
            if large.name == data:
                raise
    source = table.read_table(data, words=True)
    return use(source.frame, DataFile(name=source.name, sha256=digest))


def _check_dossier(path: Path, results: list[Path], data: str, table: TableOptions, *, quiet: bool) -> None:
    """Recompute a dossier, and exit with 1 if a cell differs."""
    from evenhand.dossier.analysis import find_changed_cells
    from evenhand.dossier.result import DossierResult

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the dossier cannot be read: {error}", location=str(path)) from None
    dossier = DossierResult.from_json(text)

    def compare(frame: Any, source: DataFile) -> tuple[list[str], DataFile]:
        return find_changed_cells(dossier, frame, results=results), source

    changed, source = _compute(data, table, dossier.config, compare)
    for cell in changed:
        typer.echo(cell, err=True)
    if dossier.data.sha256 != source.sha256:
        typer.echo(
            f"note: {source.name} is not the file that the dossier was compiled from (the SHA-256 differs)", err=True
        )
    if changed:
        raise typer.Exit(1)
    if not quiet:
        typer.echo(f"{path}: every cell agrees with {source.name}")


def _list_dossiers() -> None:
    from evenhand.dossier.citations import list_citations
    from evenhand.dossier.outline import OUTLINES

    for name, outline in OUTLINES.items():
        typer.echo(f"{name}: {outline.title}. {outline.about}")
    for law in list_citations():
        start = f", from {law.valid_from}" if law.valid_from else ""
        end = f", until {law.valid_to}" if law.valid_to else ""
        typer.echo(f"  {law.citation} ({', '.join(law.dossiers)}): {law.status}{start}{end}; checked {law.checked_on}")


def card(
    report: Annotated[str, typer.Argument(help="report.json of an audit, or its folder.")],
    save: Path | None = typer.Option(None, callback=check_file, help="File for the card, instead of the terminal."),
) -> None:
    """Write an audit as a section of a model card.

    The section has the metadata of Hugging Face.
    """
    from evenhand.dossier.cards import write_card

    text = write_card(auditing.read_audit(report))
    if save is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(save, text)
