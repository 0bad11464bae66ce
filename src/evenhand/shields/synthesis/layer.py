"""Layers of values with labels, and the steps of one group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.shields.spec.ends import BandEnd, EndValues
from evenhand.shields.spec.plan import Inputs
from evenhand.shields.synthesis.kernels import forbid_outside_bands

BLOCK_STATES = 8192
"""Approximate number of rows that are checked at once."""


@dataclass(frozen=True)
class LabelledLayer:
    """States of a layer over two groups, of which only people with label 1 are counted.

    Attributes:
        horizon: The last time.
    """

    horizon: int

    def allocate(self) -> Floats:
        """Allocate the values at the horizon."""
        return np.zeros(comb(self.horizon + 4, 4))

    @cached_property
    def planes(self) -> Integers:
        """Positions of the first values of (n_a, n_b), shape (horizon + 1, horizon + 1)."""
        n = np.arange(self.horizon + 1)
        sizes = np.where(n[:, None] + n <= self.horizon, (n[:, None] + 1) * (n + 1), 0)
        ends = np.cumsum(sizes).reshape(sizes.shape)
        return np.asarray(ends - sizes, dtype=np.int64)

    def check(self, values: Floats, t: int, terminal: EndValues) -> None:
        """Add the values of the check at time t."""
        if isinstance(terminal, BandEnd):
            for n_a, a, n_b in self._rows(t):
                low, high = terminal.band(n_a, a, n_b)
                forbid_outside_bands(values, self.planes[n_a, n_b] + a * (n_b + 1), n_b + 1, low, high)
            return
        for n in range(t + 1):
            for m in range(t - n + 1):
                start = int(self.planes[n, m])
                plane = values[start : start + (n + 1) * (m + 1)].reshape(n + 1, m + 1)
                plane += terminal.values(n, m)

    def _rows(self, t: int) -> Iterator[tuple[Integers, Integers, Integers]]:
        """Yield all (n_a, a, n_b) at time t in blocks."""
        n = np.arange(t + 1)
        sizes = t - n + 1
        block = np.cumsum((n + 1) * sizes) // BLOCK_STATES
        for part in np.split(n, np.flatnonzero(np.diff(block)) + 1):
            # The pairs (n_a, n_b) come first, then each pair with all values of a.
            n_a, n_b = np.repeat(part, sizes[part]), _count_up(sizes[part])
            yield np.repeat(n_a, n_a + 1), _count_up(n_a + 1), np.repeat(n_b, n_a + 1)


def _count_up(sizes: Integers) -> Integers:
    """Concatenate the ranges 0, 1, ... of each size."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)


# The step of one group.

TOLERANCE = 1e-9
"""Tolerance relative to the largest cost. Smaller gains count as ties, and the recommendation is followed."""
FORBIDDEN = 1e300
"""Threshold that is only exceeded by infinite gains."""


class StepMix(NamedTuple):
    """Expected value of a group's step at each level, linear in the values after either decision.

    Attributes:
        rises: Gains of an acceptance at which the level rises, (2 costs,).
        accept, reject: Probability that a person of the group arrives and is accepted or rejected, (2 costs + 1,).
        cost: Expected cost of the overrides, (2 costs + 1,).
        single: The cost if there is only one and costs matter, otherwise -1.
    """

    rises: Floats
    accept: Floats
    reject: Floats
    cost: Floats
    single: float


def mix_of_group(inputs: Inputs, group: int, tolerance: float) -> StepMix:
    """Compute the mix of a group's step over its recommendations and costs, see `StepMix`."""
    costs = np.array(inputs.costs)
    rejected, accepted = inputs.joint()[group]
    total = rejected.sum() + accepted.sum()
    # At level k the k cheapest of those recommended to be rejected are accepted, at level -k likewise.
    up = np.concatenate([[0.0], np.cumsum(rejected)])
    up_cost = np.concatenate([[0.0], np.cumsum(rejected * costs)])
    down = np.concatenate([[0.0], np.cumsum(accepted)])
    down_cost = np.concatenate([[0.0], np.cumsum(accepted * costs)])
    accept = np.concatenate([accepted.sum() - down[:0:-1], accepted.sum() + up])
    accept[0], accept[-1] = 0.0, total
    # Not total - accept, which could round small probabilities to 0, see `IMPOSSIBLE_PROBABILITY`.
    reject = np.concatenate([rejected.sum() + down[:0:-1], rejected.sum() - up])
    reject[0], reject[-1] = total, 0.0
    return StepMix(
        rises=np.concatenate([-costs[::-1] - tolerance, costs + tolerance]),
        accept=accept,
        reject=reject,
        cost=np.concatenate([down_cost[:0:-1], up_cost]),
        single=float(costs[0]) if len(costs) == 1 else -1.0,
    )


def forced_mix(mix: StepMix) -> StepMix:
    """Return the mix of a step that overrides only to avoid forbidden ends."""
    count = len(mix.rises) // 2
    return mix._replace(rises=np.repeat([-FORBIDDEN, FORBIDDEN], count), single=-1.0)
