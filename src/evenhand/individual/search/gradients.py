"""Additive networks evaluated on profiles, with exact gradients."""

from __future__ import annotations

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import NotAdditiveError, OptionError
from evenhand.individual.search.space import ProfileSpace
from evenhand.models.additive.network import AdditiveNetwork, LineTerm
from evenhand.models.replies import Reply
from evenhand.models.scorer import Scorer, class_probabilities
from evenhand.models.white_box import extract_white_box


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


class ProfileNetwork:
    """Additive network evaluated on profiles, with exact gradients.

    The unprotected part is computed once for all assignments, which is several times faster than the network itself.
    The outputs are equal up to rounding.

    The derivative with respect to an attribute that enters through a table or bins is the central difference of its
    contributions over one move (one-sided at the ends of the domain), which is exact for affine contributions.
    """

    def __init__(self, network: AdditiveNetwork, space: ProfileSpace) -> None:
        self._space, self._layers = space, network.layers
        protected = [network.parts[column] for column in space.protected_columns]
        assigned = (part.at(entries) for part, entries in zip(protected, space.assignments.T, strict=True))
        self._assigned: Floats = sum(assigned, np.zeros((len(space.assignments), len(network.bias))))
        parts = [(i, network.parts[column]) for i, column in enumerate(space.columns)]
        self._others = [(i, part) for i, part in parts if not isinstance(part, LineTerm)]
        lines = [(i, part) for i, part in parts if isinstance(part, LineTerm)]
        self._lines = [i for i, _ in lines]
        self._slopes = np.array([part.slope for _, part in lines]).reshape(len(lines), len(network.bias))
        self._bias = network.bias + sum((part.intercept for _, part in lines), np.zeros(len(network.bias)))

    def reply(self, unprotected: Floats, which: Integers) -> Reply:
        """Compute scores and labels of profiles (n, U) under assignments (n, k), shape (n * k,)."""
        units = self._first_units(unprotected, which)
        for layer in self._layers:
            np.maximum(units, 0.0, out=units)
            units = units @ layer.weights
            units += layer.bias
        labels = units[:, 0] > 0 if units.shape[1] == 1 else np.argmax(units, axis=1)
        return Reply(class_probabilities(units), labels.astype(np.int64), False)

    def gradient(self, unprotected: Floats, which: Integers, *, loss: bool) -> Floats:
        """Compute the gradients of profiles (n, U) under assignments (n,), shape (n, U).

        ``loss`` selects the cross-entropy of the predicted label instead of its probability.
        """
        values = self._first_units(unprotected, which[:, None])
        active = []
        for layer in self._layers:
            active.append(values > 0)
            values = np.where(active[-1], values, 0.0) @ layer.weights + layer.bias
        scores, rows = class_probabilities(values), np.arange(len(values))
        predicted = np.argmax(scores, axis=1)
        # d p_k / d logit_j = p_k ((j == k) - p_j). A single logit is that of the second class.
        back = -scores
        back[rows, predicted] += 1.0
        back *= -1.0 if loss else scores[rows, predicted][:, None]
        back = back[:, -values.shape[1] :]
        # Chain rule, backwards: a ReLU passes a derivative on if it is active.
        for layer, positive in zip(reversed(self._layers), reversed(active), strict=True):
            back = np.where(positive, back @ layer.weights.T, 0.0)
        gradient = np.empty(unprotected.shape)
        gradient[:, self._lines] = back @ self._slopes.T
        for i, part in self._others:
            above, below = (
                np.clip(unprotected[:, i] + step, self._space.lower[i], self._space.upper[i])
                for step in (self._space.step[i], -self._space.step[i])
            )
            rise = (back * (part.at(above) - part.at(below))).sum(axis=1)
            gradient[:, i] = rise / np.maximum(above - below, 1e-300)
        return gradient

    def _first_units(self, unprotected: Floats, which: Integers) -> Floats:
        """Compute the first layer's sums of profiles (n, U) under assignments (n, k), shape (n * k, units)."""
        assigned = self._assigned[which]
        if self._space.moved:
            people = self._space.sides(unprotected, which)
            unprotected = people.reshape(-1, people.shape[2])[:, self._space.columns]
            assigned = assigned.reshape(-1, 1, assigned.shape[2])
        units: Floats = unprotected[:, self._lines] @ self._slopes + self._bias
        for i, part in self._others:
            units += part.at(unprotected[:, i])
        return (units[:, None] + assigned).reshape(-1, assigned.shape[2])
