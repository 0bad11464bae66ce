"""What the studio's pictures show, from their pixels alone."""

from __future__ import annotations

import numpy as np

from evenhand.errors import DataError
from evenhand.genai.backends import pictures
from evenhand.genai.backends.generator import Item
from evenhand.genai.backends.studio import BACKGROUNDS, CLOTHES, GREY, HAIR, SKIN
from evenhand.typing import Booleans

PixelMask = Booleans

_MAX_COLOUR_DISTANCE = 40.0
"""A pixel farther from every colour that the studio uses has none of them."""

_MIN_PIXELS = 100
"""Pixels of skin that make a face."""

_CHILD, _GROWN = 1.4, 1.9
"""Body by face, in height: at most, at least."""

_STRAIGHT, _WIDE = 1.6, 2.1
"""Hem by shoulders, in width: at most for trousers, at least for a dress."""


class StudioPixels:
    """Looks at a picture of the studio: the colour of the face, the length of hair, the cut and length of clothes.

    Where signs are missing or disagree it cannot tell.
    """

    def classify(self, item: Item) -> dict[str, str | None]:
        """Read age, gender and skin of the person in a PNG.

        Raises:
            DataError: it is not a PNG as the studio makes them.
        """
        if item.media_type != "image/png":
            raise DataError(f"an item of type {item.media_type} is not a PNG", hint="Let the studio draw PNG.")
        masks = _colour_masks(pictures.read_png(item.data))
        tones = {tone: masks["skin", tone] for tone in SKIN}
        tone = max(tones, key=lambda one: int(tones[one].sum()))
        face, skin = tones[tone], sum(int(mask.sum()) for mask in tones.values())
        body = max((masks["clothes", str(k)] for k in range(len(CLOTHES))), key=lambda mask: int(mask.sum()))
        if face.sum() < _MIN_PIXELS or face.sum() < 0.8 * skin or body.sum() < _MIN_PIXELS:
            return {"age": None, "gender": None, "skin": None}
        grey = masks["hair", "grey"]
        hair = grey | masks["hair", "0"] | masks["hair", "1"]
        return {
            "age": _classify_age(_mask_height(body) / _mask_height(face), grey.sum() / max(1, int(hair.sum()))),
            "gender": _classify_gender(body, face, hair),
            "skin": tone,
        }


def _colour_masks(pixels: pictures.Pixels) -> dict[tuple[str, str], PixelMask]:
    """Return where each of the studio's colours is."""
    colours = {
        **{("skin", tone): colour for tone, colour in SKIN.items()},
        ("hair", "grey"): GREY,
        **{("hair", str(k)): colour for k, colour in enumerate(HAIR)},
        **{("clothes", str(k)): colour for k, colour in enumerate(CLOTHES)},
        **{("ground", str(k)): colour for k, colour in enumerate(BACKGROUNDS)},
    }
    palette = np.array(list(colours.values()), dtype=np.float32)
    flat = pixels.reshape(-1, 3).astype(np.float32)
    squares = (flat**2).sum(axis=1)[:, None] - 2 * flat @ palette.T + (palette**2).sum(axis=1)
    nearest = np.where(squares.min(axis=1) <= _MAX_COLOUR_DISTANCE**2, squares.argmin(axis=1), -1).reshape(
        pixels.shape[:2]
    )
    return {name: nearest == k for k, name in enumerate(colours)}


def _mask_height(mask: PixelMask) -> int:
    """Return the rows from the first to the last with more than one pixel, so that a stray one does not count."""
    rows = np.flatnonzero(mask.sum(axis=1) > 1)
    return int(rows[-1] - rows[0] + 1) if len(rows) else 0


def _classify_age(proportion: float, grey: float) -> str | None:
    if proportion <= _CHILD:
        return "child" if grey < 0.5 else None
    if proportion >= _GROWN:
        return "elderly" if grey >= 0.5 else "adult"
    return None


def _classify_gender(body: PixelMask, face: PixelMask, hair: PixelMask) -> str | None:
    widths = body.sum(axis=1)
    rows = np.flatnonzero(widths > 1)
    quarter = max(1, len(rows) // 4)
    cut = widths[rows[-quarter:]].mean() / widths[rows[:quarter]].mean()
    chin = int(np.flatnonzero(face.sum(axis=1) > 1)[-1])
    long = int(hair[chin + 2 :].sum()) >= 20
    if cut >= _WIDE and long:
        return "woman"
    if cut <= _STRAIGHT and not long:
        return "man"
    return None
