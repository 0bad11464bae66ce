"""LightGBM models from their own text files, without LightGBM."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError
from evenhand.models.trees.columns import FeatureColumns, category_codes, column_attribute, match_columns
from evenhand.models.trees.ensemble import Link, TreeEnsemble, build_ensemble
from evenhand.models.trees.nodes import DecisionTree
from evenhand.schema.schema import Schema

SAVE_AGAIN_HINT = "save the model again with save_model('model.txt')"

VERSIONS = ("v3", "v4")
"""Versions of the file format that are known; all are read as LightGBM 4 reads them."""

LINKS: dict[str, Link] = {
    "binary": "logistic",
    "cross_entropy": "logistic",
    "multiclass": "softmax",
    "multiclassova": "one-vs-rest",
}
"""Objectives that make a classifier, and how their raw scores become probabilities."""

NUMBERS = frozenset({"regression", "regression_l1", "huber", "fair", "quantile", "mape"})
"""Objectives whose raw score is the number that the model gives."""

NONE, ZERO, NAN = range(3)
"""What a LightGBM node takes for missing: nothing (NaN is then 0), zero and NaN, or NaN."""


def read_lightgbm(path: str | Path, schema: Schema) -> TreeEnsemble:
    """Read a model saved by LightGBM 3 or 4 (``save_model``), boosted (gbdt, dart, goss) or bagged (rf).

    LightGBM compares in float64 (``x <= threshold`` goes left) and adds in float64, as is done here. With
    ``multiclassova`` its probabilities need not add up to 1; here they are divided by their sum.

    Args:
        path: a ``.txt`` file.
        schema: what the model's individuals are. A model that knows its features by name is matched by name, and its
            categories too. The model answers 0 and 1 for the unfavourable and the favourable label, or k classes for
            the target's ``values`` in order, unless those labels are the numbers themselves.

    Raises:
        ModelError: the file is damaged, no such model, no classifier, has linear trees, or does not fit the schema.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror}", location=str(path)) from None
    except UnicodeDecodeError:
        raise ModelError(
            "the file is not a LightGBM model: it is not text", location=path.name, hint=SAVE_AGAIN_HINT
        ) from None
    return parse_lightgbm(text, schema, location=path.name)


def parse_lightgbm(text: str, schema: Schema, *, location: str, answers: Sequence[Any] | None = None) -> TreeEnsemble:
    """Return the model in the text of a file.

    Args:
        text: what LightGBM writes.
        schema: what the model's individuals are.
        location: how to call the model.
        answers: the labels that the outputs stand for, where they are known; by default 0, 1, ...

    Raises:
        ModelError: as ``read_lightgbm``.
    """
    head, blocks, tail = _split_sections(text, location)
    if head.text("version") not in VERSIONS:
        raise ModelError(
            f"this is version {head.text('version')[:20]!r} of LightGBM's format; {' and '.join(VERSIONS)} can be read",
            location=location,
            hint="save the model again with LightGBM 3 or 4",
        )
    link, steepness = _read_objective(head, schema, location)
    outputs = head.integer("num_tree_per_iteration")
    features = head.integer("max_feature_idx") + 1
    names = head.text("feature_names").split(" ")
    if not 1 <= outputs <= 100_000:
        raise ModelError(f"{outputs} trees per iteration", location=location, hint=SAVE_AGAIN_HINT)
    if len(blocks) % outputs or ("tree_sizes" in head.fields and len(head.text("tree_sizes").split()) != len(blocks)):
        raise ModelError(f"{len(blocks)} trees are not all that there were", location=location, hint=SAVE_AGAIN_HINT)
    columns = _match_columns(schema, features, names, head, _read_categories(tail, location), location)
    trees = [_read_tree(block, columns, i % outputs) for i, block in enumerate(blocks)]
    return build_ensemble(
        schema,
        trees,
        base=np.zeros(outputs),
        link=link,
        answers=range(max(outputs, 2)) if answers is None else answers,
        location=location,
        divisor=len(trees) / outputs if "average_output" in head.fields else 1.0,
        steepness=steepness,
    )


@dataclass(frozen=True)
class _Section:
    """Lines of the form ``key=value``; every question that has no answer is a ModelError."""

    fields: Mapping[str, str]
    location: str

    @classmethod
    def read(cls, lines: Sequence[str], location: str) -> _Section:
        pairs = (line.partition("=") for line in lines if line.strip())
        return cls({key.strip(): value.strip() for key, _, value in pairs}, location)

    def text(self, key: str) -> str:
        if key not in self.fields:
            raise ModelError(f"{key!r} is missing: the file is damaged", location=self.location, hint=SAVE_AGAIN_HINT)
        return self.fields[key]

    def integer(self, key: str) -> int:
        text = self.text(key)
        try:
            return int(text)
        except ValueError:
            raise ModelError(f"{key!r} is not a whole number", location=self.location, hint=SAVE_AGAIN_HINT) from None

    def integers(self, key: str, count: int | None = None) -> Integers:
        """Return whole numbers, so many if a count is given, shape (n,)."""
        return self._numbers(key, count, int, np.int64)

    def floats(self, key: str, count: int) -> Floats:
        """Return so many numbers, shape (n,)."""
        return self._numbers(key, count, float, np.float64)

    def _numbers(self, key: str, count: int | None, read: type[int] | type[float], kind: Any) -> NDArray[Any]:
        words = self.text(key).split()
        try:
            numbers = np.array([read(word) for word in words], dtype=kind)
        except (ValueError, OverflowError):
            raise ModelError(
                f"{key!r} holds something that is not a number", location=self.location, hint=SAVE_AGAIN_HINT
            ) from None
        if count is not None and len(numbers) != count:
            raise ModelError(
                f"{key!r} holds {len(numbers)} numbers, not {count}", location=self.location, hint=SAVE_AGAIN_HINT
            )
        return numbers


def _split_sections(text: str, location: str) -> tuple[_Section, list[_Section], str]:
    """Return what stands before the trees, each tree, and what stands after them."""
    if text.split("\n", 1)[0].strip() != "tree":
        raise ModelError(
            "the file is not a LightGBM model: its first line is not 'tree'" if text.strip() else "the file is empty",
            location=location,
            hint=SAVE_AGAIN_HINT,
        )
    trees, end, tail = text.partition("\nend of trees")
    if not end:
        raise ModelError("the file ends before the trees do", location=location, hint=SAVE_AGAIN_HINT)
    head, *blocks = re.split(r"^Tree=", trees, flags=re.MULTILINE)
    sections = []
    for i, block in enumerate(blocks):
        number, *lines = block.split("\n")
        if number.strip() != str(i):
            raise ModelError(
                f"tree {i} is missing: {number.strip()[:20]!r} stands there", location=location, hint=SAVE_AGAIN_HINT
            )
        sections.append(_Section.read(lines, f"{location}, tree {i}"))
    return _Section.read(head.split("\n"), location), sections, tail


def _read_objective(head: _Section, schema: Schema, location: str) -> tuple[Link, float]:
    """Return how raw scores become probabilities, or the number that is decided."""
    name, *options = head.fields.get("objective", "none of LightGBM's own").split() or ["none"]
    if schema.target.is_number:
        if name not in NUMBERS or "sqrt" in options:
            raise ModelError(
                f"with the objective {head.fields.get('objective', '')[:40]!r} the trees do not add up to the number",
                location=location,
                hint=f"train with one of {', '.join(sorted(NUMBERS))}, or give the model as module:function",
            )
        return "identity", 1.0
    if name not in LINKS:
        raise ModelError(
            f"the objective {head.fields.get('objective', '')[:40]!r} makes no classifier with probabilities",
            location=location,
            hint=f"train with one of {', '.join(LINKS)}, or give the model as module:function",
        )
    steepness = next((option.partition(":")[2] for option in options if option.startswith("sigmoid:")), "1")
    try:
        return LINKS[name], float(steepness)
    except ValueError:
        raise ModelError(
            f"the steepness of the sigmoid is {steepness!r}", location=location, hint=SAVE_AGAIN_HINT
        ) from None


def _read_categories(tail: str, location: str) -> list[list[Any]]:
    """The categories of each categorical column of the data frame that the model was trained on, in its order."""
    for line in tail.split("\n"):
        key, _, value = line.partition(":")
        if key == "pandas_categorical":
            try:
                listed = json.loads(value)
            except (ValueError, RecursionError):
                listed = value
            if listed is None:
                return []
            if not isinstance(listed, list) or not all(isinstance(categories, list) for categories in listed):
                raise ModelError(
                    "'pandas_categorical' is not a list of categories", location=location, hint=SAVE_AGAIN_HINT
                )
            return listed
    return []


def _match_columns(
    schema: Schema, features: int, names: Sequence[str], head: _Section, categories: list[list[Any]], location: str
) -> FeatureColumns:
    if not categories:
        return FeatureColumns(match_columns(schema, features, names, location=location), {})
    # Ordered categories are numbers to the model: only the schema knows that they are categories.
    infos = head.text("feature_infos").split()
    named = [i for i, info in enumerate(infos) if not info.startswith("[") and info != "none"]
    if len(named) != len(categories):
        positions = match_columns(schema, features, names, location=location, named_categories=range(features))
        named = [i for i, column in enumerate(positions) if column_attribute(schema, int(column)).is_discrete]
    if len(named) != len(categories) or (named and named[-1] >= features):
        raise ModelError(
            f"the model names the categories of {len(categories)} features; which ones, the file does not say",
            location=location,
            hint="train it on codes (positions in the schema's values), or give it as module:function",
        )
    positions = match_columns(schema, features, names, location=location, named_categories=named)
    codes = {
        feature: category_codes(schema, int(positions[feature]), listed, by_name=True, location=location)
        for feature, listed in zip(named, categories, strict=True)
    }
    return FeatureColumns(positions, codes)


def _read_tree(section: _Section, columns: FeatureColumns, output: int) -> DecisionTree:
    """Return one tree: inner nodes first, then leaves, which the file counts by -1, -2, ..."""
    leaves = section.integer("num_leaves")
    if section.fields.get("is_linear", "0") != "0":
        raise ModelError(
            "the leaves hold linear models (linear_tree)",
            location=section.location,
            hint="train with linear_tree=false",
        )
    if leaves < 1:
        raise ModelError(f"a tree with {leaves} leaves", location=section.location, hint=SAVE_AGAIN_HINT)
    inner = leaves - 1
    values = section.floats("leaf_value", leaves)
    if inner == 0:
        nothing = np.zeros(1, dtype=np.int64)
        return DecisionTree(output, nothing, np.zeros(1), nothing - 1, nothing - 1, nothing == 1, values[:, None])
    feature = section.integers("split_feature", inner)
    threshold = section.floats("threshold", inner)
    decision = section.integers("decision_type", inner)
    left, right = section.integers("left_child", inner), section.integers("right_child", inner)
    missing = (decision >> 2) & 3
    if not ((feature >= 0) & (feature < len(columns.positions)) & (decision >= 0) & (missing <= NAN)).all():
        raise ModelError("a node that makes no sense", location=section.location, hint=SAVE_AGAIN_HINT)
    if not (np.minimum(left, right) >= -leaves).all():
        raise ModelError("a node has a child that does not exist", location=section.location, hint=SAVE_AGAIN_HINT)
    asks = decision & 1 == 1
    # Where nothing is missing, NaN is taken for 0; a category that is missing always goes right.
    default_left = np.where(missing == NONE, threshold >= 0, decision & 2 > 0) & ~asks
    listed = {
        int(node): columns.input_numbers(int(feature[node]), categories)
        for node, categories in _left_categories(section, np.flatnonzero(asks), threshold)
    }
    zero_missing = (missing == ZERO) & ~asks
    for node in np.flatnonzero(~asks & np.isin(feature, list(columns.codes))):
        # The model compares its own codes, which may stand in another order than the input numbers.
        codes = columns.codes[int(feature[node])]
        gone = (codes < 0) | (zero_missing[node] & (codes == 0))
        listed[int(node)] = np.flatnonzero(np.where(gone, default_left[node], codes <= threshold[node]))
        zero_missing[node] = False
    return DecisionTree(
        output=output,
        feature=_pad_leaves(columns.positions[feature], leaves),
        threshold=_pad_leaves(threshold, leaves),
        left=np.append(_child_positions(left, inner), np.full(leaves, -1)),
        right=np.append(_child_positions(right, inner), np.full(leaves, -1)),
        default_left=_pad_leaves(default_left, leaves),
        values=np.append(np.zeros(inner), values)[:, None],
        zero_missing=_pad_leaves(zero_missing, leaves),
        left_categories=listed,
    )


def _left_categories(section: _Section, nodes: Integers, threshold: Floats) -> Iterator[tuple[int, Integers]]:
    """The categories that go left at each node that asks for one; its threshold counts the tree's lists of bits."""
    if len(nodes) == 0:
        return
    boundaries = section.integers("cat_boundaries")
    words = section.integers("cat_threshold")
    if len(boundaries) < 2 or boundaries[0] != 0 or (np.diff(boundaries) < 0).any() or boundaries[-1] > len(words):
        raise ModelError("the lists of categories are damaged", location=section.location, hint=SAVE_AGAIN_HINT)
    if not ((words >= 0) & (words < 2**32)).all():
        raise ModelError("'cat_threshold' holds more than 32 bits", location=section.location, hint=SAVE_AGAIN_HINT)
    for node in nodes:
        if not 0 <= threshold[node] < len(boundaries) - 1:
            raise ModelError("a node asks for a list of categories that does not exist", location=section.location)
        of_node = words[boundaries[int(threshold[node])] : boundaries[int(threshold[node]) + 1]]
        # Category c is bit c % 32 of word c // 32.
        bits = (of_node[:, None] >> np.arange(32)) & 1
        yield int(node), np.flatnonzero(bits.ravel())


def _child_positions(children: Integers, inner: int) -> Integers:
    return np.where(children < 0, inner - 1 - children, children)


def _pad_leaves(array: NDArray[Any], leaves: int) -> NDArray[Any]:
    return np.append(array, np.zeros(leaves, dtype=array.dtype))
