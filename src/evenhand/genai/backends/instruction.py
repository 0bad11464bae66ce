"""The words that ask for values in a prompt, and how they are read back."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from evenhand.genai.words import Words

_CLAUSE = re.compile(r"\(showing:([^()]*)\)|\bshowing:([^()\n]*)", re.IGNORECASE)


def instruct(prompt: str, must: Mapping[str, Collection[str]]) -> str:
    """The prompt with a clause that asks for values; unchanged if nothing must be asked for.

    Args:
        must: for concept groups, the values, any of which will do; as in an admission.

    >>> instruct("a business leader", {"age": ("elderly",), "gender": ("woman", "man")})
    'a business leader (showing: age elderly, gender woman or man)'
    """
    if not must:
        return prompt
    clause = ", ".join(f"{group} {' or '.join(values)}" for group, values in must.items())
    return f"{prompt} (showing: {clause})"


def wanted(prompt: str, groups: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    """The values that a prompt asks for, by concept group; groups it says nothing about are left out.

    A clause ``showing: group value`` decides about the groups it names. Else values count that stand in the prompt as
    whole words, so that "an elderly woman" asks for both. No grammar is read: "not a child" asks for a child.

    >>> wanted("a leader, make sure that she is elderly", {"age": ("child", "elderly"), "gender": ("woman", "man")})
    {'age': ('elderly',)}
    """
    clauses = {}
    for match in _CLAUSE.finditer(prompt):
        for part in (match[1] or match[2] or "").split(","):
            group, _, rest = part.strip().partition(" ")
            clauses[group.casefold()] = rest
    plain = _CLAUSE.sub(" ", prompt)
    asked = {}
    for group, values in groups.items():
        text = clauses.get(group.casefold(), plain)
        named = tuple(value for value in values if Words([value]).found(text))
        if named:
            asked[group] = named
    return asked
