"""Pages of reproduced papers say what their JSON says, and the menu and the index lead to them."""

import importlib.util

import pytest

from support import ROOT

FOLDER = ROOT / "docs" / "reproductions"
BY_HAND = {"mitigation-tables.md", "shields-settings.md"}


@pytest.fixture(scope="module")
def written():
    spec = importlib.util.spec_from_file_location("write_reproductions", ROOT / "tools" / "write_reproductions.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    return writer.write_files()


def test_pages_are_written_from_their_json(written):
    pages = {path: text for path, text in written.items() if path.suffix == ".md"}
    assert {path.name for path in FOLDER.glob("*.md")} == {path.name for path in pages} | BY_HAND
    changed = [path.name for path, text in pages.items() if path.read_text("utf-8") != text]
    assert changed == [], "run: python tools/write_reproductions.py"


def test_drawings_are_there_and_shown(written):
    drawings = {path.name for path in written if path.suffix == ".svg"}
    assert {path.name for path in FOLDER.glob("*.svg")} == drawings
    assert [name for name in drawings if not any(f"({name})" in text for text in written.values())] == []


def test_the_menu_leads_to_every_page(written):
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert [path.name for path in written if path.suffix == ".md" and f"reproductions/{path.name}" not in menu] == []


def test_results_are_small_enough_to_be_kept():
    assert [path.name for path in FOLDER.glob("*.json") if path.stat().st_size > 300_000] == []
