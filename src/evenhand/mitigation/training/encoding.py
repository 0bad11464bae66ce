"""Encoding of individuals as the features of a network, and conversion of a network back to individuals."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.groups.membership import group_by_attribute
from evenhand.models.additive.network import AdditiveNetwork, AffineLayer, AttributeTerm, LineTerm, TableTerm
from evenhand.schema.arrays import check_rows, read_columns
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema


@dataclass(frozen=True)
class FeatureBlock:
    """Columns of the features of one attribute.

    Attributes:
        start: First column.
        width: Number of columns: 1 for a number, one per category, 0 if the attribute is not an input of the network.
        offset, scale: Scaling of a number, whose feature is ``(entry - offset) / scale``.
        codes: Codes of the categories of an attribute with one column, which are scaled in the same way.
    """

    start: int
    width: int
    offset: float = 0.0
    scale: float = 1.0
    codes: tuple[float, ...] | None = None

    @property
    def columns(self) -> slice:
        """Slice of the columns."""
        return slice(self.start, self.start + self.width)


@dataclass(frozen=True)
class FeatureEncoding:
    """Encoding with standardised numbers and one column per category, or with the inputs of an existing network.

    Attributes:
        schema: Data schema.
        blocks: Columns of each attribute.
    """

    schema: Schema
    blocks: tuple[FeatureBlock, ...]

    @classmethod
    def fit_to_people(cls, schema: Schema, individuals: Floats, *, unseen: Collection[str] = ()) -> FeatureEncoding:
        """Fit the encoding to a training set, shape (n, attributes), without the ``unseen`` attributes."""
        blocks: list[FeatureBlock] = []
        start = 0
        for i, attribute in enumerate(schema.attributes):
            if attribute.name in unseen:
                block = FeatureBlock(start, 0)
            elif attribute.is_discrete:
                block = FeatureBlock(start, attribute.size or 0)
            else:
                # A constant column has no spread, so it is only shifted.
                block = FeatureBlock(start, 1, float(individuals[:, i].mean()), float(individuals[:, i].std()) or 1.0)
            blocks.append(block)
            start += block.width
        return cls(schema, tuple(blocks))

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(block.width for block in self.blocks)

    @staticmethod
    def value_features(block: FeatureBlock) -> Floats:
        """Compute the feature of each category of an attribute with one column, shape (size,)."""
        return (np.array(block.codes) - block.offset) / block.scale

    def features(self, individuals: Floats) -> NDArray[np.float32]:
        """Encode individuals, shape (n, width)."""
        features = np.zeros((len(individuals), self.width), dtype=np.float32)
        for attribute, block, entries in zip(self.schema.attributes, self.blocks, individuals.T, strict=False):
            if block.width == 0:
                continue
            if block.codes is not None:
                features[:, block.start] = self.value_features(block)[entries.astype(np.int64)]
            elif attribute.is_discrete:
                features[np.arange(len(entries)), block.start + entries.astype(np.int64)] = 1
            else:
                features[:, block.start] = (entries - block.offset) / block.scale
        return features

    def additive(
        self,
        layers: Sequence[tuple[Floats, Floats]],
        classes: tuple[Value, ...],
        favourable: int,
        name: str,
    ) -> AdditiveNetwork:
        """Convert a network over features to one over individuals. Unseen attributes get weights of exactly 0."""
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
        remainder = tuple(AffineLayer(weight, shift) for weight, shift in layers[1:])
        return AdditiveNetwork(self.schema, tuple(parts), bias, remainder, classes, favourable, name)


MIN_GROUP_SIZE = 30
"""Minimum size of a group. The mean of a smaller group is mostly noise."""

MIN_GROUP_SHARE = 0.01
"""Minimum share of a group in the training set. A smaller group is absent from many batches."""

NO_GROUP = -1


def joint_groups(schema: Schema, individuals: Floats, protected: Sequence[str]) -> Integers:
    """Number the groups of the joint values of protected attributes, shape (n,). Integers are divided into ranges.

    Small groups are pooled. If even the pool is too small, its people have no group (-1): the network learns their
    labels, but their mean is not compared. If this would leave a single group, smaller groups are accepted.

    Args:
        schema: Data schema.
        individuals: Individuals, shape (n, attributes).
        protected: Names of the attributes. Without protected attributes, no individual has a group.
    """
    if not protected:
        return np.full(len(individuals), NO_GROUP)
    memberships = [group_by_attribute(schema[name], individuals[:, schema.position(name)]) for name in protected]
    codes = np.stack([membership.codes for membership in memberships], axis=1)
    return number_groups(codes, (max(MIN_GROUP_SIZE, MIN_GROUP_SHARE * len(individuals)), MIN_GROUP_SIZE, 1))


def join_features(sensitive_features: Any, n: int) -> NDArray[Any]:
    """Number the joint groups of sensitive features, shape (n,).

    Raises:
        DataError: The features have a different number of rows.
    """
    codes = []
    columns = read_columns("sensitive_features", sensitive_features)
    check_rows({"X": range(n)} | {f"sensitive_features[{name!r}]": column for name, column in columns.items()})
    for column in columns.values():
        values = np.asarray(column)
        codes.append(np.unique(values.astype(str) if values.dtype == object else values, return_inverse=True)[1])
    return np.unique(np.stack(codes, axis=1), axis=0, return_inverse=True)[1].reshape(-1)


def number_groups(group: NDArray[Any], sizes: Sequence[float] = (MIN_GROUP_SIZE, 1)) -> Integers:
    """Number groups from 0, shape (n,), and pool those below a minimum size, or set them to -1 if the pool is smaller.

    The minimum size is the first that leaves two groups. If there is none, nothing is pooled.
    """
    groups = np.unique(group, axis=0, return_inverse=True)[1].reshape(-1)
    for size in sizes:
        large = np.bincount(groups) >= size
        pooled = np.where(large, np.cumsum(large) - 1, NO_GROUP)[groups]
        remainder = pooled == NO_GROUP
        if remainder.sum() >= size:
            pooled[remainder] = large.sum()
        if pooled.max(initial=NO_GROUP) > 0:
            return np.asarray(pooled, dtype=np.int64)
    return groups
