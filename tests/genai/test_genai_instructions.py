"""The words that ask for values: templates, and texts without them."""

from __future__ import annotations

from typing import Any

import pytest
from genai_reference import read_config

from evenhand.errors import OptionError
from evenhand.genai import Enforcer, GenerationConfig, Guard, Item, KeywordJudge, LexiconClassifier
from evenhand.genai.enforcement.instructions import InstructionWriter, clean_item

MUST = {"gender": ("woman",)}


def configured(**instruction: Any) -> GenerationConfig:
    return read_config(
        {"gender": ["woman", "man"], "age": ["young", "old"]},
        {"condition": "leader", "group": "gender", "repeated": 2},
        conditions=[{"name": "leader", "keywords": ["leader", "Chef"]}],
        guard={"instruction": instruction},
    )


def writer(**instruction: Any) -> InstructionWriter:
    return InstructionWriter(configured(**instruction).guard.instruction)


@pytest.mark.parametrize(
    ("must", "clause"),
    [
        ({}, ""),
        (MUST, "(showing: gender woman)"),
        ({"age": ("old",), "gender": ("woman", "man")}, "(showing: age old, gender woman or man)"),
    ],
)
def test_writes_the_default_clause(must: dict[str, tuple[str, ...]], clause: str) -> None:
    assert writer()("a leader", must) == f"a leader {clause}".strip()
    assert writer().clause(must) == clause


@pytest.mark.parametrize(
    ("told", "prompt"),
    [
        ({"template": "(showing: {values}) {prompt}"}, "(showing: gender woman) a leader"),
        ({"template": "It shows {values}."}, "a leader It shows gender woman."),
        ({"values": {"gender": {"woman": "a woman"}}}, "a leader (showing: a woman)"),
        ({"part": "{value}"}, "a leader (showing: woman)"),
        ({"template": "{values}: {prompt}, in oil", "part": "{value}"}, "woman: a leader, in oil"),
    ],
)
def test_templates_and_words(told: dict[str, Any], prompt: str) -> None:
    assert writer(**told)("a leader", MUST) == prompt
    assert writer(**told)("a leader", {}) == "a leader"


def test_several_values_and_groups_are_joined_as_told() -> None:
    told = {"either": " oder ", "also": " und ", "values": {"gender": {"woman": "eine Frau", "man": "ein Mann"}}}
    said = writer(**told)("ein Chef", {"gender": ("woman", "man"), "age": ("old",)})
    assert said == "ein Chef (showing: eine Frau oder ein Mann und age old)"


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"template": "showing a woman"}, "expected a text with {values}"),
        ({"values": {"hat": {"red": "a red hat"}}}, "there is no group 'hat'"),
        ({"values": {"gender": {"lady": "a lady"}}}, "there is no gender 'lady'"),
        ({"templat": "{values}"}, "templat"),
    ],
)
def test_wordings_that_make_no_sense_are_refused(told: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        configured(**told)
    assert message in str(caught.value)


class Echo:
    """A model that repeats what it was told, and writes of a man."""

    def generate(self, prompt: str) -> Item:
        return Item.of_text(f"{prompt}: he led.")


@pytest.mark.parametrize("told", [{}, {"template": "{values} {prompt}"}, {"template": "[{values}] {prompt} [end]"}])
def test_texts_do_not_carry_the_words_that_were_put_in(told: dict[str, Any]) -> None:
    configuration = configured(**told)
    classifier = LexiconClassifier({"gender": {"woman": ["woman", "she"], "man": ["man", "he"]}, "age": {}})
    guard = Guard(
        Enforcer(configuration, in_flight=1),
        Echo(),
        classifier,
        KeywordJudge.of(configuration),
        groups=configuration.values,
        instruct=InstructionWriter(configuration.guard.instruction),
    )
    answers = [guard.answer("a leader") for _ in range(4)]
    assert any(answer.changed for answer in answers)
    for answer in answers:
        assert answer.item is not None
        assert answer.item.text == "a leader: he led."
        # The words that were put in do not count as shown either.
        assert answer.values["gender"] == "man"


def test_only_what_was_put_in_is_taken_out() -> None:
    made = Item.of_text("A woman led. She was showing it.")
    assert clean_item(made, "a leader", "a leader (showing: gender woman)") is made
    assert clean_item(made, "a leader", "a leader") is made
    assert clean_item(made, "a leader", "a woman who leads") is made
