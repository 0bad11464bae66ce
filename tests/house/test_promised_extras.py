"""Where every extra is promised, a test skipped for want of one fails; elsewhere it is skipped."""

import os
import re
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


def run_tests(folder, *options, **settings):
    """Run tests of a folder without what this run tells its own, which must not write where it notes them."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("EVENHAND", "PYTEST"))}
    environment = kept | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | settings
    command = [sys.executable, "-m", "pytest", *options, str(folder)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("promised", "outcome", "code"),
    [
        ("", ["4 skipped", "1 passed"], 0),
        ("onnx", ["4 skipped", "1 passed"], 0),
        ("all", ["1 failed", "1 skipped", "1 passed", "2 errors"], 1),
    ],
)
def test_promise(tmp_path, promised, outcome, code):
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_whole_module.py").write_text(MODULE)
    done = run_tests(tmp_path, "--continue-on-collection-errors", "-rfE", EVENHAND_EXTRAS=promised)
    last = done.stdout.strip().splitlines()[-1]
    assert all(part in last for part in outcome), done.stdout
    assert bool(done.returncode) == bool(code)
    if promised == "all":
        for reason in ("needs the extra onnx", "needs xgboost", "needs the extra keras"):
            assert reason in done.stdout


SOME = """
import pytest

def test_short():
    pass

@pytest.mark.full
def test_long():
    pass

def test_with_an_extra():
    pytest.importorskip("no_such_library", reason="needs the extra onnx")
"""

WHOLE = """
import os

assert "EVENHAND_NOT_AGAIN" not in os.environ, "read again, although all of it had passed"

def test_one():
    pass
"""


@pytest.mark.parametrize("processes", ["0", "2"])
def test_what_passed_is_not_run_again_and_everything_else_is(tmp_path, processes):
    pytest.importorskip("xdist", reason="needs pytest-xdist")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    full: long\n")
    (tmp_path / "test_some.py").write_text(SOME)
    (tmp_path / "test_whole.py").write_text(WHOLE)
    (tmp_path / "test_whole_module.py").write_text(MODULE)

    def run(*options, **settings):
        done = run_tests(tmp_path, "-p", "xdist", "-n", processes, "-v", *options, **settings)
        assert done.returncode == 0, done.stdout
        return set(re.findall(r"test_\w+\.py::\w+", done.stdout))

    passed = str(tmp_path / "passed.json")
    assert run("-m", "not full", EVENHAND_PASSED=passed) == {
        "test_some.py::test_short",
        "test_some.py::test_with_an_extra",
        "test_whole.py::test_one",
    }
    assert run(EVENHAND_NOT_AGAIN=passed) == {"test_some.py::test_long", "test_some.py::test_with_an_extra"}
