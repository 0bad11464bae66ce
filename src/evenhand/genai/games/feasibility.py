"""Check whether the deadlines of a configuration are feasible; infeasible verdicts name the values at fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import chain, combinations, product
from math import prod
from typing import Literal, TypeAlias

from evenhand.genai.games.game import MAX_GAME_STATES, Game, SolutionMethod, WinningRegion, find_culprits, solve_game
from evenhand.genai.spec.specification import GenerationConfig, Requirement

FeasibilityVerdict: TypeAlias = Literal["feasible", "infeasible", "undecided"]

MAX_ASSIGNMENTS = 4096
"""Maximum number of combinations of values in an exact joint game."""

MAX_REQUEST_ATTRIBUTES = 12
"""Maximum number of conditions plus groups of an exact joint game, whose requests are the subsets of both.

The limit loses nothing: a game with more of them has at least 24 values, and so more than `MAX_GAME_STATES` states.
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
    def assignments(self) -> tuple[tuple[int, ...], ...]:
        """What an item can show of the groups: positions of values; empty if there are too many to try."""
        sizes = [len(values) for values in self.values]
        return tuple(product(*map(range, sizes))) if prod(sizes) <= MAX_ASSIGNMENTS else ()

    def combinations_in(self, assignment: tuple[int, ...]) -> tuple[int, ...]:
        """Return what an assignment is for every requirement: the position of its combination."""
        return tuple(self._position(requirement, assignment) for requirement in self.requirements)

    def _position(self, requirement: Requirement, assignment: tuple[int, ...]) -> int:
        place = 0
        for group, values in zip(requirement.groups, requirement.values, strict=True):
            place = place * len(values) + assignment[self.groups.index(group)]
        return place

    @cached_property
    def moves(self) -> tuple[tuple[int, ...], ...]:
        """The sets of requirements that one item can count for, the smallest first; empty if there are too many.

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
        """The joint game of all requirements."""
        return Game(
            tuple(requirement.repeated or () for requirement in self.requirements),
            tuple(self.combinations_in(assignment) for assignment in self.assignments),
            self.moves,
        )


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield all subsets of some names, the empty one included."""
    return chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))


@dataclass(frozen=True)
class SpecificationFeasibility:
    """Whether one specification can be kept, together with all others.

    Attributes:
        name: of the specification.
        condition, groups, values: what it is about; of paired groups all combinations.
        repeated: the deadlines; None: eventual only, which any sequence can still fulfil.
        verdict: ``feasible``: no deadline need ever be missed; ``infeasible``: some must be; ``undecided``: the game is
            too large to be solved.
        method: how that was found; None without deadlines.
        states: of the game that was solved; 0 for ``hall``.
        minimal: least states from which it can be kept, where the game was solved.
        faults: values whose deadlines cannot be kept together, or of which it is undecided.
    """

    name: str
    condition: str
    groups: tuple[str, ...]
    values: tuple[str, ...]
    repeated: tuple[int, ...] | None
    verdict: FeasibilityVerdict
    method: SolutionMethod | None
    states: int
    minimal: int
    faults: tuple[str, ...]

    @property
    def feasible(self) -> bool:
        """Whether it is known that no deadline need ever be missed."""
        return self.verdict == "feasible"


@dataclass(frozen=True)
class Feasibility:
    """Whether a configuration can be kept.

    Attributes:
        verdict: whether everything can be kept together, with the slack that is asked for; ``infeasible`` if anything
            is, and ``undecided`` if only that stands in the way.
        reason: why not, why it is not known, or how it is.
        hint: what would help.
        specifications: one by one.
    """

    verdict: FeasibilityVerdict
    reason: str
    hint: str | None
    specifications: tuple[SpecificationFeasibility, ...]

    @property
    def feasible(self) -> bool:
        """Whether it is known that everything can be kept."""
        return self.verdict == "feasible"

    @property
    def refusal(self) -> str:
        """Why it is not enforced, in words."""
        undecided = self.verdict == "undecided"
        return f"{'it is not known whether this can be kept' if undecided else 'this cannot be kept'}: {self.reason}"

    def to_dict(self) -> dict[str, object]:
        """Return it as plain JSON values."""
        several = [{"feasible": one.feasible, **asdict(one)} for one in self.specifications]
        return {"kind": "genai-check", "feasible": self.feasible, **asdict(self), "specifications": several}


@dataclass(frozen=True)
class _Obstacle:
    """What stands in the way of keeping a configuration."""

    verdict: FeasibilityVerdict
    reason: str
    hint: str


@lru_cache(maxsize=64)
def solve_cached(game: Game) -> WinningRegion:
    """``solve_game``, remembered: the same games come up when a configuration is checked and when it is kept."""
    return solve_game(game)


def find_components(configuration: GenerationConfig) -> tuple[RequirementComponent, ...]:
    """Return the requirements with deadlines, those together that share concept groups."""
    parts: list[tuple[set[str], list[Requirement]]] = []
    # Invariant: no two parts share a concept group. A requirement joins all parts that share one with it.
    for requirement in configuration.requirements:
        if requirement.repeated is None:
            continue
        groups, members = set(requirement.groups), [requirement]
        apart = []
        for others, theirs in parts:
            if others & groups:
                groups |= others
                members = theirs + members
            else:
                apart.append((others, theirs))
        parts = [*apart, (groups, members)]
    order = {requirement.name: i for i, requirement in enumerate(configuration.requirements)}
    found = []
    for groups, members in parts:
        named = tuple(group for group in configuration.values if group in groups)
        found.append(
            RequirementComponent(
                tuple(sorted(members, key=lambda one: order[one.name])),
                named,
                tuple(configuration.values[group] for group in named),
            )
        )
    return tuple(found)


def check_feasibility(configuration: GenerationConfig, *, slack: int | None = None) -> Feasibility:
    """Return whether a configuration can be kept: every specification alone, all together, and with slack.

    Args:
        configuration: conditions and specifications.
        slack: items of no use that must be borne; by default as in the configuration's ``simulation``.
    """
    spare = configuration.simulation.slack if slack is None else slack
    standings: dict[str, SpecificationFeasibility] = {}
    obstacles: list[_Obstacle] = []
    for component in find_components(configuration):
        alone = [(one, _judge_alone(one)) for one in component.requirements]
        for requirement, (standing, obstacle) in alone:
            standings[requirement.name] = standing
            obstacles += [obstacle] if obstacle is not None else []
        if not all(standing.feasible for _, (standing, _) in alone):
            continue
        together = solve_cached(component.game)
        if not together.feasible:
            obstacles.append(_explain_jointly(component, together))
        elif spare:
            later = solve_cached(component.game.shift_deadlines(spare))
            obstacles += [] if later.feasible else [_explain_slack(component, later, spare)]
        if not together.feasible or len(component.requirements) > 1:
            for requirement in component.requirements:
                faults = () if together.feasible else requirement.labels
                standings[requirement.name] = _specification_feasibility(requirement, together, faults)
    for requirement in configuration.requirements:
        if requirement.repeated is None:
            standings[requirement.name] = _specification_feasibility(requirement, None, ())
    several = tuple(standings[requirement.name] for requirement in configuration.requirements)
    if not obstacles:
        return Feasibility(
            "feasible", "every deadline can be kept for ever, whatever the generator shows", None, several
        )
    # What cannot be kept comes first: it stays so, whatever the undecided part turns out to be.
    ordered = sorted(obstacles, key=lambda one: one.verdict == "undecided")
    return Feasibility(ordered[0].verdict, "; ".join(one.reason for one in ordered), ordered[0].hint, several)


def _region_verdict(region: WinningRegion) -> FeasibilityVerdict:
    return "feasible" if region.feasible else "infeasible" if region.decided else "undecided"


def _judge_alone(requirement: Requirement) -> tuple[SpecificationFeasibility, _Obstacle | None]:
    """Return whether one specification can be kept by itself, and what stands in the way."""
    deadlines = requirement.repeated or ()
    region = solve_cached(Game.single(deadlines))
    if region.feasible:
        return _specification_feasibility(requirement, region, ()), None
    faults = find_culprits(deadlines)
    smallest = solve_cached(Game.single([deadlines[k] for k in faults]))
    if region.decided and not smallest.decided:
        faults, smallest = tuple(range(len(deadlines))), region
    standing = _specification_feasibility(requirement, smallest, tuple(requirement.labels[k] for k in faults))
    about = ", ".join(f"{requirement.labels[k]} within {deadlines[k]}" for k in faults)
    if smallest.decided:
        hint = f"deadlines of {len(deadlines)} or more for every value can always be kept"
        return standing, _Obstacle(
            "infeasible", f"{requirement.name}: no order of items shows {about}, again and again", hint
        )
    return standing, _Obstacle(
        "undecided",
        f"{requirement.name}: whether {about} can be kept is not known: more than {MAX_GAME_STATES:,} states",
        _raise_deadlines([requirement], len(deadlines)),
    )


def _specification_feasibility(
    requirement: Requirement, region: WinningRegion | None, faults: tuple[str, ...]
) -> SpecificationFeasibility:
    return SpecificationFeasibility(
        name=requirement.name,
        condition=requirement.condition,
        groups=requirement.groups,
        values=requirement.labels,
        repeated=requirement.repeated,
        verdict="feasible" if region is None else _region_verdict(region),
        method=None if region is None else region.method,
        states=0 if region is None else region.states,
        minimal=0 if region is None or not region.feasible else len(region.minimal()),
        faults=faults,
    )


def _explain_jointly(component: RequirementComponent, region: WinningRegion) -> _Obstacle:
    names = " and ".join(requirement.name for requirement in component.requirements)
    enough = component.game.enough
    if region.decided:
        return _Obstacle(
            "infeasible",
            f"{names} cannot be kept together: each can alone, but an item shows only one value of each group",
            f"deadlines of {enough} or more for every value can always be kept together",
        )
    return _Obstacle(
        "undecided",
        f"whether {names} can be kept together is not known: each can alone, and the game that they make together "
        "is too large to be solved",
        _raise_deadlines(component.requirements, enough),
    )


def _explain_slack(component: RequirementComponent, region: WinningRegion, spare: int) -> _Obstacle:
    names = " and ".join(requirement.name for requirement in component.requirements)
    said = "those cannot be kept" if region.decided else "whether those can be kept is not known: the game is too large"
    return _Obstacle(
        _region_verdict(region),
        f"{names}: with a slack of {spare}, deadlines are {spare} earlier, and {said}",
        f"less slack, or deadlines of {component.game.enough + spare} or more",
    )


def _raise_deadlines(requirements: Sequence[Requirement], enough: int) -> str:
    """Return the hint with deadlines that are known to be enough, the short ones raised and the others as they are."""
    raised = [
        f"{one.name}: repeated: [{', '.join(str(max(d, enough)) for d in one.repeated or ())}]" for one in requirements
    ]
    return (
        f"deadlines of {enough} or more can always be kept, so these can: {'; '.join(raised)}; or name fewer values, "
        "which makes the game smaller"
    )
