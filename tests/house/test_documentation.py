"""The documentation: examples run, the reference is complete, quoted figures are reproduced."""

import importlib
import importlib.util
import re
import runpy
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from importlib import import_module

import make_reference as reference
import pytest
import typer

from evenhand import auditing as auditing
from evenhand import genai, service
from evenhand.cli.main import app
from evenhand.schema import read_schema
from evenhand.service.settings import ServiceConfig
from evenhand.shields import read_plan
from support import ROOT, shortened

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return [text for kind, text in BLOCK.findall(page.read_text("utf-8")) if kind == language]


def name(page):
    return str(page.relative_to(ROOT))


LITTLE = {"time_limit": None, "max_boxes": 100, "samples": 500, "searched": 200}


@pytest.fixture
def quick(monkeypatch):
    """Limit the work of audits. A time limit would skip parts of them on a busy machine."""

    class Hurried(auditing.AuditConfig):
        def __init__(self, **settings):
            super().__init__(**{**settings, **LITTLE})

    monkeypatch.setattr(auditing, "AuditConfig", Hurried)
    monkeypatch.setattr(import_module("evenhand.auditing.analysis"), "AuditConfig", Hurried)


# First pages of a newcomer, which the short run includes.
FIRST = ("README.md", "docs/reference/python.md", "docs/how-to/audit-your-model.md")
SHOWN = shortened([page for page in PAGES if blocks(page, "python")], to=lambda page: name(page) in FIRST)


@pytest.mark.parametrize("page", SHOWN, ids=name)
def test_python_runs(page, tmp_path, monkeypatch, quick):
    code = "\n".join(blocks(page, "python"))
    if "mitigation.training" in code:
        pytest.importorskip("torch", reason="needs the extra torch")
    if "from fairlearn" in code:
        pytest.importorskip("fairlearn", reason="needs the extra fairlearn")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    with served(page, tmp_path) if SERVED in code else nullcontext(SERVED) as url:
        for kind, text in steps(page):
            # The small data set says as much about the code as the large one.
            text = text.replace('load_dataset("adult")', 'load_dataset("german")').replace(SERVED, url)
            if kind == "python":
                exec(compile(text, name(page), "exec"), names)
            else:
                type_commands(text)


def steps(page):
    """List the Python blocks of a page, and for a tutorial also its commands, in order."""
    kinds = ("python", "console") if page.parent.name == "tutorial" else ("python",)
    return [(kind, text) for kind, text in BLOCK.findall(page.read_text("utf-8")) if kind in kinds]


ELSEWHERE = ("pip install", "make demo", "evenhand audit --example adult --time-limit 30", "evenhand serve")
"""Commands that other tests run: CI installs the package and runs the first audit, and `served` runs the service."""

EVENHAND = f"{sys.executable} -c 'from evenhand.cli.main import main; main()'"


def type_commands(text):
    for command in re.findall(r"^\$ ((?:.*\\\n)*.*)", text, re.MULTILINE):
        if command.startswith(ELSEWHERE):
            continue
        for shown, typed in (
            (r"^evenhand", EVENHAND),
            (r"--time-limit \d+", "--time-limit 1"),
            ("--example adult", "--example german"),
            ("curl -s", "curl -sf"),
        ):
            command = re.sub(shown, typed, command)
        process = subprocess.run(["bash", "-ec", command], capture_output=True, text=True)
        assert process.returncode == 0, (command, process.stdout, process.stderr)


SERVED = "http://127.0.0.1:8000"


@contextmanager
def served(page, folder):
    """Serve the file and configuration of a page, or the demo, and yield the address."""
    pytest.importorskip("fastapi", reason="needs the extra serve")
    if any("openai" in text for text in blocks(page, "python")):
        pytest.importorskip("openai", reason="needs openai")
    from service.service_process import ServiceProcess

    for text in blocks(page, "yaml"):
        if text.startswith("conditions:"):
            (folder / "genai.yaml").write_text(text, "utf-8")
            break
    (config, *_) = *(text for text in blocks(page, "toml") if "[service]" in text), None
    with ServiceProcess(folder, config) as process:
        yield process.url


EXAMPLES = shortened(
    sorted((ROOT / "examples").glob("*.py")), to=lambda path: path.stem.endswith(("_network", "_endpoint"))
)


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_example_runs(example, tmp_path, monkeypatch, capsys, quick):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example))
    assert capsys.readouterr().out
    assert example.name in (ROOT / "examples" / "README.md").read_text("utf-8")


READERS = [  # what a block of a language has, and what reads it
    ("yaml", "\ntarget:", lambda path: read_schema(path).attributes),
    ("yaml", "\nproperty:", lambda path: read_plan(path).horizon),
    ("yaml", "\nspecifications:", lambda path: genai.check_feasibility(genai.GenerationConfig.read(path)).feasible),
    ("toml", "\n[service]", lambda path: service.ServiceConfig.read(path).model_fields_set & {"shields", "guards"}),
]
FILES = [
    pytest.param(text, language, read, id=name(page))
    for language, start, read in READERS
    for page in PAGES
    for text in blocks(page, language)
    if start in f"\n{text}"
]


@pytest.mark.parametrize(("text", "language", "read"), FILES)
def test_files_are_read(text, language, read, tmp_path):
    path = tmp_path / f"file.{language}"
    path.write_text(text, "utf-8")
    assert read(path)


def flat(commands, before=""):
    """Collect all commands by their full name, such as ``shield inspect``."""
    flattened = {}
    for name, command in commands.items():
        inner = getattr(command, "commands", None)
        flattened |= {before + name: command} if inner is None else flat(inner, f"{before}{name} ")
    return flattened


def test_the_example_service_is_feasible():
    folder = ROOT / "examples" / "service"
    config = service.ServiceConfig.read(folder / "evenhand.toml")
    assert config.service.keys
    assert read_plan(config.shields[0].plan).horizon
    assert genai.check_feasibility(genai.GenerationConfig.read(folder / config.guards[0].config)).feasible
    listed = (ROOT / "examples" / "README.md").read_text("utf-8")
    # A trial run leaves its store there.
    assert all(f"service/{path.name}" in listed for path in folder.iterdir() if ".db" not in path.name)


GROUPS = typer.main.get_command(app).commands
COMMANDS = flat(GROUPS)


def options(command):
    parameters = [one for one in command.get_params(typer.Context(command)) if one.param_type_name == "option"]
    names = {option for parameter in parameters for option in parameter.opts} - {"--help"}
    assert names
    return names


def commands_shown():
    """Yield every command of the documentation, with continued lines joined."""
    for page in (*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"):
        for text in blocks(page, "console"):
            for line in text.replace("\\\n", " ").splitlines():
                if match := re.match(r"\$ evenhand (\S+)(?: (\S+))?(.*)", line):
                    first, second, rest = match.groups(default="")
                    pair = f"{first} {second}"
                    yield name(page), *((pair, rest) if pair in COMMANDS else (first, f" {second}{rest}"))


def test_commands_shown_exist_with_their_options():
    shown = list(commands_shown())
    assert len(shown) > 10
    for page, command, rest in shown:
        assert command in COMMANDS | GROUPS, (page, command)
        quoted = re.sub(r"'[^']*'", "", rest)
        unknown = set(re.findall(r"--[a-z][a-z-]*", quoted)) - options((COMMANDS | GROUPS)[command])
        assert not unknown, (page, command, unknown)


REFERENCE_COMMANDS = reference.list_commands()


@pytest.fixture(scope="module")
def command_pages():
    return "\n".join(text for _, text in reference.command_pages())


def test_lists_every_command_and_option(command_pages):
    assert sorted(re.findall(r"^## evenhand (.+)$", command_pages, re.M)) == sorted(REFERENCE_COMMANDS)
    assert re.findall(r"\[`evenhand ([\w -]+)`\]", reference.table_of_commands()) == list(REFERENCE_COMMANDS)
    shared = reference.table_of_shared_options()
    for name, command in REFERENCE_COMMANDS.items():
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
        command = REFERENCE_COMMANDS.get(name)
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


def load_tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def rows_of_method(page):
    text = (ROOT / "docs" / "methods" / f"{page}.md").read_text("utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def assert_printed(cells, values):
    """Assert that each cell starts with the value, rounded to its decimals."""
    for cell, value in zip(cells, values, strict=True):
        printed = re.match(r"[\d,.]+", cell).group().replace(",", "")
        decimals = len(printed.partition(".")[2])
        assert abs(float(printed) - value) <= 0.5001 * 10**-decimals, (cell, value)


@pytest.mark.parametrize(
    ("page", "figures", "unit", "columns"),
    [
        ("fairquant", "find_undecided", "", slice(2, 5)),
        ("maft", "find_profiles", "", slice(1, 4)),
        ("testsgd", "find_coverage", " people", slice(1, 3)),
    ],
)
def test_quotes_reproduced_figures(page, figures, unit, columns):
    points = getattr(load_tool("draw_methods"), figures)()
    quoted = {row[0] + unit: row[columns] for row in rows_of_method(page) if row[0] + unit in points}
    assert len(quoted) > 3
    for name, cells in quoted.items():
        assert_printed(cells, points[name])


def test_quotes_figures_of_conditional_fairness():
    figures = load_tool("draw_methods").read_table("conditional_fairness", "Algorithm 1", "deadlines missed")
    missed = {figure["row"].partition("(")[2]: figure for figure in figures}
    quoted = [row for row in rows_of_method("conditional-fairness") if row[0][:1].isdigit()]
    assert len(quoted) > 5
    for deadlines, in_flight, *cells in quoted:
        figure = missed[f"{deadlines.removesuffix(' of five')}), {in_flight} in flight"]
        assert_printed(cells[:2], (figure["ours"]["value"], figure["default"]["value"]))


def test_quotes_figures_of_shields():
    tool = load_tool("draw_methods")
    ends = tool.read_table("shields", "Table 9", "runs that end above the threshold")
    periods = {row["row"]: row for row in tool.read_table("shields", "Table 2", "fair at the end of every period")}
    rows = rows_of_method("shields")
    above = [row[1:] for row in rows if row[0].endswith(("no shield", "parity, shield", "opportunity, shield"))]
    assert len(above) == len(ends) == 4
    for cells, figure in zip(above, ends, strict=True):
        assert_printed(cells, (figure["published"], figure["ours"]["value"]))
    for name, short in (("demographic parity", "DP"), ("equal opportunity", "EqOpp")):
        (cells,) = (row[1:] for row in rows if row[0] == name)
        figure = periods[f"{short}, Dynamic"]
        assert_printed(cells, (figure["published"], figure["ours"]["value"], figure["default"]["value"]))
