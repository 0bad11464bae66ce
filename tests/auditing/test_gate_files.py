"""Outcomes of conditions as SARIF, JUnit XML and annotations: each condition once, and the same from run to run."""

import json
from xml.etree import ElementTree as ET

import pytest

import evenhand
from evenhand import auditing
from evenhand.auditing import GateOutcome, check_gates, format_annotations, format_step_summary, gates_pass, parse_gate

PASSED = GateOutcome("flip_rate > 0.5", "passed", ("flip_rate = 0.06",))
FAILED = GateOutcome("flip_rate.sex.high > 0.01", "failed", ("flip_rate.sex.high = 0.062",))
UNCLEAR = GateOutcome("accuracy < 0.8", "not assessable", ("accuracy = unknown",), ("accuracy: 100 %, but\n'a|b' <c>",))
OUTCOMES = [PASSED, FAILED, UNCLEAR]


def sarif(outcomes, **options):
    (run,) = json.loads(auditing.format_sarif(outcomes, subject="models/credit model.onnx", **options))["runs"]
    return run


def test_sarif_has_a_result_for_what_does_not_pass():
    run = sarif(OUTCOMES)
    assert [result["level"] for result in run["results"]] == ["error", "warning"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "models/credit%20model.onnx"
    assert "0.062" in run["results"][0]["message"]["text"]
    assert sarif([PASSED])["results"] == []
    assert sarif(OUTCOMES, allow_unassessable=True)["results"][1]["level"] == "note"


def test_fingerprints_are_of_the_condition_and_not_of_its_numbers():
    def prints(*outcomes):
        return [result["partialFingerprints"]["evenhandGate/v1"] for result in sarif(outcomes)["results"]]

    later = FAILED._replace(measured=("flip_rate.sex.high = 0.09",), expression="flip_rate.sex.high  >  0.01")
    assert prints(FAILED) == prints(later)
    assert len(set(prints(FAILED, UNCLEAR))) == 2


@pytest.mark.parametrize(("allowed", "kind", "counts"), [(False, "error", "1 1 0"), (True, "skipped", "1 0 1")])
def test_junit_has_a_case_for_every_condition(allowed, kind, counts):
    suites = ET.fromstring(
        auditing.format_junit(OUTCOMES, subject="m\x00.onnx", seconds=2.5, allow_unassessable=allowed)
    )
    (suite,) = suites
    assert " ".join(suite.get(name) for name in ("failures", "errors", "skipped")) == counts
    assert [case.get("name") for case in suite] == [outcome.expression for outcome in OUTCOMES]
    assert [[part.tag for part in case] for case in suite] == [[], ["failure"], [kind]]
    assert suite[1][0].get("message") == FAILED.message


def test_annotations_are_single_lines_that_cannot_begin_another_command():
    lines = format_annotations([UNCLEAR, PASSED, FAILED], subject="a,b:c.onnx")
    assert len(lines) == 2
    assert lines[0].startswith("::warning file=a%2Cb%3Ac.onnx,line=1,title=Evenhand::")
    assert "100 %25, but%0A'a|b'" in lines[0]
    assert lines[1].startswith("::error ")
    assert "file=" not in format_annotations([FAILED], subject="http://host/model")[0]


def test_the_summary_is_a_table_with_a_row_for_every_condition():
    outcome = FAILED._replace(expression="a | b", measured=("x\ny = 1",))
    lines = format_step_summary([outcome, PASSED], "# Found\n\n").splitlines()
    assert lines[2] == "| `a \\| b` | failed | x y = 1 |"
    assert lines[-1] == "# Found"
    assert format_step_summary([], "found") == "found\n"


def test_conditions_of_an_audit_come_out_as_they_are():
    decided, sex = [1] * 20 + [0] * 80 + [1] * 60 + [0] * 40, ["F"] * 100 + ["M"] * 100
    audit = evenhand.audit_predictions(decided, sensitive_features={"sex": sex}, favourable=1)
    texts = ("demographic_parity_difference.sex > 0.39", "selection_rate < 0.4", "selection_rate.low > 1")
    outcomes = check_gates([parse_gate(text) for text in texts], audit)
    assert [outcome.status for outcome in outcomes] == ["failed", "passed", "passed"]
    assert outcomes[0].measured == ("demographic_parity_difference.sex = 0.4",)
    assert not gates_pass(outcomes)
    assert gates_pass(outcomes[1:])
    assert not gates_pass([UNCLEAR])
    assert gates_pass([UNCLEAR], allow_unassessable=True)
