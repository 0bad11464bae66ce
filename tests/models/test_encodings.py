"""Networks fed with codes: what their categories' numbers mean is said, or they are refused."""

import numpy as np
import pandas as pd
import pytest
import yaml
from applicants import FRAME, PEOPLE, WORDS, pipeline
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from evenhand.datasets import dataset_names, load_dataset
from evenhand.errors import ModelError
from evenhand.models import load_model
from evenhand.schema import Schema, infer_schema

WEIGHTS = (3.0, 5.0)
CODED = {"sex": "code", "home-town": "code"}


def people(values: dict[str, list[str]], n: int = 600) -> pd.DataFrame:
    """People whose merit is how far each of their values stands in its list, and a grade."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"grade": rng.integers(0, 10, n)})
    merit = frame["grade"].to_numpy(dtype=float)
    for weight, (name, order) in zip(WEIGHTS, values.items(), strict=False):
        places = rng.integers(0, len(order), n)
        frame[name] = np.array(order, dtype=object)[places]
        merit += weight * places
    frame["hired"] = np.where(merit > np.median(merit), "yes", "no")
    return frame


def trained(frame: pd.DataFrame, values: dict[str, list[str]], path):
    """The network that gets everybody right: its categories are numbered in the order of their lists."""
    pairs = list(zip(WEIGHTS, values.items(), strict=False))
    merit = frame["grade"] + sum(weight * frame[name].map(order.index) for weight, (name, order) in pairs)
    weights = np.array([[1.0], *([weight] for weight, _ in pairs)])
    np.savez(path, W0=weights, b0=np.zeros(1), W1=np.ones((1, 1)), b1=[-float(np.median(merit)) - 0.5])
    return path


def refusal(path, schema: Schema, like) -> str:
    with pytest.raises(ModelError) as refused:
        load_model(path, schema, like=like)
    return str(refused.value)


def test_a_network_trained_with_male_0_is_not_asked_with_female_0(tmp_path):
    order = {"sex": ["Male", "Female"]}
    frame = people(order)
    network = trained(frame, order, tmp_path / "net.npz")
    schema = infer_schema(frame, target="hired", protected=["sex"])
    said = refusal(network, schema, frame)
    assert "takes numbers for sex" in said
    assert "sex: 0 Female, 1 Male\n" in said
    assert "clearly more accurate on the same people: right about 100 %\n    sex: 0 Male, 1 Female\n" in said
    # The lines are ready to paste, and with them the network is right about everybody.
    line = next(line for line in said.splitlines() if line.startswith("  - {"))
    encoding = yaml.safe_load(line)[0]["encoding"]
    scorer = load_model(network, schema.with_encodings({"sex": tuple(encoding)}), like=frame)
    labels = np.array(scorer.classes, dtype=object)[scorer.predict(codes(schema, frame))]
    np.testing.assert_array_equal(labels, frame["hired"])


def codes(schema: Schema, frame: pd.DataFrame) -> np.ndarray:
    return np.stack([frame["grade"], frame["sex"].map(schema["sex"].values.index)], axis=1).astype(float)


def test_the_right_order_is_asked_for_all_the_same_and_no_other_is_offered(tmp_path):
    order = {"sex": ["Female", "Male"]}
    frame = people(order)
    network = trained(frame, order, tmp_path / "net.npz")
    said = refusal(network, infer_schema(frame, target="hired", protected=["sex"]), frame)
    assert "in the order of the schema: right about 100 % of 600 people" in said
    assert "clearly" not in said
    assert "encoding: code" in said


@pytest.mark.parametrize("values", [["b", "a", "c"], ["d", "b", "a", "c"], ["b", "a", "e", "d", "c"]])
def test_the_best_of_all_orders_of_few_values_and_exchanges_of_many(values, tmp_path):
    frame = people({"job": values})
    said = refusal(trained(frame, {"job": values}, tmp_path / "net.npz"), infer_schema(frame, target="hired"), frame)
    numbered = ", ".join(f"{i} {value}" for i, value in enumerate(values))
    assert f"right about 100 %\n    job: {numbered}\n" in said


def test_the_accuracies_are_those_of_the_network_with_that_encoding(tmp_path):
    order = {"job": ["b", "a", "c"], "sex": ["Male", "Female"]}
    frame = people(order)
    network = trained(frame, order, tmp_path / "net.npz")
    schema = infer_schema(frame, target="hired", protected=["sex"])
    said = refusal(network, schema, frame)

    def accuracy(job: tuple[int, ...], sex: tuple[int, ...]) -> float:
        merit = (
            frame["grade"]
            + 3 * frame["job"].map(dict(zip("abc", job, strict=True)))
            + 5 * frame["sex"].map(dict(zip(["Female", "Male"], sex, strict=True)))
        )
        limit = -np.load(network)["b1"][0]
        return float((np.where(merit > limit, "yes", "no") == frame["hired"]).mean())

    assert f"right about {100 * accuracy((0, 1, 2), (0, 1)):.1f} % of 600 people" in said
    assert accuracy((1, 0, 2), (1, 0)) == 1
    assert "clearly more accurate on the same people: right about 100 %" in said
    assert "job: 0 b, 1 a, 2 c\n" in said
    assert "sex: 0 Male, 1 Female\n" in said


def test_noise_offers_no_other_order(tmp_path):
    order = {"job": ["b", "c", "a"]}
    frame = people(order)
    network = trained(frame, order, tmp_path / "net.npz")
    frame["hired"] = np.random.default_rng(5).permutation(frame["hired"])
    assert "clearly" not in refusal(network, infer_schema(frame, target="hired"), frame)


def test_without_labels_the_order_alone_is_shown(tmp_path):
    order = {"sex": ["Male", "Female"]}
    frame = people(order)
    network = trained(frame, order, tmp_path / "net.npz")
    schema = infer_schema(frame, target="hired")
    for like in (None, frame.drop(columns="hired"), frame[["grade"]]):
        said = refusal(network, schema, like)
        assert "in the order of the schema\n    sex: 0 Female, 1 Male" in said


def test_an_estimator_fitted_on_codes_is_refused_and_a_pipeline_is_not():
    coded = LogisticRegression().fit(WORDS.inputs(PEOPLE), FRAME["granted"])
    with pytest.raises(ModelError, match="takes numbers for sex, home-town"):
        load_model(coded, WORDS, like=FRAME)
    assert load_model(coded, WORDS.with_encodings(CODED), like=FRAME).form == "numbers"
    assert load_model(pipeline(DecisionTreeClassifier()), WORDS, like=FRAME).form == "frame"
    assert load_model(lambda frame: (frame["sex"] == "Male").astype(int), WORDS, like=FRAME).label_only


def test_a_torch_module_is_refused():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with pytest.raises(ModelError, match="takes numbers for sex, home-town"):
        load_model(torch.nn.Linear(4, 1), WORDS, output="logit")


def test_numbers_and_ordered_values_are_no_guess(tmp_path):
    np.savez(tmp_path / "net.npz", W0=np.ones((3, 1)), b0=[0.0], W1=[[1.0]], b1=[-1.0])
    attributes = [
        {"name": "flag", "kind": "categorical", "values": [False, True]},
        {"name": "kind", "kind": "categorical", "values": [0, 1, 2]},
        {"name": "level", "kind": "ordinal", "values": ["low", "mid", "high"]},
    ]
    target = {"name": "hired", "favourable": "yes", "values": ["no", "yes"]}
    schema = Schema.parse({"target": target, "attributes": attributes})
    assert load_model(tmp_path / "net.npz", schema).predict(np.array([[1.0, 2.0, 0.0]])).tolist() == [1]
    attributes[1]["values"] = [1, 2, 3]  # is the input 0, 1, 2 or 1, 2, 3?
    with pytest.raises(ModelError, match="takes numbers for kind,"):
        load_model(tmp_path / "net.npz", Schema.parse({"target": target, "attributes": attributes}))


def test_the_cards_of_data_sets_say_their_encodings():
    for name in dataset_names()[:2]:
        assert not any(attribute.lacks_encoding for attribute in load_dataset(name).schema.attributes)
