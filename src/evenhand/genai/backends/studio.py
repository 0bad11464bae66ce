"""A small studio that draws people: a generator with a known bias that needs no account, no model and no network.

What is shown is in the picture and nowhere else: age by the body's proportions and grey hair, gender by the length of
hair and the cut of clothes, skin tone by its colour. These are signs that drawings use, not claims about people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.genai.backends import pictures
from evenhand.genai.backends.generator import Item, parse_instruction

PictureFormat: TypeAlias = Literal["png", "svg"]


class Studio:
    """Draws one person for every prompt.

    The picture depends on the seed, on how many were drawn before, and on what the prompt asks for.

    Args:
        bias: by concept group of ``GROUPS``, how often each value is drawn if nothing is asked for, as weights; values
            left out are not drawn, groups left out are even.
        obeys: how likely it is that what a prompt asks for (see ``parse_instruction``) is drawn; else the bias decides
            as if nothing were asked for.
        unrecognised: probability that the drawing shows no person.
        seed: of the randomness.
        media: ``png`` or ``svg``.

    Raises:
        OptionError: a group or value that cannot be drawn, or a number that is not a probability or weight.
    """

    def __init__(
        self,
        bias: Mapping[str, Mapping[str, float]] | None = None,
        *,
        obeys: float = 1.0,
        unrecognised: float = 0.0,
        seed: int = 0,
        media: PictureFormat = "png",
    ) -> None:
        for name, chance in (("obeys", obeys), ("unrecognised", unrecognised)):
            if not 0 <= chance <= 1:
                raise OptionError(f"{name} is {chance}, which is not a probability", hint="Give a number from 0 to 1.")
        if media not in ("png", "svg"):
            raise OptionError(f"the studio cannot draw {media!r}", hint="It draws png and svg.")
        given = dict(bias or {})
        unknown = sorted(given.keys() - GROUPS.keys())
        if unknown:
            raise OptionError(f"the studio draws no {', '.join(unknown)}", hint=f"It knows {', '.join(GROUPS)}.")
        self._weights = {group: _value_weights(group, given.get(group)) for group in GROUPS}
        self._obeys, self._unrecognised = obeys, unrecognised
        self._seed, self._media = seed, media
        self._drawn = count()

    def resume(self, made: int) -> None:
        """Go on as if so many pictures had been drawn already."""
        self._drawn = count(made)

    def generate(self, prompt: str) -> Item:
        """Return the next picture."""
        random = np.random.default_rng([self._seed, next(self._drawn)])
        # Everything is drawn whether it is needed or not, so that a prompt changes what it asks for and nothing else.
        unrecognised, obeyed = random.random(2) < (self._unrecognised, self._obeys)
        places = random.random(len(GROUPS))
        asked = parse_instruction(prompt, GROUPS) if obeyed else {}
        shown = {}
        for (group, values), place in zip(GROUPS.items(), places, strict=True):
            weights = self._weights[group]
            if group in asked:
                among = np.array([value in asked[group] for value in values], dtype=float)
                # A value that is never drawn by itself is drawn when it is asked for.
                weights = weights * among if (weights * among).sum() > 0 else among
            edges = np.cumsum(weights) / weights.sum()
            shown[group] = values[min(int(np.searchsorted(edges, place, side="right")), len(values) - 1)]
        shapes = draw_blot(random) if unrecognised else draw_person(shown, random)
        if self._media == "svg":
            return Item("image", to_svg(shapes).encode(), "image/svg+xml")
        return Item("image", pictures.write_png(to_pixels(shapes, random)), "image/png")


def _value_weights(group: str, given: Mapping[str, float] | None) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    values = GROUPS[group]
    if given is None:
        return np.ones(len(values))
    unknown = sorted(given.keys() - set(values))
    if unknown:
        raise OptionError(
            f"the studio draws no {group} {', '.join(unknown)}", location="bias", hint=f"It knows {', '.join(values)}."
        )
    weights = np.array([given.get(value, 0.0) for value in values], dtype=float)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise OptionError(
            f"{dict(given)} are not weights for {group}",
            location="bias",
            hint="Give numbers from 0, not all of them 0.",
        )
    return weights


# People as a few shapes, and the shapes as SVG or as pixels.


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


def draw_person(shown: Mapping[str, str], random: np.random.Generator) -> list[Shape]:
    """Return the shapes of one person, from back to front, the background first.

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
    hair, clothes, background = (
        _pick_colour(HAIR, random),
        _pick_colour(CLOTHES, random),
        _pick_colour(BACKGROUNDS, random),
    )
    if shown["age"] == "elderly":
        hair = GREY
    long = shown["gender"] == "woman"
    shapes: list[Shape] = [_background_shape(background)]
    if long:
        shapes.append(Trapezium(x, middle, neck + 0.8 * head, 1.25 * head, 1.35 * head, hair))
    shapes += [
        Trapezium(x, neck, floor, 0.6 * head, (1.7 if long else 0.75) * head, clothes),
        Ellipse(x, middle - 0.25 * head, 1.22 * head, 1.15 * head, hair),
        Ellipse(x, middle, 0.95 * head, head, SKIN[shown["skin"]]),
    ]
    return shapes


def draw_blot(random: np.random.Generator) -> list[Shape]:
    """Return shapes that show no person."""
    shapes: list[Shape] = [_background_shape(_pick_colour(BACKGROUNDS, random))]
    for _ in range(6):
        x, y, across, down = random.uniform((10, 10, 4, 4), (WIDTH - 10, HEIGHT - 10, 30, 30))
        shapes.append(Ellipse(x, y, across, down, _pick_colour(CLOTHES, random)))
    return shapes


def to_svg(shapes: Sequence[Shape]) -> str:
    """Return the shapes as an SVG picture."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">'
        + "".join(_svg_tag(shape) for shape in shapes)
        + "</svg>"
    )


def to_pixels(shapes: Sequence[Shape], random: np.random.Generator) -> NDArray[np.uint8]:
    """Return the shapes as pixels ``(height, width, 3)``, with a little noise."""
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


def _svg_tag(shape: Shape) -> str:
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


def _background_shape(colour: Colour) -> Shape:
    return Trapezium(WIDTH / 2, 0, HEIGHT, WIDTH / 2, WIDTH / 2, colour)


def _pick_colour(colours: Sequence[Colour], random: np.random.Generator) -> Colour:
    return colours[int(random.integers(len(colours)))]
