"""The schema as a YAML file that a person can edit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from evenhand.errors import SchemaError
from evenhand.schema.schema import Schema

HEADER = """\
# What an individual is: one line per attribute, in the order of the model's inputs.
# kind: categorical | ordinal (values in order, or edges of bins) | integer | real (lower and upper, both included)
# missing: refuse (default) | drop | keep      protected: true for what a decision must not depend on
"""


def read_yaml(path: str | Path) -> Schema:
    """Read a schema file.

    Only ``true`` and ``false`` are booleans (YAML 1.2), so that a category called ``no`` stays a word.

    Raises:
        SchemaError: the file is absent, is no YAML, or describes no valid schema.
    """
    import yaml

    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(f"the schema file cannot be read: {error}", where=str(path)) from None
    try:
        described = yaml.load(text, Loader=yaml_loader())
    except yaml.YAMLError as error:
        line = getattr(error, "problem_mark", None)
        where = f"{path}, line {line.line + 1}" if line is not None else str(path)
        raise SchemaError(f"this is not valid YAML: {getattr(error, 'problem', None) or error}", where=where) from None
    if not isinstance(described, dict):
        raise SchemaError("a schema file holds `target:` and `attributes:`", where=str(path))
    return Schema.parse(described, where=str(path))


def to_yaml(schema: Schema) -> str:
    """The schema as YAML text; reading it back gives an equal schema."""
    import yaml

    described = schema.model_dump(mode="python", exclude_defaults=True)
    lines = [HEADER, f"target: {_flow(described['target'])}\n"]
    if schema.missing_markers:
        lines.append(f"missing_markers: {_flow(list(schema.missing_markers))}\n")
    lines.append("attributes:\n")
    for attribute in schema.attributes:
        entry = attribute.model_dump(mode="python", exclude_defaults=True)
        if attribute.encoding == "value":
            entry.pop("encoding", None)
        if attribute.kind == "integer":
            entry["lower"], entry["upper"] = int(attribute.first), int(attribute.last)
        lines.append(f"  - {_flow(entry)}\n")
    text = "".join(lines)
    yaml.load(text, Loader=yaml_loader())
    return text


def write_yaml(schema: Schema, path: str | Path) -> None:
    """Write the schema where a person can edit it."""
    Path(path).write_text(to_yaml(schema), encoding="utf-8")


def yaml_loader() -> Any:
    """A loader of plain YAML whose words stay words: ``no``, ``on`` and ``2020-01-01`` are texts, as in YAML 1.2."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = _without_words(yaml.SafeLoader.yaml_implicit_resolvers)

    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", _true_false(), list("tTfF"))
    return Loader


def _flow(value: Any) -> str:
    import yaml

    dumped = yaml.dump(
        _lists(value), Dumper=_dumper(), default_flow_style=True, sort_keys=False, width=2**20, allow_unicode=True
    )
    return str(dumped).strip().removesuffix("...").strip()


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_lists(inner) for inner in value]
    return value


def _dumper() -> Any:
    import yaml

    class Dumper(yaml.SafeDumper):
        # YAML 1.1 readers take `no` for false: quote what they would misread.
        pass

    def text(dumper: Any, value: str) -> Any:
        # Without double quotes, breaks of lines are written as they are, and those of Unicode come back as spaces.
        quoted = '"' if re.search("[\n\x85\u2028\u2029]", value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=quoted)

    Dumper.add_representer(str, text)
    return Dumper


def _true_false() -> Any:
    return re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")


def _without_words(resolvers: dict[str, list[tuple[str, Any]]]) -> dict[str, list[tuple[str, Any]]]:
    """PyYAML's implicit types without booleans (`no`, `on`), dates (2020-01-01) and base 60 (12:30:45)."""
    unwanted = {"tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"}
    return {first: [pair for pair in pairs if pair[0] not in unwanted] for first, pairs in resolvers.items()}
