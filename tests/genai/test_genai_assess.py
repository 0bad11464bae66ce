"""Recorded sequences are judged as the definitions say: by hand, against the definitions themselves, on real data."""

import itertools
import json

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import DataError, LimitError, OptionError
from evenhand.genai import GenaiAssessment, RecordedSequence, assess_sequences, read_sequences
from evenhand.genai.assessment import assess
from evenhand.genai.assessment.assess import find_coverage, judge_appearances, longest_wait, smallest_beta
from support import shared


def recorded(**labels):
    values = {group: tuple(sorted({one for one in column if one})) for group, column in labels.items()}
    return RecordedSequence(
        "s", {group: tuple(one or None for one in column) for group, column in labels.items()}, values
    )


def words(text):
    """``"m.f"``: one letter per item, a point where it is not recognised."""
    return [None if letter == "." else letter for letter in text]


def at(column, value):
    shown = [one for one in column if one is not None]
    return [number for number, one in enumerate(shown, start=1) if one == value]


# By hand


def test_a_deadline_after_the_end_violates_nothing_but_a_short_sequence_shows_nothing():
    assert judge_appearances([[1], [2]], 2, (3, 3)) == "unknown"
    assert judge_appearances([[1, 3], [2]], 3, (2, 2)) == "holds"
    assert judge_appearances([[1, 2, 3, 4], []], 4, (4, 4)) == "violated"  # the fourth item was the last chance
    assert judge_appearances([[1, 2, 3, 4], []], 4, (5, 5)) == "unknown"
    assert smallest_beta([1], 4) is None  # 4 would do, but four items are not more than 4
    assert longest_wait([1], 4) == 4
    assert longest_wait([], 4) == 5


def test_groups_together_and_their_coverage():
    one = recorded(sex=words("mmff."), age=words("oyo.y"))
    result = assess_sequences([one], repeated={("sex", "age"): 3})
    sequence = result.sequences[0]
    pair = sequence.groups[-1]
    assert pair.items == (1, 2, 3)
    assert [value.value for value in pair.values] == ["f + o", "f + y", "m + o", "m + y"]
    assert [value.missed for value in pair.values] == [(), (3,), (), ()]
    assert {(one.kind, one.verdict, one.at_fault) for one in sequence.verdicts if len(one.groups) == 2} == {
        ("paired", "violated", ("f + y",))
    }
    assert sequence.coverage.curve == (1 / 4, 2 / 4, 3 / 4, 3 / 4, 3 / 4)
    assert [(one.groups, one.values) for one in sequence.coverage.missing] == [(("sex", "age"), ("f", "y"))]
    alone = assess_sequences([one]).sequences[0].verdicts
    assert [(v.kind, v.at_fault) for v in alone if v.verdict == "violated"] == [("paired", ("f + y",))]


def test_nothing_recognised():
    one = RecordedSequence("s", {"g": (None, None)}, {"g": ("a", "b")})
    result = assess_sequences([one], repeated=2)
    group = result.sequences[0].groups[0]
    assert (group.items, group.difference.kind, group.bound_here.kind) == ((), "unknown", "unknown")
    assert [value.verdict for value in result.sequences[0].verdicts] == ["unknown", "unknown"]
    assert [value.why for value in result.sequences[0].verdicts] == ["no item is recognised"] * 2
    assert "unknown" in result.summary()
    two = RecordedSequence("s", {"g": (None, "a"), "h": ("b", None)}, {"g": ("a", "b"), "h": ("a", "b")})
    pair = assess_sequences([two]).sequences[0].verdicts[-1]
    assert (pair.kind, pair.verdict, pair.at_fault) == ("paired", "unknown", ())


# Against the definitions

COLUMNS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=16)


def fair(column, value, beta):
    """Definition 10 of Cheng et al., word by word."""
    shown = [one for one in column if one is not None]
    length = len(shown)
    has = {m for m in range(1, length + 1) if shown[m - 1] == value}
    first = any(m in has for m in range(1, beta + 1))
    again = all(any(m2 in has for m2 in range(m1 + 1, m1 + beta + 1)) or m1 + beta > length for m1 in has)
    return length > beta and first and again


@given(COLUMNS)
def test_smallest_beta_is_the_least_with_which_the_definition_holds(column):
    length = sum(one is not None for one in column)
    for value in "abc":
        satisfied = [beta for beta in range(1, 20) if fair(column, value, beta)]
        assert smallest_beta(at(column, value), length) == min(satisfied, default=None)


@given(COLUMNS, st.tuples(*[st.integers(1, 10)] * 3))
def test_the_verdict_is_the_definition(column, beta):
    length = sum(one is not None for one in column)
    appearances = [at(column, value) for value in "abc"]
    expected = all(fair(column, value, limit) for value, limit in zip("abc", beta, strict=True))
    found = judge_appearances(appearances, length, beta)
    assert (found == "holds") == (expected and length > max(beta))
    if found == "violated":
        # However the sequence goes on, it stays so.
        for more in itertools.product("abc", repeat=3):
            longer = [*column, *more]
            again = [at(longer, value) for value in "abc"]
            assert judge_appearances(again, length + 3, beta) == "violated"
    if found == "unknown":
        assert length <= max(beta)
    assert assess.missed_deadlines(at(column, "a"), length, beta[0]) == tuple(
        due
        for m in [0, *at(column, "a")]
        for due in range(m + beta[0], length + 1, beta[0])
        if not any(m < n <= due for n in at(column, "a"))
    )


@given(st.lists(st.integers(0, 2), min_size=4, max_size=60))
def test_the_bounds_hold_of_fair_sequences(numbers):
    """Any sequence over three values that is fair with its least equal beta, short or long, and repeated for ever."""
    column = ["abc"[number] for number in numbers]
    length = len(column)
    betas = [smallest_beta(at(column, value), length) for value in "abc"]
    if None in betas:
        assert assess_sequences([RecordedSequence("s", {"g": tuple(column)}, {"g": tuple("abc")})]).sequences[0].groups[
            0
        ].bound.kind == ("unknown")
        return
    group = assess_sequences([RecordedSequence("s", {"g": tuple(column)}, {"g": tuple("abc")})]).sequences[0].groups[0]
    counts = [column.count(value) for value in "abc"]
    difference = (max(counts) - min(counts)) / length
    assert group.difference.value == pytest.approx(difference)
    assert group.difference.low <= difference <= group.difference.high
    assert group.bound_here.value == assess.finite_frequency_bound(3, max(betas), length)
    assert difference <= group.bound_here.value + 1e-12
    # Endless: round and round. What is fair then has the frequencies of one round.
    rounds = column * 3
    beta = max(longest_wait(at(rounds, value), len(rounds)) for value in "abc")
    assert difference <= assess.frequency_bound(3, beta) + 1e-12


@given(st.lists(st.tuples(*[st.sampled_from(["a", "b", None])] * 3), min_size=1, max_size=8), st.integers(2, 3))
def test_coverage_is_the_share_of_combinations_seen(rows, ways):
    columns = dict(zip("xyz", map(tuple, zip(*rows, strict=True)), strict=True))
    found = find_coverage(RecordedSequence("s", columns, dict.fromkeys("xyz", ("a", "b"))), ways)
    choices = list(itertools.combinations(range(3), ways))
    every = {(choice, values) for choice in choices for values in itertools.product("ab", repeat=ways)}
    for n in range(1, len(rows) + 1):
        seen = {(choice, tuple(row[i] for i in choice)) for row in rows[:n] for choice in choices} & every
        assert found.curve[n - 1] == len(seen) / len(every)
    assert found.total == len(every)
    named = {(tuple("xyz".index(group) for group in one.groups), one.values) for one in found.missing}
    assert named == every - seen


# Reading

TABLE = pd.DataFrame(
    {
        "asked": ["leader", "leader", "poor", "leader", "leader"],
        "run": ["1", "2", "1", "1", "2"],
        "sex": ["m", "f", "x", "", None],
        "grade": [1.0, 2.0, float("nan"), 2.0, 1.0],
        "file": ["a.png", None, "b.png", "c.png", "d.png"],
    }
)


@pytest.mark.parametrize("table", [TABLE, pl.from_pandas(TABLE)], ids=["pandas", "polars"])
def test_reading_a_data_frame(table):
    one, two = read_sequences(
        table, ["sex", "grade"], conditions={"asked": "leader"}, sequence_column="run", image_column="file"
    )
    assert (one.name, one.labels, one.files) == ("1", {"sex": ("m", None), "grade": ("1", "2")}, ("a.png", "c.png"))
    assert two.labels == {"sex": ("f", None), "grade": ("2", "1")}
    assert one.values == {"sex": ("f", "m", "x"), "grade": ("1", "2")}
    (again,) = read_sequences(table, ["sex"], values={"sex": ["m", "f"]}, conditions={"run": "1"})
    assert again.labels == {"sex": ("m", "x", None)}
    assert again.column(["sex"]) == [("m",), None, None]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"groups": ["sexx"]}, "there is no column 'sexx'"),
        ({"groups": []}, "no group is named"),
        ({"groups": ["sex"], "conditions": {"asked": "rich"}}, "no item has asked = rich"),
        ({"groups": ["sex"], "conditions": {"nobody": "rich"}}, "there is no column 'nobody'"),
        ({"groups": ["sex"], "values": {"age": ["a", "b"]}}, "there is no group 'age'"),
        ({"groups": ["sex"], "values": {"sex": ["m"]}}, "has the values m"),
        ({"groups": ["sex"], "values": {"sex": ["m", "m"]}}, "has the values m, m"),
    ],
)
def test_bad_tables_are_refused(given, said):
    with pytest.raises((DataError, OptionError)) as error:
        read_sequences(TABLE, **given)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"repeated": 0}, "at least 1, got 0"),
        ({"repeated": (3, 3, 3)}, "expected 2 deadlines, one per value, got 3"),
        ({"repeated": {"age": 3}}, "there is no group 'age'"),
        ({"repeated": {("sex", "sex"): 3}}, "listed twice"),
        ({"ways": 2}, "combinations of 2 groups among 1"),
        ({"confidence": 1}, "confidence must lie between"),
    ],
)
def test_bad_questions_are_refused(given, said):
    with pytest.raises(OptionError, match=said):
        assess_sequences([recorded(sex=words("mfm"))], **given)


def test_too_many_combinations_are_refused():
    values = tuple(str(i) for i in range(2000))
    one = RecordedSequence("s", {"a": ("1",), "b": ("2",)}, {"a": values, "b": values})
    with pytest.raises(LimitError, match="4,000,000 combinations"):
        assess_sequences([one])


def test_the_result_travels_and_is_a_table():
    result = assess_sequences([recorded(sex=words("mfmmf"), age=words("oyyo."))], repeated={"sex": 3}, source="by hand")
    assert GenaiAssessment.from_json(result.to_json()) == result
    assert result.plain()["kind"] == "genai-assessment"
    table = result.to_frame()
    assert list(table["value"]) == ["f", "m", "o", "y"]
    assert list(table["smallest_beta"]) == [3, 2, 3, 2]
    assert result.plot().to_dict()["vconcat"]


# Real sequences


def test_smallest_betas_of_the_published_gender_sequences():
    known = json.loads(shared("data", "genai", "figures.json").read_text("utf-8"))["min_beta_gender"]
    sequences = json.loads(shared("data", "genai", "notebook_gender_sequences.json").read_text("utf-8"))
    both = ("male", "female")
    found = assess_sequences(
        [RecordedSequence(name, {"g": tuple(labels)}, {"g": both}) for name, labels in sequences.items()]
    )
    betas = {one.name: one.groups[0] for one in found.sequences}
    assert [betas[f"openai_leader_seq{i}"].smallest_beta for i in (1, 2)] == [4, 6]
    assert [betas[f"openai_poor_seq{i}"].smallest_beta for i in (1, 2, 3, 4)] == [14, 13, 27, 20]
    for name, figures in known.items():
        assert {value.value: value.smallest_beta for value in betas[name].values} == figures["per_value"]
        assert len(betas[name].items) == figures["length"]
