"""The plausible counterparts of a person: who they would be with another value of what is protected.

A person is x = (h, u). The hub h holds the protected attributes, those that move with them, and all that share a rule
or a dependency with either. Only protected and moved attributes change, and whatever they share a rule with is in h, so
whether somebody who obeys all rules has a counterpart who does too depends on h alone.

Counterparts form groups: two people with the same row of every link (or the same value, where it is in no row) and the
same other attributes are each other's counterparts. With two protected values g(g(x)) = x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.schema.rules import Entries, entries_of, look_up
from evenhand.schema.schema import Schema
from evenhand.typing import Booleans, Floats, Integers


@dataclass(frozen=True)
class _Move:
    """How one attribute follows another.

    Attributes:
        source: column of the attribute that changes.
        column: column of the attribute that follows it.
        rows: per row, entry of the source -> entry of the follower that stands for the row there.
    """

    source: int
    column: int
    rows: tuple[Entries, ...]

    def fits(self, sources: Floats, values: Floats) -> Booleans:
        """Return where values stand for a row at the source value beside them, or for no row at all, elementwise."""
        listed = np.isin(values, [value for row in self.rows for value in row.values()])
        stands = [look_up(row, sources) == values for row in self.rows]
        return np.asarray(~listed | np.logical_or.reduce(stands))

    def follow(self, before: Floats, after: Floats) -> Booleans:
        """Move the follower's entries of ``after`` (n, d), given people as they were; return for whom it has a value.

        A value is moved within its row. One that stands for no row at the person's source value stays, unless it is
        what a row stands for at the new source value: then it would be somebody else's counterpart too.
        """
        old, new, value = before[:, self.source], after[:, self.source], before[:, self.column]
        changed = old != new
        found = np.ones(len(before), dtype=np.bool_)
        in_row = np.zeros(len(before), dtype=np.bool_)
        for row in self.rows:
            mine = changed & (look_up(row, old) == value)
            stand_in = look_up(row, new)
            listed = ~np.isnan(stand_in)
            after[:, self.column] = np.where(mine & listed, stand_in, after[:, self.column])
            found &= ~mine | listed
            in_row |= mine
        for row in self.rows:
            found &= ~(changed & ~in_row & (look_up(row, new) == value))
        return found


@dataclass(frozen=True)
class Counterparts:
    """Who stands for whom when protected attributes change.

    Attributes:
        schema: the attributes and what ties them together.
        hub: columns of the protected attributes, of those that move with them, and of all that share a rule or a
            dependency with either, in increasing order.
        protected: columns that take every joint assignment.
        assignments: shape (assignments, protected), entries in lexicographic order.
    """

    schema: Schema
    hub: tuple[int, ...]
    protected: tuple[int, ...]
    assignments: Floats
    _moves: tuple[_Move, ...]

    @property
    def moved(self) -> tuple[int, ...]:
        """Columns that move along with the protected ones, in increasing order."""
        return tuple(sorted(move.column for move in self._moves))

    def of(self, individuals: Floats) -> tuple[Floats, Booleans]:
        """Return everybody's counterpart under each protected assignment.

        Args:
            individuals: shape (n, d), as in ``People``.

        Returns:
            counterparts: shape (n, assignments, d); under a person's own assignment the person.
            plausible: shape (n, assignments), whether there is a counterpart and both people obey all rules.
        """
        people, plausible = self._assign_all(individuals)
        plausible &= self.schema.obeys_rules(individuals)[:, None]
        plausible &= self.schema.obeys_rules(people.reshape(-1, people.shape[2])).reshape(plausible.shape)
        return people, plausible

    def assign(self, profiles: Floats) -> tuple[Floats, Booleans]:
        """Return who profiles are under each protected assignment, whatever protected values they have now.

        What moves along says which values these may be: a profile with the value Husband is a husband or a wife.

        Args:
            profiles: shape (n, d), as in ``People``.

        Returns:
            people: shape (n, assignments, d).
            found: shape (n, assignments), for whom there is one; rules are not looked at.
        """
        return self._assign_all(self._complete(profiles))

    def assign_each(self, profiles: Floats, which: Integers) -> Floats:
        """Return who profile i is under assignment ``which[i]``, as ``assign`` says, shape (n, d)."""
        return self._assign(self._complete(profiles), self.assignments[which])[0]

    def _assign_all(self, individuals: Floats) -> tuple[Floats, Booleans]:
        shape = len(individuals), len(self.assignments)
        people, found = self._assign(np.repeat(individuals, shape[1], axis=0), np.tile(self.assignments, (shape[0], 1)))
        return people.reshape(*shape, individuals.shape[1]), found.reshape(shape)

    def _assign(self, before: Floats, assigned: Floats) -> tuple[Floats, Booleans]:
        """Return people (n, d) with assigned protected values (n, protected), and for whom there is such a person."""
        after = before.copy()
        after[:, list(self.protected)] = assigned
        found = np.ones(len(before), dtype=np.bool_)
        for move in self._moves:
            found &= move.follow(before, after)
        return after, found

    def _complete(self, profiles: Floats) -> Floats:
        """Return profiles (n, d) with the first protected assignment at which the values that move along stand."""
        fits = np.ones((len(profiles), len(self.assignments)), dtype=np.bool_)
        for move in self._moves:
            sources = np.repeat(profiles[:, None, move.source], len(self.assignments), axis=1)
            if move.source in self.protected:
                sources[:] = self.assignments[:, self.protected.index(move.source)]
            fits &= move.fits(sources, profiles[:, move.column, None])
        people = profiles.copy()
        people[:, list(self.protected)] = self.assignments[np.argmax(fits, axis=1)]
        return people


def counterparts_of(schema: Schema, protected: Sequence[str] | None = None) -> Counterparts:
    """Return who stands for whom when some attributes change.

    Args:
        schema: its links and dependencies say what moves along, its rules who is plausible.
        protected: the attributes that change; by default those that the schema marks.

    Raises:
        EvenhandError: nothing is protected, an attribute is unknown, or there are too many assignments.
    """
    names = tuple(protected) if protected is not None else schema.protected
    assignments = schema.assignments(names)
    columns = schema.positions(names)
    follow = _list_moves(schema)
    moves: list[_Move] = []
    moved = set(columns)
    # Each attribute is moved once, after the one that it follows.
    while chosen := next((one for one in follow if one.source in moved and one.column not in moved), None):
        moves.append(chosen)
        moved.add(chosen.column)
    tied = [*(set(rule.columns) for rule in schema.constraints), *({one, two} for one, two, _ in schema.determined)]
    hub = moved.union(*(together for together in tied if together & moved))
    return Counterparts(schema, tuple(sorted(hub)), tuple(columns), assignments, tuple(moves))


def _list_moves(schema: Schema) -> list[_Move]:
    """Return what follows what: by links, and by dependencies, whose whole map is one row."""
    moves = []
    for link in schema.links:
        when, move = schema[link.when], schema[link.move]
        rows = tuple(entries_of(row, when, move, "links") for row in link.rows)
        moves.append(_Move(schema.position(link.when), schema.position(link.move), rows))
    for one, other, known in schema.determined:
        moves.append(_Move(one, other, (known,)))
        back = {value: key for key, value in known.items()}
        if len(back) == len(known):
            moves.append(_Move(other, one, (back,)))
    return moves
