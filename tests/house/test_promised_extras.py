"""Where every extra is promised, a test skipped for want of one fails; elsewhere it is skipped."""

import os
import shutil
import subprocess
import sys

import pytest

from support import ROOT

TESTS = """
import pytest

def test_inside():
    pytest.importorskip("no_such_library", reason="needs the extra onnx")

@pytest.mark.skipif(True, reason="needs xgboost")
def test_marked():
    pass

def test_real_data():
    pytest.skip("real data not here: people.csv")

def test_fine():
    pass
"""

MODULE = """
import pytest

pytest.importorskip("no_such_library", reason="needs the extra keras")

def test_never_reached():
    pass
"""


@pytest.mark.parametrize(
    ("promised", "outcome", "code"),
    [("", ["4 skipped", "1 passed"], 0), ("onnx", ["4 skipped", "1 passed"], 0),
     ("all", ["1 failed", "1 skipped", "1 passed", "2 errors"], 1)],
)  # fmt: skip
def test_promise(tmp_path, promised, outcome, code):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_whole_module.py").write_text(MODULE)
    environment = os.environ | {
        "EVENHAND_EXTRAS": promised,
        "PYTEST_ADDOPTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--continue-on-collection-errors", "-rfE", str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.strip().splitlines()[-1]
    assert all(part in last for part in outcome), done.stdout
    assert bool(done.returncode) == bool(code)
    if promised == "all":
        for reason in ("needs the extra onnx", "needs xgboost", "needs the extra keras"):
            assert reason in done.stdout
