"""Reads a configuration from YAML or TOML, and says in words of the file what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evenhand.errors import OptionError
from evenhand.schema.configuration import read_configuration

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
    return read_configuration(path, example="genai.yaml", entries="conditions: and specifications:")


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
