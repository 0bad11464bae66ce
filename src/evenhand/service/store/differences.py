"""Where two configurations differ, for people."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

SHOWN = 3
"""Differences that are told; of further ones their number is."""

LONGEST = 60
"""Characters of a value."""


def differences(before: Any, now: Any) -> str:
    """Where two values of JSON differ: the entries, with what they were and are; an empty text if nowhere.

    >>> differences({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}, "c": True})
    'a.b.1 was 2 and is 3; c was not there and is true'
    """
    found = list(_differences(before, now, ()))
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return "; ".join([*found[:SHOWN], *more])


def _differences(before: Any, now: Any, where: tuple[str, ...]) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in [*before, *(one for one in now if one not in before)]:
            yield from _differences(before.get(name), now.get(name), (*where, str(name)))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for position, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _differences(one, other, (*where, str(position)))
    elif before != now:
        yield f"{'.'.join(where) or 'it'} was {_shown(before)} and is {_shown(now)}"


def _shown(value: Any) -> str:
    if value is None:
        return "not there"
    text = json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
