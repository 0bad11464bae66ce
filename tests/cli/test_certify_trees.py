"""``evenhand certify`` and ``evenhand audit`` on models of trees."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

SCHEMA = """
target: {name: granted, favourable: yes, values: [no, yes]}
attributes:
  - {name: age, kind: integer, lower: 18, upper: 70}
  - {name: income, kind: integer, lower: 0, upper: 100}
  - {name: sex, kind: categorical, values: [f, m], protected: true}
""".replace("yes,", "'yes',").replace("[no, yes]", "['no', 'yes']")


@pytest.fixture(scope="module")
def lent(tmp_path_factory):
    """A LightGBM model that gives men the loan more often, its schema, and its people."""
    lightgbm = pytest.importorskip("lightgbm", reason="needs lightgbm")
    folder = tmp_path_factory.mktemp("lent")
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"age": rng.integers(18, 71, 800), "income": rng.integers(0, 101, 800)})
    frame["sex"] = rng.choice(["f", "m"], 800)
    wanted = frame["income"] + 20 * (frame["sex"] == "m") + rng.normal(0, 5, 800) > 60
    inputs = np.stack([frame["age"], frame["income"], frame["sex"] == "m"], axis=1).astype(float)
    model = lightgbm.LGBMClassifier(n_estimators=10, num_leaves=6, verbose=-1, n_jobs=1).fit(inputs, wanted)
    model.booster_.save_model(folder / "model.txt")
    (folder / "schema.yaml").write_text(SCHEMA)
    frame["granted"] = np.where(wanted, "yes", "no")
    frame.to_csv(folder / "people.csv", index=False)
    return folder


def test_certify(evenhand, lent):
    ran = evenhand("certify", lent / "model.txt", "--schema", lent / "schema.yaml", "--json", "-")
    assert ran.code == 0, ran.err
    assert ran.json["method"] == "enumeration"
    assert ran.json["undecided"] < 1e-9
    assert 0.05 < ran.json["falsified"] < 0.5
    assert ran.json["counterexamples"]


def test_audit(evenhand, lent):
    ran = evenhand(
        "audit",
        lent / "model.txt",
        lent / "people.csv",
        "--schema",
        lent / "schema.yaml",
        "--time-limit",
        6,
        "--json",
        "-",
    )
    assert ran.code == 0, ran.err
    (certificate,) = ran.json["certificates"]
    assert certificate["falsified"] > 0.05
    assert ran.json["model"]["white_box"] is True
