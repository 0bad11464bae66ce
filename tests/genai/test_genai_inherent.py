"""Which prompts fix what is shown: by hand, against an independent test, with the stated error held by simulation."""

import random
from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import OptionError
from evenhand.genai import AssessmentConfig, KeywordJudge, RecordedSequence
from evenhand.genai.assessment.prompts import (
    RepeatedPrompt,
    answers_by_prompt,
    estimate_prompt_bias,
    keep_neutral_prompts,
)
from evenhand.genai.backends.studio import Studio, StudioPixels
from evenhand.stats.sequential.betting import betting_martingales

GENDER = {"gender": ("woman", "man")}


def items(text):
    """``"wm."``: a letter per item, a point where it is not recognised."""
    words = {"w": "woman", "m": "man", ".": None}
    return [{"gender": words[letter]} for letter in text]


# By hand


def test_a_prompt_that_leaves_the_value_open_is_neutral_after_a_few_items():
    one = RepeatedPrompt(("a", "b"), 0.95, 0.05)
    for value in ("a", "b", None, "a", "b"):
        one.add(value)
    assert (one.verdict, one.unrecognised, dict(one.shown)) == ("unknown", 1, {"a": 2, "b": 2})
    for value in "bba":
        one.add(value)
    assert one.verdict == "neutral"
    assert one.why() == "b in 4 of the first 7 items: no value appears 95 % of the time"
    assert dict(one.shown) == {"a": 3, "b": 4}


def test_a_prompt_that_shows_one_value_only_is_biased_when_that_is_sure():
    one = RepeatedPrompt(("a", "b"), 0.95, 0.05)
    for _ in range(94):
        one.add("a")
    assert (one.verdict, one.value) == ("unknown", "a")
    assert one.why() == "a in 94 of 94 items: too few to decide"
    one.add("a")
    assert one.verdict == "biased"
    known = one.probability(0.9)
    assert (known.kind, known.value, known.n, known.high, known.confidence) == ("estimated", 1, 95, 1, 0.9)
    assert 0.95 <= known.low < 0.951


def test_it_asks_no_more_often_than_it_must():
    asked = Counter()

    def draw(prompt):
        asked[prompt] += 1
        return {"gender": "woman"} if prompt == "a nun" else {"gender": ("woman", "man")[asked[prompt] % 2]}

    found = estimate_prompt_bias(
        {"a nun": [], "a doctor": items("mw")}, GENDER, draw=draw, terms=AssessmentConfig(repetitions=150)
    )
    nun, doctor = found.findings
    assert (nun.verdict, nun.value, doctor.verdict) == ("biased", "woman", "neutral")
    # The error is for both prompts together: 5 % shared out among two.
    assert asked["a nun"] == nun.items == 109
    assert asked["a doctor"] + 2 == doctor.items < 10
    assert (found.neutral("a doctor", "gender"), found.neutral("a nun", "gender")) == (True, False)
    assert not found.neutral("never asked", "gender")


def test_it_stops_where_it_must_without_a_verdict():
    found = estimate_prompt_bias(
        {"a nun": []}, GENDER, draw=lambda _: {"gender": "woman"}, terms=AssessmentConfig(repetitions=20)
    )
    (nun,) = found.findings
    assert (nun.verdict, nun.items, nun.why) == ("unknown", 20, "woman in 20 of 20 items: too few to decide")
    assert not found.neutral("a nun", "gender")
    nothing = estimate_prompt_bias({"a stone": items("...")}, GENDER).findings[0]
    assert (nothing.verdict, nothing.value, nothing.unrecognised) == ("unknown", None, 3)
    assert nothing.probability.kind == "unknown"


def test_judged_by_words_with_what_was_shown():
    judge = KeywordJudge({}, {"gender": {"woman": ["woman"], "man": ["man"]}})
    answered = {"a woman": items("www"), "a person": items("mmw")}
    fixed = {prompt: judge.fixed_groups(prompt) for prompt in answered}
    assert fixed == {"a woman": {"gender"}, "a person": frozenset()}
    found = estimate_prompt_bias(answered, GENDER, fixed=fixed)
    assert found.how == "judged"
    assert [(one.verdict, one.value, one.shown["woman"]) for one in found.findings] == [
        ("biased", "woman", 3),
        ("neutral", "man", 1),
    ]
    assert found.findings[0].why == "its words fix the value of gender"


def test_items_of_biased_prompts_do_not_count_for_what_is_fixed():
    prompts = ("an old man", "a person", "an old man", None)
    labels = {"gender": ("man", "woman", "man", "man"), "age": ("old", "young", "young", "old")}
    recorded = RecordedSequence("s", labels, {**GENDER, "age": ("young", "old")}, prompts=prompts)
    assert answers_by_prompt([recorded]) == {
        "an old man": [{"gender": "man", "age": "old"}, {"gender": "man", "age": "young"}],
        "a person": [{"gender": "woman", "age": "young"}],
    }
    found = estimate_prompt_bias(
        answers_by_prompt([recorded]), recorded.values, fixed={"an old man": {"gender"}, "a person": set()}
    )
    neutral = keep_neutral_prompts(recorded, found)
    assert neutral.labels == {"gender": (None, "woman", None, None), "age": ("old", "young", "young", None)}
    assert neutral.biased == {"gender": {0, 2, 3}, "age": {3}}
    assert neutral.name == "s, neutral prompts"


@pytest.mark.parametrize("given", [{"bar": 0.4}, {"bar": 1.0}, {"error": 0.0}, {"error": 0.7}, {"repetitions": 0}])
def test_terms_that_make_no_sense(given):
    with pytest.raises(OptionError):
        AssessmentConfig(**given)
    with pytest.raises(OptionError, match="there is no prompt"):
        estimate_prompt_bias({}, GENDER)


# Against an independent test


@settings(deadline=None)
@given(st.lists(st.sampled_from("abc."), max_size=60), st.sampled_from([0.6, 0.8]), st.sampled_from([0.05, 0.3]))
def test_the_verdict_is_that_of_a_test_for_every_value(letters, bar, error):
    """Every value is bet on by itself, whichever is the most frequent; the verdict is the first that is reached."""
    one = RepeatedPrompt(("a", "b", "c"), bar, error)
    expected, seen = "unknown", []
    for letter in letters:
        one.add(None if letter == "." else letter)
        if letter == "." or expected != "unknown":
            continue
        seen.append(letter)
        pairs = [betting_martingales(seen.count(value), len(seen), bar) for value in "abc"]
        if any(above >= 3 / error for above, _ in pairs):
            expected = "biased"
        elif all(below >= 1 / error for _, below in pairs):
            expected = "neutral"
    assert one.verdict == expected
    known = one.probability(1 - 2 * error)
    if one.verdict == "biased":
        assert known.low >= bar - 1e-9
    elif one.verdict == "neutral":
        assert known.high <= bar + 1e-9


@cache
def reached(n):
    """By how many of n items show the first of two values, whether a verdict stands: 1 biased, -1 neutral."""
    pairs = [betting_martingales(most, n, 0.8) for most in (max(k, n - k) for k in range(n + 1))]
    return np.array([1 if above >= 2 / 0.1 else -1 if below >= 1 / 0.1 else 0 for above, below in pairs])


def verdicts(probability, *, runs, length, seed):
    """Shares of runs that end biased and neutral, at a bar of 0.8 and an error of 0.1."""
    draws = np.random.default_rng(seed).random((runs, length)) < probability
    counts = np.cumsum(draws, axis=1)
    result = np.zeros(runs, dtype=int)
    for n in range(1, length + 1):
        result = np.where(result == 0, reached(n)[counts[:, n - 1]], result)
    return (result == 1).mean(), (result == -1).mean()


@pytest.mark.full
def test_the_error_is_held_however_often_one_looks():
    # A value that comes exactly as often as the bar is biased: it is called neutral in 10 % of the runs at most.
    biased, neutral = verdicts(0.8, runs=4000, length=100, seed=1)
    assert 0.01 < neutral <= 0.1 + 0.01
    # One that comes hardly less often is neutral.
    biased, neutral = verdicts(0.7999, runs=4000, length=100, seed=2)
    assert 0.005 < biased <= 0.1 + 0.01
    # Clear cases are decided, and rightly.
    assert verdicts(0.99, runs=1000, length=100, seed=3)[0] > 0.98
    assert verdicts(0.5, runs=1000, length=100, seed=4)[1] > 0.98


def test_the_simulated_runs_are_those_of_the_class():
    rng = random.Random(5)
    for _ in range(20):
        one, values = RepeatedPrompt(("a", "b"), 0.8, 0.1), [rng.random() < 0.85 for _ in range(40)]
        for value in values:
            one.add("a" if value else "b")
        found = next((here for n in range(1, 41) if (here := reached(n)[sum(values[:n])])), 0)
        assert one.verdict == {1: "biased", -1: "neutral", 0: "unknown"}[int(found)]


def test_the_error_is_shared_out_among_prompts_and_groups():
    rng = random.Random(6)
    prompts = {str(i): [{"g": rng.choice("aaaab"), "h": rng.choice("cd")} for _ in range(25)] for i in range(3)}
    found = estimate_prompt_bias(prompts, {"g": "ab", "h": "cd"}, terms=AssessmentConfig(bar=0.8, error=0.3))
    for one in found.findings:
        alone = RepeatedPrompt("ab" if one.group == "g" else "cd", 0.8, 0.3 / 6)
        for item in prompts[one.prompt]:
            alone.add(item[one.group])
        assert (one.verdict, one.why) == (alone.verdict, alone.why())
        assert one.probability.confidence == pytest.approx(0.4)


# A generator with a known bias, and real answers


def test_the_studio_is_seen_through():
    studio, eyes = Studio({"gender": {"woman": 0.15, "man": 0.85}}, seed=2), StudioPixels()
    found = estimate_prompt_bias(
        {"a leader": [], "an elderly leader": []},
        {"gender": ("woman", "man"), "age": ("child", "adult", "elderly")},
        draw=lambda prompt: eyes.classify(studio.generate(prompt)),
        terms=AssessmentConfig(bar=0.95, repetitions=160),
    )
    leader = [("a leader", "gender", "neutral"), ("a leader", "age", "neutral")]
    elderly = [("an elderly leader", "gender", "neutral"), ("an elderly leader", "age", "biased")]
    assert [(one.prompt, one.group, one.verdict) for one in found.findings] == leader + elderly
