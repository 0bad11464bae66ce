"""XGBoost files, read without the library if they are JSON."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError
from evenhand.models.readers.reading import Fields, choose_link, convert_file, read_file
from evenhand.models.trees.columns import FeatureColumns, match_features
from evenhand.models.trees.ensemble import Link, TreeEnsemble, build_ensemble
from evenhand.models.trees.nodes import DecisionTree, strictly_below_float32
from evenhand.schema.schema import Schema

SAVE_AGAIN_HINT = "save the model again with save_model('model.json')"

TO_JSON = "import sys, xgboost; xgboost.Booster(model_file=sys.argv[1]).save_model(sys.argv[2])"

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

LINKS: dict[str, Link] = {
    "binary:logistic": "logistic",
    "binary:logitraw": "logistic",
    "reg:logistic": "logistic",
    "multi:softprob": "softmax",
    "multi:softmax": "softmax",
}
"""Classification objectives and the links from margins to probabilities."""

NUMBERS = frozenset({"reg:squarederror", "reg:linear", "reg:absoluteerror", "reg:pseudohubererror"})
"""Objectives whose margin is the predicted number."""

MAX_CLASSES = 100_000


def read_xgboost(path: str | Path, schema: Schema) -> TreeEnsemble:
    """Read a model saved by XGBoost 1.0 or later (``save_model``) with the booster ``gbtree``.

    XGBoost compares in float32 (``x < threshold`` goes left); the ensemble's float64 thresholds select the same branch
    for every input. XGBoost also sums in float32, so its probabilities differ by rounding, below 1e-5. The predicted
    label is the more probable one, including for ``binary:logitraw`` and ``multi:softmax``. As in XGBoost, a classifier
    saved after early stopping ends at its best iteration.

    Args:
        path: A ``.json`` or ``.ubj`` file. XGBoost itself converts the latter to JSON, in a separate process.
        schema: Schema of the inputs. A model with feature names is matched by name. Unless the labels are numbers,
            outputs 0 and 1 are the unfavourable and favourable label, and k classes follow the order of the target's
            ``values``. Files from before XGBoost 3.1 have no category names: codes are positions in an attribute's
            ``values``.

    Raises:
        ModelError: the file is damaged, is not a tree classifier or regressor, or does not fit the schema; or XGBoost
            is required and not installed.
    """
    path = Path(path)
    content = read_file(path)
    if re.match(rb"\{[iUIlL$#]", content):  # UBJSON, a binary form of JSON
        if find_spec("xgboost") is None:
            raise ModelError(
                "XGBoost, which is not installed, is needed to read its binary files",
                location=path.name,
                hint="install xgboost, or save the model with save_model('model.json')",
            )
        content = convert_file(path, ["-c", TO_JSON], hint=SAVE_AGAIN_HINT)
    return parse_xgboost(content, schema, location=path.name, stop_early=None)


def parse_xgboost(data: bytes, schema: Schema, *, location: str, stop_early: bool | None) -> TreeEnsemble:
    """Parse the bytes of a file.

    Args:
        data: The JSON.
        schema: Schema of the inputs.
        location: Name of the model.
        stop_early: Whether to drop trees after the best iteration. If None, drop them if a classifier saved the file.
    """
    try:
        decoded = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"the file is not an XGBoost model, or it is damaged ({error})", location=location, hint=SAVE_AGAIN_HINT
        ) from None
    document = Fields(decoded, location, SAVE_AGAIN_HINT)
    learner = document.part("learner")
    booster = learner.part("gradient_booster")
    kind = booster.text("name")
    if kind != "gbtree":
        raise ModelError(
            f"expected trees of equal weight (the booster 'gbtree'), got the booster {kind!r}",
            location=location,
            hint="train with booster='gbtree', or wrap the model as module:function",
        )
    parameters = learner.part("learner_model_param")
    link, outputs = _read_objective(learner, parameters, schema)
    model = booster.part("model")
    names = [str(name) for name in learner.items("feature_names")] if "feature_names" in learner else []
    columns = match_features(
        schema, parameters.integer("num_feature"), names, _read_categories(model), location=location
    )
    parts = model.parts("trees", "tree")
    tree_outputs = model.integers("tree_info", len(parts)).tolist()
    expected = model.part("gbtree_model_param").integer("num_trees")
    if expected != len(parts):
        raise model.error(f"expected {expected} trees in the file, got {len(parts)}")
    trees = [_read_tree(part, columns, output) for part, output in zip(parts, tree_outputs, strict=True)]
    attributes = learner.fields.get("attributes") or {}
    from_classifier = "scikit_learn" in attributes
    if "best_iteration" in attributes and (from_classifier if stop_early is None else stop_early):
        trees = trees[: _tree_count(model, learner.part("attributes").integer("best_iteration"), outputs)]
    ensemble = build_ensemble(
        schema,
        trees,
        base=_base_margins(document, learner, parameters, outputs),
        link=link,
        answers=range(max(outputs, 2)),
        location=location,
    )
    return dataclasses.replace(ensemble, single=True)


def _read_objective(learner: Fields, parameters: Fields, schema: Schema) -> tuple[Link, int]:
    """Read the link from margins to probabilities, and the number of margins."""
    name = learner.part("objective").text("name")
    link = choose_link(name, LINKS, NUMBERS, schema, location=learner.location)
    if "num_target" in parameters and parameters.integer("num_target") > 1:
        raise ModelError(
            "the model predicts several targets", location=learner.location, hint="train one model for each target"
        )
    if link != "softmax":
        return link, 1
    classes = parameters.integer("num_class")
    if not 2 <= classes <= MAX_CLASSES:
        raise parameters.error(f"{name} with {classes} classes")
    return link, classes


def _base_margins(document: Fields, learner: Fields, parameters: Fields, outputs: int) -> Floats:
    """Compute the base margins.

    XGBoost 3.1 writes ``[5E-1]``, with one number per class or one for all; older versions write ``5E-1``. The number
    is a probability for logistic objectives, except for binary:logitraw since XGBoost 2.0.
    """
    objective = learner.part("objective").text("name")
    is_probability = LINKS.get(objective) == "logistic"
    if objective == "binary:logitraw":
        is_probability = "version" in document and document.integers("version")[:1].tolist() < [2]
    score = parameters.fields.get("base_score")
    try:
        texts = score.strip("[] ").split(",") if isinstance(score, str) else np.ravel(score).tolist()
        numbers = np.array([float(text) for text in texts])
    except (TypeError, ValueError, OverflowError):
        numbers = np.zeros(0)
    if len(numbers) not in (1, outputs) or not (np.abs(numbers) < LARGEST_FLOAT32).all():
        raise parameters.error(f"'base_score' is {score!r}")
    numbers = numbers.astype(np.float32).astype(np.float64)
    if is_probability:
        if not 0 < numbers[0] < 1:
            raise parameters.error(f"'base_score' is {score!r}, expected a probability")
        numbers = np.array([math.log(numbers[0] / (1 - numbers[0]))])
    return np.broadcast_to(numbers, (outputs,)).copy()


def _tree_count(model: Fields, best: int, outputs: int) -> int:
    """Compute the number of trees up to the best iteration."""
    if "iteration_indptr" in model:
        ends = model.integers("iteration_indptr")
        end = int(ends[best + 1]) if 0 <= best < len(ends) - 1 else -1
    else:
        end = (best + 1) * outputs * model.part("gbtree_model_param").integer("num_parallel_tree")
    if not 0 < end <= len(model.items("trees")):
        raise model.error(f"the model does not contain its best iteration {best}")
    return end


def _read_categories(model: Fields) -> dict[int, Sequence[Any]]:
    """Read the categories of each categorical feature in code order (XGBoost 3.1 and later)."""
    categories: dict[int, Sequence[Any]] = {}
    for feature, part in enumerate(model.part("cats").parts("enc", "feature") if "cats" in model else []):
        if "offsets" not in part:
            categories[feature] = part.numbers("values").tolist()
            continue
        # All strings are stored in a single byte array.
        ends, data = part.integers("offsets"), part.integers("values")
        if len(ends) and (np.diff(ends).min(initial=0) < 0 or ends[0] < 0 or ends[-1] > len(data)):
            raise part.error("the category names are damaged")
        text = (data % 256).astype(np.uint8).tobytes()
        words = [text[a:b].decode("utf-8", errors="replace") for a, b in itertools.pairwise(ends)]
        categories |= {feature: words} if words else {}
    return categories


def _read_tree(part: Fields, columns: FeatureColumns, output: int) -> DecisionTree:
    parameters = part.part("tree_param")
    nodes = parameters.integer("num_nodes")
    left, right = part.integers("left_children", nodes), part.integers("right_children", nodes)
    feature = part.integers("split_indices", nodes)
    if "size_leaf_vector" in parameters and parameters.integer("size_leaf_vector") > 1:
        raise ModelError(
            "trees with several outputs each are not supported",
            location=part.location,
            hint="train with multi_strategy='one_output_per_tree'",
        )
    inner = left >= 0
    if (left < -1).any() or ((right == -1) == inner).any():
        raise part.error("a node has a single child")
    if not ((feature[inner] >= 0) & (feature[inner] < len(columns.positions)) & (right[inner] >= 0)).all():
        raise part.error("a node refers to an unknown feature or child")
    # XGBoost compares in float32, where a threshold may be infinite.
    with np.errstate(over="ignore", invalid="ignore"):
        condition = part.numbers("split_conditions", nodes).astype(np.float32)
    tree = DecisionTree(
        output=output,
        feature=np.where(inner, columns.positions[np.where(inner, feature, 0)], 0),
        threshold=strictly_below_float32(condition),
        left=left,
        right=right,
        default_left=part.integers("default_left", nodes) != 0,
        values=np.where(inner, 0.0, condition.astype(np.float64))[:, None],
    )
    return _add_categories(tree, part, feature, columns) if "split_type" in part else tree


def _add_categories(tree: DecisionTree, part: Fields, feature: Integers, columns: FeatureColumns) -> DecisionTree:
    """Add the category sets. XGBoost sends listed categories right, so the children of these nodes are swapped."""
    compares_categories = (part.integers("split_type", len(tree.left)) == 1) & (tree.left >= 0)
    nodes = part.integers("categories_nodes")
    starts, sizes = part.integers("categories_segments", len(nodes)), part.integers("categories_sizes", len(nodes))
    categories = part.integers("categories")
    if not np.isin(np.flatnonzero(compares_categories), nodes).all():
        raise part.error("a node compares categories but lists none")
    left_categories = {}
    for node, start, size in zip(nodes.tolist(), starts.tolist(), sizes.tolist(), strict=True):
        if not (0 <= node < len(tree.left) and min(start, size) >= 0 and start + size <= len(categories)):
            raise part.error("the lists of categories are damaged")
        if compares_categories[node]:
            left_categories[node] = columns.input_numbers(int(feature[node]), categories[start : start + size])
    swapped = np.isin(np.arange(len(tree.left)), list(left_categories))
    return dataclasses.replace(
        tree,
        left=np.where(swapped, tree.right, tree.left),
        right=np.where(swapped, tree.left, tree.right),
        default_left=tree.default_left ^ swapped,
        left_categories=left_categories,
    )
