"""Audits of several labels and of numbers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import evenhand
from evenhand.auditing import AuditResult
from evenhand.auditing.gates.conditions import measure_values
from evenhand.datasets import load_dataset
from evenhand.errors import DataError, EvenhandError, OptionError, SchemaError
from evenhand.schema import Schema
from evenhand.view import write_report

RNG = np.random.default_rng(0)
N = 500
GRADES = ["poor", "fair", "very good"]
SEX = RNG.choice(["F", "M"], N)
TRUE = RNG.choice(GRADES, N)
GIVEN = np.where(RNG.random(N) < 0.7, TRUE, np.where(SEX == "F", "poor", "very good"))
PEOPLE = pd.DataFrame({"sex": SEX, "grade": GIVEN, "true": TRUE, "stars": RNG.integers(1, 6, N), "w": 1.0})
ABOUT = {"sensitive_features": {"sex": SEX}}


def test_labels_of_which_none_is_favourable():
    result = evenhand.audit_predictions(GIVEN, **ABOUT, y_true=TRUE, kind="labels")
    assert (result.described.target.kind, result.model.favourable) == ("labels", "neither")
    assert result.groups.label_set is not None
    assert {one.what for one in result.not_run} == {"search for subgroups"}
    values = measure_values(result)
    assert values["label_share_difference"]["sex"].value == values["label_share_difference"]["sex.poor"].value
    assert values["label_accuracy"][""].value == pytest.approx(np.mean(GIVEN == TRUE))
    assert AuditResult.from_json(result.to_json()) == result


def test_grades_and_the_order_of_a_schema():
    told = evenhand.audit_predictions(GIVEN, **ABOUT, y_true=TRUE, order=GRADES)
    target = {"name": "grade", "kind": "ordinal", "values": GRADES, "favourable": "very good"}
    sex = {"name": "sex", "kind": "categorical", "values": ["F", "M"], "protected": True}
    described = Schema.parse({"target": target, "attributes": [sex]})
    read = evenhand.audit_predictions(GIVEN, **ABOUT, y_true=TRUE, schema=described)
    assert read.groups.labels.breakdowns == told.groups.labels.breakdowns
    assert told.groups.labels.breakdowns[0].gap("too_low_difference").best == "F"
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
def test_what_cannot_be_audited_is_refused(evenhand, options, message, tmp_path):
    PEOPLE.to_csv(tmp_path / "p.csv", index=False)
    told = ("audit-decisions", tmp_path / "p.csv", "--decision", "grade", "--protected", "sex", "--out", tmp_path / "r")
    assert message in " ".join(evenhand(*told, *options, code=2).err.split())
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
    rates = result.groups.everyone.rates
    assert {label: rates[label]["label_share"].value for label in shares} == pytest.approx(shares)
    assert result.groups.weights == "sample_weight"


NUMBERS_N = 400
NUMBERS_SEX = RNG.choice(["F", "M"], NUMBERS_N)
AGE = RNG.integers(18, 80, NUMBERS_N)
CLAIM = np.round(100 + 2.0 * AGE + RNG.normal(0, 10, NUMBERS_N), 2)
PREMIUM = np.round(110 + 2.0 * AGE + 25 * (NUMBERS_SEX == "M") + RNG.normal(0, 3, NUMBERS_N), 2)
NUMBERS_PEOPLE = pd.DataFrame({"sex": NUMBERS_SEX, "age": AGE, "claim": CLAIM})


def premium(frame):
    return 110 + 2.0 * frame["age"] + 25 * (frame["sex"] == "M")


def test_numbers_alone():
    result = evenhand.audit_predictions(PREMIUM, sensitive_features={"sex": NUMBERS_SEX}, y_true=CLAIM, unit="EUR")
    values = measure_values(result)
    assert values["residual_difference"]["sex"].low < 25 < values["residual_difference"]["sex"].high
    assert result.described.target.kind == "number"
    assert result.groups.outcome.unit == "EUR"
    assert result.not_run == ()


def test_subgroups_by_mean_and_by_residual():
    result = evenhand.audit_predictions(
        PREMIUM, sensitive_features={"sex": NUMBERS_SEX, "age": AGE}, y_true=CLAIM, unit="EUR", favourable="lower"
    )
    own = PREMIUM - CLAIM
    worst = result.residual_subgroups.findings[0]
    assert worst.words == "sex M"
    assert worst.gap == pytest.approx(own[NUMBERS_SEX == "M"].mean() - own[NUMBERS_SEX == "F"].mean())
    assert result.subgroups.measure == "mean"
    values = measure_values(result)
    # Of all above the others, the one of which most is certain; its ends hold for all.
    worse = [found for found in result.residual_subgroups.findings if found.gap > 0]
    assert values["worst_subgroup_residual"][""].low == pytest.approx(max(found.low for found in worse))
    assert values["worst_subgroup_gap"][""].value > 60
    assert AuditResult.from_json(result.to_json()) == result
    alone = evenhand.audit_predictions(PREMIUM, sensitive_features={"sex": NUMBERS_SEX})
    assert alone.residual_subgroups is None


def test_few_numbers_are_asked_about_and_may_be_said_to_be_numbers():
    stars = np.tile([1, 2, 3, 4], NUMBERS_N // 4)
    with pytest.raises(EvenhandError, match="which label") as error:
        evenhand.audit_predictions(stars, sensitive_features={"sex": NUMBERS_SEX})
    assert "kind=number" in str(error.value)
    result = evenhand.audit_predictions(
        stars, sensitive_features={"sex": NUMBERS_SEX}, kind="number", favourable="higher"
    )
    assert result.groups.overall["mean"].value == 2.5


def test_a_model_and_its_numbers_say_the_same(tmp_path):
    asked = evenhand.audit(premium, NUMBERS_PEOPLE, target="claim", protected=["sex"])
    given = evenhand.audit_predictions(premium(NUMBERS_PEOPLE), sensitive_features={"sex": NUMBERS_SEX}, y_true=CLAIM)
    assert asked.groups.overall == given.groups.overall
    assert [one.gaps for one in asked.groups.breakdowns] == [one.gaps for one in given.groups.breakdowns]
    assert asked.queries >= NUMBERS_N
    assert asked.groups.plot().to_dict()
    assert len(write_report(asked, tmp_path)) == 2
    assert {one.what for one in asked.not_run} >= {"certification"}
    with pytest.raises(EvenhandError, match="budget"):
        evenhand.audit(premium, NUMBERS_PEOPLE, target="claim", protected=["sex"], budget=10)


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
        (["--decision", "premium", "--score", "claim"], "requires a favourable label, and"),
        (["--decision", "premium", "--favourable", "cheap"], "for numbers, use --kind number"),
        (["--decision", "premium", "--kind", "price"], "expected kind label"),
        (["--decision", "sex2", "--kind", "number"], "expected numbers in the column 'sex2'"),
    ],
)
def test_numbers_what_cannot_be_audited_is_refused(evenhand, options, message, tmp_path):
    NUMBERS_PEOPLE.assign(premium=PREMIUM, sex2=NUMBERS_SEX).to_csv(tmp_path / "p.csv", index=False)
    told = ("audit-decisions", tmp_path / "p.csv", "--protected", "sex", "--out", tmp_path / "r", *options)
    assert message in " ".join(evenhand(*told, code=2).err.split())
    assert not (tmp_path / "r").exists()


def test_rows_without_a_number_are_left_out_and_counted():
    numbers = PREMIUM.copy()
    numbers[:7] = np.nan
    result = evenhand.audit_predictions(numbers, sensitive_features={"sex": NUMBERS_SEX}, y_true=CLAIM)
    assert (result.data.people, result.data.dropped) == (NUMBERS_N - 7, 7)
    reading = result.table_reading
    assert (reading.rows, reading.used, reading.left_out) == (NUMBERS_N, NUMBERS_N - 7, {"without a decision": 7})
    with pytest.raises(DataError, match="expected a finite number"):
        evenhand.audit_predictions(np.where(PREMIUM < 200, np.inf, PREMIUM), sensitive_features={"sex": NUMBERS_SEX})
    with pytest.raises(OptionError, match="requires a favourable label, and"):
        evenhand.audit_predictions(PREMIUM, sensitive_features={"sex": NUMBERS_SEX}, y_score=np.ones(NUMBERS_N))


def test_what_is_there_for_labels_alone_is_refused():
    about = {"sensitive_features": {"sex": NUMBERS_SEX}}
    with pytest.raises(OptionError, match="for a number"):
        evenhand.audit_predictions(PREMIUM, **about, thresholds=True)


def test_numbers_have_references_and_custom_metrics():
    def excess(y_true, y_pred):
        return (y_pred - y_true).mean()

    about = {"sensitive_features": {"sex": NUMBERS_SEX}, "y_true": CLAIM, "reference": ("sex=F",)}
    breakdown = evenhand.audit_predictions(PREMIUM, **about, metrics={"excess": excess}).groups.breakdowns[0]
    by_label = {group.label: group.metrics for group in breakdown.groups}
    assert by_label["M"]["excess"].value == pytest.approx(by_label["M"]["mean_residual"].value)
    for name in ("mean_difference", "median_difference", "residual_difference", "excess_difference"):
        gap = breakdown.gap(name)
        distance = by_label["M"][gap.metric].value - by_label["F"][gap.metric].value
        assert gap.reference == "F"
        assert gap.by_group["M"].value == pytest.approx(distance)
        assert gap.value.value == pytest.approx(abs(distance))
