"""CI begins with the commands that a newcomer runs, where a newcomer runs them."""

import json
import os
import subprocess
import sys

import pytest

from support import ROOT

# Stands for make: notes what it was asked for and what there is around it, and fails at what it is told to.
MAKE = """#!{python}
import json, os, pathlib, signal, sys

seen = {{
    "asked": sys.argv[1:],
    "home": os.listdir(os.environ["HOME"]),
    "beside": sorted(os.listdir("..")),
    "here": sorted(os.listdir(".")),
    "deaf": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    "environment": dict(os.environ),
}}
with open({notes!r}, "a") as notes:
    notes.write(json.dumps(seen) + "\\n")
sys.exit(sys.argv[1:] == {fails!r})
"""


@pytest.fixture
def fresh(tmp_path):
    """Run what CI runs first, with a stand-in for make; gives the exit code and what the stand-in noted."""
    if not (ROOT / ".git").exists():
        pytest.skip("only a clone can be cloned")

    def run(fails=None, **environment):
        folder, notes = tmp_path / "bin", tmp_path / "notes"
        folder.mkdir()
        (folder / "make").write_text(MAKE.format(python=sys.executable, notes=str(notes), fails=fails), "utf-8")
        (folder / "make").chmod(0o755)
        home = tmp_path / "home"
        (home / ".config" / "pip").mkdir(parents=True)
        (home / ".config" / "pip" / "pip.conf").touch()
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        # Where these tests run inside such a fresh clone, pip's settings have been named already.
        around = {
            name: value for name, value in os.environ.items() if name not in {"PIP_CONFIG_FILE", "XDG_CONFIG_HOME"}
        }
        done = subprocess.run(
            [ROOT / ".ci" / "fresh"],
            env=around | {"PATH": path, "HOME": str(home), "PYTHON": sys.executable} | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done, [json.loads(line) for line in notes.read_text("utf-8").splitlines()]

    return run


COMMANDS = ("make demo", "make test")


def test_the_first_commands_are_run_in_a_fresh_clone_with_nothing_else_at_hand(fresh, tmp_path):
    done, seen = fresh(EVENHAND_SHARED="somewhere", PYTEST_ADDOPTS="-x", PIP_TIMEOUT="60")
    assert done.returncode == 0, done.stderr
    assert [["make", *each["asked"]] for each in seen] == [command.split() for command in COMMANDS]
    for each in seen:
        assert each["home"] == []
        assert each["beside"] == ["evenhand", "home"]
        assert {"README.md", "src", "tests"} <= set(each["here"])
        assert not {".venv", ".hypothesis"} & set(each["here"])
        assert each["deaf"]
        assert not {"EVENHAND_SHARED", "PYTEST_ADDOPTS", "CI"} & set(each["environment"])
        assert each["environment"]["PIP_TIMEOUT"] == "60"
        assert each["environment"]["PIP_CONFIG_FILE"] == str(tmp_path / "home" / ".config" / "pip" / "pip.conf")


def test_what_fails_there_fails_in_ci(fresh):
    first, *_ = COMMANDS
    done, seen = fresh(fails=first.split()[1:])
    assert done.returncode == 1
    assert len(seen) == 1, "nothing is run after what failed"
