"""Audits of several labels and of grades: given already, or by a model; gates, pages, and what is refused."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import evenhand
from evenhand.auditing import AuditResult
from evenhand.auditing.gates.conditions import measure_values
from evenhand.cli.main import main
from evenhand.datasets import load_dataset
from evenhand.errors import OptionError, SchemaError
from evenhand.schema import Schema
from evenhand.view import render_markdown, render_page

RNG = np.random.default_rng(0)
N = 500
GRADES = ["poor", "fair", "very good"]
SEX = RNG.choice(["F", "M"], N)
TRUE = RNG.choice(GRADES, N)
GIVEN = np.where(RNG.random(N) < 0.7, TRUE, np.where(SEX == "F", "poor", "very good"))
PEOPLE = pd.DataFrame({"sex": SEX, "grade": GIVEN, "true": TRUE, "stars": RNG.integers(1, 6, N), "w": 1.0})
ABOUT = {"sensitive_features": {"sex": SEX}}


@pytest.fixture
def run(monkeypatch):
    """Run the command line in this process, and return its exit code."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["evenhand", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0

    return run


def test_labels_of_which_none_is_favourable():
    result = evenhand.audit_predictions(GIVEN, **ABOUT, y_true=TRUE, kind="labels")
    assert (result.described.target.kind, result.model.favourable) == ("labels", "neither")
    assert result.groups.label_set is not None
    assert {one.what for one in result.not_run} == {"search for subgroups"}
    values = measure_values(result)
    assert values["label_share_difference"]["sex"].value == values["label_share_difference"]["sex.poor"].value
    assert values["label_accuracy"][""].value == pytest.approx(np.mean(GIVEN == TRUE))
    shown = render_markdown(result.document())
    assert "grade" not in shown
    assert "selected" not in shown
    assert AuditResult.from_json(result.to_json()) == result


def test_grades_and_the_order_of_a_schema():
    told = evenhand.audit_predictions(GIVEN, **ABOUT, y_true=TRUE, order=GRADES)
    described = Schema.parse(
        {
            "target": {"name": "grade", "kind": "ordinal", "values": GRADES, "favourable": "very good"},
            "attributes": [{"name": "sex", "kind": "categorical", "values": ["F", "M"], "protected": True}],
        }
    )
    read = evenhand.audit_predictions(GIVEN, **ABOUT, y_true=TRUE, schema=described)
    assert read.groups.labels.breakdowns == told.groups.labels.breakdowns
    assert told.groups.labels.breakdowns[0].gap("too_low_difference").best == "F"
    assert "y\\_pred at least fair is given to people with sex M more often" in render_markdown(told.document())
    assert "Not run" in told.summary()
    assert told.plot().to_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "or compare each of them: --kind labels"),
        (["--kind", "ordinal"], "the order of the labels of 'grade' is not known"),
        (["--kind", "poor < fair"], "lacks 'very good'"),
        (["--kind", "labels", "--favourable", "fair"], "takes no favourable label"),
        (["--kind", "labels", "--score", "stars"], "omit --score"),
        (["--kind", "labels", "--thresholds"], "expected no --thresholds"),
    ],
)
def test_what_cannot_be_audited_is_refused(run, options, message, tmp_path, capsys):
    PEOPLE.to_csv(tmp_path / "p.csv", index=False)
    told = ("audit-decisions", tmp_path / "p.csv", "--decision", "grade", "--protected", "sex", "--out", tmp_path / "r")
    assert run(*told, *options) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "r").exists()


@pytest.fixture(scope="module")
def model():
    """A classifier of jobs in South German Credit, and the people."""
    frame = load_dataset("german").frame[["age", "sex", "housing", "telephone", "job"]]
    columns = make_column_transformer((OneHotEncoder(), ["sex", "housing", "telephone"]), remainder="passthrough")
    return make_pipeline(columns, LogisticRegression(max_iter=2000)).fit(frame.drop(columns="job"), frame["job"]), frame


def test_a_model_of_several_labels(model):
    classifier, frame = model
    told = {"target": "job", "protected": ["sex"], "kind": "labels", "samples": 200}
    result = evenhand.audit(lambda people: classifier.predict(people), frame, **told)
    predicted = classifier.predict(frame.drop(columns="job"))
    given = evenhand.audit_predictions(
        predicted, sensitive_features={"sex": frame["sex"]}, y_true=frame["job"], kind="labels"
    )
    assert result.groups.labels.breakdowns == given.groups.labels.breakdowns
    turned = frame.assign(sex=frame["sex"].map({"male": "female", "female": "male"})).drop(columns="job")
    flips = int((classifier.predict(turned) != predicted).sum())
    assert result.individual.rate(("sex",), "data").flips == flips
    assert {one.what for one in result.not_run} >= {"search for subgroups", "search for individuals"}
    assert (result.described.target.favourable, result.data.base_rate) == ("neither", None)
    page = render_page(result.document())
    assert "(favourable)" not in page
    assert "Favourable label" not in page


@pytest.mark.slow
def test_flips_between_any_two_labels_are_proved(model):
    classifier, frame = model
    told = {"target": "job", "protected": ["sex"], "kind": "labels", "max_boxes": 200, "samples": 200}
    result = evenhand.audit(classifier, frame, **told)
    proved = result.certificates[0]
    rate = result.individual.rate(("sex",), "data")
    assert rate.flips > 0
    assert proved.falsified > 0
    assert proved.certified < 1 - proved.falsified + 1e-9


def test_a_model_of_grades_is_asked_once(model):
    classifier, frame = model
    asked = []

    def predict(people):
        asked.append(len(people))
        return classifier.predict(people)

    order = ["A171", "A172", "A173", "A174"]
    result = evenhand.audit(
        predict, frame, target="job", protected=["sex"], order=order, samples=100, searched=0, time_limit=60
    )
    assert result.groups.grades.label_set.ordered
    assert result.groups.label_set is None
    assert result.queries == sum(asked)
    values = measure_values(result)
    assert values.keys() >= {"demographic_parity_difference", "cut_difference", "macro_recall"}
    # The best grade against all others is the highest cut.
    assert values["demographic_parity_difference"]["sex"].value == pytest.approx(
        values["cut_difference"]["sex.A174"].value
    )
    assert "Every grade of job" in render_page(result.document())


def test_settings_of_one_favourable_label_are_refused(model):
    classifier, frame = model
    told = {"target": "job", "protected": ["sex"], "kind": "labels"}
    for settings in ({"threshold": 0.5}, {"metrics": {"mine": np.mean}}):
        with pytest.raises(OptionError, match="for several labels"):
            evenhand.audit(classifier, frame, **told, **settings)
    with pytest.raises(SchemaError, match="no label of 'job' is favourable"):
        evenhand.certify(classifier, frame, **told)


def test_weights_apply_to_every_label(model):
    classifier, frame = model
    weights = np.where(frame.sex == "male", 1.0, 3.0)
    result = evenhand.audit(
        classifier, frame, target="job", protected=["sex"], kind="labels", sample_weight=weights, samples=50
    )
    predicted = classifier.predict(frame.drop(columns="job"))
    shares = {label: np.average(predicted == label, weights=weights) for label in result.groups.label_set.labels}
    rates = result.groups.overall_rates
    assert {label: rates[label]["label_share"].value for label in shares} == pytest.approx(shares)
    assert result.groups.weights == "sample_weight"
