"""One model in several forms: every audit of it finds the same counterfactual flip rate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evenhand import datasets, models
from evenhand.auditing import train_example
from evenhand.schema import Schema, encode, write_schema
from serving import serving
from support import shared


def people(frame: pd.DataFrame, folder: Path, n: int) -> Path:
    path = folder / "people.csv"
    frame.sample(n, random_state=0).to_csv(path, index=False)
    return path


def adult_network_schema() -> Schema:
    """The domain of FairQuant's Adult networks, by the column names of the bundled data."""
    domain = json.loads(shared("data", "certify", "domains.json").read_text())["adult"]
    bins = {"capital-gain": 99_999, "capital-loss": 4_356}
    attributes = []
    for each in domain["attributes"]:
        entry: dict[str, Any] = {"name": each["name"].replace("-", "_")}
        if each["name"] in bins:
            entry |= {"kind": "ordinal", "edges": np.linspace(0, bins[each["name"]], 21).tolist()}
        elif "codes" in each:
            entry |= {"kind": "categorical", "values": each["codes"], "encoding": "code", "missing": "drop"}
        else:
            entry |= {"kind": "integer", "lower": each["lower"], "upper": each["upper"]}
        if each["name"] == "sex":
            entry |= {"protected": True, "missing": "refuse"}
        attributes.append(entry)
    return Schema.parse(
        {
            "target": {"name": "income", "favourable": ">50K", "values": ["<=50K", ">50K"]},
            "attributes": attributes,
            "missing_markers": ["?"],
        }
    )


def test_a_published_network_as_a_file_and_behind_http(evenhand, tmp_path):
    schema = adult_network_schema()
    write_schema(schema, tmp_path / "schema.yaml")
    data = people(datasets.load_dataset("adult").frame, tmp_path, 1500)
    network = models.load_model(shared("data", "certify", "AC-1.npz"), schema)

    def predict(instances: list[dict[str, Any]]) -> list[Any]:
        frame = pd.DataFrame(instances)
        return [schema.target.values[label] for label in network.predict(encode(schema, frame).individuals)]

    options = [data, "--schema", tmp_path / "schema.yaml", "--time-limit", 2, "--json", "-"]
    file = evenhand("audit", shared("data", "certify", "AC-1.npz"), *options)
    assert file.code == 0, file.err
    with serving(lambda instances: {"predictions": predict(instances)}) as service:
        endpoint = evenhand("audit", service.url, "--budget", 10**6, *options)
    assert endpoint.code == 0, endpoint.err
    assert 0 < file.json["flip_rate"] == endpoint.json["flip_rate"]
    assert file.json["data"]["dropped"] == endpoint.json["data"]["dropped"] > 0
    assert file.json["certificates"]
    assert not endpoint.json["certificates"]


@pytest.mark.parametrize("name", [pytest.param("adult", marks=pytest.mark.slow), "german"])
def test_a_pipeline_as_it_is_as_onnx_and_behind_http(evenhand, tmp_path, monkeypatch, name):
    skl2onnx = pytest.importorskip("skl2onnx", reason="needs the extra onnx, and skl2onnx to compare with")
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    dataset = datasets.load_dataset(name)
    model, held_out = train_example(dataset)
    data = people(held_out, tmp_path, min(1500, len(held_out)))
    write_schema(dataset.schema, tmp_path / "schema.yaml")
    kinds = [
        (each, Int64TensorType([None, 1]) if held_out[each].dtype.kind == "i" else StringTensorType([None, 1]))
        for each in dataset.schema.names
    ]
    exported = skl2onnx.convert_sklearn(model, initial_types=kinds, options={"zipmap": False})
    (tmp_path / "model.onnx").write_bytes(exported.SerializeToString())
    import joblib

    joblib.dump(model, tmp_path / "model.joblib")
    # By sex alone: by age there are so many variants of everybody that an audit asks about fewer people.
    options = [data, "--schema", tmp_path / "schema.yaml", "--protected", "sex", "--time-limit", 2, "--json", "-"]

    def reply(instances: list[dict[str, Any]]) -> dict[str, Any]:
        return {"predictions": model.predict(pd.DataFrame(instances)[list(dataset.schema.names)]).tolist()}

    with serving(reply) as service:
        runs = [
            evenhand("audit", tmp_path / "model.joblib", "--trust", *options),
            evenhand("audit", tmp_path / "model.onnx", *options),
            evenhand("audit", service.url, "--budget", 10**6, *options),
        ]
    assert [ran.code for ran in runs] == [0, 0, 0], [ran.err for ran in runs]
    rates = {ran.json["flip_rate"] for ran in runs}
    assert len(rates) == 1
    assert rates.pop() > 0
