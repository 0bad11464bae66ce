"""The judge of sequences: worked by hand, and against the definition read word by word."""

from hypothesis import given
from hypothesis import strategies as st

from evenhand.genai.simulation.stream import judge_sequence


def test_by_hand():
    # Value 1 in items 1, 3, 4, 5 and value 2 in item 2: it is due by item 5, and does not come.
    found = judge_sequence([1, 2, 0, 1, 1, 1], 2, {1: 2, 2: 3})
    assert found == (5, (0, 1), (2, 4))


def test_a_deadline_beyond_the_end_is_not_missed():
    assert judge_sequence([1, 1, 1], 2, {1: 1, 2: 4}).missed == (0, 0)
    assert judge_sequence([1, 1, 1, 1], 2, {1: 1, 2: 4}).missed == (0, 1)
    assert judge_sequence([1, 1, 1, 2], 2, {1: 4, 2: 4}).missed == (0, 0)


def test_a_value_that_stays_away_misses_one_deadline_after_another():
    assert judge_sequence([2] * 9 + [1] + [2] * 9 + [1] + [2], 2, {1: 3, 2: 2}) == (21, (6, 0), (10, 2))
    assert judge_sequence([2] * 200, 2, {1: 10, 2: 10}).missed == (20, 0)


def test_without_deadlines_a_value_must_appear():
    assert judge_sequence([1, 3, 0, 3], 3).missed == (0, 1, 0)
    assert judge_sequence([], 2) == (0, (1, 1), (1, 1))


def missed_by_definition(shown, value, deadline):
    """How often ``deadline`` items in a row passed without the value, since the beginning or its last appearance."""
    missed = waited = 0
    for one in (one for one in shown if one):
        waited = 0 if one == value else waited + 1
        if waited == deadline:
            missed, waited = missed + 1, 0
    return missed


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(1, 9), min_size=3, max_size=3))
def test_the_definition(shown, deadlines):
    found = judge_sequence(shown, 3, dict(enumerate(deadlines, 1)))
    for place, deadline in enumerate(deadlines):
        assert found.missed[place] == missed_by_definition(shown, place + 1, deadline)
        gap = found.longest_gap[place]
        assert not missed_by_definition(shown, place + 1, gap)
        assert gap == 1 or missed_by_definition(shown, place + 1, gap - 1)
