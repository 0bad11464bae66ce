"""What is said about a shield: its words, its heat map and its maps of actions agree with its table."""

import pytest

from evenhand.shields import ShieldInspection, describe_empty_group, guarantees, inspect_policy, read_plan, synthesize
from evenhand.view.charts.shield_inspection import draw_action_maps, draw_intervention_heatmap
from support import shortened


def plan(**changes):
    groups = {"a": {"rate": 0.3, "accept": 0.35, "label": 0.4}, "b": {"rate": 0.7, "accept": 0.6, "label": 0.6}}
    return read_plan({"property": "demographic_parity", "kappa": "0.2", "horizon": 12, "groups": groups, **changes})


def costly():
    likely = {"costs_if_rejected": [0.25, 0.75], "costs_if_accepted": [0.5, 0.5]}
    groups = {"a": {"rate": 0.4, "accept": 0.3, **likely}, "b": {"rate": 0.6, "accept": 0.8, **likely}}
    return plan(costs=[0.2, 0.7], groups=groups, empty_group="min_count=3")


CASES = {
    "parity": plan(),
    "ratio": plan(property="disparate_impact", empty_group="vacuous"),
    "opportunity": plan(property="equal_opportunity", horizon=8),
    "costs": costly(),
    "one decision": plan(horizon=1),
    "anytime": plan(checks="anytime", empty_group="min_count=3"),
}


@pytest.fixture(scope="module", params=CASES)
def inspected(request):
    policy = synthesize(CASES[request.param])
    return policy, inspect_policy(policy)


def test_the_cells_of_the_heat_map_are_all_decisions(inspected):
    policy, found = inspected
    assert sum(cell.comes for cell in found.cells) == pytest.approx(policy.plan.horizon, abs=1e-3)
    for group in found.groups:
        own = [cell for cell in found.cells if cell.group == group.name]
        assert sum(cell.comes for cell in own) == pytest.approx(policy.plan.horizon * group.rate, abs=1e-3)
        assert sum(cell.comes * cell.accepted for cell in own) == pytest.approx(group.accepted, abs=1e-3)
        assert sum(cell.comes * cell.rejected for cell in own) == pytest.approx(group.rejected, abs=1e-3)
    assert all(-found.limit <= cell.low < cell.high <= found.limit for cell in found.cells)


def test_the_maps_show_the_actions_of_the_table(inspected):
    policy, found = inspected
    assert found.stretches
    words = {0: "follow", policy.levels: "accept", -policy.levels: "reject"}
    for one in found.stretches:
        for b in (one.second_low, one.second_high):
            level = policy.action(one.time, (one.seen[0], one.first, one.seen[1], b), one.group)
            assert one.action == words.get(level, "accept if cheap" if level > 0 else "reject if cheap")


@pytest.mark.parametrize(
    "inspected", shortened(CASES, to=lambda case: case in ("costs", "one decision")), indirect=True
)
def test_what_was_found_comes_back_and_is_drawn(inspected):
    _, found = inspected
    assert ShieldInspection.from_json(found.to_json()) == found
    assert len(found.to_frame()) == len(found.cells)
    for draw in (draw_intervention_heatmap, draw_action_maps):
        for width in (880, 330):
            assert draw(found, width=width)["description"]
    assert found.plot().to_dict()


def test_a_certain_end_is_verified(inspected):
    policy, found = inspected
    assert found.verified
    assert found.expected_cost == policy.expected_cost
    assert found.worst_cost is None
    assert found.promises[0] in found.summary()


def test_tables_that_are_not_walked_say_so():
    for one in (plan(kind="greedy"), plan(groups={name: {"rate": 1 / 3, "accept": 0.5} for name in "abc"}, horizon=4)):
        found = inspect_policy(synthesize(one))
        assert (found.verified, found.reached, found.cells) == (None, None, ())
        assert ShieldInspection.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "After 12 decisions, the acceptance rates of the groups differ by at most 0.2: in every run"),
        ({"checks": "anytime"}, "After every decision,"),
        ({"checks": [4, 8]}, "After 4, 8 and 12 decisions,"),
        ({"property": "equal_opportunity"}, "if the label of every decision is known before the next one"),
        ({"property": "disparate_impact"}, "the smaller acceptance rate is at least 0.8 of the larger"),
        ({"kind": "feasible"}, "who is expected plays no part"),
        ({"kind": "static-fair"}, "counted equally often in every period"),
        ({"kind": "static-bw", "bounds": ["0.4", "0.6"]}, "at least 5 of each group, every"),
        ({"kind": "dynamic"}, "Once 10 of each group were counted, every period ends fair."),
        ({"kind": "dynamic", "terminal": "exempt"}, "Nothing is asked of an end"),
        ({"kind": "greedy"}, "Nothing is guaranteed"),
    ],
)
def test_promises(changes, said):
    assert said in " ".join(guarantees(plan(**changes)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "A group of which no one has come counts as one with rate 0, so the others' must be at most 0.2."),
        ({"property": "disparate_impact"}, "so no one of the other group may be accepted."),
        ({"empty_group": "vacuous"}, "While no one of a group has come, nothing is required."),
        ({"empty_group": "min_count=7"}, "While fewer than 7 of a group have come, nothing is required."),
        ({"property": "equal_opportunity", "empty_group": "vacuous"}, "While no one with label 1 of a group has come"),
        ({"kind": "static-bw", "bounds": ["0.4", "0.6"]}, "fewer than 5 of a group"),
    ],
)
def test_conventions(changes, said):
    assert said in describe_empty_group(plan(**changes))
