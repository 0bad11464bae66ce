"""CatBoost's two file formats brought to one description, and that to an ensemble of trees."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models.readers.catboost.city_hash import hash_category
from evenhand.models.readers.reading import JsonObject
from evenhand.models.trees.columns import category_codes, category_texts, match_columns
from evenhand.models.trees.ensemble import Link, TreeEnsemble, build_ensemble
from evenhand.models.trees.nodes import DecisionTree, at_most_float32
from evenhand.schema import Schema
from evenhand.typing import Floats

SAVE_AGAIN_HINT = "save the model again with save_model('model.cbm') or save_model('model.json', format='json')"

MAGIC = b"CBM1"
MAX_DEPTH = 16
"""Of a symmetric tree: CatBoost grows none deeper."""

LINKS: dict[str, Link] = {
    "Logloss": "logistic",
    "CrossEntropy": "logistic",
    "MultiClass": "softmax",
    "MultiClassOneVsAll": "one-vs-rest",
}
"""Losses that make a classifier, and how their raw values become probabilities."""

NAN_PASSES = 2
"""``NanValueTreatment`` AsTrue: a missing number is above every border; otherwise it is below."""


def read_catboost(path: str | Path, schema: Schema) -> TreeEnsemble:
    """Read a model saved by CatBoost (``save_model``), with symmetric trees or others.

    CatBoost compares in float32 (``x > border``); the thresholds here are the float64 numbers that decide the same. It
    adds in float64. With ``MultiClassOneVsAll`` its probabilities need not add up to 1; here they are divided by their
    sum. Categories that are compared one by one (``one_hot_max_size``) stand in the file as hashes of their words, and
    are found among the schema's values, or else among the numbers that stand for them.

    Args:
        path: a ``.cbm`` or ``.json`` file.
        schema: what the model's individuals are. A model that knows its features by name is matched by name.

    Raises:
        NotAdditiveError: it computes with more than the trees: statistics of categories (CTR), texts, embeddings.
        ModelError: the file is damaged, no such model, no classifier, or does not fit the schema.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror}", location=str(path)) from None
    return parse_catboost(data, schema, location=path.name)


def is_catboost(data: bytes) -> bool:
    """Return whether the bytes of a file look like a CatBoost model in either format."""
    return data[:4] == MAGIC or (b'"features_info"' in data and b'"model_info"' in data)


def parse_catboost(data: bytes, schema: Schema, *, location: str) -> TreeEnsemble:
    """Return the model in the bytes of a file.

    Raises:
        NotAdditiveError, ModelError: as ``read_catboost``.
    """
    try:
        described = _read_binary(data, location) if data[:4] == MAGIC else _read_json(data, location)
        return _build_ensemble(described, schema, location)
    except (ValueError, IndexError, TypeError, OverflowError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"the file is not a CatBoost model, or it is damaged ({error})" if data else "the file is empty",
            location=location,
            hint=SAVE_AGAIN_HINT,
        ) from None


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
    """What either format says.

    Attributes:
        names: of the features, empty where the training data had none.
        features: how many there are.
        categorical: the features that are categories.
        trees: not checked yet.
        info: the training parameters and labels, as they stand in the file.
        scale, bias: the raw values are ``scale * (sum of leaves) + bias``.
    """

    names: Sequence[str]
    features: int
    categorical: Sequence[int]
    trees: Sequence[_Tree]
    info: Mapping[str, Any]
    scale: float
    bias: Floats


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
        known = {hash_category(text): text for text in category_texts(schema, column, location)}
        listed = sorted(categories)
        named = [known.get(category, f"a word with the hash {category}") for category in listed]
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
                default_left=np.array([split is not None and split.category is None and not split.nan_passes
                                       for split in tree.split]),
                values=described.scale * np.stack(rows),
                left_categories={
                    node: numbers[split.feature][split.category]
                    for node, split in enumerate(tree.split)
                    if split is not None and split.category is not None
                },
            )
        )  # fmt: skip
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


# The JSON format.


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
    return _describe(
        names, list(word.values()), trees, document.part("model_info").fields, float(scale), np.array(bias, dtype=float)
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


# The binary format: CBM1, the size of a FlatBuffers table, the table. Fields are numbered as in CatBoost's model.fbs.


def _read_binary(data: bytes, location: str) -> _Described:
    size = int.from_bytes(data[4:8], "little")
    if len(data) < 8 + size or size < 8:
        raise ValueError("it ends too early")
    core = FlatTable.root(data[8 : 8 + size])
    trees = core.table(1)
    if trees is None:
        raise ValueError("it has no trees")
    info = {each.text(0): each.text(1) for each in core.tables(2)}
    outputs = int(trees.scalar(0, "i"))
    if not 1 <= outputs <= 100_000:
        raise ValueError(f"{outputs} outputs")
    if trees.tables(12) or trees.tables(13):
        _refuse_statistics("texts or embeddings", location)
    floats, words = trees.tables(5), trees.tables(4)
    flat = {each.scalar(0, "i", -1): each.scalar(1, "i", -1) for each in words}
    splits = [
        _Split(each.scalar(2, "i", -1), float(border), nan_passes=each.scalar(5, "b") == NAN_PASSES)
        for each in floats
        for border in each.array(3, "<f4")
    ]
    splits += [
        _Split(flat[each.scalar(0, "i", -1)], category=int(value))
        for each in trees.tables(6)
        for value in each.array(1, "<i4")
    ]
    asked, sizes = trees.array(1, "<i4"), trees.array(2, "<i4")
    steps, leaves = trees.array(10, "<u2,<u2"), trees.array(11, "<u4")
    if len(steps) == len(asked):
        # A leaf asks nothing, whatever number stands there.
        asked = np.where((steps["f0"] > 0) | (steps["f1"] > 0), asked, 0)
        splits = splits or [_Split(0)]
    if len(asked) and trees.tables(7) and asked.max() >= len(splits):
        _refuse_statistics("statistics of categories (CTR)", location)
    if len(asked) and not 0 <= asked.min() <= asked.max() < len(splits):
        raise ValueError("a tree asks a question that does not exist")
    if (sizes < 0).any() or sizes.sum() != len(asked):
        raise ValueError("its trees are not all there")
    values = trees.array(8, "<f8")
    found, begin, used = [], 0, 0
    for count in sizes.tolist():
        here = [splits[i] for i in asked[begin : begin + count].tolist()]
        if len(steps):
            mine = slice(begin, begin + count)
            found.append(_stepped_tree(here, steps[mine].tolist(), leaves[mine].tolist(), values, outputs))
        else:
            last = used + outputs * 2 ** min(count, MAX_DEPTH + 1)
            found.append(_symmetric_tree(here, values[used:last], outputs))
            used = last
        begin += count
    bias = trees.array(16, "<f8")
    bias = bias.copy() if len(bias) else np.full(outputs, trees.scalar(15, "d"))
    names = {each.scalar(2, "i", -1): each.text(4) for each in floats}
    names |= {each.scalar(1, "i", -1): each.text(2) for each in words}
    return _describe(names, list(flat.values()), found, info, trees.scalar(14, "d", 1.0), bias)


def _stepped_tree(
    splits: Sequence[_Split], steps: Sequence[tuple[int, int]], leaves: Sequence[int], values: Floats, outputs: int
) -> _Tree:
    """A tree in CatBoost's arrays: children stand so many places further on; no step means the node's own leaf."""
    if not len(splits) == len(steps) == len(leaves):
        raise ValueError("its trees are not all there")
    tree = _Tree()
    for split in splits:
        tree.add(split)
    for node, (no, yes) in enumerate(steps):
        if not no and not yes:
            tree.split[node], tree.values[node] = None, values[leaves[node] : leaves[node] + outputs]
            continue
        own = -1 if no and yes else tree.add(None, values=values[leaves[node] : leaves[node] + outputs])
        tree.no[node], tree.yes[node] = node + no if no else own, node + yes if yes else own
    return tree


# Both formats.


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


def _describe(
    names: Mapping[int, str],
    categorical: Sequence[int],
    trees: Sequence[_Tree],
    info: Mapping[str, Any],
    scale: float,
    bias: Floats,
) -> _Described:
    listed = [names[i] for i in sorted(names)]
    if sorted(names) != list(range(len(names))):
        raise ValueError("its features are not numbered one by one")
    if not np.isfinite(scale) or not np.isfinite(bias).all():
        raise ValueError("its scale or bias is not finite")
    unnamed = all(name in ("", str(i)) for i, name in enumerate(listed))
    return _Described([] if unnamed else listed, len(listed), categorical, trees, info, scale, bias)


def _border(value: Any) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


# FlatBuffers, read field by field: every offset is checked, since a file may hold any bytes.
#
# The format (flatbuffers.dev/internals): a table begins with a signed 32-bit distance back to its vtable, which lists
# where in the table each field stands, 0 for a field that is absent. Texts, vectors and tables stand elsewhere: the
# field holds the unsigned 32-bit distance from itself to them. All numbers are little-endian.


@dataclass(frozen=True)
class FlatTable:
    """One table of a buffer; its fields are asked for by their number in the format's schema.

    Attributes:
        data: the whole buffer.
        position: where the table begins.

    Raises:
        ValueError: by every method, where the bytes point outside the buffer.
    """

    data: bytes
    position: int

    @classmethod
    def root(cls, data: bytes) -> FlatTable:
        """Return the table that the buffer holds."""
        return cls(data, _number(data, 0, "I"))

    def scalar(self, field: int, kind: str, default: float = 0) -> Any:
        """Return a number, of a kind as in ``struct``."""
        place = self._place(field)
        return default if place is None else _number(self.data, place, kind)

    def text(self, field: int) -> str:
        """Return a text, empty where there is none."""
        place, length = self._vector(field)
        return self.data[place : place + length].decode("utf-8") if place + length <= len(self.data) else _refuse()

    def array(self, field: int, dtype: str) -> NDArray[Any]:
        """Return a vector of numbers or structs, shape (n,), empty where there is none."""
        place, length = self._vector(field)
        if length * np.dtype(dtype).itemsize > len(self.data) - place:
            _refuse()
        return np.frombuffer(self.data, dtype, length, place) if length else np.zeros(0, dtype)

    def table(self, field: int) -> FlatTable | None:
        """Return a table inside, None where there is none."""
        place = self._place(field)
        return None if place is None else FlatTable(self.data, self._follow(place))

    def tables(self, field: int) -> list[FlatTable]:
        """Return a vector of tables."""
        place, length = self._vector(field)
        if 4 * length > len(self.data) - place:
            _refuse()
        return [FlatTable(self.data, self._follow(place + 4 * i)) for i in range(length)]

    def _place(self, field: int) -> int | None:
        """Return where a field stands, None where it is absent."""
        listed = self.position - _number(self.data, self.position, "i")
        offset = 4 + 2 * field
        if offset + 2 > _number(self.data, listed, "H"):
            return None  # written before the format had this field
        distance = _number(self.data, listed + offset, "H")
        return self.position + distance if distance else None

    def _follow(self, place: int) -> int:
        return place + int(_number(self.data, place, "I"))

    def _vector(self, field: int) -> tuple[int, int]:
        """Return where the elements of a vector begin, and how many there are."""
        place = self._place(field)
        if place is None:
            return 0, 0
        start = self._follow(place)
        return start + 4, int(_number(self.data, start, "I"))


def _number(data: bytes, place: int, kind: str) -> Any:
    if not 0 <= place <= len(data) - struct.calcsize("<" + kind):
        _refuse()
    return struct.unpack_from("<" + kind, data, place)[0]


def _refuse() -> Any:
    raise ValueError("it points outside itself")
