"""Where a search moves: the unprotected part of individuals, what is legal there, and which profiles are plausible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.individual.search.plausibility import DISTINCT, ValuePairs
from evenhand.population.independent import Marginal, UniformMarginal, product_of_marginals
from evenhand.schema.attribute import Attribute
from evenhand.schema.constraint import Constraint, parse_constraint
from evenhand.schema.counterparts import counterparts_of
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

Keys: TypeAlias = Integers
Sampler: TypeAlias = Callable[[int], Floats]

STEPS = 100
"""A number with more values than this moves by about a hundredth of its range at a time."""

CLUSTERED = 10_000
"""People on whom the clusters of the seeds are fitted, at most."""

DRAWN = 65_536
"""Profiles drawn at a time, at most."""

PEOPLE = 65_536
"""People of profiles that are looked at together."""

MOST_DRAWN = 200 * DRAWN
"""Profiles drawn for a sample, at most, while hardly any is admissible."""

SPARSE = 0.001
"""With a smaller admissible share than this, random walks replace drawing."""

PROFILES = 1 << 62
"""With fewer unprotected parts than this in the domain, each has a key of its own; else keys are 64-bit hashes."""


class ProfileSpace:
    """The unprotected attributes of individuals, as rows of shape (n, U) in schema order.

    A row here is a profile: one person, whatever their protected values. Under each protected assignment it stands for
    one person, with linked attributes moved along; of profiles that stand for the same people the first one is taken.
    It is *legal* inside the domain where two of its people or more obey every rule of the schema and every constraint,
    and *valid* where besides every pair of their values occurs together in the data (2-way occurrence, see
    ``ValuePairs``). Moves and samples stay *admissible*: legal, and valid too unless anything goes or there
    are no data. Only those people are compared who make a profile so.

    Attributes:
        schema: all attributes, and which people can exist.
        protected: names of those whose change must not matter, jointly.
        moved: which of the U unprotected attributes move along with them.
        allow_infeasible: whether profiles that are not valid are wanted too.
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
        allow_infeasible: bool = False,
        as_published: bool = False,
    ) -> None:
        """Where to search.

        Args:
            source: the people (what is known of which profiles are plausible), or their schema alone.
            protected: by default those that the schema marks.
            constraints: see ``parse_constraint``.
            allow_infeasible: also look at implausible profiles.
            as_published: change the protected attributes alone: the rules of the schema are left out, constraints do
                not name protected attributes, and data say only which other values occur together.

        Raises:
            OptionError: nothing is protected or everything is, an attribute is unknown, or a constraint makes no sense.
        """
        self.schema = source.schema if isinstance(source, People) else source
        if as_published:
            self.schema = self.schema.without_rules()
        self.protected = tuple(protected) if protected else self.schema.protected
        self.protected_columns = self.schema.positions(self.protected)
        if len(set(self.protected)) < len(self.protected):
            raise OptionError(f"a protected attribute is named twice: {', '.join(self.protected)}")
        self.assignments = self.schema.assignments(self.protected)
        self.columns = [i for i in range(len(self.schema.attributes)) if i not in self.protected_columns]
        if not self.columns:
            raise OptionError("every attribute is protected, so there is nothing left to compare")
        self.attributes: tuple[Attribute, ...] = tuple(self.schema.attributes[i] for i in self.columns)
        self.lower = np.array([attribute.first for attribute in self.attributes])
        self.upper = np.array([attribute.last for attribute in self.attributes])
        self.step = np.array([_step_size(attribute) for attribute in self.attributes])
        self.constraints: tuple[Constraint, ...] = tuple(
            parse_constraint(text, self.schema.attributes, self.protected if as_published else ())
            for text in constraints
        )
        self.groups = tuple(
            np.array([self.columns.index(i) for i in self.schema.positions(found.group)])
            for found in self.constraints
            if found.group and not set(found.group) & set(self.protected)
        )
        self.allow_infeasible = allow_infeasible
        self._as_published = as_published
        self._counterparts = counterparts_of(self.schema, self.protected)
        self.moved: tuple[int, ...] = tuple(self.columns.index(i) for i in self._counterparts.moved)
        self._source = source
        self._kmeans: Any = None
        self.people: Floats | None = None
        if isinstance(source, People):
            entries = source.individuals[
                :, : len(self.schema.attributes)
            ]  # everybody carries the first row of the data
            known = entries[~np.isnan(entries).any(axis=1)]
            if len(known) == 0:
                raise OptionError("everybody in the data lacks some value, so no one can be a start of the search")
            self._known = known
            self.people = np.unique(self._normal_profiles(known[:, self.columns]), axis=0)

    @property
    def width(self) -> int:
        """How many attributes are unprotected."""
        return len(self.columns)

    @cached_property
    def shown_attributes(self) -> tuple[Attribute, ...]:
        """The unprotected attributes for readers: values that stand for each other have one name, Wife or Husband."""
        shown = list(self.attributes)
        for i in self.moved:
            attribute = self.attributes[i]
            if attribute.values is None:
                continue
            profiles = np.tile(self.lower, (len(attribute.values), 1))
            profiles[:, i] = attribute.domain()
            people, found = self._counterparts.assign(self._individuals(profiles))
            texts = (
                dict.fromkeys(attribute.text(entry) for entry in entries[there])
                for entries, there in zip(people[:, :, self.columns[i]], found, strict=True)
            )
            shown[i] = attribute.model_copy(update={"values": tuple(" or ".join(names) for names in texts)})
        return tuple(shown)

    @cached_property
    def pairs(self) -> ValuePairs | None:
        """Which values of individuals occur together in the data; None without data."""
        if self.people is None:
            return None
        known = self._individuals(self.people) if self._as_published else self._known
        return ValuePairs.of(self.schema.attributes, known, self.protected_columns, as_published=self._as_published)

    @cached_property
    def free(self) -> bool:
        """Whether everything inside the domain is admissible."""
        unbound = not self.constraints and not self.schema.constrains_people
        return unbound and (self.allow_infeasible or self.people is None)

    def is_legal(self, unprotected: Floats) -> Booleans:
        """Return which profiles (n, U) lie in the domain and have two people or more who may exist, shape (n,).

        These obey the rules of the schema and every constraint.
        """
        return self._are_possible(unprotected, by_data=False)

    def valid(self, unprotected: Floats) -> Booleans:
        """Return which profiles inside the domain (n, U) have only pairs of values that occur in the data, shape (n,).

        Two of their people or more have, and obey rules and constraints. Without data nothing speaks against anybody.
        """
        return self._are_compared(unprotected, by_data=True)

    def is_admissible(self, unprotected: Floats) -> Booleans:
        """Return which profiles (n, U) a search may report, shape (n,)."""
        return self._are_possible(unprotected, by_data=not self.allow_infeasible)

    def normalize(self, individuals: Floats) -> Floats:
        """Return individuals (n, attributes) with the unprotected part that stands for all their counterparts."""
        if not self.moved:
            return individuals
        normal = individuals.copy()
        normal[:, self.columns] = self._normal_profiles(individuals[:, self.columns])
        return normal

    def _normal_profiles(self, unprotected: Floats) -> Floats:
        """Return profiles (n, U) as the first of those that stand for the same people, (n, U)."""
        if not self.moved:
            return unprotected
        people, found = self._counterparts.assign(self._individuals(unprotected))
        return np.asarray(people[np.arange(len(people)), np.argmax(found, axis=1)][:, self.columns])

    def compared(self, unprotected: Floats, *, by_data: bool | None = None) -> Booleans:
        """Return which assignments make a plausible person of profiles inside the domain (n, U), shape (n, A).

        Args:
            by_data: whether values must occur together in the data; by default unless anything goes.
        """
        good = np.ones((len(unprotected), len(self.assignments)), dtype=np.bool_)
        pairs = self.pairs if (not self.allow_infeasible if by_data is None else by_data) else None
        if pairs is not None:
            fixed = [column for i, column in enumerate(self.columns) if i not in self.moved]
            good &= pairs.all_pairs_occur(self._individuals(unprotected), fixed)[:, None]
        if not self.varies:
            pairs = None
            if self.constraints:
                good &= self._obey(self._individuals(unprotected))[:, None]
            return good
        each = max(1, PEOPLE // len(self.assignments))
        for at in range(0, len(unprotected), each):
            alive = at + np.flatnonzero(good[at : at + each, 0])
            people, found = self._counterparts.assign(self._individuals(unprotected[alive]))
            found[found] = self._obey(people[found])
            if pairs is not None:
                found[found] = pairs.all_pairs_occur(people[found])
            good[alive] = found
        return good

    @cached_property
    def varies(self) -> bool:
        """Whether people of a profile are left out of its comparison, or are moved."""
        about = {column for found in self.constraints for column in found.columns}
        if self.schema.constrains_people or about & set(self.protected_columns):
            return True
        if self.pairs is None or self._as_published:
            return False
        return not self.pairs.always_occur(self.protected_columns)

    def _are_possible(self, unprotected: Floats, *, by_data: bool) -> Booleans:
        inside = [attribute.contains(unprotected[:, i]) for i, attribute in enumerate(self.attributes)]
        good = np.asarray(np.logical_and.reduce(inside), dtype=np.bool_)
        good[good] = self._are_compared(unprotected[good], by_data=by_data)
        return good

    def _are_compared(self, unprotected: Floats, *, by_data: bool) -> Booleans:
        """Return which profiles inside the domain (n, U) have two people who may be compared, and stand for them."""
        good = np.asarray(self.compared(unprotected, by_data=by_data).sum(axis=1) > 1)
        if self.moved:
            good[good] = (self._normal_profiles(unprotected[good]) == unprotected[good]).all(axis=1)
        return good

    def _obey(self, individuals: Floats) -> Booleans:
        """Return which individuals (n, attributes) obey the rules of the schema and every constraint, shape (n,)."""
        held = [self.schema.obeys_rules(individuals), *(found.holds(individuals) for found in self.constraints)]
        return np.asarray(np.logical_and.reduce(held))

    def _individuals(self, unprotected: Floats) -> Floats:
        """Return profiles (n, U) as individuals (n, attributes) with the first protected assignment as it stands."""
        rows = np.empty((len(unprotected), len(self.schema.attributes)))
        rows[:, self.columns] = unprotected
        rows[:, self.protected_columns] = self.assignments[0]
        return rows

    def substitutes(self, unprotected: Floats) -> Integers:
        """Return which assignment is asked about in place of each, shape (n, A): itself where it is compared.

        Where an assignment makes no plausible person, the first that does stands in, so that it brings no flip.
        """
        every = np.arange(len(self.assignments))
        if not self.varies:
            return np.broadcast_to(every, (len(unprotected), len(every)))
        good = self.compared(unprotected)
        first = np.argmax(good, axis=1)[:, None]
        return np.where(good | ~good.any(axis=1, keepdims=True), every, first)

    def rows(self, unprotected: Floats) -> Floats:
        """Return every profile (n, U) under every assignment, profile by profile: individuals (n * A, attributes).

        Under an assignment that makes no plausible person it is that of its stand-in.
        """
        which = self.substitutes(unprotected)
        return self.rows_as(np.repeat(unprotected, len(self.assignments), axis=0), which.ravel())

    def rows_as(self, unprotected: Floats, which: Integers) -> Floats:
        """Return profile i under assignment ``which[i]``: individuals (n, attributes), linked values moved."""
        rows = self._individuals(unprotected)
        if self.moved:
            return self._counterparts.assign_each(rows, which)
        rows[:, self.protected_columns] = self.assignments[which]
        return rows

    def split(self, individuals: Floats) -> tuple[Floats, Integers]:
        """Return profiles (n, U) and the number of each individual's own assignment (n,)."""
        own = individuals[:, self.protected_columns]
        first = np.array([self.schema[name].first for name in self.protected])
        sizes = [self.schema[name].size or 1 for name in self.protected]
        which = np.ravel_multi_index(tuple((own - first).astype(np.int64).T), sizes)
        return np.ascontiguousarray(individuals[:, self.columns]), np.asarray(which, dtype=np.int64)

    def keys(self, unprotected: Floats) -> Keys:
        """Return one number per profile, the same for the same profile, shape (n,).

        With finitely many profiles and fewer than 2**62 no two share one; else it is a hash, by which two of a million
        are taken for one with probability below one in ten million.
        """
        first, factors, reals = self._hash_tables
        codes = (unprotected - first).astype(np.int64)
        if len(reals):
            codes[:, reals] = np.ascontiguousarray(unprotected[:, reals] + 0.0).view(np.int64)  # -0.0 is 0.0
            codes[:, reals] ^= (codes[:, reals] >> 32) * 0x5851F42D4C957F2D
        return np.asarray(codes @ factors)

    @cached_property
    def _hash_tables(self) -> tuple[Floats, Keys, Integers]:
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
        """Return admissible profiles drawn uniformly from the domain, (m, U) with m at most n.

        They are drawn until enough are admissible; where less than one in a thousand is, a random walk from people in
        the data finds them instead.
        """
        return self._draw_admissible(lambda m: self._flat(m, rng), n, rng, walk=True)

    def draw_anywhere(self, n: int, rng: np.random.Generator) -> Floats:
        """Return profiles drawn uniformly from the domain, admissible or not, (n, U)."""
        return self._flat(n, rng)

    def draw_near(self, n: int, rng: np.random.Generator, *, changes: int = 1) -> Floats:
        """Draw admissible profiles near people in the data: up to ``changes`` attributes redrawn, (m, U), m at most n.

        Raises:
            OptionError: there are no data.
        """
        people = self._require_people()

        def draw(m: int) -> Floats:
            rows = people[rng.integers(0, len(people), size=m)]
            fresh = self._draw_independent(self._data_marginals, m, rng)
            for _ in range(changes):
                column = rng.integers(0, self.width, size=m)
                rows[np.arange(m), column] = fresh[np.arange(m), column]
            return rows

        return self._draw_admissible(draw, n, rng, walk=False)

    def seeds(self, n: int, rng: np.random.Generator, *, clusters: int = 4) -> Floats:
        """Draw individuals to start from, (m, attributes), m at most n: people in turns from k-means clusters.

        Without data: admissible profiles drawn uniformly, under assignments drawn uniformly.
        """
        if self.people is None:
            rows = self.uniform(n, rng)
            return self.rows_as(rows, rng.integers(0, len(self.assignments), size=len(rows)))
        # Clusters are found among many people once; later seeds come from a few of them.
        few = CLUSTERED if self._kmeans is None else 10 * n
        known = self._known[rng.choice(len(self._known), size=min(len(self._known), max(few, 10 * n)), replace=False)]
        known = self.normalize(known)
        if self.constraints or self.schema.constrains_people:
            known = known[self.is_legal(known[:, self.columns])]
        if len(known) == 0:
            return known
        return known[_take_in_turns(self._cluster_rows(clusters, known, rng), n)]

    def _cluster_rows(self, clusters: int, rows: Floats, rng: np.random.Generator) -> Integers:
        """Return the k-means cluster of each row (n, attributes), shape (n,). The clusters are made once."""
        if self._kmeans is None:
            from sklearn.cluster import KMeans

            few = rows[:CLUSTERED]
            clusters = min(clusters, len(np.unique(few, axis=0)))
            self._kmeans = KMeans(n_clusters=clusters, n_init=1, random_state=int(rng.integers(0, 2**31))).fit(few)
        return np.asarray(self._kmeans.predict(rows), dtype=np.int64)

    def move(self, unprotected: Floats, directions: Floats, rng: np.random.Generator) -> Floats:
        """Move profiles (n, U) one step along ``directions`` (n, U), each -1, 0 or 1, as far as it stays admissible.

        All attributes move at once, up to the domain's ends; a one-hot group moves as a whole. Where the outcome is
        not admissible, the attributes move one by one in random order and those that lead outside stay.
        """
        target = self._step_along(unprotected, directions)
        if self.free:
            return target
        outside = ~self._check_admissible(target)
        if not outside.any():
            return target
        several = outside & ((target != unprotected).sum(axis=1) > self._largest_move)
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
            good = self._check_admissible(trial)
            rows[np.flatnonzero(changed)[good]] = trial[good]
        target[bad] = rows
        return target

    def neighbours(self, unprotected: Floats) -> Floats:
        """Return every admissible profile one change away from these (n, U), without repetition, (m, U).

        An attribute or one-hot group changes to any other value; a number with more than 64 values by one step up or
        down.
        """
        found = [changed for columns in self._parts for changed in self._single_changes(unprotected, columns)]
        if not found:
            return np.empty((0, self.width))
        rows = np.concatenate(found)
        _, first = np.unique(self.keys(rows), return_index=True)
        rows = rows[np.sort(first)]
        return rows[self.is_admissible(rows)]

    @cached_property
    def _parts(self) -> list[Integers]:
        """What moves as a whole: a one-hot group, or one attribute."""
        grouped = {int(i) for group in self.groups for i in group}
        return [*self.groups, *(np.array([i]) for i in range(self.width) if i not in grouped)]

    @cached_property
    def _largest_move(self) -> int:
        """How many entries one move of one part changes, at most."""
        return 2 if self.groups else 1

    def _check_admissible(self, inside: Floats) -> Booleans:
        """Return which profiles (n, U), all inside the domain, are admissible, shape (n,)."""
        if self.constraints or self.schema.constrains_people:
            return self.is_admissible(inside)
        return self.valid(inside)

    def _single_changes(self, rows: Floats, columns: Integers) -> list[Floats]:
        if len(columns) > 1:
            shifts = [np.roll(rows[:, columns], shift, axis=1) for shift in range(1, len(columns))]
            return [self._replace_columns(rows, columns, values) for values in shifts]
        column = int(columns[0])
        attribute = self.attributes[column]
        if attribute.size is not None and attribute.size <= DISTINCT:
            low, size = self.lower[column], attribute.size
            places = rows[:, columns] - low
            return [
                self._replace_columns(rows, columns, low + np.mod(places + shift, size)) for shift in range(1, size)
            ]
        found = []
        for sign in (-1.0, 1.0):
            values = np.clip(rows[:, columns] + sign * self.step[column], self.lower[column], self.upper[column])
            changed = values[:, 0] != rows[:, column]
            found.append(self._replace_columns(rows[changed], columns, values[changed]))
        return found

    @staticmethod
    def _replace_columns(rows: Floats, columns: Integers, values: Floats) -> Floats:
        changed = rows.copy()
        changed[:, columns] = values
        return changed

    def _step_along(self, unprotected: Floats, directions: Floats) -> Floats:
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

    def _draw_admissible(self, draw: Sampler, n: int, rng: np.random.Generator, *, walk: bool) -> Floats:
        """The first n admissible ones among profiles drawn from a product of distributions, (m, U) with m at most n.

        Args:
            walk: where less than one in a thousand is admissible, walk instead (see ``_random_walk``).
        """
        if self.free:
            return draw(n)
        walk = walk and self.people is not None
        found: list[Floats] = [np.empty((0, self.width))]
        count, tried = 0, 0
        while count < n and tried < MOST_DRAWN and not (walk and tried >= DRAWN and count < SPARSE * tried):
            share = max(count / tried if tried else 1.0, 0.01)
            rows = self._normal_profiles(draw(min(int(1.2 * (n - count) / share) + 16, DRAWN)))
            tried += len(rows)
            rows = rows[self._check_admissible(rows)]
            found.append(rows)
            count += len(rows)
        if walk and count < n:
            found.append(self._random_walk(draw, n - count, rng))
        return np.concatenate(found)[:n]

    def _random_walk(self, draw: Sampler, n: int, rng: np.random.Generator) -> Floats:
        """Profiles after a random walk from people in the data: ten times per attribute one of a profile's values is
        redrawn and kept if that is admissible. What the walk tends to is the same product of distributions, limited
        to admissible profiles (those that such changes lead to).
        """
        people = self._require_people()
        people = people[self.is_legal(people)]
        if len(people) == 0:
            return people
        rows = people[rng.integers(0, len(people), size=n)]
        parts = self._parts
        for _ in range(10):
            fresh = draw(n)
            for part in rng.permutation(len(parts)):
                trial = rows.copy()
                trial[:, parts[part]] = fresh[:, parts[part]]
                good = self._check_admissible(trial)
                rows[good] = trial[good]
        return rows

    def _draw_independent(
        self, each: tuple[Marginal | UniformMarginal, ...], n: int, rng: np.random.Generator
    ) -> Floats:
        return self._one_hot(np.stack([marginal.sample(n, rng) for marginal in each], axis=1), rng)

    def _one_hot(self, rows: Floats, rng: np.random.Generator) -> Floats:
        """Return the same rows (n, U) with one column of each one-hot group at 1, uniformly at random."""
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
    def _data_marginals(self) -> tuple[Marginal | UniformMarginal, ...]:
        self._require_people()
        assert isinstance(self._source, People)
        each = product_of_marginals(self._source).marginals
        return tuple(each[i] for i in self.columns)

    def _require_people(self) -> Floats:
        if self.people is None:
            raise OptionError("there are no data to look around in", hint="give the people, or search uniformly")
        return self.people


def _step_size(attribute: Attribute) -> float:
    """Return how far one move goes: to the next value, or about a hundredth of a long range."""
    span = attribute.last - attribute.first
    if attribute.kind == "real":
        return span / STEPS
    return 1.0 if span <= STEPS else float(round(span / STEPS))


def _take_in_turns(member: Integers, n: int) -> Integers:
    """The first n rows, taking one of each cluster in turn, from the cluster of each row: shape (m,), m at most n."""
    turn = np.empty(len(member), dtype=np.int64)
    for cluster in np.unique(member):
        inside = np.flatnonzero(member == cluster)
        turn[inside] = np.arange(len(inside))
    return np.asarray(np.lexsort((member, turn))[:n], dtype=np.int64)
