"""Storage of data files: data folder, downloads, and checks of the content before use."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import TypeVar

from evenhand.core.files import write_atomically
from evenhand.core.http import DownloadProgress, download
from evenhand.datasets.entry import DatasetCard, DatasetEntry
from evenhand.datasets.tables import COMPRESSIONS, decompress_file
from evenhand.errors import DataError, EvenhandError, FetchError

T = TypeVar("T")

HOME_VARIABLE = "EVENHAND_DATA_HOME"


def data_home(folder: str | Path | None = None) -> Path:
    """Return the folder of data files: the argument, else ``$EVENHAND_DATA_HOME``, else the user's cache folder."""
    folder = os.environ.get(HOME_VARIABLE) or None if folder is None else folder
    if folder is not None:
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenhand"


def find_file(card: DatasetCard, home: Path) -> Path | None:
    """Find the file of a data set in a folder: under a recognised name, plain, compressed, or zipped as published."""
    named = (home / (name + suffix) for name in card.files for suffix in ("", *COMPRESSIONS))
    return next((path for path in (*named, *download_paths(card, home)) if path.is_file()), None)


def download_paths(card: DatasetCard, home: Path) -> list[Path]:
    """List the path of the file of each URL."""
    return [home / url.rsplit("/", 1)[1] for url in card.urls]


def read_content(entry: DatasetEntry, path: Path) -> bytes:
    """Read the publisher's file, decompressed or extracted from a zip file.

    Raises:
        DataError: The file is damaged, or the zip file does not contain the data file.
    """
    recorded = _recorded_hash(path)
    if recorded is not None and (sha256 := hashlib.sha256(path.read_bytes()).hexdigest()) != recorded:
        raise DataError(
            f"the file has changed since it was downloaded: expected SHA-256 {recorded}, got {sha256}",
            location=str(path),
            hint=f"delete it and {_hash_record(path).name}, and download it again",
        )
    return _extract_member(entry, decompress_file(path), str(path))


def fetch_dataset(
    entry: DatasetEntry, home: Path, accept: Callable[[bytes, str], T], *, progress: DownloadProgress | None = None
) -> T:
    """Download a data set into a folder and return the result of ``accept``. Refused files are not saved.

    Raises:
        FetchError: No download succeeded. The message lists the attempts, and the file to download manually.
    """
    card, attempts = entry.card, []
    try:
        home.mkdir(parents=True, exist_ok=True)
        for url, path in zip(card.urls, download_paths(card, home), strict=True):
            content = io.BytesIO()
            try:
                download(url, content.write, progress)
                data = content.getvalue()
                accepted = accept(_extract_member(entry, data, url), url)
            except FetchError as error:
                attempts.append(f"{url}: {error.message}")
            except EvenhandError as error:
                attempts.append(f"{url}: the download is not the data set ({error.message})")
            else:
                if card.sha256 is None:
                    record = f"{hashlib.sha256(data).hexdigest()}  {path.name}\n"
                    write_atomically(_hash_record(path), record)
                write_atomically(path, data)
                return accepted
    except OSError as error:
        attempts.append(f"{home}: {error.strerror or error}")
    raise missing_file_error(card, home, attempts)


def missing_file_error(card: DatasetCard, home: Path, attempts: Sequence[str] = ()) -> FetchError:
    """Build the error for a missing file, with the failed downloads and instructions for a manual download."""
    failures = f" and could not be downloaded; tried {'; '.join(attempts)}" if attempts else ""
    return FetchError(
        f"the data set {card.name!r} is not in {home}{failures}",
        hint=f"download {card.urls[0]} and save it as {download_paths(card, home)[0]}; or name its folder: "
        f"${HOME_VARIABLE} or `data_home=FOLDER` (recognised: {', '.join(card.files)}, each also with "
        f"{', '.join(COMPRESSIONS)})",
    )


def _hash_record(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _recorded_hash(path: Path) -> str | None:
    record = _hash_record(path)
    try:
        return record.read_text(encoding="ascii").split()[0]
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, IndexError):
        raise DataError("the recorded SHA-256 cannot be read", location=str(record), hint="delete it") from None


def _extract_member(entry: DatasetEntry, data: bytes, location: str) -> bytes:
    """Extract the data file from a zip file, or from a zip file inside it; return any other data unchanged."""
    if not data.startswith(b"PK\x03\x04"):
        return data
    try:
        content = _find_member(data, entry.member.lower())
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise DataError(
            f"the zip file is truncated or corrupt ({error})", location=location, hint="download it again"
        ) from None
    if content is None:
        raise DataError(f"the zip file does not contain {entry.member}", location=location)
    return content


def _find_member(data: bytes, name: str) -> bytes | None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.namelist()
        for member in members:
            if PurePosixPath(member).name.lower() == name:
                return archive.read(member)
        for member in members:
            if member.lower().endswith(".zip") and (content := _find_member(archive.read(member), name)) is not None:
                return content
    return None
