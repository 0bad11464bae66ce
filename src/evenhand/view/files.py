"""A report on disk: no file is ever half-written, and nothing is written of an audit that cannot be shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.errors import OptionError
from evenhand.files import stage_file, write_atomically
from evenhand.view.page_template import render_page

if TYPE_CHECKING:
    from evenhand.auditing import AuditResult


def write_report(audit: AuditResult, folder: str | Path) -> tuple[Path, ...]:
    """Write ``report.html`` and ``report.json`` into a folder, which is made if need be.

    Everything is made before anything is written, and written beside its place before it takes it.

    Returns:
        The files, the one to read first.

    Raises:
        OptionError: the folder cannot be written to; no file there is left half-written.
    """
    folder = Path(folder)
    texts = {"report.html": render_page(audit.document()), "report.json": audit.to_json() + "\n"}
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
            hint="name a folder that you may write to",
        ) from None
    finally:
        for temporary in waiting.values():
            temporary.unlink(missing_ok=True)
    return tuple(waiting)


def write_page(page: str, path: Path) -> None:
    """Write a page of its own; it is written beside its place before it takes it.

    Raises:
        OptionError: the file cannot be written.
    """
    try:
        write_atomically(path, page)
    except OSError as error:
        raise OptionError(f"the page cannot be written: {error.strerror or error}", location=str(path)) from None
