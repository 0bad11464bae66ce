"""Atomic and durable writes to files."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write a file atomically. After a crash, the file has its previous content.

    Args:
        path: Path of the file. Its folder must exist.
        data: Bytes, or text that is encoded as UTF-8. Line endings are not converted.

    Raises:
        OSError: The file cannot be written. No temporary file remains.
    """
    path = path.resolve()  # preserves symbolic links
    if path.exists() and not path.is_file():
        # A pipe or a device has no content to preserve, and must not be replaced with a file.
        path.write_bytes(data.encode("utf-8", errors="backslashreplace") if isinstance(data, str) else data)
        return
    staged = stage_file(path, data)
    try:
        os.replace(staged, path)
    except OSError:
        staged.unlink(missing_ok=True)
        raise


def stage_file(path: Path, data: bytes | str) -> Path:
    """Write data to a temporary file in the folder of ``path``, for ``os.replace``.

    Raises:
        OSError: The file cannot be written. No temporary file remains.
    """
    content = data.encode("utf-8", errors="backslashreplace") if isinstance(data, str) else data
    staged = path.absolute().with_name(f".{path.name}.{secrets.token_hex(8)}")
    # The system applies the umask, so the file gets default permissions.
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
    """Append data to a file and flush it to disk.

    Raises:
        OSError: The file cannot be written.
    """
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
