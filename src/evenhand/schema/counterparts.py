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
from evenhand.schema.rules import Entries, entries_of, look_up
from evenhand.schema.schema import Schema


@dataclass(frozen=True)
class _Move:
    """Change of one attribute that follows from the change of another.

    Attributes:
        source: Column of the attribute that changes.
        column: Column of the attribute that follows.
        rows: Mappings from entries of the source to corresponding entries of the follower.
    """

    source: int
    column: int
    rows: tuple[Entries, ...]

    def fits(self, sources: Floats, values: Floats) -> Booleans:
        """Check elementwise whether values belong to their source entries, or to no row."""
        listed = np.isin(values, [value for row in self.rows for value in row.values()])
        matches = [look_up(row, sources) == values for row in self.rows]
        return np.asarray(~listed | np.logical_or.reduce(matches))

    def follow(self, originals: Floats, people: Floats) -> Booleans:
        """Update the follower in ``people`` (n, d), and return whether each individual has a valid entry, shape (n,).

        An entry moves within its row. An entry without a row at the old source entry does not change. It is invalid if
        a row has it at the new source entry, because it would then be the counterpart of two individuals.
        """
        old, new, entries = originals[:, self.source], people[:, self.source], originals[:, self.column]
        changed = old != new
        valid = np.ones(len(people), dtype=np.bool_)
        in_any_row = np.zeros(len(people), dtype=np.bool_)
        collides = np.zeros(len(people), dtype=np.bool_)
        for row in self.rows:
            in_row = changed & (look_up(row, old) == entries)
            targets = look_up(row, new)
            people[:, self.column] = np.where(in_row & ~np.isnan(targets), targets, people[:, self.column])
            valid &= ~in_row | ~np.isnan(targets)
            in_any_row |= in_row
            collides |= targets == entries
        return np.asarray(valid & ~(changed & ~in_any_row & collides))


@dataclass(frozen=True)
class Counterparts:
    """Counterparts of individuals under all assignments of the protected attributes.

    Attributes:
        schema: Attributes, rules, dependencies and links.
        hub: Columns of the protected and moved attributes, and of all attributes in a rule or dependency with any of
            these, in increasing order.
        protected: Columns that take every joint assignment.
        assignments: Entries of the protected columns, shape (assignments, protected), in lexicographic order.
    """

    schema: Schema
    hub: tuple[int, ...]
    protected: tuple[int, ...]
    assignments: Floats
    _moves: tuple[_Move, ...]

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
        """Set the first protected assignment that fits the moved attributes of profiles (n, d)."""
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
    """Prepare the counterparts under changes of some attributes.

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
    moves: list[_Move] = []
    moved = set(columns)
    # Move each attribute once, after the attribute that it follows.
    while move := next((move for move in candidates if move.source in moved and move.column not in moved), None):
        moves.append(move)
        moved.add(move.column)
    related = [set(rule.columns) for rule in schema.constraints]
    related += [{source, determined} for source, determined, _ in schema.determined]
    hub = moved.union(*(relation for relation in related if relation & moved))
    return Counterparts(schema, tuple(sorted(hub)), tuple(columns), assignments, tuple(moves))


def _list_moves(schema: Schema) -> list[_Move]:
    """List the moves of links, and of dependencies, whose map is a single row."""
    moves = []
    for link in schema.links:
        when, move = schema[link.when], schema[link.move]
        rows = tuple(entries_of(row, when, move, "links") for row in link.rows)
        moves.append(_Move(schema.position(link.when), schema.position(link.move), rows))
    for source, determined, entries in schema.determined:
        moves.append(_Move(source, determined, (entries,)))
        inverse = {value: key for key, value in entries.items()}
        if len(inverse) == len(entries):
            moves.append(_Move(determined, source, (inverse,)))
    return moves
