"""`evenhand audit` as a user runs it: reports, gates, thresholds, and one model in several forms."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import evenhand as package
from evenhand import datasets
from evenhand.auditing import train_example
from evenhand.schema import write_schema
from serving import serving
from support import needs


def test_report_and_json(evenhand, case, tmp_path):
    ran = evenhand(
        "audit", *case.arguments, "--time-limit", 5, "--out", tmp_path / "out", "--json", tmp_path / "a.json"
    )
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report == json.loads((tmp_path / "a.json").read_text())
    assert report["kind"] == "audit"
    assert {"evenhand", "seed", "seconds", "flip_rate", "protected"} <= set(report)
    assert report["protected"] == ["sex"]
    assert "sex" in ran.out
    assert "report.html" in ran.out
    # by definition: the label of each person under both values of sex, one at a time
    people = pd.read_csv(case.data)

    def hired(grade, sex, region):
        code = ["north", "south", "west"].index(region)
        hidden = [grade + 3 * sex + 0.5 * code - 10, -grade + 0.2 * code + 8]
        return max(hidden[0], 0) - 0.5 * max(hidden[1], 0) - 0.25 > 0

    flips = [hired(row.grade, 0, row.region) != hired(row.grade, 1, row.region) for row in people.itertuples()]
    assert report["flip_rate"] == pytest.approx(sum(flips) / len(flips))
    certificate = report["certificates"][0]
    assert certificate["certified"] + certificate["falsified"] + certificate["undecided"] == pytest.approx(1)


def test_the_schema_may_be_inferred(evenhand, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rule.py").write_text("def decide(frame):\n    return (frame['grade'] > 10).astype(int)\n")
    about = [case.data, "--target", "hired", "--protected", "sex", "--time-limit", 3, "--json", "-"]
    ran = evenhand("audit", "rule:decide", *about)
    assert ran.json["described"]["target"]["favourable"] == "yes"
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".pyc" and path.is_file()] == ["rule.py"]


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("audit", ["--out", "report"]),
        ("search", []),
        ("subgroups", []),
        pytest.param("mitigate", ["--method", "diffdp", "--save", "new.npz"], marks=needs("torch")),
    ],
)
def test_which_number_the_sexes_have_cannot_be_inferred(command, more, evenhand, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    about = [case.data, "--target", "hired", "--protected", "sex", "--time-limit", 3, "--json", "-"]
    refused = evenhand(command, case.model, *about, *more, code=2)
    assert not refused.out
    assert "sex: 0 f, 1 m" in refused.err
    assert "{name: sex, kind: categorical, values: [f, m], encoding: code" in refused.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("flip_rate > 0.01", 1),
        ("flip_rate.sex > 0.99", 0),
        ("violation_rate['sex'].high > 0.01 and demographic_parity_ratio < 0.99", 1),
        ("not (certified >= 0)", 0),
        ("accuracy < 0.5 or 0 <= undecided.sex <= 1", 1),
    ],
)
def test_gates(evenhand, case, condition, code):
    ran = evenhand("audit", *case.arguments, "--time-limit", 3, "--json", "-", "--fail-on", condition, code=code)
    assert ran.json["kind"] == "audit"  # the result is there either way
    assert (condition in ran.err) == (code == 1)


def test_a_gate_does_not_pass_over_groups_too_small_to_assess(evenhand, tmp_path):
    """24 of 600 people are selected at 4.2 % against 54.2 %: the ratio of all others says nothing about them."""
    groups = ["a"] * 288 + ["b"] * 24 + ["c"] * 288
    points = [9] * 156 + [1] * 132 + [9] + [1] * 23 + [9] * 156 + [1] * 132
    frame = pd.DataFrame({"points": points, "group": groups, "hired": ["yes", "no"] * 300})
    frame.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "points_model.py").write_text(
        "def model(frame):\n    return ['yes' if points > 5 else 'no' for points in frame['points']]\n"
    )
    arguments = (
        "audit points_model:model --target hired --favourable yes --protected group --time-limit 2 --json -",
        tmp_path / "people.csv",
        "--fail-on",
        "demographic_parity_ratio < 0.8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.syspath_prepend(tmp_path)
        ran = evenhand(*arguments, code=1)
        assert "not assessable" in ran.err
        assert "fewer than 30 people to count in b (24)" in ran.err
        assert ran.json["groups"]["breakdowns"][0]["gaps"][1]["not_assessable"] == {"b": 24}
        evenhand(*arguments, "--allow-unassessable")
        ran = evenhand(*arguments, "--min-group-size", 20, code=1)
        assert "this holds: demographic_parity_ratio < 0.8" in ran.err


@pytest.mark.parametrize(
    ("condition", "complaint"),
    [
        ("flip_rate >", "expected a name, a number or a value"),
        ("flip_rate", "is not a comparison"),
        ("__import__('os').system('true') > 0", "expected 'and', 'or' or the end"),
        ("__import__('os') > 0", "is not a comparison"),
        ("flip_rat > 0.5", "did you mean 'flip_rate'?"),
        ("fairness > 0.5", "there is no number called 'fairness'"),
        ("flip_rate.race > 0.5", "is not measured for 'race'"),
    ],
)
def test_conditions_that_make_no_sense(evenhand, case, condition, complaint):
    ran = evenhand("audit", *case.arguments, "--time-limit", 3, "--json", "-", "--fail-on", condition, code=2)
    assert complaint in ran.err


def test_an_interrupt_leaves_a_report_and_130(evenhand, case, tmp_path, monkeypatch):
    (tmp_path / "patient.py").write_text(
        "calls = 0\n"
        "def model(frame):\n"
        "    global calls\n"
        "    calls += 1\n"
        "    if calls > 14:\n"  # the first calls find the column types
        "        raise KeyboardInterrupt\n"
        "    return ['yes' if grade > 10 else 'no' for grade in frame['grade']]\n"
    )
    monkeypatch.chdir(tmp_path)
    evenhand("audit", "patient:model", case.data, "--schema", case.schema, "--out", tmp_path / "out", code=130)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["interrupted"]
    assert report["groups"]["people"] == 400
    assert any("interrupted" in item["reason"] for item in report["not_run"])


def test_nothing_is_overwritten_by_a_failure(evenhand, case, tmp_path):
    out = tmp_path / "out"
    evenhand("audit", *case.arguments, "--time-limit", 3, "--out", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    shutil.copy(case.model, tmp_path / "broken.npz")
    (tmp_path / "broken.npz").write_bytes(case.model.read_bytes()[:200])
    evenhand("audit", tmp_path / "broken.npz", case.data, "--schema", case.schema, "--out", out, code=2)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.fixture
def scored(tmp_path):
    rng = np.random.default_rng(0)
    n = 600
    sex = rng.choice(["F", "M"], n)
    score = np.clip(rng.normal(0.5 + 0.1 * (sex == "M"), 0.2, n), 0, 1).round(3)
    frame = pd.DataFrame({"sex": sex, "p": score, "points": 100 * score, "y": (rng.random(n) < score).astype(int)})
    path = tmp_path / "scored.csv"
    frame.to_csv(path, index=False)
    return path


def test_a_column_of_scores_is_decided_by_a_threshold(evenhand, scored, tmp_path):
    asked = ("audit-decisions", scored, "--score", "p", "--protected", "sex", "--target", "y", "--threshold", "0.5")
    ran = evenhand(*asked, "--thresholds", "--out", tmp_path / "out")
    assert "decisions by score 'p' from 0.5 on" in ran.out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    frame = pd.read_csv(scored)
    assert report["groups"]["overall"]["selection_rate"]["value"] == (frame["p"] >= 0.5).mean()
    assert report["groups"]["overall"]["accuracy"]["value"] == ((frame["p"] >= 0.5) == frame["y"]).mean()
    assert report["groups"]["decided_by"] == {"value": 0.5, "low_is_good": False}
    assert report["groups"]["thresholds"]["curves"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<svg") >= 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--score", "p"], "scores and a threshold"),
        (["--score", "points", "--threshold", "0.5"], "such as --threshold 50 on a scale of 100"),
        (["--score", "p", "--threshold", "50"], "such as --threshold 0.5"),
        (["--score", "p", "--threshold", "half"], "'--threshold': expected a number, got 'half'"),
        (["--score", "p", "--decision", "y", "--threshold", "0.5"], "got both"),
        (["--decision", "y", "--threshold", "0.5"], "got both"),
    ],
)
def test_what_makes_no_sense_is_refused(refuses, scored, tmp_path, options, words):
    refuses(words, "audit-decisions --protected sex", scored, *options, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def trained():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"skill": rng.integers(0, 10, 500), "sex": rng.integers(0, 2, 500)})
    hired = (frame["skill"] + 3 * frame["sex"] + rng.normal(0, 3, 500) > 6).astype(int)
    return LogisticRegression().fit(frame, hired), frame, hired


def test_a_model_is_audited_by_a_threshold_of_its_scores(trained):
    model, frame, hired = trained
    scores = model.predict_proba(frame)[:, 1]
    result = package.audit(model, frame, hired, protected=["sex"], threshold=0.7, thresholds=True, max_boxes=1)
    assert result.groups.overall["selection_rate"].value == (scores >= 0.7).mean()
    flipped = model.predict_proba(frame.assign(sex=1 - frame["sex"]))[:, 1]
    assert result.individual.rate(("sex",), "data").flips == ((scores >= 0.7) != (flipped >= 0.7)).sum()
    assert "a threshold was set" in next(one.reason for one in result.not_run if one.what == "certification")
    curves = result.groups.thresholds
    place = curves.thresholds.index(0.7)
    assert curves.curve("selection_rate").values[place] == pytest.approx((scores >= 0.7).mean())


def test_a_model_that_scores_from_0_to_100_gets_a_hint(trained):
    _, frame, hired = trained

    def model(people):
        return 7.5 * people["skill"] + 3

    with pytest.raises(package.errors.ModelError, match=r"lie from 3 to 70\.5") as error:
        package.audit(model, frame, hired, protected=["sex"])
    assert "output" in str(error.value.hint)


def people(frame: pd.DataFrame, folder: Path, n: int) -> Path:
    path = folder / "people.csv"
    frame.sample(n, random_state=0).to_csv(path, index=False)
    return path


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
    rates = {ran.json["flip_rate"] for ran in runs}
    assert len(rates) == 1
    assert rates.pop() > 0
