"""Judges: keywords are whole words, functions answer True or False."""

from __future__ import annotations

import pytest
from genai_reference import read_config
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import ModelError, OptionError
from evenhand.genai import Enforcer, FunctionJudge, GenerationConfig, KeywordJudge


def _configuration(**leader: object) -> GenerationConfig:
    return read_config(
        {},
        *[
            {"condition": name, "group": "age", "values": ["young", "old"], "repeated": 4}
            for name in ("leader", "poor")
        ],
        conditions=[{"name": "leader", **leader}, {"name": "poor", "keywords": ["poor", "in poverty"]}],
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


HIDDEN = st.sampled_from("\u00ad\u200b\u200c\u200d\u2060\ufeff\u034f\ufe0f\u202e\U000e0061\x00\u0332\u0336\u0301")


@given(st.data())
def test_a_keyword_that_readers_see_is_found(data: st.DataObject) -> None:
    letters = list(data.draw(st.sampled_from(["leader", "Chief Executive", "CEO"])))
    for k in data.draw(st.sets(st.integers(1, len(letters)))):
        letters[k - 1] += data.draw(HIDDEN)
    style = data.draw(st.sampled_from([str, str.upper, str.title, _full_width, _bold]))
    before, after = data.draw(st.tuples(*[st.sampled_from([" ", "\u201c", "_", "(", "\n", "**", "-"])] * 2))
    prompt = f"x{before}{style(''.join(letters))}{after}x"
    judge = KeywordJudge({"leader": ["leader", "chief executive", "CEO"]})
    assert judge.conditions(prompt) == {"leader"}, ascii(prompt)


def _full_width(text: str) -> str:
    return "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in text)


def _bold(text: str) -> str:
    return "".join(
        chr(0x1D400 + ord(letter) - ord("A"))
        if "A" <= letter <= "Z"
        else chr(0x1D41A + ord(letter) - ord("a"))
        if "a" <= letter <= "z"
        else letter
        for letter in text
    )


@pytest.mark.parametrize(
    ("keyword", "prompt", "held"),
    [
        ("leader", "two leaders", True),
        ("leader", "a\u200bleader\u200bwho", True),
        ("leader", "the leaders' table", True),
        ("leader", "leadership of leaderboards", False),
        ("boss", "all bosses", True),
        ("secretary", "Secretaries", True),
        ("boy", "boys", True),
        ("policeman", "policemen", True),
        ("salesperson", "salespersons", True),
        ("person", "old people", True),
        ("child", "children", True),
        ("wife", "wives", True),
        ("chief executive", "chief-executives", True),
        ("business leader", "businessleader", False),
        ("he", "hes", False),
        ("it", "its", False),
        ("año", "el ano", False),
        ("año", "el an\u0303o", True),
        ("Straße", "STRASSE", True),
        ("women's wear", "women\u2019s wear", True),
        ("co-founder", "a co\u2011founder", True),
    ],
)
def test_forms_of_keywords(keyword: str, prompt: str, held: bool) -> None:
    assert bool(KeywordJudge({"it": [keyword]}).conditions(prompt)) is held
    assert bool(KeywordJudge({"it": ["x"]}, {"group": {"value": [keyword]}}).fixed_groups(prompt)) is held


def test_a_condition_that_nothing_tells_is_refused() -> None:
    with pytest.raises(OptionError, match="the keywords of 'leader' are missing"):
        KeywordJudge.of(_configuration())
    with pytest.raises(OptionError, match="expected words to match"):
        KeywordJudge({"leader": [" "]})


def test_functions_judge_and_their_answers_are_checked() -> None:
    judge = FunctionJudge({"long": lambda prompt: len(prompt) > 5, "leader": lambda prompt: "leader" in prompt})
    assert judge.conditions("a leader") == {"long", "leader"}
    assert judge.conditions("a cat") == frozenset()
    with pytest.raises(ModelError, match="'leader' answered 'no'"):
        FunctionJudge({"leader": lambda _: "no"}).conditions("x")


@pytest.mark.parametrize(
    ("prompt", "fixed"),
    [
        ("an OLD leader", {"age"}),
        ("a leader in gold", set()),
        ("a young woman", {"age", "gender"}),
        ("a leader, and some other", set()),  # 'other' is a word like any other
        ("", set()),
    ],
)
def test_values_named_in_a_prompt_fix_their_group(prompt: str, fixed: set[str]) -> None:
    configuration = read_config(
        {"age": ["young", "old", "other"], "gender": ["woman", "man"]},
        {"condition": "leader", "paired": ["age", "gender"], "repeated": 20},
        conditions=[{"name": "leader", "keywords": ["leader"]}],
    )
    assert KeywordJudge.of(configuration).fixed_groups(prompt) == fixed


def test_words_for_values_are_used_instead_of_their_names() -> None:
    configuration = _configuration(keywords=["leader"])
    judge = KeywordJudge.of(configuration, {"age": {"old": ["elderly", "grey haired"]}})
    assert judge.fixed_groups("a grey  haired leader") == {"age"}
    assert judge.fixed_groups("an old leader") == frozenset()
    assert judge.fixed_groups("a young leader") == {"age"}
    with pytest.raises(OptionError, match="no group 'sex'"):
        KeywordJudge.of(configuration, {"sex": {"man": ["he"]}})
    with pytest.raises(OptionError, match="no age 'ancient'"):
        KeywordJudge.of(configuration, {"age": {"ancient": ["ancient"]}})


def test_functions_tell_what_is_fixed() -> None:
    judge = FunctionJudge({}, {"age": lambda prompt: "old" in prompt, "gender": lambda prompt: False})
    assert judge.fixed_groups("an old leader") == {"age"}
    with pytest.raises(ModelError, match="'age' answered None"):
        FunctionJudge({}, {"age": lambda _: None}).fixed_groups("x")
