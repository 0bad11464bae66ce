"""`evenhand genai check`, `simulate`, `confusion` and `generate`, with the studio and no network."""

import csv
import io
import json

import pytest

from evenhand.genai import Enforcer, GenerationConfig, GenerationSimulationResult
from evenhand.genai.classifiers.confusion import ConfusionResult

SMALLEST = """\
{conditions: [{name: leader, share: 0.8}],
 specifications: [{condition: leader, group: age, values: [child, adult, elderly, other], repeated: [5, 6, 6, 9]}],
 simulation: {generator: {age: [0.05, 0.85, 0.05, 0.05]}, obeys: 0.95, unrecognised: 0.02, retries: 2, slack: 1}}
"""

LABELLED = """\
conditions: [{name: leader}]
specifications: [{condition: leader, group: gender, values: [female, male], repeated: 6}]
simulation: {obeys: 0.9, retries: 1, slack: 1}
"""

STUDIO = """
conditions: [{name: leader, keywords: [leader]}]
specifications:
  - {condition: leader, group: age, values: [child, adult, elderly], repeated: 5}
generator: {kind: studio, bias: {age: {adult: 1}}}
classifier: {kind: studio}
"""


@pytest.fixture
def config(tmp_path):
    """Write a configuration, with replacements or further entries, and return its path."""

    def write(*changes, text=SMALLEST, more=""):
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "genai.yaml").write_text(text + more)
        return tmp_path / "genai.yaml"

    return write


@pytest.fixture
def studio(config):
    return config(text=STUDIO)


@pytest.fixture
def sample(tmp_path):
    def write(wrong=0, name="sample.csv"):
        rows = (
            ["female,female"] * (300 - wrong) + ["male,female"] * wrong + ["male,male"] * 300 + ["none,none", ",male"]
        )
        (tmp_path / name).write_text("\n".join(["truth,answer", *rows]) + "\n")
        return tmp_path / name

    return write


def test_a_configuration_that_can_be_kept(evenhand, config):
    ran = evenhand("genai", "check", "--config", config(), "--json", "-")
    assert ran.err == ""
    assert {"feasible", "verdict", "reason", "hint", "specifications"} <= ran.json.keys()
    assert ran.json["kind"] == "genai-check"
    assert ran.json["feasible"] is True
    (one,) = ran.json["specifications"]
    assert one["name"] == "leader: age"
    assert one["feasible"] is True


@pytest.mark.parametrize("deadlines", ["[3, 3, 3, 3]", "[2, 3, 100, 100]", "3"])
def test_one_that_cannot(evenhand, config, deadlines):
    ran = evenhand("genai", "check", "--config", config(("[5, 6, 6, 9]", deadlines)), "--json", "-", code=1)
    assert ran.err == ""
    assert ran.json["feasible"] is False
    assert "child" in ran.json["reason"]
    assert [one["feasible"] for one in ran.json["specifications"]] == [False]


def test_one_of_which_it_is_not_known(evenhand, tmp_path):
    path = tmp_path / "genai.yaml"
    path.write_text(
        "conditions: [{name: leader}, {name: poor}]\ngroups: {age: [a, b, c, d, e]}\nspecifications:\n"
        "  - {condition: leader, group: age, repeated: [3, 9, 20, 30, 50]}\n"
        "  - {condition: poor, group: age, repeated: [4, 7, 20, 40, 50]}\n"
    )
    ran = evenhand("genai", "check", "--config", path, "--json", "-", code=3)
    assert ran.err == ""
    assert (ran.json["verdict"], ran.json["feasible"]) == ("undecided", False)
    ran = evenhand("genai", "check", "--config", path, code=3)
    assert "Whether genai.yaml can be kept is not known" in ran.out
    assert "UNDECIDED" in ran.out
    assert "cannot be kept" not in ran.out
    assert "AT FAULT" not in ran.out


@pytest.mark.parametrize("policy", ["free", "published", "before", "after"])
def test_json_is_what_scripts_read(evenhand, config, policy):
    given = ("genai", "simulate", "--config", config(), "--requests", 3000, "--in-flight", 4, "--policy", policy)
    ran = evenhand(*given, "--json", "-")
    assert ran.err == ""
    found = ran.json
    (outcome,) = found["policies"]
    assert (found["kind"], found["in_flight"]) == ("genai-simulation", 4)
    assert (outcome["policy"], outcome["requests"]) == (policy, 3000)
    assert set(outcome["longest_gap"]) == {"child", "adult", "elderly", "other"}
    assert (outcome["interventions"] == 0) == (policy == "free")
    assert outcome["generator_calls"] >= 3000
    if policy in ("free", "published"):
        assert outcome["violations"] > 10
    assert GenerationSimulationResult.from_json(ran.out).policies[0].requests == 3000
    again = evenhand(*given, "--json", "-").json
    assert again | {"seconds": 0} == found | {"seconds": 0}


def test_all_policies_with_a_page(evenhand, config, tmp_path):
    page, file = tmp_path / "page.html", tmp_path / "out.json"
    ran = evenhand(
        "genai", "simulate", "--config", config(), "--requests", 800, "--seed", 3, "--html", page, "--json", file
    )
    assert ran.err == ""
    for said in ("800 requests, 1 in flight at once", "published", "longest gap", str(page)):
        assert said in ran.out
    found = GenerationSimulationResult.from_json(file.read_text())
    assert [one.policy for one in found.policies] == ["free", "published", "before", "after"]
    text = page.read_text()
    assert "<h1>Simulated generator: genai.yaml</h1>" in text
    assert text.count("<svg") >= 4
    assert f"{found.policies[0].violations:,}" in text


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ([("condition: leader", "condition: lender")], "there is no condition 'lender'"),
        ([("conditions: [", "conditions: ")], "invalid YAML"),
    ],
)
@pytest.mark.parametrize("command", ["check", "simulate"])
def test_bad_configurations_are_refused(refuses, config, command, changes, complaint):
    refuses(["genai.yaml", complaint], "genai", command, "--config", config(*changes), "--json", "-")


def test_other_bad_input_is_refused(evenhand, refuses, config, tmp_path):
    refuses("the configuration cannot be read", "genai check", "--config", tmp_path / "none.yaml")
    path = config()
    refuses("there is no policy 'always'", "genai simulate", "--config", path, "--policy", "always")
    refuses("--html", "genai simulate", "--config", path, "--html", tmp_path / "no" / "page.html")
    refuses("--json", "genai check", "--config", path, "--json", tmp_path / "no" / "page.json")
    bare = config((SMALLEST[SMALLEST.index(",\n simulation") :], "}"))
    refuses("the probabilities of the values of 'age' are missing", "genai simulate", "--config", bare)
    evenhand("genai", "simulate", "--config", path, "--requests", 0, code=2)


def test_a_sample_is_counted(evenhand, sample):
    command = ("genai", "confusion", sample(wrong=30), "--true", "truth", "--said", "answer")
    ran = evenhand(*command, "--repeated", "6,9", "--json", "-")
    assert ran.err == ""
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
    refuses("--condition-column", *command, "--condition-column", "truth")
    ran = evenhand(*command, "--condition-column", "truth=x", code=2)
    assert ran.err.count("truth: ") == 1  # the column of the true values is named once
    refuses("--tolerated: expected a number", *command, "--tolerated", "1")
    refuses("--confidence: expected a number between 0 and 1", *command, "--confidence", "1")
    refuses("--json", *command, "--json", tmp_path / "no" / "x.json")
    refuses("none.csv", "genai confusion", tmp_path / "none.csv")


def test_a_sample_that_is_no_sample_is_refused(refuses, config, tmp_path):
    path = config(text=LABELLED, more="samples: {gender: sample.csv}\n")
    refuses("sample.csv", "genai check", "--config", path)
    (tmp_path / "sample.csv").write_text("true,said\nwoman,female\n")
    refuses("'woman' is not a value", "genai check", "--config", path)


def test_a_check_counts_on_what_an_enforcer_saw(evenhand, refuses, config, tmp_path):
    path = config(text=LABELLED)
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


def test_what_is_made_is_assessed_as_it_is(evenhand, studio, tmp_path):
    out = tmp_path / "out"
    ran = evenhand(f"genai generate --config {studio} --requests 25 --out {out} --json -", "--prompt", "a leader")
    assert ran.err == ""
    assert ran.json["kind"] == "genai-generated"
    assert ran.json["statuses"] == {"ok": 25, "violation": 0, "unguarded": 0, "refused": 0}
    assert 0 < ran.json["changed"] < 25
    ran = evenhand("genai", "assess", out / "requests.csv", "--config", studio, "--json", "-")
    assert [one["verdict"] for one in ran.json["sequences"][0]["verdicts"]] == ["holds"]
    assert ran.json["sequences"][0]["items"] == 25
    ran = evenhand("genai", "check", "--config", studio, "--state", out / "state.json", "--json", "-")
    assert ran.json["success"]["rate"]["leader: age"]["n"] > 0
    ran = evenhand(
        f"genai assess {out / 'requests.csv'} --condition-column conditions=leader --group-column age "
        f"--repeated 5 --image-column file --html {out / 'page.html'}"
    )
    assert "violated" not in ran.out
    assert "<img" in (out / "page.html").read_text("utf-8")


def test_a_prompt_ends_at_a_line_feed_alone(evenhand, studio, tmp_path):
    (tmp_path / "prompts.txt").write_text("\ufeffa leader\u2028of men\r\nan\x85apple\r\n", "utf-8", newline="")
    command = ("genai", "generate", "--config", studio, "--out", tmp_path / "out", "--json", "-")
    assert evenhand(*command, "--prompts", tmp_path / "prompts.txt").json["requests"] == 2
    with (tmp_path / "out" / "requests.csv").open(encoding="utf-8", newline="") as file:
        assert [row["prompt"] for row in csv.DictReader(file)] == ["a leader\u2028of men", "an\x85apple"]


def test_prompts_from_a_file_or_standard_input_are_gone_through_again(evenhand, studio, tmp_path, monkeypatch):
    (tmp_path / "prompts.txt").write_text("a leader\n\n  an apple \n", "utf-8")
    out = tmp_path / "out"
    command = ("genai", "generate", "--config", studio, "--out", out, "--json", "-")
    assert evenhand(*command, "--prompts", tmp_path / "prompts.txt").json["requests"] == 2
    monkeypatch.setattr("sys.stdin", io.StringIO("another leader\n"))
    assert evenhand(*command, "--prompts", "-").json["rows"] == 3
    assert evenhand(*command, "--prompts", tmp_path / "prompts.txt", "--requests", 3).json["rows"] == 6
    lines = (out / "requests.csv").read_text("utf-8").splitlines()
    prompts = ["a leader", "an apple", "another leader"]
    assert [line.split(",")[1] for line in lines[1:]] == [*prompts, *prompts[:2], "a leader"]


def test_the_same_command_adds_nothing_unasked_and_violations_have_an_exit_code(evenhand, config, tmp_path):
    stubborn = ("bias: {age: {adult: 1}}", "bias: {age: {adult: 1}}, obeys: 0")
    path = config(stubborn, text=STUDIO, more="simulation: {retries: 0}\n")
    command = ("genai generate --requests 9", "--config", path, "--prompt", "a leader", "--out", tmp_path / "out")
    ran = evenhand(*command)
    # The reasons stand on lines of their own, apart from what announces them.
    assert [line.strip() for line in ran.out.splitlines() if "because" in line] == ["Not ok because:"]
    ran = evenhand(*command, "--fail-on", "violation", "--fail-on", "missed", "--fail-on", "refused", code=1)
    assert "9 of 9" in ran.out or "All of them were answered before" in ran.out
    assert ran.err.splitlines() == ["--fail-on: this holds: violation", "--fail-on: this holds: missed"]
    evenhand(*command, "--fail-on", "refused")
    ran = evenhand(*command, "--again", "--json", "-", "--in-flight", 2)
    assert (ran.json["answered"], ran.json["rows"]) == (9, 18)
    ran = evenhand(*command, "--fail-on", "sorrow", code=2)
    assert "there is no condition 'sorrow'" in ran.err


def test_an_interrupted_run_says_so_and_is_finished(evenhand, studio, tmp_path, monkeypatch):
    from evenhand.genai.backends.studio import Studio

    draw, drawn = Studio.generate, []

    def stops(self, prompt):
        drawn.append(prompt)
        if len(drawn) == 4:
            raise KeyboardInterrupt
        return draw(self, prompt)

    monkeypatch.setattr(Studio, "generate", stops)
    command = ("genai", "generate", "--config", studio, "--prompt", "a leader", "--requests", 6, "--out", tmp_path)
    ran = evenhand(*command, code=130)
    assert "Interrupted with 3 left" in ran.out
    ran = evenhand(*command)
    assert "3 of 6 were answered before" in ran.out
    assert json.loads((tmp_path / "state.json").read_text("utf-8"))["rows"] == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "expected --prompts or --prompt, got none"),
        (["--prompt", "  "], "--prompt: there is no prompt"),
        (["--prompts", "nowhere.txt"], "nowhere.txt cannot be read"),
    ],
)
def test_bad_prompts_are_one_message(refuses, studio, tmp_path, options, message):
    refuses(message, "genai generate", "--config", studio, "--out", tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_functions_need_trust_and_an_out_folder_is_none_that_is_a_file(refuses, config, tmp_path):
    path = config(("classifier: {kind: studio}", "classifier: {kind: function, function: a:b}"), text=STUDIO)
    command = ("genai generate --prompt leader --config", path, "--out")
    refuses(["would be executed", "--trust"], *command, tmp_path / "out")
    refuses("is a file, not a folder", *command, path)
