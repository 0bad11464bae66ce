"""One file over the network: whole or not at all."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from evenhand.errors import FetchError

Progress: TypeAlias = Callable[[int, int | None], None]
"""Called with the bytes received so far and the bytes expected (None where the publisher does not say)."""

CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
PIECE = 1 << 16


def download(url: str, folder: Path, *, progress: Progress | None = None) -> Path:
    """Fetch a URL into a temporary file of ``folder``; nothing is left behind where that fails.

    Raises:
        FetchError: no connection, an answer other than 200, an incomplete answer, or a folder that cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".fetching-")
    except OSError as error:
        raise FetchError(f"the folder cannot be written: {error.strerror or error}", where=str(folder)) from None
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            _receive(url, out.write, progress)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, FetchError):
            raise FetchError(f"the file cannot be written: {error.strerror or error}", where=str(folder)) from None
        raise
    return temporary


def _receive(url: str, write: Callable[[bytes], object], progress: Progress | None) -> None:
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    import urllib3

    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    with urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager() as pool:
        try:
            answer = pool.request(
                "GET",
                url,
                preload_content=False,
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
                retries=urllib3.Retry(total=6, connect=1, read=1, redirect=5, backoff_factor=0.2),
                headers={"User-Agent": "evenhand", "Accept-Encoding": "identity"},
            )
            try:
                if answer.status != 200:
                    raise FetchError(f"the publisher answers {answer.status} {answer.reason or ''}".strip())
                length = answer.headers.get("Content-Length")
                expected = int(length) if length and length.isdigit() else None
                received = 0
                for piece in answer.stream(PIECE):
                    write(piece)
                    received += len(piece)
                    if progress is not None:
                        progress(received, expected)
            finally:
                answer.close()
        except urllib3.exceptions.HTTPError as error:
            raise FetchError(_reason(error)) from None


def _reason(error: Exception) -> str:
    """The innermost cause, in the words after urllib3's naming of the connection object."""
    cause: object = error
    while isinstance(inner := getattr(cause, "reason", None), Exception):
        cause = inner
    return re.sub(r"^.*?\bHTTPS?Connection\b[^:]*: ", "", str(cause))
