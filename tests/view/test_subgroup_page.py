"""Subgroups as people see them: the page, the screen at any width, and sentences."""

import examples
import pytest
from page import Page

from evenhand import view
from evenhand.core.document import SubjectCard
from evenhand.subgroups import wording as sentences

FOUND = examples.subgroups()
SUBJECT = SubjectCard("model", "people.csv", 9769, "income", "<b>rich</b>", label_only=False)


def root(result=FOUND):
    return Page(view.render_page(result.document(SUBJECT))).root


def test_every_finding_is_there_with_its_size_rates_and_interval():
    section = root().one("section", id="findings")
    rows = section.one("table", class_="wide-table").one("tbody").all("tr")
    own = [finding for finding in FOUND.findings if finding.under is None]
    assert len(rows) == len(own)
    for row, finding in zip(rows, own, strict=True):
        assert f"{finding.size:,}" in row.text
        values = [data.attributes["value"] for data in row.all("data")]
        assert values == [str(finding.gap), str(finding.rate), str(finding.rest_rate)]
        ends = row.one("span", class_="interval").attributes
        assert (ends["data-low"], ends["data-high"]) == (str(finding.low), str(finding.high))
        assert ("(not significant)" in row.text) == (not finding.found)
        assert sentences.finding_sentence(FOUND, finding, "<b>rich</b>") in row.text


@pytest.mark.parametrize(("measure", "worse"), [("favourable", [True, False]), ("false-negative", [False, True])])
def test_fewer_favourable_decisions_and_more_wrong_refusals_are_worse(measure, worse):
    result = examples.subgroups(measure=measure)
    assert [result.is_worse(finding) for finding in result.findings[::2][:2]] == worse


def test_nothing_to_show():
    empty = examples.subgroups(findings=(), judged=(), tested=0, found=0)
    ids = [section.attributes["id"] for section in root(empty).one("main").all("section")]
    assert ids == ["summary", "method"]
