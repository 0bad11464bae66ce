"""Where data files are kept, found and read; nothing is put there before it has been checked."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TypeVar

from evenhand.datasets.entry import Entry
from evenhand.datasets.fetch import Progress, download
from evenhand.datasets.tables import COMPRESSIONS, decompressed
from evenhand.errors import DataError, EvenhandError, FetchError

T = TypeVar("T")

HOME_VARIABLE = "EVENHAND_DATA_HOME"


def data_home(given: str | Path | None = None) -> Path:
    """The folder of data files: the one given, else ``$EVENHAND_DATA_HOME``, else the user's cache folder."""
    if given is not None:
        return Path(given).expanduser()
    if os.environ.get(HOME_VARIABLE):
        return Path(os.environ[HOME_VARIABLE]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenhand"


def located(entry: Entry, home: Path) -> Path | None:
    """The file of a data set in a folder: under a recognised name, plain, compressed, or zipped as published."""
    for file in entry.files:
        for suffix in ("", *COMPRESSIONS):
            if (path := home / (file + suffix)).is_file():
                return path
    return next((path for path in _fetched(entry, home) if path.is_file()), None)


def wanted(entry: Entry, home: Path) -> Path:
    """Where a file fetched by hand belongs."""
    return _fetched(entry, home)[0]


def _fetched(entry: Entry, home: Path) -> list[Path]:
    return [home / url.rsplit("/", 1)[1] for url in entry.urls]


def content(entry: Entry, path: Path) -> bytes:
    """The publisher's bytes: decompressed, or taken out of the zip file.

    Raises:
        DataError: the file is damaged, or the zip file does not hold what it should.
    """
    recorded = _recorded(path)
    if recorded is not None and (found := file_hash(path)) != recorded:
        raise DataError(
            f"the file has changed since it was fetched: its SHA-256 is {found}, recorded was {recorded}",
            where=str(path),
            mend=f"delete it and {_record(path).name}, and fetch it again",
        )
    data = decompressed(path)
    return _member(data, entry.member, str(path)) if data.startswith(b"PK\x03\x04") else data


def fetch(entry: Entry, home: Path, accept: Callable[[bytes, str], T], *, progress: Progress | None = None) -> T:
    """Fetch a data set into a folder and return what ``accept`` makes of it; a file that it refuses does not stay.

    Raises:
        FetchError: nothing came, or nothing acceptable; the message says what was tried and where to put which file.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_fetched(entry, home, [f"{home}: {error.strerror or error}"]) from None
    tried = []
    for url, path in zip(entry.urls, _fetched(entry, home), strict=True):
        try:
            temporary = download(url, home, progress=progress)
        except FetchError as error:
            tried.append(f"{url}: {error.what}")
            continue
        try:
            accepted = accept(content(entry, temporary), url)
            if entry.sha256 is None:
                _record(path).write_text(f"{file_hash(temporary)}  {path.name}\n", encoding="ascii")
            temporary.replace(path)
        except EvenhandError as error:
            tried.append(f"{url}: what came is not the data set ({error.what})")
        else:
            return accepted
        finally:
            temporary.unlink(missing_ok=True)
    raise _not_fetched(entry, home, tried)


def absent(entry: Entry, home: Path) -> FetchError:
    """What to say when the file is not here and must not be fetched."""
    return _not_fetched(entry, home, [])


def file_hash(path: Path) -> str:
    """SHA-256 of a file as it lies there."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _not_fetched(entry: Entry, home: Path, tried: list[str]) -> FetchError:
    what = f"the data set {entry.name!r} is not in {home}"
    if tried:
        what += " and could not be fetched; tried " + "; ".join(tried)
    return FetchError(
        what,
        mend=f"download {entry.urls[0]} and save it as {wanted(entry, home)}; or name the folder that holds it: "
        f"--data-home FOLDER (recognised: {', '.join(entry.files)}, each also with {', '.join(COMPRESSIONS)})",
    )


def _record(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _recorded(path: Path) -> str | None:
    try:
        return _record(path).read_text(encoding="ascii").split()[0]
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, IndexError):
        raise DataError("the recorded SHA-256 cannot be read", where=str(_record(path)), mend="delete it") from None


def _member(data: bytes, name: str, where: str) -> bytes:
    """A file inside a zip file, or inside a zip file in it."""
    try:
        found = _find(data, name.lower())
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise DataError(f"the zip file is truncated or corrupt ({error})", where=where, mend="get it again") from None
    if found is None:
        raise DataError(f"the zip file does not hold {name}", where=where)
    return found


def _find(data: bytes, name: str) -> bytes | None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.namelist()
        for member in members:
            if PurePosixPath(member).name.lower() == name:
                return archive.read(member)
        for member in members:
            if member.lower().endswith(".zip") and (found := _find(archive.read(member), name)) is not None:
                return found
    return None
