"""Starting must stay light: nothing heavy is imported before it is used."""

import ast
import json
import subprocess
import sys

import pytest
from sources import PATHS, name_of, tree_of

from support import ROOT

HEAVY = ("torch", "pandas", "sklearn", "numba", "altair", "scipy", "onnx", "h5py", "polars", "pyarrow", "fastapi")
MODULES = ("models.subject", "schema.schema", "datasets.catalogue", "stats.level", "view.terminal", "auditing.analysis")
ENGINES = ("numpy", "narwhals", "evenhand.stats", *(f"evenhand.{name}" for name in MODULES))
"""Libraries and modules that analyses need, and help does not. The packages of these modules import them lazily."""


def loaded_after(code, names=HEAVY):
    found = f"import json, sys; print('loaded:', json.dumps([name for name in {names!r} if name in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{found}"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.rpartition("loaded:")[2])


def test_importing_the_package():
    assert loaded_after("import evenhand") == []


def test_asking_the_command_for_help():
    # One process for all: if one of them loads anything, it is still there at the end.
    run = (
        "import sys\nfrom evenhand.cli.main import main\n"
        "for command in ('', 'audit', 'certify', 'search', 'subgroups', 'mitigate', 'serve'):\n"
        "    for asked in (['--help'], ['--version']) if not command else ([command, '--help'],):\n"
        "        sys.argv = ['evenhand', *asked]\n"
        "        try:\n            main()\n        except SystemExit as left:\n            assert not left.code, asked"
    )
    assert loaded_after(run, HEAVY + ENGINES) == []


def test_a_small_audit_of_decisions():
    run = (
        "import evenhand\n"
        "sex, hired = ['f', 'm'] * 100, [0, 1, 1, 1] * 50\n"
        "print(evenhand.audit_predictions(None, hired, sex))"
    )
    assert loaded_after(run, ("numba", "yaml", "asyncio", "sklearn", "torch")) == []


@pytest.mark.parametrize("function", ["render_page", "show_document"])
def test_a_page_brings_no_other_pages_engines(function):
    engines = tuple(f"evenhand.{name}" for name in ("genai", "shields", "mitigation", "certification", "service"))
    assert loaded_after(f"from evenhand.view import {function}", engines) == []


AT_ONCE = {"joblib", "lazy_loader", "narwhals", "numpy", "pydantic", "threadpoolctl", "typer", "yaml"}
COMPILED = {"llvmlite", "numba"}  # in modules of kernels, which are imported on use
SERVING = {"alembic", "fastapi", "prometheus_client", "sqlalchemy", "starlette", "uvicorn"}
IN_ONE_MODULE = {
    "fair_classifier.py": "sklearn",  # what a class is derived from
    "fair_threshold.py": "sklearn",
    "catboost_json.py": "catboost",  # run as a process of its own
    "mlflow_plugin.py": "mlflow",
    "pytest_plugin.py": "pytest",
}


def test_heavy_and_optional_libraries_are_imported_where_they_are_used():
    early = []
    for path in PATHS:
        # What the service stands on may be at the top of its own modules, which no other module imports.
        allowed = (
            AT_ONCE
            | COMPILED
            | {"evenhand", IN_ONE_MODULE.get(path.name)}
            | (SERVING if "service" in path.parts else set())
        )
        names = {name.split(".")[0] for name in _imported_at_once(tree_of(path))} - sys.stdlib_module_names
        early += [f"{name_of(path)} imports {name}" for name in names - allowed]
    assert early == []


def _imported_at_once(module):
    """What importing a module imports: everything outside functions and ``if TYPE_CHECKING``."""
    names = []
    waiting = [module]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.append(node.module or "")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
    return names
