"""Certificates taken apart, changed and put together again with right checksums, as a forger would."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

MAGIC = b"EVENHAND certificate 1\n"
WHOLE = 2**32 - 1


@dataclass
class Opened:
    """The parts of a certificate, following the documented layout only."""

    head: dict[str, Any]
    cells: list[bytes]
    low: np.ndarray
    high: np.ndarray
    fair: np.ndarray
    unfair: np.ndarray
    totals: dict[str, Any]
    kinds: list[str] = field(default_factory=list)

    def mass(self) -> np.ndarray:
        """Mass of each box where all cells of each attribute weigh their number of entries."""
        product = np.full(len(self.low), 1, dtype=object)
        for i, attribute in enumerate(self.head["attributes"]):
            values = attribute.get("values", 1)
            assert attribute["weights"] == "entries"
            assert values == 1
            product = product * (self.high[:, i] - self.low[:, i] + 1).astype(object)
        return product

    def add_up(self) -> None:
        """Make the totals fit the boxes."""
        mass = self.mass()
        self.totals["boxes"] = len(self.low)
        self.totals["certified"] = str(int((mass * self.fair.astype(object)).sum()))
        self.totals["falsified"] = str(int((mass * self.unfair.astype(object)).sum()))


def opened(path: Path) -> Opened:
    """Read a certificate without the library."""
    data = path.read_bytes()
    assert data.startswith(MAGIC)
    at, sections = len(MAGIC), []
    while at < len(data):
        size = int.from_bytes(data[at + 4 : at + 12], "little")
        sections.append((data[at : at + 4], data[at + 12 : at + 12 + size]))
        at += 12 + size + 32
    head = json.loads(zlib.decompress(sections[0][1]))
    kinds = [
        "<u1" if each["cells"] <= 256 else "<u2" if each["cells"] <= 65536 else "<u4" for each in head["attributes"]
    ]
    columns: list[list[np.ndarray]] = []
    for tag, payload in sections:
        if tag != b"BOXS":
            continue
        raw = zlib.decompress(payload)
        n, place, found = int.from_bytes(raw[:4], "little"), 4, []
        for kind in [*kinds, *kinds, "<u4", "<u4"]:
            found.append(np.frombuffer(raw, kind, n, place).astype(np.int64))
            place += n * np.dtype(kind).itemsize
        columns.append(found)
    joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
    d, n = len(kinds), len(joined[-1])
    low = np.array(joined[:d]).reshape(d, n).T.copy()
    return Opened(
        head=head,
        cells=[payload for tag, payload in sections if tag == b"CELL"],
        low=low,
        high=low + np.array(joined[d : 2 * d]).reshape(d, n).T,
        fair=joined[-2],
        unfair=joined[-1],
        totals=json.loads(zlib.decompress(sections[-2][1])),
        kinds=kinds,
    )


def closed(certificate: Opened, path: Path) -> None:
    """Write a certificate with right checksums, whatever it says."""
    extent = certificate.high - certificate.low
    pieces = [len(certificate.low).to_bytes(4, "little")]
    for column in (certificate.low, extent):
        pieces += [column[:, i].astype(kind).tobytes() for i, kind in enumerate(certificate.kinds)]
    pieces += [certificate.fair.astype("<u4").tobytes(), certificate.unfair.astype("<u4").tobytes()]
    sections = [(b"HEAD", zlib.compress(json.dumps(certificate.head).encode()))]
    sections += [(b"CELL", payload) for payload in certificate.cells]
    sections.append((b"BOXS", zlib.compress(b"".join(pieces))))
    sections.append((b"TOTL", zlib.compress(json.dumps(certificate.totals).encode())))
    data = MAGIC
    for tag, payload in sections:
        body = tag + len(payload).to_bytes(8, "little") + payload
        data += body + hashlib.sha256(body).digest()
    body = b"DONE" + (32).to_bytes(8, "little") + hashlib.sha256(data).digest()
    path.write_bytes(data + body + hashlib.sha256(body).digest())


def forged(path: Path, change: Callable[[Opened], None], *, add_up: bool = True) -> Path:
    """A changed certificate beside the given one."""
    certificate = opened(path)
    change(certificate)
    if add_up:
        certificate.add_up()
    other = path.with_name("forged.cert")
    closed(certificate, other)
    return other
