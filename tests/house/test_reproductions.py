"""Pages of reproduced papers say what their JSON says, and the menu and the index lead to them."""

import importlib.util
import re

import pytest

from support import ROOT

FOLDER = ROOT / "docs" / "reproductions"
BY_HAND = {"mitigation-tables.md", "shields-settings.md"}


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


@pytest.fixture(scope="module")
def written():
    return load_tool("write_reproductions").write_files()


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


@pytest.mark.parametrize(
    ("page", "figures", "unit", "columns"),
    [
        ("fairquant", "find_undecided", "", slice(2, 5)),
        ("maft", "find_profiles", "", slice(1, 4)),
        ("testsgd", "find_coverage", " people", slice(1, 3)),
    ],
)
def test_pages_of_methods_have_the_figures_of_the_reproductions(page, figures, unit, columns):
    points = getattr(load_tool("draw_methods"), figures)()
    text = (ROOT / "docs" / "methods" / f"{page}.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    shown = {row[0] + unit: row[columns] for row in rows if row[0] + unit in points}
    assert len(shown) > 3
    for name, cells in shown.items():
        for cell, value in zip(cells, points[name], strict=True):
            printed = re.match(r"[\d,.]+", cell).group().replace(",", "")
            decimals = len(printed.partition(".")[2])
            assert abs(float(printed) - value) <= 0.5001 * 10**-decimals, (name, cell, value)
