"""A small studio that draws people: a generator with a known bias that needs no account, no model and no network.

What is shown is in the picture and nowhere else: age by the body's proportions and grey hair, gender by the length of
hair and the cut of clothes, skin tone by its colour. These are signs that drawings use, not claims about people.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Literal, TypeAlias

import numpy as np

from evenhand.errors import OptionError
from evenhand.genai import png
from evenhand.genai.backends.drawing import GROUPS, blot, person, rasterize, svg
from evenhand.genai.backends.instruction import wanted
from evenhand.genai.backends.item import Item

Format: TypeAlias = Literal["png", "svg"]

__all__ = ["GROUPS", "Studio"]


class Studio:
    """Draws one person for every prompt.

    The picture depends on the seed, on how many were drawn before, and on what the prompt asks for.

    Args:
        bias: by concept group of ``GROUPS``, how often each value is drawn if nothing is asked for, as weights; values
            left out are not drawn, groups left out are even.
        obeys: how likely it is that what a prompt asks for (see ``wanted``) is drawn; else the bias decides as if
            nothing were asked for.
        unrecognised: how likely it is that the drawing shows nobody.
        seed: of the randomness.
        media: ``png`` or ``svg``.

    Raises:
        OptionError: a group or value that cannot be drawn, or a number that is no probability or weight.
    """

    def __init__(
        self,
        bias: Mapping[str, Mapping[str, float]] | None = None,
        *,
        obeys: float = 1.0,
        unrecognised: float = 0.0,
        seed: int = 0,
        media: Format = "png",
    ) -> None:
        for name, chance in (("obeys", obeys), ("unrecognised", unrecognised)):
            if not 0 <= chance <= 1:
                raise OptionError(f"{name} is {chance}, which is no probability", mend="Give a number from 0 to 1.")
        if media not in ("png", "svg"):
            raise OptionError(f"the studio cannot draw {media!r}", mend="It draws png and svg.")
        given = dict(bias or {})
        unknown = sorted(given.keys() - GROUPS.keys())
        if unknown:
            raise OptionError(f"the studio draws no {', '.join(unknown)}", mend=f"It knows {', '.join(GROUPS)}.")
        self._weights = {group: _weights(group, given.get(group)) for group in GROUPS}
        self._obeys, self._unrecognised = obeys, unrecognised
        self._seed, self._media = seed, media
        self._drawn = count()

    def resume(self, made: int) -> None:
        """Go on as if so many pictures had been drawn already."""
        self._drawn = count(made)

    def generate(self, prompt: str) -> Item:
        """The next picture."""
        random = np.random.default_rng([self._seed, next(self._drawn)])
        # Everything is drawn whether it is needed or not, so that a prompt changes what it asks for and nothing else.
        nobody, obeyed = random.random(2) < (self._unrecognised, self._obeys)
        places = random.random(len(GROUPS))
        asked = wanted(prompt, GROUPS) if obeyed else {}
        shown = {}
        for (group, values), place in zip(GROUPS.items(), places, strict=True):
            weights = self._weights[group]
            if group in asked:
                among = np.array([value in asked[group] for value in values], dtype=float)
                # A value that is never drawn by itself is drawn when it is asked for.
                weights = weights * among if (weights * among).sum() > 0 else among
            edges = np.cumsum(weights) / weights.sum()
            shown[group] = values[min(int(np.searchsorted(edges, place, side="right")), len(values) - 1)]
        shapes = blot(random) if nobody else person(shown, random)
        if self._media == "svg":
            return Item("image", svg(shapes).encode(), "image/svg+xml")
        return Item("image", png.write(rasterize(shapes, random)), "image/png")


def _weights(group: str, given: Mapping[str, float] | None) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    values = GROUPS[group]
    if given is None:
        return np.ones(len(values))
    unknown = sorted(given.keys() - set(values))
    if unknown:
        raise OptionError(
            f"the studio draws no {group} {', '.join(unknown)}", where="bias", mend=f"It knows {', '.join(values)}."
        )
    weights = np.array([given.get(value, 0.0) for value in values], dtype=float)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise OptionError(
            f"{dict(given)} are no weights for {group}", where="bias", mend="Give numbers from 0, not all of them 0."
        )
    return weights
