"""Judges: keywords are whole words, functions answer True or False."""

from __future__ import annotations

import pytest

from evenhand.errors import ModelError, OptionError
from evenhand.genai import Configuration, Enforcer
from evenhand.genai.judge import JudgeFunctions, KeywordJudge


def _configuration(**leader: object) -> Configuration:
    return Configuration.read(
        {
            "conditions": [{"name": "leader", **leader}, {"name": "poor", "keywords": ["poor", "in poverty"]}],
            "specifications": [
                {"condition": name, "group": "age", "values": ["young", "old"], "repeated": 4}
                for name in ("leader", "poor")
            ],
        }
    )


@pytest.mark.parametrize(
    ("prompt", "held"),
    [
        ("a successful Business\n leader", {"leader"}),
        ("somebody in  poverty, and a CEO", {"leader", "poor"}),
        ("a poorly lit leaderboard", set()),
        ("", set()),
    ],
)
def test_keywords_of_a_configuration_are_whole_words(prompt: str, held: set[str]) -> None:
    configuration = _configuration(keywords=["business leader", "CEO"])
    judged = KeywordJudge.of(configuration).conditions(prompt)
    assert judged == held
    assert len(Enforcer(configuration, seed=0).admit(judged).counts) == len(held)


def test_a_condition_that_nothing_tells_is_refused() -> None:
    with pytest.raises(OptionError, match="nothing tells when 'leader' is asked for"):
        KeywordJudge.of(_configuration())
    with pytest.raises(OptionError, match="no words"):
        KeywordJudge({"leader": [" "]})


def test_functions_judge_and_their_answers_are_checked() -> None:
    judge = JudgeFunctions({"long": lambda prompt: len(prompt) > 5, "leader": lambda prompt: "leader" in prompt})
    assert judge.conditions("a leader") == {"long", "leader"}
    assert judge.conditions("a cat") == frozenset()
    with pytest.raises(ModelError, match="'leader' answered 'no'"):
        JudgeFunctions({"leader": lambda _: "no"}).conditions("x")  # type: ignore[dict-item, return-value]
