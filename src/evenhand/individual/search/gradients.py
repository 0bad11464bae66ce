"""Additive networks evaluated on profiles, with exact gradients."""

from __future__ import annotations

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import NotAdditiveError, OptionError
from evenhand.individual.search.space import ProfileSpace
from evenhand.models.additive.cells import is_listed
from evenhand.models.additive.network import AdditiveNetwork, AttributeTerm, LineTerm
from evenhand.models.replies import Reply
from evenhand.models.scorer import Scorer, sigmoid, softmax
from evenhand.models.white_box import extract_white_box
from evenhand.schema.attribute import Attribute


def find_gradients(scorer: Scorer, space: ProfileSpace) -> ProfileNetwork:
    """Return the model as an additive network, which has exact gradients.

    Raises:
        OptionError: The model, such as trees or an endpoint, cannot be read as an additive network.
    """
    try:
        white_box = scorer if isinstance(scorer, AdditiveNetwork) else extract_white_box(scorer)
    except NotAdditiveError:
        white_box = None
    if isinstance(white_box, AdditiveNetwork):
        return ProfileNetwork(white_box, space)
    raise OptionError(
        f"{scorer.name} has no gradients ({type(scorer).__name__}), which this method requires",
        location="`method=`",
        hint="maft estimates them from answers; the default method does not need them",
    )


def _central_difference(attribute: Attribute, term: AttributeTerm, step: float, entries: Floats) -> Floats:
    """Compute central differences over one move at entries (n,), one-sided at the domain's ends, shape (n, width)."""
    above = np.minimum(entries + step, attribute.last)
    below = np.maximum(entries - step, attribute.first)
    return np.asarray((term.at(above) - term.at(below)) / np.maximum(above - below, 1e-300)[:, None])


class ProfileNetwork:
    """Additive network evaluated on profiles, with exact gradients.

    The unprotected part is computed once for all assignments, which is several times faster than the network itself.
    The outputs are equal up to rounding.

    The derivative with respect to an attribute that enters through a table or bins is the central difference of its
    contributions over one move (one-sided at the ends of the domain), which is exact for affine contributions.
    """

    def __init__(self, network: AdditiveNetwork, space: ProfileSpace) -> None:
        self.network = network
        self._layers = [(layer.weights, layer.bias) for layer in network.layers]
        assigned = np.zeros((len(space.assignments), len(network.bias)))
        for i, column in enumerate(space.protected_columns):
            assigned += network.parts[column].at(space.assignments[:, i])
        self._assigned = assigned
        parts = [network.parts[column] for column in space.columns]
        self._lines = np.array([i for i, part in enumerate(parts) if isinstance(part, LineTerm)], dtype=np.int64)
        lines = [part for part in parts if isinstance(part, LineTerm)]
        self._slopes = np.array([part.slope for part in lines]).reshape(len(lines), len(network.bias))
        self._bias = network.bias + sum((part.intercept for part in lines), np.zeros(len(network.bias)))
        self._others = [(i, part) for i, part in enumerate(parts) if not isinstance(part, LineTerm)]
        self._space = space
        self._moved = bool(space.moved)
        attributes = space.attributes
        self._tables = {
            i: _central_difference(attributes[i], part, float(space.step[i]), attributes[i].domain())
            for i, part in self._others
            if is_listed(attributes[i])
        }

    def reply(self, unprotected: Floats, which: Integers | None = None) -> Reply:
        """Compute scores and labels of profiles (n, U), each under one assignment (n,) or under all: (n * A,).

        With ``which=None``, implausible assignments are not substituted.
        """
        if which is None:
            units = (self._profile_units(unprotected)[:, None, :] + self._assigned).reshape(-1, self._assigned.shape[1])
        else:
            units = self._assigned_units(unprotected, which)
        for weights, bias in self._layers:
            np.maximum(units, 0.0, out=units)
            units = units @ weights
            units += bias
        labels = units[:, 0] > 0 if units.shape[1] == 1 else np.argmax(units, axis=1)
        return Reply(_class_probabilities(units), labels.astype(np.int64), False)

    def gradient(self, unprotected: Floats, which: Integers, *, loss: bool) -> Floats:
        """Compute the gradients of profiles (n, U) under assignments (n,), shape (n, U).

        ``loss`` selects the cross-entropy of the predicted label instead of its probability.
        """
        values = self._assigned_units(unprotected, which)
        active = []
        for weights, bias in self._layers:
            active.append(values > 0)
            values = np.where(active[-1], values, 0.0) @ weights + bias
        # Chain rule, backwards: a ReLU passes a derivative on if it is active.
        back = _output_gradient(values, loss=loss)
        for (weights, _), positive in zip(reversed(self._layers), reversed(active), strict=True):
            back = np.where(positive, back @ weights.T, 0.0)
        gradient = np.empty(unprotected.shape)
        gradient[:, self._lines] = back @ self._slopes.T
        for i, part in self._others:
            table, entries = self._tables.get(i), unprotected[:, i]
            if table is not None:
                slopes = table[(entries - self._space.lower[i]).astype(np.int64)]
            else:
                slopes = _central_difference(self._space.attributes[i], part, float(self._space.step[i]), entries)
            gradient[:, i] = (back * slopes).sum(axis=1)
        return gradient

    def _assigned_units(self, unprotected: Floats, which: Integers) -> Floats:
        """Compute the first layer's sums of profiles (n, U) under one assignment each (n,), shape (n, units)."""
        if self._moved:
            unprotected = self._space.rows_as(unprotected, which)[:, self._space.columns]
        return self._profile_units(unprotected) + self._assigned[which]

    def _profile_units(self, unprotected: Floats) -> Floats:
        units: Floats = unprotected[:, self._lines] @ self._slopes + self._bias
        for i, part in self._others:
            units += part.at(unprotected[:, i])
        return units


def _class_probabilities(logits: Floats) -> Floats:
    """Convert logits (n, 1) or (n, classes) to class probabilities, shape (n, classes)."""
    if logits.shape[1] > 1:
        return softmax(logits)
    positive = sigmoid(logits)
    return np.hstack([1 - positive, positive])


def _output_gradient(logits: Floats, *, loss: bool) -> Floats:
    """Differentiate the predicted label's probability or its cross-entropy with respect to logits (n, outputs)."""
    scores = _class_probabilities(logits)
    if logits.shape[1] == 1:
        # d p_1 / d logit = p_0 p_1. The cross-entropy of the predicted label decreases by 1 minus its probability.
        sign = np.where(logits > 0, 1.0, -1.0)
        if loss:
            return np.asarray(-sign * scores.min(axis=1, keepdims=True))
        return np.asarray(sign * scores[:, :1] * scores[:, 1:])
    rows = np.arange(len(logits))
    predicted = np.argmax(logits, axis=1)
    direction = -scores
    direction[rows, predicted] += 1.0
    return np.asarray(-direction if loss else scores[rows, predicted][:, None] * direction)
