"""What benchmarks and tools import exists: they run too rarely to find out."""

import ast
import importlib
import importlib.util

import pytest
from test_release import OPTIONAL

from support import ROOT

SCRIPTS = sorted(path for folder in ("benchmarks", "tools") for path in (ROOT / folder).glob("*.py"))
OTHERS = {"aequitas", "decided", "divexplorer", "hatchling", "pysubgroup", "pyte"}
"""Libraries that some scripts compare with or run in, and a module of tests."""


def imported(script):
    """Each imported module, with the names taken from it."""
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


@pytest.mark.full
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_imports_exist(script, monkeypatch):
    for folder in ("tests/service", "tests", "", script.parent.name):
        monkeypatch.syspath_prepend(ROOT / folder)
    for module, names in imported(script):
        root = module.partition(".")[0]
        if root in OPTIONAL | OTHERS:
            continue
        if root not in ("evenhand", "reproductions"):
            spec = importlib.util.find_spec(root)  # a folder of tests has no origin
            assert getattr(spec, "origin", None), f"{script.name} imports {module}"
            continue
        found = importlib.import_module(module)
        for name in names:
            assert hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}"), f"{module}.{name}"
