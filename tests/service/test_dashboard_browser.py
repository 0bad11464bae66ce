"""What people do with the dashboard, in a real browser."""

import pytest

pytest.importorskip("playwright", reason="needs playwright")

from in_thread import Running, answer_now
from playwright.sync_api import expect, sync_playwright
from service_settings import GUARD, PLAN, WATCH

from browser import ARGUMENTS, CHECK, CHROMIUM
from evenhand.service import KeyStore
from evenhand.service.generation.guarded_request import GuardedRequest

if CHROMIUM is None:
    pytest.skip("needs chromium", allow_module_level=True)

expect.set_options(timeout=20_000)  # as long as the page may take over an action; many things may run beside it

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
    site = Running(described)
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


def test_what_goes_wrong_is_said_plainly(page, site):
    look(page, site, "wild")
    guard = site.context.guards["wild"]
    for _ in range(25):
        answer_now(GuardedRequest(guard, "a secret leader"))
    trouble = page.get_by_role("region", name="Broken assumptions")
    expect(trouble).to_contain_text("deadline missed")
    expect(trouble).to_contain_text("did not show the required value, after all retries")
    trouble.locator("summary").click()
    # The list stays open while further cases come.
    before = trouble.locator("summary").text_content()
    for _ in range(5):
        answer_now(GuardedRequest(guard, "a secret leader"))
    expect(trouble.locator("summary")).not_to_have_text(before)
    expect(trouble.locator("details li").first).to_be_visible()
    expect(page.locator(".lead")).to_contain_text("missed")
    expect(page.locator(".log")).to_contain_text("violation")
    over = page.locator(".lanes .track .over").evaluate_all("all => all.filter(one => one.getAttribute('d')).length")
    assert over >= 1
    # Prompts that are not kept are not shown, but for what the guard put behind them.
    expect(page.locator(".changes")).to_contain_text("... (showing: ")
    assert "secret" not in page.content()


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


def test_words_from_outside_are_words(page, site):
    bad = '<img src=x onerror="document.title=1">'
    site.decide("loans", (bad, "women", 1))
    look(page, site, "loans")
    expect(page.locator(".log td.id").first).to_have_text(bad)
    assert page.locator(".log td.id img").count() == 0
