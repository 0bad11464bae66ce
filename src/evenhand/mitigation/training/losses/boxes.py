"""Boxes of people and differentiable bounds of a network over them, for certified training.

All bounds are sound in real arithmetic. They are computed in the precision of the tensors, without outward rounding,
since they are used for training only. The certifier computes its own bounds.
"""

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
    Bounds = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, eq=False)
class FeatureBoxes:
    """Products of ranges and sets of categories, as features.

    Attributes:
        lower, upper: Ends of all features, shape (n, width). For categories, ``upper`` is 1 for each member of the set.
        categories: Columns of each categorical attribute.
    """

    lower: torch.Tensor
    upper: torch.Tensor
    categories: tuple[slice, ...]

    def bound_first(self, weights: torch.Tensor) -> Bounds:
        """Compute exact bounds of ``features @ weights`` over each box, shapes (n, units)."""
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
    """Bounds over a box of people under two protected assignments.

    Attributes:
        intervals: Bounds of the units of each layer before their ReLU, and of the logits, shapes (n, 2, units).
        least, greatest: Bounds of the second logit minus the first, for the same person, shape (n,).
    """

    intervals: tuple[Bounds, ...]
    least: torch.Tensor
    greatest: torch.Tensor

    @property
    def difference(self) -> torch.Tensor:
        """Upper bound of the distance between the two logits of any person in the box, shape (n,)."""
        import torch

        return torch.maximum(self.greatest, -self.least)


def bound_pair(layers: Layers, boxes: FeatureBoxes, protected: torch.Tensor) -> PairBounds:
    """Bound a network, and its difference between two assignments, layer by layer.

    The difference of the first units is constant in the box. Through a ReLU, it is bounded by ``bound_relu_change`` for
    either assignment, and it tightens the bounds of the units in turn.

    Args:
        layers: Weight (inputs, outputs) and bias (outputs,) of each layer. The last has one output.
        boxes: Boxes, with protected features of 0.
        protected: Protected features under both assignments, with all other features 0, shape (n, 2, width).

    References:
        Interval bounds: Gowal et al., "Scalable Verified Training for Provably Robust Image Classification", ICCV 2019.
        Differences: Paulsen, Wang, Wang, "ReluDiff", ICSE 2020.
    """
    import torch

    weight, bias = layers[0]
    low, high = boxes.bound_first(weight)
    shift = protected @ weight + bias
    lower, upper = low[:, None] + shift, high[:, None] + shift
    least = greatest = shift[:, 1] - shift[:, 0]
    intervals = [(lower, upper)]
    for weight, bias in layers[1:]:
        forward = bound_relu_change(lower[:, 0], upper[:, 0], least, greatest)
        backward = bound_relu_change(lower[:, 1], upper[:, 1], -greatest, -least)
        least, greatest = torch.maximum(forward[0], -backward[1]), torch.minimum(forward[1], -backward[0])
        least, greatest = bound_affine(least, greatest, weight)
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
    low: torch.Tensor, high: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | float = 0.0
) -> Bounds:
    """Compute bounds of ``units @ weight + bias`` from those of the units."""
    centre, reach = (low + high) / 2 @ weight + bias, (high - low) / 2 @ weight.abs()
    return centre - reach, centre + reach


def bound_relu_change(low: torch.Tensor, high: torch.Tensor, least: torch.Tensor, greatest: torch.Tensor) -> Bounds:
    """Compute exact bounds of ``relu(z + d) - relu(z)`` for z in [low, high] and d in [least, greatest].

    The function increases with d. It increases with z if d > 0, and decreases if d < 0. The extreme values are
    therefore at the corners.
    """
    import torch

    bottom = torch.where(least >= 0, low, high)
    top = torch.where(greatest >= 0, high, low)
    return (bottom + least).relu() - bottom.relu(), (top + greatest).relu() - top.relu()


@dataclass(frozen=True, eq=False)
class LinearBounds:
    """Linear functions ``coefficients @ z + constant`` of the first units z, below and above the logit in a box.

    Coefficients have the shape (n, 2, units), and constants (n, 2), in the order of the assignments.
    """

    below: torch.Tensor
    below_constant: torch.Tensor
    above: torch.Tensor
    above_constant: torch.Tensor

    def lower(self, first: torch.Tensor) -> torch.Tensor:
        """Compute the lower bound of the logit from the first units before their ReLU (n, 2, units)."""
        return (self.below * first).sum(dim=-1) + self.below_constant

    def upper(self, first: torch.Tensor) -> torch.Tensor:
        """Compute the upper bound of the logit from the first units before their ReLU (n, 2, units)."""
        return (self.above * first).sum(dim=-1) + self.above_constant


def bound_linearly(layers: Layers, intervals: Sequence[Bounds]) -> LinearBounds:
    """Compute linear bounds of the logit from bounds of the units, backward, as the certifier does.

    Args:
        layers: As for ``bound_pair``, with at least one hidden layer.
        intervals: Bounds of the units of each hidden layer before their ReLU, shapes (n, 2, units).

    References:
        The relaxation of proofs is ``evenhand.certification.relax_relu``. In training: Zhang et al., "Towards Stable
        and Efficient Training of Verifiably Robust Neural Networks", ICLR 2020.
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


MAX_DISTINCT = 4096
"""Maximum number of assignments that are drawn without repetition. With more, repetitions are unlikely."""


def draw_assignments(
    schema: Schema, protected: Sequence[str], n: int, limit: int, generator: torch.Generator
) -> torch.Tensor:
    """Draw different protected assignments for each of n people, shape (n, at most ``most``, protected)."""
    import torch

    attributes = [schema[name] for name in protected]
    sizes = [attribute.size or 1 for attribute in attributes]
    total = math.prod(sizes)
    if total <= MAX_DISTINCT:
        order = torch.rand((n, total), generator=generator).topk(min(limit, total), dim=1).indices
    else:
        order = torch.randint(total, (n, limit), generator=generator)
    columns = []
    for attribute, size in zip(attributes, sizes, strict=True):
        columns.append(order % size + attribute.first)
        order = order // size
    return torch.stack(columns, dim=2).to(torch.float64)


def assign_protected(individuals: torch.Tensor, positions: Sequence[int], assignments: torch.Tensor) -> torch.Tensor:
    """Apply assignments (n, k, protected) to individuals (n, attributes), shape (n, k, attributes)."""
    variants = individuals[:, None].repeat(1, assignments.shape[1], 1)
    variants[:, :, list(positions)] = assignments
    return variants


def draw_people(schema: Schema, individuals: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    """Draw people as in certificates, shape (n, attributes).

    One third are people of the batch. One third combine attributes of different people of the batch, as in the product
    of marginals. One third are uniform over the domain.
    """
    import torch

    people = individuals[torch.randint(len(individuals), (n,), generator=generator)].clone()
    third = n // 3
    for i, attribute in enumerate(schema.attributes):
        people[third : 2 * third, i] = individuals[torch.randint(len(individuals), (third,), generator=generator), i]
        spread = torch.rand(n - 2 * third, generator=generator, dtype=torch.float64)
        if attribute.size is None:
            people[2 * third :, i] = attribute.first + spread * (attribute.last - attribute.first)
        else:
            people[2 * third :, i] = attribute.first + (spread * attribute.size).floor()
    return people


def draw_boxes(
    encoding: FeatureEncoding,
    protected: Sequence[int],
    people: torch.Tensor,
    growth: float,
    generator: torch.Generator,
) -> FeatureBoxes:
    """Draw a box of unprotected attributes around each person, within the domain.

    Each box opens a share of its attributes, up to ``growth``. An open number gets a range of up to ``growth`` of its
    domain, and an open category each other value with a probability of up to ``growth``.

    Args:
        encoding: Encoding of individuals as features.
        protected: Positions of the protected attributes, whose features are set to 0.
        people: People inside the boxes, shape (n, attributes).
        growth: Size of the boxes, from 0 (a single person) to 1.
        generator: Random number generator.
    """
    import torch

    n = len(people)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    lower, upper = encoding.tensor(people), encoding.tensor(people)
    openness = growth * uniform(n)
    categories = []
    for i, (attribute, block) in enumerate(zip(encoding.schema.attributes, encoding.blocks, strict=True)):
        if i in protected:
            lower[:, block.columns] = 0
            upper[:, block.columns] = 0
            continue
        width = growth * uniform(n) * (uniform(n) < openness)
        if not block.width:
            continue
        if block.codes is not None:
            # Categories in one column: the box also covers the numbers between its categories.
            features = torch.from_numpy(encoding.value_features(block)).to(lower.dtype)
            outside = uniform(n, len(features)) >= width[:, None]
            own = lower[:, block.start]
            lower[:, block.start] = torch.minimum(own, features.expand(n, -1).masked_fill(outside, torch.inf).amin(1))
            upper[:, block.start] = torch.maximum(own, features.expand(n, -1).masked_fill(outside, -torch.inf).amax(1))
        elif attribute.is_discrete:
            lower[:, block.columns] = 0
            added = uniform(n, block.width) < width[:, None]
            upper[:, block.columns] = torch.maximum(upper[:, block.columns], added.to(upper.dtype))
            categories.append(block.columns)
        else:
            span, side = width * (attribute.last - attribute.first), uniform(n)
            low = (people[:, i] - span * side).clamp(min=attribute.first)
            high = (people[:, i] + span * (1 - side)).clamp(max=attribute.last)
            lower[:, block.start] = ((low - block.offset) / block.scale).to(lower.dtype)
            upper[:, block.start] = ((high - block.offset) / block.scale).to(upper.dtype)
    return FeatureBoxes(lower, upper, tuple(categories))
