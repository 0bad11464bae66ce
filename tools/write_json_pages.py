#!/usr/bin/env python3
"""Write what the JSON of every result holds into docs/reference/json: each field with its type and its meaning.

Run it after a field of a result is added, renamed or described differently; a test says when a page is not of today.
What stands between two marks comes from the classes themselves: types as in their JSON Schemas, meanings as in their
docstrings. What stands around the marks is written by hand.
"""

from __future__ import annotations

import inspect
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference" / "json"
INDEX = ROOT / "docs" / "reference" / "json-results.md"
BLOCK = re.compile(
    r"(<!-- (fields|parts) of ([\w ]+): by tools/write_json_pages\.py -->\n).*?(<!-- end of \2 -->)", re.S
)
COMMON = "several pages"
NUMBERS = {"Proved", "Observed", "Estimated", "Unknown"}
"""Parts that are described by hand in the index."""
HEAD = "| field | meaning |\n| --- | --- |"
WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}
SEVERAL = {"text": "texts", "whole number": "whole numbers", "number": "numbers"}


@cache
def list_results() -> dict[str, type]:
    """Return every class of results, by name."""
    sys.path.insert(0, str(ROOT / "tools"))
    import write_json_schemas

    return write_json_schemas.list_results()


@cache
def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a class of results."""
    found: dict[str, Any] = list_results()[name].model_json_schema(mode="serialization")  # type: ignore[attr-defined]  # results are pydantic models
    return found


@cache
def find_class(name: str) -> type:
    """Return a class of the package by its name, which no other has."""
    found = [
        one
        for module in list(sys.modules.values())
        if getattr(module, "__name__", "").startswith("evenhand")
        for one in [vars(module).get(name)]
        if inspect.isclass(one)
    ]
    return found[0]


def refer(part: Any) -> list[str]:
    """Return the names of the classes that a piece of a schema refers to, in their order."""
    if isinstance(part, dict):
        own = [part["$ref"].rpartition("/")[2]] if "$ref" in part else []
        return own + [name for key, value in part.items() if key != "discriminator" for name in refer(value)]
    return [name for one in part for name in refer(one)] if isinstance(part, list) else []


def list_parts(result: str) -> list[str]:
    """Return the parts that a result holds, with those of its parts; not those of other results within it."""
    schema, found = schema_of(result), []
    waiting = refer(schema["properties"])
    while waiting:
        name = waiting.pop(0)
        if name in found or name in list_results() or name in NUMBERS or name == "Work":
            continue
        if "properties" in schema["$defs"][name]:
            found.append(name)
        waiting = refer(schema["$defs"][name]) + waiting
    return found


@cache
def place_parts() -> dict[str, str]:
    """Return the page on which each part is described: that of the results that hold it, or that of several pages."""
    pages = {
        name: path.stem
        for path in sorted(PAGES.glob("*.md"))
        for _, kind, name, _ in BLOCK.findall(path.read_text(encoding="utf-8"))
        if kind == "fields"
    }
    places: dict[str, set[str]] = {}
    for result, page in pages.items():
        for part in list_parts(result):
            places.setdefault(part, set()).add(page)
    return pages | {part: next(iter(found)) if len(found) == 1 else "common" for part, found in places.items()}


@cache
def list_anchors() -> dict[str, str]:
    """Return the anchor of every result: its heading as an address has it."""
    heading = re.compile(r"^## (.+)$(?:\n(?!## ).*)*?\n<!-- fields of (\w+):", re.M)
    pages = [path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")]
    return {name: words.replace(" ", "-") for page in pages for words, name in heading.findall(page)}


def name_type(part: dict[str, Any], schema: dict[str, Any], page: str) -> str:
    """Return the type of a value in words, with links to the parts that it is made of."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        inner = schema["$defs"][name]
        if "properties" not in inner:
            return name_type(inner, schema, page)
        if name in NUMBERS:
            return "[number found](../json-results.md#numbers)"
        if name == "Work":
            return "object"
        home = place_parts().get(name, "common")
        return f"[{name}]({'' if home == page else home + '.md'}#{list_anchors().get(name, name.lower())})"
    for key in ("anyOf", "oneOf"):
        if key in part:
            names = list(dict.fromkeys(name_type(one, schema, page) for one in part[key]))
            return (", or " if any(" of " in name for name in names) else " or ").join(names)
    if "enum" in part or "const" in part:
        return ", ".join(f"`{one}`" for one in part.get("enum", [part.get("const")]))
    if part.get("type") == "array":
        kinds = [part["items"]] if isinstance(part.get("items"), dict) else part.get("prefixItems", [])
        names = dict.fromkeys(name_type(one, schema, page) for one in kinds)
        return f"list of {' and '.join(SEVERAL.get(name, name) for name in names)}" if names else "list"
    if part.get("type") == "object":
        values = part.get("additionalProperties")
        if not isinstance(values, dict) or not values:
            return "object"
        inside = name_type(values, schema, page)
        return f"object of {SEVERAL.get(inside, inside)}"
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
    return {name: said[name] for name in names}


def read_attributes(text: str, names: list[str]) -> dict[str, str]:
    """Return what the section ``Attributes`` of a docstring says of each field: ``low, high: its interval; n: ...``."""
    section = re.search(r"^\s*Attributes:\n(.*?)(?=\n\s*\n|\n    \w+:\n|\Z)", inspect.cleandoc(text), re.M | re.S)
    if section is None:
        return {}
    said = {}
    one = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    label = re.compile(rf"(?:^|(?<=[;.] ))((?:{one})(?:(?:, | and )(?:{one}))*): ")
    for entry in re.split(r"\n    (?=\S)", "\n" + section[1]):
        flat = " ".join(entry.split())
        starts = list(label.finditer(flat))
        for start, following in zip(starts, [*starts[1:], None], strict=False):
            words = flat[start.end() : following.start() if following else len(flat)].strip().rstrip(";.")
            said |= dict.fromkeys(re.split(r", | and ", start[1]), words)
    return said


def write_meaning(text: str) -> str:
    """Return the words of a docstring as those of a table about JSON."""
    text = text.replace("``", "`").replace("|", "\\|")
    parts = re.split(r"(`[^`]*`)", text)
    for place in range(0, len(parts), 2):
        plain = re.sub(r"\bNone\b", "null", parts[place]).replace("<", "&lt;").replace("*", "\\*")
        parts[place] = plain.replace("[", "\\[")
    return "".join(parts)


def list_fields(name: str, schema: dict[str, Any], page: str) -> str:
    """Return the table of a class's fields, without those that every result has."""
    from evenhand.core import Result

    own = schema["properties"] if name in list_results() else schema["$defs"][name]["properties"]
    names = [field for field in own if not (name in list_results() and field in Result.model_fields)]
    return write_table(find_class(name), {field: own[field] for field in names}, schema, page)


def list_common_fields() -> str:
    """Return the table of the fields that every result has."""
    from evenhand.core import Result

    schema = schema_of(next(iter(list_results())))
    own = {field: schema["properties"][field] for field in Result.model_fields}
    return write_table(Result, own | {"kind": {"type": "string"}}, schema, INDEX.stem).replace(
        "](common.md#", "](json/common.md#"
    )


def write_table(found: type, own: dict[str, Any], schema: dict[str, Any], page: str) -> str:
    """Return the table of some fields of a class: those that are said alike together."""
    said = describe_fields(found, list(own))
    rows: list[tuple[list[str], str, str]] = []
    for field, part in own.items():
        kind, text = name_type(part, schema, page), write_meaning(said[field])
        if rows and rows[-1][1:] == (kind, text):
            rows[-1][0].append(f"`{field}`")
        else:
            rows.append(([f"`{field}`"], kind, text))
    return "\n".join([HEAD, *(f"| {', '.join(fields)}<br>{kind} | {text} |" for fields, kind, text in rows)])


def describe_class(found: type) -> str:
    """Return what a class is: its docstring up to the first section."""
    text = re.split(r"^(?:Attributes|Example|Examples|Raises):$", inspect.cleandoc(found.__doc__ or ""), flags=re.M)[0]
    return write_meaning("\n\n".join(" ".join(one.split()) for one in text.strip().split("\n\n")))


def describe_result(name: str, page: str) -> str:
    """Return what a result is, its class, its kind, its schema and its fields."""
    schema = schema_of(name)
    kind = schema["properties"]["kind"]["const"]
    about = f"`kind` is `{kind}`; class `{name}`, [JSON Schema](../schemas/{name}.json)."
    return f"{describe_class(list_results()[name])}\n\n{about}\n\n{list_fields(name, schema, page)}"


def describe_parts(page: str) -> str:
    """Return the parts that are described on a page, by name."""
    sections = []
    for name in sorted(part for part, home in place_parts().items() if home == page and part not in list_results()):
        holder = next(result for result in list_results() if name in schema_of(result).get("$defs", {}))
        table = list_fields(name, schema_of(holder), page)
        sections.append(f"### {name}\n\n{describe_class(find_class(name))}\n\n{table}")
    return "\n\n".join(sections)


def list_kinds() -> str:
    """Return a table of every kind of result with its page and what it is."""
    rows = []
    for name, found in list_results().items():
        kind = schema_of(name)["properties"]["kind"]["const"]
        about = describe_class(found).split("\n")[0]
        rows.append((kind, f"| `{kind}` | [{name}](json/{place_parts()[name]}.md#{list_anchors()[name]}) | {about} |"))
    return "\n".join(["| `kind` | fields | what it is |", "| --- | --- | --- |", *(row for _, row in sorted(rows))])


def written(text: str, page: str) -> str:
    """Return a page with today's fields in their places."""

    def replace(found: re.Match[str]) -> str:
        begin, kind, name, end = found.groups()
        if kind == "parts":
            inner = describe_parts("common" if name == COMMON else page)
        else:
            whole = {"all results": list_kinds, "every result": list_common_fields}
            inner = whole[name]() if name in whole else describe_result(name, page)
        return f"{begin}\n{inner}\n\n{end}"

    return BLOCK.sub(replace, text)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    for path in (*sorted(PAGES.glob("*.md")), INDEX):
        path.write_text(written(path.read_text(encoding="utf-8"), path.stem), encoding="utf-8")
