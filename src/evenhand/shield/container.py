"""The container of a policy file: readable JSON, packed arrays of numbers, and a checksum over everything.

The layout is described in ``docs/reference/shield-file.md``. Reading never runs anything: JSON and plain numbers are
all that there is.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DataError, OptionError

NAME = b"EVENHAND shield "
VERSION = 1
CHECKSUM = hashlib.sha256().digest_size
TYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
"""Numbers that a file may hold, as NumPy writes their types."""
DENSEST = 1040
"""zlib packs no more bytes than so many into one: an array that claims more was never written."""

Arrays = Mapping[str, NDArray[Any]]


def pack(head: Mapping[str, Any], arrays: Arrays) -> bytes:
    """The bytes of a file that holds a description and arrays; ``unpack`` gives both back exactly.

    Args:
        head: anything that JSON can hold, without the keys ``arrays``.
        arrays: by name; numbers of the types in ``TYPES``, in either byte order.
    """
    listed, parts = [], []
    for name, array in arrays.items():
        kind = array.dtype.newbyteorder("<").str
        if kind not in TYPES:
            raise TypeError(f"the array {name!r} holds {array.dtype}, which a policy file does not")
        packed = zlib.compress(np.ascontiguousarray(array, dtype=kind).tobytes(), 6)
        listed.append({"name": name, "type": kind, "shape": list(array.shape), "bytes": len(packed)})
        parts.append(packed)
    text = json.dumps({**head, "arrays": listed}, ensure_ascii=True, allow_nan=False).encode("ascii")
    body = b"".join([NAME, b"%d\n" % VERSION, text, b"\n", *parts])
    return body + hashlib.sha256(body).digest()


def unpack(data: bytes, *, where: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The description and the arrays of ``pack``.

    Args:
        data: the whole file.
        where: what to call the file in a complaint.

    Raises:
        DataError: it is no policy file, a newer one, cut short, or anything in it was altered.
    """
    start = _after_version(data, where)
    end = data.find(b"\n", start)
    head = _description(data[start:end]) if end >= 0 else None
    listed = head.get("arrays") if head is not None else None
    expected = _length(end + 1, listed)
    if head is None or expected is None:
        raise _damaged("its description cannot be read: it was cut short or altered", where)
    if len(data) < expected:
        raise _damaged(f"it was cut short: {len(data):,} of {expected:,} bytes are there", where)
    if len(data) > expected:
        raise _damaged(f"{len(data) - expected:,} bytes follow its end", where)
    body, checksum = data[:-CHECKSUM], data[-CHECKSUM:]
    if hashlib.sha256(body).digest() != checksum:
        raise _damaged("it was altered: its checksum does not fit", where)
    arrays, at = {}, end + 1
    for one in head.pop("arrays"):
        arrays[one["name"]] = _array(one, body[at : at + one["bytes"]], where)
        at += one["bytes"]
    return head, arrays


def write_bytes(data: bytes, path: Path) -> None:
    """Write a file beside its place first, so that it is never half there.

    Raises:
        OptionError: it cannot be written.
    """
    beside = None
    try:
        number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
        beside = Path(name)
        with os.fdopen(number, "wb") as file:
            file.write(data)
        # A temporary file is for its maker's eyes only; this one is as any other that they write.
        mask = os.umask(0)
        os.umask(mask)
        beside.chmod(0o666 & ~mask)
        os.replace(beside, path)
    except OSError as error:
        raise OptionError(f"the policy cannot be written: {error.strerror or error}", where=str(path)) from None
    finally:
        if beside is not None:
            beside.unlink(missing_ok=True)


def read_bytes(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        DataError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(
            f"the policy file cannot be read: {error.strerror or error}",
            where=str(path),
            mend="evenhand shield synthesize --config shield.yaml --out FILE makes one",
        ) from None


def _after_version(data: bytes, where: str) -> int:
    """Where the description begins."""
    line, newline, _ = data[:64].partition(b"\n")
    number = line.removeprefix(NAME)
    if not newline or not line.startswith(NAME) or not number.isdigit():
        raise DataError(
            "this is no policy file of Evenhand",
            where=where,
            mend="give the file that `evenhand shield synthesize --out` wrote",
        )
    if number != b"%d" % VERSION:
        raise DataError(
            f"this policy file has format {number.decode()}, and this Evenhand reads format {VERSION}",
            where=where,
            mend="use the Evenhand that wrote it, or synthesize the shield again",
        )
    return len(line) + 1


def _description(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _length(start: int, listed: Any) -> int | None:
    """How long the file must be; None where the list of arrays makes no sense."""
    if not isinstance(listed, list):
        return None
    names = set()
    for one in listed:
        if not isinstance(one, dict) or one.keys() != {"name", "type", "shape", "bytes"}:
            return None
        name, kind, shape, length = one["name"], one["type"], one["shape"], one["bytes"]
        if not isinstance(name, str) or name in names or kind not in TYPES or not isinstance(shape, list):
            return None
        if any(type(number) is not int or number < 0 for number in [*shape, length]):
            return None
        names.add(name)
        start += length
    return start + CHECKSUM


def _array(one: Mapping[str, Any], packed: bytes, where: str) -> NDArray[Any]:
    kind = np.dtype(one["type"])
    size = _product(one["shape"]) * kind.itemsize
    if size <= DENSEST * len(packed):
        unpacking = zlib.decompressobj()
        try:
            plain = unpacking.decompress(packed, size + 1)
        except zlib.error:
            plain = b""
        if len(plain) == size and unpacking.eof and not unpacking.unused_data:
            return np.frombuffer(plain, dtype=kind).reshape(one["shape"])
    raise _damaged(f"the numbers of {one['name']!r} are not those that its description names", where)


def _product(numbers: Sequence[int]) -> int:
    product = 1
    for number in numbers:
        product *= number
    return product


def _damaged(what: str, where: str) -> DataError:
    return DataError(
        f"this policy file is not whole: {what}",
        where=where,
        mend="copy it again, or synthesize the shield again: evenhand shield synthesize",
    )
