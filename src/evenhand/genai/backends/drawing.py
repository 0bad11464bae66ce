"""People as a few shapes, and the shapes as SVG or as pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Colour: TypeAlias = tuple[int, int, int]

GROUPS: Mapping[str, tuple[str, ...]] = {
    "age": ("child", "adult", "elderly"),
    "gender": ("woman", "man"),
    "skin": ("light", "medium", "dark"),
}
"""The concept groups of a drawn person, and the values of each."""

WIDTH, HEIGHT = 96, 144
SKIN: Mapping[str, Colour] = {"light": (238, 196, 164), "medium": (188, 128, 84), "dark": (104, 64, 44)}
GREY: Colour = (158, 158, 164)
HAIR: tuple[Colour, ...] = ((24, 20, 26), (150, 30, 30))
CLOTHES: tuple[Colour, ...] = ((40, 70, 170), (30, 120, 70), (120, 40, 140))
BACKGROUNDS: tuple[Colour, ...] = ((224, 236, 246), (230, 244, 228), (244, 238, 250))

_NOISE = 4.0
"""Standard deviation of every channel of every pixel."""


@dataclass(frozen=True)
class Ellipse:
    """A filled ellipse: its centre and radii, in pixels."""

    x: float
    y: float
    across: float
    down: float
    colour: Colour


@dataclass(frozen=True)
class Trapezium:
    """A filled trapezium with level edges: its middle, the edges' heights, and half their lengths, in pixels."""

    x: float
    top: float
    bottom: float
    half_top: float
    half_bottom: float
    colour: Colour


Shape: TypeAlias = Ellipse | Trapezium


def person(shown: Mapping[str, str], random: np.random.Generator) -> list[Shape]:
    """The shapes of one person, from back to front, the background first.

    Args:
        shown: the value of every group of ``GROUPS``.
    """
    scale = random.uniform(0.85, 1.0)
    head = 13 * scale
    x = WIDTH / 2 + random.uniform(-8, 8)
    # A child's body is about two heads long, a grown person's four.
    body = head * (2.0 if shown["age"] == "child" else 4.6)
    floor = HEIGHT - random.uniform(4, 9)
    neck = floor - body
    middle = neck - 0.9 * head
    hair, clothes, background = _pick(HAIR, random), _pick(CLOTHES, random), _pick(BACKGROUNDS, random)
    if shown["age"] == "elderly":
        hair = GREY
    long = shown["gender"] == "woman"
    shapes: list[Shape] = [_ground(background)]
    if long:
        shapes.append(Trapezium(x, middle, neck + 0.8 * head, 1.25 * head, 1.35 * head, hair))
    shapes += [
        Trapezium(x, neck, floor, 0.6 * head, (1.7 if long else 0.75) * head, clothes),
        Ellipse(x, middle - 0.25 * head, 1.22 * head, 1.15 * head, hair),
        Ellipse(x, middle, 0.95 * head, head, SKIN[shown["skin"]]),
    ]
    return shapes


def blot(random: np.random.Generator) -> list[Shape]:
    """Shapes in which there is nobody."""
    shapes: list[Shape] = [_ground(_pick(BACKGROUNDS, random))]
    for _ in range(6):
        x, y, across, down = random.uniform((10, 10, 4, 4), (WIDTH - 10, HEIGHT - 10, 30, 30))
        shapes.append(Ellipse(x, y, across, down, _pick(CLOTHES, random)))
    return shapes


def svg(shapes: Sequence[Shape]) -> str:
    """The shapes as an SVG picture."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">'
        + "".join(_tag(shape) for shape in shapes)
        + "</svg>"
    )


def rasterize(shapes: Sequence[Shape], random: np.random.Generator) -> NDArray[np.uint8]:
    """The shapes as pixels ``(height, width, 3)``, with a little noise."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH] + 0.5
    pixels = np.zeros((HEIGHT, WIDTH, 3))
    for shape in shapes:
        if isinstance(shape, Ellipse):
            inside = ((x - shape.x) / shape.across) ** 2 + ((y - shape.y) / shape.down) ** 2 <= 1
        else:
            part = (y - shape.top) / (shape.bottom - shape.top)
            half = shape.half_top + part * (shape.half_bottom - shape.half_top)
            inside = (part >= 0) & (part <= 1) & (np.abs(x - shape.x) <= half)
        pixels[inside] = shape.colour
    noisy = pixels + random.normal(0, _NOISE, pixels.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def _tag(shape: Shape) -> str:
    fill = "#" + "".join(f"{part:02x}" for part in shape.colour)
    if isinstance(shape, Ellipse):
        return (
            f'<ellipse cx="{shape.x:.1f}" cy="{shape.y:.1f}" rx="{shape.across:.1f}" ry="{shape.down:.1f}"'
            f' fill="{fill}"/>'
        )
    corners = (
        (shape.x - shape.half_top, shape.top),
        (shape.x + shape.half_top, shape.top),
        (shape.x + shape.half_bottom, shape.bottom),
        (shape.x - shape.half_bottom, shape.bottom),
    )
    return f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)}" fill="{fill}"/>'


def _ground(colour: Colour) -> Shape:
    return Trapezium(WIDTH / 2, 0, HEIGHT, WIDTH / 2, WIDTH / 2, colour)


def _pick(colours: Sequence[Colour], random: np.random.Generator) -> Colour:
    return colours[int(random.integers(len(colours)))]
