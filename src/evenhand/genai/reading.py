"""Reads a configuration from YAML or TOML, and says in words of the file what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evenhand.errors import OptionError

MENDS = {
    "conditions": "write what is asked for, such as conditions: [{name: leader}]",
    "specifications": "write specifications: [{condition: leader, group: gender, values: [female, male], repeated: 6}]",
    "values": "write the values of the group, such as values: [female, male]",
    "repeated": "write within how many items every value appears, such as repeated: 6 or [5, 6, 6, 9]",
    "eventual": "true or false",
    "paired": "write the groups that are combined, such as paired: [age, gender]",
    "ways": "2 for pairs, 3 for triples",
    "share": "write a share from 0 to 1",
    "obeys": "write a share from 0 to 1",
    "unrecognised": "write a share from 0 to 1",
    "generator": "write the probability of every value, such as generator: {gender: [0.2, 0.8]}",
    "retries": "write a whole number, 0 or more",
    "slack": "write a whole number, 0 or more",
    "in_flight": "write a whole number, 1 or more",
    "name": 'names are texts, such as name: "leader"',
    "condition": "name one of the conditions",
    "group": "name a group of concepts, such as group: gender",
    "groups": "write the values of every group, such as groups: {gender: [female, male]}",
}
"""How to mend an entry, by its name."""


def load(path: Path) -> Mapping[str, Any]:
    """What a file holds.

    Raises:
        OptionError: it cannot be read, or is no mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise OptionError("this is no text", where=str(path), mend="write it in YAML or TOML, as UTF-8") from None
    except OSError as error:
        raise OptionError(
            f"the configuration cannot be read: {error.strerror or error}",
            where=str(path),
            mend="name a configuration, such as genai.yaml",
        ) from None
    found = _toml(text, path) if path.suffix.lower() == ".toml" else _yaml(text, path)
    if not isinstance(found, Mapping):
        raise OptionError(
            "a configuration has entries with names",
            where=str(path),
            mend="write conditions: and specifications:",
        )
    return found


def _toml(text: str, path: Path) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"this is not valid TOML: {error}", where=str(path)) from None


def _yaml(text: str, path: Path) -> Any:
    import yaml

    from evenhand.schema.files import yaml_loader

    class Loader(yaml_loader()):  # type: ignore[misc]  # a class made by a function
        """Refuses what YAML leaves open: an entry that is there twice."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                name = str(key.value)
                if name in seen:
                    problem = f"the entry {name!r} is there twice"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add(name)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader=Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = getattr(error, "problem_mark", None)
        place = f"{path}, line {line.line + 1}" if line is not None else str(path)
        said = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise OptionError(f"this is not valid YAML: {said}", where=place) from None


def fault_of(error: ValidationError, described: Mapping[str, Any], entries: Mapping[str, list[str]]) -> OptionError:
    """The first fault, in words of the file.

    Args:
        error: what pydantic says.
        described: the configuration.
        entries: those known at every place, by the first part of the place.
    """
    fault = error.errors(include_url=False)[0]
    path = [str(part) for part in fault["loc"]]
    given, context = fault.get("input"), fault.get("ctx", {})
    entry = next((part for part in reversed(path) if part in MENDS), "")
    mend = MENDS.get(entry)
    if fault["type"] == "missing":
        return OptionError(f"`{path[-1]}` is missing", where=".".join(path[:-1]) or None, mend=MENDS.get(path[-1]))
    if fault["type"] == "extra_forbidden":
        known = entries.get(path[0] if len(path) > 1 else "", [])
        close = get_close_matches(path[-1], known, n=1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        return OptionError(
            f"there is no entry {path[-1]!r} here",
            where=".".join(path[:-1]) or None,
            mend=f"{meant}known: {', '.join(known)}",
        )
    if path[-1:] == ["[key]"]:
        return OptionError(f"{given!r} is no name", where=".".join(path[:-2]), mend=f'names are texts: "{given}"')
    said = {
        "greater_than_equal": f"{given!r} is less than {context.get('ge')}",
        "less_than_equal": f"{given!r} is more than {context.get('le')}",
        "string_type": f"{given!r} is no text",
        "bool_type": f"{given!r} is neither true nor false",
        "tuple_type": f"{given!r} is no list",
        "dict_type": f"{given!r} is not a mapping of names",
        "model_type": f"{given!r} has no entries with names",
        "too_short": "there is nothing in it",
        "string_too_short": "a name has at least one letter",
    }.get(fault["type"], str(fault["msg"]).removeprefix("Value error, "))
    return OptionError(said, where=".".join(path) or None, mend=mend)
