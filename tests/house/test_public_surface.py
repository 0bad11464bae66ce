"""The public surface is what the reference lists: every name of every door, each once, described as it is today."""

import importlib
import importlib.util
import re

import pytest

import evenhand
from evenhand import verbs
from support import ROOT

FOLDER = ROOT / "docs" / "reference" / "python"
PAGES = {page.stem: page for page in sorted(FOLDER.glob("*.md"))}
INDEX = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")


def lister():
    spec = importlib.util.spec_from_file_location("list_public_names", ROOT / "tools" / "list_public_names.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LISTER = lister()


@pytest.mark.parametrize("package", PAGES)
def test_a_page_lists_what_its_package_exports(package):
    if package == "evenhand.service":
        pytest.importorskip("fastapi", reason="needs the extra serve")
    text = PAGES[package].read_text("utf-8")
    assert text == LISTER.listed(text, package), "run: python tools/list_public_names.py"
    block = text.partition(LISTER.BEGIN)[2].partition(LISTER.END)[0]
    table = block.partition("\n:::")[0]  # below it stand the settings of configurations
    listed = re.findall(r"^\| \[?`(\w+)`", table, re.M)
    module = importlib.import_module(package)
    assert listed == getattr(module, "__all__", LISTER.public_names(package))
    assert [name for name in listed if not hasattr(module, name)] == []
    whole = re.findall(r"^::: (\S+)$", block, re.M)
    assert set(whole) == {f"{package}.{name}" for name in re.findall(r"^\| \[`(\w+)`\]", table, re.M)}


def test_the_package_consists_of_verbs_and_parts_that_have_a_page():
    parts = {name for name in evenhand.__all__ if f"evenhand.{name}" in PAGES}
    shown = {name for name in evenhand.__all__ if getattr(evenhand.schema, name, None) is not None}
    assert set(evenhand.__all__) == parts | shown | set(verbs.__all__) | {"EvenhandError", "__version__"}


def test_the_reference_leads_to_every_page():
    assert set(re.findall(r"\(python/(evenhand[\w.]*)\.md\)", INDEX)) == set(PAGES)
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert set(re.findall(r"reference/python/(evenhand[\w.]*)\.md", menu)) == set(PAGES)
    assert "::: evenhand.verbs" in INDEX


def test_every_public_name_is_described():
    undescribed = [
        f"{package}.{name}" for package, page in PAGES.items()
        for name in re.findall(r"^\| \[?`(\w+)`\]?(?:\[[\w.]+\])? \| +\|$", page.read_text("utf-8"), re.M)
    ]  # fmt: skip
    assert undescribed == []
