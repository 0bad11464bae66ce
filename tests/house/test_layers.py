"""Imports point one way, and statistical formulas have one home."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT

PACKAGE = ROOT / "src" / "evenhand"


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


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(PACKAGE.rglob("*.py")) if "stats" not in path.relative_to(PACKAGE).parts],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_statistical_formulas_live_in_stats_alone(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    assert not {name for name in imported if name.startswith(("scipy.stats", "scipy.special", "statsmodels"))}
