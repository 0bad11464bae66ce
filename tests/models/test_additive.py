"""Additive networks, and networks in NumPy files."""

import dataclasses
import importlib
import json
from types import SimpleNamespace

import numpy as np
import pytest
from generated import damage, dense, forward, outputs_for, probabilities, sample, schemas, seeds, widths
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenhand.errors import ModelError, NotAdditiveError
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.cells import (
    ListedCell,
    RampCell,
    apply_jointly,
    first_true,
)
from evenhand.models.additive.network import (
    AffineLayer,
    LineTerm,
    StepTerm,
    TableTerm,
    network_fingerprint,
    network_from_dense,
)
from evenhand.models.readers.npz import read_npz
from evenhand.models.white_box import extract_white_box
from evenhand.schema import Schema
from support import scaled, shared, small_schema

LOAN = small_schema(target="loan", sex="f m *", age=(18, 20), income=(0.0, 10.0))


def small(**changes):
    """z1 = (sex ? 1 : 0) + [2, 0, -1][age] + 0.5 income - 3, z2 = -1 of sex m, steps of income; logit = 2 z1+ - z2+."""
    parts = (
        TableTerm(np.array([[0.0, 0.0], [1.0, -1.0]]), 0.0),
        TableTerm(np.array([[2.0, 0.0], [0.0, 0.0], [-1.0, 0.0]]), 18.0),
        LineTerm(np.array([0.5, 0.0]), np.array([0.0, 0.25])),
    )
    layers = (AffineLayer(np.array([[2.0], [-1.0]]), np.array([-0.25])),)
    fields = {"schema": LOAN, "parts": parts, "bias": np.array([-3.0, 0.5]), "layers": layers}
    fields |= {"classes": ("no", "yes"), "favourable": 1}
    return AdditiveNetwork(**(fields | changes))


def test_by_hand():
    people = np.array([[0, 18, 4.0], [1, 18, 4.0], [1, 20, 10.0], [0, 19, 0.0]])
    # z1: 0+2+2-3 = 1, 1+2+2-3 = 2, 1-1+5-3 = 2, 0+0+0-3 = -3; z2: 0.75, -0.25, -0.25, 0.75
    assert small().first(people).tolist() == [[1, 0.75], [2, -0.25], [2, -0.25], [-3, 0.75]]
    assert small().logits(people)[:, 0].tolist() == [1.0, 3.75, 3.75, -1.0]
    assert small().predict(people).tolist() == [1, 1, 1, 0]
    assert small().scores(people)[0].tolist() == pytest.approx([1 - 1 / (1 + np.exp(-1)), 1 / (1 + np.exp(-1))])
    assert small().hidden == (2,)


def test_a_logit_of_zero_is_the_first_class_and_a_tie_is_the_first_of_the_equal():
    nothing = small(layers=(AffineLayer(np.zeros((2, 1)), np.zeros(1)),))
    assert nothing.predict(np.array([[0, 18, 1.0]])).tolist() == [0]
    tie = small(layers=(AffineLayer(np.zeros((2, 2)), np.zeros(2)),))
    assert tie.predict(np.array([[0, 18, 1.0]])).tolist() == [0]


def test_steps_belong_to_the_bin_on_their_right():
    steps = StepTerm(np.array([1.0, 5.0]), np.array([[10.0], [20.0], [30.0]]))
    assert steps.at(np.array([0.0, 1.0, np.nextafter(5.0, 0), 5.0, 9.0]))[:, 0].tolist() == [10, 20, 20, 30, 30]


def test_scores_do_not_overflow():
    network = small(layers=(AffineLayer(np.array([[1e6], [0.0]]), np.array([0.0])),))
    assert network.scores(np.array([[1, 18, 10.0]])).tolist() == [[0.0, 1.0]]
    three = small(
        layers=(AffineLayer(np.array([[1e6, 0, -1e6]] * 2), np.zeros(3)),), classes=("a", "b", "c"), favourable=0
    )
    assert three.scores(np.array([[1, 18, 10.0]])).tolist() == [[1.0, 0.0, 0.0]]


def test_a_missing_value_is_refused():
    with pytest.raises(ModelError, match="missing value"):
        small().predict(np.array([[0, 18, np.nan]]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"parts": small().parts[:2]}, "expected 3 parts, one per attribute, got 2"),
        ({"parts": (TableTerm(np.zeros((3, 2)), 0.0), *small().parts[1:])}, "3 table rows for 2 values"),
        (
            {"parts": (small().parts[0], TableTerm(np.zeros((3, 2)), 0.0), small().parts[2])},
            "3 table rows for 3 values",
        ),
        ({"parts": (LineTerm(np.zeros(2), np.zeros(2)), *small().parts[1:])}, "not a number"),
        ({"parts": (*small().parts[:2], LineTerm(np.zeros(3), np.zeros(3)))}, "for 2 units"),
        ({"parts": (*small().parts[:2], LineTerm(np.array([np.nan, 0]), np.zeros(2)))}, "NaN or infinite"),
        ({"parts": (*small().parts[:2], StepTerm(np.array([2.0, 1.0]), np.zeros((3, 2))))}, "increasing cuts"),
        ({"parts": (*small().parts[:2], StepTerm(np.array([2.0]), np.zeros((3, 2))))}, "increasing cuts"),
        ({"layers": (AffineLayer(np.zeros((3, 1)), np.zeros(1)),)}, "after 2 units"),
        ({"layers": (AffineLayer(np.zeros((2, 1)), np.zeros(2)),)}, "2 biases"),
        ({"layers": (AffineLayer(np.array([[np.inf], [0]]), np.zeros(1)),)}, "NaN or infinite"),
        ({"layers": (AffineLayer(np.zeros((2, 3)), np.zeros(3)),)}, "3 outputs for the 2 labels"),
        ({"favourable": 2}, "favourable"),
    ],
)
def test_numbers_that_make_no_network_are_refused(changes, says):
    with pytest.raises(ModelError, match=says):
        small(**changes)


def test_the_fingerprint_differs_where_answers_can():
    changed = [
        small(bias=np.array([-3.0, 0.25])),
        small(layers=(AffineLayer(np.array([[2.0], [-1.0]]), np.array([-0.5])),)),
        small(parts=(*small().parts[:2], LineTerm(np.array([0.5, 0.0]), np.array([0.0, 0.125])))),
    ]
    assert network_fingerprint(small()) == network_fingerprint(small(name="another name"))
    assert len({network_fingerprint(network) for network in [small(), *changed]}) == 4


@given(schemas(), widths, seeds)
@settings(max_examples=scaled(60))
def test_a_dense_network_answers_as_plain_arithmetic_does(schema, hidden, seed):
    layers = dense(schema.width, hidden, outputs_for(schema), seed)
    classes = tuple(schema.target.values)
    network = network_from_dense(schema, layers, classes=classes, favourable=1)
    people = sample(schema, 200, seed)
    logits = forward(schema.inputs(people), layers)
    np.testing.assert_allclose(network.logits(people), logits, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(network.scores(people), probabilities(logits), atol=1e-9)


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e6))
def test_an_offset_far_from_zero_costs_no_precision(offset, scale):
    schema = small_schema(x=(offset - scale, offset + scale)).with_encodings({"x": {"offset": offset, "scale": scale}})
    network = network_from_dense(schema, [(np.array([[1.0]]), np.array([0.0]))])
    people = np.linspace(offset - scale, offset + scale, 11)[:, None]
    # Whatever form the sum takes, it cannot be better than the rounding of offset / scale.
    np.testing.assert_allclose(
        network.logits(people), schema.inputs(people), atol=8 * np.spacing(abs(offset) / scale + 1), rtol=1e-12
    )


def test_one_logit_cannot_tell_three_labels_apart():
    three = Schema.parse({**LOAN.model_dump(), "target": {"name": "t", "favourable": "a", "values": ["a", "b", "c"]}})
    with pytest.raises(ModelError, match="one logit, but the target has 3 labels"):
        network_from_dense(three, [(np.zeros((3, 1)), np.zeros(1))])


def test_without_hidden_layers_it_is_a_linear_model():
    network = network_from_dense(LOAN, [(np.array([[1.0], [0.5], [-1.0]]), np.array([-8.0]))])
    assert network.hidden == ()
    assert network.logits(np.array([[1, 18, 1.0]])).tolist() == [[1.0]]
    assert dataclasses.replace(network, name="x").predict(np.array([[0, 18, 1.0]])).tolist() == [0]


def test_a_model_that_was_misread_is_noticed(monkeypatch):
    inside = small()
    monkeypatch.setattr(importlib.import_module("evenhand.models.white_box"), "_read_white_box", lambda scorer: inside)
    about = {"schema": LOAN, "classes": ("no", "yes"), "favourable": 1, "name": "outside"}
    outside = about | {"label_only": False, "scores": inside.scores}
    read = extract_white_box(SimpleNamespace(**outside, predict=inside.predict))
    assert network_fingerprint(read) == network_fingerprint(inside)
    with pytest.raises(NotAdditiveError, match=r"decide differently for \d+ of 1000 individuals"):
        extract_white_box(SimpleNamespace(**outside, predict=lambda people: 1 - inside.predict(people)))


finite = st.floats(allow_nan=False, allow_infinity=False)


def ramp(low=-1e6, high=1e6, kind=np.float32):
    return RampCell(0, 1.0, 0.0, low, high, lambda entries: entries.astype(kind))


@given(st.lists(finite, min_size=3, max_size=3, unique=True))
def test_bisection_finds_the_very_number(numbers):
    low, threshold_, high = sorted(numbers)
    found = first_true(lambda x: x >= threshold_, np.array([low]), np.array([high]))
    assert found.tolist() == [threshold_]


def test_bins_of_the_same_number_are_refined_together():
    first, second = (ListedCell(0, np.array([True, False]), np.array([cut])) for cut in (3.0, 7.0))
    (both,) = apply_jointly(lambda a, b: a.astype(int) * 10 + b, [first, second])
    assert both.values.tolist() == [11, 1, 0]
    assert both.cuts.tolist() == [3, 7]


def test_only_one_attribute_at_a_time():
    cells = [ListedCell(0, np.array([1, 2])), ListedCell(1, np.array([1, 2]))]
    with pytest.raises(NotAdditiveError, match="several attributes"):
        apply_jointly(lambda a, b: a * b, cells)


def test_numbers_that_cannot_be_listed_cannot_be_bent():
    with pytest.raises(NotAdditiveError, match="nonlinear step"):
        apply_jointly(np.abs, [ramp()])


TWO = small_schema("yes no", favourable="yes", target="t", a=(0, 9), b="x y *")
GOOD = {"W0": np.ones((2, 3)), "b0": np.zeros(3), "W1": np.ones((3, 1)), "b1": np.zeros(1)}


def saved(path, arrays):
    np.savez(path, **arrays)
    return path


def integers(names, bounds):
    ranges = [(int(low), int(high)) for low, high in bounds]
    return small_schema([0, 1], target="_label", **dict(zip(names, ranges, strict=True)))


def test_every_published_network_for_testing_gives_its_check_values():
    folder = shared("data", "testing")
    models, domains = (json.loads((folder / f).read_text()) for f in ("models.json", "domains.json"))
    seen = 0
    for model in models.values():
        check = np.load(folder / model["check"])
        people, expected = check["X"].astype(float), check["prob"]
        domain = domains.get(model["dataset"], {})
        names, bounds = domain.get("attributes"), domain.get("bounds")
        if not names or not bounds:
            names = [f"input {i}" for i in range(people.shape[1])]
            bounds = [(column.min(), column.max()) for column in people.T]
        network = read_npz(folder / model["file"], integers(names, bounds))
        scores = network.scores(people)[:, network.favourable]
        # The check values come from Keras, in float32.
        np.testing.assert_allclose(scores, expected, atol=1e-5)
        clear = np.abs(expected - 0.5) > 1e-5
        assert ((network.predict(people) == 1) == (expected > 0.5))[clear].all()
        seen += len(people)
    assert seen >= 3000


def test_every_published_network_for_certification_answers_like_float32():
    folder = shared("data", "certify")
    domains = json.loads((folder / "domains.json").read_text())
    read = 0
    for name in ("adult", "german", "bank", "compas"):
        attributes = domains[name]["attributes"]
        schema = integers([a["name"] for a in attributes], [(a["lower"], a["upper"]) for a in attributes])
        people = sample(schema, 2000)
        for net in domains[name]["networks"]:
            network = read_npz(folder / f"{net}.npz", schema)
            arrays = np.load(folder / f"{net}.npz")
            x = people.astype(np.float32)
            for i in range(len(arrays.files) // 2):
                x = (np.maximum(x, 0) if i else x) @ arrays[f"W{i}"] + arrays[f"b{i}"]
            size = np.abs(x).max()
            np.testing.assert_allclose(network.logits(people), x, atol=1e-5 * size)
            clear = np.abs(x[:, 0]) > 1e-5 * size
            assert ((network.predict(people) == 1) == (x[:, 0] > 0))[clear].all()
            read += 1
    assert read == 24


def test_several_outputs_are_labels_in_the_order_of_the_schema(tmp_path):
    arrays = {"W0": np.array([[1.0, 0.0], [0.0, 1.0]]), "b0": np.zeros(2)}
    network = read_npz(saved(tmp_path / "n.npz", arrays), TWO)
    assert (network.classes, network.favourable) == (("yes", "no"), 0)
    assert network.predict(np.array([[5.0, 0.0], [0.0, 1.0]])).tolist() == [0, 1]


@given(schema=schemas(), hidden=widths, seed=seeds)
@settings(max_examples=scaled(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_network_comes_back_as_it_was_written(tmp_path, schema, hidden, seed):
    layers = dense(schema.width, hidden, outputs_for(schema), seed)
    arrays = {
        f"{letter}{i}": array for i, layer in enumerate(layers) for letter, array in zip("Wb", layer, strict=True)
    }
    network = read_npz(saved(tmp_path / "n.npz", arrays), schema)
    people = sample(schema, 200, seed)
    np.testing.assert_allclose(network.logits(people), forward(schema.inputs(people), layers), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"b1": None}, "the array b1 is missing"),
        ({"W0": None}, "the array W0 is missing"),
        ({"W0": None, "b0": None, "W1": None, "b1": None}, "the array W0 is missing"),
        ({"W1": np.ones((4, 1))}, r"W1 has shape \(4, 1\).*after a layer of 3 units"),
        ({"b0": np.zeros(2)}, r"W0 has shape \(2, 3\) and b0 \(2,\)"),
        ({"W0": np.ones(6)}, r"W0 has shape \(6,\)"),
        ({"W0": np.ones((2, 0)), "b0": np.zeros(0), "W1": np.ones((0, 1))}, "empty layer"),
        ({"b0": np.array([0, np.nan, 0])}, "b0 contains NaN"),
        ({"W0": np.array([["a", "b", "c"]] * 2)}, "W0 must be numeric, got <U1"),
        ({"W0": np.ones((4, 3))}, "takes 4 inputs, but the schema's 2 attributes have 2"),
        ({"W1": np.ones((3, 5)), "b1": np.zeros(5)}, "5 outputs"),
        ({"W3": np.ones((1, 1)), "b3": np.zeros(1)}, "the array W2 is missing"),
    ],
)
def test_files_that_hold_no_network_are_refused(tmp_path, change, says):
    arrays = {key: array for key, array in (GOOD | change).items() if array is not None}
    with pytest.raises(ModelError, match=says) as refusal:
        read_npz(saved(tmp_path / "n.npz", arrays), TWO)
    assert refusal.value.location == "n.npz"


def test_a_pickle_is_never_opened(tmp_path):
    with pytest.raises(ModelError, match="Python objects"):
        read_npz(saved(tmp_path / "n.npz", GOOD | {"W0": np.array([[{}, 1, 2]] * 2, dtype=object)}), TWO)


@given(data=st.data())
@settings(max_examples=scaled(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_refused_or_read_never_worse(tmp_path, data):
    path = saved(tmp_path / "n.npz", GOOD)
    path.write_bytes(damage(data, path.read_bytes()))
    try:
        network = read_npz(path, TWO)
    except ModelError:
        return
    assert network.predict(np.array([[3.0, 1.0]])).shape == (1,)
