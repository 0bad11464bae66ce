"""Whether what a configuration asks for can be kept at all, and which values are at fault if not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import chain, combinations, product
from math import prod

from evenhand.genai.games.game import MAX_GAME_STATES, Game, SolutionMethod, WinningRegion, find_culprits, solve_game
from evenhand.genai.spec.specification import GenerationConfig, Requirement

MAX_ASSIGNMENTS = 4096
"""Combinations of values of all groups that an exact joint game tries, at most."""


@dataclass(frozen=True)
class RequirementComponent:
    """Requirements that share concept groups, directly or through others, and are kept together.

    Attributes:
        requirements: with deadlines; those of other components have no group in common with them.
        groups: all of theirs.
        values: of those groups.
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
    def game(self) -> Game:
        """The game that they make together."""
        several = range(len(self.requirements))
        if len(self.groups) == 1:
            # On one group, what counts is decided by conditions alone.
            names = sorted({requirement.condition for requirement in self.requirements})
            sides = [tuple(i for i in several if self.requirements[i].condition == name) for name in names]
        else:
            sides = [(i,) for i in several]
        moves = chain.from_iterable(combinations(sides, size) for size in range(1, len(sides) + 1))
        return Game(
            tuple(requirement.repeated or () for requirement in self.requirements),
            tuple(self.combinations_in(assignment) for assignment in self.assignments),
            tuple(tuple(sorted(chain.from_iterable(move))) for move in moves) if len(sides) <= 8 else (),
        )


@dataclass(frozen=True)
class SpecificationFeasibility:
    """Whether one specification can be kept, together with all others.

    Attributes:
        name: of the specification.
        condition, groups, values: what it is about; of paired groups all combinations.
        repeated: the deadlines; None: eventual only, which any sequence can still fulfil.
        feasible: whether no deadline need ever be missed.
        method: how that was found; None without deadlines.
        states: of the game that was solved; 0 for ``hall``.
        minimal: least states from which it can be kept, where the game was solved.
        faults: values whose deadlines cannot be kept together.
    """

    name: str
    condition: str
    groups: tuple[str, ...]
    values: tuple[str, ...]
    repeated: tuple[int, ...] | None
    feasible: bool
    method: SolutionMethod | None
    states: int
    minimal: int
    faults: tuple[str, ...]


@dataclass(frozen=True)
class Feasibility:
    """Whether a configuration can be kept.

    Attributes:
        feasible: whether everything can be kept together, with the slack that is asked for.
        reason: why not, or how it is known.
        hint: what would help.
        specifications: one by one.
    """

    feasible: bool
    reason: str
    hint: str | None
    specifications: tuple[SpecificationFeasibility, ...]

    def to_dict(self) -> dict[str, object]:
        """Return it as plain JSON values."""
        return {"kind": "genai-check", **asdict(self)}


@lru_cache(maxsize=64)
def solve_cached(game: Game) -> WinningRegion:
    """``solve_game``, remembered: the same games come up when a configuration is checked and when it is kept."""
    return solve_game(game)


def find_components(configuration: GenerationConfig) -> tuple[RequirementComponent, ...]:
    """Return the requirements with deadlines, those together that share concept groups."""
    parts: list[tuple[set[str], list[Requirement]]] = []
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
    reasons: list[tuple[str, str | None]] = []
    for component in find_components(configuration):
        alone_fails = False
        for requirement in component.requirements:
            at_fault = find_culprits(requirement.repeated or ())
            faults = tuple(requirement.labels[k] for k in at_fault)
            if faults:
                alone_fails = True
                reasons.append(_explain_alone(requirement, at_fault))
            standings[requirement.name] = _specification_feasibility(
                requirement, solve_cached(Game.single(requirement.repeated or ())), faults
            )
        if alone_fails:
            continue
        together = solve_cached(component.game)
        if not together.feasible:
            reasons.append(_explain_jointly(component, together))
        elif spare and not solve_cached(component.game.shift_deadlines(spare)).feasible:
            reasons.append(_explain_slack(component, spare))
        if not together.feasible or len(component.requirements) > 1:
            for requirement in component.requirements:
                faults = () if together.feasible else requirement.labels
                standings[requirement.name] = _specification_feasibility(requirement, together, faults)
    for requirement in configuration.requirements:
        if requirement.repeated is None:
            standings[requirement.name] = _specification_feasibility(requirement, None, ())
    several = tuple(standings[requirement.name] for requirement in configuration.requirements)
    if reasons:
        return Feasibility(False, "; ".join(reason for reason, _ in reasons), reasons[0][1], several)
    return Feasibility(True, "every deadline can be kept for ever, whatever the generator shows", None, several)


def _specification_feasibility(
    requirement: Requirement, region: WinningRegion | None, faults: tuple[str, ...]
) -> SpecificationFeasibility:
    return SpecificationFeasibility(
        name=requirement.name,
        condition=requirement.condition,
        groups=requirement.groups,
        values=requirement.labels,
        repeated=requirement.repeated,
        feasible=not faults,
        method=None if region is None else region.method,
        states=0 if region is None else region.states,
        minimal=0 if region is None or not region.feasible else len(region.minimal()),
        faults=faults,
    )


def _explain_alone(requirement: Requirement, faults: tuple[int, ...]) -> tuple[str, str]:
    deadlines = requirement.repeated or ()
    about = ", ".join(f"{requirement.labels[k]} within {deadlines[k]}" for k in faults)
    decided = solve_cached(Game.single([deadlines[k] for k in faults])).decided
    return (
        f"{requirement.name}: no order of items shows {about}, again and again"
        if decided
        else f"{requirement.name}: whether {about} can be kept is not known: more than {MAX_GAME_STATES:,} states",
        f"deadlines of {len(requirement.labels)} or more for every value can always be kept",
    )


def _explain_jointly(component: RequirementComponent, region: WinningRegion) -> tuple[str, str]:
    names = " and ".join(requirement.name for requirement in component.requirements)
    if region.decided:
        said = f"{names} cannot be kept together: an item shows one value, and may count for any of them"
    else:
        said = f"whether {names} can be kept is not known: the game they make together is too large to be solved"
    return said, f"deadlines of {component.game.enough} or more for every value can always be kept together"


def _explain_slack(component: RequirementComponent, spare: int) -> tuple[str, str]:
    names = " and ".join(requirement.name for requirement in component.requirements)
    return (
        f"{names}: with a slack of {spare}, deadlines are {spare} earlier, and those cannot be kept",
        f"less slack, or deadlines of {component.game.enough + spare} or more",
    )
