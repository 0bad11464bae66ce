"""Write certificate files: every final box with its proved shares, while the proof runs.

The layout is described in ``docs/reference/certificate-file.md``. ``evenhand.checker`` reads it and imports nothing
from this package.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from evenhand import __version__
from evenhand.certification.query.boxes import Boxes
from evenhand.certification.query.cells import Cells
from evenhand.certification.query.enumeration import decode_points
from evenhand.certification.query.outcomes import FAIR, UNFAIR
from evenhand.certification.query.question import Question
from evenhand.certification.query.rounding import ACTIVATION_ERROR, BINARY32_UNIT, BINARY64_UNIT
from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.models.additive.network import AdditiveNetwork, CurveTerm, network_fingerprint
from evenhand.models.trees.ensemble import TreeEnsemble, ensemble_fingerprint
from evenhand.schema.schema import Schema
from evenhand.schema.subdomain import parse_subdomain

MAGIC = b"EVENHAND certificate 5\n"
WHOLE = 2**32 - 1
"""Shares are stored as integer multiples of 1 / ``WHOLE``, rounded down."""
BLOCK = 65_536
"""Number of boxes per block of the file."""
Integers = NDArray[np.integer]


class CertificateWriter:
    """Writer of a certificate file, which takes boxes in any order.

    The boxes of each question must partition the domain, up to parts without mass. The file is renamed to its final
    name only when it is complete and the context ends without an error.

    Args:
        path: File.
        outcomes: Minimum number of different outcomes that counts as unfair treatment, for each question in order.

    Raises:
        OptionError: The file cannot be written.
    """

    def __init__(self, path: Path, outcomes: Sequence[int] = (2,)) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._outcomes = list(outcomes)
        self._begun = False
        self._held: list[tuple[NDArray[Any], ...]] = []
        self._waiting = 0
        self._lock = threading.Lock()
        self._digest = hashlib.sha256()
        try:
            self._file: BinaryIO = self._part.open("wb")
        except OSError as error:
            raise OptionError(f"the certificate cannot be written: {error}", location="`certificate=`") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.finish()
        else:
            self.discard()

    def begin(self, query: Question, model: AdditiveNetwork | TreeEnsemble, method: str) -> None:
        """Start writing the boxes of a question. The questions of a file differ only in the number of outcomes.

        Args:
            query: Question.
            model: Model.
            method: Method of the proof.

        Raises:
            OptionError: The file format does not support the question, or the file cannot be written.
        """
        parts = model.parts if isinstance(model, AdditiveNetwork) else ()
        curved = [
            attribute.name
            for attribute, part in zip(model.schema.attributes, parts, strict=bool(parts))
            if isinstance(part, CurveTerm)
        ]
        if curved:
            raise OptionError(
                f"a certificate file cannot hold {curved[0]!r}, which enters the model through a curve (a logarithm, a "
                "power, quantiles): the checker computes in fractions, and curves have no exact values",
                location="`certificate=`",
                hint="omit the certificate file, or describe the number with `edges`, or with at most 4,096 values",
            )
        self._query = query
        self._kinds = [np.min_scalar_type(cells.count - 1).newbyteorder("<") for cells in query.cells]
        self._total = int(np.prod([cells.total for cells in query.cells], dtype=object)) if query.cells else 1
        self._mass = self._certified = self._falsified = self._boxes = 0
        if self._begun:
            return
        self._begun = True
        self._write(MAGIC)
        self._write_section(
            b"HEAD", zlib.compress(json.dumps(_file_header(query, model, method, self._outcomes)).encode())
        )
        for cells in query.cells:
            for array in _cell_arrays(cells):
                self._write_section(b"CELL", zlib.compress(array.tobytes()))

    def take(self, low: Integers, high: Integers, fair: NDArray[Any], unfair: NDArray[Any]) -> None:
        """Record final boxes.

        Args:
            low, high: First and last cell of every attribute, inclusive, shape (boxes, attributes).
            fair, unfair: Proved shares of each box, from 0 to 1, exactly 1 and 0 if the box is decided as a whole.
        """
        if not len(low):
            return
        shares = (_round_down(np.asarray(each, dtype=np.float64)) for each in (fair, unfair))
        columns = (np.array(low), np.array(high), *shares)
        with self._lock:
            self._held.append(columns)
            self._waiting += len(low)
            while self._waiting >= BLOCK:
                self._flush_blocks(BLOCK)

    def record_boxes(self, boxes: Boxes, status: NDArray[np.int8]) -> None:
        """Record boxes that are decided as a whole or not at all."""
        self.take(boxes.lo, boxes.hi, (status == FAIR).astype(np.float64), (status == UNFAIR).astype(np.float64))

    def record_points(self, status: NDArray[np.int8]) -> None:
        """Record the outcome of every point of the domain. Neighbours along the last attribute share a box."""
        row = int(self._query.counts[-1]) if self._query.cells else 1
        numbers = np.arange(len(status))
        starts = np.flatnonzero((numbers % row == 0) | (np.diff(status, prepend=status[:1]) != 0))
        ends = np.append(starts[1:], len(status)) - 1
        for at in range(0, len(starts), BLOCK):
            cut = slice(at, at + BLOCK)
            outcomes = status[starts[cut]]
            self.take(
                decode_points(self._query, starts[cut]),
                decode_points(self._query, ends[cut]),
                outcomes == FAIR,
                outcomes == UNFAIR,
            )

    def end(self) -> None:
        """Write the remaining boxes of a question, and its totals.

        Raises:
            OptionError: The file cannot be written.
            RuntimeError: The boxes do not cover the domain.
        """
        with self._lock:
            if self._waiting:
                self._flush_blocks(self._waiting)
            if self._mass != self._total:
                raise RuntimeError(f"the boxes of the certificate hold {self._mass} of the domain's {self._total}")
            totals = {
                "boxes": self._boxes,
                "certified": str(self._certified),
                "falsified": str(self._falsified),
                "of": str(self._total * WHOLE),
            }
            self._write_section(b"TOTL", zlib.compress(json.dumps(totals).encode()))

    def finish(self) -> None:
        """Close the file and rename it.

        Raises:
            OptionError: The file cannot be written.
        """
        self._write_section(b"DONE", self._digest.digest())
        try:
            self._file.close()
            os.replace(self._part, self._path)
        except OSError as error:
            raise OptionError(f"the certificate cannot be written: {error}", location="`certificate=`") from None

    def discard(self) -> None:
        """Delete the incomplete file."""
        self._file.close()
        self._part.unlink(missing_ok=True)

    def _flush_blocks(self, count: int) -> None:
        columns = [np.concatenate(parts) for parts in zip(*self._held, strict=True)]
        low, high, fair, unfair = (column[:count] for column in columns)
        self._waiting -= count
        self._held = [tuple(column[count:] for column in columns)]
        mass = self._masses(low, high)
        self._mass += int(mass.sum())
        self._certified += int((mass * fair.astype(object)).sum())
        self._falsified += int((mass * unfair.astype(object)).sum())
        self._boxes += count
        pieces = [count.to_bytes(4, "little")]
        for column in (low, high - low):
            pieces += [column[:, i].astype(kind).tobytes() for i, kind in enumerate(self._kinds)]
        pieces += [fair.astype("<u4").tobytes(), unfair.astype("<u4").tobytes()]
        self._write_section(b"BOXS", zlib.compress(b"".join(pieces)))

    def _masses(self, low: Integers, high: Integers) -> NDArray[np.object_]:
        """Compute the exact masses of boxes as Python integers."""
        # The mass of a box is the product of the masses of its ranges and at most the total, so it fits if the total
        # does.
        mass = np.ones(len(low), dtype=np.int64 if self._total < 2**62 else object)
        for i, cells in enumerate(self._query.cells):
            inside = cells.before(high[:, i].astype(np.int64) + 1) - cells.before(low[:, i].astype(np.int64))
            mass = mass * inside.astype(mass.dtype)
        return mass.astype(object)

    def _write_section(self, tag: bytes, payload: bytes) -> None:
        body = tag + len(payload).to_bytes(8, "little") + payload
        self._write(body + hashlib.sha256(body).digest())

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        try:
            self._file.write(data)
        except OSError as error:
            raise OptionError(f"the certificate cannot be written: {error}", location="`certificate=`") from None


def _round_down(shares: Floats) -> NDArray[np.uint32]:
    """Convert shares to multiples of 1 / ``WHOLE``, rounded down.

    The error of the product is less than one unit, which is subtracted except for 1 and 0.
    """
    parts = np.floor(np.clip(shares, 0.0, 1.0) * WHOLE) - 1
    return np.where(shares >= 1, WHOLE, np.maximum(parts, 0)).astype(np.uint32)


def _file_header(
    query: Question, model: AdditiveNetwork | TreeEnsemble, method: str, outcomes: Sequence[int]
) -> dict[str, Any]:
    if isinstance(model, AdditiveNetwork):
        kind, fingerprint, single = "network", network_fingerprint(model), True
    else:
        kind, fingerprint, single = "trees", ensemble_fingerprint(model), model.single
    unit = BINARY32_UNIT if single else BINARY64_UNIT
    return {
        "format": 5,
        "evenhand": __version__,
        "method": method,
        "model": {"name": model.name, "kind": kind, "fingerprint": fingerprint},
        "schema": json.loads(model.schema.model_dump_json()),
        "protected": {
            name: [float(entry) for entry in _protected_entries(query, model.schema, name)] for name in query.protected
        },
        "where": list(query.where),
        "threshold": query.threshold,
        "tolerance": query.limit,
        "bands": [] if query.bands is None else list(query.bands.edges),
        "outcomes": list(outcomes),
        "population": query.population,
        "slack": {"unit": unit, "activation": ACTIVATION_ERROR * unit / BINARY32_UNIT},
        "whole": WHOLE,
        "attributes": [_describe_cells(cells) for cells in query.cells],
    }


def _protected_entries(query: Question, schema: Schema, name: str) -> Floats:
    """List the compared entries of a protected attribute."""
    attribute = schema[name]
    subdomain = parse_subdomain(schema, query.where)
    return attribute.domain() if subdomain is None else subdomain.entries(attribute)


def _describe_cells(cells: Cells) -> dict[str, Any]:
    """Describe the cells of an attribute. Listed numbers follow in separate sections."""
    if cells.entries is not None:
        form: dict[str, Any] = {"form": "listed" if cells.ends is None else "bins"}
    else:
        ends = {"first": cells.attribute.first, "last": cells.attribute.last}
        form = ends | ({"form": "even"} if cells.attribute.size is None else {"form": "runs", "values": cells.values})
    weights = "entries" if cells.cumulative is None else "listed"
    return {"name": cells.attribute.name, "cells": cells.count, "weights": weights} | form


def _cell_arrays(cells: Cells) -> list[NDArray[Any]]:
    weights = None if cells.cumulative is None else np.diff(cells.cumulative)
    listed = ((cells.entries, "<f8"), (cells.ends, "<f8"), (weights, "<i8"))
    return [array.astype(kind) for array, kind in listed if array is not None]
