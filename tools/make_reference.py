"""Reference pages that are generated with the documentation: commands, results, file entries, papers, Python names.

The sources are the help of commands, the docstrings and schemas of classes, the names that packages export, and the
results of the reproductions. ``docs/reference/command-notes.yaml`` adds notes.
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
"""Number of commands with the same option from which the option is described once, on the page of all commands."""
SIGNS = {">": "above", ">=": "at least", "<": "below", "<=": "at most"}
WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}
PLURALS = {"text": "texts", "whole number": "whole numbers", "number": "numbers"}
NUMBERS = ("Proved", "Observed", "Estimated", "Descriptive", "Unknown")
"""Parts of results that are described on the page of all results."""


@cache
def write_pages() -> dict[str, str]:
    """Build every generated page and file, by its path below ``docs``."""
    return {f"reference/{path}": text for path, text in (*command_pages(), *result_pages(), *python_pages())}


def fill_in(page: str) -> str:
    """Replace each ``<!-- reference: NAME -->`` of a page by its generated content."""
    tables = {
        "commands": table_of_commands,
        "shared options": table_of_shared_options,
        "results": table_of_results,
        "fields of every result": table_of_common_fields,
        "data sets": table_of_data_sets,
        "papers": list_papers,
    } | {f"paper {name}": partial(build_tables, name) for name in PAPERS}

    def fill(directive: re.Match[str]) -> str:
        kind, _, name = directive[1].partition(" ")
        if kind == "entries":
            return table_of_entries(name)
        if kind == "metrics":
            return table_of_metrics(name.split(", "))
        return tables[directive[1]]()

    return re.sub(r"<!-- reference: ([\w ,.]+) -->", fill, page)


# Commands


@cache
def list_commands() -> dict[str, Any]:
    """Collect all commands by their full name."""
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
    """Read the notes about commands: ``about``, and ``options`` by name."""
    notes: dict[str, Any] = yaml.safe_load((REFERENCE / "command-notes.yaml").read_text(encoding="utf-8"))
    return notes


def list_parameters(command: Any) -> list[Any]:
    """List the parameters of a command, arguments first."""
    import typer

    parameters = [parameter for parameter in command.get_params(typer.Context(command)) if parameter.name != "help"]
    return sorted(parameters, key=lambda parameter: parameter.param_type_name != "argument")


def show_name(parameter: Any) -> str:
    """Format a parameter for the command line: ``DATA``, or ``--time-limit SECONDS``."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).strip("[]").upper()
    kind = getattr(parameter, "type_descriptor", None)
    words = str(kind.annotation if kind else parameter.type).lower()
    about = str(parameter.help).lower()
    path = "FOLDER" if "folder" in about else "FILE"
    other = "COLUMN" if "column" in about else "VALUE"
    value = next((value for word, value in (("path", path), ("int", "N"), ("float", "X")) if word in words), other)
    return f"{', '.join(parameter.opts)}" + ("" if parameter.is_flag else f" {parameter.metavar or value}")


def show_meaning(parameter: Any) -> str:
    """Render the help of a parameter as Markdown, with its default and range."""
    text, _, rest = str(parameter.help).partition("  [")
    notes = [show_note(part) for part in rest.removesuffix("]").split("; ")] if rest else []
    if parameter.param_type_name == "option":
        has_default = not rest and not parameter.multiple and parameter.default not in (None, False)
        notes += [f"default {parameter.default}"] if has_default else []
        notes += ["required"] if parameter.required else []
    parts = re.split(r"(?<!\w)'([^']+)'(?!\w)|(?<![\w-])(--[a-z][a-z-]*)", text)
    for index, part in enumerate(parts):
        is_prose = index % 3 == 0
        parts[index] = part.replace("<", "&lt;").replace("*", "\\*") if is_prose else part and f"`{part}`"
    return "".join(filter(None, parts)).replace("\n", " ") + (f" ({'; '.join(notes)})" if notes else "")


def show_note(note: str) -> str:
    """Format a default or a range: ``default 10``, ``at least 0, below 1``."""
    if note.startswith("default: "):
        return f"default {note.removeprefix('default: ').removesuffix('.0')}"
    match = re.fullmatch(r"(?:(.+?)(<=?))?x(?:([<>]=?)(.+))?", note)
    if match is None:
        return note
    low, below, sign, limit = match.groups()
    parts = [f"{'at least' if below == '<=' else 'above'} {low}"] if low else []
    return ", ".join([*parts, f"{SIGNS[sign]} {limit}"] if sign else parts)


def table_of_parameters(parameters: list[Any], command: str) -> str:
    """Build the table of some parameters, with their notes."""
    notes = read_notes().get(command, {}).get("options", {})
    rows = ["| option | meaning |", "| --- | --- |"]
    for parameter in parameters:
        name = show_name(parameter)
        note = notes.get(re.split(r"[ ,]", name)[0])
        rows.append(
            f"| `{name}` | {show_meaning(parameter)}{f'<br>{note}' if note else ''} |".replace("|COL", "\\|COL")
        )
    return "\n".join(rows) if parameters else ""


@cache
def find_shared() -> dict[tuple[str, str], Any]:
    """Find the options that several commands share, by name and meaning."""
    parameters = [parameter for command in list_commands().values() for parameter in list_parameters(command)]
    options = {
        (parameter.name, show_meaning(parameter)): parameter
        for parameter in parameters
        if parameter.param_type_name == "option"
    }
    counts = Counter((parameter.name, show_meaning(parameter)) for parameter in parameters)
    return {key: option for key, option in options.items() if counts[key] >= SEVERAL}


def table_of_shared_options() -> str:
    """Build the table of the options that several commands share."""
    return table_of_parameters(list(find_shared().values()), "several commands")


def table_of_commands() -> str:
    """Build the table of all commands, with links to their pages."""
    rows = [
        f"| [`evenhand {name}`](commands/{name.split()[0]}.md#evenhand-{name.replace(' ', '-')}) | "
        f"{str(command.help).partition(chr(10) * 2)[0].replace(chr(10), ' ')} |"
        for name, command in list_commands().items()
    ]
    return "\n".join(["| command | purpose |", "| --- | --- |", *rows])


def describe_command(name: str, command: Any) -> str:
    """Build the section of a command: usage, help, notes and options."""
    parameters = list_parameters(command)
    words = [
        show_name(parameter) if parameter.required else f"[{show_name(parameter)}]"
        for parameter in parameters
        if parameter.required or parameter.param_type_name == "argument"
    ]
    shared = [parameter for parameter in parameters if (parameter.name, show_meaning(parameter)) in find_shared()]
    names = ", ".join(f"`{parameter.opts[0]}`" for parameter in shared)
    link = f"[Options of several commands](../command-line.md#options-of-several-commands): {names}."
    parts = [
        f"## evenhand {name}",
        f"```text\nevenhand {' '.join([name, *words])} [OPTIONS]\n```",
        inspect.cleandoc(str(command.help)),
        read_notes().get(name, {}).get("about", "").strip(),
        table_of_parameters([parameter for parameter in parameters if parameter not in shared], name),
        link if shared else "",
    ]
    return "\n\n".join(filter(None, parts))


def command_pages() -> Iterator[tuple[str, str]]:
    """Build a page for every command or group of commands."""
    pages: dict[str, list[str]] = {}
    for name, command in list_commands().items():
        pages.setdefault(name.split()[0], []).append(describe_command(name, command))
    for name, sections in pages.items():
        yield f"commands/{name}.md", "\n\n".join([f"# {name}", *sections]) + "\n"


# Results


@cache
def list_results() -> dict[str, Any]:
    """Collect all result classes by name."""
    import evenhand
    from evenhand.core import Result

    for module in pkgutil.walk_packages(evenhand.__path__, "evenhand."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    queue, results = [Result], {}
    while queue:
        for result in queue.pop().__subclasses__():
            queue.append(result)
            own = result.__module__.startswith("evenhand.")
            if own and "const" in read_schema(result)["properties"]["kind"]:
                results[result.__name__] = result
    return dict(sorted(results.items()))


@cache
def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a result class."""
    return read_schema(list_results()[name])


def read_schema(result: Any) -> dict[str, Any]:
    """Return the JSON Schema of a class. That of a class that contains itself is a reference to a definition."""
    schema: dict[str, Any] = result.model_json_schema(mode="serialization")
    return schema.get("$defs", {}).get(result.__name__, {}) | schema


@cache
def find_class(name: str) -> type:
    """Find a class of the package by its name."""
    modules = [module for path, module in sorted(sys.modules.items()) if path.split(".")[0] == "evenhand"]
    candidates = [vars(module)[name] for module in modules if name in vars(module)]
    return next(candidate for candidate in candidates if inspect.isclass(candidate))


def page_of(name: str) -> str:
    """Return the name of the page that describes a result, or a part of one."""
    return find_class(name).__module__.split(".")[1]


def name_type(part: dict[str, Any], schema: dict[str, Any], page: str) -> str:
    """Describe the type of a value, with links to its parts."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        inner = schema["$defs"][name]
        if "properties" not in inner:
            return name_type(inner, schema, page)
        if name in NUMBERS:
            return "[number](../json-results.md#numbers)"
        home = page_of(name)
        return f"[{name}]({'' if home == page else home + '.md'}#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in part:
            names = list(dict.fromkeys(name_type(option, schema, page) for option in part[key]))
            return (", or " if any(" of " in name for name in names) else " or ").join(names)
    if "enum" in part or "const" in part:
        return ", ".join(f"`{value}`" for value in part.get("enum", [part.get("const")]))
    if part.get("type") == "array":
        kinds = [part["items"]] if isinstance(part.get("items"), dict) else part.get("prefixItems", [])
        names = list(dict.fromkeys(name_type(option, schema, page) for option in kinds))
        return f"list of {' and '.join(PLURALS.get(name, name) for name in names)}" if names else "list"
    if part.get("type") == "object":
        value_schema = part.get("additionalProperties")
        inside = name_type(value_schema, schema, page) if isinstance(value_schema, dict) and value_schema else ""
        return f"object of {PLURALS.get(inside, inside)}" if inside else "object"
    return WORDS.get(str(part.get("type")), "any value")


def describe_fields(cls: type, names: list[str]) -> dict[str, str]:
    """Collect the description of each field from the docstrings of a class and its bases."""
    descriptions: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        descriptions |= read_attributes(vars(base).get("__doc__") or "", names)
    for name in set(names) - descriptions.keys():
        method = inspect.getattr_static(cls, name, None)
        field = getattr(cls, "model_fields", {}).get(name)
        descriptions[name] = (field.description if field else inspect.getdoc(getattr(method, "wrapped", ""))) or ""
    return descriptions


def read_attributes(text: str, names: list[str]) -> dict[str, str]:
    """Read the section ``Attributes`` of a docstring: ``low, high: Interval. n: Number of people.``"""
    section = re.search(r"^\s*Attributes:\n(.*?)(?=\n\s*\n|\n    \w+:\n|\Z)", inspect.cleandoc(text), re.M | re.S)
    if section is None:
        return {}
    descriptions: dict[str, str] = {}
    name = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    label = re.compile(rf"(?:^|(?<=[;.] ))((?:{name})(?:(?:, | and )(?:{name}))*): ")
    for entry in re.split(r"\n    (?=\S)", "\n" + section[1]):
        flat = " ".join(entry.split())
        starts = list(label.finditer(flat))
        for start, following in zip(starts, [*starts[1:], None], strict=False):
            words = flat[start.end() : following.start() if following else len(flat)].strip().rstrip(";.")
            descriptions |= dict.fromkeys(re.split(r", | and ", start[1]), words)
    return descriptions


def show_text(text: str) -> str:
    """Convert a docstring to Markdown about JSON."""
    parts = re.split(r"(`[^`]*`)", text.replace("``", "`").replace("|", "\\|"))
    for index in range(0, len(parts), 2):
        prose = re.sub(r"\bNone\b", "null", parts[index]).replace("<", "&lt;").replace("*", "\\*")
        parts[index] = prose.replace("[", "\\[")
    return "".join(parts)


def table_of_fields(cls: type, fields: dict[str, Any], schema: dict[str, Any], page: str) -> str:
    """Build the table of some fields of a class."""
    descriptions = describe_fields(cls, list(fields))
    rows = [
        f"| `{name}`<br>{name_type(part, schema, page)} | {show_text(descriptions[name])} |"
        for name, part in fields.items()
    ]
    return "\n".join(["| field | meaning |", "| --- | --- |", *rows])


def table_of_common_fields() -> str:
    """Build the table of the fields of every result."""
    from evenhand.core import Result

    schema = schema_of(next(iter(list_results())))
    fields = {field: schema["properties"][field] for field in Result.model_fields} | {"kind": {"type": "string"}}
    return re.sub(r"\]\((\w+\.md)", r"](json/\1", table_of_fields(Result, fields, schema, "json-results"))


def describe_class(cls: type) -> str:
    """Render the docstring of a class up to its first section."""
    text = re.split(r"^(?:Attributes|Example|Examples|Raises):$", inspect.cleandoc(cls.__doc__ or ""), flags=re.M)[0]
    return show_text("\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n")))


def describe_result(name: str) -> str:
    """Build the section of a result: description, kind, schema and fields."""
    from evenhand.core import Result

    schema = schema_of(name)
    fields = {field: part for field, part in schema["properties"].items() if field not in Result.model_fields}
    about = f"`kind` is `{schema['properties']['kind']['const']}`; [JSON Schema](../schemas/{name}.json)."
    cls = list_results()[name]
    return "\n\n".join([f"## {name}", describe_class(cls), about, table_of_fields(cls, fields, schema, page_of(name))])


def describe_part(name: str, schema: dict[str, Any]) -> str:
    """Build the section of a part of results."""
    cls = find_class(name)
    table = table_of_fields(cls, schema["$defs"][name]["properties"], schema, page_of(name))
    return "\n\n".join(filter(None, [f"## {name}", describe_class(cls), table]))


def table_of_results() -> str:
    """Build the table of all kinds of results."""
    rows = []
    for name, cls in list_results().items():
        kind = schema_of(name)["properties"]["kind"]["const"]
        about = describe_class(cls).split("\n")[0]
        rows.append((kind, f"| `{kind}` | [{name}](json/{page_of(name)}.md#{name.lower()}) | {about} |"))
    return "\n".join(["| `kind` | fields | description |", "| --- | --- | --- |", *(row for _, row in sorted(rows))])


def result_pages() -> Iterator[tuple[str, str]]:
    """Build a JSON Schema for every result, and a page for every package with results."""
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
    """Return the JSON Schema of a result. It allows unknown fields, because readers ignore them."""

    def allow_unknown(part: Any) -> Any:
        if isinstance(part, dict):
            entries = {key: value for key, value in part.items() if (key, value) != ("additionalProperties", False)}
            if entries.get("title") == "Evenhand":
                entries.pop("default", None)  # the version of today
            return {key: allow_unknown(value) for key, value in entries.items()}
        return [allow_unknown(item) for item in part] if isinstance(part, list) else part

    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | allow_unknown(schema_of(name))


# Files


def find_file_model(path: str) -> type:
    """Import the class of a configuration file, by its module and name."""
    module, _, name = path.rpartition(".")
    model: type = getattr(importlib.import_module(module), name)
    return model


def table_of_entries(path: str) -> str:
    """Build the table of the entries that a file, or a part of one, may have."""
    model: Any = find_file_model(path)
    fields = {name: field for name, field in model.model_fields.items() if not field.exclude}
    meanings = describe_fields(model, list(fields))
    rows = [
        f"| `{field.alias or name}` | {show_text(meanings[name])} | {show_entry_default(field, meanings[name])} |"
        for name, field in fields.items()
    ]
    return "\n".join(["| entry | meaning | default |", "| --- | --- | --- |", *rows])


def show_entry_default(field: Any, meaning: str) -> str:
    """Return the default of an entry in the notation of its file, with its range, or choices that are not described."""
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if field.is_required():
        text = "required"
    elif default is None or hasattr(default, "model_fields") or default in ((), [], {}):
        text = ""
    else:
        text = f"`{json.dumps(default)}`"
    choices = [choice for choice in typing.get_args(field.annotation) if isinstance(choice, str)]
    limits = "" if choices and all(f"``{choice}``" in meaning for choice in choices) else show_limits(field)
    return (text + (f" ({limits})" if text and limits else limits)).replace("|", "\\|")


def table_of_metrics(families: list[str]) -> str:
    """Build the table of all metrics of some families."""
    from evenhand.stats.metric_specs import METRICS

    rows = [
        f"| `{spec.name}` | {spec.heading} | {'' if spec.comparison else spec.denominator} |"
        for spec in METRICS.values()
        if spec.family in families
    ]
    return "\n".join(["| name | meaning | of |", "| --- | --- | --- |", *rows])


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
    """Read the packages with a page, and their purposes, from the page about Python."""
    text = (REFERENCE / "python.md").read_text(encoding="utf-8")
    return dict(re.findall(r"\(python/(evenhand[\w.]*)\.md\) \| (.*) \|$", text, re.M))


@cache
def load_source() -> Any:
    """Parse the package without importing modules that need an extra."""
    import griffe

    return griffe.load("evenhand", search_paths=[ROOT / "src"])


def list_names(package: str) -> list[str]:
    """List the public names of a package. Without ``__all__``, its definitions classes and functions."""
    module = load_source()[package.removeprefix("evenhand.")]
    definitions = [
        name
        for name, member in module.members.items()
        if not member.is_alias and (member.is_class or member.is_function)
    ]
    return [str(name) for name in module.exports or [name for name in definitions if not name.startswith("_")]]


def find_name(package: str, name: str) -> Any:
    """Find the definition of a public name. None for a value unpacked from a tuple."""
    import griffe

    with contextlib.suppress(griffe.AliasResolutionError):
        member = load_source()[f"{package.removeprefix('evenhand.')}.{name}"]
        return member.final_target if member.is_alias else member
    return None


def table_of_settings(package: str, name: str) -> str:
    """Build the table of a configuration's settings. Empty for other classes."""
    from evenhand.core import Config

    with contextlib.suppress(ImportError):
        cls = getattr(importlib.import_module(package), name)
        if issubclass(cls, Config):
            fields = cls.model_fields.items()
            rows = [
                f"| `{setting}` | {show_default(field)} | {show_text(field.description or '')} |"
                for setting, field in fields
            ]
            return "\n".join(["| setting | default | meaning |", "| --- | --- | --- |", *rows])
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
    """Build a page for every package: its public names, functions and classes."""
    for package in list_packages():
        rows, functions, classes = [], [], []
        for name in list_names(package):
            member, path = find_name(package, name), f"{package}.{name}"
            text = member.docstring.value if member and member.docstring else ""
            line = show_text(" ".join(text.strip().split("\n\n")[0].split()))
            kind = functions if member and member.is_function else classes if member and member.is_class else None
            rows.append(f"| {f'`{name}`' if kind is None else f'[`{name}`][{path}]'} | {line} |")
            if kind is not None:
                kind += filter(None, [f"::: {path}", table_of_settings(package, name) if kind is classes else ""])
        about = load_source()[package.removeprefix("evenhand.")].docstring.value.strip()
        about = re.sub(r"^(?:.+\n)+└.*(?:\n.+)*", r"```text\n\g<0>\n```", about, flags=re.M)  # the tree of errors
        table = "\n".join(["| name | purpose |", "| --- | --- |", *rows])
        yield (
            f"python/{package}.md",
            "\n\n".join([f"# {package}", about, table, *functions, *classes]) + "\n",
        )
