"""From individuals to the features of a network, and from a trained network back to one over individuals."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.groups.membership import group_by_attribute
from evenhand.models.additive.network import AdditiveNetwork, AffineLayer, AttributeTerm, LineTerm, TableTerm
from evenhand.schema.attribute import Attribute, Value
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class FeatureBlock:
    """The columns of the features that one attribute fills.

    Attributes:
        start: the first of them.
        width: how many; 1 for a number, one per value for a category, 0 where the network does not see it.
        offset, scale: of a number: its feature is ``(entry - offset) / scale``.
        codes: the numbers that stand for the values of a category which fills one column; scaled in the same way.
    """

    start: int
    width: int
    offset: float = 0.0
    scale: float = 1.0
    codes: tuple[float, ...] | None = None

    @property
    def columns(self) -> slice:
        """Where they stand."""
        return slice(self.start, self.start + self.width)


@dataclass(frozen=True)
class FeatureEncoding:
    """Numbers (integer, real) by mean and deviation, all else one column per value, or as a given network has it.

    Attributes:
        schema: what the individuals are.
        blocks: one per attribute, in order.
    """

    schema: Schema
    blocks: tuple[FeatureBlock, ...]

    @classmethod
    def fit_to_people(cls, schema: Schema, individuals: Floats, *, unseen: Collection[str] = ()) -> FeatureEncoding:
        """Scale by the training set, shape (n, attributes); the network does not see ``unseen``."""
        blocks: list[FeatureBlock] = []
        start = 0
        for i, attribute in enumerate(schema.attributes):
            if attribute.name in unseen:
                block = FeatureBlock(start, 0)
            elif attribute.is_discrete:
                block = FeatureBlock(start, attribute.size or 0)
            else:
                # A column that is the same for everybody is only shifted.
                block = FeatureBlock(start, 1, float(individuals[:, i].mean()), float(individuals[:, i].std()) or 1.0)
            blocks.append(block)
            start += block.width
        return cls(schema, tuple(blocks))

    @property
    def width(self) -> int:
        """How many features there are."""
        return sum(block.width for block in self.blocks)

    @cached_property
    def _visible_blocks(self) -> list[tuple[int, Attribute, FeatureBlock]]:
        pairs = enumerate(zip(self.schema.attributes, self.blocks, strict=True))
        return [(i, attribute, block) for i, (attribute, block) in pairs if block.width]

    @staticmethod
    def value_features(block: FeatureBlock) -> Floats:
        """Return the feature of each value of a category that fills one column, shape (size,)."""
        return (np.array(block.codes) - block.offset) / block.scale

    def features(self, individuals: Floats) -> NDArray[np.float32]:
        """Return the features of individuals (n, attributes), shape (n, width)."""
        features = np.zeros((len(individuals), self.width), dtype=np.float32)
        for i, attribute, block in self._visible_blocks:
            entries = individuals[:, i]
            if block.codes is not None:
                features[:, block.start] = self.value_features(block)[entries.astype(np.int64)]
            elif attribute.is_discrete:
                features[np.arange(len(entries)), block.start + entries.astype(np.int64)] = 1
            else:
                features[:, block.start] = (entries - block.offset) / block.scale
        return features

    def tensor(self, individuals: torch.Tensor) -> torch.Tensor:
        """Return the same for a tensor."""
        import torch

        features = torch.zeros((len(individuals), self.width))
        for i, attribute, block in self._visible_blocks:
            entries = individuals[:, i]
            if block.codes is not None:
                features[:, block.start] = torch.from_numpy(self.value_features(block)).float()[entries.long()]
            elif attribute.is_discrete:
                features.scatter_(1, (block.start + entries.long())[:, None], 1.0)
            else:
                features[:, block.start] = ((entries - block.offset) / block.scale).float()
        return features

    def additive(
        self,
        layers: Sequence[tuple[Floats, Floats]],
        classes: tuple[Value, ...],
        favourable: int,
        name: str,
    ) -> AdditiveNetwork:
        """Return a network over these features as one over individuals; what it did not see weighs exactly nothing."""
        weights, bias = layers[0]
        parts: list[AttributeTerm] = []
        for attribute, block in zip(self.schema.attributes, self.blocks, strict=True):
            rows = weights[block.columns]
            if block.codes is not None:
                parts.append(TableTerm(self.value_features(block)[:, None] * rows[0], 0.0))
            elif attribute.is_discrete:
                parts.append(TableTerm(rows if block.width else np.zeros((attribute.size or 0, len(bias))), 0.0))
            elif block.width:
                parts.append(LineTerm(rows[0] / block.scale, -block.offset / block.scale * rows[0]))
            else:
                parts.append(LineTerm(np.zeros(len(bias)), np.zeros(len(bias))))
        rest = tuple(AffineLayer(weight, shift) for weight, shift in layers[1:])
        return AdditiveNetwork(self.schema, tuple(parts), bias, rest, classes, favourable, name)


# Which group everybody learnt from belongs to, for losses that compare groups.

LEAST = 30
"""People of a group at least: what the mean of fewer says about them is mostly chance."""

LEAST_SHARE = 0.01
"""The same as a share of everybody: a smaller group is not met in every batch."""

NOBODYS = -1


def joint_groups(schema: Schema, individuals: Floats, protected: Sequence[str]) -> Integers:
    """Return the groups by the joint values of the protected attributes (an integer with many: by ranges), shape (n,).

    Groups with too few people are taken together, and where even together they are too few, they have no group (-1):
    a network learns to be right about these people, and no group's mean is taken of them. Where that would leave a
    single group, smaller ones count too.

    Args:
        schema: what the individuals are.
        individuals: shape (n, attributes).
        protected: names of the attributes; with none, no person has a group.
    """
    if not protected:
        return np.full(len(individuals), NOBODYS)
    memberships = [group_by_attribute(schema[name], individuals[:, schema.position(name)]) for name in protected]
    codes = np.stack([membership.codes for membership in memberships], axis=1)
    _, groups = np.unique(codes, axis=0, return_inverse=True)
    return _comparable_groups(groups.reshape(-1), (max(LEAST, LEAST_SHARE * len(individuals)), LEAST, 1))


def number_groups(group: NDArray[Any]) -> Integers:
    """Return the groups as they were given, shape (n,), numbered from 0; those of fewer than `LEAST` pooled."""
    return _comparable_groups(np.unique(group, return_inverse=True)[1].reshape(-1), (LEAST, 1))


def _comparable_groups(groups: Integers, least: Sequence[float]) -> Integers:
    """Return the groups of the first size that leaves two to compare, else as they are."""
    for size in least:
        found = pool_small_groups(groups, size)
        if found.max(initial=NOBODYS) > 0:
            return found
    return groups


def pool_small_groups(groups: Integers, least: float) -> Integers:
    """Return the groups (n,) renumbered from 0; those of fewer people than ``least`` taken together, or -1."""
    large = np.bincount(groups) >= least
    number = np.where(large, np.cumsum(large) - 1, NOBODYS)
    found = number[groups]
    rest = found == NOBODYS
    if rest.sum() >= least:
        found[rest] = large.sum()
    return np.asarray(found, dtype=np.int64)
