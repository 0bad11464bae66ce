"""A network in single precision, as MAFT's program asked it, and the gradients that the paper compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.typing import Booleans, Floats

Singles: TypeAlias = NDArray[np.float32]

ENTRIES = 4_000_000
"""Entries of hidden layers that are held at a time."""


@dataclass(frozen=True)
class DenseNetwork:
    """Affine layers with ReLU between them and a sigmoid at the end.

    Attributes:
        layers: weights (inputs, units) and bias (units,) of each, in single precision.
    """

    layers: tuple[tuple[Singles, Singles], ...]

    def probability(self, rows: Floats) -> Singles:
        """Return the favourable label's probability in single precision, of rows (n, inputs): shape (n,)."""
        weights, bias = self.layers[0]
        return self._finish(rows.astype(np.float32) @ weights + bias)

    def decides(self, rows: Floats) -> Booleans:
        """Return who is decided favourably, of rows (n, inputs): shape (n,)."""
        return np.asarray(self.probability(rows) > np.float32(0.5))

    def gradient(self, rows: Floats, *, loss: bool = False) -> Floats:
        """Return the derivatives of the predicted label's probability by the inputs, (n, inputs), by backpropagation.

        Args:
            rows: shape (n, inputs).
            loss: of its cross-entropy instead, with the opposite sign: the direction that ADF moves against.
        """
        values, passed = rows.astype(np.float64), []
        for i, (weights, bias) in enumerate(self.layers):
            values = (np.maximum(values, 0.0) if i else values) @ weights.astype(np.float64) + bias
            passed.append(values > 0)
        probability = 1 / (1 + np.exp(-np.clip(values, -700, 700)))
        sign = np.where(probability > 0.5, 1.0, -1.0)
        # Of the cross-entropy of the predicted label: minus the slope of its probability, divided by it.
        slope = sign * (np.minimum(probability, 1 - probability) if loss else probability * (1 - probability))
        for i in range(len(self.layers) - 1, -1, -1):
            slope = slope @ self.layers[i][0].astype(np.float64).T
            slope = slope * passed[i - 1] if i else slope
        return np.asarray(slope)

    def estimate(self, rows: Floats, h: float) -> Floats:
        """Return forward differences of the predicted label's probability, (n, inputs): algorithm 2 of the paper.

        In single precision, and beyond the end of the domain, as the program takes them.

        Args:
            rows: shape (n, inputs).
            h: how far apart the two questions are.
        """
        weights, bias = self.layers[0]
        each = max(1, ENTRIES // weights.size)
        found = [np.empty((0, rows.shape[1]))]
        for first in range(0, len(rows), each):
            here = rows[first : first + each].astype(np.float32)
            # What single precision makes of the step: nothing, where it is too small beside the entry.
            steps = (rows[first : first + each] + h).astype(np.float32) - here
            before = here @ weights + bias
            after = before[:, None, :] + steps[:, :, None] * weights
            rise = self._finish(after.reshape(-1, len(bias))).reshape(here.shape) - self._finish(before)[:, None]
            found.append(self._signs(before) * (rise / np.float32(h)).astype(np.float64))
        return np.concatenate(found)

    def estimate_one_by_one(self, rows: Floats, h: float) -> Floats:
        """Return what ``estimate`` does, with a call to the network for each input and person: algorithm 1."""
        found = np.empty(rows.shape)
        for n, row in enumerate(rows):
            before = self.probability(row[None])[0]
            for i in range(len(row)):
                moved = row.copy()
                moved[i] += h
                found[n, i] = (self.probability(moved[None])[0] - before) / np.float32(h)
            found[n] *= 1.0 if before > 0.5 else -1.0
        return found

    def _signs(self, hidden: Singles) -> Floats:
        return np.where(self._finish(hidden) > np.float32(0.5), 1.0, -1.0)[:, None]

    def _finish(self, hidden: Singles) -> Singles:
        """Return probabilities from the first layer's sums (n, units), shape (n,)."""
        values = hidden
        for weights, bias in self.layers[1:]:
            values = np.maximum(values, np.float32(0)) @ weights + bias
        return np.asarray(1 / (1 + np.exp(-np.clip(values[:, 0], -80, 80))), dtype=np.float32)
