"""From individuals to the features of a network, and from a trained network back to one over individuals."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evenhand.models.additive import AdditiveNetwork, Affine, Line, Part, Table
from evenhand.schema import Attribute, Schema, Value

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Block:
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
class Encoding:
    """Numbers (integer, real) by mean and deviation, all else one column per value, or as a given network has it.

    Attributes:
        schema: what the individuals are.
        blocks: one per attribute, in order.
    """

    schema: Schema
    blocks: tuple[Block, ...]

    @classmethod
    def learnt(cls, schema: Schema, individuals: NDArray[np.float64], *, unseen: Collection[str] = ()) -> Encoding:
        """Scaled by the people learnt from, shape (n, attributes); the network does not see ``unseen``."""
        blocks: list[Block] = []
        start = 0
        for i, attribute in enumerate(schema.attributes):
            if attribute.name in unseen:
                block = Block(start, 0)
            elif attribute.discrete_values:
                block = Block(start, attribute.size or 0)
            else:
                # A column that is the same for everybody is only shifted.
                block = Block(start, 1, float(individuals[:, i].mean()), float(individuals[:, i].std()) or 1.0)
            blocks.append(block)
            start += block.width
        return cls(schema, tuple(blocks))

    @property
    def width(self) -> int:
        """How many features there are."""
        return sum(block.width for block in self.blocks)

    @cached_property
    def _seen(self) -> list[tuple[int, Attribute, Block]]:
        pairs = enumerate(zip(self.schema.attributes, self.blocks, strict=True))
        return [(i, attribute, block) for i, (attribute, block) in pairs if block.width]

    @staticmethod
    def coded(block: Block) -> NDArray[np.float64]:
        """The feature of each value of a category that fills one column, shape (size,)."""
        return (np.array(block.codes) - block.offset) / block.scale

    def features(self, individuals: NDArray[np.float64]) -> NDArray[np.float32]:
        """Features of individuals (n, attributes), shape (n, width)."""
        features = np.zeros((len(individuals), self.width), dtype=np.float32)
        for i, attribute, block in self._seen:
            entries = individuals[:, i]
            if block.codes is not None:
                features[:, block.start] = self.coded(block)[entries.astype(np.int64)]
            elif attribute.discrete_values:
                features[np.arange(len(entries)), block.start + entries.astype(np.int64)] = 1
            else:
                features[:, block.start] = (entries - block.offset) / block.scale
        return features

    def tensor(self, individuals: torch.Tensor) -> torch.Tensor:
        """The same for a tensor."""
        import torch

        features = torch.zeros((len(individuals), self.width))
        for i, attribute, block in self._seen:
            entries = individuals[:, i]
            if block.codes is not None:
                features[:, block.start] = torch.from_numpy(self.coded(block)).float()[entries.long()]
            elif attribute.discrete_values:
                features.scatter_(1, (block.start + entries.long())[:, None], 1.0)
            else:
                features[:, block.start] = ((entries - block.offset) / block.scale).float()
        return features

    def additive(
        self,
        layers: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
        classes: tuple[Value, ...],
        favourable: int,
        name: str,
    ) -> AdditiveNetwork:
        """A network over these features as one over individuals; what it did not see weighs exactly nothing."""
        weights, bias = layers[0]
        parts: list[Part] = []
        for attribute, block in zip(self.schema.attributes, self.blocks, strict=True):
            rows = weights[block.columns]
            if block.codes is not None:
                parts.append(Table(self.coded(block)[:, None] * rows[0], 0.0))
            elif attribute.discrete_values:
                parts.append(Table(rows if block.width else np.zeros((attribute.size or 0, len(bias))), 0.0))
            elif block.width:
                parts.append(Line(rows[0] / block.scale, -block.offset / block.scale * rows[0]))
            else:
                parts.append(Line(np.zeros(len(bias)), np.zeros(len(bias))))
        rest = tuple(Affine(weight, shift) for weight, shift in layers[1:])
        return AdditiveNetwork(self.schema, tuple(parts), bias, rest, classes, favourable, name)
