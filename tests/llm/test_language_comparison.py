"""Two models asked the same: changes in pairs, and whether a gap became smaller whichever group is better off."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.auditing import parse_gate
from evenhand.llm.comparison import pair_audits
from evenhand.llm.estimates import AnswerTable
from language_audits import BLACK, MAN, audit, gap, outcome


def asked(first, second, groups=(MAN, BLACK)):
    """Return an audit of two groups whose answers are given, each of shape (templates, sweeps)."""
    value = np.stack([first, second], axis=1).astype(float)
    names = np.broadcast_to(np.arange(value.shape[2]), value.shape)
    table = AnswerTable(value, np.zeros(value.shape, dtype=int), names, (value.shape[2],) * 2)
    groups = tuple(outcome(group, 0.4) for group in groups)
    return audit(comparisons=(gap(groups[0].group, groups[1].group, 0.1, 0.05),), groups=groups, table=table)


def answers(rng, rate, shape=(60, 10)):
    """Return random answers."""
    return (rng.random(shape) < rate).astype(float)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((0.7, 0.3), (0.5, 0.5), "better"),
        ((0.3, 0.7), (0.5, 0.5), "better"),
        ((0.5, 0.5), (0.7, 0.3), "worse"),
        ((0.7, 0.3), (0.3, 0.7), "no clear change"),  # the other group is now as much better off
        ((0.6, 0.4), (0.6, 0.4), "no clear change"),
    ],
)
def test_a_gap_became_smaller_or_larger_by_its_size(before, after, verdict):
    rng = np.random.default_rng(1)
    one, other = (asked(answers(rng, rates[0]), answers(rng, rates[1])) for rates in (before, after))
    found = pair_audits(one, other, 0.95)
    assert found.changes[0].verdict == verdict
    if verdict != "no clear change":
        assert parse_gate(f"llm.{verdict} > 0").holds(found)


def test_what_both_have_in_common_cancels():
    """Chances differ widely between templates; answers of both models follow the same draws."""
    rng = np.random.default_rng(2)
    draws, chance = rng.random((2, 60, 10)), rng.random((60, 1))
    one = asked(*(draws < chance).astype(float))
    other = asked((draws[0] < chance).astype(float), (draws[1] < chance - 0.1).astype(float))
    found = pair_audits(one, other, 0.95).changes[0]
    widths = [number.high - number.low for number in (found.before, found.after, found.change)]
    assert widths[2] < 0.9 * min(widths[:2])
    assert found.change.value == pytest.approx(found.after.value - found.before.value)
    assert found.change.low < 0.1 < found.change.high


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 4))
def test_changes_are_those_of_a_loop_over_pairs(seed, templates, sweeps):
    rng = np.random.default_rng(seed)
    first, second, third, fourth = (answers(rng, 0.5, (templates, sweeps)) for _ in range(4))
    first[0, 0] = np.nan
    found = pair_audits(asked(first, second), asked(third, fourth), 0.95)
    pairs = [(t, k) for t in range(templates) for k in range(sweeps) if (t, k) != (0, 0)]
    change = sum((third[p] - fourth[p]) - (first[p] - second[p]) for p in pairs) / len(pairs)
    if templates > 1 and len({t for t, _ in pairs}) > 1:
        assert found.changes[0].change.value == pytest.approx(change)
        rates = sum(third[p] - first[p] for p in pairs) / len(pairs)
        assert found.outcomes[0].change.value == pytest.approx(rates)


def test_only_sweeps_that_both_finished_are_compared():
    rng = np.random.default_rng(3)
    one, other = asked(*answers(rng, 0.5, (2, 30, 8))), asked(*answers(rng, 0.5, (2, 30, 3)))
    other = other.model_copy(update={"table": other.table._replace(names=one.table.names)})
    assert pair_audits(one, other, 0.95).sweeps == 3
