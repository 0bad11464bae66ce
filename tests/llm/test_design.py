"""Which names meet which templates, and what is asked of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.simulated import SimulatedRespondent
from tests.support import scaled

from evenhand.llm.design import FAILED, REFUSED, Design, Interviewer


@given(st.integers(1, 30), st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12)), st.integers(0, 99))
@settings(max_examples=scaled(60), deadline=None)
def test_names_are_used_equally_often_and_none_twice_before_all(templates, names, seed):
    design = Design(templates, names, seed)
    met = np.stack([design.names_in(sweep) for sweep in range(2 * max(names))], axis=2)
    for group, count in enumerate(names):
        for sweeps in range(1, met.shape[2] + 1):
            uses = np.bincount(met[:, group, :sweeps].ravel(), minlength=count)
            # Each cycle of N sweeps uses every name as often as there are templates.
            assert uses.max() - uses.min() <= 1
        for template in range(templates):
            for start in range(0, met.shape[2] - count + 1, count):
                assert sorted(met[template, group, start : start + count]) == list(range(count))


def test_both_sides_of_a_trial_have_one_seed_and_repeats_have_others():
    design = Design(20, (5, 7), 1)
    respondent = SimulatedRespondent(np.full((20, 2, 7), 0.5), (5, 7))
    interviewer = Interviewer(respondent)
    first, second = design.sweep(0), design.sweep(1)
    for trials in (first, design.again(first), second):
        interviewer.ask(trials)
    one, again, other = respondent.batches
    assert interviewer.calls == 120
    assert (one.seed.reshape(20, 2)[:, 0] == one.seed.reshape(20, 2)[:, 1]).all()
    assert (again.name == one.name).all()
    assert (again.seed != one.seed).all()
    assert (again.draw == 1).all()
    assert not other.draw.any()
    assert not one.draw.any()
    assert (design.sweep(0).name == first.name).all()
    assert (Design(20, (5, 7), 2).sweep(0).seed != first.seed).any()


def test_every_question_is_a_draw_of_its_own():
    """Three names and ten sweeps: the same question comes again, and its draws count up from 0."""
    respondent = SimulatedRespondent(np.full((4, 2, 3), 0.5))
    interviewer, design = Interviewer(respondent), Design(4, (3, 3), 0)
    for sweep in range(10):
        interviewer.ask(design.sweep(sweep))
    draws = {}
    for batch in respondent.batches:
        for key in zip(batch.template, batch.group[:, 0], batch.name[:, 0], batch.draw, strict=True):
            draws.setdefault(tuple(map(int, key[:3])), []).append(int(key[3]))
    assert all(found == list(range(len(found))) for found in draws.values())


def test_what_is_no_choice_is_unfavourable_or_left_out():
    def kinds(batch):
        return np.where(batch.template == 0, REFUSED, np.where(batch.template == 1, FAILED, 0))

    respondent = SimulatedRespondent(np.ones((3, 2, 2)), kinds=kinds)
    trials = Design(3, (2, 2), 0).sweep(0)
    found = Interviewer(respondent).ask(trials)
    np.testing.assert_array_equal(found.value, [[0, 0], [np.nan, np.nan], [1, 1]])
    np.testing.assert_array_equal(found.kind[:, 0], [REFUSED, FAILED, 0])
    left_out = Interviewer(respondent, excluded=True).ask(trials)
    np.testing.assert_array_equal(left_out.value, [[np.nan, np.nan], [np.nan, np.nan], [1, 1]])


@pytest.mark.parametrize("groups", [2, 3])
def test_rankings_cancel_what_records_and_places_are_worth(groups):
    """Whatever records and places are worth, persons of equal worth have the same mean rank; a better one a better."""
    chance = np.zeros((6, groups, 4))
    respondent = SimulatedRespondent(chance, ranks=True, records=10.0, places=1.0)
    found = Interviewer(respondent).ask(Design(6, (4,) * groups, 3).sweep(0))
    assert found.value == pytest.approx(np.full((6, groups), 0.5))
    batch = respondent.batches[0]
    for template in range(6):
        mine = batch.template == template
        for group in range(groups):
            # Each group stands at every place once, and has every record once.
            assert sorted(np.nonzero(batch.group[mine] == group)[1]) == list(range(groups))
            assert sorted(batch.record[mine][batch.group[mine] == group]) == list(range(groups))
            assert len(set(batch.name[mine][batch.group[mine] == group])) == 1
    respondent.chance = chance + np.arange(groups)[None, :, None] * 100
    found = Interviewer(respondent).ask(Design(6, (4,) * groups, 3).sweep(1))
    assert found.value == pytest.approx(np.tile(np.linspace(0, 1, groups), (6, 1)))
