"""Pictures of the documentation: each exists, is made by something, is small, and is described in words."""

import importlib.util
import re
import sys
from functools import cache
from xml.etree import ElementTree as ET

import pytest

from support import ROOT

IMAGES = ROOT / "docs" / "images"
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
PICTURE = re.compile(r"!\[([^]]*)\]\(([^)\s]+)\)|<img\b([^>]*)>")
LARGEST, LARGEST_TOGETHER = 200_000, 6_000_000


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as dataclasses need it
    spec.loader.exec_module(module)
    return module


@cache
def pictures():
    return load("take_pictures").read_list()


@cache
def shown():
    """Every picture that a page shows: the page, what it says instead of the picture, and the file."""
    found = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for words, link, tag in PICTURE.findall(text):
            if tag:
                (link,) = re.findall(r'src="([^"]*)"', tag)
                words = "".join(re.findall(r'alt="([^"]*)"', tag))
            found.append((page, words, link))
    return found


def test_every_picture_shown_exists_and_is_described():
    assert len(shown()) > 20
    for page, words, link in shown():
        where = f"{page.relative_to(ROOT)}: {link}"
        assert not re.match(r"\w+:|/", link), f"{where}: expected a file of the repository"
        assert (page.parent / link).is_file(), f"{where}: there is no such file"
        assert len(words.split()) > 2, f"{where}: expected some words that say what the picture shows; got {words!r}"


def test_every_picture_kept_is_shown_and_made_by_something():
    kept = {path.name for path in IMAGES.iterdir()}
    used = {(page.parent / link).resolve() for page, _, link in shown()}
    assert kept == {path.name for path in used if path.parent == IMAGES}
    assert kept == {picture["file"] for picture in pictures().values()}


@pytest.mark.parametrize("name", pictures())
def test_what_makes_a_picture_is_there(name):
    picture = pictures()[name]
    makers = {"page", "site", "markdown", "terminal", "recording", "drawn_by", "by_hand"} & set(picture)
    assert len(makers) == 1, f"expected one of what shows it; got {', '.join(sorted(makers))}"
    assert picture["shows"]
    for entry in ("drawn_by", "follow", "markdown"):
        assert (ROOT / picture.get(entry, "README.md")).is_file()
    assert picture.get("in", name) in pictures()


def test_pictures_are_small():
    sizes = {path.name: path.stat().st_size for path in IMAGES.iterdir()}
    assert not {name: size for name, size in sizes.items() if size > LARGEST}
    assert sum(sizes.values()) < LARGEST_TOGETHER


def test_drawings_load_nothing_and_show_no_folder_of_a_machine():
    for path in IMAGES.glob("*.svg"):
        text = path.read_text("utf-8")
        loaded = re.findall(r"(?:href|src)\s*=|url\(\s*['\"]?https?:|@import", text)
        assert not loaded, path.name
        assert not re.search(r"/(?:tmp|work|root)/|\d{4}-\d\d-\d\d", text), path.name


def test_badges_say_what_the_project_declares():
    badges = load("draw_badges")
    facts = list(badges.state_facts())
    assert len(facts) == 3
    for name, about, holds in facts:
        assert (IMAGES / name).read_text("utf-8") == badges.draw_badge(about, holds), "run: python tools/draw_badges.py"


@pytest.fixture
def recorded():
    """A command that counts for eight seconds, and prints five lines: the module, and what was recorded."""
    terminal = load("record_terminal")

    def line(text):
        return (terminal.Span(0, text, terminal.FOREGROUND, False, False),)

    counting = [(0.0, (line("step 1 <a>"),)), (4.0, (line("step 2 <a>"),)), (8.0, (line("other"),))]
    printed = (8.1, tuple(line(f"line {n}") for n in "abcde"))
    moments, screens = zip(*counting, printed, strict=True)
    return terminal, terminal.Recording(moments, screens, 40)


def test_pauses_are_short_while_only_numbers_change(recorded):
    terminal, found = recorded
    moments = terminal.shorten_pauses(found)
    assert moments == pytest.approx([0, terminal.PAUSE / 2, terminal.PAUSE, terminal.PAUSE + 0.1])


def test_a_recording_ends_with_what_was_printed_also_where_nothing_may_move(recorded):
    terminal, found = recorded
    drawn = ET.fromstring(terminal.draw_animation(found, "title", "do it", 4))
    name = "{http://www.w3.org/2000/svg}"
    lasting = [text for text in drawn.iter(f"{name}text") if text.get("class").endswith(" f")]
    assert ["".join(text.itertext()) for text in lasting] == ["$do it", *(f"line {n}" for n in "abcde")]
    style = drawn.find(f"{name}style").text
    still = re.search(r"prefers-reduced-motion:reduce\)\{(.*?\}\})", style)[1]
    assert "text,#all{animation:none}" in still
    # Six lines, of which the window has four: the last two leaves are out of it.
    assert f"translateY({-2 * terminal.CELL_HEIGHT}px)" in still


def test_what_is_typed_and_printed_stands_in_a_still(recorded):
    terminal, found = recorded
    drawn = ET.fromstring(terminal.draw_still(found, "title", "do it", 3))
    assert "".join(drawn.itertext()).split()[-6:] == ["$do", "it", "line", "a", "line", "b"]
