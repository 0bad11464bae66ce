"""Asking sweep by sweep: what is asked, why it stops, and that no more is asked than is allowed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.simulated import SimulatedRespondent
from tests.support import scaled

from evenhand.errors import BudgetError, OptionError
from evenhand.llm import LanguageModelConfig
from evenhand.llm.asking import AskingPlan, ask_sweeps
from evenhand.llm.estimates import estimate_gap


def config(**given):
    return LanguageModelConfig(**{"half_width": 0.05, "calls": 10_000, "seed": 0, "findings": 0, **given})


def fair(templates=20, names=6, groups=2, **given):
    return SimulatedRespondent(np.full((templates, groups, names), 0.5), **given)


class Broken(SimulatedRespondent):
    """Raises an error instead of one batch of answers."""

    def __init__(self, at, error):
        super().__init__(np.full((20, 2, 6), 0.5))
        self.at, self.error = at, error

    def ask(self, batch):
        if len(self.batches) == self.at:
            raise self.error
        return super().ask(batch)


def test_by_hand_what_is_asked():
    """Twenty templates, two groups: three sweeps of 40 questions, the first of them twice, and 2 x 10 fresh pairs."""
    respondent = fair()
    asked = ask_sweeps(
        respondent, AskingPlan([(0, 1)]), config(half_width=0.001, sweeps=3, findings=2, finding_pairs=10)
    )
    assert [len(batch.template) for batch in respondent.batches] == [40, 40, 40, 40, 40]
    assert (asked.calls, asked.sweeps, asked.looks, asked.stopped_by) == (200, 3, 2, "sweeps")
    assert asked.table.value.shape == (20, 2, 3)
    assert (asked.table.again.value.shape, len(asked.templates)) == ((20, 2), 2)
    # Without measuring noise, the first sweep is asked once.
    assert ask_sweeps(fair(), AskingPlan([(0, 1)], twice=False), config(sweeps=2)).calls == 80


@given(st.integers(1, 1500), st.integers(0, 4), st.integers(2, 3))
@settings(max_examples=scaled(60), deadline=None)
def test_no_more_is_asked_than_allowed(calls, findings, groups):
    respondent = fair(templates=6, names=4, groups=groups)
    wanted = config(calls=calls, findings=findings, finding_pairs=10, half_width=0.001)
    if calls < 3 * 6 * groups:
        with pytest.raises(OptionError, match=rf"at least {18 * groups} calls"):
            ask_sweeps(respondent, AskingPlan([(0, 1)]), wanted)
        assert respondent.batches == []
        return
    asked = ask_sweeps(respondent, AskingPlan([(0, 1)]), wanted)
    assert asked.calls == sum(len(batch.template) for batch in respondent.batches) <= calls
    assert asked.sweeps >= 2
    assert len(asked.templates) <= findings


def test_precision_stops_where_the_width_is_met_and_a_decision_where_it_is_clear():
    chance = np.full((40, 2, 10), 0.5)
    chance[:, 0] = 0.95
    clear = SimulatedRespondent(chance)
    asked = ask_sweeps(clear, AskingPlan([(0, 1)]), config(half_width=0.1, calls=20_000))
    gap = estimate_gap(asked.table.pair((0, 1)))
    assert asked.stopped_by == "half-width"
    assert gap.half_width(asked.levels[0]) <= 0.1
    decided = ask_sweeps(SimulatedRespondent(chance), AskingPlan([(0, 1)]), config(goal="decision", calls=20_000))
    assert (decided.stopped_by, decided.sweeps, decided.looks) == ("decided", 1, 1)
    gap = estimate_gap(decided.table.pair((0, 1)))
    assert decided.levels[0] > 0.95
    assert gap.interval(decided.levels[0])[0] > 0


@pytest.mark.parametrize(("error", "reason"), [(BudgetError("spent"), "budget"), (KeyboardInterrupt(), "interrupt")])
@pytest.mark.parametrize("at", [0, 1, 2, 3, 5])
def test_what_was_answered_before_an_end_is_kept(at, error, reason):
    """Five batches: a sweep, the same again, two sweeps more, and fresh pairs."""
    broken = Broken(at, error)
    wanted = config(half_width=0.001, sweeps=4, findings=1, finding_pairs=10)
    if at == 0:
        with pytest.raises(type(error)):
            ask_sweeps(broken, AskingPlan([(0, 1)]), wanted)
        return
    asked = ask_sweeps(broken, AskingPlan([(0, 1)]), wanted)
    assert asked.sweeps == {1: 1, 2: 1, 3: 2, 5: 4}[at]
    assert (asked.table.again is None) == (at == 1)
    assert not asked.affordable
    assert asked.templates == []
    if at < 5 or reason == "interrupt":
        assert asked.stopped_by == reason
    whole = ask_sweeps(Broken(-1, error), AskingPlan([(0, 1)]), wanted)
    np.testing.assert_array_equal(asked.table.value, whole.table.value[:, :, : asked.sweeps])


def test_every_sweep_is_reported():
    seen = []
    ask_sweeps(
        fair(),
        AskingPlan([(0, 1)]),
        config(half_width=0.001, sweeps=3),
        report=lambda sweep, last, gaps: seen.append((sweep, last, len(gaps))),
    )
    assert seen == [(1, 3, 1), (2, 3, 1), (3, 3, 1)]
