"""What is said about a shield: its words, its heat map and its maps of actions agree with its table."""

import hashlib
from dataclasses import replace

import pytest
from shield_reference import costly_plan, follow, plan

from evenhand.shields import Shield, inspect_policy, synthesize
from evenhand.shields.policy.file import policy_to_bytes
from evenhand.shields.simulation.inspection import ShieldInspection
from evenhand.shields.spec.ends import welfare_bounds_of
from evenhand.view.charts.shields.inspection import draw_action_maps, draw_intervention_heatmap
from support import shortened

CASES = {
    "parity": plan(),
    "ratio": plan(property="disparate_impact", empty_group="vacuous"),
    "opportunity": plan(property="equal_opportunity", horizon=8),
    "costs": costly_plan(empty_group="min_count=3"),
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
    assert found.expected_cost == pytest.approx(policy.expected_cost)
    assert found.promises[0] in found.summary()


def test_tables_that_are_not_walked_say_so(monkeypatch):
    greedy = inspect_policy(synthesize(plan(kind="greedy")))
    assert (greedy.verified, greedy.reached, greedy.cells) == (None, None, ())
    assert greedy.not_walked == "it has no table of states"
    monkeypatch.setattr("evenhand.shields.simulation.several_groups_walk.MAX_LISTED_STATES", 10)
    large = inspect_policy(synthesize(plan(groups=THREE, horizon=4)))
    assert (large.verified, large.reached, large.cells) == (None, None, ())
    assert ShieldInspection.from_json(large.to_json()) == large


THREE = {
    name: {"rate": rate, "accept": accept, "label": 0.5}
    for name, rate, accept in (("a", 0.2, 0.3), ("b", 0.5, 0.8), ("c", 0.3, 0.5))
}
SEVERAL = {
    "three": plan(groups=THREE, horizon=5, empty_group="min_count=2"),
    "carried over": plan(groups=THREE, horizon=4, kappa="0.5", start={"a": [3, 1], "b": [2, 1], "c": [0, 0]}),
    "labels": plan(groups=THREE, horizon=4, property="equal_opportunity", empty_group="vacuous", kappa="0.5"),
    "bounds": plan(groups=THREE, horizon=5, kind="static-bw", kappa="0.5"),
    "bounds, labels": plan(groups=THREE, horizon=4, kind="static-bw", kappa="0.5", property="equal_opportunity"),
    "two": plan(horizon=6, kappa="0.25"),
}


def ends_by_hand(policy):
    """Every end with its probability, and the cost: the slow way."""
    layers, _, cost = follow(policy)
    return layers[-1], cost


@pytest.mark.parametrize("which", SEVERAL)
def test_any_number_of_groups_is_walked(which):
    policy = synthesize(SEVERAL[which])
    found = inspect_policy(policy)
    ends, cost = ends_by_hand(policy)
    assert found.verified
    assert found.expected_cost == pytest.approx(cost)
    assert found.overrides == pytest.approx(cost)
    assert sum(group.accepted + group.rejected for group in found.groups) == pytest.approx(cost)
    (end,) = found.ends
    needed = policy.plan.property.empty_group.needed_count
    start = policy.plan.start
    if policy.actions.form != "separate":
        assert end.reached == len(ends)
        small = [c for c in ends if sorted(n + m for n, m in zip(c[::2], start[::2], strict=True))[-2] < needed]
        assert end.unjudged == len(small)
        assert end.unjudged_chance == pytest.approx(sum(ends[c] for c in small))
    else:
        alone = [{(c[2 * g], c[2 * g + 1]) for c in ends} for g in range(3)]
        assert end.reached == sum(map(len, alone))
        least = welfare_bounds_of(policy.plan).least_seen
        assert end.unjudged == sum(n < least for states in alone for n, _ in states)


@pytest.mark.parametrize("which", ["three", "labels", "bounds", "two"])
def test_an_unfair_table_is_found(which):
    """The same table under a smaller kappa, or one that follows every recommendation."""
    policy = synthesize(SEVERAL[which])
    actions = policy.actions
    lax = {
        "listed": lambda: replace(actions, levels_by_time=tuple(0 * each for each in actions.levels_by_time)),
        "separate": lambda: replace(actions, tables=tuple(0 * each for each in actions.tables)),
        "packed": lambda: replace(actions, cells=tuple(0 * each + 0b01010101 for each in actions.cells)),
    }
    edited = replace(policy, actions=lax[actions.form]())
    found = inspect_policy(edited)
    ends, _ = ends_by_hand(edited)
    assert found.verified is False
    kept, m = policy.plan.property, len(policy.plan.inputs.groups)
    pairs = [(i, j) for i in range(m) for j in range(i)]
    unfair = [
        c for c in ends if any(kept.bias(*c[2 * i : 2 * i + 2], *c[2 * j : 2 * j + 2]) > kept.kappa for i, j in pairs)
    ]
    if which != "bounds":
        assert found.ends[0].unfair == len(unfair) > 0
        assert found.ends[0].chance == pytest.approx(sum(ends[c] for c in unfair))


@pytest.mark.parametrize("kind", ["static-fair", "static-bw", "dynamic"])
def test_what_was_walked_and_what_was_not(kind):
    found = inspect_policy(synthesize(plan(kind=kind)))
    assert found.verified
    assert found.not_walked in " ".join(found.summary().split())
    assert not inspect_policy(synthesize(plan())).not_walked


def test_an_inspection_names_the_file_and_the_running_shield():
    for kind in ("finite", "static-fair", "dynamic"):
        policy = synthesize(plan(kind=kind))
        data = policy_to_bytes(policy)
        found = inspect_policy(policy, file=data)
        assert found.file_sha256 == hashlib.sha256(data).hexdigest()
        assert found.file_bytes == len(data)
        assert found.digest == Shield(policy).policy_digest


def test_ends_at_which_nothing_is_required_are_counted():
    found = inspect_policy(synthesize(plan(empty_group="min_count=5")))
    ends, _ = ends_by_hand(synthesize(plan(empty_group="min_count=5")))
    small = sum(chance for (n_a, _, n_b, _), chance in ends.items() if min(n_a, n_b) < 5)
    assert found.ends[0].unjudged_chance == pytest.approx(small)
    assert small > 0.5
