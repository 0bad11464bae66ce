"""Every engine is asked in one shape: what it is about, its settings, by name whatever else; a result comes back."""

import importlib
import inspect
import pkgutil

import pytest

import evenhand
from evenhand.core import Config, Result

ROOMS = ("auditing", "certification", "genai", "groups", "individual", "llm", "mitigation", "subgroups")


def exported():
    """Every name of the engines' doors."""
    for room in ROOMS:
        door = importlib.import_module(f"evenhand.{room}")
        packages = [each.name for each in pkgutil.walk_packages(door.__path__, f"{door.__name__}.") if each.ispkg]
        for package in (door, *map(importlib.import_module, packages)):
            for name in getattr(package, "__all__", ()):
                yield name, getattr(package, name)


NAMES = dict(exported())
CLASSES = {name: one for name, one in NAMES.items() if inspect.isclass(one)}
CONFIGS = {name for name, one in CLASSES.items() if issubclass(one, Config)}
RESULTS = {name for name, one in CLASSES.items() if issubclass(one, Result)} | {
    "AlternativeSearch",
    "Mitigation",
}  # a result, and models


def config_of(function):
    """Return which configuration a function takes, if it returns a result."""
    signature = inspect.signature(function)
    taken = [one for one in signature.parameters.values() if str(one.annotation).removesuffix(" | None") in CONFIGS]
    return taken[0] if taken and signature.return_annotation in RESULTS else None


ENGINES = {
    name: one for name, one in NAMES.items() if inspect.isfunction(one) and not name.startswith("_") and config_of(one)
}


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_is_asked_in_one_shape(name):
    parameters = list(inspect.signature(ENGINES[name]).parameters.values())
    given = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    named = {one.name: one for one in parameters if one.kind is one.KEYWORD_ONLY}
    *about, config = given
    assert about, "it is about something"
    assert all(one.default is one.empty for one in about), "what it is about is not left out"
    assert config.name == "config", "settings come last of what may be given by position"
    assert config.default is None, "all settings have defaults, or are given by name"
    assert config.annotation.endswith("Config | None")
    if "progress" in named:
        assert named["progress"].annotation == "Progress | None"
    assert parameters[-1].kind is parameters[-1].VAR_KEYWORD
    assert parameters[-1].name == "settings", "single settings may be given by name"


@pytest.mark.parametrize("name", ENGINES)
def test_a_setting_that_there_is_not_is_refused_before_anything_is_asked(name):
    config = config_of(ENGINES[name])
    known = CLASSES[config.annotation.removesuffix(" | None")]
    parameters = inspect.signature(ENGINES[name]).parameters.values()
    needed = [one for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
    about = [None for one in needed if one.kind is one.POSITIONAL_OR_KEYWORD]
    more = {one.name: None for one in needed if one.kind is one.KEYWORD_ONLY}
    more |= {field: ("sex",) for field, one in known.model_fields.items() if one.is_required()}
    with pytest.raises(evenhand.EvenhandError, match="there is no entry 'sead'"):
        ENGINES[name](*about, **more, sead=1)
