"""Boxes of people around a batch, and differentiable bounds of a network over them, for certified training.

All bounds are sound in real arithmetic; they are computed in the tensors' own precision without outward rounding,
since they teach and do not prove. The certifier has the last word."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenhand.certification.bounds.relu import relax_constant, relax_relu, relax_weights
from evenhand.mitigation.training.encoding import FeatureEncoding
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    import torch

    Layers = Sequence[tuple[torch.Tensor, torch.Tensor]]
    import torch


@dataclass(frozen=True, eq=False)
class FeatureBoxes:
    """Products of ranges and sets of values, as features.

    Attributes:
        lower, upper: of every feature, shape (n, width); for a category's columns ``upper`` is 1 for each value in the
            set, and each person has at most one of them.
        categories: the columns of each category.
    """

    lower: torch.Tensor
    upper: torch.Tensor
    categories: tuple[slice, ...]

    def bound_first(self, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
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
class PairBounds:
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


def bound_pair(layers: Layers, boxes: FeatureBoxes, protected: torch.Tensor) -> PairBounds:
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
    low, high = boxes.bound_first(weight)
    shift = protected @ weight + bias
    lower, upper = low[:, None] + shift, high[:, None] + shift
    least = greatest = shift[:, 1] - shift[:, 0]
    intervals = [(lower, upper)]
    for weight, bias in layers[1:]:
        one = bound_relu_change(lower[:, 0], upper[:, 0], least, greatest)
        other = bound_relu_change(lower[:, 1], upper[:, 1], -greatest, -least)
        least, greatest = torch.maximum(one[0], -other[1]), torch.minimum(one[1], -other[0])
        least, greatest = bound_affine(least, greatest, weight, torch.zeros_like(bias))
        lower, upper = bound_affine(lower.relu(), upper.relu(), weight, bias)
        lower, upper = (
            torch.stack(
                (torch.maximum(lower[:, 0], lower[:, 1] - greatest), torch.maximum(lower[:, 1], lower[:, 0] + least)),
                dim=1,
            ),
            torch.stack(
                (torch.minimum(upper[:, 0], upper[:, 1] - least), torch.minimum(upper[:, 1], upper[:, 0] + greatest)),
                dim=1,
            ),
        )
        intervals.append((lower, upper))
    return PairBounds(tuple(intervals), least[:, 0], greatest[:, 0])


def bound_affine(
    low: torch.Tensor, high: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bounds of ``units @ weight + bias`` from those of the units."""
    centre, reach = (low + high) / 2 @ weight + bias, (high - low) / 2 @ weight.abs()
    return centre - reach, centre + reach


def bound_relu_change(
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
class LinearBounds:
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
        """Return the upper bound of the logit for the same people."""
        return (self.above * first).sum(dim=-1) + self.above_constant


def bound_linearly(layers: Layers, intervals: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> LinearBounds:
    """Return linear bounds of the logit from intervals of the units: backward, as the certifier draws them.

    Source: the relaxation of the proofs, see ``evenhand.certification.relax_relu``; in training: Zhang et al.: Towards
    Stable and Efficient Training of Verifiably Robust Neural Networks, ICLR 2020.

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
        lines = relax_relu(*intervals[depth], torch)
        below_constant = below_constant + relax_constant(below, lines.shift, up=False, xp=torch)
        above_constant = above_constant + relax_constant(above, lines.shift, up=True, xp=torch)
        below = relax_weights(below, lines.slope, lines.adaptive, up=False, xp=torch)
        above = relax_weights(above, lines.slope, lines.adaptive, up=True, xp=torch)
        if depth:
            weight, bias = layers[depth]
            below_constant, above_constant = below_constant + below @ bias, above_constant + above @ bias
            below, above = below @ weight.T, above @ weight.T
    return LinearBounds(below, below_constant, above, above_constant)


MOST = 4096
"""Assignments that are drawn without repetition; among more of them a repetition is unlikely."""


def draw_assignments(
    schema: Schema, protected: Sequence[str], n: int, most: int, generator: torch.Generator
) -> torch.Tensor:
    """Different joint values of what is protected for each of n people, shape (n, at most ``most``, protected)."""
    import torch

    attributes = [schema[name] for name in protected]
    sizes = [attribute.size or 1 for attribute in attributes]
    total = math.prod(sizes)
    if total <= MOST:
        order = torch.rand((n, total), generator=generator).topk(min(most, total), dim=1).indices
    else:
        order = torch.randint(total, (n, most), generator=generator)
    columns = []
    for attribute, size in zip(attributes, sizes, strict=True):
        columns.append(order % size + attribute.first)
        order = order // size
    return torch.stack(columns, dim=2).to(torch.float64)


def assign_protected(individuals: torch.Tensor, positions: Sequence[int], assignments: torch.Tensor) -> torch.Tensor:
    """Return every individual (n, attributes) under its own assignments (n, k, protected), shape (n, k, attributes)."""
    made = individuals[:, None].repeat(1, assignments.shape[1], 1)
    made[:, :, list(positions)] = assignments
    return made


def draw_people(schema: Schema, individuals: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    """Return people whom certificates are about, shape (n, attributes): about a third each of

    people of the batch; people put together from the batch, each attribute from somebody else, as certificates by the
    data's own shares have them; and people drawn from the domain, every value alike, as certificates by default have.
    """
    import torch

    made = individuals[torch.randint(len(individuals), (n,), generator=generator)].clone()
    third = n // 3
    for i, attribute in enumerate(schema.attributes):
        made[third : 2 * third, i] = individuals[torch.randint(len(individuals), (third,), generator=generator), i]
        spread = torch.rand(n - 2 * third, generator=generator, dtype=torch.float64)
        if attribute.size is None:
            made[2 * third :, i] = attribute.first + spread * (attribute.last - attribute.first)
        else:
            made[2 * third :, i] = attribute.first + (spread * attribute.size).floor()
    return made


def draw_boxes(
    encoding: FeatureEncoding,
    protected: Sequence[int],
    people: torch.Tensor,
    growth: float,
    generator: torch.Generator,
) -> FeatureBoxes:
    """Return a box of the unprotected around each of the people (n, attributes), everybody inside the domain.

    Every box opens a share of its attributes of its own, up to ``growth`` of them; an open number gets a range of up to
    ``growth`` of its domain, an open category every other value with a chance of up to ``growth``.

    Args:
        encoding: makes features of individuals.
        protected: positions of the attributes that the box leaves at no value: their features are 0.
        people: who is inside.
        growth: from 0, a box is one person, to 1.
        generator: of the random numbers.
    """
    import torch

    n = len(people)

    def chance(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    lower, upper = encoding.tensor(people), encoding.tensor(people)
    openness = growth * chance(n)
    categories = []
    for i, (attribute, block) in enumerate(zip(encoding.schema.attributes, encoding.blocks, strict=True)):
        if i in protected:
            lower[:, block.columns] = 0
            upper[:, block.columns] = 0
            continue
        width = growth * chance(n) * (chance(n) < openness)
        if not block.width:
            continue
        if block.codes is not None:
            # One number stands for each value: the box takes what lies between, as if there were such values.
            features = torch.from_numpy(encoding.value_features(block)).to(lower.dtype)
            outside = chance(n, len(features)) >= width[:, None]
            own = lower[:, block.start]
            lower[:, block.start] = torch.minimum(own, features.expand(n, -1).masked_fill(outside, torch.inf).amin(1))
            upper[:, block.start] = torch.maximum(own, features.expand(n, -1).masked_fill(outside, -torch.inf).amax(1))
        elif attribute.is_discrete:
            lower[:, block.columns] = 0
            added = chance(n, block.width) < width[:, None]
            upper[:, block.columns] = torch.maximum(upper[:, block.columns], added.to(upper.dtype))
            categories.append(block.columns)
        else:
            span, side = width * (attribute.last - attribute.first), chance(n)
            low = (people[:, i] - span * side).clamp(min=attribute.first)
            high = (people[:, i] + span * (1 - side)).clamp(max=attribute.last)
            lower[:, block.start] = ((low - block.offset) / block.scale).to(lower.dtype)
            upper[:, block.start] = ((high - block.offset) / block.scale).to(upper.dtype)
    return FeatureBoxes(lower, upper, tuple(categories))
