"""The GitHub action and the pre-commit hook: what they run is the command, with the arguments that were given."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from support import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS = {step.get("name", step.get("uses")): step for step in ACTION["runs"]["steps"]}


@pytest.fixture
def run_audit_step(tmp_path):
    """Run the step's script with a command that writes down its arguments, and return these and the step's outputs."""
    command = tmp_path / "bin" / "evenhand"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nimport json, sys\njson.dump(sys.argv[1:], open('given.json', 'w'))\n")
    command.chmod(0o755)

    def run(arguments, conditions=""):
        output = tmp_path / "output"
        output.write_text("")
        environment = os.environ | {
            "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
            "ARGUMENTS": arguments,
            "CONDITIONS": conditions,
            "OUT": "out dir",
            "GITHUB_OUTPUT": str(output),
        }
        script = STEPS["Audit"]["run"]
        subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=True, timeout=60)
        return json.loads((tmp_path / "given.json").read_text()), output.read_text()

    return run


def test_the_action_passes_arguments_and_conditions_as_they_are(run_audit_step, tmp_path):
    given, output = run_audit_step(
        "model.skops 'my people.csv' --protected sex",
        "flip_rate.high > 0.01\n\n  \naccuracy < 0.8; touch $(echo bad)\n",
    )
    assert given[:5] == ["audit", "model.skops", "my people.csv", "--protected", "sex"]
    assert given[5:9] == ["--fail-on", "flip_rate.high > 0.01", "--fail-on", "accuracy < 0.8; touch $(echo bad)"]
    assert given[-5:] == ["--out", "out dir", "--quiet", "--gate-report", "github"]
    assert given.count("--gate-report") == 3
    assert output == "sarif=out dir/evenhand.sarif\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "given.json", "out dir", "output"]


def test_the_action_asks_for_no_files_about_conditions_without_any(run_audit_step):
    given, output = run_audit_step("--example german")
    assert given == ["audit", "--example", "german", "--out", "out dir", "--quiet", "--gate-report", "github"]
    assert output == ""


def test_every_input_is_used_and_reaches_scripts_as_a_variable():
    text = (ROOT / "action.yml").read_text("utf-8")
    assert all(f"inputs.{name}" in text for name in ACTION["inputs"])
    assert all("${{" not in step.get("run", "") for step in STEPS.values())


def test_the_hook_runs_a_command_that_exists():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    words = hook["entry"].split()
    assert words[:2] == ["evenhand", "audit"]
    run = subprocess.run(
        [sys.executable, "-c", "from evenhand.cli.main import app; app()", *words[1:], "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert all(option in run.stdout for option in words[2:])
