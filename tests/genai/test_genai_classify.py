"""Classifiers: the studio's pixels against what was asked for, words, functions, and labels matched exactly."""

from __future__ import annotations

from itertools import product

import pytest

from evenhand.errors import DataError, ModelError, OptionError
from evenhand.genai import FunctionClassifier, Item, LexiconClassifier
from evenhand.genai.backends import pictures
from evenhand.genai.backends.studio import COLOURS, GROUPS, Studio, StudioPixels
from evenhand.genai.enforcement.instructions import InstructionWriter


def test_every_kind_of_person_that_the_studio_draws_is_recognised_from_the_pixels() -> None:
    studio, classifier = Studio(seed=11), StudioPixels()
    for _ in range(5):
        for values in product(*GROUPS.values()):
            asked = dict(zip(GROUPS, values, strict=True))
            picture = studio.generate(
                InstructionWriter()("a person", {group: (value,) for group, value in asked.items()})
            )
            assert classifier.classify(picture) == asked


def test_where_nobody_was_drawn_nothing_is_recognised() -> None:
    studio, classifier = Studio(seed=12, unrecognised=1.0), StudioPixels()
    for _ in range(50):
        assert set(classifier.classify(studio.generate("a person")).values()) == {None}


def test_it_is_the_pixels_that_are_read() -> None:
    pixels = pictures.read_png(Studio(seed=13).generate("showing: age adult, gender man, skin light").data)
    pixels[-48:] = COLOURS["skin"]["dark"]
    painted = Item("image", pictures.write_png(pixels), "image/png")
    assert StudioPixels().classify(painted) == {"age": "adult", "gender": "man", "skin": "dark"}
    pixels[:] = (255, 0, 255)
    hidden = Item("image", pictures.write_png(pixels), "image/png")
    assert set(StudioPixels().classify(hidden).values()) == {None}


def test_an_item_that_cannot_be_looked_at_is_an_error_and_not_a_value() -> None:
    with pytest.raises(DataError, match="card of the studio in PNG"):
        StudioPixels().classify(Item("image", b"<svg/>", "image/svg+xml"))
    with pytest.raises(DataError, match="not a PNG"):
        StudioPixels().classify(Item("image", b"nothing", "image/png"))
    with pytest.raises(DataError, match="is not text"):
        LexiconClassifier({"age": {"old": ["old"]}}).classify(Studio().generate("a person"))


def test_words_of_one_value_decide_and_those_of_several_do_not() -> None:
    lexicon = LexiconClassifier({"origin": {"asian": ["asian", "from East Asia"], "caucasian": ["caucasian"]}})
    for text, value in {
        "A Caucasian chief executive.": "caucasian",
        "An engineer from  east\nAsia": "asian",
        "Asians": None,
        "asian and caucasian": None,
        "": None,
    }.items():
        assert lexicon.classify(Item.of_text(text)) == {"origin": value}
    with pytest.raises(OptionError, match="expected words to match"):
        LexiconClassifier({"origin": {"asian": []}})
    with pytest.raises(OptionError, match="at least one concept group"):
        LexiconClassifier({})


def test_a_function_is_a_classifier_whose_answers_are_checked() -> None:
    item = Item.of_text("x")
    groups = {"age": ["child", "adult"], "gender": ["woman", "man"]}
    assert FunctionClassifier(lambda _: {"age": "Adult.", "hat": "yes"}, groups).classify(item) == {
        "age": "adult",
        "gender": None,
    }
    with pytest.raises(ModelError, match="mapping from concept groups"):
        FunctionClassifier(lambda _: "adult", groups).classify(item)
    with pytest.raises(ModelError, match="answered 3 for 'age'"):
        FunctionClassifier(lambda _: {"age": 3}, groups).classify(item)
