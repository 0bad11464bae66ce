"""Rules that hold for every file of the project."""

import re
import tomllib

import pytest

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
