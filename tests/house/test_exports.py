"""What a package exports is what it means to export."""

import importlib
import inspect
import pkgutil

import pytest

import evenhand

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
