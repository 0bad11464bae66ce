"""Where a search moves: the unprotected part of individuals, what is legal there, and who could exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.individual.search.constraints import Constraint, constraint
from evenhand.individual.search.occurrence import DISTINCT, Pairs
from evenhand.population import Marginal, marginals
from evenhand.schema import Attribute, People, Schema

Floats: TypeAlias = NDArray[np.float64]
Keys: TypeAlias = NDArray[np.int64]
Sampler: TypeAlias = Callable[[int], Floats]

STEPS = 100
"""A number with more values than this moves by about a hundredth of its range at a time."""

CLUSTERED = 10_000
"""People on whom the clusters of the seeds are fitted, at most."""

DRAWN = 65_536
"""Profiles drawn at a time, at most."""

MOST_DRAWN = 200 * DRAWN
"""Profiles drawn for a sample, at most, while hardly any is admissible."""

SPARSE = 0.001
"""With a smaller admissible share than this, random walks replace drawing."""

PROFILES = 1 << 62
"""With fewer unprotected parts than this in the domain, each has a key of its own; else keys are 64-bit hashes."""


class Space:
    """The unprotected attributes of individuals, as rows of shape (n, U) in schema order.

    A row here is a profile: one person, whatever their protected values. It is *legal* inside the domain where every
    constraint holds, and *valid* where besides every pair of its values occurs together in the data (2-way occurrence;
    numbers with many values by bins, see ``Pairs``). Moves and samples stay *admissible*: legal, and valid too unless
    anything goes or there are no data.

    Attributes:
        schema: all attributes.
        protected: names of those whose change must not matter, jointly.
        anything_goes: whether profiles that are not valid are wanted too.
        columns, protected_columns: positions in the schema of the U unprotected and of the protected attributes.
        assignments: every joint protected value, shape (A, protected).
        lower, upper, step: shape (U,): the domain's ends, and how far one move goes.
        people: the unprotected parts in the data without repetition and without missing values, shape (n, U); None
            without data.
        constraints: what must hold besides.
    """

    def __init__(
        self,
        source: People | Schema,
        protected: Sequence[str] | None = None,
        *,
        constraints: Sequence[str] = (),
        anything_goes: bool = False,
    ) -> None:
        """Where to search.

        Args:
            source: the people (what is known of who could exist), or their schema alone.
            protected: by default those that the schema marks.
            constraints: see ``constraint``.
            anything_goes: also look at people who could not exist.

        Raises:
            OptionError: nothing is protected or everything is, an attribute is unknown, or a constraint makes no sense.
        """
        self.schema = source.schema if isinstance(source, People) else source
        self.protected = tuple(protected) if protected else self.schema.protected
        self.protected_columns = self.schema.positions(self.protected)
        if len(set(self.protected)) < len(self.protected):
            raise OptionError(f"a protected attribute is named twice: {', '.join(self.protected)}")
        self.assignments = self.schema.assignments(self.protected)
        self.columns = [i for i in range(len(self.schema.attributes)) if i not in self.protected_columns]
        if not self.columns:
            raise OptionError("every attribute is protected, so there is nobody left to compare")
        self.attributes: tuple[Attribute, ...] = tuple(self.schema.attributes[i] for i in self.columns)
        self.lower = np.array([attribute.first for attribute in self.attributes])
        self.upper = np.array([attribute.last for attribute in self.attributes])
        self.step = np.array([_step(attribute) for attribute in self.attributes])
        self.constraints: tuple[Constraint, ...] = tuple(
            constraint(text, self.schema, self.protected) for text in constraints
        )
        self.groups = tuple(
            np.array([self.columns.index(i) for i in self.schema.positions(found.group)])
            for found in self.constraints
            if found.group
        )
        self.anything_goes = anything_goes
        self._source = source
        self._kmeans: Any = None
        self.people: Floats | None = None
        if isinstance(source, People):
            known = source.individuals[~np.isnan(source.individuals).any(axis=1)]
            if len(known) == 0:
                raise OptionError("everybody in the data lacks some value, so nobody can be a start of the search")
            self._known = known
            self.people = np.unique(known[:, self.columns], axis=0)

    @property
    def width(self) -> int:
        """How many attributes are unprotected."""
        return len(self.columns)

    @cached_property
    def pairs(self) -> Pairs | None:
        """Which values occur together in the data; None without data."""
        return None if self.people is None else Pairs.of(self.attributes, self.people)

    @cached_property
    def free(self) -> bool:
        """Whether everything inside the domain is admissible."""
        return not self.constraints and (self.anything_goes or self.people is None)

    def legal(self, unprotected: Floats) -> NDArray[np.bool_]:
        """Which profiles (n, U) lie in the domain and satisfy every constraint, shape (n,)."""
        inside = [attribute.contains(unprotected[:, i]) for i, attribute in enumerate(self.attributes)]
        good = np.asarray(np.logical_and.reduce(inside), dtype=np.bool_)
        if self.constraints and good.any():
            rows = self.rows_as(unprotected[good], np.zeros(int(good.sum()), dtype=np.int64))
            held = np.logical_and.reduce([found.holds(rows) for found in self.constraints])
            good[good] = held
        return good

    def valid(self, unprotected: Floats) -> NDArray[np.bool_]:
        """Which profiles inside the domain (n, U) have only pairs of values that occur in the data, shape (n,).

        Without data nothing speaks against anybody.
        """
        return np.ones(len(unprotected), dtype=np.bool_) if self.pairs is None else self.pairs.occur(unprotected)

    def admissible(self, unprotected: Floats) -> NDArray[np.bool_]:
        """Which profiles (n, U) a search may report, shape (n,)."""
        good = self.legal(unprotected)
        if not self.anything_goes and self.pairs is not None and good.any():
            good[good] = self.pairs.occur(unprotected[good])
        return good

    def rows(self, unprotected: Floats) -> Floats:
        """Every profile (n, U) under every assignment, profile by profile: individuals (n * A, attributes)."""
        which = np.tile(np.arange(len(self.assignments)), len(unprotected))
        return self.rows_as(np.repeat(unprotected, len(self.assignments), axis=0), which)

    def rows_as(self, unprotected: Floats, which: NDArray[np.int64]) -> Floats:
        """Profile i under assignment ``which[i]``: individuals (n, attributes)."""
        rows = np.empty((len(unprotected), len(self.schema.attributes)))
        rows[:, self.columns] = unprotected
        rows[:, self.protected_columns] = self.assignments[which]
        return rows

    def split(self, individuals: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Profiles (n, U) and the number of each individual's own assignment (n,)."""
        own = individuals[:, self.protected_columns]
        first = np.array([self.schema[name].first for name in self.protected])
        sizes = [self.schema[name].size or 1 for name in self.protected]
        which = np.ravel_multi_index(tuple((own - first).astype(np.int64).T), sizes)
        return np.ascontiguousarray(individuals[:, self.columns]), np.asarray(which, dtype=np.int64)

    def keys(self, unprotected: Floats) -> Keys:
        """One number per profile, the same for the same profile, shape (n,).

        With finitely many profiles and fewer than 2**62 no two share one; else it is a hash, by which two of a million
        are taken for one with probability below one in ten million.
        """
        first, factors, reals = self._hashing
        codes = (unprotected - first).astype(np.int64)
        if len(reals):
            codes[:, reals] = np.ascontiguousarray(unprotected[:, reals] + 0.0).view(np.int64)  # -0.0 is 0.0
            codes[:, reals] ^= (codes[:, reals] >> 32) * 0x5851F42D4C957F2D
        return np.asarray(codes @ factors)

    @cached_property
    def _hashing(self) -> tuple[Floats, Keys, NDArray[np.int64]]:
        sizes = [attribute.size for attribute in self.attributes]
        reals = np.flatnonzero([size is None for size in sizes])
        factors, count = [], 1
        for size in sizes:
            factors.append(count)
            count *= size or PROFILES
        first = np.where([size is None for size in sizes], 0.0, self.lower)
        if count < PROFILES:
            return first, np.array(factors, dtype=np.int64), reals
        odd = np.random.default_rng(0).integers(-(2**62), 2**62, size=len(sizes)) * 2 + 1
        return first, odd, reals

    def uniform(self, n: int, rng: np.random.Generator) -> Floats:
        """Admissible profiles drawn uniformly from the domain, (m, U) with m at most n.

        They are drawn until enough are admissible; where less than one in a thousand is, a random walk from people in
        the data finds them instead.
        """
        return self._drawn(lambda m: self._flat(m, rng), n, rng, walk=True)

    def anywhere(self, n: int, rng: np.random.Generator) -> Floats:
        """Profiles drawn uniformly from the domain, admissible or not, (n, U)."""
        return self._flat(n, rng)

    def marginal(self, n: int, rng: np.random.Generator) -> Floats:
        """Admissible profiles whose attributes are drawn independently, each as in the data, (m, U), m at most n."""
        return self._drawn(lambda m: self._independent(self._marginals, m, rng), n, rng, walk=True)

    def around(self, n: int, rng: np.random.Generator, *, changes: int = 1) -> Floats:
        """Admissible profiles near people in the data: up to ``changes`` attributes drawn anew, (m, U), m at most n.

        Raises:
            OptionError: there are no data.
        """
        people = self._need_people()

        def draw(m: int) -> Floats:
            rows = people[rng.integers(0, len(people), size=m)]
            fresh = self._independent(self._marginals, m, rng)
            for _ in range(changes):
                column = rng.integers(0, self.width, size=m)
                rows[np.arange(m), column] = fresh[np.arange(m), column]
            return rows

        return self._drawn(draw, n, rng, walk=False)

    def seeds(self, n: int, rng: np.random.Generator, *, clusters: int = 4) -> Floats:
        """Individuals to start from, (m, attributes), m at most n: people in the data, in turns from k-means clusters.

        Without data: admissible profiles drawn uniformly, under assignments drawn uniformly.
        """
        if self.people is None:
            rows = self.uniform(n, rng)
            return self.rows_as(rows, rng.integers(0, len(self.assignments), size=len(rows)))
        # Clusters are found among many people once; later seeds come from a few of them.
        few = CLUSTERED if self._kmeans is None else 10 * n
        known = self._known[rng.choice(len(self._known), size=min(len(self._known), max(few, 10 * n)), replace=False)]
        if self.constraints:
            known = known[self.legal(known[:, self.columns])]
        if len(known) == 0:
            return known
        return known[_in_turns(self._clustered(clusters, known, rng), n)]

    def _clustered(self, clusters: int, rows: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
        """The k-means cluster of each row (n, attributes), shape (n,). The clusters are made once."""
        if self._kmeans is None:
            from sklearn.cluster import KMeans

            few = rows[:CLUSTERED]
            clusters = min(clusters, len(np.unique(few, axis=0)))
            self._kmeans = KMeans(n_clusters=clusters, n_init=1, random_state=int(rng.integers(0, 2**31))).fit(few)
        return np.asarray(self._kmeans.predict(rows), dtype=np.int64)

    def moved(self, unprotected: Floats, directions: Floats, rng: np.random.Generator) -> Floats:
        """Profiles (n, U) after one step along ``directions`` (n, U), each -1, 0 or 1, as far as it stays admissible.

        All attributes move at once, up to the domain's ends; a one-hot group moves as a whole. Where the outcome is
        not admissible, the attributes move one by one in random order and those that lead outside stay.
        """
        target = self._stepped(unprotected, directions)
        if self.free:
            return target
        outside = ~self._may_be(target)
        if not outside.any():
            return target
        several = outside & ((target != unprotected).sum(axis=1) > self._most_in_one)
        target[outside & ~several] = unprotected[outside & ~several]
        bad = np.flatnonzero(several)
        rows = unprotected[bad].copy()
        wanted = target[bad]
        parts = self._parts
        for part in rng.permutation(len(parts)):
            columns = parts[part]
            changed = (rows[:, columns] != wanted[:, columns]).any(axis=1)
            if not changed.any():
                continue
            trial = rows[changed]
            trial[:, columns] = wanted[changed][:, columns]
            good = self._may_be(trial)
            rows[np.flatnonzero(changed)[good]] = trial[good]
        target[bad] = rows
        return target

    def neighbours(self, unprotected: Floats) -> Floats:
        """Every admissible profile one change away from these (n, U), without repetition, (m, U).

        An attribute or one-hot group changes to any other value; a number with more than 64 values by one step up or
        down.
        """
        found = [changed for columns in self._parts for changed in self._changes(unprotected, columns)]
        if not found:
            return np.empty((0, self.width))
        rows = np.concatenate(found)
        _, first = np.unique(self.keys(rows), return_index=True)
        rows = rows[np.sort(first)]
        return rows[self.admissible(rows)]

    @cached_property
    def _parts(self) -> list[NDArray[np.int64]]:
        """What moves as a whole: a one-hot group, or one attribute."""
        grouped = {int(i) for group in self.groups for i in group}
        return [*self.groups, *(np.array([i]) for i in range(self.width) if i not in grouped)]

    @cached_property
    def _most_in_one(self) -> int:
        """How many entries one move of one part changes, at most."""
        return 2 if self.groups else 1

    def _may_be(self, inside: Floats) -> NDArray[np.bool_]:
        """Which profiles (n, U), all inside the domain, are admissible, shape (n,)."""
        if self.constraints:
            return self.admissible(inside)
        return self.valid(inside)

    def _changes(self, rows: Floats, columns: NDArray[np.int64]) -> list[Floats]:
        if len(columns) > 1:
            shifts = [np.roll(rows[:, columns], shift, axis=1) for shift in range(1, len(columns))]
            return [self._with(rows, columns, values) for values in shifts]
        column = int(columns[0])
        attribute = self.attributes[column]
        if attribute.size is not None and attribute.size <= DISTINCT:
            low, size = self.lower[column], attribute.size
            places = rows[:, columns] - low
            return [self._with(rows, columns, low + np.mod(places + shift, size)) for shift in range(1, size)]
        found = []
        for sign in (-1.0, 1.0):
            values = np.clip(rows[:, columns] + sign * self.step[column], self.lower[column], self.upper[column])
            changed = values[:, 0] != rows[:, column]
            found.append(self._with(rows[changed], columns, values[changed]))
        return found

    @staticmethod
    def _with(rows: Floats, columns: NDArray[np.int64], values: Floats) -> Floats:
        changed = rows.copy()
        changed[:, columns] = values
        return changed

    def _stepped(self, unprotected: Floats, directions: Floats) -> Floats:
        target: Floats = unprotected + directions * self.step
        np.minimum(target, self.upper, out=target)
        np.maximum(target, self.lower, out=target)
        for group in self.groups:
            here, there = unprotected[:, group], directions[:, group]
            on = np.argmax(here, axis=1)
            # The value with a push towards it takes over; a value pushed away from gives way to the next one.
            pushed = np.where(here > 0, -np.inf, there)
            best = np.argmax(pushed, axis=1)
            away = there[np.arange(len(on)), on] < 0
            towards = pushed[np.arange(len(on)), best] > 0
            new = np.where(towards, best, np.where(away, (on + 1) % len(group), on))
            target[:, group] = new[:, None] == np.arange(len(group))
        return target

    def _drawn(self, draw: Sampler, n: int, rng: np.random.Generator, *, walk: bool) -> Floats:
        """The first n admissible ones among profiles drawn from a product of distributions, (m, U) with m at most n.

        Args:
            walk: where less than one in a thousand is admissible, walk instead (see ``_walked``).
        """
        if self.free:
            return draw(n)
        walk = walk and self.people is not None
        found: list[Floats] = []
        count, tried = 0, 0
        while count < n and tried < MOST_DRAWN and not (walk and tried >= DRAWN and count < SPARSE * tried):
            share = max(count / tried if tried else 1.0, 0.01)
            rows = draw(min(int(1.2 * (n - count) / share) + 16, DRAWN))
            tried += len(rows)
            rows = rows[self._may_be(rows)]
            found.append(rows)
            count += len(rows)
        if walk and count < n:
            found.append(self._walked(draw, n - count, rng))
        return np.concatenate(found)[:n]

    def _walked(self, draw: Sampler, n: int, rng: np.random.Generator) -> Floats:
        """Profiles after a random walk from people in the data: ten times per attribute one of a profile's values is
        drawn anew and kept if that is admissible. What the walk tends to is the same product of distributions, limited
        to admissible profiles (those that such changes lead to).
        """
        people = self._need_people()
        people = people[self.legal(people)]
        if len(people) == 0:
            return people
        rows = people[rng.integers(0, len(people), size=n)]
        parts = self._parts
        for _ in range(10):
            fresh = draw(n)
            for part in rng.permutation(len(parts)):
                trial = rows.copy()
                trial[:, parts[part]] = fresh[:, parts[part]]
                good = self._may_be(trial)
                rows[good] = trial[good]
        return rows

    def _independent(self, each: tuple[Marginal, ...], n: int, rng: np.random.Generator) -> Floats:
        return self._one_hot(np.stack([marginal.sample(n, rng) for marginal in each], axis=1), rng)

    def _one_hot(self, rows: Floats, rng: np.random.Generator) -> Floats:
        """The same rows (n, U) with one column of each one-hot group at 1, uniformly at random."""
        for group in self.groups:
            on = rng.integers(0, len(group), size=len(rows))
            rows[:, group] = on[:, None] == np.arange(len(group))
        return rows

    def _flat(self, n: int, rng: np.random.Generator) -> Floats:
        whole = np.array([attribute.kind != "real" for attribute in self.attributes])
        rows = rng.random((n, self.width))
        rows *= self.upper - self.lower + whole
        np.floor(rows, out=rows, where=whole)
        rows += self.lower
        return self._one_hot(rows, rng)

    @cached_property
    def _marginals(self) -> tuple[Marginal, ...]:
        self._need_people()
        assert isinstance(self._source, People)
        each = marginals(self._source).marginals
        return tuple(each[i] for i in self.columns)

    def _need_people(self) -> Floats:
        if self.people is None:
            raise OptionError("there are no data to look around in", mend="give the people, or search uniformly")
        return self.people


def _step(attribute: Attribute) -> float:
    """How far one move goes: to the next value, or about a hundredth of a long range."""
    span = attribute.last - attribute.first
    if attribute.kind == "real":
        return span / STEPS
    return 1.0 if span <= STEPS else float(round(span / STEPS))


def _in_turns(member: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """The first n rows, taking one of each cluster in turn, from the cluster of each row: shape (m,), m at most n."""
    turn = np.empty(len(member), dtype=np.int64)
    for cluster in np.unique(member):
        inside = np.flatnonzero(member == cluster)
        turn[inside] = np.arange(len(inside))
    return np.asarray(np.lexsort((member, turn))[:n], dtype=np.int64)
