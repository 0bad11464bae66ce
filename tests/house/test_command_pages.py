"""The pages of the command line are written from the commands: every one is there, with today's options."""

import importlib.util
import re

import pytest

from support import ROOT


def writer():
    spec = importlib.util.spec_from_file_location("write_command_pages", ROOT / "tools" / "write_command_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRITER = writer()
PAGES = (*sorted(WRITER.PAGES.glob("*.md")), WRITER.INDEX)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_are_todays(page):
    text = page.read_text("utf-8")
    assert text == WRITER.written(text), "run: python tools/write_command_pages.py"


def test_every_command_is_called_and_described_once_under_its_heading():
    text = "".join(page.read_text("utf-8") for page in PAGES)
    commands = WRITER.list_commands()
    for kind, beside in (("usage", []), ("options", ["all commands", "several commands"])):
        marked = [name for _, found, name, _ in WRITER.BLOCK.findall(text) if found == kind]
        assert sorted(marked) == sorted([*commands, *beside])
    headings = re.findall(r"^## evenhand (.+)$", text, re.M)
    assert sorted(headings) == sorted(commands)


def test_every_option_is_in_the_table_of_its_command_or_in_that_of_several():
    common = WRITER.find_common(WRITER.list_commands())
    for name, command in WRITER.list_commands().items():
        table = WRITER.write_options(command, common, {})
        for one in WRITER.list_parameters(command):
            assert f"`{WRITER.show_name(one).split()[0].rstrip(',')}" in table, (name, one.name)


def test_what_is_written_by_hand_is_kept_and_the_rest_is_not():
    page = next(page for page in PAGES if page.stem == "search").read_text("utf-8")
    (row,) = re.findall(r"^\| `--terms FILE` \|.*$", page, re.M)
    changed = page.replace(row, "| `--terms OLD` | Something else.<br>By hand, [linked](x.md). |\n| `--gone` | Old. |")
    written = WRITER.written(changed)
    assert written == page.replace(row, row.removesuffix(" |") + "<br>By hand, [linked](x.md). |")


@pytest.mark.parametrize(
    ("note", "words"),
    [
        ("default: 10.0", "default 10"),
        ("x>=1", "at least 1"),
        ("0<x<1", "above 0, below 1"),
        ("0<=x<=1", "at least 0, at most 1"),
        ("something", "something"),
    ],
)
def test_defaults_and_ranges_are_in_words(note, words):
    assert WRITER.show_note(note) == words
