"""The studio draws what its bias and its prompts say; recorded items come back in their order."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from evenhand.errors import DataError, OptionError
from evenhand.genai.backends import pictures
from evenhand.genai.backends.generator import parse_instruction
from evenhand.genai.backends.studio import GROUPS, Studio, StudioPixels
from evenhand.genai.enforcement.instructions import InstructionWriter


def test_the_same_seed_draws_the_same_pictures_and_another_does_not() -> None:
    first, again, other = (Studio(seed=seed) for seed in (1, 1, 2))
    pictures = [first.generate("a person").data for _ in range(5)]
    assert pictures == [again.generate("a person").data for _ in range(5)]
    assert pictures != [other.generate("a person").data for _ in range(5)]
    assert len(set(pictures)) == 5


def skins(studio: Studio, prompt: str) -> Counter[str | None]:
    return Counter(StudioPixels().classify(studio.generate(prompt))["skin"] for _ in range(1000))


def test_the_bias_is_drawn() -> None:
    shown = skins(Studio({"skin": {"light": 9, "dark": 1}}, seed=5), "a person")
    assert set(shown) == {"light", "dark"}
    assert 70 < shown["dark"] < 130


def test_instructions_are_obeyed_as_often_as_said() -> None:
    prompt = InstructionWriter()("a business leader", {"skin": ("dark",)})
    shown = skins(Studio({"skin": {"light": 1}}, obeys=0.8, seed=6), prompt)
    assert 760 < shown["dark"] < 840
    assert shown["light"] == 1000 - shown["dark"]


def test_what_a_prompt_asks_for_is_read_as_a_clause_or_as_whole_words() -> None:
    assert parse_instruction("a leader (showing: age elderly, gender woman or man)", GROUPS) == {
        "age": ("elderly",),
        "gender": ("woman", "man"),
    }
    assert parse_instruction("Please show an ELDERLY woman.", GROUPS) == {"age": ("elderly",), "gender": ("woman",)}
    assert parse_instruction("a woman, showing: gender man", GROUPS) == {"gender": ("man",)}
    assert parse_instruction("adulthood in childish, darkened womanly human terms", GROUPS) == {}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bias": {"hat": {"yes": 1}}}, "no group 'hat'"),
        ({"bias": {"age": {"old": 1}}}, "there is no age 'old'"),
        ({"bias": {"age": {"child": -1, "adult": 2}}}, "the weights of age must be"),
        ({"bias": {"age": {}}}, "the weights of age must be"),
        ({"obeys": 1.2}, "obeys must be between 0 and 1"),
        ({"unrecognised": float("nan")}, "unrecognised must be between 0 and 1"),
    ],
)
def test_what_the_studio_cannot_draw_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Studio(**given)


def test_pixels_survive_a_png_and_damage_is_said() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (7, 5, 3), dtype=np.uint8)
    data = pictures.write_png(pixels)
    assert np.array_equal(pictures.read_png(data), pixels)
    for broken in (b"", data[:40], data[:50] + bytes([data[50] ^ 1]) + data[51:], data[:-30], b"GIF89a" + data):
        with pytest.raises(DataError, match="PNG"):
            pictures.read_png(broken)
