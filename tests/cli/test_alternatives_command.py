"""`evenhand alternatives` and `evenhand compare` as a user runs them."""

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
from sklearn.tree import DecisionTreeClassifier

import evenhand as package
from evenhand import datasets, view
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
    command = f"alternatives --against gap --method reweigh --save {tmp_path / 'new.joblib'} --json {record}"
    evenhand(command, *ABOUT, *QUICK, code=130)
    told = json.loads(record.read_text("utf-8"))
    assert told["interrupted"]
    assert [one["settings"].get("strength") for one in told["candidates"]] == [None, 0.0, 0.25]


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Two models of German credit, audited on the same people."""
    german = datasets.load_dataset("german")
    people = german.frame[["age", "duration", "credit_amount", "sex"]].assign(
        sex=lambda frame: (frame["sex"] == "male").astype(int)
    )
    good = (german.frame[german.schema.target.name] == german.schema.target.favourable).astype(int)
    folder = tmp_path_factory.mktemp("reports")
    models = {"linear": LogisticRegression(max_iter=2000), "tree": DecisionTreeClassifier(max_depth=4, random_state=0)}
    for name, model in models.items():
        model.fit(people[:500], good[:500])
        found = package.audit(
            model, people[500:], good[500:], protected=["sex"], keep_decisions=True, max_boxes=1, model_name=name
        )
        view.write_report(found, folder / name)
    return folder


def test_two_models_on_german_credit(evenhand, reports, tmp_path):
    asked = ("compare", reports / "linear", reports / "tree" / "report.json")
    ran = evenhand(
        *asked, "--json", tmp_path / "c.json", "--html", tmp_path / "c.html", "--markdown", tmp_path / "c.md"
    )
    assert "tree, data, compared with linear, data" in " ".join(ran.out.split())
    found = json.loads((tmp_path / "c.json").read_text())
    assert (found["kind"], found["pairing"], found["schema_version"]) == ("comparison", "paired", 1)
    audits = [json.loads((reports / name / "report.json").read_text()) for name in ("linear", "tree")]
    values = [one["groups"]["overall"]["accuracy"]["value"] for one in audits]
    line = next(line for line in found["lines"] if line["name"] == "accuracy")
    assert line["change"]["value"] == pytest.approx(values[1] - values[0])
    assert line["pairing"] == "paired"
    flips = next(line for line in found["lines"] if line["name"] == "flip_rate")
    assert flips["pairing"] == "same people"
    assert "| number | before | after | change | verdict |" in (tmp_path / "c.md").read_text()
    page = (tmp_path / "c.html").read_text()
    assert "Evenhand compare" in page


def test_gates_decide_the_exit_code(evenhand, reports):
    asked = ("compare", reports / "linear", reports / "tree", "--quiet")
    evenhand(*asked, "--fail-on", "selection_rate > 1")
    ran = evenhand(*asked, "--fail-on", "accuracy > -1", code=1)
    assert "this holds: accuracy > -1" in ran.err


@pytest.mark.parametrize(
    ("after", "options", "words"),
    [
        ("nowhere", [], "no such file"),
        ("broken.json", [], "not a AuditResult"),
        ("linear", ["--fail-on", "wrose > 0"], "did you mean 'worse'"),
        ("linear", ["--fail-on", "exposure_ratio < 1"], "this audit has no number called 'exposure_ratio'"),
        ("linear", ["--confidence", "2"], "--confidence"),
        ("linear", ["--markdown", "nowhere/c.md"], "there is no folder"),
    ],
)
def test_bad_input_is_one_message(refuses, reports, after, options, words):
    (reports / "broken.json").write_text('{"kind": "certificate"}')
    page = reports / "refused.html"
    refuses(words, "compare", reports / "linear", reports / after, "--html", page, *options)
    assert not page.exists()
