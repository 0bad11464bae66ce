"""What each ONNX operator does, in terms of `tensors`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from evenhand.errors import NotAdditiveError
from evenhand.models import answer as answers
from evenhand.models import cells as cell
from evenhand.models import linear as lin
from evenhand.models import tensors
from evenhand.models.answer import Answer
from evenhand.models.cells import Values
from evenhand.models.linear import Linear
from evenhand.models.tensors import Tensor


@dataclass(frozen=True)
class Node:
    """One operator with its settings and the values it is applied to; an input that is left out is None."""

    operator: str
    settings: dict[str, Any]
    inputs: list[Any]

    def weights(self, position: int) -> Values | None:
        """An input that must be the same for everybody; None where it is left out."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is not None and not tensors.is_weights(value):
            raise NotAdditiveError("it takes from the person what must be the same for everybody")
        return value

    def needed(self, position: int) -> Values:
        """An input that must be there and the same for everybody."""
        value = self.weights(position)
        if value is None:
            raise ValueError(f"input {position + 1} is missing")
        return value

    def setting(self, name: str, position: int, default: Any = None) -> Any:
        """A setting that is an attribute in older models and an input in newer ones."""
        given = self.weights(position)
        return self.settings.get(name, default) if given is None else given.tolist()


Operator: TypeAlias = Callable[[Node], Tensor | tuple[Tensor | None, ...]]
OPERATORS: dict[str, Operator] = {}


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Register what reads these operators."""

    def register(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return register


@operator("Add", "Sub", "Mul", "Div")
def _arithmetic(node: Node) -> Tensor:
    return tensors.arithmetic(node.operator, *node.inputs)


@operator("Neg")
def _negative(node: Node) -> Tensor:
    return tensors.arithmetic("Mul", node.inputs[0], np.array(-1, dtype=np.int8))


@operator("MatMul")
def _product(node: Node) -> Tensor:
    return tensors.affine(node.inputs[0], node.needed(1))


@operator("Gemm")
def _gemm(node: Node) -> Tensor:
    if node.settings.get("transA", 0):
        raise NotAdditiveError("it turns people into columns")
    weights = node.needed(1).T if node.settings.get("transB", 0) else node.needed(1)
    bias = node.weights(2)
    return tensors.affine(
        node.inputs[0],
        node.settings.get("alpha", 1.0) * weights,
        None if bias is None else node.settings.get("beta", 1.0) * bias,
    )


@operator("BatchNormalization")
def _batch_normalization(node: Node) -> Tensor:
    if node.settings.get("training_mode", 0):
        raise NotAdditiveError("it is in training mode: what it answers depends on who else is asked about")
    scale, shift, mean, variance = (node.needed(i) for i in range(1, 5))
    return tensors.batch_normalization(node.inputs[0], scale, shift, mean, variance, node.settings.get("epsilon", 1e-5))


@operator("Relu")
def _relu(node: Node) -> Tensor:
    return tensors.relu(node.inputs[0])


@operator("Clip")
def _clip(node: Node) -> Tensor:
    return tensors.clip(node.inputs[0], node.setting("min", 1, -np.inf), node.setting("max", 2, np.inf))


@operator("Identity")
def _unchanged(node: Node) -> tuple[Tensor | None, ...]:
    return (node.inputs[0],)


@operator("Dropout")
def _dropout(node: Node) -> tuple[Tensor | None, ...]:
    training = node.weights(2)
    if training is not None and training.any():
        raise NotAdditiveError("it is in training mode: what it answers is random")
    return (node.inputs[0], None)


@operator("Cast")
def _cast(node: Node) -> Tensor:
    from onnx import TensorProto, helper

    kind = node.settings["to"]
    return tensors.cast(node.inputs[0], str if kind == TensorProto.STRING else helper.tensor_dtype_to_np_dtype(kind))


@operator("Shape")
def _shape(node: Node) -> Tensor:
    value = tensors.about_people(node.inputs[0])
    inner = [value.units] if isinstance(value, Linear) else list(value.shape)
    # -1 stands for the number of people, as it does where the shape is used again.
    return np.array([-1, *inner][node.settings.get("start", 0) : node.settings.get("end", None)], dtype=np.int64)


@operator("Reshape")
def _reshape(node: Node) -> Tensor:
    return tensors.reshape(node.inputs[0], [int(size) for size in node.setting("shape", 1, [])])


@operator("Flatten")
def _flatten(node: Node) -> Tensor:
    if node.settings.get("axis", 1) != 1:
        raise NotAdditiveError("it puts people side by side")
    return tensors.reshape(node.inputs[0], [0, -1])


@operator("Squeeze")
def _squeeze(node: Node) -> Tensor:
    return tensors.squeeze(node.inputs[0], node.setting("axes", 1))


@operator("Unsqueeze")
def _unsqueeze(node: Node) -> Tensor:
    return tensors.unsqueeze(node.inputs[0], node.setting("axes", 1, []))


@operator("Concat", "FeatureVectorizer")
def _concatenate(node: Node) -> Tensor:
    return tensors.concatenate(node.inputs, node.settings.get("axis", 1))


@operator("Gather")
def _gather(node: Node) -> Tensor:
    table, axis = node.inputs[0], node.settings.get("axis", 0)
    if not tensors.is_weights(table):
        return tensors.pick(table, node.needed(1), axis)
    if axis != 0:
        raise NotAdditiveError("it looks up columns instead of rows")
    return tensors.look_up(table, node.inputs[1])


@operator("ArrayFeatureExtractor")
def _extract(node: Node) -> Tensor:
    if isinstance(node.inputs[1], Answer):
        return tensors.look_up(node.needed(0), node.inputs[1])
    return tensors.pick(node.inputs[0], node.needed(1).reshape(-1), -1)


@operator("Slice")
def _slice(node: Node) -> Tensor:
    value: Tensor = node.inputs[0]
    starts, ends = node.setting("starts", 1), node.setting("ends", 2)
    axes = node.setting("axes", 3) or list(range(len(starts)))
    steps = node.setting("steps", 4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        value = tensors.cut(value, axis, start, end, step)
    return value


_COMPARISONS: dict[str, Callable[[Values, Values], Values]] = {
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
}


@operator(*_COMPARISONS)
def _compare(node: Node) -> Tensor:
    return tensors.compare(_COMPARISONS[node.operator], *node.inputs)


_PER_VALUE: dict[str, Callable[..., Values]] = {
    "Abs": np.abs,
    "And": np.logical_and,
    "Equal": np.equal,
    "Exp": np.exp,
    "Log": np.log,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Sqrt": np.sqrt,
    "Where": np.where,
}


@operator(*_PER_VALUE)
def _per_value(node: Node) -> Tensor:
    return tensors.per_value(_PER_VALUE[node.operator], node.inputs)


@operator("OneHot")
def _one_hot(node: Node) -> Tensor:
    if node.settings.get("axis", -1) != -1:
        raise NotAdditiveError("its categories are not on the last axis")
    depth, values = node.needed(1), node.needed(2)
    return tensors.one_hot(node.inputs[0], int(depth.reshape(-1)[0]), values[:1], values[1:2])


@operator("OneHotEncoder")
def _one_hot_encoder(node: Node) -> Tensor:
    words = node.settings.get("cats_strings")
    categories = np.array(words if words else node.settings.get("cats_int64s", []))

    def columns(values: Values) -> tuple[Values, ...]:
        values = values.astype(str if words else np.int64)
        unknown = ~np.isin(values, categories)
        if unknown.any() and not node.settings.get("zeros", 1):
            raise NotAdditiveError(f"it refuses the value {values[unknown][0].item()!r}, which lies in the domain")
        return tuple((values == category).astype(np.float32) for category in categories)

    return cell.expand(columns, tensors.unmixed(node.inputs[0]))


@operator("LabelEncoder")
def _label_encoder(node: Node) -> Tensor:
    keys, values = _listing(node.settings, "keys"), _listing(node.settings, "values")
    default = _default(node.settings, values)
    table = dict(zip(keys.tolist(), values.tolist(), strict=True))

    def encode(given: Values) -> Values:
        given = given.astype(str if keys.dtype.kind == "U" else keys.dtype)
        return np.array([table.get(value, default) for value in given.tolist()], dtype=values.dtype)

    return cell.elementwise(encode, tensors.unmixed(node.inputs[0]))


def _listing(settings: dict[str, Any], side: str) -> Values:
    if f"{side}_tensor" in settings:
        return np.asarray(settings[f"{side}_tensor"]).reshape(-1)
    for kind, dtype in (("strings", str), ("int64s", np.int64), ("floats", np.float32)):
        if f"{side}_{kind}" in settings:
            return np.array(settings[f"{side}_{kind}"], dtype=dtype)
    raise ValueError(f"it has no {side}")


def _default(settings: dict[str, Any], values: Values) -> Any:
    if "default_tensor" in settings:
        return settings["default_tensor"].reshape(-1)[0].item()
    if values.dtype.kind == "U":
        return settings.get("default_string", "_Unused")
    return settings.get("default_int64", -1) if values.dtype.kind in "iu" else settings.get("default_float", -0.0)


@operator("Scaler")
def _scaler(node: Node) -> Tensor:
    value = tensors.cast(tensors.unmixed(node.inputs[0]), np.float32)
    offset = np.array(node.settings.get("offset", [0.0]), dtype=np.float32)
    scale = np.array(node.settings.get("scale", [1.0]), dtype=np.float32)
    return tensors.arithmetic("Mul", tensors.arithmetic("Sub", value, offset), scale)


@operator("Imputer")
def _imputer(node: Node) -> Tensor:
    value = tensors.unmixed(node.inputs[0])
    floats = node.settings.get("imputed_value_floats")
    filled = np.array(floats if floats else node.settings.get("imputed_value_int64s", []))
    gap = node.settings.get("replaced_value_float" if floats else "replaced_value_int64", np.nan if floats else 0)

    def fill(values: Values, replacement: Values) -> Values:
        gone = np.isnan(values) if np.isnan(gap) else values == gap
        return np.where(gone, replacement, values).astype(values.dtype)

    def ramp(pair: Sequence[cell.Cell]) -> cell.Cell:
        if not np.isnan(gap):
            raise NotAdditiveError("it replaces one value of a number that has too many values to list")
        return pair[0]  # a number of the domain is never missing

    return cell.elementwise(fill, value, tensors.spread(filled, value), ramp=ramp)


@operator("Normalizer")
def _normalizer(node: Node) -> Tensor:
    value, norm = node.inputs[0], node.settings.get("norm", "MAX")
    if isinstance(value, Answer) and norm == "L1" and value.probable:
        return value  # probabilities already add up to 1
    if norm not in ("L1", "L2"):
        raise NotAdditiveError(f"the norm {norm} cannot be read")

    def normalise(rows: Values) -> Values:
        size = np.linalg.norm(rows, ord=1 if norm == "L1" else 2, axis=1)
        return np.asarray(rows / np.where(size == 0, 1, size)[:, None])

    return cell.rowwise(normalise, tensors.unmixed(value))


@operator("ArgMax")
def _largest(node: Node) -> Tensor:
    if node.settings.get("select_last_index", 0):
        raise NotAdditiveError("it takes the last of equal scores")
    return tensors.largest(node.inputs[0], node.settings.get("axis", 0), keep=bool(node.settings.get("keepdims", 1)))


@operator("Sigmoid")
def _sigmoid(node: Node) -> Tensor:
    return tensors.sigmoid(node.inputs[0])


@operator("Softmax", "LogSoftmax")
def _softmax(node: Node) -> Tensor:
    return tensors.softmax(node.inputs[0], node.settings.get("axis", -1))


@operator("LinearClassifier")
def _linear_classifier(node: Node) -> tuple[Tensor | None, ...]:
    classes = node.settings.get("classlabels_strings") or node.settings.get("classlabels_ints") or []
    value = tensors.about_people(node.inputs[0])
    coefficients = np.array(node.settings["coefficients"], dtype=np.float64)
    weights = coefficients.reshape(-1, value.units if isinstance(value, Linear) else len(value)).T
    logits = lin.affine(value, weights, np.array(node.settings.get("intercepts", [0.0] * weights.shape[1])))
    transform = node.settings.get("post_transform", "NONE")
    if transform not in ("NONE", "LOGISTIC", "SOFTMAX"):
        raise NotAdditiveError(f"the transform {transform} cannot be read")
    if transform != "SOFTMAX" and answers.opposite(logits):
        logits = lin.take(logits, [1])  # one against the rest says everything twice where there are two labels
    probable = transform == ("LOGISTIC" if logits.units == 1 else "SOFTMAX")
    form: answers.Form = "probabilities" if probable else "margins"
    scores = answers.named(Answer(logits, form, probable=probable), classes, form)
    return answers.named(scores, classes, "label"), scores


@operator("ZipMap")
def _zip_map(node: Node) -> Tensor:
    classes = node.settings.get("classlabels_strings") or node.settings.get("classlabels_int64s") or []
    value = node.inputs[0]
    if isinstance(value, Answer):
        if value.form not in ("probabilities", "margins"):
            raise NotAdditiveError("it names something else than one score per label")
        return answers.named(value, classes, value.form)
    return answers.named(lin.mixed(tensors.about_people(value)), classes, "margins")
