"""The greedy baseline: looks one decision ahead, knows nothing of the future and promises nothing about it."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand.shield.plan import Counters
from evenhand.shield.properties import Property


@dataclass(frozen=True)
class Greedy:
    """Overrides a decision that would leave the groups unfair now, if the other one leaves a smaller bias.

    It needs no synthesis and no memory, and what an override costs plays no part. Its ends are often fair and never
    guaranteed: the last decisions may come too late to mend anything.

    Attributes:
        property: what is wanted at every time.
        start: counters carried over.
        costs: how many costs there are.
    """

    property: Property
    start: Counters
    costs: int = 1
    form = "greedy"
    parts: tuple[bytes, ...] = ()
    bytes = 0

    def level(self, t: int, n_a: int, a: int, n_b: int, b: int, group: int) -> int:
        """The level in a state: all costs or none."""
        seen_a, past_a, seen_b, past_b = self.start
        counters = [n_a + seen_a, a + past_a, n_b + seen_b, b + past_b]
        counters[2 * group] += 1
        rejected = self.property.bias(*counters)
        counters[2 * group + 1] += 1
        accepted = self.property.bias(*counters)
        worse = max(rejected, accepted)
        if worse <= self.property.kappa or rejected == accepted:
            return 0
        return self.costs if worse == rejected else -self.costs
