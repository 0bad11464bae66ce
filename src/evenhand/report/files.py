"""A report on disk: no file is ever half-written, and nothing is written of an audit that cannot be shown."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from evenhand.errors import OptionError
from evenhand.report.html import render

if TYPE_CHECKING:
    from evenhand.audit.result import AuditResult


def write(audit: AuditResult, folder: str | Path) -> tuple[Path, ...]:
    """Write ``report.html`` and ``report.json`` into a folder, which is made if need be.

    Everything is made before anything is written, and written beside its place before it takes it.

    Returns:
        The files, the one to read first.

    Raises:
        OptionError: the folder cannot be written to; no file there is left half-written.
    """
    folder = Path(folder)
    texts = {"report.html": render(audit), "report.json": audit.to_json() + "\n"}
    waiting: dict[Path, Path] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            waiting[folder / name] = _beside(folder / name, text)
        for place, temporary in waiting.items():
            os.replace(temporary, place)
    except OSError as error:
        raise OptionError(
            f"the report cannot be written: {error.strerror or error}",
            where=str(folder),
            mend="name a folder that you may write to: --out FOLDER",
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
        os.replace(_beside(path, page), path)
    except OSError as error:
        raise OptionError(f"the page cannot be written: {error.strerror or error}", where=str(path)) from None


def _beside(place: Path, text: str) -> Path:
    """The text in a new file in the same folder, on the disk."""
    descriptor, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
    except OSError:
        os.unlink(name)
        raise
    return Path(name)


def _umask() -> int:
    """What a plain ``open`` would leave out of a new file's permissions (asking means setting)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
