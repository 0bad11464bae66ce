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
    "simulation.generator": "write the probability of every value, such as generator: {gender: [0.2, 0.8]}",
    "retries": "write a whole number, 0 or more",
    "slack": "write a whole number, 0 or more",
    "in_flight": "write a whole number, 1 or more",
    "name": 'names are texts, such as name: "leader"',
    "condition": "name one of the conditions",
    "group": "name a group of concepts, such as group: gender",
    "groups": "write the values of every group, such as groups: {gender: [female, male]}",
    "generator": "write what makes items, such as generator: {kind: studio}",
    "classifier": "write what looks at items, such as classifier: {kind: studio}",
    "judge": "write what reads prompts, such as judge: {kind: keywords}",
    "guard": "write guard: {mode: before, when_unsure: refuse}",
    "mode": "before or after",
    "when_unsure": "refuse or pass",
    "url": "write where it answers, such as url: http://127.0.0.1:8080/v1",
    "model": "name the model, such as model: llava",
    "key": "name the variable that holds the key, such as key: OPENAI_API_KEY, and never the key itself",
    "timeout": "write seconds, more than 0",
    "options": "write names and what is sent for them, such as options: {size: 512x512}",
    "bias": "write weights of the values, such as bias: {age: {child: 0.05, adult: 0.9}}",
    "seed": "write a whole number, 0 or more",
    "steps": "write a whole number, 1 or more",
    "files": "write files: [first.png, second.png]",
    "file": "name a file, such as file: gender.onnx",
    "labels": "write what its outputs mean, in their order, such as labels: [female, male]",
    "threshold": "write a share from 0 to 1",
    "words": "write words of every value, such as words: {gender: {female: [she, her], male: [he, his]}}",
    "fixed": "write what fixes a value, such as fixed: {gender: {female: [woman, lady], male: [man]}}",
    "judge.function.fixed": "write functions by group, such as fixed: {gender: prompts:says_gender}",
    "samples": "name a file with the columns true and said, such as samples: {gender: sample.csv}",
    "tolerated": "write tolerated: {labels: 0.05, misses: 0.01, requests: 100000}",
    "misses": "write a probability between 0 and 1",
    "requests": "write a whole number, 1 or more",
    "tolerated.labels": "write a share from 0 to 1, less than 1",
    "function": "write function: module:function",
    "functions": "write functions by condition, such as functions: {leader: prompts:is_leader}",
}
"""How to mend an entry, by its name."""


def load(path: Path) -> Mapping[str, Any]:
    """What a file holds.

    Raises:
        OptionError: it cannot be read, or is no mapping.
    """
    return read_configuration(path, example="genai.yaml", entries="conditions: and specifications:")


def fault_of(
    error: ValidationError,
    described: Mapping[str, Any],
    entries: Mapping[str, list[str]],
    mends: Mapping[str, str] = MENDS,
) -> OptionError:
    """The first fault, in words of the file.

    Args:
        error: what pydantic says.
        described: the configuration.
        entries: those known at every place, by the first parts of the place, kinds included.
        mends: how to mend an entry, by its name.
    """
    faults = error.errors(include_url=False)
    # A misspelt entry is unknown, and the one that was meant is missing: the first of these says more.
    fault = next((one for one in faults if one["type"] == "extra_forbidden"), faults[0])
    full = [str(part) for part in fault["loc"]]
    starts = [".".join(full[:length]) for length in range(len(full), 0, -1)]
    # The kind that was chosen stands behind its place, and not in the file.
    path = full[:1] + full[2:] if full and ".".join(full[:2]) in entries and full[0] not in entries else full
    given, context = fault.get("input"), fault.get("ctx", {})
    named = zip(starts, reversed(full), strict=True)
    mend = next((mends[name] for pair in named for name in pair if name in mends), None)
    if fault["type"] == "union_tag_not_found":
        return OptionError("`kind` is missing", where=".".join(path), mend=mend)
    if fault["type"] == "union_tag_invalid":
        kinds = context["expected_tags"].replace("'", "")
        return OptionError(f"there is no kind {context['tag']!r}", where=".".join(path), mend=f"one of: {kinds}")
    if fault["type"] == "missing":
        return OptionError(f"`{path[-1]}` is missing", where=".".join(path[:-1]) or None, mend=mends.get(path[-1]))
    if fault["type"] == "extra_forbidden":
        known = next((entries[start] for start in starts[1:] if start in entries), entries.get("", []))
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
        "int_type": f"{given!r} is no whole number",
        "float_type": f"{given!r} is no number",
        "float_parsing": f"{given!r} is no number",
        "bool_type": f"{given!r} is neither true nor false",
        "tuple_type": f"{given!r} is no list",
        "dict_type": f"{given!r} is not a mapping of names",
        "model_type": f"{given!r} has no entries with names",
        "model_attributes_type": f"{given!r} has no entries with names",
        "literal_error": f"there is no {''.join(path[-1:])} {given!r}",
        "less_than": f"{given!r} is not less than {context.get('lt')}",
        "greater_than": f"{given!r} is not more than {context.get('gt')}",
        "finite_number": f"{given!r} is no finite number",
        "too_short": "there is nothing in it",
        "string_too_short": "a name has at least one letter",
    }.get(fault["type"], str(fault["msg"]).removeprefix("Value error, "))
    return OptionError(said, where=".".join(path) or None, mend=mend)
