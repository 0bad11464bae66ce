"""What data suggest for a schema, in one list."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from evenhand.proposals.columns import code_columns
from evenhand.proposals.combinations import find_forbidden
from evenhand.proposals.dependencies import find_dependencies
from evenhand.proposals.implications import imply_pairs, imply_tail
from evenhand.proposals.links import find_links
from evenhand.schema import Dependency, Link, People, Proposal, Schema


def propose_rules(people: People, rng: np.random.Generator) -> tuple[Proposal, ...]:
    """Return rules, dependencies and links that people suggest and their schema does not have.

    Dependencies and forbidden pairs of values have passed a test that allows one false proposal in a hundred data sets.
    Where a forbidden tail of a number begins, and which values stand for each other, a person must confirm.

    Args:
        people: some thousands, or little is found: that 5 % or less of what chance would give exists must be certain.
        rng: chooses the half of the people from which dependencies are learnt.

    Example:
        >>> import evenhand, numpy as np
        >>> adult = evenhand.datasets.load_dataset("adult")
        >>> found = propose_rules(evenhand.schema.encode(adult.schema, adult.frame), np.random.default_rng(0))
        >>> {str(one.entry): one.evidence for one in found}["relationship == Husband -> sex == Male"]
        'seen 1, expected 6,536'
    """
    schema, columns = people.schema, code_columns(people)
    dependencies = find_dependencies(columns, rng)
    known = [*schema.dependencies, *(one.entry for one in dependencies if isinstance(one.entry, Dependency))]
    determined = frozenset(frozenset(schema.positions(dependency.between)) for dependency in known)
    pairs, tails = find_forbidden(columns, determined)
    found = [
        *(one for each in pairs for one in imply_pairs(columns, each)),
        *(imply_tail(columns, tail) for tail in tails),
        *dependencies,
        *find_links(columns, schema.positions(schema.protected), pairs),
    ]
    return tuple(one for one in found if not _is_known(one, schema))


def add_proposals(schema: Schema, proposals: Iterable[Proposal]) -> Schema:
    """Return the schema with the proposals that need no confirmation.

    Raises:
        SchemaError: one contradicts what the schema says already.
    """
    entries = [one.entry for one in proposals if one.accepted]
    described = schema.model_dump()
    described["rules"] = [*schema.rules, *(entry for entry in entries if isinstance(entry, str))]
    described["dependencies"] = [*schema.dependencies, *(entry for entry in entries if isinstance(entry, Dependency))]
    return Schema.parse(described)


def _is_known(proposal: Proposal, schema: Schema) -> bool:
    entry = proposal.entry
    if isinstance(entry, Link):
        return any(link.move == entry.move for link in schema.links)
    if isinstance(entry, Dependency):
        return any(set(one.between) == set(entry.between) for one in schema.dependencies)
    return entry in schema.rules
