"""``evenhand audit --threshold`` and ``--thresholds``: as people would type them, and as they mistype them."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import evenhand as package


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
    assert ran.code == 0, ran.err
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
