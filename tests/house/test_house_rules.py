"""Rules of the source tree: layers, exports, dependencies, imports, names of parameters."""

import ast
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from sources import PACKAGE, PATHS, imported_by, libraries, name_of, nodes_of, tree_of

import evenhand
from support import ROOT

TEXT = {".py", ".md", ".toml", ".yml", ".yaml", ".html", ".css", ".js", ".j2", ".txt", ".json", ".svg", ""}
PLACES = ("src", "docs", "examples", "Makefile", *(path.name for path in ROOT.glob("[!.]*.*") if path.suffix in TEXT))


def texts():
    for place in PLACES:
        path = ROOT / place
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        for file in files:
            if file.is_file() and file.suffix in TEXT and "__pycache__" not in file.parts:
                yield file


FILES = list(texts())


def names(path):
    return str(path.relative_to(ROOT))


# Written in pieces, so that a search for them does not find this file.
FORBIDDEN = {
    "a folder beside the checkout": r"\.\./" + "shared",
    "a path of one machine": r"(?<![\w.])/(?:work|root|home(?!/you/)|farm)/\w",
    "a package registry": "pypi" + r"\.org|python" + r"hosted\.org|--(?:extra-)?" + "index-url",
    "something unfinished": r"\b(?:TO" + "DO|FIX" + r"ME|XXX)\b|raise Not" + "ImplementedError",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_mentions(what):
    found = [
        f"{names(path)}:{number}: {line.strip()[:100]}"
        for path in FILES
        if re.search(FORBIDDEN[what], path.read_text("utf-8"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if re.search(FORBIDDEN[what], line)
    ]
    assert found == []


def test_every_optional_part_is_in_all():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(re.fullmatch(r"evenhand\[(.+)\]", everything).group(1).split(","))
    # Spark is half a gigabyte, and needs Java.
    assert named == set(extras) - {"all", "docs", "spark"}


def test_folders_of_tests_are_named_after_packages():
    packages = {path.name for path in (ROOT / "src" / "evenhand").iterdir() if path.is_dir()}
    folders = {path.parent.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("*/test_*.py")}
    assert folders <= packages | {"house", "reproductions"}


def test_numbers_of_examples_follow_the_profile():
    """Tests that say how many examples to try say so through ``scaled``, so that the short run tries fewer."""
    found = [
        f"{names(path)}:{number}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if re.search(r"max_examples\"?\s*[=:]\s*[0-9]", line)
    ]
    assert found == []


DOORS = {name_of(path) for path in PATHS if path.name == "__init__.py"}


@cache
def imports():
    """The imports of every module by its dotted name."""
    return {
        name_of(path): [
            (str(node.module), alias.name)
            for node in imported_by(path)
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "evenhand"
            for alias in node.names
        ]
        for path in PATHS
    }


def needed(module, name, found, seen=0):
    """The module that an import reaches, through the doors that hand the name on."""
    if f"{module}.{name}" in found:
        return f"{module}.{name}"
    for source, given in found[module] if module in DOORS and seen < 5 else ():
        if given == name and source != module:
            return needed(source, name, found, seen + 1)
    return module


def graph(found):
    return {
        name: {target for pair in pairs if (target := needed(*pair, found)) != name and target not in DOORS}
        for name, pairs in found.items()
        if name not in DOORS
    }


def test_no_module_needs_itself():
    try:
        TopologicalSorter(graph(imports())).prepare()
    except CycleError as error:
        pytest.fail(f"an import cycle: {' -> '.join(error.args[1])}")


def test_a_public_class_name_is_used_once():
    names = Counter(
        node.name
        for path in PATHS
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, many in names.items() if many > 1] == []


def test_one_module_opens_connections():
    clients = {"urllib3", "urllib.request", "http.client", "requests", "httpx", "aiohttp"}
    found = {
        name_of(path)
        for path in PATHS
        for library in libraries(path)
        if library in clients or library.split(".")[0] in clients
    }
    assert found == {"evenhand.core.http"}


def test_imports_point_one_way():
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_statistical_formulas_live_in_stats_alone():
    outside = [path for path in PATHS if "stats" not in path.relative_to(PACKAGE).parts]
    formulas = ("scipy.stats", "scipy.special", "statsmodels")
    found = [
        f"{name_of(path)} imports {name}" for path in outside for name in libraries(path) if name.startswith(formulas)
    ]
    assert found == []


PACKAGES = ["evenhand", *(found.name for found in pkgutil.walk_packages(evenhand.__path__, "evenhand.") if found.ispkg)]


@pytest.mark.parametrize("name", PACKAGES)
def test_exports(name):
    if name.startswith("evenhand.service"):
        pytest.importorskip("fastapi", reason="needs the extra serve")
    package = importlib.import_module(name)
    public = getattr(package, "__all__", None)
    if public is None:
        shown = [key for key, value in vars(package).items() if _meant_to_be_seen(key, value)]
        assert shown == [], f"{name} shows names and has no __all__"
        return
    assert len(set(public)) == len(public)
    absent = [key for key in public if not hasattr(package, key)]
    assert absent == []
    forgotten = [key for key, value in vars(package).items() if _meant_to_be_seen(key, value) and key not in public]
    assert forgotten == []


def _meant_to_be_seen(key, value):
    """Classes and functions of ours under a plain name; modules are seen by their path anyway."""
    ours = (getattr(value, "__module__", None) or "").startswith("evenhand")
    return not key.startswith("_") and not inspect.ismodule(value) and ours


def test_every_part_is_within_reach_of_the_package():
    parts = {found.name for found in pkgutil.iter_modules(evenhand.__path__)}
    inner = {"__main__", "api", "cli", "core"}
    inner |= {"mlflow_plugin", "pytest_plugin"}  # which MLflow and pytest alone import
    assert parts - inner <= set(evenhand.__all__)
    assert set(dir(evenhand)) == set(evenhand.__all__)
    assert evenhand.__version__


def test_an_absent_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"evenhand.*fairness"):
        _ = evenhand.fairness


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

# Where a library is imported under another name than it is installed under.
INSTALLED_AS = {
    "sklearn": "scikit-learn",
    "lazy_loader": "lazy-loader",
    "yaml": "pyyaml",
    "vl_convert": "vl-convert-python",
    "PIL": "pillow",
    "prometheus_client": "prometheus-client",
    "docx": "python-docx",
    "mlflow": "mlflow-skinny",
    "opentelemetry": "opentelemetry-sdk",
}
# Part of what another one itself needs.
BROUGHT_ALONG = {"google": "onnx", "llvmlite": "numba", "pydantic_core": "pydantic"}
# Only to train again a model that was made with it: whoever has the model has the library, and the message says so.
BROUGHT_BY_THE_MODEL = {"xgboost", "lightgbm"}
# Imports the module that is its plug-in, and nothing else does.
HOST = {"pytest"}


def distribution(requirement):
    return re.match(r"[A-Za-z0-9_.-]+", requirement).group().lower()


def imported():
    """Library -> the modules that import it, wherever in them."""
    found = {}
    for path in PATHS:
        for root in {name.split(".")[0] for name in libraries(path)} - sys.stdlib_module_names - {"evenhand"}:
            found.setdefault(BROUGHT_ALONG.get(root) or INSTALLED_AS.get(root, root), set()).add(path.name)
    return found


def test_what_is_imported_is_declared_and_what_is_required_is_imported():
    extras = [requirement for some in PROJECT["optional-dependencies"].values() for requirement in some]
    declared = {distribution(requirement) for requirement in (*PROJECT["dependencies"], *extras)}
    found = imported()
    undeclared = {name: found[name] for name in found.keys() - declared - BROUGHT_BY_THE_MODEL - HOST}
    assert undeclared == {}
    unused = {distribution(requirement) for requirement in PROJECT["dependencies"]} - set(found)
    assert unused == set()


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


AT_ONCE = {"joblib", "lazy_loader", "narwhals", "numpy", "pydantic", "pydantic_core", "threadpoolctl", "typer", "yaml"}
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
        own = {"evenhand", IN_ONE_MODULE.get(path.name)}
        allowed = AT_ONCE | COMPILED | own | (SERVING if "service" in path.parts else set())
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


def texts_of(path):
    """Every text of a module that is no docstring, with its line."""
    nodes, prose = nodes_of(path), set()
    for node in nodes:
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else []:
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                prose.add(id(one.value))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


OPTION = re.compile(r"(?<![\w-])--[a-z]")
DOCUMENTS = re.compile(r"(\w+_)?wording\.py|result\.py|generate\.py|save\.py|page_template\.py|screen\.py")
"""Modules whose texts are documents: they offer a next step by its command."""


def test_errors_of_the_library_name_parameters():
    """A Python caller is not told of ``--options``: errors name the parameter, and the command line its option."""
    doors = {"cli", "service"}  # which nothing but a command starts
    paths = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in doors]
    assert [
        f"{path.relative_to(ROOT)}:{number}: {text!r}"
        for path in paths
        if not DOCUMENTS.fullmatch(path.name)
        for number, text in texts_of(path)
        if OPTION.search(text)
    ] == []
