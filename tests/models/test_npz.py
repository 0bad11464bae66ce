import json

import numpy as np
import pytest
from generated import damage, dense, forward, outputs_for, sample, schemas, seeds, widths
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenhand.errors import ModelError
from evenhand.models.readers.npz import read_npz
from support import scaled, shared, small_schema

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


def test_one_output_speaks_for_the_favourable_label(tmp_path):
    network = read_npz(saved(tmp_path / "n.npz", GOOD), TWO)
    assert (network.classes, network.favourable, network.name) == (("no", "yes"), 1, "n.npz")
    assert network.predict(np.array([[1.0, 0.0], [0.0, 0.0]])).tolist() == [1, 0]


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
