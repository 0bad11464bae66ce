"""`evenhand alternatives` as a user runs it."""

import json
import signal

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from evenhand.mitigation import AlternativesResult
from evenhand.mitigation.alternatives.sources import CrossFitting

SCHEMA = """
target: {name: hired, favourable: "yes", values: ["no", "yes"]}
attributes:
  - {name: grade, kind: integer, lower: 0, upper: 20}
  - {name: sex, kind: categorical, values: [f, m], protected: true}
  - {name: town, kind: categorical, values: [Ely, Rye, Ware]}
"""
ABOUT = ["model.joblib", "people.csv", "--schema", "schema.yaml", "--trust"]
QUICK = ["--accuracy-loss", 0.1, "--quiet"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """People whose town tells much of their sex, a model that is told both, and a schema."""
    folder = tmp_path_factory.mktemp("alternatives")
    rng = np.random.default_rng(0)
    n = 3000
    male = rng.integers(0, 2, n)
    town = np.where(rng.random(n) < 0.7, male, rng.integers(0, 3, n))
    frame = pd.DataFrame({"grade": rng.integers(0, 21, n), "sex": np.array(["f", "m"])[male]})
    frame["town"] = np.array(["Ely", "Rye", "Ware"])[town]
    frame["hired"] = np.where(frame["grade"] + 4 * (town == 1) + 2 * male + rng.normal(0, 3, n) > 12, "yes", "no")
    frame.to_csv(folder / "people.csv", index=False)
    (folder / "schema.yaml").write_text(SCHEMA)
    words = make_column_transformer((OneHotEncoder(), ["sex", "town"]), remainder="passthrough")
    model = make_pipeline(words, LogisticRegression()).fit(frame[["grade", "sex", "town"]], frame["hired"])
    joblib.dump(model, folder / "model.joblib")
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    return made


def test_a_search_is_written_recorded_and_taken_by_a_dossier(evenhand, folder, tmp_path):
    new, record, page = tmp_path / "new.joblib", tmp_path / "lda.json", tmp_path / "lda.html"
    command = ["alternatives", *ABOUT, "--against", "gap", "--method", "reweigh", "--method", "tilt"]
    command += ["--decide-without", "sex"]
    ran = evenhand(*command, "--accuracy-loss", 0.1, "--save", new, "--json", record, "--html", page)
    assert ran.code == 0, ran.err
    result = AlternativesResult.from_json(record.read_text("utf-8"))
    assert (result.decide_without, result.families, result.accuracy_loss) == (("sex",), ("reweigh", "tilt"), 0.1)
    assert result.chosen is not None
    chosen = result.candidates[result.chosen]
    assert not chosen.asks
    for path in (new, page):
        assert path.name in ran.out.replace("\n", "")
    assert f"{result.candidates[0].test.gap:.3f}" in page.read_text("utf-8")
    people = pd.read_csv("people.csv")
    answers = joblib.load(new).predict(people.drop(columns=["sex", "hired"]))
    gap = np.ptp([(answers[people["sex"] == one] == "yes").mean() for one in ("f", "m")])
    before = joblib.load("model.joblib").predict(people[["grade", "sex", "town"]])
    assert gap < np.ptp([(before[people["sex"] == one] == "yes").mean() for one in ("f", "m")]) - 0.1

    pd.DataFrame({"sex": people["sex"], "selected": (answers == "yes").astype(int)}).to_csv(
        tmp_path / "decisions.csv", index=False
    )
    (tmp_path / "dossier.yaml").write_text("outcome: {column: selected}\nattributes: {sex: {column: sex}}\n")
    ran = evenhand(
        f"dossier --for alternatives {tmp_path / 'decisions.csv'} --config {tmp_path / 'dossier.yaml'} "
        f"--result {record} --out {tmp_path / 'dossier'}"
    )
    assert ran.code == 0, ran.err
    assert any("replaces the original model" in one.read_text("utf-8") for one in (tmp_path / "dossier").glob("*.html"))


WRONG = {
    "another measure": (["--against", "parity"], "gap"),
    "an unknown attribute": (["--against", "gap", "--decide-without", "sexx"], "no attribute 'sexx'"),
    "an unknown family": (["--against", "gap", "--method", "tilted"], "tilt"),
    "an option of methods": (["--against", "gap", "--rounds", 3], "No such option: --rounds"),
    "a negative loss": (["--against", "gap", "--accuracy-loss", -1], "accuracy"),
    "the people as the record": (["--against", "gap", "--json", "people.csv"], "is an input"),
    "another file": (["--against", "gap", "--save", "new.onnx"], "some alternatives cannot be written"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_searched_is_one_clear_error(refuses, folder, case):
    options, words = WRONG[case]
    out = [] if "--save" in options else ["--save", "new.joblib"]
    refuses(words, "alternatives", *ABOUT, *options, *out, "--quiet")


def test_an_interrupt_keeps_what_was_searched(evenhand, folder, tmp_path, monkeypatch, interruptible):
    fitted = CrossFitting.fitted_source

    def interrupted(self, strength):
        if strength > 0.25:
            signal.raise_signal(signal.SIGINT)
        return fitted(self, strength)

    monkeypatch.setattr(CrossFitting, "fitted_source", interrupted)
    record = tmp_path / "lda.json"
    ran = evenhand(
        f"alternatives --against gap --method reweigh --save {tmp_path / 'new.joblib'} --json {record}", *ABOUT, *QUICK
    )
    assert ran.code == 130
    told = json.loads(record.read_text("utf-8"))
    assert told["interrupted"]
    assert [one["settings"].get("strength") for one in told["candidates"]] == [None, 0.0, 0.25]
