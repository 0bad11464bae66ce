"""Who will come: the distribution of groups, recommendations, costs and labels that a shield is optimal for.

Fairness never depends on it; only the expected cost does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError

Weights = tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]

MOST_COSTS = 127
"""Twice as many levels and one fit into a byte, beside the mark of a dead state."""

IMPOSSIBLE = 1e-300
"""Stands for probability 0: an unfair end stays forbidden (0 times infinity would not be infinite)."""


@dataclass(frozen=True)
class Inputs:
    """Individuals come independently: a group, a recommendation given the group, a cost given both, a label.

    Attributes:
        groups: their names, two or more.
        rate: probability of each group, adding up to 1.
        accept: probability that the classifier recommends to accept, by group.
        label: probability of label 1 by group, whatever is decided; None if labels play no part.
        costs: what overriding a recommendation can cost, ascending, 0 or more.
        weights: probability of each cost given group and recommendation: ``weights[group][recommendation][cost]``;
            all on the first cost by default.
    """

    groups: tuple[str, ...]
    rate: tuple[float, ...]
    accept: tuple[float, ...]
    label: tuple[float, ...] | None = None
    costs: tuple[float, ...] = (1.0,)
    weights: Weights = ()

    def __post_init__(self) -> None:
        if not self.weights:
            first = (1.0,) + (0.0,) * (len(self.costs) - 1)
            object.__setattr__(self, "weights", ((first, first),) * len(self.groups))
        if len(self.groups) < 2 or len(set(self.groups)) != len(self.groups):
            raise OptionError("a shield compares two or more groups with different names", where="groups")
        for name, values in (("rate", self.rate), ("accept", self.accept), ("label", self.label)):
            if values is None:
                continue
            if len(values) != len(self.groups):
                raise OptionError(f"{len(values)} values for {len(self.groups)} groups", where=name)
            for group, value in zip(self.groups, values, strict=True):
                if not 0 <= value <= 1:
                    raise OptionError(f"{value} is no probability", where=f"{name} of group {group}")
        if abs(sum(self.rate) - 1) > 1e-6:
            raise OptionError(f"the rates of the groups add up to {sum(self.rate):g}, not to 1", where="rate")
        if not self.costs or any(not 0 <= cost < float("inf") for cost in self.costs):
            raise OptionError("costs are finite numbers of 0 or more", where="costs")
        if len(self.costs) > MOST_COSTS:
            raise OptionError(
                f"{len(self.costs)} different costs, and a table of actions tells {MOST_COSTS} apart",
                where="costs",
                mend="sort them into bins; with 20 of them little is lost",
            )
        if any(later <= earlier for earlier, later in zip(self.costs, self.costs[1:], strict=False)):
            raise OptionError("the costs are not ascending", where="costs")
        shaped = len(self.weights) == len(self.groups) and all(
            len(pair) == 2 and all(len(row) == len(self.costs) for row in pair) for pair in self.weights
        )
        if not shaped:
            raise OptionError("one weight per group, recommendation and cost is needed", where="weights")
        for group, pair in zip(self.groups, self.weights, strict=True):
            for row in pair:
                if any(not 0 <= value <= 1 for value in row) or abs(sum(row) - 1) > 1e-6:
                    raise OptionError("the weights of the costs do not add up to 1", where=f"weights of group {group}")

    def joint(self) -> NDArray[np.float64]:
        """Probability of (group, recommendation, cost), shape (groups, 2, costs); never 0, see `IMPOSSIBLE`."""
        accept = np.array([[1 - value, value] for value in self.accept])
        joint = np.array(self.rate)[:, None, None] * accept[:, :, None] * np.array(self.weights)
        return np.asarray(np.maximum(joint, IMPOSSIBLE), dtype=np.float64)

    def labels(self) -> NDArray[np.float64]:
        """Probability of (group, label), shape (groups, 2); never 0. Without labels everybody counts."""
        ones = np.array(self.label if self.label is not None else (1.0,) * len(self.groups))
        return np.asarray(np.maximum(np.stack([1 - ones, ones], axis=1), IMPOSSIBLE), dtype=np.float64)

    def position(self, group: str | int) -> int:
        """Which group that is.

        Raises:
            OptionError: there is no such group.
        """
        if group in self.groups:
            return self.groups.index(str(group))
        if isinstance(group, int) and 0 <= group < len(self.groups):
            return group
        raise OptionError(f"unknown group {group!r}", mend=f"one of {', '.join(self.groups)}")
