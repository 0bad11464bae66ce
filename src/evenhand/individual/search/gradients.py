"""Gradients of white boxes: of an additive network by hand, of a PyTorch module by autograd."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import NotAdditiveError, OptionError
from evenhand.individual.search.space import ProfileSpace
from evenhand.models.additive.cells import is_listed
from evenhand.models.additive.network import AdditiveNetwork, AttributeTerm, LineTerm
from evenhand.models.scorer import Scorer, ask_in_batches
from evenhand.models.white_box import extract_white_box
from evenhand.schema.attribute import Attribute


class Gradients(Protocol):
    """How the predicted label's probability, or its cross-entropy, changes along every unprotected attribute."""

    def gradient(self, unprotected: Floats, which: Integers, *, loss: bool) -> Floats:
        """Of profiles (n, U), each under one assignment (n,): shape (n, U)."""
        ...


def find_gradients(scorer: Scorer, space: ProfileSpace, inside: ProfileNetwork | None) -> Gradients:
    """Return what gives a model's gradients.

    Args:
        inside: where the model is an additive network itself.

    Raises:
        OptionError: the model has none, such as trees or an endpoint.
    """
    if inside is not None:
        return inside
    if isinstance(scorer, AdditiveNetwork):
        return ProfileNetwork(scorer, space)
    try:
        network = extract_white_box(scorer)
        if isinstance(network, AdditiveNetwork):
            return ProfileNetwork(network, space)
    except NotAdditiveError:
        pass  # a PyTorch module has gradients whatever it is made of
    if type(scorer).__name__ == "TorchModule":
        return TorchGradients(scorer, space)
    raise OptionError(
        f"{scorer.name} has no gradients ({type(scorer).__name__}), and this method climbs along them",
        location="`method=`",
        hint="maft estimates them from answers alone; the default method needs none",
    )


class TorchGradients:
    """Gradients by autograd, one backward pass for the whole batch; the module is asked in evaluation mode."""

    def __init__(self, scorer: Any, space: ProfileSpace) -> None:
        self._scorer = scorer
        self._space = space

    def gradient(self, unprotected: Floats, which: Integers, *, loss: bool) -> Floats:
        """As ``Gradients`` says."""
        rows = self._space.rows_as(unprotected, which)
        by_input = ask_in_batches(
            lambda inputs: self._input_derivatives(inputs, loss=loss),
            self._scorer.schema.inputs(rows),
            self._scorer.rows,
        )
        return self._attribute_derivatives(by_input, rows)

    def _input_derivatives(self, inputs: Floats, *, loss: bool) -> Floats:
        """Return derivatives by the inputs (n, width), shape (n, width)."""
        import torch

        from evenhand.models.blackbox.torch_module import evaluation_mode, input_type

        kind, device = input_type(self._scorer.source)
        taken = torch.as_tensor(inputs, dtype=kind, device=device).requires_grad_(True)
        with evaluation_mode(self._scorer.run):
            outputs = self._scorer.run(taken)
        outputs = outputs[0] if isinstance(outputs, tuple | list) else outputs
        outputs = outputs.reshape(len(inputs), -1).to(torch.float64)
        probable = self._scorer.reading.kind == "probability"
        if outputs.shape[1] == 1:
            positive = outputs[:, 0] if probable else torch.sigmoid(outputs[:, 0])
            scores = torch.stack([1 - positive, positive], dim=1)
        else:
            scores = outputs if probable else torch.softmax(outputs, dim=1)
        predicted = scores.max(dim=1).values
        wanted = -torch.log(predicted) if loss else predicted
        (found,) = torch.autograd.grad(wanted.sum(), taken)
        return np.asarray(found.to("cpu", torch.float64).numpy())

    def _attribute_derivatives(self, by_input: Floats, rows: Floats) -> Floats:
        """Return derivatives by the inputs (n, width) as derivatives by the unprotected entries (n, U)."""
        starts = np.concatenate([[0], np.cumsum([attribute.width for attribute in self._space.schema.attributes])])
        gradient = np.empty((len(rows), self._space.width))
        for i, column in enumerate(self._space.columns):
            attribute = self._space.attributes[i]
            rises = _numeric_rise(attribute, float(self._space.step[i]), rows[:, column])
            gradient[:, i] = (by_input[:, starts[column] : starts[column + 1]] * rises).sum(axis=1)
        return gradient


def _numeric_rise(attribute: Attribute, step: float, entries: Floats) -> Floats:
    """Return how an attribute's inputs change around entries (n,), shape (n, width)."""
    above = np.minimum(entries + step, attribute.last)
    below = np.maximum(entries - step, attribute.first)
    return np.asarray((attribute.inputs(above) - attribute.inputs(below)) / np.maximum(above - below, 1e-300)[:, None])


# An additive network asked about profiles: the unprotected part is computed once for all assignments; gradients.


class ProfileNetwork:
    """The same answers as the network's, up to rounding, several times faster; and exact gradients.

    The derivative along an attribute that enters by a table or by bins is the central difference of its
    contributions over one move to each side (one-sided at the domain's ends), which is exact where they are affine.
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
        self._all_lines = len(self._lines) == len(parts)
        lines = [part for part in parts if isinstance(part, LineTerm)]
        self._slopes = np.array([part.slope for part in lines]).reshape(len(lines), len(network.bias))
        self._bias = network.bias + sum((part.intercept for part in lines), np.zeros(len(network.bias)))
        self._others = [(i, part) for i, part in enumerate(parts) if not isinstance(part, LineTerm)]
        self._space = space
        self._moved = bool(space.moved)
        self._tables = {
            i: _unit_slopes(space.attributes[i], part, float(space.step[i]))
            for i, part in self._others
            if is_listed(space.attributes[i])
        }

    def logits(self, unprotected: Floats) -> Floats:
        """Return the outputs for profiles (n, U) under every assignment or its stand-in, shape (n, A, outputs)."""
        if self._space.varies:
            which = self._space.substitutes(unprotected)
            repeated = np.repeat(unprotected, which.shape[1], axis=0)
            return self.logits_at(repeated, which.ravel()).reshape(*which.shape, -1)
        units = self._profile_units(unprotected)[:, None, :] + self._assigned
        values = units.reshape(-1, units.shape[2])
        for weights, bias in self._layers:
            np.maximum(values, 0.0, out=values)
            values = values @ weights
            values += bias
        return values.reshape(len(unprotected), len(self._assigned), -1)

    @property
    def lines(self) -> Booleans:
        """Which unprotected attributes enter affinely, so that there are answers between whole numbers, shape (U,)."""
        return np.isin(np.arange(self._space.width), self._lines)

    def logits_at(self, unprotected: Floats, which: Integers) -> Floats:
        """Return the outputs for profiles (n, U) under one assignment each (n,), shape (n, outputs)."""
        values = self._assigned_units(unprotected, which)
        for weights, bias in self._layers:
            values = np.maximum(values, 0.0) @ weights + bias
        return np.asarray(values)

    def gradient(self, unprotected: Floats, which: Integers, *, loss: bool) -> Floats:
        """Return derivatives along the unprotected attributes of profiles (n, U) under assignments (n,), shape (n, U).

        Args:
            loss: of the cross-entropy of the predicted label; else of its probability.
        """
        values = self._assigned_units(unprotected, which)
        active = []
        for weights, bias in self._layers:
            active.append(values > 0)
            values = np.where(active[-1], values, 0.0) @ weights + bias
        # The chain rule, backwards: a ReLU passes a derivative on where it is on.
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
                rises = _part_rise(self._space.attributes[i], part, float(self._space.step[i]), entries)
            gradient[:, i] = (back * rises).sum(axis=1)
        return gradient

    def _assigned_units(self, unprotected: Floats, which: Integers) -> Floats:
        """Return the first layer's sums of profiles (n, U) under one assignment each (n,), shape (n, units)."""
        if self._moved:
            unprotected = self._space.rows_as(unprotected, which)[:, self._space.columns]
        return self._profile_units(unprotected) + self._assigned[which]

    def _profile_units(self, unprotected: Floats) -> Floats:
        if self._all_lines:
            return np.asarray(unprotected @ self._slopes + self._bias)
        units: Floats = unprotected[:, self._lines] @ self._slopes + self._bias
        for i, part in self._others:
            units += part.at(unprotected[:, i])
        return units


def class_probabilities(logits: Floats) -> Floats:
    """Return class probabilities from logits (..., 1) or (..., classes), shape (..., classes)."""
    if logits.shape[-1] == 1:
        positive = 1 / (1 + np.exp(-np.clip(logits, -700, 700)))
        return np.concatenate([1 - positive, positive], axis=-1)
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def labels_from_logits(logits: Floats) -> Integers:
    """Return the labels from logits (..., 1) or (..., classes), as an additive network decides, shape (...)."""
    if logits.shape[-1] == 1:
        return np.asarray(logits[..., 0] > 0, dtype=np.int64)
    return np.asarray(np.argmax(logits, axis=-1), dtype=np.int64)


def _output_gradient(logits: Floats, *, loss: bool) -> Floats:
    """Return derivative of the predicted label's probability, or of its cross-entropy, by the logits (n, outputs)."""
    scores = class_probabilities(logits)
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


def _unit_slopes(attribute: Attribute, part: AttributeTerm, step: float) -> Floats:
    return _part_rise(attribute, part, step, attribute.domain())


def _part_rise(attribute: Attribute, part: AttributeTerm, step: float, entries: Floats) -> Floats:
    """Return the central difference of an attribute's contributions at entries (n,), shape (n, units)."""
    above = np.minimum(entries + step, attribute.last)
    below = np.maximum(entries - step, attribute.first)
    return np.asarray((part.at(above) - part.at(below)) / np.maximum(above - below, 1e-300)[:, None])
