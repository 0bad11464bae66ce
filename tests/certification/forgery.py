"""Certificates taken apart, changed and put together again with right checksums, as a forger would."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MAGIC = b"EVENHAND certificate 5\n"
WHOLE = 2**32 - 1


@dataclass
class Boxes:
    """The boxes of one question, and the totals stated for them."""

    low: np.ndarray
    high: np.ndarray
    fair: np.ndarray
    unfair: np.ndarray
    totals: dict[str, Any]


@dataclass
class Opened:
    """The parts of a certificate, following the documented layout only."""

    head: dict[str, Any]
    cells: list[bytes]
    questions: list[Boxes]
    kinds: list[str]

    def __getattr__(self, name: str) -> Any:
        """``low``, ``high``, ``fair``, ``unfair`` and ``totals`` of the first question."""
        if name in ("low", "high", "fair", "unfair", "totals"):
            return getattr(self.questions[0], name)
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("low", "high", "fair", "unfair", "totals"):
            setattr(self.questions[0], name, value)
        else:
            super().__setattr__(name, value)

    def weights(self, i: int) -> np.ndarray | None:
        """Listed masses of the cells of an attribute, if they are listed (and nothing else is)."""
        if self.head["attributes"][i]["weights"] != "listed":
            return None
        place = sum(each["weights"] == "listed" for each in self.head["attributes"][:i])
        return np.frombuffer(zlib.decompress(self.cells[place]), "<i8").astype(object)

    def list_weights(self, i: int, weights: list[int]) -> None:
        """Give the cells of an attribute these masses."""
        payload = zlib.compress(np.array(weights, dtype="<i8").tobytes())
        place = sum(each["weights"] == "listed" for each in self.head["attributes"][:i])
        if self.head["attributes"][i]["weights"] == "listed":
            self.cells[place] = payload
        else:
            self.cells.insert(place, payload)
            self.head["attributes"][i]["weights"] = "listed"

    def mass(self, boxes: Boxes) -> np.ndarray:
        """Mass of each box, where a cell that has none listed weighs one."""
        product = np.full(len(boxes.low), 1, dtype=object)
        for i, attribute in enumerate(self.head["attributes"]):
            assert attribute.get("values", 1) == 1
            weights = self.weights(i)
            if weights is None:
                product = product * (boxes.high[:, i] - boxes.low[:, i] + 1).astype(object)
            else:
                before = np.concatenate([[0], np.cumsum(weights)])
                product = product * (before[np.minimum(boxes.high[:, i] + 1, len(weights))] - before[boxes.low[:, i]])
        return product

    def add_up(self) -> None:
        """Make the totals fit the boxes."""
        for boxes in self.questions:
            mass = self.mass(boxes)
            boxes.totals["boxes"] = len(boxes.low)
            if any(each["weights"] == "listed" for each in self.head["attributes"]):
                of = WHOLE
                for i, each in enumerate(self.head["attributes"]):
                    weights = self.weights(i)
                    of *= each["cells"] if weights is None else int(weights.sum())
                boxes.totals["of"] = str(of)
            boxes.totals["certified"] = str(int((mass * boxes.fair.astype(object)).sum()))
            boxes.totals["falsified"] = str(int((mass * boxes.unfair.astype(object)).sum()))


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
    questions: list[Boxes] = []
    columns: list[list[np.ndarray]] = []
    d = len(kinds)
    for tag, payload in sections:
        if tag == b"BOXS":
            raw = zlib.decompress(payload)
            n, place, found = int.from_bytes(raw[:4], "little"), 4, []
            for kind in [*kinds, *kinds, "<u4", "<u4"]:
                found.append(np.frombuffer(raw, kind, n, place).astype(np.int64))
                place += n * np.dtype(kind).itemsize
            columns.append(found)
        elif tag == b"TOTL":
            joined = [np.concatenate(parts) for parts in zip(*columns, strict=True)]
            columns, n = [], len(joined[-1])
            low = np.array(joined[:d]).reshape(d, n).T.copy()
            high = low + np.array(joined[d : 2 * d]).reshape(d, n).T
            questions.append(Boxes(low, high, *joined[-2:], json.loads(zlib.decompress(payload))))
    return Opened(head, [payload for tag, payload in sections if tag == b"CELL"], questions, kinds)


def closed(certificate: Opened, path: Path) -> None:
    """Write a certificate with right checksums, whatever it says."""
    sections = [(b"HEAD", zlib.compress(json.dumps(certificate.head).encode()))]
    sections += [(b"CELL", payload) for payload in certificate.cells]
    for boxes in certificate.questions:
        pieces = [len(boxes.low).to_bytes(4, "little")]
        for column in (boxes.low, boxes.high - boxes.low):
            pieces += [column[:, i].astype(kind).tobytes() for i, kind in enumerate(certificate.kinds)]
        pieces += [
            boxes.fair.astype("<u4").tobytes(),
            boxes.unfair.astype("<u4").tobytes(),
        ]
        sections.append((b"BOXS", zlib.compress(b"".join(pieces))))
        sections.append((b"TOTL", zlib.compress(json.dumps(boxes.totals).encode())))
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
