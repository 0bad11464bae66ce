"""Audits of a number that is decided: by a model, or already made; gates, words, and what is refused."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import evenhand
from evenhand.auditing import AuditResult
from evenhand.auditing.gates.conditions import measure_values
from evenhand.cli.main import main
from evenhand.errors import DataError, EvenhandError, OptionError
from evenhand.view import render_markdown, render_page, write_report

RNG = np.random.default_rng(0)
N = 400
SEX = RNG.choice(["F", "M"], N)
AGE = RNG.integers(18, 80, N)
CLAIM = np.round(100 + 2.0 * AGE + RNG.normal(0, 10, N), 2)
PREMIUM = np.round(110 + 2.0 * AGE + 25 * (SEX == "M") + RNG.normal(0, 3, N), 2)
PEOPLE = pd.DataFrame({"sex": SEX, "age": AGE, "claim": CLAIM})


def premium(frame):
    return 110 + 2.0 * frame["age"] + 25 * (frame["sex"] == "M")


@pytest.fixture
def run(monkeypatch):
    """Run the command line in this process, and return its exit code."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["evenhand", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0

    return run


def test_numbers_alone():
    result = evenhand.audit_predictions(PREMIUM, sensitive_features={"sex": SEX}, y_true=CLAIM, unit="EUR")
    values = measure_values(result)
    assert values["residual_difference"]["sex"].low < 25 < values["residual_difference"]["sex"].high
    assert result.described.target.kind == "number"
    assert result.groups.outcome.unit == "EUR"
    assert result.not_run == ()
    shown = render_markdown(result.document())
    assert "EUR above that of people with sex F" in shown


def test_subgroups_by_mean_and_by_residual():
    result = evenhand.audit_predictions(
        PREMIUM, sensitive_features={"sex": SEX, "age": AGE}, y_true=CLAIM, unit="EUR", favourable="lower"
    )
    own = PREMIUM - CLAIM
    worst = result.residual_subgroups.findings[0]
    assert worst.words == "sex M"
    assert worst.gap == pytest.approx(own[SEX == "M"].mean() - own[SEX == "F"].mean())
    assert result.subgroups.measure == "mean"
    values = measure_values(result)
    # Of all above the others, the one of which most is certain; its ends hold for all.
    worse = [found for found in result.residual_subgroups.findings if found.gap > 0]
    assert values["worst_subgroup_residual"][""].low == pytest.approx(max(found.low for found in worse))
    assert values["worst_subgroup_gap"][""].value > 60
    page = render_page(result.document())
    assert "Subgroups by mean residual of y_pred (decided minus true)" in page
    assert "subgroup that differs most: mean" in result.to_markdown()
    assert AuditResult.from_json(result.to_json()) == result
    alone = evenhand.audit_predictions(PREMIUM, sensitive_features={"sex": SEX})
    assert alone.residual_subgroups is None


def test_few_numbers_are_asked_about_and_may_be_said_to_be_numbers():
    stars = np.tile([1, 2, 3, 4], N // 4)
    with pytest.raises(EvenhandError, match="which label") as error:
        evenhand.audit_predictions(stars, sensitive_features={"sex": SEX})
    assert "kind=number" in str(error.value)
    result = evenhand.audit_predictions(stars, sensitive_features={"sex": SEX}, kind="number", favourable="higher")
    assert result.groups.overall["mean"].value == 2.5


def test_a_model_and_its_numbers_say_the_same(tmp_path):
    asked = evenhand.audit(premium, PEOPLE, target="claim", protected=["sex"])
    given = evenhand.audit_predictions(premium(PEOPLE), sensitive_features={"sex": SEX}, y_true=CLAIM)
    assert asked.groups.overall == given.groups.overall
    assert [one.gaps for one in asked.groups.breakdowns] == [one.gaps for one in given.groups.breakdowns]
    assert asked.queries >= N
    assert asked.groups.plot().to_dict()
    assert len(write_report(asked, tmp_path)) == 2
    assert {one.what for one in asked.not_run} >= {"certification"}
    with pytest.raises(EvenhandError, match="budget"):
        evenhand.audit(premium, PEOPLE, target="claim", protected=["sex"], budget=10)


def test_a_real_data_set():
    """Progress of diabetes (Efron et al. 2004), as scikit-learn bundles it."""
    frame = load_diabetes(as_frame=True, scaled=False).frame
    frame["sex"] = frame["sex"].map({1.0: "one", 2.0: "two"})
    frame["age"] = frame["age"].astype(int)
    columns = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    model = make_pipeline(columns, LinearRegression()).fit(frame.drop(columns="target"), frame["target"])
    result = evenhand.audit(model, frame, target="target", protected=["sex", "age"])
    ages, sexes, _ = result.groups.breakdowns
    assert {group.label: group.size for group in sexes.groups} == {"one": 235, "two": 207}
    # Least squares with a column for each sex leaves no mean residual in either.
    assert sexes.gap("residual_difference").value.value == pytest.approx(0, abs=1e-6)
    means = frame.groupby("sex")["target"].mean()
    assert sexes.gap("mean_difference").value.value == pytest.approx(means.max() - means.min())
    assert len(ages.groups) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--decision", "premium", "--score", "claim"], "scores require labels as decisions"),
        (["--decision", "premium", "--favourable", "cheap"], "for numbers, use --kind number"),
        (["--decision", "premium", "--kind", "price"], "expected kind label"),
        (["--decision", "sex2", "--kind", "number"], "expected numbers in the column 'sex2'"),
    ],
)
def test_what_cannot_be_audited_is_refused(run, options, message, tmp_path, capsys):
    PEOPLE.assign(premium=PREMIUM, sex2=SEX).to_csv(tmp_path / "p.csv", index=False)
    assert run("audit-decisions", tmp_path / "p.csv", "--protected", "sex", "--out", tmp_path / "r", *options) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "r").exists()


def test_rows_without_a_number_are_left_out_and_counted():
    numbers = PREMIUM.copy()
    numbers[:7] = np.nan
    result = evenhand.audit_predictions(numbers, sensitive_features={"sex": SEX}, y_true=CLAIM)
    assert (result.data.people, result.data.dropped) == (N - 7, 7)
    reading = result.table_reading
    assert (reading.rows, reading.used, reading.left_out) == (N, N - 7, {"without a decision": 7})
    with pytest.raises(DataError, match="expected a finite number"):
        evenhand.audit_predictions(np.where(PREMIUM < 200, np.inf, PREMIUM), sensitive_features={"sex": SEX})
    with pytest.raises(OptionError, match="scores require labels as decisions"):
        evenhand.audit_predictions(PREMIUM, sensitive_features={"sex": SEX}, y_score=np.ones(N))


def test_what_is_there_for_labels_alone_is_refused():
    about = {"sensitive_features": {"sex": SEX}}
    with pytest.raises(OptionError, match="for a number"):
        evenhand.audit_predictions(PREMIUM, **about, thresholds=True)


def test_numbers_have_references_and_custom_metrics():
    def excess(y_true, y_pred):
        return (y_pred - y_true).mean()

    about = {"sensitive_features": {"sex": SEX}, "y_true": CLAIM, "reference": ("sex=F",)}
    breakdown = evenhand.audit_predictions(PREMIUM, **about, metrics={"excess": excess}).groups.breakdowns[0]
    by_label = {group.label: group.metrics for group in breakdown.groups}
    assert by_label["M"]["excess"].value == pytest.approx(by_label["M"]["mean_residual"].value)
    for name in ("mean_difference", "median_difference", "residual_difference", "excess_difference"):
        gap = breakdown.gap(name)
        distance = by_label["M"][gap.metric].value - by_label["F"][gap.metric].value
        assert gap.reference == "F"
        assert gap.by_group["M"].value == pytest.approx(distance)
        assert gap.value.value == pytest.approx(abs(distance))
