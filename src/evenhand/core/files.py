"""Files that are whole or as they were before: written beside their place, put on the disk, then renamed."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write a whole file; a crash in between leaves what was there before.

    Args:
        path: where; its folder must exist.
        data: bytes, or text that is written as UTF-8 with plain line ends.

    Raises:
        OSError: the file cannot be written; nothing is left beside it.
    """
    path = path.resolve()  # a link stays a link
    if path.exists() and not path.is_file():
        # A pipe or a device has no earlier content to keep, and must not be replaced by a file.
        path.write_bytes(data.encode("utf-8", errors="backslashreplace") if isinstance(data, str) else data)
        return
    staged = stage_file(path, data)
    try:
        os.replace(staged, path)
    except OSError:
        staged.unlink(missing_ok=True)
        raise


def stage_file(path: Path, data: bytes | str) -> Path:
    """Write data to a new file in the folder of ``path``, and return it: ``os.replace`` puts it into its place.

    Raises:
        OSError: the file cannot be written; nothing is left behind.
    """
    content = data.encode("utf-8", errors="backslashreplace") if isinstance(data, str) else data
    staged = path.absolute().with_name(f".{path.name}.{secrets.token_hex(8)}")
    # The system applies the umask, so that the file has the permissions of any other new file.
    descriptor = os.open(staged, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        staged.unlink()
        raise
    return staged


def append_durably(path: Path, data: bytes) -> None:
    """Append to a file durably: the data are on the disk when this returns.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
