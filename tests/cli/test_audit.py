"""`evenhand audit` as a user runs it."""

import json
import shutil

import pandas as pd
import pytest

from support import needs


def test_report_and_json(evenhand, case, tmp_path):
    ran = evenhand(
        "audit", *case.arguments, "--time-limit", 5, "--out", tmp_path / "out", "--json", tmp_path / "a.json"
    )
    assert ran.code == 0, ran.err
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


def test_json_on_standard_output_is_alone(evenhand, case):
    ran = evenhand("audit", *case.arguments, "--time-limit", 3, "--json", "-")
    assert ran.code == 0
    assert ran.json["kind"] == "audit"
    assert ran.err == ""


def test_the_schema_may_be_inferred(evenhand, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rule.py").write_text("def decide(frame):\n    return (frame['grade'] > 10).astype(int)\n")
    about = [case.data, "--target", "hired", "--protected", "sex", "--time-limit", 3, "--json", "-"]
    ran = evenhand("audit", "rule:decide", *about)
    assert ran.code == 0, ran.err
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
    refused = evenhand(command, case.model, *about, *more)
    assert refused.code == 2
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
    ran = evenhand("audit", *case.arguments, "--time-limit", 3, "--json", "-", "--fail-on", condition)
    assert ran.code == code, ran.err
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
        ran = evenhand(*arguments)
        assert ran.code == 1
        assert "not assessable" in ran.err
        assert "fewer than 30 people to count in b (24)" in ran.err
        assert ran.json["groups"]["breakdowns"][0]["gaps"][1]["not_assessable"] == {"b": 24}
        assert evenhand(*arguments, "--allow-unassessable").code == 0
        ran = evenhand(*arguments, "--min-group-size", 20)
        assert ran.code == 1
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
    ran = evenhand("audit", *case.arguments, "--time-limit", 3, "--json", "-", "--fail-on", condition)
    assert ran.code == 2
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
    ran = evenhand("audit", "patient:model", case.data, "--schema", case.schema, "--out", tmp_path / "out")
    assert ran.code == 130, ran.err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["interrupted"]
    assert report["groups"]["people"] == 400
    assert any("interrupted" in item["reason"] for item in report["not_run"])


def test_nothing_is_overwritten_by_a_failure(evenhand, case, tmp_path):
    out = tmp_path / "out"
    assert evenhand("audit", *case.arguments, "--time-limit", 3, "--out", out).code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    shutil.copy(case.model, tmp_path / "broken.npz")
    (tmp_path / "broken.npz").write_bytes(case.model.read_bytes()[:200])
    ran = evenhand("audit", tmp_path / "broken.npz", case.data, "--schema", case.schema, "--out", out)
    assert ran.code == 2
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
