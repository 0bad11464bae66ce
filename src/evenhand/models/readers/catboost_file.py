"""CatBoost models as tree ensembles, through CatBoost's JSON format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.typing import Integers
from evenhand.errors import MissingExtraError, ModelError, NotAdditiveError
from evenhand.models.readers import catboost_json
from evenhand.models.readers.reading import Fields, choose_link, convert_file, read_file
from evenhand.models.trees.columns import category_codes, category_texts, match_columns
from evenhand.models.trees.ensemble import Link, TreeEnsemble, build_ensemble
from evenhand.models.trees.nodes import DecisionTree, at_most_float32
from evenhand.schema.schema import Schema

SAVE_AGAIN_HINT = "save the model again with save_model('model.cbm')"

MAX_DEPTH = 16
"""Maximum depth of a symmetric tree in CatBoost."""

LINKS: dict[str, Link] = {
    "Logloss": "logistic",
    "CrossEntropy": "logistic",
    "MultiClass": "softmax",
    "MultiClassOneVsAll": "one-vs-rest",
}
"""Classification losses and the links from raw values to probabilities."""


def read_catboost(path: str | Path, schema: Schema) -> TreeEnsemble:
    """Read a ``.cbm`` model saved by CatBoost (``save_model``), with symmetric or other trees.

    CatBoost converts the file to JSON, in a separate process. It compares in float32 (``x > border``); the
    ensemble's float64 thresholds select the same branches. Sums are in float64. With
    ``MultiClassOneVsAll`` probabilities need not sum to 1; the ensemble normalises them. One-hot categories
    (``one_hot_max_size``) are stored as hashes, which CatBoost computes for the schema's values and their numbers.

    Args:
        path: A ``.cbm`` file.
        schema: Schema of the inputs. A model with feature names is matched by name.

    Raises:
        NotAdditiveError: the model also uses category statistics (CTR), texts or embeddings.
        ModelError: the file is damaged, is not a CatBoost classifier, or does not fit the schema.
        MissingExtraError: CatBoost is not installed.
    """
    path = Path(path)
    read_file(path)
    installed = False
    with suppress(ImportError):
        installed = find_spec("catboost") is not None
    if not installed:
        raise MissingExtraError("catboost", extra="catboost", purpose="to read a .cbm file")
    words = json.dumps(_list_words(schema))
    content = convert_file(path, [catboost_json.__file__], words=words, hint=SAVE_AGAIN_HINT)
    return parse_catboost(content, schema, location=path.name)


def parse_catboost(data: bytes, schema: Schema, *, location: str) -> TreeEnsemble:
    """Parse a model in CatBoost's JSON format."""
    try:
        return _parse_document(Fields(json.loads(data), location, SAVE_AGAIN_HINT), schema)
    except (ValueError, IndexError, TypeError, OverflowError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"the file is not a CatBoost model, or it is damaged ({error})", location=location, hint=SAVE_AGAIN_HINT
        ) from None


def parse_catboost_object(model: Any, schema: Schema, *, location: str) -> TreeEnsemble:
    """Convert a CatBoost model in memory."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        catboost_json.write_json(model, str(path), _list_words(schema))
        return parse_catboost(path.read_bytes(), schema, location=location)


def _list_words(schema: Schema) -> list[str]:
    """List all strings that may represent a category of an attribute in a model."""
    words: dict[str, None] = {}
    for column in range(schema.width):
        try:
            words |= dict.fromkeys(category_texts(schema, column, ""))
        except ModelError:
            continue  # a model cannot use this attribute as categorical
    return list(words)


class _Split(NamedTuple):
    """Test of a node: a number above the border, or the category with this hash."""

    feature: int
    border: float = 0.0
    category: int | None = None
    nan_passes: bool = False


class _Node(NamedTuple):
    """Node of a tree: a split with a child for each of its two results, or the values of a leaf."""

    split: _Split | None
    no: int = -1
    yes: int = -1
    values: Any = None


def _parse_document(document: Fields, schema: Schema) -> TreeEnsemble:
    location = document.location
    info = document.part("features_info")
    if info.fields.get("text_features") or info.fields.get("embedding_features"):
        raise _statistics_error("texts or embeddings", location)
    numeric = info.parts("float_features", "feature", optional=True)
    categorical = info.parts("categorical_features", "feature", optional=True)
    described = {part.integer("flat_feature_index"): part for part in (*numeric, *categorical)}
    if sorted(described) != list(range(len(numeric) + len(categorical))):
        raise ValueError("its features are not numbered consecutively")
    names = [str(part.fields.get("feature_id", "")) for _, part in sorted(described.items())]
    if all(name in ("", str(i)) for i, name in enumerate(names)):
        names = []
    number_index = {part.integer("feature_index"): part for part in numeric}
    category_index = {part.integer("feature_index"): part.integer("flat_feature_index") for part in categorical}

    def read_split(part: Fields) -> _Split:
        kind = part.text("split_type")
        if kind == "FloatFeature":
            feature = number_index[part.integer("float_feature_index")]
            with np.errstate(over="ignore"):
                border = float(np.float32(part["border"]))
            nan_passes = feature.fields.get("nan_value_treatment", "AsIs") == "AsTrue"
            return _Split(feature.integer("flat_feature_index"), border, nan_passes=nan_passes)
        if kind == "OneHotFeature":
            return _Split(category_index[part.integer("cat_feature_index")], category=part.integer("value"))
        raise _statistics_error("category statistics (CTR)" if kind == "OnlineCtr" else f"a {kind}", location)

    scale, biases = document.items("scale_and_bias")
    base = np.array(biases, dtype=float)
    if not np.isfinite(float(scale)) or not np.isfinite(base).all():
        raise ValueError("its scale or bias is not a finite number")
    link, answers = _read_objective(document.part("model_info"), len(base), schema)
    if "oblivious_trees" in document:
        trees = [_symmetric_nodes(part, read_split, len(base)) for part in document.parts("oblivious_trees", "tree")]
    else:
        trees = [_nested_nodes(part, read_split) for part in document.parts("trees", "tree")]
    positions = match_columns(
        schema, len(described), names, location=location, named_categories=list(category_index.values())
    )
    numbers = _category_numbers(trees, info, positions, schema)
    return build_ensemble(
        schema,
        [_build_tree(nodes, positions, numbers, len(base), float(scale)) for nodes in trees],
        base=base,
        link=link,
        answers=answers,
        location=location,
    )


def _read_objective(info: Fields, outputs: int, schema: Schema) -> tuple[Link, Sequence[Any]]:
    """Read the link from raw values to probabilities, and the labels of the outputs."""

    def decoded(key: str) -> Fields:
        value = info.fields.get(key, {})
        return Fields(json.loads(value) if isinstance(value, str) else value, info.location, info.hint)

    loss = decoded("params").fields.get("loss_function")
    name = loss.get("type") if isinstance(loss, dict) else loss
    link = choose_link(str(name), LINKS, (), schema, location=info.location)
    if (link == "logistic") != (outputs == 1):
        raise info.error(f"{outputs} outputs for the loss {name}")
    threshold = float(info.fields.get("binclass_probability_threshold", 0.5))
    if threshold != 0.5:
        raise NotAdditiveError(
            f"only the probability threshold 1/2 is supported, got {threshold:g}",
            location=info.location,
            hint="reset set_probability_threshold, save the model again, and pass the threshold to evenhand instead",
        )
    labels = decoded("class_params").fields.get("class_names") or list(range(max(outputs, 2)))
    if len(labels) != max(outputs, 2):
        raise info.error(f"{len(labels)} labels for {outputs} outputs")
    return link, labels


def _statistics_error(feature: str, location: str) -> NotAdditiveError:
    return NotAdditiveError(
        f"the model uses {feature} in addition to its trees",
        location=location,
        hint="for a white box, train with one_hot_max_size at least the number of values of each attribute; for a "
        "black box, `trust=True` runs CatBoost itself (its loader does not check damaged files)",
    )


def _nested_nodes(root: Fields, read_split: Callable[[Fields], _Split]) -> list[_Node]:
    nodes: list[_Node] = []
    stack = [(root, -1, False)]
    while stack:
        part, parent, passes = stack.pop()
        if parent >= 0:
            place = len(nodes)
            nodes[parent] = nodes[parent]._replace(yes=place) if passes else nodes[parent]._replace(no=place)
        if "split" in part:
            stack += [(part.part("left"), len(nodes), False), (part.part("right"), len(nodes), True)]
            nodes.append(_Node(read_split(part.part("split"))))
        else:
            nodes.append(_Node(None, values=part["value"]))
    return nodes


def _symmetric_nodes(part: Fields, read_split: Callable[[Fields], _Split], outputs: int) -> list[_Node]:
    """Build a tree with one split per level; bit i of a leaf's number is the result of split i."""
    splits = [read_split(split) for split in part.parts("splits", "split", optional=True)]
    depth = len(splits)
    values = part.numbers("leaf_values")
    if depth > MAX_DEPTH or len(values) != outputs << depth:
        raise ValueError(f"{len(values)} leaf values for {depth} splits")
    leaves = values.reshape(-1, outputs)
    nodes = [
        _Node(split, 2 * node + 1, 2 * node + 2)
        for level, split in enumerate(splits)
        for node in range(2**level - 1, 2 ** (level + 1) - 1)
    ]
    # The first split is at the root and is the highest bit of a leaf's position from the left.
    numbers = [int(f"{place:0{depth}b}"[::-1], 2) for place in range(2**depth)]
    return nodes + [_Node(None, values=leaves[number]) for number in numbers]


def _category_numbers(
    trees: Sequence[Sequence[_Node]], info: Fields, positions: Integers, schema: Schema
) -> Mapping[tuple[int, int | None], Integers]:
    """Find the input numbers of each category hash in a split, by feature and hash."""
    hashes: dict[int, set[int]] = {}
    for split in (node.split for nodes in trees for node in nodes):
        if split is not None and split.category is not None:
            hashes.setdefault(split.feature, set()).add(split.category)
    # Hashes in splits are the same 32 bits as signed integers.
    words = {
        (part.integer("hash") + 2**31) % 2**32 - 2**31: part.text("value")
        for part in info.parts("cat_features_hash", "hash", optional=True)
    }
    numbers: dict[tuple[int, int | None], Integers] = {}
    for feature, categories in hashes.items():
        listed = sorted(categories)
        texts = [words.get(category, f"a word with the hash {category}") for category in listed]
        codes = category_codes(schema, int(positions[feature]), texts, by_name=True, location=info.location)
        numbers |= {(feature, category): np.flatnonzero(codes == i) for i, category in enumerate(listed)}
    return numbers


def _build_tree(
    nodes: Sequence[_Node],
    positions: Integers,
    numbers: Mapping[tuple[int, int | None], Integers],
    outputs: int,
    scale: float,
) -> DecisionTree:
    splits = [node.split or _Split(0) for node in nodes]
    leaf = np.array([node.split is None for node in nodes])
    by_category = np.array([split.category is not None for split in splits])
    no, yes = np.array([node.no for node in nodes]), np.array([node.yes for node in nodes])
    values = np.zeros((len(nodes), outputs))
    for i, node in enumerate(nodes):
        if node.values is not None:
            values[i] = np.asarray(node.values, dtype=float).reshape(outputs)
    return DecisionTree(
        output=0,
        feature=positions[[split.feature for split in splits]],
        threshold=at_most_float32(np.array([split.border for split in splits])),
        # A category in a node's set goes left. A number above the border goes right.
        left=np.where(leaf, -1, np.where(by_category, yes, no)),
        right=np.where(leaf, -1, np.where(by_category, no, yes)),
        default_left=~leaf & ~by_category & ~np.array([split.nan_passes for split in splits]),
        values=scale * values,
        left_categories={
            i: numbers[split.feature, split.category] for i, split in enumerate(splits) if split.category is not None
        },
    )
