"""Screens, pages, docs, help and public names use the words of docs/reference/glossary.md.

``REFUSED`` lists what those words replace. Docstrings and comments are prose for those who read the code; what a user
may see is every other text in the source, the templates and scripts of pages, and the documentation.
"""

import ast
import contextlib
import importlib
import inspect
import pkgutil
import re

import pytest
import typer
from sources import PACKAGE, nodes_of

import evenhand
from evenhand.cli.main import app
from evenhand.cli.options import PARAMETER, name_options
from support import ROOT

REFUSED = {
    r"\bflips for\s+[\d{]": "counterfactual flip rate",
    r"\bviolation rate": "counterfactual flip rate",
    r"\b(everyone|everybody|people) who could (apply|exist)\b": "simulated population, plausible profiles",
    r"\bprofiles that could exist\b": "plausible profiles",
    r"\bprovably (the )?(same|different)\b": "certified fair, certified unfair",
    r"\bgroup gap\b": "demographic parity difference",
    r"\bscore minus truth\b|\bcame true\b": "calibration error, observed rate",
    r"\bDo scores mean what they say\b": "calibration by group",
    r"\bwhat an individual is\b": "data schema",
    r"\bof whom\b": "population",
    r"\b(learnt from|chosen on|compared on)\b": "training, validation, test set",
    r"\brule sets looked at\b|\blooked at together\b|\bst(and|ands|ood) out\b": "tested, significant after adjustment",
    r"\bhow many are looked at\b": "multiple-testing correction",
    r"anything[-_]goes|least[-_](people|texts)": "--allow-infeasible, --min-size",
    r"\bstopped by (done|time)\b": "complete, time limit reached",
    r"\bharm that moved\b|\bmoved elsewhere\b": "regression for another group",
    r"\bleast beta\b|\bleast_beta\b": "longest wait",
    r"\bdeadline is worth\b": "success probability of the deadline",
    r"\b(with|without) the shield\b|\boverridden\b": "before, after the shield, interventions",
    r"(?<!there )(?<!where )\b(is|was) no (?!(longer|more|less|worse|better|larger|other|limit)\b)\w": "is not a ...",
    r"['\"`]mend['\"`]": "hint",
    r"\banew\b": "again, recomputed, retrained",
    r"\bwhoever\b": "anyone who, whatever people",
}

PATTERN = re.compile("|".join(f"(?:{one})" for one in REFUSED), re.IGNORECASE)

NAMES = re.compile(
    r"(^|_)(desk|bench|workbench|hall|leftovers|keeper|lanes|nudge|lots|bylot|draft|lesson|withheld|owed|begun|mend)($|_)"
    r"|^(Desk|Bench|Workbench|Play|Hall|Kept|Leftovers|Notes|Book|Keeper|Ring|Journal|Standing|Lot|Course|Walk|Reach|"
    r"Act|Owed|Ids|Tally|Slack|Lanes|ByLot|Draft|Harm|Lesson)$"
)
"""Words of the glossary's second table, as names or parts of names."""


def texts_of(path):
    """Every text of a module that is no docstring, with its line."""
    nodes, prose = nodes_of(path), set()
    for node in nodes:
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else []:
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                prose.add(id(one.value))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


OPTION = re.compile(r"(?<![\w-])--[a-z]")
DOCUMENTS = re.compile(r"(\w+_)?wording\.py|result\.py|generate\.py|save\.py|page_template\.py")
"""Modules whose texts are documents: they offer a next step by its command."""


def test_errors_of_the_library_name_parameters():
    """A Python caller is not told of ``--options``: errors name the parameter, and the command line its option."""
    doors = {"cli", "service"}  # which nothing but a command starts
    paths = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in doors]
    assert [
        f"{path.relative_to(ROOT)}:{number}: {text!r}"
        for path in paths
        if not DOCUMENTS.fullmatch(path.name)
        for number, text in texts_of(path)
        if OPTION.search(text)
    ] == []


def test_every_parameter_that_errors_name_is_an_option():
    reference = ROOT / "docs" / "reference"
    pages = (reference / "command-line.md", *(reference / "commands").glob("*.md"))
    listed = "".join(page.read_text("utf-8") for page in pages)
    named = {
        (path.name, found.group(0))
        for path in PACKAGE.rglob("*.py")
        for _, text in texts_of(path)
        for found in PARAMETER.finditer(text)
    }
    assert ("columns.py", "`protected=NAME`") in named
    options = {name_options(parameter).split()[0] for _, parameter in named}
    assert {option for option in options if option not in listed} == set()


def refused_in(path):
    is_module = path.suffix == ".py"
    lines = texts_of(path) if is_module else enumerate(path.read_text("utf-8").split("\n"), 1)
    where = path.relative_to(ROOT).as_posix()
    return [f"{where}:{number}: {found.group(0)!r}" for number, line in lines for found in PATTERN.finditer(line)]


def said_by(command, path="evenhand"):
    yield path, command.help or ""
    for option in command.get_params(typer.Context(command)):
        yield f"{path} {option.name}", f"{getattr(option, 'help', '') or ''} {' '.join(option.opts)}"
    for name, one in getattr(command, "commands", {}).items():
        yield from said_by(one, f"{path} {name}")


PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "mkdocs.yml",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
ASSETS = sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".html", ".js", ".css", ".yaml"))


def test_screens_and_pages_use_the_words_of_the_glossary():
    assert [refused for path in (*PAGES, *ASSETS) for refused in refused_in(path)] == []


def test_help_uses_the_words_of_the_glossary():
    said = list(said_by(typer.main.get_command(app)))
    assert len(said) > 100
    assert [f"{path}: {text}" for path, text in said if PATTERN.search(text)] == []


def doors():
    """The packages that can be imported: those of an extra only where it is installed."""
    for module in pkgutil.walk_packages(evenhand.__path__, "evenhand."):
        if module.ispkg and not any(part.startswith("_") for part in module.name.split(".")):
            with contextlib.suppress(ImportError):
                yield importlib.import_module(module.name)


def test_public_names_are_words_of_the_field():
    names = {f"{door.__name__}.{name}" for door in doors() for name in getattr(door, "__all__", ())}
    assert len(names) > 300
    assert sorted(name for name in names if NAMES.search(name.rpartition(".")[2])) == []


@pytest.mark.parametrize(
    "text", ["sex flips for 9.1 % of them", "The group gap is 3 %", "'x' is no number", "--anything-goes", "stands out"]
)
def test_the_pattern_finds_what_it_refuses(text):
    assert PATTERN.search(text)


NOUNS = frozenset(
    ("The", "A", "An", "One", "Two", "Whether", "How", "What", "Which", "Who", "Whom", "Whose", "Where", "When",
     "Why", "Every", "Each", "All", "Some", "No", "Several", "As", "For", "By", "Of", "In", "Interval", "Probability",
     "Labels", "People", "Names", "Rows", "Texts", "Bounds", "Raises")
)  # fmt: skip
"""Words that no imperative sentence begins with."""


def public_functions():
    for door in doors():
        for name in getattr(door, "__all__", ()):
            try:
                thing = getattr(door, name)
            except ImportError:  # it needs an extra
                continue
            if inspect.isfunction(thing) and thing.__module__.startswith("evenhand."):
                yield thing.__module__, name, inspect.getdoc(thing) or ""


def test_public_functions_say_what_to_do_in_the_imperative():
    functions = {(module, name): text for module, name, text in public_functions()}
    assert len(functions) > 150
    nouns = {
        f"{module}.{name}: {text.split(chr(10))[0]}"
        for (module, name), text in functions.items()
        if re.split(r"[\s,:;.]", text, maxsplit=1)[0] in NOUNS
    }
    assert sorted(nouns) == []
