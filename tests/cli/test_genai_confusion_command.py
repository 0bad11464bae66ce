"""`evenhand genai confusion`, and what `evenhand genai check` says of labels and of retries, as a user runs them."""

import json

import pytest

from evenhand.genai import Enforcer, GenerationConfig
from evenhand.genai.classifiers.confusion import ConfusionResult

CONFIGURATION = """\
conditions: [{name: leader}]
specifications: [{condition: leader, group: gender, values: [female, male], repeated: 6}]
simulation: {obeys: 0.9, retries: 1, slack: 1}
"""


@pytest.fixture
def sample(tmp_path):
    def write(wrong=0, name="sample.csv"):
        rows = (
            ["female,female"] * (300 - wrong) + ["male,female"] * wrong + ["male,male"] * 300 + ["none,none", ",male"]
        )
        (tmp_path / name).write_text("\n".join(["truth,answer", *rows]) + "\n")
        return tmp_path / name

    return write


@pytest.fixture
def config(tmp_path):
    def write(more=""):
        (tmp_path / "genai.yaml").write_text(CONFIGURATION + more)
        return tmp_path / "genai.yaml"

    return write


def test_a_sample_is_counted(evenhand, sample):
    command = ("genai", "confusion", sample(wrong=30), "--true", "truth", "--said", "answer")
    ran = evenhand(*command, "--repeated", "6,9", "--json", "-")
    assert (ran.code, ran.err) == (0, "")
    found = ran.json
    assert found["kind"] == "genai-confusion"
    assert found["sample"]["counts"] == [[270, 0, 0], [30, 300, 0], [0, 0, 1]]
    assert (found["items"], found["unlabelled"]) == (601, 1)
    assert [one["guaranteed"] for one in found["worth"]] == [False, True]
    assert ConfusionResult.from_json(ran.out).worth[1].deadline == 9
    tolerant = evenhand(*command, "--repeated", "6", "--tolerated", "0.2", "--json", "-")
    assert [one["guaranteed"] for one in tolerant.json["worth"]] == [True, True]
    screen = evenhand(*command, "--repeated", "6").out
    assert "601 labelled items, 1 without a true label, excluded" in screen
    assert "male 30 300 0" in " ".join(screen.split())
    assert evenhand(*command, "--quiet").out == ""


def test_bad_options_are_refused(evenhand, refuses, sample, tmp_path):
    command = ("genai", "confusion", sample(), "--true", "truth", "--said", "answer")
    refuses("--repeated: expected a number of items, got 'six'", *command, "--repeated", "six")
    refuses("expected 2 deadlines, one per value", *command, "--repeated", "6,6,6")
    refuses("'male' is not a value", *command, "--values", "female")
    refuses("--condition-column", *command, "--condition-column", "truth")
    refuses("no item is labelled", *command, "--condition-column", "truth=x")
    ran = evenhand(*command, "--condition-column", "truth=x")
    assert ran.err.count("truth: ") == 1  # the column of the true values is named once
    refuses("--tolerated: expected a number", *command, "--tolerated", "1")
    refuses("at least 1, got 0", *command, "--repeated", "0")
    refuses("--confidence: expected a number between 0 and 1", *command, "--confidence", "1")
    refuses("--json", *command, "--json", tmp_path / "no" / "x.json")
    refuses("there is no column 'true'", "genai confusion", sample())
    refuses("none.csv", "genai confusion", tmp_path / "none.csv")


def test_a_sample_that_is_no_sample_is_refused(refuses, config, tmp_path):
    path = config("samples: {gender: sample.csv}\n")
    refuses("sample.csv", "genai check", "--config", path)
    (tmp_path / "sample.csv").write_text("true,said\nwoman,female\n")
    refuses("'woman' is not a value", "genai check", "--config", path)
    refuses("no group 'size'", "genai check", "--config", config("samples: {size: sample.csv}\n"))
    refuses("tolerated.labels", "genai check", "--config", config("tolerated: {labels: 2}\n"))


def test_a_check_counts_on_what_an_enforcer_saw(evenhand, refuses, config, tmp_path):
    path = config()
    enforcer = Enforcer(GenerationConfig.read(path), in_flight=1)
    for _ in range(2000):
        admission = enforcer.admit({"leader"})
        must = admission.must.get("gender", ("male",))
        enforcer.complete(admission, {"gender": must[0]})
    counts = enforcer.counts["leader: gender"]
    assert counts["asked"] == counts["obeyed"] > 300
    state = tmp_path / "state.json"
    state.write_text(json.dumps(enforcer.state()))
    ran = evenhand("genai", "check", "--config", path, "--state", state, "--json", "-")
    rate = ran.json["success"]["rate"]["leader: gender"]
    assert (rate["value"], rate["n"]) == (1.0, counts["asked"])
    assert ran.json["success"]["least"] == rate["low"] > 0.98
    assert ran.json["smallest"][0]["enough"] is True
    state.write_text("[1]")
    refuses("expected the state of an enforcer", "genai check", "--config", path, "--state", state)
    refuses("the file cannot be read", "genai check", "--config", path, "--state", tmp_path / "none.json")
    state.write_text('{"leader: gender": {"counts": {"asked": 1, "obeyed": 2}}}')
    refuses("2 of 1 attempts", "genai check", "--config", path, "--state", state)
    state.write_text('{"other": {"counts": {"asked": 1, "obeyed": 1}}}')
    refuses("no specification 'other'", "genai check", "--config", path, "--state", state)
