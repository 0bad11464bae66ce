"""Operations of network graphs of all frameworks, for each type of tensor.

A tensor is a ``LinearTensor`` (a weighted sum of input columns, or of a hidden layer) or an ``OutputTensor``. Its first
axis runs over the rows, and its units are the columns. Weights are plain arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np

from evenhand.errors import NotAdditiveError
from evenhand.models.additive import linear as lin
from evenhand.models.additive.cells import Values
from evenhand.models.additive.linear import LinearTensor, require_units
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.replies import labels_of_outputs
from evenhand.schema.schema import Schema

OutputForm: TypeAlias = Literal["second", "first", "probabilities", "position"]


@dataclass(frozen=True, eq=False)
class OutputTensor:
    """Tensor that is a function of the logits.

    Attributes:
        logits: One unit (the second class wins if it is > 0) or one per class (the largest wins).
        form: ``second`` or ``first``, the probability of that class (two classes), (n, 1); ``probabilities``, (n,
            classes), or their logarithms; ``position`` of the winner.
    """

    logits: LinearTensor
    form: OutputForm


Tensor: TypeAlias = LinearTensor | OutputTensor


COMPLEMENTS: dict[OutputForm, OutputForm] = {"second": "first", "first": "second"}
"""Form of 1 minus the probability of a label."""


def is_weights(value: Any) -> TypeGuard[Values]:
    """Check whether a value is constant across rows."""
    return isinstance(value, np.ndarray)


def _require_columns(axis: int | None) -> None:
    if axis not in (1, -1):
        raise NotAdditiveError("it operates across rows")


def apply_arithmetic(name: str, left: Any, right: Any) -> Tensor:
    """Compute ``Add``, ``Sub``, ``Mul`` or ``Div``."""
    if (
        isinstance(right, OutputTensor)
        and right.form in COMPLEMENTS
        and name == "Sub"
        and np.ravel(left).tolist() == [1]
    ):
        return replace(right, form=COMPLEMENTS[right.form])
    weights = next((side for side in (left, right) if is_weights(side)), None)
    if weights is None:
        if name not in ("Add", "Sub"):
            raise NotAdditiveError("it multiplies or divides attributes by each other")
        other = require_units(right)
        return lin.add_tensors(require_units(left), other if name == "Add" else lin.scale_units(other, -1.0))
    tensor = require_units(left if weights is right else right)
    number = lin.per_unit(weights, tensor.units)
    if name == "Add":
        return lin.scale_units(tensor, 1.0, number)
    if name == "Sub":
        return lin.scale_units(tensor, 1.0, -number) if weights is right else lin.scale_units(tensor, -1.0, number)
    if name == "Mul":
        return lin.scale_units(tensor, number)
    if weights is left or (number == 0).any():
        raise NotAdditiveError("it divides by attributes or by zero")
    return lin.scale_units(tensor, 1 / number)


def batch_normalization(
    value: Any, scale: Values | None, shift: Values | None, mean: Values, variance: Values, epsilon: float
) -> LinearTensor:
    """Compute ``(value - mean) / sqrt(variance + epsilon) * scale + shift`` with training statistics."""
    scale = np.ones(len(mean)) if scale is None else scale
    shift = np.zeros(len(mean)) if shift is None else shift
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    return lin.scale_units(require_units(value), factor, shift - mean.astype(np.float64) * factor)


def bound_tensor(values: Sequence[Any], *, upper: bool) -> LinearTensor:
    """Compute the minimum (``upper``) or maximum of a tensor and a scalar."""
    weights = [value for value in values if is_weights(value)]
    inputs = [value for value in values if not is_weights(value)]
    if len(inputs) != 1 or len(weights) != 1 or np.ptp(weights[0]) != 0:
        raise NotAdditiveError("it does not compare a single tensor with a scalar")
    bound = float(weights[0].reshape(-1)[0])
    return lin.clip_units(inputs[0], *((-np.inf, bound) if upper else (bound, np.inf)))


def cast_tensor(value: Tensor, dtype: Any) -> Tensor:
    """Convert values to another type of floating-point numbers, or positions of labels to any type."""
    is_position = isinstance(value, OutputTensor) and value.form == "position"
    if not is_position and np.dtype(dtype) not in (np.float32, np.float64):
        raise NotAdditiveError(f"it rounds to {np.dtype(dtype)}")
    return value


def reshape(value: Tensor, shape: Sequence[int]) -> Tensor:
    """Change the shape, but keep the axis of the rows.

    Args:
        value: The tensor.
        shape: The number of rows as 0, -1 or 1, then the number of columns, which may be 0 or -1 if it is unchanged.
            The number of columns may be omitted if there is only one.
    """
    if isinstance(value, OutputTensor):
        return value
    units, columns = value.units, list(shape[1:])
    keeps_columns = columns in ([0], [-1], [units]) or (units == 1 and len(shape) == 1)
    if not keeps_columns or shape[0] not in (0, -1, 1):
        raise NotAdditiveError(f"it reshapes rows of {units} columns to {tuple(shape)}")
    return value


def require_single(value: Tensor) -> Tensor:
    """Check that a tensor is a single column or an output, for which axes of length 1 do not matter."""
    if isinstance(value, OutputTensor) or value.units == 1:
        return value
    raise NotAdditiveError("it inserts or removes an axis of several columns")


def concatenate(values: Sequence[Any], axis: int) -> Tensor:
    """Concatenate columns."""
    _require_columns(axis)
    forms = [value.form for value in values if isinstance(value, OutputTensor)]
    if forms == ["first", "second"] and len(values) == 2 and values[0].logits is values[1].logits:
        return OutputTensor(values[0].logits, "probabilities")
    return lin.join_tensors([require_units(value) for value in values])


def select_columns(value: Tensor, axis: int, places: Values) -> Tensor:
    """Select columns."""
    _require_columns(axis)
    columns = [int(place) for place in places.reshape(-1)]
    if not isinstance(value, OutputTensor):
        return lin.select_units(value, columns)
    logits = value.logits
    if value.form != "probabilities" or logits.units > 2 or columns not in ([0], [1], [-1], [-2]):
        raise NotAdditiveError("it selects some of several outputs")
    if logits.units == 2:
        logits = lin.add_tensors(lin.select_units(logits, [1]), lin.scale_units(lin.select_units(logits, [0]), -1.0))
    return OutputTensor(logits, "second" if columns[0] in (1, -1) else "first")


def argmax(value: Tensor, axis: int) -> OutputTensor:
    """Find the position of the largest score, or of the first if there are ties."""
    _require_columns(axis)
    if isinstance(value, OutputTensor) and value.form == "probabilities":
        return replace(value, form="position")
    logits = require_units(value)
    if logits.units < 2:
        raise NotAdditiveError("the largest of a single score is always the same")
    return OutputTensor(logits, "position")


def sigmoid(value: Any) -> OutputTensor:
    """Compute the probability of the second of two labels."""
    logits = require_units(value)
    if logits.units != 1:
        raise NotAdditiveError(
            f"a sigmoid of {logits.units} units is not supported: a hidden layer must be ReLU, and as output it "
            f"predicts {logits.units} binary labels instead of one label"
        )
    return OutputTensor(logits, "second")


def softmax(value: Any, axis: int) -> OutputTensor:
    """Compute one probability per label, or its logarithm."""
    _require_columns(axis)
    logits = require_units(value)
    if logits.units < 2:
        raise NotAdditiveError("a softmax over a single output is always 1")
    return OutputTensor(logits, "probabilities")


def check_ending(output: Tensor, kind: str, *, name: str) -> None:
    """Check that a single output ends in a sigmoid if and only if it is interpreted as a probability.

    A network's decision uses its logits. Without a sigmoid, the output itself would have to be compared with 1/2.

    Raises:
        NotAdditiveError: the interpretation does not match.
    """
    single = output.units == 1 if isinstance(output, LinearTensor) else output.form in ("second", "first")
    if not single or isinstance(output, OutputTensor) == (kind in ("probability", "labels")):
        return
    ends = "a sigmoid" if isinstance(output, OutputTensor) else "no sigmoid"
    raise NotAdditiveError(
        f"its output is computed by {ends}, and it is read as {'labels' if kind == 'labels' else f'a {kind}'}",
        location=name,
    )


def network_from_outputs(
    outputs: Sequence[Tensor],
    schema: Schema,
    *,
    name: str,
    kind: str | None = None,
) -> AdditiveNetwork:
    """Build the additive network of a model's outputs, which must all depend on the same logits.

    Args:
        outputs: Logits, probabilities or positions of labels.
        schema: Schema of the inputs.
        name: Name in reports.
        kind: Meaning of the outputs, as in ``evenhand.models.outputs``. If None, it is inferred from the last
            operation.

    Raises:
        ModelError: the number of outputs does not fit the schema's target.
        NotAdditiveError: the outputs depend on different logits, or a single output is not computed as interpreted.
    """
    answers = [out for out in outputs if isinstance(out, OutputTensor)]
    if kind is not None and len(outputs) == 1:
        check_ending(outputs[0], kind, name=name)
    logits = answers[0].logits if answers else outputs[0]
    if not isinstance(logits, LinearTensor):
        raise NotAdditiveError("the model returns no scores", location=name)
    for out in outputs:
        if (out.logits if isinstance(out, OutputTensor) else out) is not logits:
            raise NotAdditiveError("the model's outputs do not depend on the same logits", location=name)
    if len(outputs) == 1 and any(answer.form == "first" for answer in answers):
        logits = lin.scale_units(logits, -1.0)
    classes, favourable = labels_of_outputs(schema, logits.units, location=name)
    return lin.build_network(schema, logits, classes, favourable, name=name)
