"""Read certificate files. Every length, checksum and number is checked before it is used."""

from __future__ import annotations

import hashlib
import itertools
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, EvenhandError, SchemaError
from evenhand.schema.schema import Schema

MAGIC = b"EVENHAND certificate "
FORMAT = b"5\n"
WHOLE = 4294967295
"""Shares are multiples of 1 / ``WHOLE``."""
MAX_TEXT = 2**26
MAX_SECTION = 2**31
MAX_UNPACKED = 2**31
"""Maximum number of bytes of all sections of a file together, after decompression."""
MAX_CELLS = 2**21
"""Maximum number of cells of an attribute that list their values or weights, or are compared with a population."""
MAX_BOXES = 65_536
MAX_BANDS = 62
SINGLE, DOUBLE = {"unit": 2.0**-24, "activation": 2.0**-21}, {"unit": 2.0**-53, "activation": 2.0**-50}
SLACK = {"network": (SINGLE,), "trees": (SINGLE, DOUBLE)}
"""Permitted assumptions about the deployed model's arithmetic: see ``deployed`` and ``trees.margins``."""


class CertificateError(EvenhandError, ValueError):
    """Raised when a certificate is damaged, altered, or for something else.

    All functions of this package may raise it.
    """

    exit_code = 1


@contextmanager
def reject_malformed(part: str) -> Iterator[None]:
    """Reject the certificate when one of its parts has values of the wrong type or range.

    Args:
        part: Part of the file that is read, for the message.

    Raises:
        CertificateError: The part is malformed.
    """
    try:
        yield
    except EvenhandError:
        raise
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise CertificateError(f"{part} is malformed: {place or 'text'}: {first['msg']}") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise CertificateError(f"{part} is malformed: {type(error).__name__}: {error}") from error


class _Claim(BaseModel):
    """Part of the header. Fields have exactly these types, and numbers are finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ModelClaim(_Claim):
    """Name, kind and digest of the model."""

    name: str
    kind: Literal["network", "trees"]
    fingerprint: str


class CellsClaim(_Claim):
    """Description of the cells of one attribute; see ``RecordedCells``."""

    name: str
    cells: int = Field(ge=1, lt=2**31)
    form: Literal["listed", "bins", "runs", "even"]
    weights: Literal["entries", "listed"]
    first: float = 0.0
    last: float = 0.0
    values: int = 1


class CertificateHeader(_Claim):
    """Header of a certificate.

    Attributes:
        format, whole: Versions of the format and of shares.
        evenhand: Version that wrote the file.
        method: Method of the proof.
        model: Model.
        described_schema: Schema of the model, not parsed.
        protected: Compared entries of each attribute.
        where: Conditions on the people.
        threshold: Threshold on the second label's probability, for two labels.
        tolerance: Permitted change of a number. None for labels and bands.
        bands: Scores that separate bands of the favourable label's score. Empty for labels.
        outcomes: Numbers of different outcomes that are counted: two and possibly more.
        population: Name of the population.
        slack: Assumptions about the deployed model's arithmetic.
        attributes: Cells of the other attributes.
    """

    format: Literal[5]
    whole: Literal[4294967295]
    evenhand: str
    method: Literal["linear", "interval", "enumeration", "trees"]
    model: ModelClaim
    described_schema: dict[str, Any] = Field(alias="schema")
    protected: dict[str, tuple[float, ...]]
    where: tuple[str, ...]
    threshold: float | None
    tolerance: float | None = Field(ge=0)
    bands: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(max_length=MAX_BANDS - 1)
    outcomes: tuple[int, ...] = Field(min_length=1)
    population: str
    slack: dict[str, float]
    attributes: tuple[CellsClaim, ...]


class TotalsClaim(_Claim):
    """Totals of a partition; sums are decimal text."""

    boxes: int
    certified: str
    falsified: str
    of: str


@dataclass(frozen=True)
class RecordedCells:
    """Cells of one attribute in the file.

    Attributes:
        name: Name of the attribute.
        count: Number of cells.
        form: ``listed`` (one entry each), ``bins`` (from ``starts`` to ``ends``), ``runs`` (``values`` consecutive
            integers each, from ``first`` to ``last``) or ``even`` (parts of equal width of ``first`` to ``last``).
        weights: Integer mass of each cell. None if the mass of a cell is its number of entries (1 for parts of a real
            number).
    """

    name: str
    count: int
    form: str
    first: float
    last: float
    values: int
    starts: Floats | None
    ends: Floats | None
    weights: Integers | None

    @cached_property
    def extent(self) -> tuple[float, float]:
        """Smallest and largest entry."""
        if self.starts is None:
            return self.first, self.last
        ends = self.starts if self.ends is None else self.ends
        return float(self.starts.min()), float(ends.max())

    def entries(self, cells: NDArray[np.integer]) -> tuple[Floats, Floats]:
        """Compute the smallest and largest entry of each cell, up to rounding for real attributes."""
        if self.starts is not None:
            return self.starts[cells], self.starts[cells] if self.ends is None else self.ends[cells]
        if self.form == "runs":
            begins = self.first + cells.astype(np.float64) * self.values
            return begins, np.minimum(begins + (self.values - 1), self.last)
        width = self.last - self.first
        return self.first + width * (cells / self.count), self.first + width * ((cells + 1) / self.count)


class ClaimedBoxes(NamedTuple):
    """Boxes: first and last cells, shape (n, attributes), and the shares that each claims, in parts of ``WHOLE``."""

    low: NDArray[np.integer]
    high: NDArray[np.integer]
    fair: NDArray[np.uint32]
    unfair: NDArray[np.uint32]

    def of(self, which: slice | np.intp | NDArray[np.intp] | Booleans) -> ClaimedBoxes:
        """Return some of the boxes."""
        return ClaimedBoxes(self.low[which], self.high[which], self.fair[which], self.unfair[which])


class ClaimedPartition(NamedTuple):
    """Boxes that answer one question of a certificate.

    Attributes:
        least: Minimum number of different outcomes that counts as unfair treatment.
        boxes: Boxes with their claimed shares.
        certified, falsified, of: Claimed totals.
    """

    least: int
    boxes: ClaimedBoxes
    certified: int
    falsified: int
    of: int


@dataclass(frozen=True)
class CertificateClaim:
    """Claims of a certificate.

    Attributes:
        header: Model, question and method.
        schema: Schema of the model.
        cells: Cells of the unprotected attributes.
        digest: SHA-256 digest of the file.
        partitions: Boxes for two different outcomes, and for each larger number that was counted.
    """

    header: CertificateHeader
    schema: Schema
    cells: tuple[RecordedCells, ...]
    digest: bytes
    partitions: tuple[ClaimedPartition, ...]


def read_certificate(path: Path) -> CertificateClaim:
    """Read a certificate.

    Raises:
        DataError: The file does not exist, is not a certificate, or has an unknown format.
        CertificateError: The certificate is damaged or invalid.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise DataError("this is not a certificate", location=str(path), hint="`certificate=FILE` of a proof")
            version = file.read(len(FORMAT))
            if version != FORMAT:
                raise DataError(
                    f"certificate format {version!r} is not known", location=str(path), hint="update Evenhand"
                )
            return _read_claim(_SectionReader(file))
    except OSError as error:
        raise DataError(f"the certificate cannot be read: {error}", location=str(path)) from None


class _SectionReader:
    """Reader of the sections of a file, which verifies their checksums."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256(MAGIC + FORMAT)
        self._unpacked = 0

    def next(self) -> tuple[bytes, bytes]:
        """Return the tag and payload of the next section.

        Raises:
            CertificateError: The file ends, or a checksum is wrong.
        """
        digest = self._digest.digest()
        head = self._read_exactly(12)
        size = int.from_bytes(head[4:], "little")
        if size > MAX_SECTION:
            raise CertificateError(f"a section claims {size:,} bytes: the file is damaged")
        payload = self._read_exactly(size)
        checksum = self._read_exactly(32)
        if hashlib.sha256(head + payload).digest() != checksum:
            raise CertificateError(f"the checksum of section {head[:4]!r} is wrong: the file was damaged or changed")
        if head[:4] == b"DONE":
            if payload != digest:
                raise CertificateError("the checksum of the whole file is wrong: it was damaged or changed")
            if self._file.read(1):
                raise CertificateError("there is trailing data after the certificate")
        self._digest.update(head + payload + checksum)
        return head[:4], payload

    def _read_exactly(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise CertificateError("the certificate is truncated")
        return data

    def expect_section(self, tag: bytes) -> bytes:
        """Return the payload of the next section, which must have this tag."""
        received, payload = self.next()
        if received != tag:
            raise CertificateError(f"expected section {tag!r}, got {received!r}")
        return payload

    def decompress(self, payload: bytes, limit: int) -> bytes:
        """Decompress a payload to at most ``limit`` bytes.

        Raises:
            CertificateError: The payload is invalid or too long, or the file exceeds ``MAX_UNPACKED``.
        """
        machine = zlib.decompressobj()
        try:
            unpacked = machine.decompress(payload, limit + 1)
        except zlib.error as error:
            raise CertificateError(f"packed data cannot be read: {error}") from None
        if len(unpacked) > limit or not machine.eof or machine.unused_data:
            raise CertificateError("packed data has the wrong length")
        self._unpacked += len(unpacked)
        if self._unpacked > MAX_UNPACKED:
            raise CertificateError(
                f"the certificate holds more than {MAX_UNPACKED:,} bytes of unpacked data, too many to check"
            )
        return unpacked


@reject_malformed("the certificate")
def _read_claim(sections: _SectionReader) -> CertificateClaim:
    header = CertificateHeader.model_validate_json(sections.decompress(sections.expect_section(b"HEAD"), MAX_TEXT))
    _check_comparison(header)
    cells = tuple(_read_cells(described, sections) for described in header.attributes)
    partitions = tuple(_read_partition(cells, sections, least) for least in header.outcomes)
    digest = sections.expect_section(b"DONE")
    try:
        schema = Schema.parse(header.described_schema)
    except SchemaError as error:
        raise CertificateError(f"the schema in the certificate is invalid: {error.message}") from None
    names = [attribute.name for attribute in schema.attributes]
    if sorted([*header.protected, *(each.name for each in cells)]) != sorted(names):
        raise CertificateError("the attributes of the certificate do not match its schema")
    for name, entries in header.protected.items():
        inside = schema[name].contains(np.array(entries, dtype=np.float64))
        if not entries or len(set(entries)) != len(entries) or not inside.all():
            raise CertificateError(f"the values of {name!r} that are compared are not different values of its domain")
    return CertificateClaim(header, schema, cells, digest, partitions)


def _check_comparison(header: CertificateHeader) -> None:
    """Check that the checker supports the assumptions and that the settings are consistent."""
    if header.slack not in SLACK[header.model.kind]:
        raise CertificateError(
            "the certificate assumes a rounding of the deployed model that the checker does not support"
        )
    numeric, outcomes = header.tolerance is not None, list(header.outcomes)
    if any(a >= b for a, b in itertools.pairwise(header.bands)):
        raise CertificateError("the edges of the bands must increase")
    if sum((numeric, bool(header.bands), header.threshold is not None)) > 1:
        raise CertificateError("a tolerance, bands and a threshold are mutually exclusive")
    if outcomes != list(range(2, 2 + len(outcomes))) or (numeric and len(outcomes) > 1):
        raise CertificateError(f"the numbers of different outcomes that are counted, {outcomes}, are invalid")


def _read_partition(cells: tuple[RecordedCells, ...], sections: _SectionReader, least: int) -> ClaimedPartition:
    blocks, totals = _read_blocks(cells, sections)
    boxes = ClaimedBoxes(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))
    if len(boxes.low) != totals.boxes:
        raise CertificateError(f"the certificate has {len(boxes.low):,} boxes and claims {totals.boxes:,}")
    return ClaimedPartition(least, boxes, int(totals.certified), int(totals.falsified), int(totals.of))


def _read_cells(described: CellsClaim, sections: _SectionReader) -> RecordedCells:
    name, count, form = described.name, described.cells, described.form
    if count > MAX_CELLS and (form in ("listed", "bins") or described.weights == "listed"):
        raise CertificateError(f"{count:,} listed cells of {name!r} are too many to be checked")

    def read_entries(kind: str) -> NDArray[Any]:
        data = sections.decompress(sections.expect_section(b"CELL"), 8 * count)
        if len(data) != 8 * count:
            raise CertificateError(f"{name!r} lists fewer numbers than it has cells")
        return np.frombuffer(data, dtype=kind)

    starts = read_entries("<f8") if form in ("listed", "bins") else None
    ends = read_entries("<f8") if form == "bins" else None
    weights = read_entries("<i8") if described.weights == "listed" else None
    for array in (starts, ends):
        if array is not None and not np.isfinite(array).all():
            raise CertificateError(f"an entry of {name!r} is not a number")
    if weights is not None and (weights.min() < 0 or not 0 < sum(int(weight) for weight in weights) < 2**62):
        raise CertificateError(f"the masses of {name!r} are invalid")
    fields = described.model_dump(exclude={"cells", "weights"})
    return RecordedCells(**fields, count=count, starts=starts, ends=ends, weights=weights)


def _read_blocks(
    cells: tuple[RecordedCells, ...], sections: _SectionReader
) -> tuple[list[tuple[NDArray[Any], ...]], TotalsClaim]:
    kinds = ["<u1" if each.count <= 2**8 else "<u2" if each.count <= 2**16 else "<u4" for each in cells]
    widths = [np.dtype(kind).itemsize for kind in kinds]
    dtype = np.dtype(max(kinds, default="<u1", key=lambda kind: np.dtype(kind).itemsize))
    blocks: list[tuple[NDArray[Any], ...]] = []
    while True:
        tag, payload = sections.next()
        if tag == b"TOTL":
            break
        if tag != b"BOXS":
            raise CertificateError(f"section {tag!r} was found instead of boxes")
        raw = sections.decompress(payload, 4 + MAX_BOXES * (2 * sum(widths) + 8))
        n = int.from_bytes(raw[:4], "little")
        if not 0 < n <= MAX_BOXES or len(raw) != 4 + n * (2 * sum(widths) + 8):
            raise CertificateError("a block of boxes has the wrong length")
        columns = _unpack_columns(raw, n, [*kinds, *kinds, "<u4", "<u4"])
        low, extent = np.empty((n, len(cells)), dtype=dtype), np.empty((n, len(cells)), dtype=dtype)
        for i in range(len(cells)):
            low[:, i] = next(columns)
        for i, each in enumerate(cells):
            span = next(columns)
            if (low[:, i].astype(np.int64) + span >= each.count).any():
                raise CertificateError(f"a box reaches beyond the cells of {each.name!r}")
            extent[:, i] = span
        fair, unfair = next(columns), next(columns)
        if (fair.astype(np.int64) + unfair > WHOLE).any():
            raise CertificateError("the shares of a box add up to more than 1")
        blocks.append((low, low + extent, fair, unfair))
    if not blocks:
        raise CertificateError("the certificate has no boxes")
    return blocks, TotalsClaim.model_validate_json(sections.decompress(payload, MAX_TEXT))


def _unpack_columns(raw: bytes, n: int, kinds: list[str]) -> Iterator[NDArray[Any]]:
    at = 4
    for kind in kinds:
        yield np.frombuffer(raw, dtype=kind, count=n, offset=at)
        at += n * np.dtype(kind).itemsize
