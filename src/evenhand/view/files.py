"""Write reports to disk. Files are written atomically, and no file is written if the audit cannot be rendered."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.core.files import stage_file, write_atomically
from evenhand.errors import OptionError
from evenhand.view.page_template import render_page
from evenhand.view.printing import can_print, print_docx, print_pdf

if TYPE_CHECKING:
    from evenhand.auditing.result import AuditResult
    from evenhand.dossier.result import DossierResult
    from evenhand.groups.rankings.result import RankingResult


def write_report(audit: AuditResult | RankingResult, folder: str | Path) -> tuple[Path, ...]:
    """Write ``report.html`` and ``report.json`` into a folder, which is created if necessary.

    Args:
        audit: Result.
        folder: where.

    Returns:
        The files; the first is the one to read first.

    Raises:
        OptionError: the folder cannot be written to; no file there is left half-written.
    """
    page = render_page(audit.document())
    return _write_files(folder, {"report.html": page, "report.json": audit.to_json() + "\n"})


def write_dossier(dossier: DossierResult, folder: str | Path, *, printed: bool | None = None) -> tuple[Path, ...]:
    """Write a page per dossier, ``dossier.json`` and every table as CSV into a folder, which is created if necessary.

    A text in a CSV that a spreadsheet would interpret as a formula (beginning with ``=``, ``+``, ``-`` or ``@``) is
    prefixed with an apostrophe.

    Args:
        dossier: Result.
        folder: where.
        printed: whether each dossier is also written as PDF and DOCX; by default if the extra ``dossier`` is
            installed.

    Returns:
        The files, with those to read first at the start.

    Raises:
        OptionError: the folder cannot be written to; no file there is left half-written.
        MissingExtraError: PDF and DOCX are requested, and the extra is not installed.
    """
    return _write_files(folder, _dossier_files(dossier, can_print() if printed is None else printed))


def _dossier_files(dossier: DossierResult, printed: bool) -> dict[str, str | bytes]:
    """Return the files of a dossier by name, with those to read first at the start."""
    documents = dossier.documents()
    texts: dict[str, str | bytes] = {f"{name}.html": render_page(document) for name, document in documents.items()}
    if printed:
        from evenhand.dossier.outline import OPEN

        for name, document in documents.items():
            texts[f"{name}.pdf"] = print_pdf(document, open_word=OPEN)
            texts[f"{name}.docx"] = print_docx(document, open_word=OPEN)
    texts["dossier.json"] = dossier.to_json() + "\n"
    for table, frame in dossier.tables().items():
        safe = re.sub(r"[^\w-]+", "-", table)
        while f"{safe}.csv" in texts:
            safe += "-"
        texts[f"{safe}.csv"] = frame.map(_quote_formula).to_csv(index=False, lineterminator="\n")
    return texts


def _quote_formula(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@")) else cell


def _write_files(folder: str | Path, texts: Mapping[str, str | bytes]) -> tuple[Path, ...]:
    """Write all files or none: each is written to a temporary file first."""
    folder = Path(folder)
    waiting: dict[Path, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            waiting[folder / name] = stage_file(folder / name, text)
        for place, temporary in waiting.items():
            os.replace(temporary, place)
    except OSError as error:
        raise OptionError(
            f"the report cannot be written: {error.strerror or error}",
            location=str(folder),
            hint="choose a folder that you can write to",
        ) from None
    finally:
        for temporary in waiting.values():
            temporary.unlink(missing_ok=True)
    return tuple(waiting)


def write_page(page: str, path: Path) -> None:
    """Write a page atomically.

    Raises:
        OptionError: the file cannot be written.
    """
    try:
        write_atomically(path, page)
    except OSError as error:
        raise OptionError(f"the page cannot be written: {error.strerror or error}", location=str(path)) from None
