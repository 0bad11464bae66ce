"""`evenhand genai check` and `evenhand genai simulate` as a user runs them."""

import pytest

from evenhand.genai import GenerationSimulationResult

SMALLEST = """\
{conditions: [{name: leader, share: 0.8}],
 specifications: [{condition: leader, group: age, values: [child, adult, elderly, other], repeated: [5, 6, 6, 9]}],
 simulation: {generator: {age: [0.05, 0.85, 0.05, 0.05]}, obeys: 0.95, unrecognised: 0.02, retries: 2, slack: 1}}
"""


@pytest.fixture
def config(tmp_path):
    def write(*changes, name="genai.yaml"):
        text = SMALLEST
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_a_configuration_that_can_be_kept(evenhand, config):
    ran = evenhand("genai", "check", "--config", config(), "--json", "-")
    assert (ran.code, ran.err) == (0, "")
    assert {"feasible", "verdict", "reason", "hint", "specifications"} <= ran.json.keys()
    assert ran.json["kind"] == "genai-check"
    assert ran.json["feasible"] is True
    (one,) = ran.json["specifications"]
    assert one["name"] == "leader: age"
    assert one["feasible"] is True


@pytest.mark.parametrize("deadlines", ["[3, 3, 3, 3]", "[2, 3, 100, 100]", "3"])
def test_one_that_cannot(evenhand, config, deadlines):
    ran = evenhand("genai", "check", "--config", config(("[5, 6, 6, 9]", deadlines)), "--json", "-")
    assert (ran.code, ran.err) == (1, "")
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
    ran = evenhand("genai", "check", "--config", path, "--json", "-")
    assert (ran.code, ran.err) == (3, "")
    assert (ran.json["verdict"], ran.json["feasible"]) == ("undecided", False)
    ran = evenhand("genai", "check", "--config", path)
    assert "Whether genai.yaml can be kept is not known" in ran.out
    assert "UNDECIDED" in ran.out
    assert "cannot be kept" not in ran.out
    assert "AT FAULT" not in ran.out


@pytest.mark.parametrize("policy", ["free", "published", "before", "after"])
def test_json_is_what_scripts_read(evenhand, config, policy):
    given = ("genai", "simulate", "--config", config(), "--requests", 3000, "--in-flight", 4, "--policy", policy)
    ran = evenhand(*given, "--json", "-")
    assert (ran.code, ran.err) == (0, "")
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
    assert (ran.code, ran.err) == (0, "")
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
        ([("[5, 6, 6, 9]", "[5, 6, 6]")], "expected 4 deadlines, one per value, got 3"),
        ([("[5, 6, 6, 9]", "[5, 6, 6, soon]")], "whole number of at least 1, got 'soon'"),
        ([("obeys: 0.95", "obeys: 1.95")], "got 1.95"),
        ([("0.85", "0.95")], "the probabilities add up to 1.1"),
        ([("obeys", "obey")], "there is no entry 'obey'"),
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
    assert evenhand("genai", "simulate", "--config", path, "--requests", 0).code == 2
