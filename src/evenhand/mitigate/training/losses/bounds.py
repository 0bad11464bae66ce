"""Bounds of a network over boxes of people, differentiable: what certified training makes small.

All bounds are sound in real arithmetic; they are computed in the tensors' own precision without outward rounding,
since they teach and do not prove. The certifier has the last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    Layers = Sequence[tuple[torch.Tensor, torch.Tensor]]

TINY = 1e-12
"""Least width that is divided by."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """Products of ranges and sets of values, as features.

    Attributes:
        lower, upper: of every feature, shape (n, width); for a category's columns ``upper`` is 1 for each value in the
            set, and nobody has more than one of them.
        categories: the columns of each category.
    """

    lower: torch.Tensor
    upper: torch.Tensor
    categories: tuple[slice, ...]

    def first(self, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Least and greatest ``features @ weights`` over each box, exact; weights (width, units), shapes (n, units)."""
        import torch

        numbers = torch.ones(len(weights), dtype=torch.bool)
        for block in self.categories:
            numbers[block] = False
        lower, upper = self.lower[:, numbers], self.upper[:, numbers]
        centre, reach = (lower + upper) / 2 @ weights[numbers], (upper - lower) / 2 @ weights[numbers].abs()
        low, high = centre - reach, centre + reach
        for block in self.categories:
            outside = (self.upper[:, block] == 0)[:, :, None]
            rows = weights[block].expand(len(outside), -1, -1)
            low = low + rows.masked_fill(outside, torch.inf).amin(dim=1)
            high = high + rows.masked_fill(outside, -torch.inf).amax(dim=1)
        return low, high


@dataclass(frozen=True, eq=False)
class Pair:
    """What is known of a box of people under two protected assignments.

    Attributes:
        intervals: per layer of units before their ReLU, and last the logits: least and greatest under the first and
            the second assignment, shapes (n, 2, units).
        least, greatest: bounds of the second logit minus the first, the same person in both, shape (n,).
    """

    intervals: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    least: torch.Tensor
    greatest: torch.Tensor

    @property
    def difference(self) -> torch.Tensor:
        """Bound on how far the two logits of anybody in the box lie apart, shape (n,)."""
        import torch

        return torch.maximum(self.greatest, -self.least)


def pair(layers: Layers, boxes: Boxes, protected: torch.Tensor) -> Pair:
    """Bound a network and its difference between two assignments, layer by layer.

    The difference of the first units is the same for the whole box. Through a ReLU it is bounded by what ``change``
    says of either assignment, and it tightens the units' own bounds in turn.

    Source: interval bounds: Gowal et al.: Scalable Verified Training for Provably Robust Image Classification, ICCV
    2019; differences beside values: Paulsen, Wang, Wang: ReluDiff, ICSE 2020.

    Args:
        layers: (weight (inputs, outputs), bias (outputs,)) of each affine layer; the last has one output.
        boxes: of people, with the features of what is protected at 0.
        protected: features of what is protected alone, under either assignment, shape (n, 2, width).
    """
    import torch

    weight, bias = layers[0]
    low, high = boxes.first(weight)
    shift = protected @ weight + bias
    lower, upper = low[:, None] + shift, high[:, None] + shift
    least = greatest = shift[:, 1] - shift[:, 0]
    intervals = [(lower, upper)]
    for weight, bias in layers[1:]:
        one = change(lower[:, 0], upper[:, 0], least, greatest)
        other = change(lower[:, 1], upper[:, 1], -greatest, -least)
        least, greatest = torch.maximum(one[0], -other[1]), torch.minimum(one[1], -other[0])
        least, greatest = affine(least, greatest, weight, torch.zeros_like(bias))
        lower, upper = affine(lower.relu(), upper.relu(), weight, bias)
        lower, upper = (
            torch.stack((torch.maximum(lower[:, 0], lower[:, 1] - greatest),
                         torch.maximum(lower[:, 1], lower[:, 0] + least)), dim=1),
            torch.stack((torch.minimum(upper[:, 0], upper[:, 1] - least),
                         torch.minimum(upper[:, 1], upper[:, 0] + greatest)), dim=1),
        )  # fmt: skip
        intervals.append((lower, upper))
    return Pair(tuple(intervals), least[:, 0], greatest[:, 0])


def affine(
    low: torch.Tensor, high: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Bounds of ``units @ weight + bias`` from those of the units."""
    centre, reach = (low + high) / 2 @ weight + bias, (high - low) / 2 @ weight.abs()
    return centre - reach, centre + reach


def change(
    low: torch.Tensor, high: torch.Tensor, least: torch.Tensor, greatest: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Least and greatest ``relu(z + d) - relu(z)`` for z from ``low`` to ``high`` and d from ``least`` to ``greatest``.

    It grows with d, and with z if d > 0; if d < 0 it falls with z. So both are met at corners, and exact.
    """
    import torch

    bottom = torch.where(least >= 0, low, high)
    top = torch.where(greatest >= 0, high, low)
    return (bottom + least).relu() - bottom.relu(), (top + greatest).relu() - top.relu()


@dataclass(frozen=True, eq=False)
class Linear:
    """Functions below and above the logit in the whole box: ``coefficients @ z + constant`` of the first units' z.

    Coefficients have the shape (n, 2, units), constants (n, 2); in the order of the assignments.
    """

    below: torch.Tensor
    below_constant: torch.Tensor
    above: torch.Tensor
    above_constant: torch.Tensor

    def lower(self, first: torch.Tensor) -> torch.Tensor:
        """Lower bound of the logit for people whose first units before their ReLU are these (n, 2, units)."""
        return (self.below * first).sum(dim=-1) + self.below_constant

    def upper(self, first: torch.Tensor) -> torch.Tensor:
        """Upper bound of the logit for the same people."""
        return (self.above * first).sum(dim=-1) + self.above_constant


def linear(layers: Layers, intervals: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> Linear:
    """Linear bounds of the logit from intervals of the units: backward, as the certifier draws them.

    Above a ReLU that may be on or off lies its chord; below it the line of slope 1 or 0, whichever cuts off less.

    Source: Zhang et al.: Efficient Neural Network Robustness Certification with General Activation Functions, NeurIPS
    2018 (CROWN); in training: Zhang et al.: Towards Stable and Efficient Training of Verifiably Robust Neural Networks,
    ICLR 2020.

    Args:
        layers: as for ``pair``; at least one hidden layer.
        intervals: least and greatest value of the units of each hidden layer before their ReLU, shapes (n, 2, units).
    """
    import torch

    weight, bias = layers[-1]
    n = intervals[0][0].shape[:-1]
    below = above = weight[:, 0].expand(*n, -1)
    below_constant = above_constant = bias[0].expand(n)
    for depth in range(len(layers) - 2, -1, -1):
        low, high = intervals[depth]
        on, open_ = (low >= 0).to(low.dtype), (low < 0) & (high > 0)
        slope = torch.where(open_, high / (high - low).clamp_min(TINY), on)
        shift = torch.where(open_, -slope * low, 0.0)
        under = torch.where(open_, (high > -low).to(low.dtype), on)
        below_constant = below_constant + (below.clamp(max=0) * shift).sum(dim=-1)
        above_constant = above_constant + (above.clamp(min=0) * shift).sum(dim=-1)
        below = below.clamp(min=0) * under + below.clamp(max=0) * slope
        above = above.clamp(min=0) * slope + above.clamp(max=0) * under
        if depth:
            weight, bias = layers[depth]
            below_constant, above_constant = below_constant + below @ bias, above_constant + above @ bias
            below, above = below @ weight.T, above @ weight.T
    return Linear(below, below_constant, above, above_constant)
