"""Templates that are treated differently: planted ones are confirmed, others are not."""

import numpy as np
import pytest
from tests.llm.simulated import SimulatedRespondent

from evenhand.llm import LanguageModelConfig
from evenhand.llm.asking import AskingPlan, ask_sweeps
from evenhand.llm.design import Design, Interviewer
from evenhand.llm.estimates import AnswerTable
from evenhand.llm.findings import Suspect, confirm, suspect_templates, template_trials


def table_of(value, name=None):
    zeros = np.zeros(value.shape, dtype=int)
    return AnswerTable(value, zeros, zeros if name is None else name, (2,) * value.shape[1])


def test_the_widest_templates_by_hand():
    value = np.zeros((3, 3, 2))
    value[0, 0] = 1, 1  # group 0 above group 1 by 1
    value[1, 2] = 1, np.nan  # group 2 above group 1 by 1, of one pair
    value[2, 1] = 1, 0  # group 1 above both by 1/2
    found = suspect_templates(table_of(value), [(0, 1), (2, 1)], 4)
    assert found == [Suspect((0, 1), 0), Suspect((2, 1), 1), Suspect((0, 1), 2), Suspect((2, 1), 2)]
    assert suspect_templates(table_of(np.ones((3, 2, 2))), [(0, 1)], 4) == []


def test_fresh_pairs_are_fresh_and_balanced():
    design = Design(9, (6, 4), 2)
    trials = template_trials([Suspect((1, 0), 3)], design, 12, sweep=5, ranks=False)
    assert (trials.template == 3).all()
    assert trials.group.tolist() == [[1, 0]] * 12
    # After five sweeps the sixth name of group 0 comes next, then all of the next cycle.
    assert trials.name[0, 1] == design.names_in(5)[3, 0]
    assert sorted(trials.name[1:7, 1]) == list(range(6))
    assert sorted(trials.name[3:7, 0]) == list(range(4))


@pytest.mark.parametrize("ranks", [False, True])
def test_planted_templates_are_confirmed(ranks):
    chance = np.full((12, 2, 6), 0.5)
    if not ranks:
        chance[4, 0], chance[4, 1] = 0.9, 0.1
    else:
        chance[4, 0] = 0.9
    respondent = SimulatedRespondent(chance, ranks=ranks, places=0.1)
    design, interviewer = Design(12, (6, 6), 1), Interviewer(respondent)
    suspects = [Suspect((0, 1), 4), Suspect((0, 1), 7)]
    found = confirm(suspects, design, 40, 6, interviewer)
    clear = {one.suspect for one in found if one.p <= 0.05}
    assert clear == {Suspect((0, 1), 4)}
    assert [one.p for one in found] == sorted(one.p for one in found)
    best = next(one for one in found if one.suspect == Suspect((0, 1), 4))
    assert best.better[0] > best.better[1]
    assert len(best.outcomes.value) == 40
    assert confirm([], design, 40, 6, interviewer) == []


def test_a_ranking_of_three_groups_compares_the_two_that_are_suspected():
    chance = np.zeros((4, 3, 5)) + np.array([0.0, 0.5, 1.0])[None, :, None]
    respondent = SimulatedRespondent(chance, ranks=True)
    design = Design(4, (5, 5, 5), 1)
    suspects = [Suspect((2, 0), 1)]
    (found,) = confirm(suspects, design, 10, 3, Interviewer(respondent))
    assert found.better == (10, 0)
    assert found.outcomes.value.tolist() == [[1.0, 0.0]] * 10


def test_no_template_is_confirmed_without_fresh_questions():
    chance = np.full((8, 2, 6), 0.5)
    chance[3, 1], chance[3, 0] = 1.0, 0.0
    config = LanguageModelConfig(half_width=0.001, calls=8 * 2 * 13, seed=0, findings=3)
    answers = ask_sweeps(SimulatedRespondent(chance), AskingPlan([(0, 1)]), config)
    assert not answers.affordable
    assert answers.sweeps >= 9
    assert answers.templates == []
