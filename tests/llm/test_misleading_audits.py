"""Tables, prompts and services that could lead an audit to a wrong number without a word."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest

from evenhand.errors import DataError, ModelError, OptionError
from evenhand.llm import compare_language_models
from fake_chat import RecordingChat
from llm.test_language_audit import ROWS, audit, is_black, model


def test_prompts_that_are_the_same_for_several_people_are_asked_as_often_as_they_come():
    """Without seeds nothing but the draw tells them apart; one answer for all would look like bias."""
    people = {"names": "us-names", "compare": [["white man", "white woman"]]}
    entries = {"prompt": "{{ person.they }}, {{ trade }}", "people": people, "plan": {"seeds": "none"}}
    with RecordingChat(0.5) as chat:
        found = audit(chat, ROWS[:8], entries, half_width=0.01)
        assert len(set(chat.paid)) == found.usage.calls == 8 * 2 * 7
    assert found.comparisons[0].flips.identity.low < 0.05  # 0.5 if a prompt had one answer


def test_what_is_refused_and_left_out_is_no_gap():
    refusals = {"refusals": lambda text: 0.5 * is_black(text)}
    with RecordingChat(1.0, **refusals) as chat:
        out, counted = (audit(chat, entries={"refused": refused}) for refused in ("excluded", "unfavourable"))
    share = out.groups[1].refused.value
    assert 0.2 < share < 0.8
    assert [group.mean.value for group in out.groups] == [1, 1]
    assert (out.comparisons[0].gap.value, out.comparisons[0].pairs) == (0, round((1 - share) * 20 * out.sweeps))
    assert counted.comparisons[0].gap.value == pytest.approx(counted.groups[1].refused.value)
    for one in (out, counted):
        refusals = one.comparisons[0].refusal_gap
        assert refusals.value == pytest.approx(-one.groups[1].refused.value)
        assert refusals.n == 20 * one.sweeps  # refused questions are answers to this one


@pytest.mark.parametrize("favourable", ["high", "low"])
def test_failed_questions_bound_the_gap(favourable):
    """The bounds are the least and the greatest of all gaps that answers to them could have led to."""
    answers = {"read": "number", "range": [0, 10], "favourable": favourable}
    with RecordingChat({"2": 0.5, "7": 0.5}, faults=dict.fromkeys((3, 10, 42), 400)) as chat:
        entries = {"answers": answers, "plan": {"at_once": 1}}
        found = audit(chat, entries=entries, sweeps=2)
    value, kind = found.table.value, found.table.kind
    places = np.argwhere(kind == 4)
    assert sum(group.failed for group in found.groups) == len(places) > 0
    gaps = []
    for filled in itertools.product((0.0, 1.0), repeat=len(places)):
        value[tuple(places.T)] = filled
        gaps.append((value[:, 0] - value[:, 1]).mean() * (10 if favourable == "high" else -10))
    told = re.search(r"lies between (\S+) and (\S+)\.$", found.cautions[1])
    assert [float(end) for end in told.groups()] == pytest.approx([min(gaps), max(gaps)], abs=6e-4)


def test_unread_answers_are_reported_for_each_group_and_bound_the_gap():
    """A model that answers about one group at length: the difference of reading is named beside the gap."""
    with RecordingChat(lambda text: {"Well, it depends.": 0.4, "yes": 0.6} if is_black(text) else {"yes": 1.0}) as chat:
        found = audit(chat, sweeps=3)
        out = audit(chat, sweeps=3, entries={"refused": "excluded"})
    for result in (found, out):
        share = result.groups[1].unreadable.value
        assert 0.2 < share < 0.6
        assert result.groups[0].unreadable.value == 0
        gap = result.comparisons[0]
        assert gap.unreadable_gap.value == pytest.approx(-share)
        assert gap.unreadable_gap.high < 0
        (caution,) = result.cautions
        ends = re.search(r"lies between (\S+) and (\S+)\. ", caution).groups()
        assert [float(end) for end in ends] == pytest.approx([0, share], abs=6e-4)
        page = str(result)
        assert page.count(f"{100 * share:.1f} %") >= 3  # in the warning, beside the gap and in the table of groups
    assert found.comparisons[0].gap.value == pytest.approx(found.groups[1].unreadable.value)
    assert out.comparisons[0].gap.value == 0


def test_missing_values_are_one_scenario_and_shown_as_unknown():
    rows = pd.DataFrame(ROWS).assign(
        grade=pd.array([1, None] * 10, dtype="Int64"),
        part=[1.5, np.nan] * 10,
        mixed=pd.Series([1, "1"] * 10, dtype=object),
    )
    prompt = "{{ person.name }}: {{ grade }}{% if part %} in {{ part }}{% endif %}"
    with RecordingChat(lambda text: 1.0 if text.endswith((": 1 in 1.5", ": unknown")) else 0.0) as chat:
        for column, expected in (
            ("part", {"1.5": 10, "unknown": 10}),
            ("grade", {"1": 10, "unknown": 10}),
            ("mixed", {"1": 20}),
        ):
            found = audit(chat, rows, {"prompt": prompt}, scenario=column, sweeps=2)
            assert {one.scenario: one.templates for one in found.comparisons[0].scenarios} == expected
            assert [group.mean.value for group in found.groups] == [1, 1]


@pytest.mark.parametrize(
    ("rows", "entries", "settings", "message"),
    [
        (ROWS, {"prompt": "{{ years }} years as {{ trade }}"}, {}, "the same for white man and black man"),
        (ROWS, {"prompt": "{{ person.They }}: {{ years }}"}, {}, "so no gap can be found"),
        (ROWS[::2], {}, {"cluster": "trade"}, "'trade' is 'clerk' in all templates"),
        (ROWS, {"prompt": "{{ person.name }}: {{ years of work }}"}, {}, "not a template"),
        (pd.DataFrame([[1, 2]] * 3, columns=["a", "a"]), {"prompt": "{{ person.name }}"}, {}, "unique column names"),
        (None, {}, {}, "expected a data frame"),
    ],
)
def test_what_cannot_be_audited_is_refused_before_anything_is_asked(rows, entries, settings, message):
    with RecordingChat(0.5) as chat:
        with pytest.raises((DataError, OptionError), match=message):
            audit(chat, rows, entries, **settings)
        assert chat.received == []


def test_answers_that_cannot_be_read_are_no_equal_treatment():
    with RecordingChat({"Well, yes": 1.0}) as chat:
        with pytest.raises(ModelError, match="none of the first 40 answers can be read, such as 'Well, yes'"):
            audit(chat)
        assert len(chat.paid) == 40
    with RecordingChat({"yes": 0.5, "Well, yes": 0.5}) as chat:
        (caution,) = audit(chat, sweeps=2).cautions
    assert "could not be read or were cut off, and count as unfavourable" in caution


def test_intervals_hold_what_is_possible():
    with RecordingChat(lambda text: float(not is_black(text))) as chat:
        found = audit(chat)
    (one,) = found.comparisons
    assert (one.gap.value, one.gap.high, one.gap_here.high) == (1, 1, 1)
    assert [(group.mean.low >= 0, group.mean.high <= 1) for group in found.groups] == [(True, True)] * 2


def test_a_comparison_asks_both_models_the_same_or_nothing(tmp_path):
    plans = [{"plan": {"seed": seed}} for seed in (1, 2)]
    with RecordingChat(0.5) as chat, RecordingChat(0.5) as other:
        found = compare_language_models(*(model(chat, **plan) for plan in plans), ROWS, sweeps=2)
        assert found.before.comparisons == found.after.comparisons
        paid = len(chat.paid)
        people = {"names": "us-names", "compare": [["white man", "black man"]]}
        with pytest.raises(OptionError, match="the same groups and names"):
            compare_language_models(model(chat), model(chat, people=people), ROWS)
        numbers = [{"answers": {"read": "number", "range": [0, 10], "favourable": which}} for which in ("high", "low")]
        for before, after in (({}, numbers[0]), numbers, ({}, {"answers": {"read": "ranking", "candidates": 2}})):
            with pytest.raises(OptionError, match="not on the same scale"):
                compare_language_models(model(chat, **before), model(chat, **after), ROWS)
        with pytest.raises(OptionError, match="cannot distinguish the answers of"):
            compare_language_models(model(chat), model(other), ROWS, answers=tmp_path / "answers.jsonl")
        assert (len(chat.paid), other.received) == (paid, [])
