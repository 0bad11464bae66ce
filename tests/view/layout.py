"""Where the texts of a drawing stand: every ``<text>`` of an SVG with its transforms, measured in the page's font."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from xml.etree import ElementTree as ET

import vl_convert

FACE = "Liberation Sans"
"""Metrics of Helvetica and Arial; comes with vl-convert."""

ASCENT, DESCENT = 0.73, 0.21
"""How far its letters reach above and below the line, in font sizes."""


class Face(NamedTuple):
    """What the width of a text rests on."""

    text: str
    size: float
    bold: bool


class Placed(NamedTuple):
    """A text and the box that it fills."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: Placed, slack: float = 0.5) -> bool:
        """Whether two boxes share more than a hair's breadth."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return across > slack and down > slack


def measure_texts(faces: Iterable[Face]) -> dict[Face, float]:
    """Return the width of each text in pixels, as the letters of the font add up."""
    faces = list(dict.fromkeys(faces))
    rows = [{"text": face.text, "size": face.size, "weight": "bold" if face.bold else "normal"} for face in faces]
    looks = {"text": {"field": "text"}, "fontSize": {"field": "size"}, "fontWeight": {"field": "weight"}}
    ends = {"x": {"field": "bounds.x1"}, "y": {"field": "bounds.x2"}}
    drawn = vl_convert.vega_to_scenegraph(
        {
            "$schema": "https://vega.github.io/schema/vega/v5.json",
            "data": [{"name": "rows", "values": rows}],
            "marks": [
                {
                    "name": "texts",
                    "type": "text",
                    "from": {"data": "rows"},
                    "encode": {"enter": looks | {"font": {"value": FACE}}},
                },
                {"type": "symbol", "from": {"data": "texts"}, "encode": {"enter": ends}},
            ],
        }
    )
    _, points = drawn["scenegraph"]["items"][0]["items"]
    return {face: one.get("y", 0.0) - one.get("x", 0.0) for face, one in zip(faces, points["items"], strict=True)}


class _Line(NamedTuple):
    face: Face
    anchor: str
    matrix: tuple[float, ...]


def place_texts(drawing: str) -> tuple[tuple[float, float], list[Placed]]:
    """Return the size of an SVG's frame, and every line of text that can be seen in it."""
    root = ET.fromstring(drawing)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    lines = list(_lines(root, (1, 0, 0, 1, -left, -top)))
    widths = measure_texts(line.face for line in lines)
    return (width, height), [_place(line, widths) for line in lines]


def collisions(texts: Iterable[Placed]) -> list[tuple[str, str]]:
    """Return the pairs of texts that cover each other."""
    return [(one.text, other.text) for one, other in itertools.combinations(texts, 2) if one.covers(other)]


def outside(texts: Iterable[Placed], frame: tuple[float, float], slack: float = 0.5) -> list[Placed]:
    """Return the texts that leave the frame."""
    width, height = frame
    return [
        one
        for one in texts
        if min(one.left, one.top) < -slack or one.right > width + slack or one.bottom > height + slack
    ]


def _place(line: _Line, widths: Mapping[Face, float]) -> Placed:
    width, size = widths[line.face], line.face.size
    start = {"start": 0.0, "middle": -width / 2, "end": -width}[line.anchor]
    a, b, c, d, e, f = line.matrix
    corners = [
        (a * x + c * y + e, b * x + d * y + f) for x in (start, start + width) for y in (-ASCENT * size, DESCENT * size)
    ]
    across, down = zip(*corners, strict=True)
    return Placed(line.face.text, min(across), min(down), max(across), max(down))


def _lines(element: ET.Element, matrix: tuple[float, ...]) -> Iterator[_Line]:
    matrix = _multiply(matrix, _transform(element.get("transform", "")))
    if float(element.get("opacity", "1")) == 0:
        return
    if element.tag.rpartition("}")[2] != "text":
        for child in element:
            yield from _lines(child, matrix)
        return
    size = float(element.get("font-size", "12px").removesuffix("px"))
    lower = 0.35 * size if element.get("dy") == ".35em" else 0.0
    matrix = _multiply(matrix, (1, 0, 0, 1, float(element.get("x", "0")), float(element.get("y", "0")) + lower))
    bold = element.get("font-weight") in ("bold", "700")
    y = 0.0
    for part in list(element) or [element]:
        y += float(part.get("dy", "0")) if part is not element else 0.0
        if part.text:
            moved = _multiply(matrix, (1, 0, 0, 1, 0, y))
            yield _Line(Face(part.text, size, bold), element.get("text-anchor", "start"), moved)


def _transform(words: str) -> tuple[float, ...]:
    matrix: tuple[float, ...] = (1, 0, 0, 1, 0, 0)
    for name, given in re.findall(r"(\w+)\(([^)]*)\)", words):
        numbers = [float(one) for one in re.split(r"[ ,]+", given.strip())]
        if name == "translate":
            step: tuple[float, ...] = (1, 0, 0, 1, numbers[0], numbers[1] if len(numbers) > 1 else 0.0)
        else:
            assert name == "rotate", words
            turn = math.radians(numbers[0])
            step = (math.cos(turn), math.sin(turn), -math.sin(turn), math.cos(turn), 0, 0)
        matrix = _multiply(matrix, step)
    return matrix


def _multiply(one: tuple[float, ...], two: tuple[float, ...]) -> tuple[float, ...]:
    a, b, c, d, e, f = one
    g, h, i, j, k, m = two
    return (a * g + c * h, b * g + d * h, a * i + c * j, b * i + d * j, a * k + c * m + e, b * k + d * m + f)
