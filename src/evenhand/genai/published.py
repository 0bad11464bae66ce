"""The published rule that counts down to deadlines, as a baseline to compare with.

It is Algorithm 1 of "Conditional Fairness for Generative AIs" (Cheng et al.): every value has a counter that starts at
its deadline, goes down with every item, and starts again when the value appears. When k values have counters of exactly
k, a random one of them is asked for. That keeps equal deadlines, one item at a time; others can be missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


class PublishedRule:
    """The counters of one specification.

    Args:
        repeated: the deadline of every value.
        seed: of the random choice.
    """

    def __init__(self, repeated: Sequence[int], *, seed: int = 0) -> None:
        self._repeated = tuple(repeated)
        self._random = Random(seed)
        self.counters = list(self._repeated)

    def asks(self) -> int | None:
        """The value that the next item is asked to show; None: its prompt is left alone."""
        for k in range(len(self.counters), 0, -1):
            due = [value for value, counter in enumerate(self.counters) if counter == k]
            if len(due) >= k:
                return self._random.choice(due)
        return None

    def shown(self, value: int | None) -> None:
        """An item is known; None: it shows no value, and the counters go down all the same, as published."""
        for k, within in enumerate(self._repeated):
            self.counters[k] = within if k == value else self.counters[k] - 1
