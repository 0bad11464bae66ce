"""Plausible counterparts of an individual under changes of protected attributes.

An individual is x = (h, u). The hub h contains the protected attributes, the attributes that move with them, and every
attribute in a rule or dependency with any of these. Only protected and moved attributes change, so h alone determines
whether an individual that obeys all rules has a counterpart that obeys them too.

Counterparts form groups: two individuals are counterparts if they have the same link rows (or the same value, for
values without a row) and agree on all other attributes. With two protected values g(g(x)) = x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.schema.rules import Relation
from evenhand.schema.schema import Schema


@dataclass(frozen=True)
class Counterparts:
    """Counterparts of individuals under all assignments of the protected attributes.

    Attributes:
        schema: Attributes, rules, dependencies and links.
        hub: Columns of the protected and moved attributes, and of all attributes in a rule or dependency with any of
            these, in increasing order.
        protected: Columns of the assigned attributes.
        assignments: Entries of the protected columns, shape (assignments, protected), in lexicographic order.
    """

    schema: Schema
    hub: tuple[int, ...]
    protected: tuple[int, ...]
    assignments: Floats
    _moves: tuple[Relation, ...]

    @property
    def moved(self) -> tuple[int, ...]:
        """Columns that move with the protected ones, in increasing order."""
        return tuple(sorted(move.column for move in self._moves))

    def of(self, individuals: Floats) -> tuple[Floats, Booleans]:
        """Build the counterparts of individuals (n, d) under each protected assignment.

        Returns:
            counterparts: Shape (n, assignments, d). The counterpart under an individual's own assignment is itself.
            plausible: Whether the counterpart exists and both individuals obey all rules, shape (n, assignments).
        """
        people, plausible = self._assign_all(individuals)
        plausible &= self.schema.obeys_rules(individuals)[:, None]
        plausible &= self.schema.obeys_rules(people.reshape(-1, people.shape[2])).reshape(plausible.shape)
        return people, plausible

    def assign(self, profiles: Floats) -> tuple[Floats, Booleans]:
        """Build individuals from profiles (n, d) under each protected assignment, ignoring their protected values.

        A moved attribute restricts the original values: a profile with the value Husband is a husband or a wife.

        Returns:
            people: Shape (n, assignments, d).
            exists: Whether the individual exists, regardless of rules, shape (n, assignments).
        """
        return self._assign_all(self._complete(profiles))

    def assign_each(self, profiles: Floats, which: Integers) -> Floats:
        """Build an individual from profile i under assignment ``which[i]``, shape (n, d); see ``assign``."""
        return self._assign(self._complete(profiles), self.assignments[which])[0]

    def _assign_all(self, individuals: Floats) -> tuple[Floats, Booleans]:
        n, count = len(individuals), len(self.assignments)
        people, exists = self._assign(np.repeat(individuals, count, axis=0), np.tile(self.assignments, (n, 1)))
        return people.reshape(n, count, individuals.shape[1]), exists.reshape(n, count)

    def _assign(self, originals: Floats, assignments: Floats) -> tuple[Floats, Booleans]:
        """Assign protected values (n, protected) to individuals (n, d), and check that the result exists."""
        people = originals.copy()
        people[:, list(self.protected)] = assignments
        exists = np.ones(len(people), dtype=np.bool_)
        for move in self._moves:
            exists &= move.follow(originals, people)
        return people, exists

    def _complete(self, profiles: Floats) -> Floats:
        """Set the first protected assignment that is compatible with the moved attributes of profiles (n, d)."""
        fits = np.ones((len(profiles), len(self.assignments)), dtype=np.bool_)
        for move in self._moves:
            sources = profiles[:, move.source, None]
            if move.source in self.protected:
                sources = self.assignments[None, :, self.protected.index(move.source)]
            fits &= move.fits(np.broadcast_to(sources, fits.shape), profiles[:, move.column, None])
        people = profiles.copy()
        people[:, list(self.protected)] = self.assignments[np.argmax(fits, axis=1)]
        return people


def counterparts_of(schema: Schema, protected: Sequence[str] | None = None) -> Counterparts:
    """Prepare the counterparts under changes of protected attributes.

    Args:
        schema: Attributes, rules, dependencies and links.
        protected: Attributes that change. Default: the protected attributes of the schema.

    Raises:
        EvenhandError: No attribute is protected, an attribute is unknown, or there are too many assignments.
    """
    names = tuple(protected) if protected is not None else schema.protected
    assignments = schema.assignments(names)
    columns = schema.positions(names)
    candidates = _list_moves(schema)
    moves: list[Relation] = []
    moved = set(columns)
    # Move each attribute once, after the attribute that it follows.
    while move := next((move for move in candidates if move.source in moved and move.column not in moved), None):
        moves.append(move)
        moved.add(move.column)
    related = [set(rule.columns) for rule in schema.constraints]
    related += [{relation.source, relation.column} for relation in schema.determined]
    hub = moved.union(*(relation for relation in related if relation & moved))
    return Counterparts(schema, tuple(sorted(hub)), tuple(columns), assignments, tuple(moves))


def _list_moves(schema: Schema) -> list[Relation]:
    """List the relations of links and dependencies, and the inverses of one-to-one dependencies."""
    moves = list(schema.moves)
    for relation in schema.determined:
        [entries] = relation.rows
        moves.append(relation)
        inverse = {value: key for key, value in entries.items()}
        if len(inverse) == len(entries):
            moves.append(Relation(relation.column, relation.source, (inverse,)))
    return moves
