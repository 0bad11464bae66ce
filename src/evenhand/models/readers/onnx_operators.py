"""ONNX operators as operations of `tensors`, one registered function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from evenhand.errors import NotAdditiveError
from evenhand.models.additive import answer as answers
from evenhand.models.additive import cells as cell
from evenhand.models.additive import linear as lin
from evenhand.models.additive import tensors
from evenhand.models.additive.answer import OutputTensor
from evenhand.models.additive.cells import Values
from evenhand.models.additive.linear import LinearTensor
from evenhand.models.additive.tensors import Tensor


@dataclass(frozen=True)
class OperatorNode:
    """Operator with its settings and inputs. A missing input is None."""

    operator: str
    settings: dict[str, Any]
    inputs: list[Any]

    def weights(self, position: int) -> Values | None:
        """Return an input that must be constant across rows. None if it is missing."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is not None and not tensors.is_weights(value):
            raise NotAdditiveError("an input that must be constant varies across rows")
        return value

    def constant_input(self, position: int) -> Values:
        """Return a required input that must be constant across rows."""
        value = self.weights(position)
        if value is None:
            raise ValueError(f"input {position + 1} is missing")
        return value

    def setting(self, name: str, position: int, default: Any = None) -> Any:
        """Return a setting stored as an attribute in older models and as an input in newer ones."""
        value = self.weights(position)
        return self.settings.get(name, default) if value is None else value.tolist()


Operator: TypeAlias = Callable[[OperatorNode], Tensor | tuple[Tensor | None, ...]]
OPERATORS: dict[str, Operator] = {}


def register_operator(*names: str) -> Callable[[Operator], Operator]:
    """Register a function for operator names."""

    def register(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return register


@register_operator("Add", "Sub", "Mul", "Div")
def _arithmetic(node: OperatorNode) -> Tensor:
    return tensors.apply_arithmetic(node.operator, *node.inputs)


@register_operator("Neg")
def _negative(node: OperatorNode) -> Tensor:
    return tensors.apply_arithmetic("Mul", node.inputs[0], np.array(-1, dtype=np.int8))


@register_operator("MatMul")
def _product(node: OperatorNode) -> Tensor:
    return tensors.affine(node.inputs[0], node.constant_input(1))


@register_operator("Gemm")
def _gemm(node: OperatorNode) -> Tensor:
    if node.settings.get("transA", 0):
        raise NotAdditiveError("it turns rows into columns")
    weights = node.constant_input(1).T if node.settings.get("transB", 0) else node.constant_input(1)
    bias = node.weights(2)
    return tensors.affine(
        node.inputs[0],
        node.settings.get("alpha", 1.0) * weights,
        None if bias is None else node.settings.get("beta", 1.0) * bias,
    )


@register_operator("BatchNormalization")
def _batch_normalization(node: OperatorNode) -> Tensor:
    if node.settings.get("training_mode", 0):
        raise NotAdditiveError("it is in training mode: its output depends on other rows")
    scale, shift, mean, variance = (node.constant_input(i) for i in range(1, 5))
    return tensors.batch_normalization(node.inputs[0], scale, shift, mean, variance, node.settings.get("epsilon", 1e-5))


@register_operator("Relu")
def _relu(node: OperatorNode) -> Tensor:
    return tensors.relu(node.inputs[0])


@register_operator("Clip")
def _clip(node: OperatorNode) -> Tensor:
    return tensors.clip_tensor(node.inputs[0], node.setting("min", 1, -np.inf), node.setting("max", 2, np.inf))


@register_operator("LeakyRelu")
def _leaky_relu(node: OperatorNode) -> Tensor:
    return tensors.leaky_relu(node.inputs[0], node.settings.get("alpha", 0.01))


@register_operator("Max", "Min")
def _bound(node: OperatorNode) -> Tensor:
    return tensors.bound_tensor(node.inputs, upper=node.operator == "Min")


@register_operator("Identity")
def _identity(node: OperatorNode) -> tuple[Tensor | None, ...]:
    return (node.inputs[0],)


@register_operator("Dropout")
def _dropout(node: OperatorNode) -> tuple[Tensor | None, ...]:
    training = node.weights(2)
    if training is not None and training.any():
        raise NotAdditiveError("it is in training mode: its output is random")
    return (node.inputs[0], None)


@register_operator("Cast")
def _cast(node: OperatorNode) -> Tensor:
    from onnx import TensorProto, helper

    kind = node.settings["to"]
    return tensors.cast_tensor(
        node.inputs[0], str if kind == TensorProto.STRING else helper.tensor_dtype_to_np_dtype(kind)
    )


@register_operator("Shape")
def _shape(node: OperatorNode) -> Tensor:
    value = tensors.require_features(node.inputs[0])
    inner = [value.units] if isinstance(value, LinearTensor) else list(value.shape)
    # -1 stands for the number of rows, as in operators that use the shape.
    return np.array([-1, *inner][node.settings.get("start", 0) : node.settings.get("end", None)], dtype=np.int64)


@register_operator("Reshape")
def _reshape(node: OperatorNode) -> Tensor:
    return tensors.reshape(node.inputs[0], [int(size) for size in node.setting("shape", 1, [])])


@register_operator("Flatten")
def _flatten(node: OperatorNode) -> Tensor:
    value, axis = node.inputs[0], node.settings.get("axis", 1)
    leading = value.shape[: axis - 1] if tensors.is_cells(value) and axis > 1 else ()
    if axis < 1 or (axis > 1 and (not leading or np.prod(leading) != 1)):
        raise NotAdditiveError("it operates across rows")
    return tensors.reshape(value, [0, -1])


@register_operator("Transpose")
def _transpose(node: OperatorNode) -> Tensor:
    value = tensors.require_cells(node.inputs[0])
    order = list(node.settings.get("perm", range(value.ndim + 1)[::-1]))
    if order[:1] != [0]:
        raise NotAdditiveError("it moves the batch axis")
    return np.transpose(value, [axis - 1 for axis in order[1:]])


@register_operator("Squeeze")
def _squeeze(node: OperatorNode) -> Tensor:
    return tensors.squeeze(node.inputs[0], node.setting("axes", 1))


@register_operator("Unsqueeze")
def _unsqueeze(node: OperatorNode) -> Tensor:
    return tensors.unsqueeze(node.inputs[0], node.setting("axes", 1, []))


@register_operator("Concat", "FeatureVectorizer")
def _concatenate(node: OperatorNode) -> Tensor:
    return tensors.concatenate(node.inputs, node.settings.get("axis", 1))


@register_operator("Gather")
def _gather(node: OperatorNode) -> Tensor:
    table, axis = node.inputs[0], node.settings.get("axis", 0)
    if not tensors.is_weights(table):
        return tensors.select_columns(table, axis, node.constant_input(1))
    if axis != 0:
        raise NotAdditiveError("it selects columns instead of rows")
    return tensors.lookup_rows(table, node.inputs[1])


@register_operator("ArrayFeatureExtractor")
def _array_feature_extractor(node: OperatorNode) -> Tensor:
    if isinstance(node.inputs[1], OutputTensor):
        return tensors.lookup_rows(node.constant_input(0), node.inputs[1])
    return tensors.select_columns(node.inputs[0], -1, node.constant_input(1).reshape(-1))


@register_operator("Slice")
def _slice(node: OperatorNode) -> Tensor:
    value: Tensor = node.inputs[0]
    starts, ends = node.setting("starts", 1), node.setting("ends", 2)
    axes = node.setting("axes", 3) or list(range(len(starts)))
    steps = node.setting("steps", 4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        value = tensors.slice_columns(value, axis, start, end, step)
    return value


_COMPARISONS: dict[str, Callable[[Values, Values], Values]] = {
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
}


@register_operator(*_COMPARISONS)
def _compare(node: OperatorNode) -> Tensor:
    return tensors.compare_tensors(_COMPARISONS[node.operator], *node.inputs)


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


@register_operator(*_PER_VALUE)
def _per_value(node: OperatorNode) -> Tensor:
    return tensors.apply_per_value(_PER_VALUE[node.operator], node.inputs)


@register_operator("OneHot")
def _one_hot(node: OperatorNode) -> Tensor:
    if node.settings.get("axis", -1) != -1:
        raise NotAdditiveError("its categories are not on the last axis")
    depth, values = node.constant_input(1), node.constant_input(2)
    return tensors.one_hot(node.inputs[0], int(depth.reshape(-1)[0]), values[:1], values[1:2])


@register_operator("OneHotEncoder")
def _one_hot_encoder(node: OperatorNode) -> Tensor:
    words = node.settings.get("cats_strings")
    categories = np.array(words if words else node.settings.get("cats_int64s", []))

    def columns(values: Values) -> tuple[Values, ...]:
        values = values.astype(str if words else np.int64)
        unknown = ~np.isin(values, categories)
        if unknown.any() and not node.settings.get("zeros", 1):
            raise NotAdditiveError(f"it rejects the value {values[unknown][0].item()!r} of the domain")
        return tuple((values == category).astype(np.float32) for category in categories)

    return cell.expand_cells(columns, tensors.require_cells(node.inputs[0]))


@register_operator("LabelEncoder")
def _label_encoder(node: OperatorNode) -> Tensor:
    keys, values = _mapping_side(node.settings, "keys"), _mapping_side(node.settings, "values")
    default = _default_value(node.settings, values)
    table = dict(zip(keys.tolist(), values.tolist(), strict=True))

    def encode(words: Values) -> Values:
        words = words.astype(str if keys.dtype.kind == "U" else keys.dtype)
        return np.array([table.get(word, default) for word in words.tolist()], dtype=values.dtype)

    return cell.apply_elementwise(encode, tensors.require_cells(node.inputs[0]))


def _mapping_side(settings: dict[str, Any], side: str) -> Values:
    if f"{side}_tensor" in settings:
        return np.asarray(settings[f"{side}_tensor"]).reshape(-1)
    for kind, dtype in (("strings", str), ("int64s", np.int64), ("floats", np.float32)):
        if f"{side}_{kind}" in settings:
            return np.array(settings[f"{side}_{kind}"], dtype=dtype)
    raise ValueError(f"it has no {side}")


def _default_value(settings: dict[str, Any], values: Values) -> Any:
    if "default_tensor" in settings:
        return settings["default_tensor"].reshape(-1)[0].item()
    if values.dtype.kind == "U":
        return settings.get("default_string", "_Unused")
    return settings.get("default_int64", -1) if values.dtype.kind in "iu" else settings.get("default_float", -0.0)


@register_operator("Scaler")
def _scaler(node: OperatorNode) -> Tensor:
    value = tensors.cast_tensor(tensors.require_cells(node.inputs[0]), np.float32)
    offset = np.array(node.settings.get("offset", [0.0]), dtype=np.float32)
    scale = np.array(node.settings.get("scale", [1.0]), dtype=np.float32)
    return tensors.apply_arithmetic("Mul", tensors.apply_arithmetic("Sub", value, offset), scale)


@register_operator("Imputer")
def _imputer(node: OperatorNode) -> Tensor:
    value = tensors.require_cells(node.inputs[0])
    floats = node.settings.get("imputed_value_floats")
    filled = np.array(floats if floats else node.settings.get("imputed_value_int64s", []))
    gap = node.settings.get("replaced_value_float" if floats else "replaced_value_int64", np.nan if floats else 0)

    def fill(values: Values, replacement: Values) -> Values:
        missing = np.isnan(values) if np.isnan(gap) else values == gap
        return np.where(missing, replacement, values).astype(values.dtype)

    def ramp(pair: Sequence[cell.Cell]) -> cell.Cell:
        if not np.isnan(gap):
            raise NotAdditiveError("it replaces a single value of a numeric column with too many values to enumerate")
        return pair[0]  # the domain contains no missing numbers

    return cell.apply_elementwise(fill, value, tensors.broadcast_cells(filled, value), ramp=ramp)


@register_operator("Normalizer")
def _normalizer(node: OperatorNode) -> Tensor:
    value, norm = node.inputs[0], node.settings.get("norm", "MAX")
    if isinstance(value, OutputTensor) and norm == "L1" and value.probable:
        return value  # probabilities add up to 1
    raise NotAdditiveError("it combines several attributes other than by addition")


@register_operator("ArgMax")
def _argmax(node: OperatorNode) -> Tensor:
    if node.settings.get("select_last_index", 0):
        raise NotAdditiveError("it selects the last of equal scores")
    return tensors.argmax(node.inputs[0], node.settings.get("axis", 0), keep=bool(node.settings.get("keepdims", 1)))


@register_operator("Sigmoid")
def _sigmoid(node: OperatorNode) -> Tensor:
    return tensors.sigmoid(node.inputs[0])


@register_operator("Softmax", "LogSoftmax")
def _softmax(node: OperatorNode) -> Tensor:
    return tensors.softmax(node.inputs[0], node.settings.get("axis", -1))


@register_operator("LinearClassifier")
def _linear_classifier(node: OperatorNode) -> tuple[Tensor | None, ...]:
    classes = node.settings.get("classlabels_strings") or node.settings.get("classlabels_ints") or []
    value = tensors.require_features(node.inputs[0])
    coefficients = np.array(node.settings["coefficients"], dtype=np.float64)
    weights = coefficients.reshape(-1, value.units if isinstance(value, LinearTensor) else len(value)).T
    logits = lin.affine(value, weights, np.array(node.settings.get("intercepts", [0.0] * weights.shape[1])))
    transform = node.settings.get("post_transform", "NONE")
    if transform not in ("NONE", "LOGISTIC", "SOFTMAX"):
        raise NotAdditiveError(f"the transform {transform} is not supported")
    if transform != "SOFTMAX" and answers.are_opposite(logits):
        logits = lin.select_units(logits, [1])  # one-vs-rest repeats the logit of two labels
    probable = transform == ("LOGISTIC" if logits.units == 1 else "SOFTMAX")
    form: answers.OutputForm = "probabilities" if probable else "margins"
    scores = answers.name_classes(OutputTensor(logits, form, probable=probable), classes, form)
    return answers.name_classes(scores, classes, "label"), scores


@register_operator("ZipMap")
def _zip_map(node: OperatorNode) -> Tensor:
    classes = node.settings.get("classlabels_strings") or node.settings.get("classlabels_int64s") or []
    value = node.inputs[0]
    if isinstance(value, OutputTensor):
        if value.form not in ("probabilities", "margins"):
            raise NotAdditiveError("its outputs are not one score per label")
        return answers.name_classes(value, classes, value.form)
    return answers.name_classes(lin.as_linear(tensors.require_features(value)), classes, "margins")
