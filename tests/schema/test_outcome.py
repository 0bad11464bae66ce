"""Outcomes, targets and thresholds."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenhand.errors import DataError, EvenhandError, OptionError, SchemaError
from evenhand.groups import DecisionRoles
from evenhand.groups.roles import table_of_decisions
from evenhand.schema import Schema, Target, encode, infer_schema, read_schema, write_schema
from evenhand.schema.outcome import OutcomeRole, propose_favourable
from evenhand.schema.people import ColumnRoles
from evenhand.schema.thresholds import Threshold, describe_scale, looks_like_points

YES = st.sampled_from([1, 1.0, True, "1", "1.0", "TRUE", "true "])
NO = st.sampled_from([0, 0.0, False, "0", "0.0", "False"])


def read(decisions, truth=None, **about):
    frame = pd.DataFrame({"sex": np.resize(["f", "m"], len(decisions)), "decision": pd.Series(decisions, dtype=object)})
    if truth is not None:
        name = about.pop("name", "truth")
        frame[name] = pd.Series(truth, dtype=object)
        about["target"] = name
    return DecisionRoles("decision", ["sex"], **about).read(frame)


@given(st.lists(st.one_of(st.tuples(st.just(True), YES), st.tuples(st.just(False), NO)), min_size=1, max_size=20))
def test_every_spelling_of_a_truth_value_is_one_decision(cells):
    decisions = read([cell for _, cell in cells], favourable=1)
    assert decisions.selected.tolist() == [selected for selected, _ in cells]


@given(st.lists(st.sampled_from(["hired", "Hired", "hired ", "rejected", "NA", "pending"]), min_size=2, max_size=12))
def test_no_word_of_an_outcome_is_counted_without_a_statement(words):
    """The rate is right, or the table is refused: no spelling and no third word becomes a rejection."""
    assume("hired" in words)
    try:
        decisions = read(words, favourable="hired")
    except EvenhandError:
        one_label = set(words) == {"hired", "NA"} and words.count("NA") > len(words) / 10
        assert {"Hired", "hired "} & set(words) or {"rejected", "pending"} <= set(words) or one_label
    else:
        known = [word for word in words if word != "NA"]
        assert decisions.people.undecided == words.count("NA")
        assert decisions.selected.tolist() == [word == "hired" for word in known]


def test_words_that_are_left_over_are_listed_with_counts_and_rows():
    with pytest.raises(DataError) as error:
        read(["1", "0", "maybe", "0"], favourable=1)
    assert "0 (2 rows, first in row 2), 'maybe' (1 row, first in row 3)" in str(error.value)


def test_several_unfavourable_labels_are_stated():
    words = ["hired", "rejected", "withdrawn", "hired"]
    stated = read(words, favourable="hired", unfavourable=["rejected", "withdrawn"])
    assert stated.selected.tolist() == [True, False, False, True]
    others = read(words, favourable="hired", outcome=OutcomeRole("label"))
    assert others.selected.tolist() == stated.selected.tolist()
    with pytest.raises(DataError, match="'withdrawn'"):
        read(words, favourable="hired", unfavourable=["rejected"])
    with pytest.raises(SchemaError, match="'declined' does not occur"):
        read(words, favourable="hired", unfavourable=["rejected", "withdrawn", "declined"])


@pytest.mark.parametrize("favourable", ["Hire", "hired", "yes"])
def test_a_favourable_label_that_never_occurs_is_refused(favourable):
    with pytest.raises(SchemaError, match="does not occur"):
        read(["Hired", "Rejected"], favourable=favourable)


def test_codes_and_words_for_unknown_are_left_out_and_listed():
    decisions = read(["yes", "no", "N/A", "<NA>", "Unknown", None], favourable="yes")
    assert (decisions.people.undecided, len(decisions.people)) == (4, 2)
    assert set(decisions.people.reading.decision.unknown) == {"N/A", "<NA>", "Unknown"}
    truth = read([1, 0, 1, 0], [1, 0, -1, 0], favourable_target=1).people.reading.true_label
    assert truth.unknown == ("-1",)


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("hired", ["no", "yes"], "yes"),
        ("defaulted", ["no", "yes"], "no"),
        ("two_year_recid", [0, 1], 0),
        ("risk", ["high", "low"], "low"),
        ("decision", ["approved", "denied"], "approved"),
        ("income", ["<=50K", ">50K"], ">50K"),
        ("charged_off", [True], False),
        ("defaulted", ["TRUE"], "not TRUE"),
    ],
)
def test_the_favourable_label_is_proposed_from_words_and_names(name, labels, expected):
    assert propose_favourable(name, labels) == expected


@pytest.mark.parametrize("labels", [["a", "b"], ["approved", "granted"], ["yes", "no", "maybe"], ["x"]])
def test_other_labels_are_not_guessed(labels):
    with pytest.raises(SchemaError):
        propose_favourable("outcome", labels)


# True labels: 100 people repaid and 100 did not; most of those who repaid were approved.
REPAID = np.repeat([True, False], 100)
APPROVED = np.r_[np.arange(100) < 80, np.arange(100) < 20]
DECISIONS = np.where(APPROVED, "approved", "denied")


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("defaulted", np.where(REPAID, "no", "yes")),
        ("defaulted", (~REPAID).astype(int)),
        ("recid", ~REPAID),
        ("repaid", REPAID.astype(int)),
        ("loan", np.where(REPAID, "repaid", "charged off")),
    ],
)
def test_the_true_label_may_run_the_other_way(name, labels):
    decisions = read(DECISIONS, labels, name=name)
    assert decisions.people.favourable.tolist() == REPAID.tolist()
    assert decisions.people.reading.true_label.how.startswith("proposed")


def test_adverse_true_labels_in_the_words_of_the_decisions():
    opposite = read(APPROVED.astype(int), (~REPAID).astype(int), name="defaulted")
    assert opposite.people.favourable.tolist() == REPAID.tolist()
    same = read((~APPROVED).astype(int), (~REPAID).astype(int), name="recid")
    assert same.people.favourable.tolist() == (~REPAID).tolist()
    assert same.people.reading.true_label.how == "same word as the decision"


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("arrears_90", np.resize([0, 1], 200)),
        ("outcome", np.where(REPAID, "A", "B")),
        ("label", (~REPAID).astype(int)),
        ("label", np.resize(["yes", "no"], 200)),
    ],
)
def test_missing_or_contradictory_evidence_is_refused_until_the_label_is_stated(name, labels):
    decisions = DECISIONS if name != "arrears_90" else np.where(DECISIONS == "approved", 1, 0)
    with pytest.raises(SchemaError) as error:
        read(decisions, labels, name=name)
    assert "favourable_target" in str(error.value)
    stated = read(decisions, labels, name=name, favourable_target=labels[0])
    assert stated.people.favourable.tolist() == (labels == labels[0]).tolist()
    assert stated.people.reading.true_label.how == "stated"


def test_a_favourable_label_of_the_true_labels_alone_is_theirs():
    decisions = read(DECISIONS, np.where(REPAID, "no", "yes"), name="defaulted", favourable="no")
    assert decisions.selected.tolist() == APPROVED.tolist()
    assert decisions.people.favourable.tolist() == REPAID.tolist()


def test_the_labels_of_a_schema_close_the_outcome():
    frame = pd.DataFrame({"sex": ["f", "m"] * 10, "grade": ["A", "B", "C", "A"] * 5})
    schema = infer_schema(frame, target="grade", protected=["sex"], favourable="A", unfavourable=["B", "C"])
    assert schema.target.values == ("B", "C", "A")
    frame["decision"] = frame["grade"]
    decisions = DecisionRoles("decision", ["sex"], schema=schema).read(frame)
    assert decisions.selected.tolist() == (frame["grade"] == "A").tolist()


@pytest.mark.parametrize("name", ["low_risk", "no_default", "not_denied", "non_fraud", "violation_free", "lowRisk"])
def test_a_negated_name_is_not_adverse(name):
    assert propose_favourable(name, [0, 1]) == 1


@pytest.mark.parametrize("name", ["not_hired", "not_approved", "blocked", "laid_off", "SeriousDlqin2yrs"])
def test_other_adverse_names(name):
    assert propose_favourable(name, [0, 1]) == 0


def test_a_contradictory_name_is_refused():
    with pytest.raises(SchemaError):
        propose_favourable("passed_risk_check", [0, 1])


@pytest.mark.parametrize("low_is_good", [False, True])
def test_scores_are_evidence_of_the_favourable_true_label(low_is_good):
    points = np.where(APPROVED, 0.9, 0.1)
    frame = pd.DataFrame({"sex": ["f", "m"] * 100, "score": 1 - points if low_is_good else points})
    about = {"score": "score", "threshold": 0.5, "low_is_good": low_is_good, "target": "truth"}
    frame["truth"] = (~REPAID).astype(int)
    named = DecisionRoles(None, ["sex"], target_name="defaulted", **about).read(frame)
    assert named.people.favourable.tolist() == REPAID.tolist()
    with pytest.raises(SchemaError, match="less frequent"):
        DecisionRoles(None, ["sex"], **about).read(frame)


def test_names_of_series_are_evidence():
    frame, roles = table_of_decisions(pd.Series((~APPROVED).astype(int), name="denied"), {"sex": ["f", "m"] * 100})
    assert roles.read(frame).selected.tolist() == APPROVED.tolist()


def test_a_true_label_that_contradicts_the_decisions_is_refused():
    with pytest.raises(SchemaError, match="less frequent"):
        read(np.where(APPROVED, "yes", "no"), (~REPAID).astype(int), name="y")


def test_decisions_that_are_recorded_only_if_favourable_are_refused():
    for decisions in (["yes", None, None, None, "yes"], ["yes", "yes", "yes", "unknown", "yes"]):
        with pytest.raises(DataError, match="only the favourable decision"):
            read(decisions, favourable="yes")


def test_a_dash_is_a_decision_beside_a_plus():
    assert read(["+", "-", None, "-", "+"], favourable="+").selected.tolist() == [True, False, False, True]


SEX = ["F", "M"] * 10
PRICES = pd.DataFrame({"sex": SEX, "price": np.linspace(10.5, 99.5, 20)})
GRADES = pd.DataFrame({"sex": SEX, "grade": ["low", "medium", "high", "low"] * 5, "stars": [1, 2, 3, 4, 5] * 4})


def test_many_numbers_are_a_number_and_a_label_may_be_named_instead():
    target = infer_schema(PRICES, target="price", protected=["sex"]).target
    assert (target.kind, target.favourable, target.values) == ("number", "neither", None)
    assert infer_schema(PRICES, target="price", favourable="lower").target.favourable == "lower"
    named = infer_schema(PRICES, target="price", favourable=10.5, outcome=OutcomeRole(kind="label")).target
    with pytest.raises(DataError, match="neither favourable nor unfavourable"):
        infer_schema(PRICES, target="price", favourable=10.5)
    assert (named.kind, named.favourable) == ("label", 10.5)


def test_few_numbers_are_never_guessed_to_be_a_number():
    with pytest.raises(SchemaError, match="which label of 'stars'") as error:
        infer_schema(GRADES, target="stars")
    assert "kind=number" in str(error.value)
    said = infer_schema(GRADES, target="stars", outcome=OutcomeRole(kind="number", unit="stars")).target
    assert (said.kind, said.unit) == ("number", "stars")
    levels = infer_schema(GRADES, target="stars", outcome=OutcomeRole(kind="ordinal")).target
    assert (levels.kind, levels.values, levels.favourable) == ("ordinal", (1, 2, 3, 4, 5), 5)


def test_an_order_makes_labels_ordinal():
    order = OutcomeRole(order=("low", "medium", "high"))
    target = infer_schema(GRADES, target="grade", outcome=order).target
    assert (target.kind, target.values, target.favourable) == ("ordinal", ("low", "medium", "high"), "high")
    assert infer_schema(GRADES, target="grade", outcome=order, favourable="low").target.favourable == "low"
    people = encode(infer_schema(GRADES, target="grade", outcome=order), GRADES)
    assert people.labels.tolist()[:4] == [0, 1, 2, 0]
    with pytest.raises(SchemaError, match="favourable"):
        infer_schema(GRADES, target="grade", outcome=order, favourable="medium")
    with pytest.raises(SchemaError, match="lacks 'medium'"):
        infer_schema(GRADES, target="grade", outcome=OutcomeRole(order=("low", "high")))
    with pytest.raises(SchemaError, match="order of the labels"):
        infer_schema(GRADES, target="grade", outcome=OutcomeRole(kind="ordinal"))


def test_numbers_are_read_as_they_stand():
    people = encode(infer_schema(PRICES, target="price", protected=["sex"]), PRICES)
    assert people.labels is None
    assert people.numbers.tolist() == PRICES["price"].tolist()
    assert people.at(np.array([3, 1])).numbers.tolist() == PRICES["price"].iloc[[3, 1]].tolist()
    with pytest.raises(SchemaError, match="'price' is a number"):
        _ = people.favourable


@pytest.mark.parametrize(("price", "shown"), [(np.nan, "an empty cell"), ("dear", "'dear'"), (np.inf, "inf")])
def test_a_number_that_is_none_is_refused_by_row(price, shown):
    schema = infer_schema(PRICES, target="price")
    frame = PRICES.astype({"price": object})
    frame.loc[4, "price"] = price
    with pytest.raises(DataError, match=f"row 5: expected a finite number as target, got {shown}"):
        encode(schema, frame)


def test_a_number_in_the_schema_file_comes_back(tmp_path):
    schema = infer_schema(PRICES, target="price", favourable="lower", outcome=OutcomeRole(unit="EUR"))
    write_schema(schema, tmp_path / "s.yaml")
    assert "target: {name: price, kind: number, favourable: lower, unit: EUR}" in (tmp_path / "s.yaml").read_text()
    assert read_schema(tmp_path / "s.yaml") == schema
    assert Target(name="price", kind="number").favourable == "neither"


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"name": "price", "kind": "number", "favourable": "cheap"}, "favourable"),
        ({"name": "price", "kind": "number", "values": [1, 2]}, "values"),
        ({"name": "price", "favourable": 1, "unit": "EUR"}, "unit"),
        ({"name": "grade", "kind": "ordinal", "favourable": "high"}, "values"),
        ({"name": "grade", "kind": "ordinal", "favourable": "b", "values": ["a", "b", "c"]}, "favourable"),
        ({"name": "price", "kind": "numeric"}, "kind"),
        ({"name": "price"}, "favourable"),
    ],
)
def test_rejects_invalid_targets(target, field):
    with pytest.raises(SchemaError, match=field):
        Schema.parse({"target": target, "attributes": [{"name": "x", "kind": "integer", "lower": 0, "upper": 1}]})


def test_an_argument_replaces_the_favourable_label_of_a_schema_but_not_its_kind():
    number = infer_schema(PRICES, target="price")
    turned = ColumnRoles(protected=["sex"], schema=number, favourable="higher").read(PRICES).schema.target
    assert turned == Target(name="price", kind="number", favourable="higher")
    with pytest.raises(SchemaError, match="'cheap'"):
        ColumnRoles(protected=["sex"], schema=number, favourable="cheap").read(PRICES)
    words = infer_schema(GRADES, target="grade", favourable="high", unfavourable=["low", "medium"])
    assert ColumnRoles(protected=["sex"], schema=words, favourable="low").read(GRADES).schema.target.favourable == "low"
    for outcome in (OutcomeRole(kind="labels"), OutcomeRole(order=["low", "medium", "high"]), OutcomeRole(unit="EUR")):
        with pytest.raises(OptionError, match="'grade'"):
            ColumnRoles(protected=["sex"], schema=words, outcome=outcome).read(GRADES)


def test_what_makes_no_outcome_is_refused():
    with pytest.raises(OptionError, match="'price'"):
        OutcomeRole(kind="price")
    for order in ("high", np.array("high"), ["high"], {"high"}):
        with pytest.raises(OptionError, match="'high'"):
            OutcomeRole(order=order)
    with pytest.raises(OptionError, match="unit"):
        infer_schema(GRADES, target="grade", favourable="high", outcome=OutcomeRole(unit="EUR"))
    with pytest.raises(DataError, match="expected numbers in the column 'grade', got"):
        infer_schema(GRADES, target="grade", outcome=OutcomeRole(kind="number"))
    with pytest.raises(SchemaError, match="higher, lower, neither, got 3"):
        infer_schema(PRICES, target="price", favourable=3, outcome=OutcomeRole(kind="number"))


def test_several_labels_have_no_favourable_one():
    target = Target.model_validate({"name": "job", "kind": "labels", "values": ["a", "neither", "c"]})
    assert target.favourable == "neither"
    with pytest.raises(SchemaError, match="'job'"):
        target.require_labels("this analysis")
    with pytest.raises(ValueError, match="'a'"):
        Target.model_validate({"name": "job", "kind": "labels", "favourable": "a", "values": ["a", "c"]})


def test_too_many_labels_are_refused_with_what_to_do():
    frame = pd.DataFrame({"sex": ["F", "M"] * 60, "given": [f"label {i % 60}" for i in range(120)]})
    roles = DecisionRoles("given", ["sex"], outcome=OutcomeRole("labels"))
    with pytest.raises(DataError, match="expected at most 50 labels"):
        roles.read(frame)


def test_reads_numbers_and_text():
    assert Threshold.parse(0.4) == Threshold.parse("0.4") == Threshold(value=0.4)


@pytest.mark.parametrize("threshold", ["half", "nan", [], [0.4, 0.5], "sex=F:0.4"])
def test_rejects_invalid_thresholds(threshold):
    with pytest.raises(OptionError):
        Threshold.parse(threshold)


def test_scores_at_the_threshold_are_selected():
    scores = np.array([0.5, 0.4, 0.6])
    assert Threshold.parse(0.5).select(scores).tolist() == [True, False, True]
    assert Threshold.parse(0.5, low_is_good=True).select(scores).tolist() == [True, True, False]


def test_scores_are_never_rescaled_silently():
    points = np.array([3.0, 50.0, 98.0])
    with pytest.raises(OptionError) as error:
        Threshold.parse(0.5).check_scale(points)
    assert "`threshold=50`" in str(error.value)
    Threshold.parse(50).check_scale(points)
    with pytest.raises(OptionError) as error:
        Threshold.parse(50).check_scale(points / 100)
    assert "`threshold=0.5`" in str(error.value)
    with pytest.raises(OptionError, match="between 300 and 980"):
        Threshold.parse(0.5).check_scale(10 * points + [270, 0, 0])
    Threshold.parse(0.5).check_scale(np.array([-3.0, 4.0]))  # log-odds may be cut anywhere
    assert looks_like_points(points)
    assert not looks_like_points(points / 100)
    assert not looks_like_points(np.array([-1.0, 50.0]))
    assert "3 to 98" in describe_scale(points)
    assert "percentages" in describe_scale(points)
    assert "percentages" not in describe_scale(np.array([-3.0, 4.0]))
