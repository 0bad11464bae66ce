"""Who a certificate is about, a batch at a time: protected assignments, people, and boxes around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenhand.errors import OptionError
from evenhand.mitigate.training.encoding import Encoding
from evenhand.mitigate.training.losses.bounds import Boxes
from evenhand.schema import Schema

if TYPE_CHECKING:
    import torch

MOST = 4096
"""Assignments that are drawn without repetition; among more of them nobody meets one twice."""


def check_protected(protected: Sequence[str], what: str) -> None:
    """Somebody must be comparable.

    Raises:
        OptionError: no attribute is protected.
    """
    if not protected:
        raise OptionError(f"{what} compares protected assignments, and no attribute is protected",
                          mend="name protected attributes")  # fmt: skip


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


def variants(individuals: torch.Tensor, positions: Sequence[int], assignments: torch.Tensor) -> torch.Tensor:
    """Every individual (n, attributes) under its own assignments (n, k, protected), shape (n, k, attributes)."""
    made = individuals[:, None].repeat(1, assignments.shape[1], 1)
    made[:, :, list(positions)] = assignments
    return made


def draw_people(schema: Schema, individuals: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    """People whom certificates are about, shape (n, attributes): about a third each of

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
    encoding: Encoding,
    protected: Sequence[int],
    people: torch.Tensor,
    growth: float,
    generator: torch.Generator,
) -> Boxes:
    """A box of the unprotected around each of the people (n, attributes), everybody inside the domain.

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
            features = torch.from_numpy(encoding.coded(block)).to(lower.dtype)
            outside = chance(n, len(features)) >= width[:, None]
            own = lower[:, block.start]
            lower[:, block.start] = torch.minimum(own, features.expand(n, -1).masked_fill(outside, torch.inf).amin(1))
            upper[:, block.start] = torch.maximum(own, features.expand(n, -1).masked_fill(outside, -torch.inf).amax(1))
        elif attribute.discrete_values:
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
    return Boxes(lower, upper, tuple(categories))
