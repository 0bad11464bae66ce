"""Results as evidence: every number arrives with its kind and interval, others are refused, open items are open."""

import datetime as dt
import json
import math

import numpy as np
import pandas as pd
import pytest

import evenhand
from evenhand.certification import Certificate, Estimate
from evenhand.core import Table
from evenhand.dossier import (
    OUTLINES,
    DossierConfig,
    DossierResult,
    compile_dossier,
    find_changed_cells,
    read_evidence,
)
from evenhand.errors import DataError, DossierError, OptionError
from evenhand.mitigation import (
    CandidateResult,
    Change,
    ComparisonLine,
    MitigationResult,
    SplitSizes,
    Trial,
    refute_alternatives,
)
from evenhand.schema import ColumnRoles
from evenhand.stats import Observed, Proved, Unknown, format_value
from evenhand.view import render_markdown

TODAY = dt.date(2026, 11, 23)
LAW = dt.date(2028, 1, 1)
PEOPLE = pd.DataFrame({"sex": ["Male", "Female"] * 100, "selected": ([1, 0, 1, 1] * 50), "truth": [1, 0, 0, 1] * 50})


def observed(value, n=400, half=0.05):
    return Observed(value=value, n=n, low=value - half, high=value + half, confidence=0.95, method="by hand")


def compared(name, before, after, part="asked", better_if="down", verdict="better"):
    change = Change(value=after - before, low=after - before - 0.01, high=after - before + 0.01, confidence=0.99,
                    n=400, method="by hand")  # fmt: skip
    return ComparisonLine(part=part, name=name, of="", words=f"the {name}", before=observed(before),
                          after=observed(after), change=change, better_if=better_if, verdict=verdict)  # fmt: skip


def candidate(method, accuracy, harm, **more):
    lines = (
        compared("accuracy", 0.9, accuracy, "performance", "up", "within noise"),
        compared("flip_rate", 0.2, harm),
    )
    trials = (Trial(setting="added", value=50, accuracy=accuracy, harms=(harm,), chosen=True),)
    return CandidateResult(method=method, words=f"made by {method}", lines=lines, trials=trials, **more)


def mitigation(*candidates, chosen):
    return MitigationResult(
        model="given.npz", data="people", favourable="yes", people=SplitSizes(train=900, validation=300, test=400),
        harms=("decisions that flip",), confidence=0.95, accuracy_loss=0.01, candidates=candidates, chosen=chosen,
        seed=0, seconds=1.0,
    )  # fmt: skip


DONE = mitigation(candidate("retrain", 0.9, 0.1), candidate("reweigh", 0.85, 0.15), chosen="retrain")
PROOF = Certificate(
    certified=0.9, falsified=0.04, undecided=0.06, counterexamples=(), boxes=9, cpu_seconds=0.1, method="linear",
    estimate=Estimate(unfair=0.05, low=0.04, high=0.07, confidence=0.95, n=500), population="uniform",
    stopped_by="done", protected=("sex",), seed=3, seconds=0.1,
)  # fmt: skip


@pytest.fixture(scope="module")
def audit():
    return evenhand.audit_predictions(PEOPLE["selected"], y_true=PEOPLE["truth"], sensitive_features=PEOPLE[["sex"]])


def compiled(dossiers, results=(), as_of=LAW, **settings):
    settings = {"outcome": {"column": "selected"}, "attributes": {"sex": {"column": "sex"}}} | settings
    return compile_dossier(
        PEOPLE, DossierConfig(**settings), dossiers=dossiers, today=TODAY, as_of=as_of, results=results
    )


def test_every_number_of_an_audit_arrives_with_its_kind_and_interval(audit):
    (file,) = read_evidence([audit])
    found = {(one.of, one.name): one.quantity for one in file.numbers}
    for group in audit.groups.breakdowns[0].groups:
        for name, quantity in group.metrics.items():
            assert found[group.label, name] == quantity
    for gap in audit.groups.breakdowns[0].gaps:
        assert gap.value in [one.quantity for one in file.numbers if one.name == gap.name]
    said = render_markdown(compiled(["annex-iv"], [audit]).document())
    accuracy = audit.groups.breakdowns[0].groups[0].metrics["accuracy"]
    assert format_value(accuracy, "accuracy") in said
    assert "95 % interval" in said


def test_shares_of_a_proof_are_proved_and_the_rest_is_estimated():
    (file,) = read_evidence([PROOF])
    assert [(one.name, one.quantity.kind, one.quantity.value) for one in file.numbers] == [
        ("certified", "proved", 0.9),
        ("falsified", "proved", 0.04),
        ("undecided", "proved", 0.06),
        ("unfair", "estimated", 0.05),
    ]
    said = render_markdown(compiled(["fria"], [PROOF]).document())
    assert "proved" in said
    assert "estimated" in said


def test_files_are_read_by_kind_and_schema_version(tmp_path, audit):
    path = tmp_path / "report.json"
    path.write_text(audit.to_json())
    assert read_evidence([path])[0].numbers == read_evidence([audit])[0].numbers
    plain = json.loads(audit.to_json())
    refused = [
        ({"kind": "groups"}, "got JSON of kind 'groups'"),
        ({"kind": None}, "other JSON"),
        ({"schema_version": 2}, "got 2"),
        ({"schema_version": None}, "got None"),
        ({"schema_version": True}, "got True"),
        ({"data": {}}, "not a AuditResult"),
    ]
    for change, said in refused:
        path.write_text(json.dumps(plain | change))
        with pytest.raises(DataError, match=said):
            read_evidence([path])
    for text, said in (("[]", "other JSON"), ("{", "not JSON")):
        path.write_text(text)
        with pytest.raises(DataError, match=said):
            read_evidence([path])
    with pytest.raises(DataError, match="cannot be read"):
        read_evidence([tmp_path / "absent.json"])


def test_the_frontier_by_hand():
    # By accuracy and harm: (0.9, 0.2) given, (0.9, 0.1), (0.85, 0.15), (0.8, 0.05). The second dominates the first two
    # of the others; the last has the least harm.
    result = mitigation(candidate("a", 0.9, 0.1), candidate("b", 0.85, 0.15), candidate("c", 0.8, 0.05), chosen="a")
    (file,) = read_evidence([result])
    assert file.alternatives.incumbent_on_frontier is False
    assert [one.on_frontier for one in file.alternatives.candidates] == [True, False, True]
    # With an unknown number a model is not placed, and dominates none.
    lines = (result.candidates[0].lines[0].model_copy(update={"after": Unknown(reason="-")}),)
    unknown = result.candidates[0].model_copy(update={"lines": lines + result.candidates[0].lines[1:]})
    (file,) = read_evidence([mitigation(unknown, candidate("b", 0.9, 0.2), chosen=None)])
    assert file.alternatives.incumbent_on_frontier is True
    assert [one.on_frontier for one in file.alternatives.candidates] == [None, True]


def test_alternatives_tell_every_candidate_and_the_choice():
    said = render_markdown(compiled(["alternatives"], [DONE]).document())
    for words in ("given.npz", "Chosen: retrain", "reweigh", "400 people kept aside", "made by reweigh", "1.0 %"):
        assert words in said, words
    none = mitigation(candidate("retrain", 0.7, 0.1, rejected="accuracy is lost"), chosen=None)
    said = render_markdown(compiled(["alternatives"], [none]).document())
    assert "None was chosen" in said
    assert "accuracy is lost" in said
    with pytest.raises(DossierError) as caught:
        compiled(["alternatives"])
    assert caught.value.code == "no-alternatives"


@pytest.mark.parametrize("name", ["annex-iv", "fria"])
def test_items_that_people_state_are_open_until_they_do(name, audit):
    items = OUTLINES[name].items
    empty = compiled([name], [audit])
    assert {f"statements.{name}.{item}" for item in items} <= {one.field for one in empty.open_fields}
    said = render_markdown(empty.document())
    assert said.count("to be filled") >= len(items)
    stated = {item: f"statement about {item}" for item in items}
    full = compiled(
        [name],
        [audit],
        statements={name: stated},
        system={"name": "a", "vendor": "b", "version": 1, "purpose": "c"},
        audit={"date": "2026-01-01"},
        data={"explanation": "d"},
    )
    assert full.open_fields == ()
    said = render_markdown(full.document())
    assert all(one in said for one in stated.values())


def test_without_an_audit_accuracy_is_open_and_not_made_up():
    found = compiled(["annex-iv"])
    assert "results" in {one.field for one in found.open_fields}
    assert "Not measured" in render_markdown(found.document())


def test_law_that_applies_later_is_refused_today():
    with pytest.raises(DossierError) as caught:
        compiled(["annex-iv"], as_of=None)
    assert caught.value.code == "not-in-force"


def test_statements_about_other_items_are_refused():
    with pytest.raises(OptionError, match="no item '10'"):
        compiled(["annex-iv"], statements={"annex-iv": {"10": "x"}})
    with pytest.raises(OptionError, match="'annex-v'"):
        compiled(["annex-iv"], statements={"annex-v": {"1": "x"}})


SCENARIOS = [
    {"group": {"sex": "Female"}, "measure": "ratio", "hazard": "refusal", "mitigation": "x", "review_trigger": "y"},
    {"group": {"sex": "Female"}, "measure": "difference", "threshold": 0.6},
    {"group": {"sex": "Female"}, "measure": "rate", "threshold": 0.5},
    {"group": {"sex": "Female"}, "measure": "accuracy", "threshold": 0.7},
]


def test_scenarios_stand_beside_their_thresholds(audit):
    # Women: 50 of 100 selected, men 100 of 100. The interval of the difference is about 0.40 to 0.60.
    found = compiled(["bias-scenarios"], [audit], scenarios=SCENARIOS, thresholds={"ratio": 0.8})
    ratio, difference, rate, accuracy = found.scenarios
    assert (ratio.quantity.value, ratio.threshold, ratio.finding, ratio.straddles) == (0.5, 0.8, "beyond", False)
    assert (difference.quantity.value, difference.finding) == (0.5, "within")
    assert difference.quantity.low < 0.5 < difference.quantity.high
    assert (rate.quantity.value, rate.finding, rate.straddles) == (0.5, "within", True)
    assert accuracy.quantity == next(
        group.metrics["accuracy"] for group in audit.groups.breakdowns[0].groups if group.label == "Female"
    )
    open_fields = {one.field for one in found.open_fields}
    assert "scenarios[1].hazard" in open_fields
    assert not any(one.startswith("scenarios[0]") for one in open_fields)
    said = render_markdown(found.document())
    assert "beyond the threshold" in said
    assert "no conformity" in said


def test_scenarios_of_nothing_that_is_there_are_refused(audit):
    for change, code in (
        ({"group": {"sex": "X"}}, "no-such-category"),
        ({"group": {"age": "old"}}, "no-such-category"),
        ({"measure": "acuracy"}, "no-such-measure"),
    ):
        with pytest.raises(DossierError) as caught:
            compiled(["bias-scenarios"], [audit], scenarios=[SCENARIOS[0] | change])
        assert caught.value.code == code
    found = compiled(["bias-scenarios"], scenarios=[SCENARIOS[3]])
    assert found.scenarios[0].finding == "unknown"


def test_thresholds_are_shown_beside_the_comparisons_of_trade():
    found = compiled(["disparity"], thresholds={"ratio": 0.5, "difference": 0.4})
    assert [(one.measure, one.finding) for one in found.thresholds] == [("ratio", "within"), ("difference", "beyond")]
    assert "Beside the declared thresholds" in render_markdown(found.document())


def test_the_population_is_compared_with_the_data():
    shares = {"sex": {"Female": 0.52, "Male": 0.48}}
    found = compiled(["annex-iv"], population={"source": "a census", "shares": shares})
    assert [(one.category, one.n, one.share.value, one.reference) for one in found.population] == [
        ("Female", 100, 0.5, 0.52),
        ("Male", 100, 0.5, 0.48),
    ]
    assert "a census" in render_markdown(found.document())
    with pytest.raises(DossierError) as caught:
        compiled(["annex-iv"], population={"shares": {"sex": {"X": 0.1}}})
    assert caught.value.code == "no-such-category"


def test_intervals_are_in_the_json_and_in_no_document_of_local_law_144():
    found = compiled(["ll144"], as_of=None)
    (table,) = found.intervals
    women, men = table.rows
    assert women.rate_low < 0.5 < women.rate_high
    assert women.ratio_low < 0.5 < women.ratio_high
    assert (men.ratio_low, men.ratio_high) == (None, None)
    assert math.isclose(men.rate_low, 0.025 ** (1 / 100))
    assert "interval" not in render_markdown(found.document())


def test_a_check_needs_the_results_and_finds_their_changes(audit):
    found = compiled(["annex-iv"], [audit])
    with pytest.raises(OptionError, match="rests on results"):
        find_changed_cells(found, PEOPLE)
    assert find_changed_cells(DossierResult.from_json(found.to_json()), PEOPLE, results=[audit]) == []
    written = json.loads(found.to_json())
    for path in (("evidence", 0, "numbers", 2, "quantity", "value"), ("intervals", 0, "rows", 0, "rate_low")):
        copy = json.loads(json.dumps(written))
        part = copy
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] += 1e-6
        (place,) = find_changed_cells(DossierResult.model_validate(copy), PEOPLE, results=[audit])
        assert path[-1] in place


def test_every_row_of_a_document_has_its_cells(audit):
    names = [name for name in OUTLINES if name != "ll144"]
    found = compiled(names, [audit, PROOF, DONE], scenarios=SCENARIOS, thresholds={"ratio": 0.8, "difference": 0.1})
    tables = [block for block in found.document().blocks if isinstance(block, Table)]
    assert len(tables) > 10
    for table in tables:
        assert {len(row.cells) for row in table.rows} == {len(table.columns)}, table.caption


def test_kinds_of_numbers_are_kept_in_tables():
    found = compiled(["annex-iv", "alternatives"], [PROOF, DONE])
    frames = found.tables()
    assert set(frames["evidence"]["quantity_kind"]) == {"proved", "estimated"}
    assert set(frames["alternatives"]["method"]) == {"retrain", "reweigh"}
    assert np.isfinite(frames["alternatives"]["before_low"]).all()
    assert isinstance(found.evidence[0].numbers[0].quantity, Proved)


def test_a_refutation_is_told_alone():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"grade": rng.integers(0, 2, 200), "sex": rng.choice(["f", "m"], 200)})
    frame["hired"] = np.where(frame["grade"] + (rng.random(200) < 0.2) > 0.5, "yes", "no")
    people = ColumnRoles("hired", ["sex"], "yes").read(frame)
    found = refute_alternatives(people, features=["grade == 1"], accuracy=0.8)
    said = render_markdown(compiled(["alternatives"], [found]).document())
    assert "Refutation recorded in" in said
    assert found.need == 160
    assert "160 of 200 correct decisions" in said
