"""Joint specifications against an exhaustive solution of the game over every request that can come."""

from functools import lru_cache
from itertools import pairwise, product
from random import Random

import pytest
from genai_reference import read_config
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evenhand.genai import Enforcer, check_feasibility
from evenhand.genai.games import game
from evenhand.genai.games.game import Game, WinningRegion, solve_game
from support import scaled

GROUPS = {"g": 2, "h": 2, "k": 3}
MAX_STATES = 10_000
"""Maximum number of states that the reference enumerates."""


@lru_cache(maxsize=4096)
def can_be_kept(specifications):
    """Return whether every deadline can be kept for ever, by the definition.

    A position holds, for each combination of values, the number of items left until it must appear. A request is a set
    of conditions and a set of groups that its prompt fixes. A position is lost if some request leaves no item after
    which every deadline can still be kept.
    """
    names = sorted({name for _, groups, _ in specifications for name in groups})
    conditions = sorted({condition for condition, _, _ in specifications})
    items = [dict(zip(names, values, strict=True)) for values in product(*(range(GROUPS[name]) for name in names))]
    requests = set()
    for holds in product((False, True), repeat=len(conditions)):
        for fixes in product((False, True), repeat=len(names)):
            active = {name for name, flag in zip(conditions, holds, strict=True) if flag}
            fixed = {name for name, flag in zip(names, fixes, strict=True) if flag}
            requests.add(
                tuple(condition in active and not fixed & set(groups) for condition, groups, _ in specifications)
            )

    def after(position, request, item):
        following = []
        for left, applies, (_, groups, within) in zip(position, request, specifications, strict=True):
            if applies:
                shown = 0
                for name in groups:
                    shown = shown * GROUPS[name] + item[name]
                left = tuple(within[k] if k == shown else count - 1 for k, count in enumerate(left))
            following.append(left)
        return tuple(following)

    ranges = [range(1, deadline + 1) for _, _, within in specifications for deadline in within]
    ends = [0]
    for _, _, within in specifications:
        ends.append(ends[-1] + len(within))
    safe = {tuple(flat[start:end] for start, end in pairwise(ends)) for flat in product(*ranges)}
    while True:
        kept = {
            position
            for position in safe
            if all(any(after(position, request, item) in safe for item in items) for request in requests)
        }
        if kept == safe:
            return tuple(within for _, _, within in specifications) in safe
        safe = kept


def configuration(specifications, **simulation):
    """The configuration of specifications (condition, groups, deadlines)."""
    return read_config(
        {name: [f"{name}{value}" for value in range(size)] for name, size in GROUPS.items()},
        *[
            {
                "condition": condition,
                "name": f"s{i}",
                "repeated": list(within),
                **({"group": groups[0]} if len(groups) == 1 else {"paired": list(groups), "ways": len(groups)}),
            }
            for i, (condition, groups, within) in enumerate(specifications)
        ],
        conditions=[{"name": name} for name in sorted({condition for condition, _, _ in specifications})],
        simulation={"slack": 0, **simulation},
    )


@st.composite
def joint_specifications(draw):
    """Two or three specifications that share groups; deadlines near the border of what can be kept."""
    specifications = []
    shapes = [("g",), ("h",), ("k",), ("g", "h"), ("h", "k")]
    for _ in range(draw(st.integers(2, 3))):
        groups = draw(st.sampled_from(shapes))
        values = 1
        for name in groups:
            values *= GROUPS[name]
        within = draw(st.lists(st.integers(values, values + 2), min_size=values, max_size=values))
        specifications.append((draw(st.sampled_from("cd")), groups, tuple(within)))
    states = 1
    for _, _, within in specifications:
        for deadline in within:
            states *= deadline
    assume(states <= MAX_STATES)
    return tuple(specifications)


@settings(
    max_examples=scaled(100), deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
@given(specifications=joint_specifications())
def test_the_verdict_is_that_of_the_game(specifications):
    verdict = check_feasibility(configuration(specifications)).verdict
    assert verdict == ("feasible" if can_be_kept(specifications) else "infeasible")


NESTED = [
    (("c", ("g",), (3, 3)), ("c", ("g", "h"), (4, 4, 4, 4))),
    (("c", ("g",), (4, 3)), ("c", ("g", "h"), (5, 4, 4, 4))),
    (("c", ("g",), (2, 3)), ("c", ("h",), (2, 3)), ("c", ("g", "h"), (5, 5, 4, 4))),
]
TOO_TIGHT = [
    (("c", ("g",), (3, 3)), ("c", ("g", "h"), (4, 5, 4, 4))),
    (("c", ("g",), (3, 3)), ("d", ("g", "h"), (4, 4, 4, 4))),
    (("c", ("g",), (2, 2)), ("d", ("g",), (2, 2))),
]


@pytest.mark.parametrize("specifications", [*NESTED, *TOO_TIGHT])
def test_specifications_near_the_border(specifications):
    verdict = check_feasibility(configuration(specifications)).verdict
    assert verdict == ("feasible" if can_be_kept(specifications) else "infeasible")


@pytest.mark.parametrize("specifications", [case for case in NESTED if can_be_kept(case)])
@pytest.mark.parametrize("mode", ["before", "after"])
def test_the_enforcer_keeps_what_is_feasible(specifications, mode):
    random = Random(7)
    enforcer = Enforcer(configuration(specifications), mode=mode, in_flight=1)
    for _ in range(300):
        admission = enforcer.admit(["c"], fixed=[name for name in "gh" if random.random() < 0.2])
        while True:
            shown = {name: f"{name}{random.randrange(GROUPS[name])}" for name in "gh"}
            shown |= {group: random.choice(values) for group, values in admission.must.items()}
            outcome = enforcer.complete(admission, shown)
            if outcome.status != "retry":
                break
            admission = outcome.admission
        assert outcome.status == "ok"
    assert not enforcer.broken_assumptions


def test_an_undecided_part_does_not_make_a_game_infeasible(monkeypatch):
    undecided = WinningRegion("undecided")
    solve = game.solve_game
    parts = []

    def solve_parts(part):
        parts.append(part)
        return undecided

    monkeypatch.setattr(game, "solve_game", solve_parts)
    region = solve(Game.single((2, 4, 4)))
    assert parts
    assert region.feasible
    assert solve_game is solve
