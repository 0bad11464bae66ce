"""The reference that is made with the documentation has every command, option, result, field and public name."""

import importlib
import re
import sys

import pytest

from support import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import make_reference as reference

from evenhand.service.settings import ServiceConfig

COMMANDS = reference.list_commands()


@pytest.fixture(scope="module")
def command_pages():
    return "\n".join(text for _, text in reference.command_pages())


def test_every_command_has_one_section_and_every_option_a_row_or_a_link(command_pages):
    assert sorted(re.findall(r"^## evenhand (.+)$", command_pages, re.M)) == sorted(COMMANDS)
    assert re.findall(r"\[`evenhand ([\w -]+)`\]", reference.table_of_commands()) == list(COMMANDS)
    shared = reference.table_of_shared_options()
    for name, command in COMMANDS.items():
        section = reference.describe_command(name, command)
        for one in reference.list_parameters(command):
            shown = re.split("[ ,]", reference.show_name(one))[0]
            assert f"`{shown}" in section, (name, one.name)
            row = re.escape(f"| `{shown}") + r"[ ,`]"
            assert re.search(row, section) or re.search(row, shared), (name, one.name)


def test_what_is_written_by_hand_is_about_options_that_exist():
    notes = reference.read_notes()
    shared = {one.opts[0] for one in reference.find_shared().values()}
    for name, note in notes.items():
        taken = COMMANDS.get(name)
        options = (
            shared
            if taken is None
            else {re.split("[ ,]", reference.show_name(one))[0] for one in reference.list_parameters(taken)}
        )
        assert taken is not None or name == "several commands", name
        assert set(note.get("options", {})) <= options, name


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
    assert reference.show_note(note) == words


def test_every_result_is_described_once_with_its_schema():
    pages = dict(reference.result_pages())
    headings = [name for page in pages.values() for name in re.findall(r"^## (\w+)$", page, re.M)]
    assert len(headings) == len(set(headings))
    assert set(reference.list_results()) <= set(headings)
    assert {f"schemas/{name}.json" for name in reference.list_results()} <= set(pages)
    for page in pages.values():
        for file, anchor in re.findall(r"\]\((\w*)(?:\.md)?#(\w+)\)", page):
            assert anchor in {name.lower() for name in headings}, (file, anchor)


ENTRIES = {
    path: page.name
    for page in (ROOT / "docs" / "reference").glob("*.md")
    for path in re.findall(r"<!-- reference: entries ([\w.]+) -->", page.read_text("utf-8"))
}


def test_every_entry_of_a_file_is_described():
    assert len(ENTRIES) > 20
    for path in ENTRIES:
        model = reference.find_file_model(path)
        assert all(reference.describe_fields(model, list(model.model_fields)).values()), path


def test_every_section_of_the_service_file_has_a_table():
    sections = [field.annotation for field in ServiceConfig.model_fields.values()]
    names = set(re.findall(r"\b(\w+Config)\b", " ".join(map(str, sections))))
    assert names == {path.rpartition(".")[2] for path, page in ENTRIES.items() if page == "service-file.md"}


def test_docstrings_say_what_fields_mean():
    text = """A finding.

    Attributes:
        low, high: its interval; n: of how many,
            and not of fewer. p: adjusted.
        other: unrelated
    """
    assert reference.read_attributes(text, ["low", "high", "n", "p"]) == {
        "low": "its interval",
        "high": "its interval",
        "n": "of how many, and not of fewer",
        "p": "adjusted",
    }
    assert reference.read_attributes("Nothing more.", ["low"]) == {}


@pytest.mark.parametrize("package", reference.list_packages())
def test_a_page_lists_what_its_package_exports(package):
    pytest.importorskip("griffe", reason="needs the extra docs")
    if package == "evenhand.service":
        pytest.importorskip("fastapi", reason="needs the extra serve")
    module = importlib.import_module(package)
    names = reference.list_names(package)
    assert set(names) == set(getattr(module, "__all__", names))
    assert [name for name in names if not hasattr(module, name)] == []


def test_formulas_are_drawn_and_dollars_are_left_alone():
    markdown = pytest.importorskip("markdown", reason="needs the extra docs")
    pytest.importorskip("latex2mathml", reason="needs the extra docs")
    from docs_hooks import FormulaExtension

    def draw(text):
        return markdown.markdown(text, extensions=["tables", FormulaExtension()])

    assert "<mo>&#x02264;</mo>" in draw(r"so $a \le b$.")
    for plain in ("from $5 to $6", "`$x$`", "US$ 5 and US$ 6", r"\$x\$"):
        assert "<math" not in draw(plain)
