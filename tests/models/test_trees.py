"""The white box itself: its arithmetic by hand, against a slow walk, and what it refuses."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import ModelError
from evenhand.models import Scorer
from evenhand.models.blackbox.base import LoadRequest
from evenhand.models.load import open_model
from evenhand.models.trees.columns import category_codes, match_columns
from evenhand.models.trees.ensemble import (
    ZERO_THRESHOLD,
    build_ensemble,
    leaf_sums_compiled,
    leaf_sums_numpy,
)
from evenhand.models.trees.nodes import (
    MAX_CATEGORY,
    DecisionTree,
    at_most_float32,
    collect_nodes,
    strictly_below_float32,
)
from evenhand.schema import Schema
from support import scaled, small_schema

LOAN = small_schema(
    "yes no",
    favourable="yes",
    target="granted",
    income={"kind": "real", "lower": -100, "upper": 100, "missing": "keep"},
    town={"kind": "categorical", "values": ["Ely", "Rye", "Ware"], "missing": "keep"},
    sex="Female Male *",
)


def tree(feature=(0,), threshold=(0.0,), left=(1,), right=(2,), default=(0,), leaves=(-1.0, 1.0), output=0, sets=None):
    """Inner nodes, then leaves in order."""
    inner, count = len(feature), len(feature) + len(leaves)
    values = np.array([np.atleast_1d(leaf) for leaf in leaves], dtype=float)

    def padded(given, kind, rest=0):
        array = np.full(count, rest, dtype=kind)
        array[: len(given)] = given
        return array

    return DecisionTree(
        output=output,
        feature=padded(feature, np.int64),
        threshold=padded(threshold, np.float64),
        left=padded(left, np.int64, -1),
        right=padded(right, np.int64, -1),
        default_left=padded(default, bool),
        values=np.concatenate([np.zeros((inner, values.shape[1])), values]),
        zero_missing=None,
        left_categories={node: np.array(listed, dtype=np.int64) for node, listed in (sets or {}).items()},
    )


SECOND = {"feature": (1, 2), "threshold": (0, 0.5), "left": (2, 3), "right": (1, 4), "default": (0, 0)}
HAND = [tree(threshold=(30.0,), default=(1,), leaves=(-0.5, 0.25))]
HAND += [tree(**SECOND, leaves=(0.75, -1.0, 0.125), sets={0: [0, 2]})]
"""Income at most 30 (or missing): -0.5, else 0.25. Town Ely or Ware: 0.75; else sex Female: -1, Male 0.125."""


def by_hand(trees=HAND, **changes):
    settings = {"base": np.array([0.5]), "link": "logistic", "answers": [0, 1], "location": "hand"} | changes
    return build_ensemble(LOAN, trees, **settings)


def test_a_worked_example():
    model = by_hand()
    people = np.array([[30.0, 0, 0], [30.001, 1, 0], [np.nan, 1, 1], [50, np.nan, 0], [-3, 2, 1]])
    raw = [0.5 - 0.5 + 0.75, 0.5 + 0.25 - 1, 0.5 - 0.5 + 0.125, 0.5 + 0.25 - 1, 0.5 - 0.5 + 0.75]
    np.testing.assert_array_equal(model.raw(people)[:, 0], raw)
    assert (model.classes, model.favourable) == (("no", "yes"), 1)
    assert model.predict(people).tolist() == [1, 0, 1, 0, 1]
    np.testing.assert_allclose(model.scores(people)[:, 1], [1 / (1 + math.exp(-value)) for value in raw])
    np.testing.assert_allclose(by_hand(steepness=2.0).scores(people)[0, 1], 1 / (1 + math.exp(-1.5)))
    np.testing.assert_array_equal(by_hand(divisor=2.0).raw(people)[:, 0], 0.5 + (np.array(raw) - 0.5) / 2)
    assert isinstance(model, Scorer)
    assert repr(model.nodes) == "TreeNodes(2 trees, 8 nodes)"
    assert open_model(model, LoadRequest(LOAN)) is model


def test_several_outputs():
    """Three leaves with a value per class; a tree that adds to the last class alone; the first of several wins."""
    three = {"name": "grade", "favourable": "A", "values": ["C", "B", "A"]}
    schema = Schema.parse(LOAN.model_dump() | {"target": three})
    trees = [tree(leaves=((1, 1, 0), (0, 2, 1))), tree(leaves=((0, 0, 0), (0, 0, 3)), default=(1,))]
    people = np.array([[-1.0, 0, 0], [1, 0, 0], [np.nan, 0, 0]])
    raw = np.array([[1, 1, 0], [0, 2, 4], [0, 2, 1]], dtype=float)
    shared = {"base": np.zeros(3), "answers": [0, 1, 2], "location": "three"}
    model = build_ensemble(schema, trees, link="softmax", **shared)
    np.testing.assert_array_equal(model.raw(people), raw)
    assert (model.classes, model.favourable) == (("C", "B", "A"), 2)
    assert model.predict(people).tolist() == [0, 2, 1]
    np.testing.assert_allclose(model.scores(people), np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True))
    each = 1 / (1 + np.exp(-raw))
    model = build_ensemble(schema, trees, link="one-vs-rest", **shared)
    np.testing.assert_allclose(model.scores(people), each / each.sum(axis=1, keepdims=True))
    halves = [tree(leaves=((0.5, 0.25, 0.25), (0, 0, 1))), tree(leaves=((0, 1, 0), (0.5, 0.5, 0)))]
    model = build_ensemble(schema, halves, link="frequency", divisor=2.0, **shared)
    np.testing.assert_array_equal(model.scores(people[:2]), [[0.25, 0.625, 0.125], [0.25, 0.25, 0.5]])
    alone = [tree(output=2)]
    np.testing.assert_array_equal(build_ensemble(schema, alone, link="softmax", **shared).raw(people)[:, 2], [-1, 1, 1])
    mixed = Schema.parse(LOAN.model_dump() | {"target": three | {"values": [2, 0, 1], "favourable": 0}})
    assert build_ensemble(mixed, alone, link="softmax", **shared).classes == (0, 1, 2)


def slow(nodes, inputs, outputs):
    """One row, one tree, one node at a time, as the documentation of ``TreeNodes`` says."""
    total = np.zeros((len(inputs), outputs))
    for row, entries in enumerate(inputs):
        for t in range(nodes.trees):
            node = nodes.offsets[t]
            while nodes.left[node] >= 0:
                x = entries[nodes.feature[node]]
                if math.isnan(x) or (nodes.zero_missing[node] and abs(x) <= ZERO_THRESHOLD):
                    left = nodes.default_left[node]
                elif nodes.set_start[node] >= 0:
                    start, size = nodes.set_start[node], nodes.set_size[node]
                    bits = sum(int(word) << (32 * i) for i, word in enumerate(nodes.words[start : start + size]))
                    left = x >= 0 and bits >> int(x) & 1
                else:
                    left = x <= nodes.threshold[node]
                node = nodes.left[node] if left else nodes.right[node]
            first = nodes.output[t]
            total[row, first : first + nodes.values.shape[1]] += nodes.values[node]
    return total


def random_tree(rng, inputs, outputs, width):
    """A tree grown by splitting random leaves; sets, default directions and zeros at random."""
    feature, threshold, left, right = [0], [0.0], [-1], [-1]
    for _ in range(rng.integers(0, 12)):
        node = rng.choice([i for i, child in enumerate(left) if child < 0])
        left[node], right[node] = len(left), len(left) + 1
        if rng.random() < 0.3:
            left[node], right[node] = right[node], left[node]
        feature[node] = int(rng.integers(inputs))
        threshold[node] = float(rng.choice([-1.5, 0.0, 0.5, 3.0, 40.0]))
        for column in (feature, left, right):
            column += [0, 0] if column is feature else [-1, -1]
        threshold += [0.0, 0.0]
    count = len(left)
    asks = [i for i in range(count) if left[i] >= 0 and rng.random() < 0.4]
    return DecisionTree(
        output=int(rng.integers(outputs - width + 1)),
        feature=np.array(feature),
        threshold=np.array(threshold),
        left=np.array(left),
        right=np.array(right),
        default_left=rng.random(count) < 0.5,
        values=rng.normal(size=(count, width)),
        zero_missing=rng.random(count) < 0.3 if rng.random() < 0.5 else None,
        left_categories={i: rng.choice(70, size=rng.integers(0, 9), replace=False) for i in asks},
    )


@given(seed=st.integers(0, 2**32), width=st.integers(1, 3))
@settings(max_examples=scaled(80))
def test_all_walks_agree(seed, width):
    rng = np.random.default_rng(seed)
    inputs, outputs = int(rng.integers(1, 4)), int(rng.integers(width, 4))
    trees = [random_tree(rng, inputs, outputs, width) for _ in range(rng.integers(1, 6))]
    nodes = collect_nodes(trees, inputs=inputs, outputs=outputs, location="random")
    entries = [np.nan, 0.0, -0.0, 1e-36, -1.0, -1.5, 0.5, 0.7, 1, 2, 3, 31, 32, 33, 63, 64, 69.9, 200, 1e300, -1e300]
    rows = rng.choice(entries, size=(25, inputs))
    expected = slow(nodes, rows, outputs)
    np.testing.assert_array_equal(leaf_sums_numpy(nodes, rows, outputs), expected)
    np.testing.assert_array_equal(leaf_sums_compiled(nodes, rows, outputs), expected)
    inner = nodes.left >= 0
    owner = np.searchsorted(nodes.offsets, np.arange(len(nodes.left)), side="right")
    for child in (nodes.left, nodes.right):
        assert (child[inner] > np.flatnonzero(inner)).all()
        assert (owner[child[inner]] == owner[inner]).all()
        assert (child[~inner] == -1).all()


def test_the_compiler_is_not_loaded_for_a_small_batch():
    code = (
        "import sys, numpy as np\n"
        "import evenhand.models.trees.ensemble, evenhand.models.readers.boosters\n"
        "import evenhand.models.readers.sklearn_trees\n"
        "from evenhand.models.trees.nodes import DecisionTree, collect_nodes\n"
        "from evenhand.models.trees.ensemble import leaf_sums\n"
        "one = np.ones(1, dtype=np.int64)\n"
        "leaf = DecisionTree(0, one, np.ones(1), -one, -one, one > 0, np.ones((1, 1)))\n"
        "nodes = collect_nodes([leaf], inputs=1, outputs=1, location='')\n"
        "assert leaf_sums(nodes, np.zeros((100, 1)), 1).sum() == 100\n"
        "print([name for name in ('numba', 'pandas', 'xgboost', 'lightgbm', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


floats32 = st.floats(width=32, allow_nan=False)


def beside(number):
    """A number's neighbours in float64 and the points around which float32 rounds to or from it."""
    near = np.float32(number)
    with np.errstate(all="ignore"):
        others = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
        points = [float(other) for other in others] + [(float(near) + float(other)) / 2 for other in others]
    points = [point for point in [*points, number] if math.isfinite(point)]
    return np.array([[np.nextafter(p, -np.inf), p, np.nextafter(p, np.inf)] for p in points]).ravel()


def rounded(numbers):
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


@given(threshold=floats32)
@settings(max_examples=scaled(300))
def test_thresholds_of_a_strict_comparison_in_float32(threshold):
    x = beside(threshold)
    cut = strictly_below_float32(np.array([threshold], dtype=np.float32))[0]
    np.testing.assert_array_equal(x <= cut, rounded(x) < np.float32(threshold))


@given(threshold=st.one_of(floats32, st.floats(allow_nan=False)))
@settings(max_examples=scaled(300))
def test_thresholds_of_a_comparison_after_rounding_to_float32(threshold):
    with np.errstate(over="ignore"):
        x = np.concatenate([beside(threshold), beside(float(np.float32(threshold)))])
    cut = at_most_float32(np.array([threshold]))[0]
    np.testing.assert_array_equal(x <= cut, rounded(x).astype(np.float64) <= threshold)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (tree(left=(0,)), "not a tree"),
        (tree(leaves=((1, 2), (3, 4))), "output 0 of 1"),
        (tree(right=(1,)), "not a tree"),
        (tree(right=(3,)), "the child 3 in a tree of 3 nodes"),
        (tree(right=(-1,)), "child -1"),
        (tree(feature=(0, 0), threshold=(0, 0), left=(1, 0), right=(2, 3), default=(0, 0), leaves=(0, 0)), "a tree"),
        (tree(feature=(3,)), "outside the model's 3"),
        (tree(feature=(-1,)), "outside the model's 3"),
        (tree(threshold=(np.nan,)), "threshold is NaN"),
        (tree(leaves=(np.nan, 0)), "leaf is NaN or infinite"),
        (tree(leaves=(np.inf, 0)), "leaf is NaN or infinite"),
        (tree(leaves=(1e308, 0)), "implausible value"),
        (tree(output=1), "output 1 of 1"),
        (tree(output=-1), "output -1 of 1"),
        (tree(sets={0: [-1]}), "category is outside"),
        (tree(sets={0: [MAX_CATEGORY]}), "category is outside"),
    ],
)
def test_what_is_no_tree(broken, message):
    with pytest.raises(ModelError, match=message):
        collect_nodes([HAND[0], broken], inputs=3, outputs=1, location="broken")


def test_nodes_out_of_reach_do_not_matter():
    wild = tree(leaves=(-1, 1, np.nan))
    nodes = collect_nodes([wild], inputs=3, outputs=1, location="wild")
    assert len(nodes.left) == 3
    assert not nodes.values.flags.writeable
    assert (nodes.left[1:] == -1).all()
    far = tree()
    far.left[1:] = -(2**40)
    assert collect_nodes([far], inputs=3, outputs=1, location="far").left.tolist() == [1, -1, -1]
    with pytest.raises(ModelError, match="different numbers of outputs"):
        collect_nodes([tree(), tree(leaves=((1, 2), (3, 4)))], inputs=3, outputs=2, location="mixed")
    with pytest.raises(ModelError, match="no trees"):
        collect_nodes([], inputs=3, outputs=1, location="empty")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base": np.array([np.inf])}, "start from"),
        ({"base": np.zeros(2)}, "2 outputs"),
        ({"steepness": 0.0}, "steepness 0"),
        ({"steepness": np.nan}, "steepness nan"),
        ({"divisor": 0.0}, "divisor 0"),
        ({"link": "softmax"}, "1 outputs"),
        ({"answers": [0, 1, 2]}, "returns 0, 1, 2"),
        ({"answers": ["no"]}, "never|returns 'no'"),
    ],
)
def test_what_is_no_ensemble(changes, message):
    with pytest.raises(ModelError, match=message):
        by_hand(**changes)


def test_extreme_sums_stay_finite():
    model = by_hand([tree(leaves=(-1e100, 1e100))], steepness=1e6)
    np.testing.assert_allclose(model.scores(np.array([[-1.0, 0, 0], [1, 0, 0]])), np.eye(2), atol=1e-300)


def many_columns():
    attributes = [
        {"name": "age", "kind": "integer", "lower": 18, "upper": 80},
        {"name": "home town", "kind": "categorical", "values": ["Ely", "Rye"], "encoding": "one-hot"},
        {"name": "level", "kind": "ordinal", "values": [10, 20, 30]},
        {"name": "score", "kind": "ordinal", "edges": [0, 5, 9], "encoding": [2.5, 7]},
    ]
    return Schema.parse({"target": {"name": "y", "favourable": 1}, "attributes": attributes})


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], [0, 1, 2, 3, 4]),
        (["f0", "f1", "f2", "f3", "f4"], [0, 1, 2, 3, 4]),
        (["Column_0", "Column_1", "Column_2", "Column_3", "Column_4"], [0, 1, 2, 3, 4]),
        (["score", "home_town_Rye", "age"], [4, 2, 0]),
        (["age", "town is Ely", "town is Rye", "f3", "score"], [0, 1, 2, 3, 4]),
        (["age", "age", "f2", "f3", "f4"], "expected 5 different feature names, got 4"),
        (["score", "home is Ely"], "'home is Ely', which is not an attribute"),
        (["age", "level"], "numbers or on their positions"),
        (["age", "length", "f2", "f3"], "takes 4 inputs"),
    ],
)
def test_columns_of_features(names, found):
    features = len(names) or 5
    if isinstance(found, str):
        with pytest.raises(ModelError, match=found):
            match_columns(many_columns(), features, names, location="model")
    else:
        assert match_columns(many_columns(), features, names, location="model").tolist() == found
    assert match_columns(many_columns(), 1, ["level"], location="model", named_categories=[0]).tolist() == [3]


@pytest.mark.parametrize(
    ("attribute", "categories", "by_name", "codes"),
    [
        ({"kind": "categorical", "values": ["a", "b", "c"]}, ["c", "a"], True, [1, -1, 0]),
        ({"kind": "categorical", "values": ["a", "b", "c"]}, [2, 0], True, [1, -1, 0]),
        ({"kind": "categorical", "values": [2, 1, 0]}, [0, 1, 2], True, [2, 1, 0]),
        ({"kind": "categorical", "values": [2, 1, 0]}, [0.0, 1.0, 2.0], False, [0, 1, 2]),
        ({"kind": "categorical", "values": [3, 4, 5]}, [0, 1, 2], True, [0, 1, 2]),
        ({"kind": "categorical", "values": ["a", "b"]}, ["a", "?"], True, [0, -1]),
        ({"kind": "categorical", "values": ["a", "b"], "encoding": [5, 2]}, ["b", "a"], True, [-1, -1, 0, -1, -1, 1]),
        ({"kind": "categorical", "values": ["a", "b"], "encoding": "one-hot"}, [1, 0], True, [1, 0]),
        ({"kind": "categorical", "values": [False, True]}, [True, False], True, [1, 0]),
        ({"kind": "integer", "lower": 2, "upper": 4}, [4, 3, 9], True, [-1, -1, -1, 1, 0]),
        ({"kind": "categorical", "values": ["a", "b"]}, ["c", "d"], True, "'c', 'd' of 'x', the schema 'a', 'b'"),
        ({"kind": "categorical", "values": ["a", "b"]}, ["a"], False, "the categories 'a' of"),
        ({"kind": "integer", "lower": -1, "upper": 4}, [0], True, "integers from 0"),
        ({"kind": "integer", "lower": 0, "upper": 1e7}, [0], True, "10,000,001 numbers"),
        ({"kind": "real", "lower": 0, "upper": 1}, [0], True, "a real number"),
    ],
)
def test_codes_of_categories(attribute, categories, by_name, codes):
    schema = Schema.parse({"target": {"name": "y", "favourable": 1}, "attributes": [{"name": "x", **attribute}]})
    if isinstance(codes, str):
        with pytest.raises(ModelError, match=codes):
            category_codes(schema, 0, categories, by_name=by_name, location="model")
    else:
        assert category_codes(schema, 0, categories, by_name=by_name, location="model").tolist() == codes


def test_a_missing_value_stays_missing_through_every_encoding():
    schema = many_columns()
    (row,) = schema.inputs(np.full((1, 4), np.nan))
    np.testing.assert_array_equal(row, [np.nan, 0, 0, np.nan, np.nan])
    assert schema.inputs(np.array([[18.0, 1, 2, 1]])).tolist() == [[18, 0, 1, 2, 7]]
