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
from support import small_schema

CODED = {"sex": "code", "home-town": "code"}


FRAME_OF_SEXES = pd.DataFrame({"grade": [1, 2, 3, 4], "sex": ["Male", "Female"] * 2, "hired": ["no", "yes"] * 2})


def network(path):
    np.savez(path, W0=np.ones((2, 1)), b0=np.zeros(1), W1=np.ones((1, 1)), b1=[-2.0])
    return path


def refusal(path, schema: Schema, like) -> str:
    with pytest.raises(ModelError) as refused:
        load_model(path, schema, like=like)
    return str(refused.value)


def test_a_network_fed_with_codes_is_refused_with_the_lines_to_paste(tmp_path):
    schema = infer_schema(FRAME_OF_SEXES, target="hired", protected=["sex"])
    for like in (None, FRAME_OF_SEXES):
        said = refusal(network(tmp_path / "net.npz"), schema, like)
        assert "takes numbers for sex" in said
        assert "sex: 0 Female, 1 Male\n" in said
        line = next(line for line in said.splitlines() if line.startswith("  - {"))
        assert yaml.safe_load(line)[0]["encoding"] == "code"
    coded = schema.with_encodings({"sex": (1, 0)})
    scorer = load_model(tmp_path / "net.npz", coded, like=FRAME_OF_SEXES)
    assert scorer.predict(np.array([[2.0, 0.0], [2.0, 1.0]])).tolist() == [1, 0]


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
    attributes = {"flag": [False, True], "level": {"kind": "ordinal", "values": ["low", "mid", "high"]}}
    schema = small_schema(**attributes, kind=[0, 1, 2])
    assert load_model(tmp_path / "net.npz", schema).predict(np.array([[1.0, 0.0, 2.0]])).tolist() == [1]
    with pytest.raises(ModelError, match="takes numbers for kind,"):  # is the input 0, 1, 2 or 1, 2, 3?
        load_model(tmp_path / "net.npz", small_schema(**attributes, kind=[1, 2, 3]))


def test_the_cards_of_data_sets_say_their_encodings():
    for name in dataset_names()[:2]:
        assert not any(attribute.lacks_encoding for attribute in load_dataset(name).schema.attributes)
