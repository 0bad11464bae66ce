"""Imports point one way, and statistical formulas have one home."""

import subprocess
import sys
from pathlib import Path

from sources import PACKAGE, PATHS, libraries, name_of

from support import ROOT


def test_imports_point_one_way():
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_statistical_formulas_live_in_stats_alone():
    outside = [path for path in PATHS if "stats" not in path.relative_to(PACKAGE).parts]
    formulas = ("scipy.stats", "scipy.special", "statsmodels")
    found = [
        f"{name_of(path)} imports {name}" for path in outside for name in libraries(path) if name.startswith(formulas)
    ]
    assert found == []
