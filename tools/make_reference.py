"""The reference that is made when the documentation is built: commands, fields of results, JSON Schemas, public names.

Everything comes from the package itself: the help of commands and options, the schemas and docstrings of results, the
names that packages export. ``docs/reference/command-notes.yaml`` adds what is written by hand.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import pkgutil
import re
import sys
import typing
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from reproductions.common import PAPERS, build_tables, list_papers  # noqa: E402

REFERENCE = ROOT / "docs" / "reference"
SEVERAL = 3
"""So many commands describe an option alike that it is described once, on the page of all commands."""
SIGNS = {">": "above", ">=": "at least", "<": "below", "<=": "at most"}
WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}
PLURALS = {"text": "texts", "whole number": "whole numbers", "number": "numbers"}
NUMBERS = ("Proved", "Observed", "Estimated", "Unknown")
"""Parts of results that the page of all results describes."""


@cache
def write_pages() -> dict[str, str]:
    """Return every page and file that is made, by its path below ``docs``."""
    return {f"reference/{path}": text for path, text in (*command_pages(), *result_pages(), *python_pages())}


def fill_in(page: str) -> str:
    """Return a written page with what is made put in the place of ``<!-- reference: NAME -->``."""
    made = {
        "commands": table_of_commands,
        "shared options": table_of_shared_options,
        "results": table_of_results,
        "fields of every result": table_of_common_fields,
        "data sets": table_of_data_sets,
        "papers": list_papers,
    } | {f"paper {name}": partial(build_tables, name) for name in PAPERS}

    def fill(directive: re.Match[str]) -> str:
        kind, _, name = directive[1].partition(" ")
        return table_of_entries(name) if kind == "entries" else made[directive[1]]()

    return re.sub(r"<!-- reference: ([\w .]+) -->", fill, page)


# Commands


@cache
def list_commands() -> dict[str, Any]:
    """Return every command by its whole name."""
    import typer

    from evenhand.cli.main import app

    groups = typer.main.get_command(app).commands
    return {
        f"{name} {inner}".strip(): command
        for name, group in groups.items()
        for inner, command in getattr(group, "commands", {"": group}).items()
    }


@cache
def read_notes() -> dict[str, Any]:
    """Return what is written by hand about commands: ``about``, and ``options`` by name."""
    notes: dict[str, Any] = yaml.safe_load((REFERENCE / "command-notes.yaml").read_text(encoding="utf-8"))
    return notes


def list_parameters(command: Any) -> list[Any]:
    """Return what a command takes: arguments first, then options."""
    import typer

    taken = [one for one in command.get_params(typer.Context(command)) if one.name != "help"]
    return sorted(taken, key=lambda one: one.param_type_name != "argument")


def show_name(parameter: Any) -> str:
    """Return a parameter as it is typed: ``DATA``, or ``--time-limit SECONDS``."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).strip("[]").upper()
    kind = getattr(parameter, "type_descriptor", None)
    words = str(kind.annotation if kind else parameter.type).lower()
    about = str(parameter.help).lower()
    place = "FOLDER" if "folder" in about else "FILE"
    text = "COLUMN" if "column" in about else "VALUE"
    value = next((value for word, value in (("path", place), ("int", "N"), ("float", "X")) if word in words), text)
    return f"{', '.join(parameter.opts)}" + ("" if parameter.is_flag else f" {parameter.metavar or value}")


def show_meaning(parameter: Any) -> str:
    """Return the help of a parameter as Markdown, with its default and range."""
    text, _, rest = str(parameter.help).partition("  [")
    notes = [show_note(part) for part in rest.removesuffix("]").split("; ")] if rest else []
    if parameter.param_type_name == "option":
        fixed = not rest and not parameter.multiple and parameter.default not in (None, False)
        notes += [f"default {parameter.default}"] if fixed else []
        notes += ["required"] if parameter.required else []
    parts = re.split(r"(?<!\w)'([^']+)'(?!\w)|(?<![\w-])(--[a-z][a-z-]*)", text)
    for place, part in enumerate(parts):
        plain = place % 3 == 0
        parts[place] = part.replace("<", "&lt;").replace("*", "\\*") if plain else part and f"`{part}`"
    return "".join(filter(None, parts)).replace("\n", " ") + (f" ({'; '.join(notes)})" if notes else "")


def show_note(note: str) -> str:
    """Return a default or a range in words: ``default 10``, ``at least 0, below 1``."""
    if note.startswith("default: "):
        return f"default {note.removeprefix('default: ').removesuffix('.0')}"
    found = re.fullmatch(r"(?:(.+?)(<=?))?x(?:([<>]=?)(.+))?", note)
    if found is None:
        return note
    low, below, sign, limit = found.groups()
    parts = [f"{'at least' if below == '<=' else 'above'} {low}"] if low else []
    return ", ".join([*parts, f"{SIGNS[sign]} {limit}"] if sign else parts)


def table_of_parameters(parameters: list[Any], command: str) -> str:
    """Return a table of parameters, each with what is written about it by hand."""
    notes = read_notes().get(command, {}).get("options", {})
    rows = ["| option | meaning |", "| --- | --- |"]
    for one in parameters:
        name = show_name(one)
        note = notes.get(re.split(r"[ ,]", name)[0])
        rows.append(f"| `{name}` | {show_meaning(one)}{f'<br>{note}' if note else ''} |".replace("|COL", "\\|COL"))
    return "\n".join(rows) if parameters else ""


@cache
def find_shared() -> dict[tuple[str, str], Any]:
    """Return the options that several commands describe alike, by name and meaning."""
    every = [one for command in list_commands().values() for one in list_parameters(command)]
    options = {(one.name, show_meaning(one)): one for one in every if one.param_type_name == "option"}
    times = Counter((one.name, show_meaning(one)) for one in every)
    return {key: one for key, one in options.items() if times[key] >= SEVERAL}


def table_of_shared_options() -> str:
    """Return the table of what several commands take."""
    return table_of_parameters(list(find_shared().values()), "several commands")


def table_of_commands() -> str:
    """Return a table of every command with its page and what it does."""
    rows = [
        f"| [`evenhand {name}`](commands/{name.split()[0]}.md#evenhand-{name.replace(' ', '-')}) | "
        f"{str(command.help).partition(chr(10) * 2)[0].replace(chr(10), ' ')} |"
        for name, command in list_commands().items()
    ]
    return "\n".join(["| command | what it does |", "| --- | --- |", *rows])


def describe_command(name: str, command: Any) -> str:
    """Return how a command is called, what it does, and what it takes."""
    taken = list_parameters(command)
    words = [
        show_name(one) if one.required else f"[{show_name(one)}]"
        for one in taken
        if one.required or one.param_type_name == "argument"
    ]
    shared = [one for one in taken if (one.name, show_meaning(one)) in find_shared()]
    names = ", ".join(f"`{one.opts[0]}`" for one in shared)
    link = f"[Options of several commands](../command-line.md#options-of-several-commands): {names}."
    parts = [
        f"## evenhand {name}",
        f"```text\nevenhand {' '.join([name, *words])} [OPTIONS]\n```",
        inspect.cleandoc(str(command.help)),
        read_notes().get(name, {}).get("about", "").strip(),
        table_of_parameters([one for one in taken if one not in shared], name),
        link if shared else "",
    ]
    return "\n\n".join(filter(None, parts))


def command_pages() -> Iterator[tuple[str, str]]:
    """Yield a page for every command, or group of commands."""
    pages: dict[str, list[str]] = {}
    for name, command in list_commands().items():
        pages.setdefault(name.split()[0], []).append(describe_command(name, command))
    for name, sections in pages.items():
        yield f"commands/{name}.md", "\n\n".join([f"# {name}", *sections]) + "\n"


# Results


@cache
def list_results() -> dict[str, Any]:
    """Return every class of results, by name."""
    import evenhand
    from evenhand.core import Result

    for module in pkgutil.walk_packages(evenhand.__path__, "evenhand."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    waiting, found = [Result], {}
    while waiting:
        for one in waiting.pop().__subclasses__():
            waiting.append(one)
            own = one.__module__.startswith("evenhand.")
            if own and "const" in one.model_json_schema()["properties"]["kind"]:
                found[one.__name__] = one
    return dict(sorted(found.items()))


@cache
def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a class of results."""
    schema: dict[str, Any] = list_results()[name].model_json_schema(mode="serialization")
    return schema


@cache
def find_class(name: str) -> type:
    """Return a class of the package by its name."""
    modules = [module for path, module in sorted(sys.modules.items()) if path.split(".")[0] == "evenhand"]
    found = [vars(module)[name] for module in modules if name in vars(module)]
    return next(one for one in found if inspect.isclass(one))


def page_of(name: str) -> str:
    """Return the page that describes a result or a part of one: that of its package."""
    return find_class(name).__module__.split(".")[1]


def name_type(part: dict[str, Any], schema: dict[str, Any], page: str) -> str:
    """Return the type of a value in words, with links to the parts that it is made of."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        inner = schema["$defs"][name]
        if "properties" not in inner:
            return name_type(inner, schema, page)
        if name in NUMBERS:
            return "[number found](../json-results.md#numbers)"
        home = page_of(name)
        return f"[{name}]({'' if home == page else home + '.md'}#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in part:
            names = list(dict.fromkeys(name_type(one, schema, page) for one in part[key]))
            return (", or " if any(" of " in name for name in names) else " or ").join(names)
    if "enum" in part or "const" in part:
        return ", ".join(f"`{one}`" for one in part.get("enum", [part.get("const")]))
    if part.get("type") == "array":
        kinds = [part["items"]] if isinstance(part.get("items"), dict) else part.get("prefixItems", [])
        names = list(dict.fromkeys(name_type(one, schema, page) for one in kinds))
        return f"list of {' and '.join(PLURALS.get(name, name) for name in names)}" if names else "list"
    if part.get("type") == "object":
        values = part.get("additionalProperties")
        inside = name_type(values, schema, page) if isinstance(values, dict) and values else ""
        return f"object of {PLURALS.get(inside, inside)}" if inside else "object"
    return WORDS.get(str(part.get("type")), "any value")


def describe_fields(found: type, names: list[str]) -> dict[str, str]:
    """Return what the docstring of a class, or of a base, says of each field."""
    said: dict[str, str] = {}
    for one in reversed(found.__mro__):
        said |= read_attributes(vars(one).get("__doc__") or "", names)
    for name in set(names) - said.keys():
        method = inspect.getattr_static(found, name, None)
        field = getattr(found, "model_fields", {}).get(name)
        said[name] = (field.description if field else inspect.getdoc(getattr(method, "wrapped", ""))) or ""
    return said


def read_attributes(text: str, names: list[str]) -> dict[str, str]:
    """Return what the section ``Attributes`` of a docstring says of each field: ``low, high: its interval; n: ...``."""
    section = re.search(r"^\s*Attributes:\n(.*?)(?=\n\s*\n|\n    \w+:\n|\Z)", inspect.cleandoc(text), re.M | re.S)
    if section is None:
        return {}
    said: dict[str, str] = {}
    one = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    label = re.compile(rf"(?:^|(?<=[;.] ))((?:{one})(?:(?:, | and )(?:{one}))*): ")
    for entry in re.split(r"\n    (?=\S)", "\n" + section[1]):
        flat = " ".join(entry.split())
        starts = list(label.finditer(flat))
        for start, following in zip(starts, [*starts[1:], None], strict=False):
            words = flat[start.end() : following.start() if following else len(flat)].strip().rstrip(";.")
            said |= dict.fromkeys(re.split(r", | and ", start[1]), words)
    return said


def show_text(text: str) -> str:
    """Return the words of a docstring as Markdown about JSON."""
    parts = re.split(r"(`[^`]*`)", text.replace("``", "`").replace("|", "\\|"))
    for place in range(0, len(parts), 2):
        plain = re.sub(r"\bNone\b", "null", parts[place]).replace("<", "&lt;").replace("*", "\\*")
        parts[place] = plain.replace("[", "\\[")
    return "".join(parts)


def table_of_fields(found: type, fields: dict[str, Any], schema: dict[str, Any], page: str) -> str:
    """Return the table of some fields of a class."""
    said = describe_fields(found, list(fields))
    rows = [f"| `{one}`<br>{name_type(part, schema, page)} | {show_text(said[one])} |" for one, part in fields.items()]
    return "\n".join(["| field | meaning |", "| --- | --- |", *rows])


def table_of_common_fields() -> str:
    """Return the table of the fields that every result has."""
    from evenhand.core import Result

    schema = schema_of(next(iter(list_results())))
    fields = {field: schema["properties"][field] for field in Result.model_fields} | {"kind": {"type": "string"}}
    return re.sub(r"\]\((\w+\.md)", r"](json/\1", table_of_fields(Result, fields, schema, "json-results"))


def describe_class(found: type) -> str:
    """Return what a class is: its docstring up to the first section."""
    text = re.split(r"^(?:Attributes|Example|Examples|Raises):$", inspect.cleandoc(found.__doc__ or ""), flags=re.M)[0]
    return show_text("\n\n".join(" ".join(one.split()) for one in text.strip().split("\n\n")))


def describe_result(name: str) -> str:
    """Return the section of a result: what it is, its kind, its schema, and its own fields."""
    from evenhand.core import Result

    schema = schema_of(name)
    fields = {field: part for field, part in schema["properties"].items() if field not in Result.model_fields}
    about = f"`kind` is `{schema['properties']['kind']['const']}`; [JSON Schema](../schemas/{name}.json)."
    found = list_results()[name]
    return "\n\n".join(
        [f"## {name}", describe_class(found), about, table_of_fields(found, fields, schema, page_of(name))]
    )


def describe_part(name: str, schema: dict[str, Any]) -> str:
    """Return the section of a part of results: what it is, and its fields."""
    found = find_class(name)
    table = table_of_fields(found, schema["$defs"][name]["properties"], schema, page_of(name))
    return "\n\n".join(filter(None, [f"## {name}", describe_class(found), table]))


def table_of_results() -> str:
    """Return a table of every kind of result with its page and what it is."""
    rows = []
    for name, found in list_results().items():
        kind = schema_of(name)["properties"]["kind"]["const"]
        about = describe_class(found).split("\n")[0]
        rows.append((kind, f"| `{kind}` | [{name}](json/{page_of(name)}.md#{name.lower()}) | {about} |"))
    return "\n".join(["| `kind` | fields | what it is |", "| --- | --- | --- |", *(row for _, row in sorted(rows))])


def result_pages() -> Iterator[tuple[str, str]]:
    """Yield a JSON Schema for every result, and a page for every package that has results or parts of them."""
    pages: dict[str, dict[str, str]] = {}
    for name in list_results():
        schema = json.dumps(describe_schema(name), indent=1, ensure_ascii=False)
        yield f"schemas/{name}.json", schema + "\n"
        pages.setdefault(page_of(name), {})[name] = describe_result(name)
    for result in list_results():
        parts = {name for name, part in schema_of(result).get("$defs", {}).items() if "properties" in part}
        for name in sorted(parts - {*NUMBERS, *list_results()}):
            pages.setdefault(page_of(name), {}).setdefault(name, describe_part(name, schema_of(result)))
    for page, sections in pages.items():
        yield f"json/{page}.md", "\n\n".join([f"# JSON: {page}", *sections.values()]) + "\n"


def describe_schema(name: str) -> Any:
    """Return the JSON Schema of a result that allows fields which it does not know, as readers ignore them."""

    def allow_more(part: Any) -> Any:
        if isinstance(part, dict):
            kept = {key: value for key, value in part.items() if (key, value) != ("additionalProperties", False)}
            if kept.get("title") == "Evenhand":
                kept.pop("default", None)  # the version of today
            return {key: allow_more(value) for key, value in kept.items()}
        return [allow_more(one) for one in part] if isinstance(part, list) else part

    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | allow_more(schema_of(name))


# Files


def find_file_model(path: str) -> type:
    """Return the class of a configuration file, by its module and name."""
    module, _, name = path.rpartition(".")
    model: type = getattr(importlib.import_module(module), name)
    return model


def table_of_entries(path: str) -> str:
    """Build the table of the entries that a file, or a part of one, may have."""
    model: Any = find_file_model(path)
    fields = {name: field for name, field in model.model_fields.items() if not field.exclude}
    meanings = describe_fields(model, list(fields))
    rows = [
        f"| `{field.alias or name}` | {show_text(meanings[name])} | {show_entry_default(field)} |"
        for name, field in fields.items()
    ]
    return "\n".join(["| entry | meaning | default |", "| --- | --- | --- |", *rows])


def show_entry_default(field: Any) -> str:
    """Return the default of an entry in the notation of its file, with its range or choices."""
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if field.is_required():
        text = "required"
    elif default is None or hasattr(default, "model_fields") or default in ((), [], {}):
        text = ""
    else:
        text = f"`{json.dumps(default)}`"
    limits = show_limits(field)
    return (text + (f" ({limits})" if text and limits else limits)).replace("|", "\\|")


def table_of_data_sets() -> str:
    """Build the table of all data sets."""
    from evenhand.datasets import dataset_cards

    rows = [
        f"| `{card.name}` | {card.rows:,} | {card.about} | {', '.join(card.protected)} | `{card.favourable}` | "
        f"{card.licence} | {'bundled' if card.place == 'bundled' else 'publisher'} |"
        for card in dataset_cards()
    ]
    head = "| name | rows | about | protected | favourable | licence | source |"
    return "\n".join([head, "| --- | ---: | --- | --- | --- | --- | --- |", *rows])


# Python


@cache
def list_packages() -> dict[str, str]:
    """Return the packages that have a page, with what they are for: the table of the written page about Python."""
    text = (REFERENCE / "python.md").read_text(encoding="utf-8")
    return dict(re.findall(r"\(python/(evenhand[\w.]*)\.md\) \| (.*) \|$", text, re.M))


@cache
def load_source() -> Any:
    """Return the package as it is written, without importing what needs an extra."""
    import griffe

    return griffe.load("evenhand", search_paths=[ROOT / "src"])


def list_names(package: str) -> list[str]:
    """Return the public names of a package; without ``__all__`` the classes and functions that it defines."""
    module = load_source()[package.removeprefix("evenhand.")]
    own = [name for name, one in module.members.items() if not one.is_alias and (one.is_class or one.is_function)]
    return [str(name) for name in module.exports or [name for name in own if not name.startswith("_")]]


def find_name(package: str, name: str) -> Any:
    """Return the definition of a public name; None of a value that is unpacked from a tuple."""
    import griffe

    with contextlib.suppress(griffe.AliasResolutionError):
        one = load_source()[f"{package.removeprefix('evenhand.')}.{name}"]
        return one.final_target if one.is_alias else one
    return None


def table_of_settings(package: str, name: str) -> str:
    """Return the table of a configuration's settings; nothing for any other class."""
    from evenhand.core import Config

    with contextlib.suppress(ImportError):
        found = getattr(importlib.import_module(package), name)
        if issubclass(found, Config):
            fields = found.model_fields.items()
            rows = [
                f"| `{one}` | {show_default(field)} | {show_text(field.description or '')} |" for one, field in fields
            ]
            return "\n".join(["| setting | default | |", "| --- | --- | --- |", *rows])
    return ""


def show_default(field: Any) -> str:
    """Return the default of a setting, with its unit and range."""
    notes = show_limits(field)
    default = "required" if field.is_required() else f"`{field.get_default(call_default_factory=True)!r}`"
    return (default + (f" ({notes})" if notes else "")).replace("|", "\\|")


def show_limits(field: Any) -> str:
    """Return the unit, the range and the choices of a setting."""
    names = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    limits = [
        f"{word} {getattr(limit, key)}"
        for limit in field.metadata
        for key, word in names.items()
        if hasattr(limit, key)
    ]
    unit = (field.json_schema_extra or {}).get("unit")
    choices = [choice for choice in typing.get_args(field.annotation) if isinstance(choice, str)]
    return ", ".join(filter(None, [unit, " and ".join(limits), " or ".join(choices)]))


def python_pages() -> Iterator[tuple[str, str]]:
    """Yield a page for every package: its public names, then functions and classes one by one."""
    for package in list_packages():
        rows, functions, classes = [], [], []
        for name in list_names(package):
            one, path = find_name(package, name), f"{package}.{name}"
            text = one.docstring.value if one and one.docstring else ""
            line = show_text(" ".join(text.strip().split("\n\n")[0].split()))
            kind = functions if one and one.is_function else classes if one and one.is_class else None
            rows.append(f"| {f'`{name}`' if kind is None else f'[`{name}`][{path}]'} | {line} |")
            if kind is not None:
                kind += filter(None, [f"::: {path}", table_of_settings(package, name) if kind is classes else ""])
        about = load_source()[package.removeprefix("evenhand.")].docstring
        table = "\n".join(["| name | |", "| --- | --- |", *rows])
        yield (
            f"python/{package}.md",
            "\n\n".join([f"# {package}", about.value.strip(), table, *functions, *classes]) + "\n",
        )
