"""The deadlines of one specification, while many items are under way.

Slots are numbered when requests are admitted. Behind the last slot before which everything is known only one number per
value is kept; what lies after it is a short list of slots that are open, promised, shown or void. A slot that is open
counts as showing nothing, a promised one as showing what was promised, and a void one does not count at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenhand.errors import DecisionError

OPEN = -1
"""A slot whose item is under way, and may show anything."""

VOID = -2
"""A slot whose item counts for nothing: no value was recognised, or there is no item."""


class Deadlines:
    """How long ago every value was seen, and by when it must be seen again.

    Args:
        repeated: within how many items every value must appear.

    Attributes:
        items: admitted, without those that are void.
        due: for every value the number of the item by which it must have appeared.
    """

    def __init__(self, repeated: Sequence[int]) -> None:
        self.repeated = tuple(repeated)
        n = len(self.repeated)
        self.items = 0
        self.due = list(self.repeated)
        self._settled = 0
        self._behind = 0
        self._last = [0] * n
        self._late = [False] * n
        # A slot is open, void, promised (a value) or shown (a value + n).
        self._window: list[int] = []

    @property
    def slots(self) -> int:
        """Slots admitted."""
        return self._settled + len(self._window)

    @property
    def pending(self) -> int:
        """Slots whose items are under way."""
        n = len(self.repeated)
        return sum(OPEN <= kind < n for kind in self._window)

    def admit(self, promise: int = OPEN) -> int:
        """The number of the next slot, from 1; ``promise`` is the value that its item is asked to show."""
        self._window.append(promise)
        self.items += 1
        if promise != OPEN:
            self.due[promise] = self.items + self.repeated[promise]
        return self.slots

    def promise(self, slot: int) -> int:
        """What was promised for a slot that is under way: a value, or ``OPEN``.

        Raises:
            DecisionError: the slot is not under way.
        """
        at = slot - self._settled - 1
        if not 0 <= at < len(self._window) or not OPEN <= self._window[at] < len(self.repeated):
            raise DecisionError(
                f"slot {slot} is not under way", code="unknown-id", mend="complete every admitted item once"
            )
        return self._window[at]

    def if_shown(self, slot: int, kind: int) -> tuple[list[int], int, int]:
        """What would follow if a slot under way showed a value, or were void.

        Returns:
            ``due``, ``items``, and the least number of items to spare between two appearances of a value among the
            slots that are not settled; less than 0 if one of them would come too late.
        """
        at = slot - self._settled - 1
        before = self._window[at]
        self._window[at] = kind
        found = self._reckoned()
        self._window[at] = before
        return found

    def complete(self, slot: int, value: int) -> list[tuple[int, int]]:
        """An item is known: the value that it shows, or ``VOID``.

        Returns:
            deadlines that are now known to be missed: the value, and the item by which it was due.

        Raises:
            DecisionError: the slot is not under way.
        """
        promised = self.promise(slot)
        at = slot - self._settled - 1
        self._window[at] = value if value == VOID else value + len(self.repeated)
        if promised == OPEN and value != VOID:
            # Nothing moves, and the value was seen here at the earliest.
            item = self._behind + at + 1 - self._window[:at].count(VOID)
            self.due[value] = max(self.due[value], item + self.repeated[value])
        elif value != promised:
            self._reckon()
        return self._settle()

    def _reckon(self) -> None:
        self.due, self.items, _ = self._reckoned()

    def _reckoned(self) -> tuple[list[int], int, int]:
        n = len(self.repeated)
        last = self._last[:]
        item, spare = self._behind, max(self.repeated)
        for kind in self._window:
            if kind == VOID:
                continue
            item += 1
            if kind >= 0:
                k = kind if kind < n else kind - n
                spare = min(spare, last[k] + self.repeated[k] - item)
                last[k] = item
        return [seen + within for seen, within in zip(last, self.repeated, strict=True)], item, spare

    def _settle(self) -> list[tuple[int, int]]:
        """Forget the slots before the first that is under way; deadlines that were missed there."""
        n, missed, known = len(self.repeated), [], 0
        for kind in self._window:
            if OPEN <= kind < n:
                break
            known += 1
            if kind == VOID:
                continue
            self._behind += 1
            value = kind - n
            self._last[value] = self._behind
            self._late[value] = False
            for k in range(n):
                if not self._late[k] and self._behind - self._last[k] >= self.repeated[k]:
                    self._late[k] = True
                    missed.append((k, self._last[k] + self.repeated[k]))
        del self._window[:known]
        self._settled += known
        return missed

    def state(self) -> dict[str, Any]:
        """Everything that is known, as JSON can hold it."""
        return {
            "settled": self._settled,
            "items": self._behind,
            "last": list(self._last),
            "late": list(self._late),
            "window": list(self._window),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state`` gave.

        Raises:
            DecisionError: it is no such state, or belongs to another specification.
        """
        n = len(self.repeated)
        try:
            settled, behind = int(state["settled"]), int(state["items"])
            last, late = [int(one) for one in state["last"]], [bool(one) for one in state["late"]]
            window = [int(one) for one in state["window"]]
        except (KeyError, TypeError, ValueError):
            raise DecisionError("this is no state of a specification", code="state") from None
        fits = (
            len(last) == len(late) == n
            and all(0 <= one <= behind for one in last)
            and 0 <= behind <= settled
            and all(VOID <= kind < 2 * n for kind in window)
        )
        if not fits:
            raise DecisionError("this state belongs to another specification", code="state")
        self._settled, self._behind, self._last, self._late, self._window = settled, behind, last, late, window
        self._reckon()
