"""``python -m evenhand`` is the command."""

import subprocess
import sys

import pytest

import evenhand


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [(["--version"], 0, f"evenhand {evenhand.__version__}"), (["schema", "absent.csv"], 2, "absent.csv")],
)
def test_the_package_runs_as_the_command(tmp_path, words, code, expected):
    done = subprocess.run(
        [sys.executable, "-m", "evenhand", *words], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == code, done.stderr
    assert expected in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
