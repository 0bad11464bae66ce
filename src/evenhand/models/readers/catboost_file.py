"""CatBoost models as ensembles of trees, from CatBoost's JSON format."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import MissingExtraError, ModelError, NotAdditiveError
from evenhand.models.readers import catboost_json
from evenhand.models.readers.reading import JsonObject
from evenhand.models.trees.columns import category_codes, category_texts, match_columns
from evenhand.models.trees.ensemble import Link, TreeEnsemble, build_ensemble
from evenhand.models.trees.nodes import DecisionTree, at_most_float32
from evenhand.schema.schema import Schema

SAVE_AGAIN_HINT = "save the model again with save_model('model.cbm') or save_model('model.json', format='json')"

MAGIC = b"CBM1"
"""First bytes of a ``.cbm`` file."""

MAX_DEPTH = 16
"""Of a symmetric tree: CatBoost grows none deeper."""

MAX_CONVERSION_SECONDS = 300
"""Time limit of CatBoost for one file: on a damaged one it may not end by itself."""

LINKS: dict[str, Link] = {
    "Logloss": "logistic",
    "CrossEntropy": "logistic",
    "MultiClass": "softmax",
    "MultiClassOneVsAll": "one-vs-rest",
}
"""Losses that make a classifier, and how their raw values become probabilities."""


def read_catboost(path: str | Path, schema: Schema) -> TreeEnsemble:
    """Read a model saved by CatBoost (``save_model``), with symmetric trees or others.

    CatBoost itself converts a ``.cbm`` file to JSON, in a process of its own. It compares in float32 (``x > border``);
    the thresholds here are the float64 numbers that decide the same. It adds in float64. With ``MultiClassOneVsAll``
    its probabilities need not add up to 1; here they are divided by their sum. Categories that are compared one by one
    (``one_hot_max_size``) are hashes of their words, which CatBoost computes for the schema's values and for the
    numbers that represent them.

    Args:
        path: a ``.cbm`` or ``.json`` file.
        schema: what the model's individuals are. A model that knows its features by name is matched by name.

    Raises:
        NotAdditiveError: it computes with more than the trees: statistics of categories (CTR), texts, embeddings.
        ModelError: the file is damaged, no such model, no classifier, or does not fit the schema.
        MissingExtraError: CatBoost is needed and not installed.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror}", location=str(path)) from None
    if data[: len(MAGIC)] == MAGIC:
        return parse_catboost(_convert_file(path, "cbm", schema), schema, location=path.name)
    try:
        return parse_catboost(data, schema, location=path.name)
    except _UnknownHashError:
        return parse_catboost(_convert_file(path, "json", schema), schema, location=path.name)


def is_catboost(data: bytes) -> bool:
    """Return whether the bytes of a file look like a CatBoost model in either format."""
    return data[: len(MAGIC)] == MAGIC or (b'"features_info"' in data and b'"model_info"' in data)


def parse_catboost(data: bytes, schema: Schema, *, location: str) -> TreeEnsemble:
    """Return the model in the bytes of a JSON file.

    Raises:
        NotAdditiveError, ModelError: as ``read_catboost``.
    """
    try:
        return _build_ensemble(_read_json(data, location), schema, location)
    except (ValueError, IndexError, TypeError, OverflowError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"the file is not a CatBoost model, or it is damaged ({error})" if data else "the file is empty",
            location=location,
            hint=SAVE_AGAIN_HINT,
        ) from None


def parse_catboost_object(model: Any, schema: Schema, *, location: str) -> TreeEnsemble:
    """Return a CatBoost model in memory as an ensemble.

    Raises:
        NotAdditiveError, ModelError: as ``read_catboost``.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        catboost_json.write_json(model, str(path), _list_words(schema))
        return parse_catboost(path.read_bytes(), schema, location=location)


class _UnknownHashError(ModelError):
    """The words behind the hashes of categories are not in the file."""


def _convert_file(path: Path, file_format: str, schema: Schema) -> bytes:
    """Convert a file to JSON with the words of its categories, by CatBoost.

    CatBoost's loader can crash on damaged files, so it runs in a process of its own.
    """
    installed = False
    with suppress(ImportError):
        installed = find_spec("catboost") is not None
    if not installed:
        purpose = (
            "to read a .cbm file (a model saved with save_model('model.json', format='json') needs no CatBoost)"
            if file_format == "cbm"
            else "to find the words behind the hashes of categories (save_model(..., pool=POOL) writes them)"
        )
        raise MissingExtraError("catboost", extra="catboost", purpose=purpose)
    with TemporaryDirectory() as folder:
        target = Path(folder, "model.json")
        command = [sys.executable, "-P", catboost_json.__file__, str(path), file_format, str(target)]
        words = json.dumps(_list_words(schema))
        try:
            run = subprocess.run(
                command, input=words, capture_output=True, text=True, check=False, timeout=MAX_CONVERSION_SECONDS
            )
            reason = (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            reason = f"no result after {MAX_CONVERSION_SECONDS} seconds"
        if not target.exists() or run.returncode:
            raise ModelError(
                f"the file is damaged, or no such model: CatBoost cannot read it ({reason})",
                location=path.name,
                hint=SAVE_AGAIN_HINT,
            )
        return target.read_bytes()


def _list_words(schema: Schema) -> list[str]:
    """List the texts by which a model may know a category of any attribute."""
    words: dict[str, None] = {}
    for column in range(schema.width):
        try:
            words |= dict.fromkeys(category_texts(schema, column, ""))
        except ModelError:
            continue  # not an attribute that a model can take as categories
    return list(words)


class _Split(NamedTuple):
    """A question: is the number above the border, or is the category the one with this hash?"""

    feature: int
    border: float = 0.0
    category: int | None = None
    nan_passes: bool = False


@dataclass
class _Tree:
    """Nodes in any order; a leaf has no split. ``no`` and ``yes`` are the children by the split's answer."""

    split: list[_Split | None] = field(default_factory=list)
    no: list[int] = field(default_factory=list)
    yes: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def add(self, split: _Split | None, no: int = -1, yes: int = -1, values: Any = None) -> int:
        self.split.append(split)
        self.no.append(no)
        self.yes.append(yes)
        self.values.append(values)
        return len(self.split) - 1


@dataclass(frozen=True)
class _Described:
    """A model as its file describes it.

    Attributes:
        names: of the features, empty where the training data had none.
        features: how many there are.
        categorical: the features that are categories.
        trees: not checked yet.
        info: the training parameters and labels, as they stand in the file.
        scale, bias: the raw values are ``scale * (sum of leaves) + bias``.
        words: of the hashes of categories, where the file has them.
    """

    names: Sequence[str]
    features: int
    categorical: Sequence[int]
    trees: Sequence[_Tree]
    info: Mapping[str, Any]
    scale: float
    bias: Floats
    words: Mapping[int, str]


def _build_ensemble(described: _Described, schema: Schema, location: str) -> TreeEnsemble:
    link, answers = _read_objective(described.info, len(described.bias), location)
    positions = match_columns(
        schema, described.features, described.names, location=location, named_categories=described.categorical
    )
    asked: dict[int, set[int]] = {}
    for split in (split for tree in described.trees for split in tree.split):
        if split is not None and split.category is not None:
            asked.setdefault(split.feature, set()).add(split.category)
    numbers = {}
    for feature, categories in asked.items():
        column = int(positions[feature])
        listed = sorted(categories)
        if not described.words:
            raise _UnknownHashError("the file holds hashes of categories, and not their words", location=location)
        named = [described.words.get(category, f"a word with the hash {category}") for category in listed]
        codes = category_codes(schema, column, named, by_name=True, location=location)
        numbers[feature] = {category: np.flatnonzero(codes == i) for i, category in enumerate(listed)}
    width = len(described.bias)
    trees = []
    for i, tree in enumerate(described.trees):
        leaf = np.array([split is None for split in tree.split])
        hot = np.array([split is not None and split.category is not None for split in tree.split])
        no, yes = np.array(tree.no), np.array(tree.yes)
        rows = [np.zeros(width) if values is None else np.ravel(np.asarray(values, float)) for values in tree.values]
        if any(len(row) != width for row in rows):
            raise ModelError(
                "a leaf has another number of values than there are outputs", location=f"{location}, tree {i}"
            )
        borders = np.array([0.0 if split is None else split.border for split in tree.split])
        trees.append(
            DecisionTree(
                output=0,
                feature=np.array([0 if split is None else positions[split.feature] for split in tree.split]),
                threshold=at_most_float32(borders),
                # People in a node's set go left; people above its border go right.
                left=np.where(leaf, -1, np.where(hot, yes, no)),
                right=np.where(leaf, -1, np.where(hot, no, yes)),
                default_left=np.array(
                    [split is not None and split.category is None and not split.nan_passes for split in tree.split]
                ),
                values=described.scale * np.stack(rows),
                left_categories={
                    node: numbers[split.feature][split.category]
                    for node, split in enumerate(tree.split)
                    if split is not None and split.category is not None
                },
            )
        )
    return build_ensemble(schema, trees, base=described.bias, link=link, answers=answers, location=location)


def _read_objective(info: Mapping[str, Any], outputs: int, location: str) -> tuple[Link, Sequence[Any]]:
    """Return how raw values become probabilities, and the labels that the outputs stand for."""
    parameters = _parse_text(info.get("params", {}))
    loss = parameters.get("loss_function", {})
    name = loss.get("type") if isinstance(loss, dict) else loss
    if name not in LINKS:
        raise ModelError(
            f"the loss {name!r} makes no classifier with probabilities" if name else "the file does not name its loss",
            location=location,
            hint=f"train a CatBoostClassifier with one of {', '.join(LINKS)}, or give the model as module:function",
        )
    if (LINKS[name] == "logistic") != (outputs == 1):
        raise ModelError(f"{outputs} outputs for the loss {name}", location=location, hint=SAVE_AGAIN_HINT)
    threshold = float(info.get("binclass_probability_threshold", 0.5))
    if threshold != 0.5:
        raise NotAdditiveError(
            f"the model gives its second label above a probability of {threshold:g}, and only 1/2 can be read",
            location=location,
            hint="undo set_probability_threshold, save the model again, and give evenhand the threshold instead",
        )
    labels = _parse_text(info.get("class_params", {})).get("class_names") or list(range(max(outputs, 2)))
    if len(labels) != max(outputs, 2):
        raise ModelError(f"{len(labels)} labels for {outputs} outputs", location=location, hint=SAVE_AGAIN_HINT)
    return LINKS[name], labels


def _parse_text(value: Any) -> dict[str, Any]:
    found = json.loads(value) if isinstance(value, str) else value
    if not isinstance(found, dict):
        raise ValueError(f"{str(value)[:40]!r} is not an object")
    return found


def _refuse_statistics(what: str, location: str) -> Any:
    raise NotAdditiveError(
        f"the model computes with {what}, and not with its trees alone",
        location=location,
        hint="for a white box train with one_hot_max_size at least as large as the number of an attribute's values; "
        "for a black box `trust=True` lets CatBoost itself answer (its loader does not check damaged files)",
    )


def _read_json(data: bytes, location: str) -> _Described:
    document = JsonObject(json.loads(data), location, SAVE_AGAIN_HINT)
    features = document.part("features_info")
    floats = [JsonObject(each, location, SAVE_AGAIN_HINT) for each in features.fields.get("float_features", [])]
    words = [JsonObject(each, location, SAVE_AGAIN_HINT) for each in features.fields.get("categorical_features", [])]
    if features.fields.get("text_features") or features.fields.get("embedding_features"):
        _refuse_statistics("texts or embeddings", location)
    number = {each.integer("feature_index"): each.integer("flat_feature_index") for each in floats}
    word = {each.integer("feature_index"): each.integer("flat_feature_index") for each in words}
    passes = {
        each.integer("feature_index"): each.fields.get("nan_value_treatment", "AsIs") == "AsTrue" for each in floats
    }

    def read_split(part: JsonObject) -> _Split:
        kind = part.text("split_type")
        if kind == "FloatFeature":
            place = part.integer("float_feature_index")
            return _Split(number[place], _border(part.fields["border"]), nan_passes=passes[place])
        if kind == "OneHotFeature":
            return _Split(word[part.integer("cat_feature_index")], category=part.integer("value"))
        _refuse_statistics("statistics of categories (CTR)" if kind == "OnlineCtr" else f"a {kind}", location)
        raise AssertionError

    scale, bias = document.items("scale_and_bias")
    if "oblivious_trees" in document.fields:
        trees = [
            _symmetric_tree(
                [read_split(JsonObject(split, part.location, SAVE_AGAIN_HINT)) for split in part.items("splits")]
                if part.fields.get("splits") is not None
                else [],
                part.numbers("leaf_values"),
                len(bias),
            )
            for part in _parts(document, "oblivious_trees", location)
        ]
    else:
        trees = [_nested_tree(part, read_split) for part in _parts(document, "trees", location)]
    names = {each.integer("flat_feature_index"): str(each.fields.get("feature_id", "")) for each in (*floats, *words)}
    listed = [names[i] for i in sorted(names)]
    if sorted(names) != list(range(len(names))):
        raise ValueError("its features are not numbered one by one")
    biases = np.array(bias, dtype=float)
    if not np.isfinite(float(scale)) or not np.isfinite(biases).all():
        raise ValueError("its scale or bias is not finite")
    unnamed = all(name in ("", str(i)) for i, name in enumerate(listed))
    hashes = [JsonObject(each, location, SAVE_AGAIN_HINT) for each in features.fields.get("cat_features_hash", [])]
    return _Described(
        names=[] if unnamed else listed,
        features=len(listed),
        categorical=list(word.values()),
        trees=trees,
        info=document.part("model_info").fields,
        scale=float(scale),
        bias=biases,
        # Splits have the same 32 bits with a sign.
        words={(each.integer("hash") + 2**31) % 2**32 - 2**31: each.text("value") for each in hashes},
    )


def _parts(document: JsonObject, key: str, location: str) -> Iterator[JsonObject]:
    for i, each in enumerate(document.items(key)):
        yield JsonObject(each, f"{location}, tree {i}", SAVE_AGAIN_HINT)


def _nested_tree(root: JsonObject, read_split: Any) -> _Tree:
    tree = _Tree()
    waiting = [(root, -1, False)]
    while waiting:
        part, parent, answer = waiting.pop()
        if "split" in part.fields:
            here = tree.add(read_split(part.part("split")))
            waiting += [(part.part("left"), here, False), (part.part("right"), here, True)]
        else:
            here = tree.add(None, values=part.fields["value"])
        if parent >= 0:
            (tree.yes if answer else tree.no)[parent] = here
    return tree


def _symmetric_tree(splits: Sequence[_Split], values: Floats, outputs: int) -> _Tree:
    """A tree with one question per level; bit i of a leaf's number is the answer to question i."""
    depth = len(splits)
    if depth > MAX_DEPTH or len(values) != outputs << depth:
        raise ValueError(f"{len(values)} leaf values for {depth} questions")
    rows = np.asarray(values, dtype=np.float64).reshape(-1, outputs)
    tree = _Tree()
    for level, split in enumerate(splits):
        for node in range(2**level - 1, 2 ** (level + 1) - 1):
            tree.add(split, 2 * node + 1, 2 * node + 2)
    for place in range(2**depth):
        # The first question is asked at the root: it is the highest bit of a leaf's place from the left.
        number = int(f"{place:0{depth}b}"[::-1], 2) if depth else 0
        tree.add(None, values=rows[number])
    return tree


def _border(value: Any) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))
