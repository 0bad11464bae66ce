"""`evenhand audit DATA --decision COLUMN` as a user runs it: decisions alone, no model."""

import json

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    sex = rng.choice(["F", "M"], n)
    selected = rng.random(n) < np.where(sex == "F", 0.3, 0.6)
    path = tmp_path / "decisions.csv"
    pd.DataFrame(
        {
            "applicant": [f"A-{i:05d}" for i in range(n)],
            "applied": "2026-01-31",
            "sex": sex,
            "selected": np.where(selected, "yes", "no"),
            "hired": rng.integers(0, 2, n),
            "points": rng.random(n),
        }
    ).to_csv(path, index=False)
    return path


def test_decisions_alone_make_a_report(evenhand, table, tmp_path):
    ran = evenhand("audit", table, "--decision", "selected", "--protected", "sex", "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "decisions in column 'selected'" in ran.out
    assert "four-fifths rule" in ran.out
    assert "worst subgroup" in ran.out
    assert "counterfactual" not in ran.out.lower()
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["kind"] == "audit"
    assert report["individual"] is None
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Groups" in page
    assert "Individuals" not in page


def test_true_labels_scores_and_gates(evenhand, table, tmp_path):
    asked = ("audit", table, "--decision", "selected", "--protected", "sex", "--target", "hired", "--score", "points")
    ran = evenhand(*asked, "--json", tmp_path / "a.json", "--fail-on", "demographic_parity_ratio < 0.8")
    assert ran.code == 1
    assert "this holds: demographic_parity_ratio < 0.8" in ran.err
    overall = json.loads((tmp_path / "a.json").read_text())["groups"]["overall"]
    assert {"accuracy", "auc", "mean_score"} <= set(overall)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--decision", "selectd"], "did you mean 'selected'"),
        (["--decision", "selected", "--population", "uniform"], "--population is not about decisions already made"),
        (["--score", "points"], "expected decisions, or scores and a threshold"),
        (["--decision", "points", "--kind", "label", "--favourable", "1"], "if these are scores: --score"),
        (["--decision", "selected", "--fail-on", "demographic_parity_ratio.sxe < 1"], "sxe"),
        (["model.onnx", "--decision", "selected"], "without a model"),
        (["--example", "adult", "--decision", "selected"], "without a model"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_message(evenhand, table, options, words):
    ran = evenhand("audit", table, "--protected", "sex", *options)
    assert ran.code == 2
    assert words in ran.err
    assert "Traceback" not in ran.err
