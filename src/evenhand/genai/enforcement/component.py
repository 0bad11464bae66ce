"""Deadlines and moves for requirements that share concept groups.

Slots are numbered when requests are admitted. Up to the first slot whose item is pending, only one number per value is
stored. The following slots form a short list, the window. Each of its slots is open, promised, shown or void. An open
slot counts as showing nothing, a promised slot as showing the promised value, and a void slot does not count."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from sys import maxsize
from typing import Any

from evenhand.core.text import format_count
from evenhand.errors import DecisionError
from evenhand.genai.games.feasibility import RequirementComponent, solve_cached
from evenhand.genai.spec.specification import Requirement

OPEN_SLOT = -1
"""Slot whose item is pending and may show any value."""

VOID_ITEM = -2
"""Slot that does not count: no value was recognised, or there is no item."""

REMEMBERED_REASONS = 20
"""Number of broken assumptions per specification whose reasons are stored. All are counted."""

BROKEN_TEXTS = {
    "disobeyed": ("item", "items", "not showing the required values, after all retries"),
    "unrecognised": ("item", "items", "not recognisable where values were required, after all retries"),
    "failed": ("item", "items", "not made where values were required, after all retries"),
    "in-flight": ("request", "requests", "admitted before the previous one was complete, contrary to the settings"),
    "missed": ("deadline", "deadlines", "missed"),
}
"""Singular, plural and description of each kind of broken assumption."""


class SpecificationState:
    """State of one specification: its deadlines, its counts, and the latest broken assumptions.

    Args:
        requirement: Requirement of the specification.

    Attributes:
        items: Number of admitted items that are not void.
        due: Number of the item by which each value must have appeared.
        counts: Number of instructions, of obeyed instructions, and of broken assumptions by kind.
        reasons: Kinds and reasons of the latest broken assumptions.
    """

    def __init__(self, requirement: Requirement) -> None:
        self.name, self.labels = requirement.name, requirement.labels
        self.repeated = requirement.repeated or ()
        self.counts = dict.fromkeys(("asked", "obeyed", *BROKEN_TEXTS), 0)
        self.reasons: list[tuple[str, str]] = []
        self.items = 0
        self.due = list(self.repeated)
        self._settled = 0
        self._behind = 0
        self._last = [0] * len(self.repeated)
        # A slot is open, void, promised (a value) or shown (a value + n).
        self._window: list[int] = []

    @property
    def pending_slots(self) -> int:
        """Number of slots whose items are pending."""
        n = len(self.repeated)
        return sum(OPEN_SLOT <= kind < n for kind in self._window)

    def admit(self, promise: int = OPEN_SLOT) -> int:
        """Admit an item with a promised value, and return the number of its slot, from 1."""
        self._window.append(promise)
        self.items += 1
        if promise != OPEN_SLOT:
            self.due[promise] = self.items + self.repeated[promise]
        return self._settled + len(self._window)

    def promised_value(self, slot: int) -> int:
        """Return the promised value of a slot, or ``OPEN_SLOT``. Raises a DecisionError if the slot is not pending."""
        at = slot - self._settled - 1
        if not 0 <= at < len(self._window) or not OPEN_SLOT <= self._window[at] < len(self.repeated):
            raise DecisionError(
                f"slot {slot} is not pending", code="unknown-id", hint="complete every admitted item once"
            )
        return self._window[at]

    def due_if_shown(self, slot: int, kind: int) -> tuple[list[int], int, int]:
        """Compute ``due``, ``items`` and the margin if a pending slot showed a value, or were void.

        The margin is the minimum number of spare items between two appearances of a value in the window. It is negative
        if an appearance would be too late.
        """
        window = self._window.copy()
        window[slot - self._settled - 1] = kind
        return self._due_after(window)

    def complete(self, slot: int, value: int, attempt: int = 0, *, blamed: bool = False, failed: bool = False) -> None:
        """Record the item of a slot, whether it kept its promise, and the deadlines that it causes to be missed.

        Args:
            slot: Number of the slot.
            value: Value of the item, or ``VOID_ITEM``.
            attempt: Number of earlier attempts.
            blamed: Whether the item causes a missed deadline.
            failed: Whether there is no item.
        """
        promised = self.promised_value(slot)
        if promised != OPEN_SLOT and not blamed:
            self.counts["obeyed"] += value != VOID_ITEM
        elif promised not in (OPEN_SLOT, value):
            broken = "failed" if failed else "unrecognised" if value == VOID_ITEM else "disobeyed"
            text = "no item" if failed else "nothing recognisable" if value == VOID_ITEM else repr(self.labels[value])
            attempts = format_count(attempt + 1, "attempt", "attempts")
            self.record_break(broken, f"slot {slot} did not show {self.labels[promised]!r} in {attempts}, but {text}")
        at, n = slot - self._settled - 1, len(self.repeated)
        self._window[at] = value if value == VOID_ITEM else value + n
        if promised == OPEN_SLOT and value != VOID_ITEM:
            # No other item is moved, and this is the earliest appearance of the value.
            item = self._behind + at + 1 - self._window[:at].count(VOID_ITEM)
            self.due[value] = max(self.due[value], item + self.repeated[value])
        elif value != promised:
            self.due, self.items, _ = self._due_after(self._window)
        # Slots before the first pending slot are settled.
        settled = next((i for i, kind in enumerate(self._window) if OPEN_SLOT <= kind < n), len(self._window))
        for kind in self._window[:settled]:
            if kind == VOID_ITEM:
                continue
            self._behind += 1
            self._last[kind - n] = self._behind
            for k, within in enumerate(self.repeated):
                # An absent value misses a deadline every `within` items.
                if (absence := self._behind - self._last[k]) and absence % within == 0:
                    since = f", and was due by item {self.due[k]}" if self.due[k] < self._behind else ""
                    self.record_break("missed", f"{self.labels[k]!r} did not appear by item {self._behind}{since}")
        del self._window[:settled]
        self._settled += settled

    def record_break(self, kind: str, reason: str) -> None:
        """Count a broken assumption."""
        self.counts[kind] += 1
        self.reasons = [*self.reasons[1 - REMEMBERED_REASONS :], (kind, reason)]

    def _due_after(self, window: Sequence[int]) -> tuple[list[int], int, int]:
        # A value is due ``repeated`` items after its last appearance. ``spare`` is the minimum number of items by which
        # the appearances in the window preceded their deadlines.
        n = len(self.repeated)
        appearances = self._last[:]
        item, margin = self._behind, max(self.repeated)
        for kind in window:
            if kind == VOID_ITEM:
                continue
            item += 1
            if kind >= 0:
                k = kind if kind < n else kind - n
                margin = min(margin, appearances[k] + self.repeated[k] - item)
                appearances[k] = item
        return [seen + within for seen, within in zip(appearances, self.repeated, strict=True)], item, margin

    def overdue(self) -> dict[str, int]:
        """Return the item by which each overdue value was due."""
        return {label: item for label, item in zip(self.labels, self.due, strict=False) if item <= self._behind}

    def state(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        return {
            "settled": self._settled,
            "items": self._behind,
            "last": list(self._last),
            "window": list(self._window),
            "counts": dict(self.counts),
            "reasons": [list(reason) for reason in self.reasons],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state. Raises a DecisionError if it is not a state of this specification."""
        n = len(self.repeated)
        try:
            settled, behind = int(state["settled"]), int(state["items"])
            appearances, window = ([int(number) for number in state[name]] for name in ("last", "window"))
            counts = {what: int(state["counts"][what]) for what in self.counts}
            reasons = [(str(what), str(reason)) for what, reason in state["reasons"]]
        except (KeyError, TypeError, ValueError):
            raise DecisionError("expected the state of a specification", code="state", location=self.name) from None
        fits = (
            len(appearances) == n
            and all(0 <= item <= behind for item in appearances)
            and 0 <= behind <= settled
            and all(VOID_ITEM <= kind < 2 * n for kind in window)
        )
        if not fits:
            raise DecisionError("this state belongs to a different specification", code="state")
        self.counts, self.reasons = counts, reasons
        self._settled, self._behind, self._last, self._window = settled, behind, appearances, window
        self.due, self.items, _ = self._due_after(self._window)


# Moves of the enforcer: values that the next item may show.


LOST_LEVEL = -1
"""Level of a state from which a deadline cannot be kept."""


@dataclass(frozen=True)
class ItemChoice:
    """Values that an item must show.

    Attributes:
        promises: Promised value of each requirement. ``OPEN_SLOT`` if it is left open.
        values_to_ask: Chosen value of each concept group concerned.
        allowed: Values to choose from, by concept group concerned.
    """

    promises: tuple[int, ...]
    values_to_ask: Mapping[str, str]
    allowed: Mapping[str, tuple[str, ...]]


class ComponentSolver:
    """Solver of the game of one component.

    A state has level s if all its deadlines can be kept s items early. The slack is the highest level computed.

    Args:
        component: Requirements that share concept groups.
        slack: Number of useless items to be tolerated.
        random: Random numbers for choices among equally urgent values.

    Attributes:
        rows: State of each specification.
    """

    def __init__(self, component: RequirementComponent, slack: int, random: Random) -> None:
        self._component = component
        self.rows = tuple(map(SpecificationState, component.requirements))
        self._slack = slack
        self._random = random
        self._regions = [solve_cached(component.game.shift_deadlines(by)) for by in range(slack + 1)]
        self._all = tuple(range(len(self.rows)))
        self._single = len(component.groups) == 1
        self._starts = component.game.starts

    def requirements_for(self, conditions: Collection[str], fixed: Collection[str]) -> tuple[int, ...]:
        """Select the requirements for which an item counts."""
        return tuple(
            [
                i
                for i, requirement in enumerate(self._component.requirements)
                if requirement.condition in conditions
                and not (fixed and any(group in fixed for group in requirement.groups))
            ]
        )

    def positions(self, mine: tuple[int, ...], item: Mapping[str, str | None]) -> list[int]:
        """Compute the position of the value of an item in requirements. ``VOID_ITEM`` if it is unknown."""
        requirements = self._component.requirements
        return [VOID_ITEM if (k := requirements[i].position(item)) is None else k for i in mine]

    def level(self, left: Sequence[int]) -> int:
        """Compute the number of useless items that a state tolerates, up to the slack. ``LOST_LEVEL`` if it is lost."""
        for by in range(self._slack, -1, -1):
            if self._regions[by].holds([d - by for d in left] if by else left):
                return by
        return LOST_LEVEL

    def choose(self, mine: tuple[int, ...], *, any_will_do: bool) -> ItemChoice | None:
        """Choose the values that the next item must show. None if any value keeps all deadlines.

        If the item is known before the next admission, any allowed value suffices (``any_will_do``).
        """
        left = self._slots_left(mine, None)
        if self.level(left) == self._slack:
            return None
        return self._choose_single(mine, left, any_will_do) if self._single else self._choose_several(mine)

    def _choose_single(self, mine: tuple[int, ...], left: list[int], any_will_do: bool) -> ItemChoice | None:
        """Choose among the values of the only group, given the state after an item that shows nothing."""
        group, names = self._component.groups[0], self._component.values[0]
        # Each value by its level and its urgency, the negative number of items until its deadline.
        moves: list[tuple[int, int]] = []
        for k in range(len(names)):
            state, urgency = left.copy(), -maxsize
            for i in mine:
                row = self.rows[i]
                state[self._starts[i] + k] = row.repeated[k]
                urgency = max(urgency, row.items - row.due[k])
            moves.append((self.level(state), urgency))
        level, urgency = max(moves)
        values = [k for k, move in enumerate(moves) if move[0] == level]
        if level == self._slack and any_will_do and len(values) == len(moves):
            return None
        urgent = [k for k in values if moves[k][1] == urgency]
        choice = urgent[0] if len(urgent) == 1 else urgent[int(self._random.random() * len(urgent))]
        if level < self._slack:
            # The slack is already used, and the earliest deadline restores most of it.
            values = urgent
        promises = tuple([choice if i in mine else OPEN_SLOT for i in self._all])
        return ItemChoice(promises, {group: names[choice]}, {group: tuple([names[k] for k in values])})

    def _choose_several(self, mine: tuple[int, ...]) -> ItemChoice:
        """Choose values of several groups: the earliest compatible deadlines, as few as necessary."""
        game = self._component.game
        pairs = sorted(
            (self.rows[i].due[k] - self.rows[i].items, self._random.random(), i, k)
            for i in mine
            for k in range(len(game.deadlines[i]))
        )
        fixed: dict[str, str] = {}
        for _, _, i, k in pairs:
            requirement = self._component.requirements[i]
            combination = dict(zip(requirement.groups, requirement.combinations[k], strict=True))
            if any(fixed.get(group, value) != value for group, value in combination.items()):
                continue
            fixed |= combination
            if self._known_level(mine, fixed) >= self._slack:
                return self._choice_for_groups(mine, fixed)
        # By Hall's condition the earliest deadlines suffice. Exact regions may require other values.
        best, values = self._known_level(mine, fixed), dict(fixed)
        for candidate in self._component.assignments:
            level = self._known_level(mine, candidate)
            if level > best:
                best, values = level, dict(candidate)
        return self._choice_for_groups(mine, values)

    def _known_level(self, mine: tuple[int, ...], item: Mapping[str, str]) -> int:
        return self.level(self._slots_left(mine, self.positions(mine, item)))

    def _choice_for_groups(self, mine: tuple[int, ...], item: Mapping[str, str]) -> ItemChoice:
        kinds = dict(zip(mine, self.positions(mine, item), strict=True))
        promises = tuple(kinds[i] if kinds.get(i, VOID_ITEM) != VOID_ITEM else OPEN_SLOT for i in self._all)
        return ItemChoice(promises, item, {group: (value,) for group, value in item.items()})

    def _slots_left(self, mine: tuple[int, ...], kinds: Sequence[int] | None) -> list[int]:
        """Compute the state after another item, which counts for ``mine`` and shows ``kinds``, or nothing."""
        # An item that counts reduces the time left for each value by one item. A value that is shown regains its full
        # time.
        left: list[int] = []
        for i, track in enumerate(self.rows):
            items = track.items
            if i not in mine:
                left.extend([d - items for d in track.due])
                continue
            left.extend([d - items - 1 for d in track.due])
            kind = VOID_ITEM if kinds is None else kinds[mine.index(i)]
            if kind >= 0:
                left[self._starts[i] + kind] = track.repeated[kind]
        return left

    def may_count(self, mine: tuple[int, ...], kinds: Sequence[int]) -> bool:
        """Check whether a known item may count because no other item would be better."""
        level = self.level(self._slots_left(mine, kinds))
        if level >= self._slack:
            return True
        choice = self.choose(mine, any_will_do=True)
        if choice is None:
            return True
        promised = [choice.promises[i] for i in mine]
        best = self.level(self._slots_left(mine, promised))
        return level >= best and (level > LOST_LEVEL or list(kinds) == promised)

    def may_replace(self, mine: tuple[int, ...], slots: Sequence[int], kinds: Sequence[int]) -> bool:
        """Check whether a pending item may show ``kinds`` instead of its promise. ``VOID_ITEM``: it is void."""
        promised = [self.rows[i].promised_value(slot) for i, slot in zip(mine, slots, strict=True)]
        if all(promise in (OPEN_SLOT, kind) for promise, kind in zip(promised, kinds, strict=True)):
            return True
        return LOST_LEVEL < self._level_if(mine, slots, kinds) >= self._level_if(mine, slots, promised)

    def _level_if(self, mine: tuple[int, ...], slots: Sequence[int], kinds: Sequence[int]) -> int:
        """Compute the level if pending slots showed ``kinds``, at most the margins of earlier appearances."""
        left: list[int] = []
        margin = self._slack
        at = dict(zip(mine, zip(slots, kinds, strict=True), strict=True))
        for i, track in enumerate(self.rows):
            if i in at:
                deadlines, items, between = track.due_if_shown(*at[i])
                margin = min(margin, between)
            else:
                deadlines, items = track.due, track.items
            left.extend(d - items for d in deadlines)
        return min(margin, self.level(left))
