"""XGBoost models from their own files (.json and .ubj), without XGBoost."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError
from evenhand.models.readers.reading import JsonObject
from evenhand.models.trees.columns import FeatureColumns, category_codes, match_columns
from evenhand.models.trees.ensemble import Link, TreeEnsemble, build_ensemble
from evenhand.models.trees.nodes import DecisionTree, strictly_below_float32
from evenhand.schema.schema import Schema

SAVE_AGAIN_HINT = "save the model again with save_model('model.json') or save_model('model.ubj')"

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

LINKS: dict[str, Link] = {
    "binary:logistic": "logistic",
    "binary:logitraw": "logistic",
    "reg:logistic": "logistic",
    "multi:softprob": "softmax",
    "multi:softmax": "softmax",
}
"""Objectives that make a classifier, and how their margins become probabilities."""

NUMBERS = frozenset({"reg:squarederror", "reg:linear", "reg:absoluteerror", "reg:pseudohubererror"})
"""Objectives whose margin is the number that the model gives."""


def read_xgboost(path: str | Path, schema: Schema) -> TreeEnsemble:
    """Read a model saved by XGBoost 1.0 or later (``save_model``), gbtree or dart.

    XGBoost compares in float32 (``x < threshold`` goes left); the thresholds here are the float64 numbers that decide
    the same for every input. It also adds in float32, so its probabilities differ from these by rounding, below 1e-5.
    The label is the more probable one, also for ``binary:logitraw`` and ``multi:softmax``. A model that a classifier
    saved after early stopping stops there too, as it does when XGBoost loads it again.

    Args:
        path: a ``.json`` or ``.ubj`` file.
        schema: what the model's individuals are. A model that knows its features by name is matched by name. The model
            answers 0 and 1 for the unfavourable and the favourable label, or k classes for the target's ``values`` in
            order, unless those labels are the numbers themselves. Files written before XGBoost 3.1 hold no names of
            categories: their codes are taken for positions in an attribute's ``values``.

    Raises:
        ModelError: the file is damaged, no such model, no classifier of trees, or does not fit the schema.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror}", location=str(path)) from None
    return parse_xgboost(data, schema, location=path.name, stop_early=None)


def parse_xgboost(data: bytes, schema: Schema, *, location: str, stop_early: bool | None) -> TreeEnsemble:
    """Return the model in the bytes of a file.

    Args:
        data: JSON or UBJSON.
        schema: what the model's individuals are.
        location: how to call the model.
        stop_early: whether trees after the best iteration are left out; None: where a classifier saved the file.

    Raises:
        ModelError: as ``read_xgboost``.
    """
    document = JsonObject(_decode_document(data, location), location, SAVE_AGAIN_HINT)
    learner = document.part("learner")
    booster = learner.part("gradient_booster")
    kind = booster.text("name")
    if kind == "gblinear":
        raise ModelError(
            "this is a linear model (booster gblinear), and no trees",
            location=location,
            hint="train scikit-learn's LogisticRegression instead, or give the model as module:function",
        )
    if kind not in ("gbtree", "dart"):
        raise ModelError(f"an XGBoost model with the unknown booster {kind!r}", location=location)
    parameters = learner.part("learner_model_param")
    link, outputs = _read_objective(learner, parameters, schema, location)
    # DART wraps the same trees and weighs each of them.
    model = (booster.part("gbtree") if kind == "dart" else booster).part("model")
    weights = booster.numbers("weight_drop") if kind == "dart" else None
    columns = _match_features(learner, model, parameters.integer("num_feature"), schema, location)
    trees = _read_trees(model, columns, outputs, weights, location)
    attributes = learner.fields.get("attributes")
    stop_early = isinstance(attributes, dict) and "scikit_learn" in attributes if stop_early is None else stop_early
    if stop_early and isinstance(attributes, dict) and "best_iteration" in attributes:
        trees = trees[
            : _tree_count(model, int(learner.part("attributes").integer("best_iteration")), outputs, len(trees))
        ]
    ensemble = build_ensemble(
        schema,
        trees,
        base=_base_margins(
            parameters.fields.get("base_score"), _base_is_probability(document, learner), outputs, location
        ),
        link=link,
        answers=range(max(outputs, 2)),
        location=location,
    )
    return dataclasses.replace(ensemble, single=True)


def _decode_document(data: bytes, location: str) -> Any:
    try:
        if data[:1] == b"{" and data[1:2] in (b"i", b"U", b"I", b"l", b"L", b"$", b"#"):
            return decode_ubjson(data)
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"the file is not an XGBoost model, or it is damaged ({error})" if data else "the file is empty",
            location=location,
            hint=SAVE_AGAIN_HINT,
        ) from None


def _read_objective(learner: JsonObject, parameters: JsonObject, schema: Schema, location: str) -> tuple[Link, int]:
    """Return how margins become probabilities, or the number that is decided, and how many there are."""
    name = learner.part("objective").text("name")
    if schema.target.is_number:
        several = "num_target" in parameters.fields and parameters.integer("num_target") > 1
        if name not in NUMBERS or several:
            raise ModelError(
                f"with the objective {name!r} the trees do not add up to one number",
                location=location,
                hint=f"train with one of {', '.join(sorted(NUMBERS))}, or give the model as module:function",
            )
        return "identity", 1
    if name not in LINKS:
        raise ModelError(
            f"the objective {name!r} makes no classifier with probabilities",
            location=location,
            hint=f"train with one of {', '.join(LINKS)}, or give the model as module:function",
        )
    if "num_target" in parameters.fields and parameters.integer("num_target") > 1:
        raise ModelError("the model decides several things at once", location=location, hint="train one model for each")
    if LINKS[name] == "logistic":
        return "logistic", 1
    classes = parameters.integer("num_class")
    if not 2 <= classes <= 100_000:
        raise ModelError(f"{name} with {classes} classes", location=location, hint=SAVE_AGAIN_HINT)
    return "softmax", classes


def _base_is_probability(document: JsonObject, learner: JsonObject) -> bool:
    """Return whether ``base_score`` is a probability, whose log-odds are the margin before any tree.

    For binary:logitraw it is the margin itself since XGBoost 2.0.
    """
    objective = learner.part("objective").text("name")
    if objective != "binary:logitraw":
        return LINKS.get(objective) == "logistic"
    return "version" in document.fields and bool(document.integers("version", least=1)[0] < 2)


def _base_margins(score: Any, probability: bool, outputs: int, location: str) -> Floats:
    """Margins before any tree. XGBoost 3.1 writes ``[5E-1]``, one number per class or one for all; before, ``5E-1``."""
    try:
        texts = score.strip("[] ").split(",") if isinstance(score, str) else np.ravel(score).tolist()
        numbers = np.array([float(text) for text in texts])
    except (TypeError, ValueError, OverflowError):
        numbers = np.zeros(0)
    if len(numbers) not in (1, outputs) or not (np.abs(numbers) < LARGEST_FLOAT32).all():
        raise ModelError(f"'base_score' is {score!r}", location=location, hint=SAVE_AGAIN_HINT)
    numbers = numbers.astype(np.float32).astype(np.float64)
    if probability:
        if not 0 < numbers[0] < 1:
            raise ModelError(f"'base_score' is {score!r}, and no probability", location=location, hint=SAVE_AGAIN_HINT)
        numbers = np.array([math.log(numbers[0] / (1 - numbers[0]))])
    return np.broadcast_to(numbers, (outputs,)).copy()


def _tree_count(model: JsonObject, best: int, outputs: int, trees: int) -> int:
    """Return how many trees there are up to the best iteration."""
    if "iteration_indptr" in model.fields:
        ends = model.integers("iteration_indptr")
        end = int(ends[best + 1]) if 0 <= best < len(ends) - 1 else -1
    else:
        end = (best + 1) * outputs * model.part("gbtree_model_param").integer("num_parallel_tree")
    if not 0 < end <= trees:
        raise ModelError(
            f"the best iteration is {best}, which the model does not have",
            location=model.location,
            hint=SAVE_AGAIN_HINT,
        )
    return end


def _match_features(
    learner: JsonObject, model: JsonObject, features: int, schema: Schema, location: str
) -> FeatureColumns:
    names = [str(name) for name in learner.items("feature_names")] if "feature_names" in learner.fields else []
    categories = _read_categories(model)
    positions = match_columns(schema, features, names, location=location, named_categories=list(categories))
    codes = {
        feature: category_codes(schema, int(positions[feature]), listed, by_name=True, location=location)
        for feature, listed in categories.items()
        if 0 <= feature < features
    }
    return FeatureColumns(positions, codes)


def _read_categories(model: JsonObject) -> dict[int, Sequence[Any]]:
    """Return the categories of each categorical feature, in the order of the model's codes (XGBoost 3.1 and later)."""
    if "cats" not in model.fields:
        return {}
    found: dict[int, Sequence[Any]] = {}
    for feature, encoded in enumerate(model.part("cats").items("enc")):
        part = JsonObject(encoded, f"{model.location}, cats", SAVE_AGAIN_HINT)
        if "offsets" in part.fields:  # words, one after another
            ends, data = part.integers("offsets"), part.integers("values")
            if len(ends) and (np.diff(ends).min(initial=0) < 0 or ends[0] < 0 or ends[-1] > len(data)):
                raise ModelError(
                    "the names of the categories are damaged", location=part.location, hint=SAVE_AGAIN_HINT
                )
            text = (data % 256).astype(np.uint8).tobytes()
            words = [text[a:b].decode("utf-8", errors="replace") for a, b in itertools.pairwise(ends)]
            found |= {feature: words} if words else {}
        else:
            found[feature] = part.numbers("values").tolist()
    return found


def _read_trees(
    model: JsonObject, columns: FeatureColumns, outputs: int, weights: Floats | None, location: str
) -> list[DecisionTree]:
    described = model.items("trees")
    output = model.integers("tree_info", least=len(described))
    promised = model.part("gbtree_model_param").integer("num_trees")
    if not promised == len(described) == len(output):
        raise ModelError(f"{promised} trees promised, {len(described)} there", location=location, hint=SAVE_AGAIN_HINT)
    if weights is not None and len(weights) != len(described):
        raise ModelError(f"{len(weights)} weights for {len(described)} trees", location=location, hint=SAVE_AGAIN_HINT)
    if weights is not None and not ((weights >= 0) & (weights <= 1e6)).all():
        raise ModelError("'weight_drop' holds a weight without meaning", location=location, hint=SAVE_AGAIN_HINT)
    trees = []
    for i, fields in enumerate(described):
        tree = _read_tree(
            JsonObject(fields, f"{location}, tree {i}", SAVE_AGAIN_HINT), columns, int(output[i]), outputs
        )
        if weights is not None and np.isfinite(tree.values).all():
            # A weight is a float32, of which JSON writes the shortest decimal number.
            tree = replace(tree, values=tree.values * np.float64(np.float32(weights[i])))
        trees.append(tree)
    return trees


def _read_tree(part: JsonObject, columns: FeatureColumns, output: int, outputs: int) -> DecisionTree:
    parameters = part.part("tree_param")
    nodes = parameters.integer("num_nodes")
    left = part.integers("left_children", least=1)
    right = part.integers("right_children", least=len(left))
    feature = part.integers("split_indices", least=len(left))
    condition = part.numbers("split_conditions", least=len(left))
    default_left = part.integers("default_left", least=len(left)) != 0
    if not nodes == len(left) == len(right) == len(feature) == len(condition) == len(default_left):
        raise ModelError(f"{nodes} nodes promised, {len(left)} there", location=part.location, hint=SAVE_AGAIN_HINT)
    width = parameters.integer("size_leaf_vector") if "size_leaf_vector" in parameters.fields else 1
    inner = left >= 0
    if (left < -1).any() or (width <= 1 and ((right == -1) == inner).any()):
        raise ModelError("a node has one child only", location=part.location, hint=SAVE_AGAIN_HINT)
    if not ((feature[inner] >= 0) & (feature[inner] < len(columns.positions)) & (right[inner] >= 0)).all():
        raise ModelError(
            "a node looks at a feature, or has a child, that does not exist",
            location=part.location,
            hint=SAVE_AGAIN_HINT,
        )
    # XGBoost compares in float32: the thresholds are read as what it makes of them, which may be infinite.
    with np.errstate(over="ignore", invalid="ignore"):
        condition32 = condition.astype(np.float32)
    if width > 1:
        output, values = 0, _leaf_vectors(part, left, right, width, outputs)
    else:
        values = np.where(inner, 0.0, condition32.astype(np.float64))[:, None]
    tree = DecisionTree(
        output=output,
        feature=np.where(inner, columns.positions[np.where(inner, feature, 0)], 0),
        threshold=strictly_below_float32(condition32),
        left=left,
        right=right,
        default_left=default_left,
        values=values,
    )
    return _add_categories(tree, part, feature, columns)


def _leaf_vectors(part: JsonObject, left: Integers, right: Integers, width: int, outputs: int) -> Floats:
    """Return one value per output in each leaf; a leaf's right child is then its row among ``leaf_weights``."""
    if "leaf_weights" not in part.fields or width != outputs:
        raise ModelError(
            "this file's trees with several outputs each cannot be read",
            location=part.location,
            hint="use XGBoost 3.1 or newer",
        )
    rows = part.numbers("leaf_weights")
    leaf = left < 0
    row = np.where(leaf, right, 0)
    if len(rows) % width or len(rows) == 0 or row.min() < 0 or row.max() >= len(rows) // width:
        raise ModelError(
            f"{len(rows)} leaf weights for {leaf.sum()} leaves", location=part.location, hint=SAVE_AGAIN_HINT
        )
    return np.where(leaf[:, None], rows.reshape(-1, width)[row], 0.0)


def _add_categories(tree: DecisionTree, part: JsonObject, feature: Integers, columns: FeatureColumns) -> DecisionTree:
    """XGBoost sends a listed category right and every other left: turned round, so that those listed go left."""
    if "split_type" not in part.fields:
        return tree
    asks = (part.integers("split_type", least=len(tree.left)) == 1)[: len(tree.left)] & (tree.left >= 0)
    nodes = part.integers("categories_nodes")
    starts = part.integers("categories_segments", least=len(nodes))
    sizes = part.integers("categories_sizes", least=len(nodes))
    categories = part.integers("categories")
    if not set(np.flatnonzero(asks).tolist()) <= set(nodes.tolist()):
        raise ModelError(
            "a node asks for categories, and none are listed for it", location=part.location, hint=SAVE_AGAIN_HINT
        )
    listed = {}
    left, right, default_left = tree.left.copy(), tree.right.copy(), tree.default_left.copy()
    for node, start, size in zip(nodes.tolist(), starts.tolist(), sizes.tolist(), strict=False):
        if not (0 <= node < len(asks) and min(start, size) >= 0 and start + size <= len(categories)):
            raise ModelError("the lists of categories are damaged", location=part.location, hint=SAVE_AGAIN_HINT)
        if asks[node]:
            listed[node] = columns.input_numbers(int(feature[node]), categories[start : start + size])
            left[node], right[node] = tree.right[node], tree.left[node]
            default_left[node] = not tree.default_left[node]
    return replace(tree, left=left, right=right, default_left=default_left, left_categories=listed)


# UBJSON, the binary form of JSON that XGBoost writes (Universal Binary JSON, draft 12, big-endian).


MAX_DEPTH = 64
"""Arrays and objects nested deeper than this are refused: no model needs them."""

UBJSON_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
"""Markers of numbers, and how NumPy calls them."""

CONSTANTS: dict[bytes, Any] = {b"Z": None, b"T": True, b"F": False}


def decode_ubjson(data: bytes) -> Any:
    """Return one value from bytes; objects become dict, strings str, arrays of one number type NumPy arrays.

    Raises:
        ValueError: the bytes are not UBJSON, or end too early; the message says at which byte.
    """
    reader = _UbjsonReader(data)
    value = reader.value(reader.marker(), 0)
    reader.end()
    return value


class _UbjsonReader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise ValueError(f"{count} bytes expected at byte {self.at}, {len(self.data) - self.at} left")
        self.at += count
        return self.data[self.at - count : self.at]

    def marker(self) -> bytes:
        marker = self.take(1)
        while marker == b"N":  # a no-op, allowed between values
            marker = self.take(1)
        return marker

    def end(self) -> None:
        if self.data[self.at :].strip(b"N"):
            raise ValueError(f"{len(self.data) - self.at} bytes after the end")

    def value(self, marker: bytes, depth: int) -> Any:
        if marker in UBJSON_NUMBERS:
            return self.number(marker)
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        if marker == b"S":
            return self.text()
        if marker == b"C":
            return self.take(1).decode("latin-1")
        if marker in (b"[", b"{"):
            if depth == MAX_DEPTH:
                raise ValueError(f"nested deeper than {MAX_DEPTH} at byte {self.at}")
            return self.array(depth + 1) if marker == b"[" else self.object(depth + 1)
        raise ValueError(f"unknown marker {marker!r} at byte {self.at - 1}")

    def number(self, marker: bytes) -> int | float:
        kind = np.dtype(UBJSON_NUMBERS[marker])
        number: int | float = np.frombuffer(self.take(kind.itemsize), dtype=kind)[0].item()
        return number

    def size(self) -> int:
        marker = self.marker()
        size = self.number(marker) if marker in UBJSON_NUMBERS else None
        if not isinstance(size, int) or size < 0:
            raise ValueError(f"no length at byte {self.at - 1}")
        return size

    def text(self) -> str:
        return self.take(self.size()).decode("utf-8")

    def header(self) -> tuple[bytes | None, int | None, bytes]:
        """Return the type and count that a container may announce, and the marker that follows if there is no count."""
        marker = self.marker()
        kind = None
        if marker == b"$":
            kind = self.take(1)
            marker = self.marker()
            if marker != b"#":
                raise ValueError(f"a type without a count at byte {self.at - 1}")
        if marker == b"#":
            return kind, self.size(), b""
        return kind, None, marker

    def array(self, depth: int) -> Any:
        kind, count, first = self.header()
        if kind is not None and count is not None:
            if kind not in UBJSON_NUMBERS:
                raise ValueError(f"an array of type {kind!r} at byte {self.at - 1}")
            numbers = np.dtype(UBJSON_NUMBERS[kind])
            return np.frombuffer(self.take(count * numbers.itemsize), dtype=numbers).astype(numbers.newbyteorder("="))
        return [self.value(marker, depth) for marker in self.items(count, first, b"]")]

    def object(self, depth: int) -> dict[str, Any]:
        kind, count, first = self.header()
        found: dict[str, Any] = {}
        if kind is not None:
            raise ValueError(f"an object of one type at byte {self.at - 1}")
        for marker in self.items(count, first, b"}"):
            if marker not in UBJSON_NUMBERS:
                raise ValueError(f"no name at byte {self.at - 1}")
            size = self.number(marker)
            if not isinstance(size, int) or size < 0:
                raise ValueError(f"no length at byte {self.at - 1}")
            key = self.take(size).decode("utf-8")
            found[key] = self.value(self.marker(), depth)
        return found

    def items(self, count: int | None, first: bytes, closing: bytes) -> Iterator[bytes]:
        """Yield the marker at the start of each item: ``count`` of them, or up to the closing one."""
        if count is not None:
            for _ in range(count):
                yield self.marker()
            return
        marker = first
        while marker != closing:
            yield marker
            marker = self.marker()
