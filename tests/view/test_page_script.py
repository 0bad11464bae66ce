"""What people do with a page in a real browser: sort, filter, move the threshold, print; and read it without script."""

import pytest

pytest.importorskip("playwright", reason="needs playwright")

import examples
import pictured
from playwright.sync_api import sync_playwright

from browser import ARGUMENTS, CHECK, CHROMIUM
from evenhand import view
from evenhand.core import Document
from evenhand.core.document import Column, ReportedNumber, Table, TableRow

if CHROMIUM is None:
    pytest.skip("needs chromium", allow_module_level=True)

AT = "document.documentElement"


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """An audit with everything, and one of scores with all thresholds, as files."""
    folder = tmp_path_factory.mktemp("pages")
    many = [examples.group({"country": f"country {i}"}, 20 + i, 0.1 + 0.02 * ((7 * i) % 30)) for i in range(30)]
    audit = examples.full()
    groups = audit.groups.model_copy(update={"breakdowns": (examples.breakdown(("country",), many),)})
    lengthy = [examples.group({"country": name}, 90, rate) for name, rate in (("a" * 150, 0.2), ("b" * 150, 0.5))]
    lengthy = audit.groups.model_copy(update={"breakdowns": (examples.breakdown(("country",), lengthy),)})
    rates = (ReportedNumber("1,200", 1200.0), ReportedNumber("-3", -3.0), ReportedNumber("20 k", 2e4))
    rows = [TableRow((name, rate)) for name, rate in zip("abc", rates, strict=True)]
    rows.insert(1, TableRow(("d", ReportedNumber("-", kind="unknown", basis="too few"))))
    unknown = Table("Rates", (Column("name"), Column("rate", numeric=True)), tuple(rows))
    documents = {
        "unknown": Document("Rates", blocks=(unknown,)),
        "full": audit.document(),
        "many": audit.model_copy(update={"groups": groups}).document(),
        "lengthy": audit.model_copy(update={"groups": lengthy}).document(),
        "thresholds": pictured.document("thresholds"),
    }
    for name, document in documents.items():
        (folder / f"{name}.html").write_text(view.render_page(document), encoding="utf-8")
    return folder


@pytest.fixture
def opened(browser, files):
    """Opens a page; whatever the browser complains about, or asks of a network, fails the test."""
    contexts, complaints = [], []

    def open_page(name, width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text))
        page.on("request", lambda one: None if one.url.startswith("file:") else complaints.append(one.url))
        page.goto((files / f"{name}.html").as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def column(table, place):
    rows = table.locator("tbody tr:visible").all()
    return [row.locator("th, td").nth(place).inner_text().split("\n")[0] for row in rows]


def test_a_table_is_sorted_by_its_numbers_with_the_keyboard(opened):
    page = opened("many")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    table = page.locator("table.sortable", has_text="country 13").filter(has_text="calibration error").last
    head = table.locator("thead th", has_text="selection rate")
    place = [one.inner_text() for one in table.locator("thead th").all()].index(head.inner_text())
    before = column(table, place)
    values = [float(one.split()[0]) for one in before]
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert [float(one.split()[0]) for one in column(table, place)] == sorted(values)
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "descending"
    assert [float(one.split()[0]) for one in column(table, place)] == sorted(values, reverse=True)
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") is None
    assert column(table, place) == before


def test_what_is_not_known_comes_last_in_either_direction(opened):
    table = opened("unknown").locator("table.sortable")
    head = table.locator("thead th", has_text="rate")
    for direction, order in (("ascending", "bacd"), ("descending", "cabd")):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == direction
        assert "".join(column(table, 0)) == order


def test_long_tables_have_a_filter_and_short_ones_none(opened):
    page = opened("many")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for one in page.locator("table.sortable").all():
        rows = one.locator("tbody tr").count()
        before = one.locator("xpath=../preceding-sibling::*[1]")
        assert (before.get_attribute("class") == "filter" if before.count() else False) == (rows > 8)
    box = page.get_by_label("Filter rows").last
    table = box.locator("xpath=ancestor::p/following-sibling::*[1]//table")
    box.fill("country 12")
    assert column(table, 0) == ["country 12"]
    assert "1 of 30 rows" in box.locator("xpath=ancestor::p").inner_text()
    box.fill("")
    assert table.locator("tbody tr:visible").count() == 30


def test_without_script_everything_is_there_and_nothing_that_would_need_one(opened):
    page = opened("thresholds", java_script_enabled=False)
    assert page.get_by_role("button").count() == 0
    assert page.locator("nav ol").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["full", "thresholds"])
def test_everybody_can_read_and_use_it(opened, name, scheme):
    page = opened(name, color_scheme=scheme)
    found = page.evaluate(CHECK)
    assert found["found"] == []


@pytest.mark.parametrize("name", ["full", "many", "lengthy", "thresholds"])
def test_nothing_is_wider_than_a_telephone(opened, name):
    page = opened(name, width=400)
    assert not page.locator("nav ol").is_visible()
    page.get_by_text("Contents", exact=True).click()
    assert page.locator("nav ol").is_visible()
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate(f"{AT}.scrollWidth - {AT}.clientWidth") == 0


def test_the_list_of_contents_says_where_the_reader_is(opened):
    page = opened("full")
    current = page.locator("nav [aria-current]")
    assert current.inner_text() == "Summary"
    page.evaluate("document.getElementById('individuals').scrollIntoView({behavior: 'instant'})")
    page.locator("nav [aria-current][href='#individuals']").wait_for()
    assert current.count() == 1
    assert page.locator("nav ol").is_visible()


def test_paper_is_light_and_has_no_controls(opened):
    page = opened("many", color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    ink = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink')")
    assert ink.strip() == "#1c2127"
    for gone in ("nav", ".filter", ".skip"):
        assert not page.locator(gone).first.is_visible()
    arrows = page.evaluate("getComputedStyle(document.querySelector('.sort'), '::after').display")
    assert arrows == "none"
    assert page.evaluate("getComputedStyle(document.querySelector('.scroll')).overflowX") == "visible"
