"""Check whether the deadlines of a configuration are feasible; infeasible verdicts name the responsible values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, combinations, product
from math import prod
from typing import Literal, NamedTuple

from pydantic import computed_field

from evenhand.core.result_part import ResultPart
from evenhand.genai.games.game import (
    MAX_GAME_STATES,
    FeasibilityVerdict,
    Game,
    SolutionMethod,
    WinningRegion,
    find_culprits,
    solve_game,
)
from evenhand.genai.spec.specification import GenerationConfig, Requirement

MAX_ASSIGNMENTS = 4096
"""Maximum number of combinations of values in an exact joint game."""

MAX_REQUEST_ATTRIBUTES = 12
"""Maximum number of conditions plus groups of an exact joint game, whose requests are the subsets of both.

The limit excludes no solvable game: a game with more of them has at least 24 values, and therefore more than
    `MAX_GAME_STATES` states.
"""


@dataclass(frozen=True)
class RequirementComponent:
    """Requirements that share concept groups, directly or through others, and are therefore kept together.

    Attributes:
        requirements: The requirements with deadlines. Other components share no group with them.
        groups: Names of their concept groups.
        values: Values of each of these groups.
    """

    requirements: tuple[Requirement, ...]
    groups: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    @cached_property
    def assignments(self) -> tuple[Mapping[str, str], ...]:
        """Values of each group that an item may show. Empty if there are too many."""
        if prod(map(len, self.values)) > MAX_ASSIGNMENTS:
            return ()
        return tuple(dict(zip(self.groups, values, strict=True)) for values in product(*self.values))

    @cached_property
    def moves(self) -> tuple[tuple[int, ...], ...]:
        """Sets of requirements that one item may count for, smallest first. Empty if there are too many.

        A requirement applies to a request if its condition holds and the prompt fixes none of its groups. Under one
        condition, a requirement on fewer groups therefore applies whenever a requirement on these and more groups does.
        """
        conditions = sorted({requirement.condition for requirement in self.requirements})
        if len(conditions) + len(self.groups) > MAX_REQUEST_ATTRIBUTES:
            return ()
        moves = {
            tuple(
                i
                for i, requirement in enumerate(self.requirements)
                if requirement.condition in active and fixed.isdisjoint(requirement.groups)
            )
            for active in map(set, _subsets(conditions))
            for fixed in map(set, _subsets(self.groups))
        }
        return tuple(sorted(moves - {()}, key=lambda move: (len(move), move)))

    @cached_property
    def game(self) -> Game:
        """Joint game of all requirements."""
        return Game(
            tuple(requirement.repeated or () for requirement in self.requirements),
            tuple(
                tuple([requirement.position(item) or 0 for requirement in self.requirements])
                for item in self.assignments
            ),
            self.moves,
        )


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield all subsets of names, including the empty one."""
    return chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))


class SpecificationFeasibility(ResultPart):
    """Feasibility of one specification, together with all others.

    Attributes:
        name: Name of the specification.
        condition, groups: Condition and groups of the specification.
        values: Names of the values, or of their combinations.
        repeated: Deadlines. None if values only have to appear, which is always still possible.
        verdict: ``feasible`` if no deadline ever needs to be missed; ``infeasible`` if some deadline must be missed;
            ``undecided`` if the game is too large.
        method: Method that found the verdict. None without deadlines.
        states: Number of states of the solved game. 0 for ``hall``.
        faults: Values whose deadlines cannot be kept together, or are undecided.
    """

    name: str
    condition: str
    groups: tuple[str, ...]
    values: tuple[str, ...]
    repeated: tuple[int, ...] | None
    verdict: FeasibilityVerdict
    method: SolutionMethod | None
    states: int
    faults: tuple[str, ...]

    @classmethod
    def of(
        cls, requirement: Requirement, region: WinningRegion | None, faults: tuple[str, ...] = ()
    ) -> SpecificationFeasibility:
        """Build from the winning region of a game. None if there are no deadlines."""
        return cls(
            name=requirement.name,
            condition=requirement.condition,
            groups=requirement.groups,
            values=requirement.labels,
            repeated=requirement.repeated,
            verdict="feasible" if region is None else region.verdict,
            method=None if region is None else region.method,
            states=0 if region is None else region.states,
            faults=faults,
        )

    @computed_field  # type: ignore[prop-decorator]  # pydantic's documented use
    @property
    def feasible(self) -> bool:
        """Whether it is known that no deadline ever needs to be missed."""
        return self.verdict == "feasible"


class Feasibility(ResultPart):
    """Feasibility of a configuration.

    Attributes:
        verdict: Joint verdict on all specifications, including the slack.
        reason: Explanation.
        hint: Instruction for a feasible configuration. None if it is feasible.
        specifications: Feasibility of each specification.
    """

    kind: Literal["genai-check"] = "genai-check"
    verdict: FeasibilityVerdict
    reason: str
    hint: str | None
    specifications: tuple[SpecificationFeasibility, ...]

    @computed_field  # type: ignore[prop-decorator]  # pydantic's documented use
    @property
    def feasible(self) -> bool:
        """Whether it is known that all deadlines can be kept."""
        return self.verdict == "feasible"

    @property
    def refusal(self) -> str:
        """Reason for not enforcing the configuration."""
        undecided = self.verdict == "undecided"
        return f"{'it is not known whether this can be kept' if undecided else 'this cannot be kept'}: {self.reason}"


class _Obstacle(NamedTuple):
    """Reason why a configuration is not feasible."""

    verdict: FeasibilityVerdict
    reason: str
    hint: str


@lru_cache(maxsize=64)
def solve_cached(game: Game) -> WinningRegion:
    """Solve a game. Solutions are cached, since the same games are checked and then enforced."""
    return solve_game(game)


def find_components(configuration: GenerationConfig) -> tuple[RequirementComponent, ...]:
    """Group the requirements with deadlines by shared concept groups."""
    parts: list[tuple[set[str], list[Requirement]]] = []
    # Invariant: no two parts share a concept group. A requirement merges all parts that share a group with it.
    for requirement in configuration.requirements:
        if requirement.repeated is None:
            continue
        groups, members = set(requirement.groups), [requirement]
        disjoint = []
        for other_groups, other_members in parts:
            if other_groups & groups:
                groups |= other_groups
                members = other_members + members
            else:
                disjoint.append((other_groups, other_members))
        parts = [*disjoint, (groups, members)]
    components = []
    for groups, members in parts:
        names = tuple(group for group in configuration.values if group in groups)
        components.append(
            RequirementComponent(
                tuple(requirement for requirement in configuration.requirements if requirement in members),
                names,
                tuple(configuration.values[group] for group in names),
            )
        )
    return tuple(components)


def check_feasibility(configuration: GenerationConfig, *, slack: int | None = None) -> Feasibility:
    """Check the feasibility of each specification on its own, of all jointly, and with slack.

    If the slack, the number of useless items to be tolerated, is None, that of the configuration is used.
    """
    tolerated = configuration.simulation.slack if slack is None else slack
    verdicts = {
        requirement.name: SpecificationFeasibility.of(requirement, None)
        for requirement in configuration.requirements
        if requirement.repeated is None
    }
    obstacles: list[_Obstacle] = []
    for component in find_components(configuration):
        obstacles_before = len(obstacles)
        for requirement in component.requirements:
            verdicts[requirement.name] = _judge_alone(requirement, obstacles)
        if len(obstacles) > obstacles_before:
            continue
        joint = solve_cached(component.game)
        if not joint.feasible:
            obstacles.append(_explain_jointly(component, joint))
        elif tolerated:
            earlier = solve_cached(component.game.shift_deadlines(tolerated))
            if not earlier.feasible:
                obstacles.append(_explain_slack(component, earlier, tolerated))
        if not joint.feasible or len(component.requirements) > 1:
            for requirement in component.requirements:
                faults = () if joint.feasible else requirement.labels
                verdicts[requirement.name] = SpecificationFeasibility.of(requirement, joint, faults)
    ordered = tuple(verdicts[requirement.name] for requirement in configuration.requirements)
    if not obstacles:
        reason = "every deadline can be kept forever, for any generator"
        return Feasibility(verdict="feasible", reason=reason, hint=None, specifications=ordered)
    # Infeasible parts come first, since they remain infeasible for any verdict on the undecided parts.
    obstacles.sort(key=lambda obstacle: obstacle.verdict == "undecided")
    reasons = "; ".join(obstacle.reason for obstacle in obstacles)
    verdict, _, hint = obstacles[0]
    return Feasibility(verdict=verdict, reason=reasons, hint=hint, specifications=ordered)


def _judge_alone(requirement: Requirement, obstacles: list[_Obstacle]) -> SpecificationFeasibility:
    """Check the feasibility of one specification by itself, and record its obstacle."""
    deadlines = requirement.repeated or ()
    region = solve_cached(Game.single(deadlines))
    if region.feasible:
        return SpecificationFeasibility.of(requirement, region)
    faults = find_culprits(deadlines)
    smallest = solve_cached(Game.single([deadlines[k] for k in faults]))
    if smallest.verdict == "undecided" != region.verdict:
        faults, smallest = tuple(range(len(deadlines))), region
    about = ", ".join(f"{requirement.labels[k]} within {deadlines[k]}" for k in faults)
    if smallest.verdict == "infeasible":
        reason = f"{requirement.name}: no order of items shows {about} repeatedly"
        hint = f"deadlines of {len(deadlines)} or more for every value can always be kept"
    else:
        reason = f"{requirement.name}: whether {about} can be kept is not known: more than {MAX_GAME_STATES:,} states"
        hint = _raise_deadlines([requirement], len(deadlines))
    obstacles.append(_Obstacle(smallest.verdict, reason, hint))
    return SpecificationFeasibility.of(requirement, smallest, tuple(requirement.labels[k] for k in faults))


def _explain_jointly(component: RequirementComponent, region: WinningRegion) -> _Obstacle:
    names = " and ".join(requirement.name for requirement in component.requirements)
    enough = component.game.enough
    if region.verdict == "infeasible":
        return _Obstacle(
            "infeasible",
            f"{names} cannot be kept together: each can be kept alone, but an item shows only one value of each group",
            f"deadlines of {enough} or more for every value can always be kept together",
        )
    return _Obstacle(
        "undecided",
        f"whether {names} can be kept together is not known: each can be kept alone, but their joint game is too "
        "large to be solved",
        _raise_deadlines(component.requirements, enough),
    )


def _explain_slack(component: RequirementComponent, region: WinningRegion, slack: int) -> _Obstacle:
    names = " and ".join(requirement.name for requirement in component.requirements)
    undecided = region.verdict == "undecided"
    problem = "whether these can be kept is not known: the game is too large" if undecided else "these cannot be kept"
    return _Obstacle(
        region.verdict,
        f"{names}: with a slack of {slack}, deadlines are {slack} earlier, and {problem}",
        f"use less slack, or deadlines of {component.game.enough + slack} or more",
    )


def _raise_deadlines(requirements: Sequence[Requirement], enough: int) -> str:
    """Suggest feasible deadlines by raising the short ones."""
    raised = [
        f"{requirement.name}: repeated: [{', '.join(str(max(d, enough)) for d in requirement.repeated or ())}]"
        for requirement in requirements
    ]
    return (
        f"deadlines of {enough} or more can always be kept, so these can: {'; '.join(raised)}; or name fewer values, "
        "which makes the game smaller"
    )
