"""The plain install: with no optional library at hand, everything imports and an audit writes its report."""

import re
import subprocess
import sys
import tomllib

import pytest

from support import ROOT

WITHOUT = """
import importlib.abc, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {optional!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
DECLARED = {re.match(r"[\w-]+", one).group() for extra, some in EXTRAS.items() if extra != "docs" for one in some}
OPTIONAL = {name.replace("-", "_") for name in DECLARED - {"evenhand"}} | {"PIL", "docx", "mlflow", "opentelemetry"}
OPTIONAL |= {"keras", "lightgbm", "matplotlib", "skl2onnx", "xgboost"}
"""Modules of optional libraries."""


def run(code, cwd):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(optional=OPTIONAL) + code],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.full
def test_an_audit_writes_its_report(tmp_path):
    done = run(
        "from evenhand.cli.main import main\n"
        "sys.argv = ['evenhand', 'audit', '--example', 'german', '--time-limit', '1', '--out', 'report']\n"
        "main()\n",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report" / "report.html").stat().st_size > 10_000
    assert (tmp_path / "report" / "report.json").stat().st_size > 1_000


def test_a_format_that_needs_an_extra_names_it(tmp_path):
    extras = {".onnx": "onnx", ".h5": "keras", ".keras": "keras", ".skops": "skops", ".cbm": "catboost"}
    for ending in extras:
        (tmp_path / f"model{ending}").write_bytes(b"CBM1 any content")
    done = run(
        "from evenhand.cli.main import main\n"
        f"for ending in {list(extras)}:\n"
        "    sys.argv = ['evenhand', 'audit', f'model{ending}', 'german', '--out', 'report']\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as end:\n"
        "        print('exit code', end.code, file=sys.stderr)\n",
        tmp_path,
    )
    messages = done.stderr.split("exit code 2")
    for extra, message in zip(extras.values(), messages, strict=False):
        assert f"'.[{extra}]'" in message
    assert len(messages) == len(extras) + 1
    assert not (tmp_path / "report").exists()


def test_serving_names_its_extra(tmp_path):
    done = run(
        "from evenhand.cli.main import main\nsys.argv = ['evenhand', 'serve', '--port', '0']\nmain()\n", tmp_path
    )
    assert done.returncode == 2, done.stderr
    assert "'.[serve]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
