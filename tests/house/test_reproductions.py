"""The pages of papers quote the figures of the reproductions."""

import importlib.util
import re

import pytest

from support import ROOT


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def rows_of_method(page):
    text = (ROOT / "docs" / "methods" / f"{page}.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def assert_printed(cells, values):
    """Assert that each cell starts with the value, rounded to its decimals."""
    for cell, value in zip(cells, values, strict=True):
        printed = re.match(r"[\d,.]+", cell).group().replace(",", "")
        decimals = len(printed.partition(".")[2])
        assert abs(float(printed) - value) <= 0.5001 * 10**-decimals, (cell, value)


@pytest.mark.parametrize(
    ("page", "figures", "unit", "columns"),
    [
        ("fairquant", "find_undecided", "", slice(2, 5)),
        ("maft", "find_profiles", "", slice(1, 4)),
        ("testsgd", "find_coverage", " people", slice(1, 3)),
    ],
)
def test_quotes_reproduced_figures(page, figures, unit, columns):
    points = getattr(load_tool("draw_methods"), figures)()
    quoted = {row[0] + unit: row[columns] for row in rows_of_method(page) if row[0] + unit in points}
    assert len(quoted) > 3
    for name, cells in quoted.items():
        assert_printed(cells, points[name])


def test_quotes_figures_of_conditional_fairness():
    figures = load_tool("draw_methods").read_table("conditional_fairness", "Algorithm 1", "deadlines missed")
    missed = {figure["row"].partition("(")[2]: figure for figure in figures}
    quoted = [row for row in rows_of_method("conditional-fairness") if row[0][:1].isdigit()]
    assert len(quoted) > 5
    for deadlines, in_flight, *cells in quoted:
        figure = missed[f"{deadlines.removesuffix(' of five')}), {in_flight} in flight"]
        assert_printed(cells[:2], (figure["ours"]["value"], figure["default"]["value"]))


def test_quotes_figures_of_shields():
    tool = load_tool("draw_methods")
    ends = tool.read_table("shields", "Table 9", "runs that end above the threshold")
    periods = {row["row"]: row for row in tool.read_table("shields", "Table 2", "fair at the end of every period")}
    rows = rows_of_method("shields")
    above = [row[1:] for row in rows if row[0].endswith(("no shield", "parity, shield", "opportunity, shield"))]
    assert len(above) == len(ends) == 4
    for cells, figure in zip(above, ends, strict=True):
        assert_printed(cells, (figure["published"], figure["ours"]["value"]))
    for name, short in (("demographic parity", "DP"), ("equal opportunity", "EqOpp")):
        (cells,) = (row[1:] for row in rows if row[0] == name)
        figure = periods[f"{short}, Dynamic"]
        assert_printed(cells, (figure["published"], figure["ours"]["value"], figure["default"]["value"]))
