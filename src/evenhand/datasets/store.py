"""Where data files are kept, found and read; nothing is put there before it has been checked."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import TypeVar

from evenhand.datasets.entry import DatasetEntry
from evenhand.datasets.tables import COMPRESSIONS, decompress_file
from evenhand.errors import DataError, EvenhandError, FetchError
from evenhand.http import DownloadProgress, download

T = TypeVar("T")

HOME_VARIABLE = "EVENHAND_DATA_HOME"


def data_home(given: str | Path | None = None) -> Path:
    """Return the folder of data files: the one given, else ``$EVENHAND_DATA_HOME``, else the user's cache folder."""
    if given is not None:
        return Path(given).expanduser()
    if os.environ.get(HOME_VARIABLE):
        return Path(os.environ[HOME_VARIABLE]).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenhand"


def find_file(entry: DatasetEntry, home: Path) -> Path | None:
    """Return the file of a data set in a folder: under a recognised name, plain, compressed, or zipped as published."""
    found = _first_file(entry.files, home)
    return found or next((path for path in _download_paths(entry, home) if path.is_file()), None)


def find_table(names: Sequence[str], home: str | Path | None = None, *, hint: str = "") -> Path:
    """Return the first of some files that is in the folder of data files, plain or compressed.

    Args:
        names: of the files, without the suffix of a compression.
        home: the folder; by default ``$EVENHAND_DATA_HOME`` or the user's cache folder.
        hint: where they can be got.

    Raises:
        FetchError: none of them is there.
    """
    folder = data_home(home)
    found = _first_file(names, folder)
    if found is None:
        raise FetchError(
            f"none of these files is in {folder}: {', '.join(names)}", hint=hint or "put one of them there"
        )
    return found


def _first_file(names: Sequence[str], folder: Path) -> Path | None:
    paths = (folder / (name + suffix) for name in names for suffix in ("", *COMPRESSIONS))
    return next((path for path in paths if path.is_file()), None)


def manual_path(entry: DatasetEntry, home: Path) -> Path:
    """Where a file fetched by hand belongs."""
    return _download_paths(entry, home)[0]


def _download_paths(entry: DatasetEntry, home: Path) -> list[Path]:
    return [home / url.rsplit("/", 1)[1] for url in entry.urls]


def read_content(entry: DatasetEntry, path: Path) -> bytes:
    """Return the publisher's bytes: decompressed, or taken out of the zip file.

    Raises:
        DataError: the file is damaged, or the zip file does not hold what it should.
    """
    recorded = _recorded_hash(path)
    if recorded is not None and (found := file_hash(path)) != recorded:
        raise DataError(
            f"the file has changed since it was fetched: its SHA-256 is {found}, recorded was {recorded}",
            location=str(path),
            hint=f"delete it and {_hash_record(path).name}, and fetch it again",
        )
    data = decompress_file(path)
    return _read_member(data, entry.member, str(path)) if data.startswith(b"PK\x03\x04") else data


def fetch_dataset(
    entry: DatasetEntry, home: Path, accept: Callable[[bytes, str], T], *, progress: DownloadProgress | None = None
) -> T:
    """Fetch a data set into a folder and return what ``accept`` makes of it; a file that it refuses does not stay.

    Raises:
        FetchError: nothing came, or nothing acceptable; the message says what was tried and where to put which file.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _download_error(entry, home, [f"{home}: {error.strerror or error}"]) from None
    tried = []
    for url, path in zip(entry.urls, _download_paths(entry, home), strict=True):
        try:
            temporary = download_file(url, home, progress=progress)
        except FetchError as error:
            tried.append(f"{url}: {error.message}")
            continue
        try:
            accepted = accept(read_content(entry, temporary), url)
            if entry.sha256 is None:
                _hash_record(path).write_text(f"{file_hash(temporary)}  {path.name}\n", encoding="ascii")
            temporary.replace(path)
        except EvenhandError as error:
            tried.append(f"{url}: what came is not the data set ({error.message})")
        else:
            return accepted
        finally:
            temporary.unlink(missing_ok=True)
    raise _download_error(entry, home, tried)


def missing_file_error(entry: DatasetEntry, home: Path) -> FetchError:
    """Return what to say when the file is not here and must not be fetched."""
    return _download_error(entry, home, [])


def file_hash(path: Path) -> str:
    """Return SHA-256 of a file as it lies there."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download_error(entry: DatasetEntry, home: Path, tried: list[str]) -> FetchError:
    what = f"the data set {entry.name!r} is not in {home}"
    if tried:
        what += " and could not be fetched; tried " + "; ".join(tried)
    return FetchError(
        what,
        hint=f"download {entry.urls[0]} and save it as {manual_path(entry, home)}; or name the folder that holds it: "
        f"`data_home=FOLDER` (recognised: {', '.join(entry.files)}, each also with {', '.join(COMPRESSIONS)})",
    )


def _hash_record(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _recorded_hash(path: Path) -> str | None:
    try:
        return _hash_record(path).read_text(encoding="ascii").split()[0]
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, IndexError):
        raise DataError(
            "the recorded SHA-256 cannot be read", location=str(_hash_record(path)), hint="delete it"
        ) from None


def _read_member(data: bytes, name: str, location: str) -> bytes:
    """Return a file inside a zip file, or inside a zip file in it."""
    try:
        found = _find_member(data, name.lower())
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise DataError(
            f"the zip file is truncated or corrupt ({error})", location=location, hint="get it again"
        ) from None
    if found is None:
        raise DataError(f"the zip file does not hold {name}", location=location)
    return found


def _find_member(data: bytes, name: str) -> bytes | None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.namelist()
        for member in members:
            if PurePosixPath(member).name.lower() == name:
                return archive.read(member)
        for member in members:
            if member.lower().endswith(".zip") and (found := _find_member(archive.read(member), name)) is not None:
                return found
    return None


# One file over the network: whole or not at all.


def download_file(url: str, folder: Path, *, progress: DownloadProgress | None = None) -> Path:
    """Fetch a URL into a temporary file of ``folder``; nothing is left behind where that fails.

    Raises:
        FetchError: no connection, an answer other than 200, an incomplete answer, or a folder that cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".fetching-")
    except OSError as error:
        raise FetchError(f"the folder cannot be written: {error.strerror or error}", location=str(folder)) from None
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            download(url, out.write, progress)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, FetchError):
            raise FetchError(f"the file cannot be written: {error.strerror or error}", location=str(folder)) from None
        raise
    return temporary
