"""The generated reference has every command, option, result, field, file entry and public name."""

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


def test_lists_every_command_and_option(command_pages):
    assert sorted(re.findall(r"^## evenhand (.+)$", command_pages, re.M)) == sorted(COMMANDS)
    assert re.findall(r"\[`evenhand ([\w -]+)`\]", reference.table_of_commands()) == list(COMMANDS)
    shared = reference.table_of_shared_options()
    for name, command in COMMANDS.items():
        section = reference.describe_command(name, command)
        for parameter in reference.list_parameters(command):
            shown = re.split("[ ,]", reference.show_name(parameter))[0]
            assert f"`{shown}" in section, (name, parameter.name)
            row = re.escape(f"| `{shown}") + r"[ ,`]"
            assert re.search(row, section) or re.search(row, shared), (name, parameter.name)


def test_notes_name_existing_options():
    notes = reference.read_notes()
    shared = {option.opts[0] for option in reference.find_shared().values()}
    for name, note in notes.items():
        command = COMMANDS.get(name)
        options = (
            shared
            if command is None
            else {
                re.split("[ ,]", reference.show_name(parameter))[0] for parameter in reference.list_parameters(command)
            }
        )
        assert command is not None or name == "several commands", name
        assert set(note.get("options", {})) <= options, name


def test_describes_every_result_once():
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


def test_describes_every_file_entry():
    assert len(ENTRIES) > 20
    for path in ENTRIES:
        model = reference.find_file_model(path)
        assert all(reference.describe_fields(model, list(model.model_fields)).values()), path


def test_lists_every_section_of_the_service_file():
    sections = [field.annotation for field in ServiceConfig.model_fields.values()]
    names = set(re.findall(r"\b(\w+Config)\b", " ".join(map(str, sections))))
    assert names == {path.rpartition(".")[2] for path, page in ENTRIES.items() if page == "service-file.md"}


@pytest.mark.parametrize("package", reference.list_packages())
def test_lists_every_export(package):
    pytest.importorskip("griffe", reason="needs the extra docs")
    if package == "evenhand.service":
        pytest.importorskip("fastapi", reason="needs the extra serve")
    module = importlib.import_module(package)
    names = reference.list_names(package)
    assert set(names) == set(getattr(module, "__all__", names))
    assert [name for name in names if not hasattr(module, name)] == []


def test_renders_formulas_and_keeps_dollars():
    markdown = pytest.importorskip("markdown", reason="needs the extra docs")
    pytest.importorskip("latex2mathml", reason="needs the extra docs")
    from docs_hooks import FormulaExtension

    def render(text):
        return markdown.markdown(text, extensions=["tables", FormulaExtension()])

    assert "<mo>&#x02264;</mo>" in render(r"so $a \le b$.")
    for plain in ("from $5 to $6", "`$x$`", "US$ 5 and US$ 6", r"\$x\$"):
        assert "<math" not in render(plain)
