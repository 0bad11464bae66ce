"""One move of the enforcer on requirements that share concept groups: what may be shown now, and what will do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from evenhand.genai.deadlines import OPEN, VOID, Deadlines
from evenhand.genai.feasibility import Component, solved

LOST = -1
"""The level of a state from which some deadline will be missed whatever is done."""


@dataclass(frozen=True)
class Choice:
    """What an item must show.

    Attributes:
        promises: for every requirement what its item will show; ``OPEN`` where that is left open.
        asked: for every concept group concerned the value chosen.
        allowed: for every concept group concerned the values there were to choose from.
    """

    promises: tuple[int, ...]
    asked: Mapping[str, str]
    allowed: Mapping[str, tuple[str, ...]]


class Play:
    """The state of one component, seen as the game.

    A state has level s if its deadlines could all be kept s items early; the slack is the highest level looked at.

    Args:
        component: requirements that share concept groups.
        deadlines: of each of them; read here, changed elsewhere.
        slack: items of no use that must be borne.
        random: for choices among equals.
    """

    def __init__(self, component: Component, deadlines: Sequence[Deadlines], slack: int, random: Random) -> None:
        self._component = component
        self._deadlines = tuple(deadlines)
        self._slack = slack
        self._random = random
        self._regions = [solved(component.game.shortened(by)) for by in range(slack + 1)]
        self._conditions = tuple(one.condition for one in component.requirements)
        self._everybody = tuple(range(len(deadlines)))
        self._single = len(component.groups) == 1
        self._one = len(deadlines) == 1
        self._hall = self._one and self._single and self._regions[slack].method == "hall"
        self._starts = component.game.starts

    def concerned(self, conditions: Collection[str], fixed: Collection[str]) -> tuple[int, ...]:
        """The requirements that an item counts for."""
        if self._one:
            found = self._everybody if self._conditions[0] in conditions else ()
        else:
            found = tuple(i for i in self._everybody if self._conditions[i] in conditions)
        if found and fixed:
            requirements = self._component.requirements
            found = tuple(i for i in found if not any(group in fixed for group in requirements[i].groups))
        return found

    def position(self, i: int, shown: Mapping[str, int | None]) -> int:
        """What an item shows for one requirement, or ``VOID``."""
        requirement = self._component.requirements[i]
        place = 0
        for group, values in zip(requirement.groups, requirement.values, strict=True):
            value = shown[group]
            if value is None:
                return VOID
            place = place * len(values) + value
        return place

    def level(self, left: Sequence[int]) -> int:
        """How many useless items a state bears, up to the slack; ``LOST`` if none."""
        for by in range(self._slack, -1, -1):
            if self._regions[by].holds([d - by for d in left] if by else left):
                return by
        return LOST

    def choose(
        self, mine: tuple[int, ...], *, prefer: Mapping[str, Sequence[str]] | None, any_will_do: bool
    ) -> Choice | None:
        """What the next item must show; None: whatever it shows, all deadlines can still be kept.

        Args:
            mine: requirements that it counts for.
            prefer: for a concept group the values that are liked best, best first.
            any_will_do: its value is known before anything else happens, so that all values being allowed asks nothing.
        """
        if self._hall:
            return self._choose_hall(prefer, any_will_do)
        left = self._left(mine, None)
        if self._regions[self._slack].holds([d - self._slack for d in left]):
            return None
        return self._choose_single(mine, prefer, any_will_do) if self._single else self._choose_several(mine)

    def _choose_hall(self, prefer: Mapping[str, Sequence[str]] | None, any_will_do: bool) -> Choice | None:
        track = self._deadlines[0]
        start = track.items + self._slack
        due = track.due
        ordered = sorted(due)
        place = start
        for d in ordered:
            place += 1
            if d <= place:
                break
        else:
            return None
        if ordered[place - start - 1] == place and (place == start + 1 or self._safe(ordered, start)):
            values = [k for k, d in enumerate(due) if d <= place]
            if any_will_do and len(values) == len(due) and self._safe(ordered, start):
                return None
        else:
            # Already too late for the slack: the earliest deadline wins back most.
            values = [k for k, d in enumerate(due) if d == ordered[0]]
        return self._of_values((0,), values, prefer)

    def _safe(self, ordered: Sequence[int], start: int) -> bool:
        return all(d >= start + i for i, d in enumerate(ordered, start=1))

    def _choose_single(
        self, mine: tuple[int, ...], prefer: Mapping[str, Sequence[str]] | None, any_will_do: bool
    ) -> Choice | None:
        n = len(self._component.values[0])
        levels = [self.level(self._left(mine, [k] * len(mine))) for k in range(n)]
        best = max(levels)
        values = [k for k in range(n) if levels[k] == best]
        if best < self._slack:
            earliest = min(self._urgency(mine, k) for k in values)
            values = [k for k in values if self._urgency(mine, k) == earliest]
        elif any_will_do and len(values) == n:
            return None
        return self._of_values(mine, values, prefer)

    def _urgency(self, mine: tuple[int, ...], k: int) -> int:
        """How many items are left until a value must have appeared."""
        return min(self._deadlines[i].due[k] - self._deadlines[i].items for i in mine)

    def _of_values(
        self, mine: tuple[int, ...], values: list[int], prefer: Mapping[str, Sequence[str]] | None
    ) -> Choice:
        group, names = self._component.groups[0], self._component.values[0]
        liked = None
        if prefer is not None:
            liked = next((k for name in prefer.get(group, ()) for k in values if names[k] == name), None)
        if liked is None and len(values) == 1:
            liked = values[0]
        if liked is None:
            due = self._deadlines[0].due
            urgent = [due[k] for k in values] if self._one else [self._urgency(mine, k) for k in values]
            first = min(urgent)
            equal = [k for k, one in zip(values, urgent, strict=True) if one == first]
            liked = equal[0] if len(equal) == 1 else equal[int(self._random.random() * len(equal))]
        promises = (liked,) if self._one else tuple(liked if i in mine else OPEN for i in self._everybody)
        return Choice(promises, {group: names[liked]}, {group: tuple([names[k] for k in values])})

    def _choose_several(self, mine: tuple[int, ...]) -> Choice:
        """Values of several groups at once: the earliest deadlines that fit together, as few as are enough."""
        game = self._component.game
        pairs = sorted(
            (self._deadlines[i].due[k] - self._deadlines[i].items, self._random.random(), i, k)
            for i in mine
            for k in range(len(game.deadlines[i]))
        )
        fixed: dict[str, int] = {}
        for _, _, i, k in pairs:
            requirement = self._component.requirements[i]
            wanted = dict(zip(requirement.groups, requirement.combinations[k], strict=True))
            if any(fixed.get(group, value) != value for group, value in wanted.items()):
                continue
            fixed |= wanted
            if self._known_level(mine, fixed) >= self._slack:
                return self._of_groups(mine, fixed)
        # Serving the earliest is always enough by Hall's condition; exact regions may want another.
        best, found = self._known_level(mine, fixed), fixed
        for assignment in self._component.assignments:
            tried = dict(zip(self._component.groups, assignment, strict=True))
            level = self._known_level(mine, tried)
            if level > best:
                best, found = level, tried
        return self._of_groups(mine, found)

    def _known_level(self, mine: tuple[int, ...], fixed: Mapping[str, int]) -> int:
        return self.level(self._left(mine, self._kinds(mine, fixed)))

    def _kinds(self, mine: tuple[int, ...], fixed: Mapping[str, int]) -> list[int]:
        shown: dict[str, int | None] = dict.fromkeys(self._component.groups)
        shown.update(fixed)
        return [self.position(i, shown) for i in mine]

    def _of_groups(self, mine: tuple[int, ...], fixed: Mapping[str, int]) -> Choice:
        values = dict(zip(self._component.groups, self._component.values, strict=True))
        kinds = dict(zip(mine, self._kinds(mine, fixed), strict=True))
        asked = {group: values[group][k] for group, k in fixed.items()}
        promises = tuple(kinds[i] if kinds.get(i, VOID) != VOID else OPEN for i in self._everybody)
        return Choice(promises, asked, {group: (value,) for group, value in asked.items()})

    def _left(self, mine: tuple[int, ...], kinds: Sequence[int] | None) -> list[int]:
        """The state after one more item that counts for ``mine``; it shows ``kinds``, or nothing."""
        found: list[int] = []
        for i, track in enumerate(self._deadlines):
            items = track.items
            if i not in mine:
                found.extend(d - items for d in track.due)
                continue
            found.extend(d - items - 1 for d in track.due)
            kind = VOID if kinds is None else kinds[mine.index(i)]
            if kind >= 0:
                found[self._starts[i] + kind] = track.repeated[kind]
        return found

    def accepts(self, mine: tuple[int, ...], kinds: Sequence[int]) -> bool:
        """Whether an item that is known now, after everything else, may count: nothing better could be had."""
        level = self.level(self._left(mine, kinds))
        if level >= self._slack:
            return True
        choice = self.choose(mine, prefer=None, any_will_do=True)
        if choice is None:
            return True
        promised = [choice.promises[i] for i in mine]
        best = self.level(self._left(mine, promised))
        return level >= best and (level > LOST or list(kinds) == promised)

    def bears(self, mine: tuple[int, ...], slots: Sequence[int], promised: Sequence[int], kinds: Sequence[int]) -> bool:
        """Whether an item under way may show this instead of what was promised (``VOID``: it counts for nothing)."""
        if all(promise in (OPEN, kind) for promise, kind in zip(promised, kinds, strict=True)):
            return True
        level = self._level_if(mine, slots, kinds)
        return level >= self._slack or LOST < level >= self._level_if(mine, slots, promised)

    def _level_if(self, mine: tuple[int, ...], slots: Sequence[int], kinds: Sequence[int]) -> int:
        """The level, if slots under way showed this; appearances before the last ones must be in time too."""
        left: list[int] = []
        spare = self._slack
        at = dict(zip(mine, zip(slots, kinds, strict=True), strict=True))
        for i, track in enumerate(self._deadlines):
            if i in at:
                due, items, between = track.if_shown(*at[i])
                spare = min(spare, between)
            else:
                due, items = track.due, track.items
            left.extend(d - items for d in due)
        return LOST if spare < 0 else min(spare, self.level(left))
