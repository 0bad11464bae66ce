"""What people do with the dashboard, in a real browser."""

from __future__ import annotations

import csv
import json

import pytest

pytest.importorskip("playwright", reason="needs playwright")

from browsing import Site
from in_thread import answer_now
from playwright.sync_api import expect, sync_playwright

from browser import ARGUMENTS, CHECK, CHROMIUM
from conftest import GUARD, PLAN
from evenhand.service import KeyStore
from evenhand.service.generation.guards import GuardedRequest

if CHROMIUM is None:
    pytest.skip("needs chromium", allow_module_level=True)

expect.set_options(timeout=20_000)  # as long as the page may take over an action; many things may run beside it

WATCH = {
    "groups": {"by": ["sex"], "values": {"sex": ["female", "male"]}},
    "watch": [{"gap": "selection_rate", "tolerance": 0.02}],
}
PEOPLE = [(f"person {i}", *one) for i, one in enumerate([("women", 0), ("men", 1), ("women", 0), ("men", 1)] * 20)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    described = {
        "service": {"database": f"sqlite:///{folder / 'evenhand.db'}", "keys": True},
        "shields": [{"name": name, "plan": PLAN, "advisory": name == "advice"} for name in ("loans", "many", "advice")],
        "guards": [
            {"name": "studio", "config": GUARD, "log_prompts": True},
            {"name": "wild", "config": {**GUARD, "generator": {**GUARD["generator"], "obeys": 0.0}}},
        ],
        "monitors": [{"name": "hiring", "config": WATCH}],
    }
    site = Site(described)
    with KeyStore(site.context.database) as ring:
        site.key = ring.add("visitor", ["read", "generate"])
        site.reader = ring.add("reader", ["read"])
    site.decide("loans", *PEOPLE)
    site.decide("advice", *PEOPLE[:30])
    yield site
    site.stop()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(site, browser, request):
    """A page of somebody who is logged in; whatever the browser complains about fails the test."""
    options = getattr(request, "param", {})
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
    context.set_default_timeout(20_000)
    context.add_cookies([{"name": "evenhand_key", "value": site.key, "url": site.url}])
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda said: said.type in ("error", "warning") and page.complaints.append(said.text))
    page.on(
        "request", lambda one: page.complaints.append(one.url) if not one.url.startswith((site.url, "data:")) else 0
    )
    yield page
    context.close()
    # A picture is kept a moment after its entry in the log; the page asks again.
    assert [one for one in page.complaints if "404" not in one] == []


def look(page, site, name=""):
    """Go to a stream's page, and wait until everything is there."""
    page.goto(f"{site.url}/#/{name}")
    expect(page.locator("h1")).to_have_text(name or "All streams")
    expect(page.locator("#main[aria-busy=false]")).to_be_visible()
    expect(page.locator("#link")).to_have_text("live")


def test_logging_in_and_out(site, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto(site.url)
    expect(page).to_have_url(f"{site.url}/login")
    page.get_by_label("Key").fill("evenhand_not_this_one")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("Unknown key")
    page.get_by_label("Key").fill(site.reader)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="All streams")).to_be_visible()
    assert page.evaluate("document.cookie") == ""
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    # Whoever may only read cannot ask for pictures.
    page.get_by_role("link", name="studio generator").click()
    expect(page.get_by_role("heading", name="Deadlines")).to_be_visible()
    assert page.get_by_role("button", name="Generate a picture").count() == 0
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(f"{site.url}/login")
    page.goto(site.url)
    expect(page).to_have_url(f"{site.url}/login")
    # An open page leads to the login once the session has expired.
    page.get_by_label("Key").fill(site.reader)
    page.keyboard.press("Enter")
    expect(page.locator("#link")).to_have_text("live")
    context.clear_cookies()
    expect(page).to_have_url(f"{site.url}/login")
    context.close()


def test_the_line_moves_while_decisions_come(page, site):
    look(page, site, "loans")
    before = page.locator(".bias path.with").last.get_attribute("d")
    newest = page.locator(".log tbody tr").first
    site.decide("loans", *[(f"live {i}", "women", 0) for i in range(3)])
    expect(newest).to_contain_text("live 2")
    expect(page.locator(".bias path.with").last).not_to_have_attribute("d", before)
    expect(page.locator(".lead")).to_contain_text("the bias is")
    expect(page.get_by_role("row", name="women").first).to_contain_text("43")
    expect(page.locator("#promise + div")).to_contain_text("This period: bias at most ")
    expect(page.locator("#promise + div")).to_contain_text("Later periods: ")


def test_a_monitor_stands_among_the_streams_with_its_alarms(page, site):
    look(page, site)
    card = page.locator(".card", has=page.get_by_role("link", name="hiring"))
    expect(card).to_contain_text("Monitor: no alarm")
    site.context.monitors["hiring"].add(
        [{"sex": sex, "decision": int(sex == "male")} for _ in range(200) for sex in ("female", "male")]
    )
    expect(card).to_contain_text("Monitor: 1 alarm")
    expect(card).to_contain_text("400 decisions.")
    card.get_by_role("link", name="hiring").click()
    expect(page.locator("h1")).to_have_text("Monitor of hiring")


def test_advice_is_not_called_an_override(page, site):
    look(page, site, "advice")
    expect(page.locator(".legend")).to_contain_text("as decided")
    expect(page.locator("#promise + div")).to_contain_text(
        "This period: no guarantee, because recommendations are followed (advisory mode)."
    )
    expect(page.locator(".lead")).to_contain_text("In force, the shield would make it")


def test_making_pictures(page, site):
    look(page, site, "studio")
    page.get_by_role("textbox", name="Prompt").fill("a portrait of a leader")
    for i in range(9):
        page.locator(".maker button").click()
        expect(page.locator(".strip li")).to_have_count(i + 1)
        expect(page.locator(".maker button")).to_have_text("Generate another picture")
    image = page.locator(".result img")
    assert image.evaluate("image => image.naturalWidth") > 0
    assert all(page.locator(".strip img").evaluate_all("images => images.map(one => one.complete)"))
    # The studio draws men who are adult: others appear because prompts were changed.
    changes = page.locator(".changes li")
    assert changes.count() >= 1
    expect(changes.first).to_contain_text("a portrait of a leader (showing: ")
    expect(changes.first).to_contain_text("now lets every deadline be kept")
    expect(page.locator(".lead")).to_contain_text("No deadline was missed")
    marks = page.locator(".lanes .asked").evaluate_all("all => all.filter(one => one.getAttribute('d')).length")
    assert marks >= 2  # The legend's own, and a lane's.
    # A prompt about something else counts for nothing.
    page.get_by_role("textbox", name="Prompt").fill("a bowl of apples")
    page.keyboard.press("Enter")
    expect(page.locator(".result")).to_contain_text("it counts for no deadline")
    expect(page.locator(".strip li")).to_have_count(10)
    # Larger when pointed at, and when reached by keyboard.
    peek = page.locator("#peek")
    page.locator(".strip a").last.hover()
    expect(peek).to_contain_text("a portrait of a leader")
    page.get_by_role("heading", name="studio").hover()
    expect(peek).to_be_hidden()
    page.locator(".strip a").last.focus()
    expect(peek).to_be_visible()


def test_what_goes_wrong_is_said_plainly(page, site):
    look(page, site, "wild")
    guard = site.context.guards["wild"]
    for _ in range(25):
        answer_now(GuardedRequest(guard, "a secret leader"))
    trouble = page.get_by_role("region", name="Broken assumptions")
    expect(trouble).to_contain_text("deadline missed")
    expect(trouble).to_contain_text("did not show the required value, after all retries")
    trouble.locator("summary").click()
    expect(trouble.locator("details li").first).to_be_visible()
    expect(page.locator(".lead")).to_contain_text("missed")
    expect(page.locator(".log")).to_contain_text("violation")
    over = page.locator(".lanes .track .over").evaluate_all("all => all.filter(one => one.getAttribute('d')).length")
    assert over >= 1
    # Prompts that are not kept are not shown, but for what the guard put behind them.
    expect(page.locator(".changes")).to_contain_text("... (showing: ")
    assert "secret" not in page.content()


def test_filters_and_exports(page, site):
    look(page, site, "loans")
    rows = page.locator(".log tbody tr")
    page.get_by_label("only interventions").check()
    expect(rows.first).to_have_class("marked")
    expect(page.locator(".log tbody tr:not(.marked)")).to_have_count(0)
    page.get_by_label("Text").fill("WOMEN")
    expect(page.locator(".log tbody tr", has_text="men").filter(has_not_text="women")).to_have_count(0)
    n = rows.count()
    assert n > 1
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    table = list(csv.DictReader(download.value.path().read_text("utf-8").splitlines()))
    assert [row["id"] for row in table] == page.locator(".log tbody td.id").all_text_contents()
    assert all(row["group"] == "women" and row["intervened"] == "True" for row in table)
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON").click()
    assert len(json.loads(download.value.path().read_text())) == n
    # What comes meanwhile is shown only if it is looked for.
    site.decide("loans", ("a man", "men", 1), ("another woman", "women", 1))
    page.get_by_label("Text").fill("another woman")
    page.get_by_label("only interventions").uncheck()
    expect(rows).to_have_count(1)
    page.get_by_label("Text").fill("nobody at all")
    expect(page.locator("main [role=status]").last).to_have_text("No entry matches.")
    page.get_by_role("button", name="Clear").click()
    expect(rows.first).to_contain_text("another woman")
    # Times hold for the chart too.
    page.get_by_label("Time", exact=True).select_option("own")
    page.get_by_label("From", exact=True).fill("2000-01-01T00:00:00")
    page.get_by_label("To", exact=True).fill("2001-01-01T00:00:00")
    expect(page.locator(".bias")).to_contain_text("no decision in this period")
    page.get_by_label("Time", exact=True).select_option("3600")
    expect(page.locator(".bias figcaption")).to_contain_text("intervention")


def test_the_connection_is_lost_and_comes_back(page, site):
    look(page, site, "loans")
    top = page.locator(".log tbody tr").first
    site.stop()
    expect(page.get_by_role("alert")).to_contain_text("The connection to the service is lost")
    expect(page.locator("#link")).to_have_text("connection lost")
    page.complaints.clear()
    site.start()
    site.decide("loans", *[(f"meanwhile {i}", "men", 0) for i in range(3)])
    expect(page.locator("#link")).to_have_text("live")
    expect(page.locator("#lost")).to_be_hidden()
    expect(top).to_contain_text("meanwhile 2")
    number = int(top.locator("th").text_content())
    numbers = [int(text) for text in page.locator(".log tbody th").all_text_contents()]
    assert numbers == list(range(number, number - len(numbers), -1))
    # Attempts while nobody answered are told in the browser's console, and nothing else is.
    assert all("ERR_CONNECTION_REFUSED" in one for one in page.complaints)
    page.complaints.clear()


def test_everything_can_be_reached_by_keyboard(page, site):
    for name in ("loans", "studio"):
        # A new document, where the focus begins at the top.
        page.goto("about:blank")
        look(page, site, name)
        page.evaluate(
            """() => { const elements = [...document.querySelectorAll(
                   "a[href], button, input, select, summary, [tabindex='0']"
               )].filter((element) => element.checkVisibility() && element.tabIndex >= 0);
               // By name, since a chart that is drawn again is another element.
               window.nameOf = (element) => [element.tagName, element.id, element.getAttribute("aria-label"),
                   element.role ? "" : element.textContent].join("|");
               window.wanted = elements.map(nameOf); }"""
        )
        for _ in range(page.evaluate("wanted.length")):
            page.keyboard.press("Tab")
            # It is one of those, it was not reached before, and it shows that it has the focus.
            wrong = page.evaluate(
                """() => { const element = document.activeElement, style = getComputedStyle(element);
                   const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
                   const position = wanted.indexOf(nameOf(element));
                   wanted.splice(position, position < 0 ? 0 : 1);
                   return position >= 0 && seen ? "" : element.outerHTML.slice(0, 200); }"""
            )
            assert wrong == "", name
    page.goto(f"{site.url}/#/")
    expect(page.get_by_role("heading", name="All streams")).to_be_visible()
    page.locator("#streams a", has_text="loans").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="loans")).to_be_visible()
    expect(page.locator("#main")).to_be_focused()


PALE = [{"color_scheme": scheme} for scheme in ("light", "dark")]


@pytest.mark.parametrize("page", PALE, indirect=True, ids=["light", "dark"])
def test_names_and_contrast(page, site):
    for name in ("", "loans", "studio", "wild", "many"):
        look(page, site, name)
        found = page.evaluate(CHECK)
        assert found["found"] == [], name
        assert found["looked"] > 20
    page.context.clear_cookies()
    page.goto(f"{site.url}/login")
    assert page.evaluate(CHECK)["found"] == []
    page.complaints.clear()


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_sticks_out_of_narrow_screens(page, site, width):
    page.set_viewport_size({"width": width, "height": 800})
    for name in ("", "loans", "studio"):
        look(page, site, name)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


def test_words_from_outside_are_words(page, site):
    bad = '<img src=x onerror="document.title=1">'
    site.decide("loans", (bad, "women", 1))
    look(page, site, "loans")
    expect(page.locator(".log td.id").first).to_have_text(bad)
    assert page.locator(".log td.id img").count() == 0
