"""The glossary has every word that screens and pages explain, under an anchor, and its formulas can be drawn."""

import re

import pytest

from evenhand.auditing import number_wording
from evenhand.groups import names
from support import ROOT

TEXT = (ROOT / "docs" / "reference" / "glossary.md").read_text("utf-8")
TERMS = {
    term.strip().casefold(): set(re.findall(r'id="([^"]+)"', anchors))
    for anchors, cell in re.findall(r'^\| ((?:<a id="[^"]+"></a>)+)([^|]+?) \|', TEXT, re.M)
    for term in {cell, *cell.split(",")}
}
KINDS = ("proved", "observed", "estimated", "unknown")
PROMISED = (
    "counterfactual flip rate", "simulated population", "product of marginals", "dependency-aware",
    "uniform over the domain", "certified fair", "certified unfair", "undecided", "demographic parity difference",
    "base rate", "calibration error", "observed rate", "calibration by group", "data schema", "population", "type",
    "confidence level", "training, validation, test set", "subgroups tested", "significant after adjustment",
    "simultaneous over n tests", "multiple-testing correction", "complete, time limit reached", "plausible profile",
    "regression for another group", "longest wait", "success probability of a deadline", "before, after the shield",
    "intervention", "hint",
)  # fmt: skip
"""What the words of screens were agreed to be."""


def words_of_screens():
    """Every name of a number on a screen, and every term that a screen explains: ``Name: what it is.``"""
    yield from names.METRIC_TITLES.values()
    yield from (title.split(":")[0] for title in names.GAP_TITLES.values())
    yield from re.findall(r"(?:^|\. )([A-Z][^:.]+):", number_wording.TERMS)
    yield from KINDS
    yield from PROMISED


def test_every_word_of_screens_has_an_entry():
    words = {re.sub(r" \(.*\)$", "", word).casefold() for word in words_of_screens()}
    assert len(words) > 40
    assert {word for word in words if word not in TERMS} == set()


def test_every_term_has_an_anchor_of_its_own_and_is_in_the_list():
    anchors = re.findall(r'<a id="([^"]+)"></a>', TEXT)
    assert len(anchors) == len(set(anchors)) > 90
    listed = re.findall(r"\[([^\]]+)\]\(#([^)]+)\)", TEXT)
    assert {anchor for _, anchor in listed} >= set(anchors)
    names_listed = [" ".join(name.casefold().split()) for name, anchor in listed if anchor in anchors]
    assert names_listed == sorted(names_listed)


def test_formulas_are_drawn_and_dollars_are_left_alone(monkeypatch):
    markdown = pytest.importorskip("markdown", reason="needs the extra docs")
    pytest.importorskip("latex2mathml", reason="needs the extra docs")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from formulas import FormulaExtension

    def draw(text):
        return markdown.markdown(text, extensions=["tables", FormulaExtension()])

    page = draw(TEXT)
    assert page.count("<math") > 80
    assert "$" not in page
    assert "\\" not in page
    assert "<mo>&#x02264;</mo>" in draw(r"so $a \le b$.")
    for plain in ("from $5 to $6", "`$x$`", "US$ 5 and US$ 6", r"\$x\$"):
        assert "<math" not in draw(plain)
