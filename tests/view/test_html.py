"""The page a validator reads: every number with its kind, nothing foreign that runs or loads, nothing hidden."""

import base64
import hashlib
import itertools
import re
from functools import cache

import examples
import pytest
from page import Element, Page, foreign_scripts
from pydantic import BaseModel

from evenhand import view
from evenhand.auditing import AuditResult
from evenhand.certification import Certificate
from evenhand.certification.certificate.result import GOING_ON, REGIONS, STOPPED
from evenhand.stats import Estimated, Observed, Proved, Unknown

HOSTILE = "<script>alert(1)</script> \"'&amp;{{ 7 * 7 }}"
AUDITS = ["full", "minimal"]


@cache
def page(name: str) -> Element:
    return Page(view.render_page(getattr(examples, name)().document())).root


@pytest.fixture(params=AUDITS)
def audit(request):
    return getattr(examples, request.param)(), page(request.param)


def quantities(value):
    """Every quantity anywhere in a result, found without knowing the result's shape."""
    if isinstance(value, Proved | Observed | Estimated | Unknown):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from quantities(getattr(value, name))
    elif isinstance(value, dict):
        for inner in value.values():
            yield from quantities(inner)
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from quantities(inner)


def numbers(root: Element) -> set[tuple[str, str]]:
    """Kind and value of every number that the page marks as one."""
    return {
        (marked.attributes["data-kind"], data.attributes["value"])
        for marked in root.all()
        if "data-kind" in marked.attributes
        for data in marked.all("data")
    }


def test_every_number_is_there_with_its_kind_and_interval(audit):
    result, root = audit
    shown = numbers(root)
    ends = {
        (one.attributes["data-low"], one.attributes["data-high"]) for one in root.all() if "data-low" in one.attributes
    }
    unknown = [one.text for one in root.all(kind="unknown")]
    found = list(quantities(result))
    assert found
    for quantity in found:
        if isinstance(quantity, Unknown):
            assert any(quantity.reason in text for text in unknown), quantity
            continue
        assert (quantity.kind, str(quantity.value)) in shown, quantity
        if not isinstance(quantity, Proved):
            assert (str(quantity.low), str(quantity.high)) in ends, quantity


def test_proved_shares_and_their_estimate_are_there(audit):
    result, root = audit
    shown = numbers(root)
    for certificate in result.certificates:
        for share in (certificate.certified, certificate.falsified, certificate.undecided):
            assert ("proved", str(share)) in shown
        assert ("estimated", str(certificate.estimate.unfair)) in shown
        for region in certificate.regions[:REGIONS]:
            assert {("proved", str(region.mass)), ("proved", str(region.undecided))} <= shown


def test_no_number_stands_without_its_kind(audit):
    _, root = audit
    for data in root.all("data"):
        marked = data
        while "data-kind" not in marked.attributes:
            assert marked.parent is not None, f"{data.text} has no kind"
            marked = marked.parent
        kind = marked.attributes["data-kind"]
        row, table = data.above("tr"), data.above("table")
        places = [one.text for one in (row, table.one("caption") if table else None, data.above("section")) if one]
        # said in the row or over the table; for numbers outside of tables, and in pairs, in the section's own words
        if table is not None and "pair" not in table.attributes.get("class", ""):
            places = places[:2]
        assert any(kind in text for text in places), (kind, data.text, places)


def test_it_gives_no_verdict(audit):
    _, root = audit
    words = re.sub(r"certified (un)?fair", "", root.one("body").text, flags=re.I)
    assert not re.search(r"\b(un)?fair(ness|ly)?\b|\bbiased model\b|\bpass(ed)?\b|\bfail(ed)?\b", words, re.I)


@pytest.mark.parametrize("name", AUDITS)
def test_it_is_self_contained_and_runs_only_its_own_script(name):
    root = page(name)
    assert foreign_scripts(root) == []
    (script,) = root.all("script")
    digest = base64.b64encode(hashlib.sha256("".join(map(str, script.children)).encode()).digest()).decode()
    (policy,) = [one.attributes["content"] for one in root.all("meta") if "http-equiv" in one.attributes]
    assert f"script-src 'sha256-{digest}'; connect-src 'none';" in policy
    for element in root.all():
        assert element.tag not in ("link", "iframe", "img", "object", "embed", "form", "base")
        for attribute, value in element.attributes.items():
            assert not attribute.startswith("on"), (element.tag, attribute)
            if attribute in ("href", "xlink:href", "src", "srcset", "action", "data"):
                assert value.startswith("#"), (element.tag, attribute, value)
            if not attribute.startswith("xmlns"):
                assert "://" not in value or attribute == "aria-label", (element.tag, attribute, value)
    styles = "".join("".join(map(str, style.children)) for style in root.all("style"))
    assert "url(" not in styles
    assert "@import" not in styles


def replaced(audit: AuditResult, **changes: str) -> AuditResult:
    """The audit with words replaced wherever they stand: names of attributes, values, labels, files, reasons."""

    def change(value):
        if isinstance(value, str):
            for old, new in changes.items():
                value = value.replace(old, new)
            return value
        if isinstance(value, dict):
            return {change(key): change(inner) for key, inner in value.items()}
        return [change(inner) for inner in value] if isinstance(value, list) else value

    return AuditResult.model_validate(change(audit.plain()), extra="ignore")


USERS_WORDS = ("Female", "sex", "50K", "income", "AC-1.npz", "adult.csv", "Married-civ-spouse", "time limit", "Wilson")


def test_words_of_users_are_only_words():
    audit = replaced(examples.full(), **{word: f"{HOSTILE}{i}" for i, word in enumerate(USERS_WORDS)})
    text = view.render_page(audit.document())
    root = Page(text).root
    assert foreign_scripts(root) == []
    assert text.count("<script") == 1
    assert all(f"{HOSTILE}{i}" in root.text for i in range(len(USERS_WORDS)))  # {{ 7 * 7 }} was not calculated either


def test_characters_that_act_are_not_let_through():
    audit = replaced(examples.full(), Female="wo\x00men\x1b[31m\u202e")
    text = view.render_page(audit.document())
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", text)
    assert "wo\ufffdmen\ufffd[31m\ufffd" in text


def test_people_are_counted_by_the_groups_that_are_compared():
    audit = examples.full()
    ages = {str(age): 100 for age in range(20, 90)}
    bands = examples.breakdown(
        ("age",), [examples.group({"age": "20 to 54"}, 3500, 0.3), examples.group({"age": "55 to 89"}, 3500, 0.2)]
    )
    audit = audit.model_copy(
        update={
            "data": audit.data.model_copy(update={"counts": {"age": ages}, "people": 7000}),
            "groups": audit.groups.model_copy(update={"breakdowns": (bands,)}),
        }
    )
    people = Page(view.render_page(audit.document())).root.one("section", id="people")
    (table,) = [table for table in people.all("table") if table.one("caption").text.startswith("People by")]
    assert [row.text for row in table.one("tbody").all("tr")] == ["20 to 54 3,500 50.0 %", "55 to 89 3,500 50.0 %"]
    assert "All values of age" in people.text
    assert "20 (100), 21 (100)" in people.text


def test_pairs_differ_in_the_protected_attributes_alone():
    section = page("full").one("section", id="individuals")
    pairs = section.all("table", class_="pair")
    assert len(pairs) == len(examples.full().individual.examples)
    for table, profile in zip(pairs, examples.full().individual.examples, strict=True):
        head = {row.all("th")[0].text: [one.text for one in row.all("th")[1:]] for row in table.one("thead").all("tr")}
        assert head == {name: [value, profile.better.values[name]] for name, value in profile.worse.values.items()}
        same = {row.one("th").text: row.one("td").text for row in table.all("tr", class_="same")}
        assert same == profile.unprotected
        decision = table.one("tr", class_="decision").all("td")
        assert [one.text for one in decision] == [profile.worse.label, f"{profile.better.label} favourable"]


def test_a_label_only_model_shows_no_scores_as_if_they_were_some():
    audit = examples.full()
    audit = audit.model_copy(update={"model": audit.model.model_copy(update={"label_only": True})})
    root = Page(view.render_page(audit.document())).root
    assert not [row for row in root.all("tr") if row.all("th") and row.all("th")[0].text == "score"]


class TestReadableByEverybody:
    def test_landmarks_and_headings(self, audit):
        _, root = audit
        assert root.one("html").attributes["lang"] == "en"
        for landmark in ("header", "nav", "main", "footer", "h1", "title"):
            root.one(landmark)
        levels = [int(one.tag[1]) for one in root.all() if re.fullmatch("h[1-6]", one.tag)]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))

    def test_identifiers_are_unique_and_references_lead_somewhere(self, audit):
        _, root = audit
        identifiers = [one.attributes["id"] for one in root.all() if "id" in one.attributes]
        assert len(identifiers) == len(set(identifiers))
        for one in root.all():
            for attribute in ("aria-labelledby", "href"):
                if attribute in one.attributes:
                    assert one.attributes[attribute].lstrip("#") in identifiers

    def test_tables_have_captions_and_scopes(self, audit):
        _, root = audit
        for table in root.all("table"):
            assert table.one("caption").text
            assert all("scope" in one.attributes or "aria-hidden" in one.attributes for one in table.all("th"))

    def test_drawings_have_words(self, audit):
        _, root = audit
        for svg in root.all("svg"):
            image = svg
            while image is not None and image.attributes.get("role") != "img":
                image = image.parent
            assert image is not None
            assert len(image.attributes["aria-label"]) > 30
            assert image.above("figure").one("figcaption").text


def test_every_reason_to_stop_has_words():
    reasons = set(Certificate.model_fields["stopped_by"].annotation.__args__)
    assert set(STOPPED) == reasons
    assert set(GOING_ON) == reasons
