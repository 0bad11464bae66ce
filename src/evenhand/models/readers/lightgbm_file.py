"""LightGBM text files, read without the library."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError
from evenhand.models.readers.reading import Fields, choose_link, read_file
from evenhand.models.trees.columns import FeatureColumns, column_attribute, match_columns, match_features
from evenhand.models.trees.ensemble import Link, TreeEnsemble, build_ensemble
from evenhand.models.trees.nodes import DecisionTree
from evenhand.schema.schema import Schema

SAVE_AGAIN_HINT = "save the model again with save_model('model.txt')"

VERSIONS = ("v3", "v4")
"""Supported versions of the file format, all interpreted as in LightGBM 4."""

LINKS: dict[str, Link] = {
    "binary": "logistic",
    "cross_entropy": "logistic",
    "multiclass": "softmax",
    "multiclassova": "one-vs-rest",
}
"""Classification objectives and the links from raw scores to probabilities."""

NUMBERS = frozenset({"regression", "regression_l1", "huber", "fair", "quantile", "mape"})
"""Objectives whose raw score is the predicted number."""

NONE, ZERO, NAN = range(3)
"""Missing values of a node: none (NaN is read as 0), zero and NaN, or NaN."""

MAX_OUTPUTS = 100_000


def read_lightgbm(path: str | Path, schema: Schema) -> TreeEnsemble:
    """Read a model saved by LightGBM 3 or 4 (``save_model``), boosted (gbdt, dart, goss) or bagged (rf).

    LightGBM compares in float64 (``x <= threshold`` goes left) and sums in float64, like the ensemble. With
    ``multiclassova`` probabilities need not sum to 1; the ensemble normalises them.

    Args:
        path: A ``.txt`` file.
        schema: Schema of the inputs. A model with feature names is matched by name, and so are its categories. Unless
            the labels are numbers, outputs 0 and 1 are the unfavourable and favourable label, and k classes follow the
            order of the target's ``values``.

    Raises:
        ModelError: the file is damaged, is not a LightGBM classifier or regressor, has linear trees, or does not fit
            the schema.
    """
    path = Path(path)
    try:
        text = read_file(path).decode("utf-8")
    except UnicodeDecodeError:
        raise ModelError(
            "the file is not a LightGBM model: not text", location=path.name, hint=SAVE_AGAIN_HINT
        ) from None
    return parse_lightgbm(text, schema, location=path.name)


def parse_lightgbm(text: str, schema: Schema, *, location: str, answers: Sequence[Any] | None = None) -> TreeEnsemble:
    """Parse the text of a file.

    Args:
        text: Text of a LightGBM file.
        schema: Schema of the inputs.
        location: Name of the model.
        answers: Labels of the outputs. Default: 0, 1, ...
    """
    head, sections, tail = _split_sections(text, location)
    if head.text("version") not in VERSIONS:
        raise head.error(f"the file has version {head.text('version')[:20]!r}, expected {' or '.join(VERSIONS)}")
    objective, *options = head.fields.get("objective", "").split() or ["none"]
    link = choose_link(
        f"{objective} sqrt" if "sqrt" in options else objective, LINKS, NUMBERS, schema, location=location
    )
    steepness = next((option.partition(":")[2] for option in options if option.startswith("sigmoid:")), "1")
    try:
        factor = float(steepness) if link != "identity" else 1.0
    except ValueError:
        raise head.error(f"the steepness of the sigmoid is {steepness!r}, expected a number") from None
    outputs = head.integer("num_tree_per_iteration")
    if not 1 <= outputs <= MAX_OUTPUTS:
        raise head.error(f"{outputs} trees per iteration")
    if len(sections) % outputs or ("tree_sizes" in head and len(head.numbers("tree_sizes")) != len(sections)):
        raise head.error(f"the file has only {len(sections)} trees of the model")
    columns = _match_columns(schema, head, _read_categories(tail, head))
    return build_ensemble(
        schema,
        [_read_tree(section, columns, i % outputs) for i, section in enumerate(sections)],
        base=np.zeros(outputs),
        link=link,
        answers=range(max(outputs, 2)) if answers is None else answers,
        location=location,
        divisor=len(sections) / outputs if "average_output" in head else 1.0,
        steepness=factor,
    )


def _split_sections(text: str, location: str) -> tuple[Fields, list[Fields], str]:
    """Split a file into the fields before the trees, the fields of each tree, and the text after them."""
    if text.split("\n", 1)[0].strip() != "tree":
        raise ModelError(
            "the file is not a LightGBM model: its first line is not 'tree'", location=location, hint=SAVE_AGAIN_HINT
        )
    trees, end, tail = text.partition("\nend of trees")
    if not end:
        raise ModelError("the file ends before the trees do", location=location, hint=SAVE_AGAIN_HINT)
    head, *blocks = re.split(r"^Tree=", trees, flags=re.MULTILINE)
    sections = []
    for i, block in enumerate(blocks):
        number, _, lines = block.partition("\n")
        if number.strip() != str(i):
            raise ModelError(
                f"tree {i} is missing: found {number.strip()[:20]!r}", location=location, hint=SAVE_AGAIN_HINT
            )
        sections.append(_read_fields(lines, f"{location}, tree {i}"))
    return _read_fields(head, location), sections, tail


def _read_fields(text: str, location: str) -> Fields:
    """Read lines of the form ``key=value``."""
    pairs = (line.partition("=") for line in text.split("\n") if line.strip())
    return Fields({key.strip(): value.strip() for key, _, value in pairs}, location, SAVE_AGAIN_HINT)


def _read_categories(tail: str, head: Fields) -> list[list[Any]]:
    """Read the categories of each categorical column of the training data, in order."""
    line = re.search(r"^pandas_categorical:(.*)$", tail, flags=re.MULTILINE)
    try:
        categories = json.loads(line[1]) if line else None
    except (ValueError, RecursionError):
        categories = line
    if categories is None:
        return []
    if not isinstance(categories, list) or not all(isinstance(listed, list) for listed in categories):
        raise head.error("'pandas_categorical' is not a list of categories")
    return categories


def _match_columns(schema: Schema, head: Fields, categories: list[list[Any]]) -> FeatureColumns:
    features, names = head.integer("max_feature_idx") + 1, head.text("feature_names").split(" ")
    if not categories:
        return match_features(schema, features, names, {}, location=head.location)
    # The model treats ordered categories as numbers, so only the schema identifies them as categories.
    infos = head.text("feature_infos").split()
    named = [i for i, info in enumerate(infos) if not info.startswith("[") and info != "none"]
    if len(named) != len(categories):
        positions = match_columns(schema, features, names, location=head.location, named_categories=range(features))
        named = [i for i, column in enumerate(positions) if column_attribute(schema, int(column)).is_discrete]
    if len(named) != len(categories) or named[-1] >= features:
        raise ModelError(
            f"the model names the categories of {len(categories)} features, but the file does not identify these "
            "features",
            location=head.location,
            hint="train it on codes (positions in the schema's values), or wrap it as module:function",
        )
    return match_features(schema, features, names, dict(zip(named, categories, strict=True)), location=head.location)


def _read_tree(section: Fields, columns: FeatureColumns, output: int) -> DecisionTree:
    """Read one tree: inner nodes first, then leaves, which the file numbers -1, -2, ..."""
    leaves = section.integer("num_leaves")
    if section.fields.get("is_linear", "0") != "0":
        raise ModelError(
            "the leaves hold linear models (linear_tree)",
            location=section.location,
            hint="train with linear_tree=false",
        )
    if leaves < 1:
        raise section.error(f"a tree with {leaves} leaves")
    inner = leaves - 1
    values = section.numbers("leaf_value", leaves)
    if inner == 0:
        zero = np.zeros(1, dtype=np.int64)
        return DecisionTree(output, zero, np.zeros(1), zero - 1, zero - 1, zero == 1, values[:, None])
    feature, decision = section.integers("split_feature", inner), section.integers("decision_type", inner)
    threshold = section.numbers("threshold", inner)
    children = [section.integers(key, inner) for key in ("left_child", "right_child")]
    missing = (decision >> 2) & 3
    if not ((feature >= 0) & (feature < len(columns.positions)) & (decision >= 0) & (missing <= NAN)).all():
        raise section.error("a node uses an unknown feature or comparison")
    if np.min(children) < -leaves:
        raise section.error("a node has an unknown child")
    by_category = decision & 1 == 1
    # NaN is read as 0 if a node has no missing values. A missing category always goes right.
    default_left = np.where(missing == NONE, threshold >= 0, decision & 2 > 0) & ~by_category
    left_categories = {
        node: columns.input_numbers(int(feature[node]), categories)
        for node, categories in _left_categories(section, np.flatnonzero(by_category), threshold)
    }
    zero_missing = (missing == ZERO) & ~by_category
    for node in np.flatnonzero(~by_category & np.isin(feature, list(columns.codes))):
        # The model compares its own codes, whose order may differ from that of the input numbers.
        codes = columns.codes[int(feature[node])]
        is_missing = (codes < 0) | (zero_missing[node] & (codes == 0))
        goes_left = np.where(is_missing, default_left[node], codes <= threshold[node])
        left_categories[int(node)] = np.flatnonzero(goes_left)
        zero_missing[node] = False
    left, right = (np.append(np.where(child < 0, inner - 1 - child, child), np.full(leaves, -1)) for child in children)
    return DecisionTree(
        output=output,
        feature=_pad_leaves(columns.positions[feature], leaves),
        threshold=_pad_leaves(threshold, leaves),
        left=left,
        right=right,
        default_left=_pad_leaves(default_left, leaves),
        values=np.append(np.zeros(inner), values)[:, None],
        zero_missing=_pad_leaves(zero_missing, leaves),
        left_categories=left_categories,
    )


def _left_categories(section: Fields, nodes: Integers, threshold: Floats) -> Iterator[tuple[int, Integers]]:
    """Yield the categories that go left at each node. Its threshold is the index of its bitset."""
    if len(nodes) == 0:
        return
    boundaries, words = section.integers("cat_boundaries"), section.integers("cat_threshold")
    if len(boundaries) < 2 or boundaries[0] != 0 or (np.diff(boundaries) < 0).any() or boundaries[-1] > len(words):
        raise section.error("the category sets are damaged")
    if not ((words >= 0) & (words < 2**32)).all():
        raise section.error("'cat_threshold' holds more than 32 bits")
    for node in nodes.tolist():
        if not 0 <= threshold[node] < len(boundaries) - 1:
            raise section.error("a node refers to an unknown category set")
        start, end = boundaries[int(threshold[node])], boundaries[int(threshold[node]) + 1]
        # Category c is bit c % 32 of word c // 32.
        yield node, np.flatnonzero(((words[start:end, None] >> np.arange(32)) & 1).ravel())


def _pad_leaves(array: NDArray[Any], leaves: int) -> NDArray[Any]:
    return np.append(array, np.zeros(leaves, dtype=array.dtype))
