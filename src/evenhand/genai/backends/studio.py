"""A small studio for tests and tutorials: a generator with a known bias that needs no account, no model and no network.

It makes cards of three coloured bands, one for each concept group; what is shown is in the pixels and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TypeAlias

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import DataError, OptionError
from evenhand.genai.backends import pictures
from evenhand.genai.backends.generator import Item, parse_instruction

Colour: TypeAlias = tuple[int, int, int]

COLOURS: Mapping[str, Mapping[str, Colour]] = {
    "age": {"child": (236, 186, 60), "adult": (40, 70, 170), "elderly": (158, 158, 164)},
    "gender": {"woman": (150, 30, 110), "man": (30, 120, 70)},
    "skin": {"light": (238, 196, 164), "medium": (188, 128, 84), "dark": (104, 64, 44)},
}
"""The colour of every value, by concept group; bands lie in this order from the top."""
GROUPS: Mapping[str, tuple[str, ...]] = {group: tuple(colours) for group, colours in COLOURS.items()}
BLANK: Colour = (244, 244, 244)
"""Of a card that shows nothing."""

WIDTH, HEIGHT = 96, 144

_NOISE = 4.0
"""Standard deviation of every channel of every pixel."""

_MAX_COLOUR_DISTANCE = 40.0
"""A band farther from the colours of all values shows none of them."""


class Studio:
    """Makes one card for every prompt.

    The card depends on the seed, on how many were made before, and on what the prompt asks for.

    Args:
        bias: by concept group of ``GROUPS``, how often each value is shown if nothing is asked for, as weights; values
            left out are not shown, groups left out are even.
        obeys: how likely it is that what a prompt asks for (see ``parse_instruction``) is shown; else the bias decides
            as if nothing were asked for.
        unrecognised: probability that the card is blank.
        seed: of the randomness.

    Raises:
        OptionError: a group or value that it does not know, or a number that is not a probability or weight.
    """

    def __init__(
        self,
        bias: Mapping[str, Mapping[str, float]] | None = None,
        *,
        obeys: float = 1.0,
        unrecognised: float = 0.0,
        seed: int = 0,
    ) -> None:
        for name, chance in (("obeys", obeys), ("unrecognised", unrecognised)):
            if not 0 <= chance <= 1:
                raise OptionError(f"{name} is {chance}, which is not a probability", hint="Give a number from 0 to 1.")
        given = dict(bias or {})
        unknown = sorted(given.keys() - GROUPS.keys())
        if unknown:
            raise OptionError(f"the studio draws no {', '.join(unknown)}", hint=f"It knows {', '.join(GROUPS)}.")
        self._weights = {group: _value_weights(group, given.get(group)) for group in GROUPS}
        self._obeys, self._unrecognised, self._seed = obeys, unrecognised, seed
        self._drawn = count()

    def resume(self, made: int) -> None:
        """Go on as if so many cards had been made already."""
        self._drawn = count(made)

    def generate(self, prompt: str) -> Item:
        """Return the next card."""
        random = np.random.default_rng([self._seed, next(self._drawn)])
        # Everything is drawn whether it is needed or not, so that a prompt changes what it asks for and nothing else.
        unrecognised, obeyed = random.random(2) < (self._unrecognised, self._obeys)
        places = random.random(len(GROUPS))
        asked = parse_instruction(prompt, GROUPS) if obeyed else {}
        bands = []
        for (group, values), place in zip(GROUPS.items(), places, strict=True):
            weights = self._weights[group]
            if group in asked:
                among = np.array([value in asked[group] for value in values], dtype=float)
                # A value that is never shown by itself is shown when it is asked for.
                weights = weights * among if (weights * among).sum() > 0 else among
            edges = np.cumsum(weights) / weights.sum()
            shown = values[min(int(np.searchsorted(edges, place, side="right")), len(values) - 1)]
            bands.append(BLANK if unrecognised else COLOURS[group][shown])
        card = np.repeat(np.array(bands, dtype=float), HEIGHT // len(bands), axis=0)[:, None, :]
        noisy = card + random.normal(0, _NOISE, (HEIGHT, WIDTH, 3))
        return Item("image", pictures.write_png(np.clip(np.rint(noisy), 0, 255).astype(np.uint8)), "image/png")


def _value_weights(group: str, given: Mapping[str, float] | None) -> Floats:
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


class StudioPixels:
    """Reads the studio's cards, by the colours of their bands; where one is no value's colour it cannot tell."""

    def classify(self, item: Item) -> dict[str, str | None]:
        """Return the value of every group on a card.

        Raises:
            DataError: it is not a PNG as the studio makes them.
        """
        if item.media_type != "image/png":
            raise DataError(f"an item of type {item.media_type} is not a PNG", hint="Give a card of the studio.")
        pixels = pictures.read_png(item.data)
        if len(pixels) < len(GROUPS):
            return dict.fromkeys(GROUPS)
        found: dict[str, str | None] = {}
        for (group, colours), band in zip(COLOURS.items(), np.array_split(pixels, len(GROUPS)), strict=True):
            seen = np.median(band.reshape(-1, 3), axis=0)
            distances = {value: float(np.linalg.norm(seen - colour)) for value, colour in colours.items()}
            nearest = min(distances, key=distances.__getitem__)
            found[group] = nearest if distances[nearest] <= _MAX_COLOUR_DISTANCE else None
        return found
