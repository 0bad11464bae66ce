"""Studio for tests and tutorials: a generator with a known bias, which requires no account, model or network.

It generates cards with three coloured bands, one for each concept group. Only the pixels contain the values.
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
from evenhand.genai.spec.entries import check_values

Colour: TypeAlias = tuple[int, int, int]

COLOURS: Mapping[str, Mapping[str, Colour]] = {
    "age": {"child": (236, 186, 60), "adult": (40, 70, 170), "elderly": (158, 158, 164)},
    "gender": {"woman": (150, 30, 110), "man": (30, 120, 70)},
    "skin": {"light": (238, 196, 164), "medium": (188, 128, 84), "dark": (104, 64, 44)},
}
"""Colour of each value by concept group. Bands are in this order from the top."""
GROUPS: Mapping[str, tuple[str, ...]] = {group: tuple(colours) for group, colours in COLOURS.items()}
BLANK: Colour = (244, 244, 244)
"""Colour of a card that shows nothing."""

WIDTH, HEIGHT = 96, 144

_NOISE = 4.0
"""Standard deviation of every channel of every pixel."""

_MAX_COLOUR_DISTANCE = 40.0
"""Maximum distance of the colour of a band from that of its value."""


class Studio:
    """Generator of cards.

    A card depends on the seed, on the number of earlier cards, and on the values that the prompt requests.

    Args:
        bias: Weight of each value without instructions, by concept group of ``GROUPS``. Omitted values are not shown,
            and omitted groups have equal weights.
        obeys: Probability that the requested values (see ``parse_instruction``) are shown. Otherwise the card is drawn
            without instructions.
        unrecognised: Probability that the card is blank.
        seed: Random seed.

    Raises:
        OptionError: A group or value is unknown, or a number is not a probability or weight.
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
                raise OptionError(f"{name} must be between 0 and 1, got {chance}")
        weights = dict(bias or {})
        check_values(weights, GROUPS, "bias")
        self._weights = {group: _value_weights(group, weights.get(group)) for group in GROUPS}
        self._obeys, self._unrecognised, self._seed = obeys, unrecognised, seed
        self._drawn = count()

    def resume(self, made: int) -> None:
        """Continue after ``made`` cards."""
        self._drawn = count(made)

    def generate(self, prompt: str) -> Item:
        """Generate the next card."""
        random = np.random.default_rng([self._seed, next(self._drawn)])
        # All random numbers are always drawn, so that a prompt changes only the requested groups.
        unrecognised, obeyed = random.random(2) < (self._unrecognised, self._obeys)
        places = random.random(len(GROUPS))
        requested = parse_instruction(prompt, GROUPS) if obeyed else {}
        bands = []
        for (group, values), place in zip(GROUPS.items(), places, strict=True):
            weights = self._weights[group]
            if group in requested:
                among = np.array([value in requested[group] for value in values], dtype=float)
                # A value with weight 0 is shown if it is requested.
                weights = weights * among if (weights * among).sum() > 0 else among
            edges = np.cumsum(weights) / weights.sum()
            value = values[min(int(np.searchsorted(edges, place, side="right")), len(values) - 1)]
            bands.append(BLANK if unrecognised else COLOURS[group][value])
        card = np.repeat(np.array(bands, dtype=float), HEIGHT // len(bands), axis=0)[:, None, :]
        noisy = card + random.normal(0, _NOISE, (HEIGHT, WIDTH, 3))
        return Item("image", pictures.write_png(np.clip(np.rint(noisy), 0, 255).astype(np.uint8)), "image/png")


def _value_weights(group: str, bias: Mapping[str, float] | None) -> Floats:
    values = GROUPS[group]
    if bias is None:
        return np.ones(len(values))
    weights = np.array([bias.get(value, 0.0) for value in values], dtype=float)
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise OptionError(f"the weights of {group} must be at least 0 and not all 0, got {dict(bias)}", location="bias")
    return weights


class StudioPixels:
    """Classifier of cards of the studio by the colours of their bands."""

    def classify(self, item: Item) -> dict[str, str | None]:
        """Return the value of each group. None if the colour of its band is unknown. Other items raise a DataError."""
        if item.media_type != "image/png":
            raise DataError(f"expected a card of the studio in PNG, got an item of type {item.media_type}")
        pixels = pictures.read_png(item.data)
        if len(pixels) < len(GROUPS):
            return dict.fromkeys(GROUPS)
        labels: dict[str, str | None] = {}
        for (group, colours), band in zip(COLOURS.items(), np.array_split(pixels, len(GROUPS)), strict=True):
            median = np.median(band.reshape(-1, 3), axis=0)
            distances = {value: float(np.linalg.norm(median - colour)) for value, colour in colours.items()}
            nearest = min(distances, key=distances.__getitem__)
            labels[group] = nearest if distances[nearest] <= _MAX_COLOUR_DISTANCE else None
        return labels
