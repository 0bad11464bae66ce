"""No version with a known fault may be installed; see tools/known-faults.toml for what is known."""

import re
import tomllib
from importlib.metadata import distributions

import pytest

from support import ROOT

KNOWN = tomllib.loads((ROOT / "tools" / "known-faults.toml").read_text("utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def version(text):
    """Its numbers; what stands behind them, such as a local version, is of no account."""
    return tuple(map(int, re.match(r"[0-9]+(?:\.[0-9]+)*", text).group().split(".")))


def before(one, other):
    """Whether a version is older, whatever number of parts they have."""
    length = max(len(one), len(other))
    return one + (0,) * (length - len(one)) < other + (0,) * (length - len(other))


def name_of(text):
    return re.sub(r"[-_.]+", "-", text).lower()


def requirements():
    """Name and lower bound of everything that Evenhand or an extra of it needs."""
    every = [*PROJECT["dependencies"], *(one for some in PROJECT["optional-dependencies"].values() for one in some)]
    for one in every:
        name = name_of(re.match(r"[A-Za-z0-9_.-]+", one).group())
        if name != "evenhand":
            bound = re.search(r">=\s*([0-9.]+)", one)
            yield name, None if bound is None else bound.group(1)


INSTALLED = {name_of(one.metadata["Name"]): one.version for one in distributions() if one.metadata["Name"]}


@pytest.mark.parametrize(("name", "bound"), sorted(set(requirements()), key=str))
def test_nothing_older_may_be_installed(name, bound):
    assert bound is not None, f"{name} has no lower bound"
    for fixed, what in KNOWN.get(name, {}).items():
        assert not before(version(bound), version(fixed)), f"{name} {bound} may be installed: {what}"


@pytest.mark.parametrize("name", KNOWN)
def test_nothing_older_is_installed(name):
    if name not in INSTALLED:
        pytest.skip(f"{name} is not installed")
    for fixed, what in KNOWN[name].items():
        assert not before(version(INSTALLED[name]), version(fixed)), f"{name} {INSTALLED[name]}: {what}"


def test_versions_are_compared_as_numbers():
    assert before(version("2.9"), version("2.10"))
    assert not before(version("2.6.0+cpu"), version("2.6"))
    assert not before(version("2.6"), version("2.6.0"))
    assert before(version("1.16"), version("1.16.1"))


def test_the_list_can_be_read():
    for name, faults in KNOWN.items():
        assert name == name_of(name)
        assert faults
        for fixed, what in faults.items():
            assert version(fixed)
            assert len(what) > 10
