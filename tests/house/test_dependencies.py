"""What the package imports is what it says it needs."""

import re
import sys
import tomllib

from sources import PATHS, libraries

from support import ROOT

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
BROUGHT_ALONG = {"google": "onnx", "llvmlite": "numba"}
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
