"""`evenhand audit` as a user runs it."""

import json
import shutil

import pandas as pd
import pytest


def test_report_and_json(evenhand, case, tmp_path):
    ran = evenhand(
        "audit", *case.arguments, "--time-limit", 5, "--out", tmp_path / "out", "--json", tmp_path / "a.json"
    )
    assert ran.code == 0, ran.err
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report == json.loads((tmp_path / "a.json").read_text())
    assert report["kind"] == "audit"
    assert {"evenhand", "seed", "seconds", "violation_rate", "protected"} <= set(report)
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
    assert report["violation_rate"] == pytest.approx(sum(flips) / len(flips))
    certificate = report["certificates"][0]
    assert certificate["certified"] + certificate["falsified"] + certificate["undecided"] == pytest.approx(1)


def test_json_on_standard_output_is_alone(evenhand, case):
    ran = evenhand("audit", *case.arguments, "--time-limit", 3, "--json", "-")
    assert ran.code == 0
    assert ran.json["kind"] == "audit"
    assert ran.err == ""


def test_the_schema_may_be_inferred(evenhand, case):
    ran = evenhand(
        "audit", case.model, case.data, "--target", "hired", "--protected", "sex", "--time-limit", 3, "--json", "-"
    )
    assert ran.code == 0, ran.err
    assert ran.json["described"]["target"]["favourable"] == "yes"


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("violation_rate > 0.01", 1),
        ("violation_rate.sex > 0.99", 0),
        ("violation_rate['sex'].high > 0.01 and demographic_parity_ratio < 0.99", 1),
        ("not (certified >= 0)", 0),
        ("accuracy < 0.5 or 0 <= undecided.sex <= 1", 1),
    ],
)
def test_gates(evenhand, case, condition, code):
    ran = evenhand("audit", *case.arguments, "--time-limit", 3, "--json", "-", "--fail-on", condition)
    assert ran.code == code, ran.err
    assert ran.json["kind"] == "audit"  # the result is there either way
    assert (condition in ran.err) == (code == 1)


@pytest.mark.parametrize(
    ("condition", "complaint"),
    [
        ("violation_rate >", "does not parse"),
        ("violation_rate", "is not a comparison"),
        ("__import__('os').system('true') > 0", "is not a comparison"),
        ("fairness > 0.5", "there is no number called 'fairness'"),
        ("violation_rate.race > 0.5", "was not measured for 'race'"),
    ],
)
def test_conditions_that_make_no_sense(evenhand, case, condition, complaint):
    ran = evenhand("audit", *case.arguments, "--time-limit", 3, "--json", "-", "--fail-on", condition)
    assert ran.code == 2
    assert complaint in ran.err


def test_an_interrupt_leaves_a_report_and_130(evenhand, case, tmp_path, monkeypatch):
    (tmp_path / "patient.py").write_text(
        "calls = 0\n"
        "def model(frame):\n"
        "    global calls\n"
        "    calls += 1\n"
        "    if calls > 4:\n"
        "        raise KeyboardInterrupt\n"
        "    return ['yes' if grade > 10 else 'no' for grade in frame['grade']]\n"
    )
    monkeypatch.chdir(tmp_path)
    ran = evenhand("audit", "patient:model", case.data, "--schema", case.schema, "--out", tmp_path / "out")
    assert ran.code == 130, ran.err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["interrupted"]
    assert report["groups"]["people"] == 400
    assert any("interrupted" in item["reason"] for item in report["not_run"])


def test_same_seed_same_answer(evenhand, case):
    def answer():
        found = evenhand("audit", *case.arguments, "--json", "-", "--seed", 3).json
        return json.dumps(_timeless(found), sort_keys=True)

    assert answer() == answer()


def _timeless(found):
    if isinstance(found, dict):
        return {key: _timeless(value) for key, value in found.items() if "seconds" not in key and key != "history"}
    return [_timeless(value) for value in found] if isinstance(found, list) else found


def test_black_box_says_what_it_rules_out(evenhand, case, tmp_path, monkeypatch):
    (tmp_path / "rule.py").write_text(
        "def model(frame):\n    return (frame['grade'] > 10).map({True: 'yes', False: 'no'})\n"
    )
    monkeypatch.chdir(tmp_path)
    ran = evenhand("audit", "rule:model", case.data, "--schema", case.schema, "--json", "-")
    assert ran.code == 0, ran.err
    assert ran.json["violation_rate"] == 0
    assert ran.json["certificates"] == []
    assert [item["what"] for item in ran.json["not_run"]] == ["certification"]


def test_nothing_is_overwritten_by_a_failure(evenhand, case, tmp_path):
    out = tmp_path / "out"
    assert evenhand("audit", *case.arguments, "--time-limit", 3, "--out", out).code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    shutil.copy(case.model, tmp_path / "broken.npz")
    (tmp_path / "broken.npz").write_bytes(case.model.read_bytes()[:200])
    ran = evenhand("audit", tmp_path / "broken.npz", case.data, "--schema", case.schema, "--out", out)
    assert ran.code == 2
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
