"""Starting must stay light: nothing heavy is imported before it is used."""

import ast
import json
import subprocess
import sys

import pytest

from support import ROOT

HEAVY = ("torch", "scipy.stats", "pandas", "sklearn", "numba", "altair", "scipy", "onnx", "h5py", "polars", "pyarrow",
         "fastapi", "sqlalchemy", "uvicorn")  # fmt: skip

LOADED = f"import json, sys; print('loaded:', json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"


def loaded_after(code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{LOADED}"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.rpartition("loaded:")[2])


def test_the_probe_sees_what_is_loaded():
    assert "pandas" in loaded_after("import pandas")


def test_importing_the_package():
    assert loaded_after("import evenhand") == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["audit", "--help"],
        ["certify", "--help"],
        ["mitigate", "--help"],
        ["serve", "--help"],
    ],
)
def test_asking_the_command_for_help(arguments):
    run = (
        f"import sys\nsys.argv = ['evenhand', *{arguments!r}]\n"
        "from evenhand.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as left:\n    assert not left.code, left.code"
    )
    assert loaded_after(run) == []


ON_USE = frozenset(
    {"PIL", "altair", "diffusers", "h5py", "keras", "lightgbm", "onnx", "onnxruntime", "pandas", "polars", "pyarrow",
     "scipy", "skl2onnx", "sklearn", "skops", "torch", "transformers", "vl_convert", "xgboost", "zstandard"}
)  # fmt: skip
BASES = {"fair_classifier.py": frozenset({"sklearn"})}
"""What a class is derived from has to be there when it is defined; nobody imports these modules before using them."""
SERVING = frozenset({"fastapi", "starlette", "uvicorn", "sqlalchemy", "prometheus_client"})


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_and_optional_libraries_are_imported_where_they_are_used(path):
    # What the service stands on may be at the top of its own modules, which nobody else imports.
    late = (ON_USE if "service" in path.parts else ON_USE | SERVING) - BASES.get(path.name, frozenset())
    early = [name for name in _imported_at_once(ast.parse(path.read_text("utf-8"))) if name.split(".")[0] in late]
    assert early == []


def _imported_at_once(module: ast.Module) -> list[str]:
    """What importing a module imports: everything outside functions and ``if TYPE_CHECKING``."""
    names = []
    waiting: list[ast.AST] = [module]
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
