"""Additive networks: a sum of one function per attribute, followed by affine and ReLU layers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError
from evenhand.models.scorer import class_probabilities, refuse_missing
from evenhand.schema.attribute import AffineEncoding, Attribute, Value
from evenhand.schema.schema import Schema

CURVE_PLACES = 257
"""Number of curve points included in the fingerprint of a network."""


@dataclass(frozen=True)
class TableTerm:
    """One row per value of a finite attribute. ``rows`` has shape (size, units)."""

    rows: Floats
    first: float

    def at(self, entries: Floats) -> Floats:
        """Compute the contributions of entries (n,) to the units, shape (n, units)."""
        return self.rows.take((entries - self.first).astype(np.int64), axis=0)  # faster than an index of few columns


@dataclass(frozen=True)
class LineTerm:
    """Numeric term ``slope * entry + intercept``. Slope and intercept have shape (units,)."""

    slope: Floats
    intercept: Floats

    def at(self, entries: Floats) -> Floats:
        """Compute the contributions of entries (n,) to the units, shape (n, units)."""
        return entries[:, None] * self.slope + self.intercept


@dataclass(frozen=True)
class StepTerm:
    """Binned numeric term. Bin i holds ``cuts[i-1] <= entry < cuts[i]``.

    ``cuts`` has shape (bins - 1,), increasing; ``rows`` has shape (bins, units).
    """

    cuts: Floats
    rows: Floats

    def at(self, entries: Floats) -> Floats:
        """Compute the contributions of entries (n,) to the units, shape (n, units)."""
        return self.rows[np.searchsorted(self.cuts, entries, side="right")]


@dataclass(frozen=True, eq=False)
class MonotoneCurve:
    """Increasing function of a number with too many values to enumerate, as computed by the model.

    Attributes:
        computed: Function from entries (n,) to values (n,), with the model's rounding.
        low, high: Ends of the domain.
        error: Maximum distance between the computed values and a non-decreasing function. Library logarithms and powers
            have errors of a few units in the last place, so computed values may fall where exact ones rise.
    """

    computed: Callable[[Floats], Floats]
    low: float
    high: float
    error: float

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Values at the ends of the domain."""
        low, high = self.computed(np.array([self.low, self.high]))
        return float(low), float(high)


@dataclass(frozen=True)
class CurveTerm:
    """Numeric term of monotone curves, such as a logarithm: ``sum_k curve_k(entry) * rows[k]``.

    ``rows`` has shape (curves, units).
    """

    curves: tuple[MonotoneCurve, ...]
    rows: Floats

    def values(self, entries: Floats) -> Floats:
        """Compute the curves at entries (n,), shape (n, curves)."""
        return np.stack([curve.computed(entries) for curve in self.curves], axis=1)

    def at(self, entries: Floats) -> Floats:
        """Compute the contributions of entries (n,) to the units, shape (n, units)."""
        return np.asarray(self.values(entries) @ self.rows)

    def size(self) -> Floats:
        """Bound the absolute contributions to the units, shape (units,)."""
        reach = [max(map(abs, curve.ends)) + 2 * curve.error for curve in self.curves]
        return np.asarray(np.array(reach) @ np.abs(self.rows))


AttributeTerm: TypeAlias = TableTerm | LineTerm | StepTerm | CurveTerm


@dataclass(frozen=True)
class AffineLayer:
    """``x @ weights + bias``: weights (inputs, outputs), bias (outputs,)."""

    weights: Floats
    bias: Floats


@dataclass(frozen=True)
class AdditiveNetwork:
    """``z = bias + sum_i parts[i](x_i)``, then ReLU before every further affine layer; the last computes the logits.

    The parts contain the preprocessing that acts on one attribute at a time (scaling, one-hot, bins).
    Without ``layers`` it is a (logistic) linear model, and z are the logits. A single logit predicts ``classes[1]`` if
    it is > 0, else ``classes[0]``. With one logit per class, the largest wins; ties are resolved in favour of the
    first. A regressor has no ``classes``, and its single output is the number.

    Attributes:
        schema: Schema of the inputs.
        parts: One term per attribute, in order.
        bias: Bias of the first units, shape (first units,).
        layers: Affine maps after the first, each applied to the ReLU of the previous units.
        classes: Labels in the order of the outputs.
        favourable: Position of the favourable label in ``classes``.
        name: Name in reports.
        caution: Assumptions about its outputs, for reports.

    Raises:
        ModelError: the numbers do not form a network over this schema.
    """

    schema: Schema
    parts: tuple[AttributeTerm, ...]
    bias: Floats
    layers: tuple[AffineLayer, ...]
    classes: tuple[Value, ...]
    favourable: int
    name: str = "network"
    caution: str = ""
    label_only: bool = field(default=False, init=False)

    is_white_box: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if len(self.parts) != len(self.schema.attributes):
            raise ModelError(
                f"expected {len(self.schema.attributes)} parts, one per attribute, got {len(self.parts)}",
                location=self.name,
            )
        for attribute, part in zip(self.schema.attributes, self.parts, strict=True):
            _check_term(attribute, part, len(self.bias), self.name)
        width = len(self.bias)
        for i, layer in enumerate(self.layers):
            if layer.weights.shape[0] != width or layer.weights.shape[1] != len(layer.bias):
                raise ModelError(
                    f"layer {i + 2} has weights {layer.weights.shape} and {len(layer.bias)} biases after {width} units",
                    location=self.name,
                )
            width = len(layer.bias)
        number = not self.classes
        if width != (1 if number or len(self.classes) == 2 else len(self.classes)) and width != len(self.classes):
            labels = "a number" if number else f"the {len(self.classes)} labels {self.classes}"
            raise ModelError(f"{width} outputs for {labels}", location=self.name)
        if not number and not 0 <= self.favourable < len(self.classes):
            raise ModelError(f"favourable label {self.favourable} of {len(self.classes)}", location=self.name)
        arrays = [self.bias, *(a for layer in self.layers for a in (layer.weights, layer.bias))]
        if not all(np.isfinite(array).all() for array in arrays):
            raise ModelError("some weights are NaN or infinite", location=self.name)

    @cached_property
    def hidden(self) -> tuple[int, ...]:
        """Number of units of each hidden (ReLU) layer."""
        return tuple(layer.weights.shape[0] for layer in self.layers)

    def first(self, individuals: Floats) -> Floats:
        """Compute the first pre-activation of individuals (n, attributes), shape (n, first units)."""
        total = np.tile(self.bias, (len(individuals), 1))
        for i, part in enumerate(self.parts):
            total += part.at(individuals[:, i])
        return total

    def logits(self, individuals: Floats) -> Floats:
        """Compute the outputs before sigmoid or softmax, in float64, shape (n, 1) or (n, classes)."""
        refuse_missing(individuals, self.name)
        units = self.first(individuals)
        for layer in self.layers:
            units = np.maximum(units, 0.0) @ layer.weights + layer.bias
        return units

    def scores(self, individuals: Floats) -> Floats:
        """Compute class probabilities (sigmoid or softmax of the logits), shape (n, classes)."""
        return class_probabilities(self.logits(individuals))

    def predict(self, individuals: Floats) -> Integers:
        """Predict the labels as positions in ``classes``, shape (n,)."""
        logits = self.logits(individuals)
        if logits.shape[1] == 1:
            return np.asarray(logits[:, 0] > 0, dtype=np.int64)
        return np.asarray(np.argmax(logits, axis=1), dtype=np.int64)

    def predict_numbers(self, individuals: Floats) -> Floats:
        """Predict a number for each individual, shape (n,).

        Raises:
            ModelError: the model predicts labels.
        """
        require_numbers(self.classes, self.name)
        return self.logits(individuals)[:, 0]


def require_numbers(classes: Sequence[Value], name: str) -> None:
    """Raise a ModelError if a model predicts labels instead of numbers."""
    if classes:
        labels = ", ".join(str(label) for label in classes)
        raise ModelError(f"the model predicts labels ({labels}), but the target is a number", location=name)


def _check_term(attribute: Attribute, part: AttributeTerm, units: int, name: str) -> None:
    location = f"{name}, attribute {attribute.name!r}"
    if isinstance(part, TableTerm) and (len(part.rows) != attribute.size or part.first != attribute.first):
        raise ModelError(f"{len(part.rows)} table rows for {attribute.size} values", location=location)
    if isinstance(part, StepTerm) and (len(part.rows) != len(part.cuts) + 1 or np.any(np.diff(part.cuts) <= 0)):
        raise ModelError(f"{len(part.rows)} bins need {len(part.rows) - 1} increasing cuts", location=location)
    if isinstance(part, LineTerm) and attribute.is_discrete:
        raise ModelError("a line for an attribute that is not a number", location=location)
    numbers = (part.slope, part.intercept) if isinstance(part, LineTerm) else (part.rows,)
    if any(array.shape[-1] != units for array in numbers):
        raise ModelError(f"shape {numbers[0].shape} for {units} units", location=location)
    if not all(np.isfinite(array).all() for array in numbers):
        raise ModelError("some weights are NaN or infinite", location=location)


def plain_line(attribute: Attribute) -> tuple[float, float]:
    """Compute the slope and intercept of an integer or real attribute's numeric encoding."""
    if isinstance(attribute.encoding, AffineEncoding):
        return 1 / attribute.encoding.scale, -attribute.encoding.offset / attribute.encoding.scale
    return 1.0, 0.0


def check_width(width: int, schema: Schema, *, location: str) -> None:
    """Raise a ModelError if a model's number of inputs does not match the schema."""
    if width != schema.width:
        raise ModelError(
            f"the model takes {width} inputs, but the schema's {len(schema.attributes)} attributes have {schema.width}",
            location=location,
            hint="describe every input of the model in the schema, in its order, with the right encoding",
        )


def network_from_dense(
    schema: Schema,
    layers: list[tuple[Floats, Floats]],
    *,
    classes: tuple[Value, ...] | None = None,
    favourable: int = 1,
    name: str = "network",
) -> AdditiveNetwork:
    """Convert a dense ReLU network over encoded attributes to an additive network.

    Args:
        schema: Schema of the inputs. Their number must match the first layer.
        layers: Weights (inputs, outputs) and bias (outputs,) of each layer, with ReLU between the layers.
        classes: Labels in the order of the outputs. Default: (unfavourable, favourable); none for a numeric target.
        favourable: Position of the favourable label in ``classes``.
        name: Name in reports.

    Raises:
        ModelError: the schema has a different number of inputs.
    """
    weights, bias = (np.asarray(array, dtype=np.float64) for array in layers[0])
    check_width(len(weights), schema, location=name)
    parts: list[AttributeTerm] = []
    start = 0
    for attribute in schema.attributes:
        block = weights[start : start + attribute.width]
        start += attribute.width
        if attribute.kind in ("integer", "real"):
            slope, intercept = plain_line(attribute)
            parts.append(LineTerm(slope=slope * block[0], intercept=intercept * block[0]))
        else:
            parts.append(TableTerm(rows=attribute.inputs(attribute.domain()) @ block, first=attribute.first))
    return AdditiveNetwork(
        schema=schema,
        parts=tuple(parts),
        bias=bias,
        layers=tuple(AffineLayer(*(np.asarray(array, dtype=np.float64) for array in layer)) for layer in layers[1:]),
        classes=(() if schema.target.is_number else binary_labels(schema)) if classes is None else classes,
        favourable=favourable,
        name=name,
    )


def binary_labels(schema: Schema) -> tuple[Value, Value]:
    """List the labels (unfavourable, favourable) of a two-label target.

    Raises:
        ModelError: the target has more than two labels.
    """
    favourable = schema.target.favourable
    values = schema.target.values
    if values is None:
        return f"not {favourable}", favourable
    unfavourable = [value for value in values if value != favourable]
    if len(unfavourable) != 1:
        raise ModelError(
            f"the network has one logit, but the target has {len(values)} labels",
            hint="list the model's two labels in the schema's target, or use a model with one output per label",
        )
    return unfavourable[0], favourable


# Machine-independent fingerprint of the exact numbers of a network.


def network_fingerprint(network: AdditiveNetwork) -> str:
    """Compute the SHA-256 of everything that a network's predictions depend on, in hexadecimal.

    The digest covers the following items, each prefixed with its length or shape: name, kind and domain of every
    attribute; kind and numbers of its part; the first bias; weights and bias of every layer; the labels. Numbers are
    little-endian IEEE float64, so changing a single bit of a weight changes the digest. It does not cover the use of an
    attribute (protected or not) or the model's name.
    """
    state = hashlib.sha256(b"evenhand additive network 1\n")
    for attribute, part in zip(network.schema.attributes, network.parts, strict=True):
        hash_attribute(state, attribute)
        hash_text(state, type(part).__name__)
        for array in term_arrays(part):
            hash_numbers(state, array)
    hash_numbers(state, network.bias)
    for layer in network.layers:
        hash_numbers(state, layer.weights)
        hash_numbers(state, layer.bias)
    hash_text(state, list(network.classes))
    return state.hexdigest()


def term_arrays(part: AttributeTerm) -> list[Floats]:
    """List the arrays that define a term. A curve is given by its values at evenly spaced points, to nine digits."""
    if isinstance(part, LineTerm):
        return [part.slope, part.intercept]
    if isinstance(part, StepTerm):
        return [part.cuts, part.rows]
    if isinstance(part, CurveTerm):
        places = np.linspace(part.curves[0].low, part.curves[0].high, CURVE_PLACES)
        return [np.array([float(f"{value:.9g}") for value in part.values(places).ravel()]), part.rows]
    return [part.rows, np.array([part.first])]


def hash_attribute(state: hashlib._Hash, attribute: Attribute) -> None:
    """Add the name, kind and domain of an attribute to a digest."""
    hash_text(state, [attribute.name, attribute.kind, attribute.values, attribute.first.hex(), attribute.last.hex()])


def hash_text(state: hashlib._Hash, value: object) -> None:
    """Add a value to a digest, as JSON prefixed with its length."""
    encoded = json.dumps(value).encode()
    state.update(len(encoded).to_bytes(8, "little") + encoded)


def hash_numbers(state: hashlib._Hash, array: Floats) -> None:
    """Add the shape and numbers of an array to a digest, as little-endian float64."""
    hash_text(state, list(array.shape))
    state.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
