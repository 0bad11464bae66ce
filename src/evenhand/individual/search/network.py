"""An additive network asked about profiles: the unprotected part is computed once for all assignments; gradients."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.search.space import Space
from evenhand.models import AdditiveNetwork
from evenhand.models.additive import Line, Part
from evenhand.schema import Attribute

Floats: TypeAlias = NDArray[np.float64]


class Inside:
    """The same answers as the network's, up to rounding, several times faster; and exact gradients.

    The derivative along an attribute that enters by a table or by bins is the central difference of its
    contributions over one move to each side (one-sided at the domain's ends), which is exact where they are affine.
    """

    def __init__(self, network: AdditiveNetwork, space: Space) -> None:
        self.network = network
        self._layers = [(layer.weights, layer.bias) for layer in network.layers]
        assigned = np.zeros((len(space.assignments), len(network.bias)))
        for i, column in enumerate(space.protected_columns):
            assigned += network.parts[column].at(space.assignments[:, i])
        self._assigned = assigned
        parts = [network.parts[column] for column in space.columns]
        self._lines = np.array([i for i, part in enumerate(parts) if isinstance(part, Line)], dtype=np.int64)
        self._all_lines = len(self._lines) == len(parts)
        lines = [part for part in parts if isinstance(part, Line)]
        self._slopes = np.array([part.slope for part in lines]).reshape(len(lines), len(network.bias))
        self._bias = network.bias + sum((part.intercept for part in lines), np.zeros(len(network.bias)))
        self._others = [(i, part) for i, part in enumerate(parts) if not isinstance(part, Line)]
        self._space = space
        self._tables = {
            i: _rises(space.attributes[i], part, float(space.step[i]))
            for i, part in self._others
            if space.attributes[i].size is not None
        }

    def logits(self, unprotected: Floats) -> Floats:
        """The outputs for profiles (n, U) under every assignment, shape (n, A, outputs)."""
        units = self._unprotected(unprotected)[:, None, :] + self._assigned
        values = units.reshape(-1, units.shape[2])
        for weights, bias in self._layers:
            np.maximum(values, 0.0, out=values)
            values = values @ weights
            values += bias
        return values.reshape(len(unprotected), len(self._assigned), -1)

    @property
    def lines(self) -> NDArray[np.bool_]:
        """Which unprotected attributes enter affinely, so that there are answers between whole numbers, shape (U,)."""
        return np.isin(np.arange(self._space.width), self._lines)

    def logits_at(self, unprotected: Floats, which: NDArray[np.int64]) -> Floats:
        """The outputs for profiles (n, U) under one assignment each (n,), shape (n, outputs)."""
        values = self._unprotected(unprotected) + self._assigned[which]
        for weights, bias in self._layers:
            values = np.maximum(values, 0.0) @ weights + bias
        return np.asarray(values)

    def gradient(self, unprotected: Floats, which: NDArray[np.int64], *, loss: bool) -> Floats:
        """Derivatives along the unprotected attributes of profiles (n, U) under assignments (n,), shape (n, U).

        Args:
            loss: of the cross-entropy of the predicted label; else of its probability.
        """
        values = self._unprotected(unprotected) + self._assigned[which]
        active = []
        for weights, bias in self._layers:
            active.append(values > 0)
            values = np.where(active[-1], values, 0.0) @ weights + bias
        back = _output_gradient(values, loss=loss)
        for (weights, _), positive in zip(reversed(self._layers), reversed(active), strict=True):
            back = np.where(positive, back @ weights.T, 0.0)
        if self._all_lines:
            return np.asarray(back @ self._slopes.T)
        gradient = np.empty(unprotected.shape)
        gradient[:, self._lines] = back @ self._slopes.T
        for i, part in self._others:
            table = self._tables.get(i)
            entries = unprotected[:, i]
            if table is not None:
                rises = table[(entries - self._space.lower[i]).astype(np.int64)]
            else:
                rises = _rise(self._space.attributes[i], part, float(self._space.step[i]), entries)
            gradient[:, i] = (back * rises).sum(axis=1)
        return gradient

    def _unprotected(self, unprotected: Floats) -> Floats:
        if self._all_lines:
            return np.asarray(unprotected @ self._slopes + self._bias)
        units: Floats = unprotected[:, self._lines] @ self._slopes + self._bias
        for i, part in self._others:
            units += part.at(unprotected[:, i])
        return units


def probabilities(logits: Floats) -> Floats:
    """Class probabilities from logits (..., 1) or (..., classes), shape (..., classes)."""
    if logits.shape[-1] == 1:
        positive = 1 / (1 + np.exp(-np.clip(logits, -700, 700)))
        return np.concatenate([1 - positive, positive], axis=-1)
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def labels_of(logits: Floats) -> NDArray[np.int64]:
    """Labels from logits (..., 1) or (..., classes), as an additive network decides, shape (...)."""
    if logits.shape[-1] == 1:
        return np.asarray(logits[..., 0] > 0, dtype=np.int64)
    return np.asarray(np.argmax(logits, axis=-1), dtype=np.int64)


def _output_gradient(logits: Floats, *, loss: bool) -> Floats:
    """Derivative of the predicted label's probability, or of its cross-entropy, by the logits (n, outputs)."""
    scores = probabilities(logits)
    if logits.shape[1] == 1:
        # d p_1 / d logit = p_0 p_1; the predicted label's cross-entropy falls by what it lacks to 1.
        sign = np.where(logits > 0, 1.0, -1.0)
        if loss:
            return np.asarray(-sign * scores.min(axis=1, keepdims=True))
        return np.asarray(sign * scores[:, :1] * scores[:, 1:])
    n = np.arange(len(logits))
    winner = np.argmax(logits, axis=1)
    towards = -scores
    towards[n, winner] += 1.0
    return np.asarray(-towards if loss else scores[n, winner][:, None] * towards)


def _rises(attribute: Attribute, part: Part, step: float) -> Floats:
    return _rise(attribute, part, step, attribute.domain())


def _rise(attribute: Attribute, part: Part, step: float, entries: Floats) -> Floats:
    """The central difference of an attribute's contributions at entries (n,), shape (n, units)."""
    above = np.minimum(entries + step, attribute.last)
    below = np.maximum(entries - step, attribute.first)
    return np.asarray((part.at(above) - part.at(below)) / np.maximum(above - below, 1e-300)[:, None])
