"""Space of a search: unprotected parts of individuals that are legal and plausible, and moves between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.individual.search.plausibility import ValuePairs
from evenhand.population.independent import Marginal, UniformMarginal, product_of_marginals
from evenhand.schema.attribute import Attribute
from evenhand.schema.constraint import Constraint, parse_constraint
from evenhand.schema.counterparts import counterparts_of
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

Sampler: TypeAlias = Callable[[int], Floats]
"""Function that draws n profiles, (n, U)."""

STEPS = 100
"""Number of moves across the range of a number with more values than this."""

CLUSTERS = 4
"""Number of clusters of the seeds."""

MAX_CLUSTERED = 10_000
"""Maximum number of people for fitting the clusters of the seeds."""

MAX_DRAWN = 65_536
"""Maximum number of profiles drawn at a time."""

PEOPLE_BATCH = 65_536
"""Maximum number of people that are checked at a time, one per profile and assignment."""

MAX_SAMPLE_DRAWS = 200 * MAX_DRAWN
"""Maximum number of profiles drawn for a sample if few are admissible."""

SPARSE = 0.001
"""Fraction of admissible profiles below which random walks replace rejection sampling."""

WALK_ROUNDS = 10
"""Rounds of a random walk. Each round redraws every attribute once."""

MAX_KEYED_PROFILES = 1 << 62
"""Number of profiles in the domain below which keys are unique. Otherwise, keys are 64-bit hashes."""


class ProfileSpace:
    """Unprotected attributes of individuals, as rows of shape (n, U) in the order of the schema.

    A row is a profile: one person without protected values. Under each protected assignment it represents one person,
    with changed linked attributes. If several profiles represent the same people, only the first one counts. A profile
    is *legal* if it is inside the domain and at least two of its people obey every rule of the schema and every
    constraint. It is *valid* if, in addition, every pair of their values occurs together in the data (2-way occurrence,
    see ``ValuePairs``). Moves and samples are *admissible*: legal, and valid unless infeasible profiles are allowed or
    there are no data. Only the people of a profile who meet these conditions are compared.

    Attributes:
        source: People, or only their schema.
        schema: Schema of the individuals.
        protected: Names of the attributes that vary jointly.
        moved: Positions, among the U unprotected attributes, of those linked to protected ones.
        allow_infeasible: Whether profiles that are not valid are admissible.
        columns: Positions of the U unprotected attributes in the schema.
        protected_columns: Positions of the protected attributes in the schema.
        assignments: Joint protected values, shape (A, protected).
        lower: Lower end of each attribute, shape (U,).
        upper: Upper end of each attribute, shape (U,).
        step: Step size of each attribute, shape (U,).
        people: Distinct unprotected parts in the data without missing values, shape (n, U). None without data.
        constraints: Constraints.
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
        """Build a space.

        By default, the protected attributes are those of the schema. If ``as_published``, only they change: the rules
        of the schema are ignored, constraints must not name protected attributes, and the data only determine the
        unprotected values that occur together.

        Raises:
            OptionError: No attribute or every attribute is protected, an attribute is unknown, or a constraint is
                invalid.
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
        self.allow_infeasible = allow_infeasible
        self._as_published = as_published
        self._counterparts = counterparts_of(self.schema, self.protected)
        self.moved: tuple[int, ...] = tuple(self.columns.index(i) for i in self._counterparts.moved)
        self.source = source
        self._kmeans: Any = None
        self.people: Floats | None = None
        if isinstance(source, People):
            entries = source.individuals[:, : len(self.schema.attributes)]  # without the passthrough row's position
            complete = entries[~np.isnan(entries).any(axis=1)]
            if len(complete) == 0:
                raise OptionError("every row of the data has a missing value, so none can be a seed of the search")
            self._complete = complete
            self.people = np.unique(self._normalize_profiles(complete[:, self.columns]), axis=0)

    @property
    def width(self) -> int:
        """Number of unprotected attributes."""
        return len(self.columns)

    @cached_property
    def pairs(self) -> ValuePairs | None:
        """Pairs of values that occur together in the data. None without data."""
        if self.people is None:
            return None
        complete = self._individuals(self.people) if self._as_published else self._complete
        return ValuePairs.of(self.schema.attributes, complete, self.protected_columns, as_published=self._as_published)

    @cached_property
    def free(self) -> bool:
        """Whether the whole domain is admissible."""
        unconstrained = not self.constraints and not self.schema.constrains_people
        return unconstrained and (self.allow_infeasible or self.people is None)

    @cached_property
    def varies(self) -> bool:
        """Whether a profile may include people who are not compared or whose linked attributes change."""
        constrained = {column for constraint in self.constraints for column in constraint.columns}
        if self.schema.constrains_people or constrained & set(self.protected_columns):
            return True
        if self.pairs is None or self._as_published:
            return False
        return not self.pairs.always_occur(self.protected_columns)

    def is_legal(self, unprotected: Floats) -> Booleans:
        """Compute a mask of the legal profiles (n, U): inside the domain, with at least two possible people."""
        return self.is_admissible(unprotected, by_data=False)

    def is_admissible(self, unprotected: Floats, *, by_data: bool | None = None) -> Booleans:
        """Compute a mask of the profiles (n, U) that a search may report. For ``by_data``, see ``compared``."""
        inside = [attribute.contains(column) for attribute, column in zip(self.attributes, unprotected.T, strict=True)]
        possible = np.asarray(np.logical_and.reduce(inside), dtype=np.bool_)
        possible[possible] = self.is_comparable(unprotected[possible], by_data=by_data)
        return possible

    def is_comparable(self, unprotected: Floats, *, by_data: bool | None = None) -> Booleans:
        """Compute a mask of the first profile (n, U) of each set of people, if two of the people are comparable."""
        comparable = np.asarray(self.compared(unprotected, by_data=by_data).sum(axis=1) > 1)
        if self.moved:
            profiles = unprotected[comparable]
            comparable[comparable] = (self._normalize_profiles(profiles) == profiles).all(axis=1)
        return comparable

    def _normalize_profiles(self, unprotected: Floats) -> Floats:
        """Replace profiles (n, U) by the first profile with the same people, (n, U)."""
        if not self.moved:
            return unprotected
        people, plausible = self._counterparts.assign(self._individuals(unprotected))
        return np.asarray(people[np.arange(len(people)), np.argmax(plausible, axis=1)][:, self.columns])

    def compared(self, unprotected: Floats, *, by_data: bool | None = None) -> Booleans:
        """Compute a mask (n, A) of the assignments under which profiles (n, U) in the domain are a plausible person.

        ``by_data`` requires values that occur together in the data. Default: True unless infeasible profiles are
        allowed.
        """
        plausible = np.ones((len(unprotected), len(self.assignments)), dtype=np.bool_)
        pairs = self.pairs if (not self.allow_infeasible if by_data is None else by_data) else None
        if pairs is not None:
            fixed = [column for i, column in enumerate(self.columns) if i not in self.moved]
            plausible &= pairs.all_pairs_occur(self._individuals(unprotected), fixed)[:, None]
        if not self.varies:
            if self.constraints:
                plausible &= self._obey(self._individuals(unprotected))[:, None]
            return plausible
        step = max(1, PEOPLE_BATCH // len(self.assignments))
        for at in range(0, len(unprotected), step):
            alive = at + np.flatnonzero(plausible[at : at + step, 0])
            people, possible = self._counterparts.assign(self._individuals(unprotected[alive]))
            possible[possible] = self._obey(people[possible])
            if pairs is not None:
                possible[possible] = pairs.all_pairs_occur(people[possible])
            plausible[alive] = possible
        return plausible

    def _obey(self, individuals: Floats) -> Booleans:
        """Compute a mask of the individuals (n, attributes) that obey all rules of the schema and all constraints."""
        constraints = (constraint.holds(individuals) for constraint in self.constraints)
        return np.asarray(np.logical_and.reduce([self.schema.obeys_rules(individuals), *constraints]))

    def _individuals(self, unprotected: Floats) -> Floats:
        """Build individuals (n, attributes) from profiles (n, U) with the first protected assignment."""
        rows = np.empty((len(unprotected), len(self.schema.attributes)))
        rows[:, self.columns] = unprotected
        rows[:, self.protected_columns] = self.assignments[0]
        return rows

    def substitutes(self, unprotected: Floats) -> Integers:
        """Return the assignment that is queried for each assignment, shape (n, A): the same one if it is compared.

        An implausible assignment is replaced by the first plausible one, so that it causes no flip.
        """
        every = np.arange(len(self.assignments))
        if not self.varies:
            return np.broadcast_to(every, (len(unprotected), len(every)))
        compared = self.compared(unprotected)
        substitute = np.argmax(compared, axis=1)[:, None]
        return np.where(compared | ~compared.any(axis=1, keepdims=True), every, substitute)

    def rows(self, unprotected: Floats) -> Floats:
        """Build the individuals of profiles (n, U) under every assignment or its substitute, (n * A, attributes)."""
        return self.sides(unprotected, self.substitutes(unprotected)).reshape(-1, len(self.schema.attributes))

    def rows_as(self, unprotected: Floats, which: Integers) -> Floats:
        """Build individuals (n, attributes) of profile i under assignment ``which[i]``, with linked values."""
        rows = self._individuals(unprotected)
        if self.moved:
            return self._counterparts.assign_each(rows, which)
        rows[:, self.protected_columns] = self.assignments[which]
        return rows

    def sides(self, unprotected: Floats, which: Integers) -> Floats:
        """Build individuals of profiles (n, U) under k assignments each (n, k), shape (n, k, attributes)."""
        rows = self.rows_as(np.repeat(unprotected, which.shape[1], axis=0), which.ravel())
        return rows.reshape(*which.shape, rows.shape[1])

    def split(self, individuals: Floats) -> tuple[Floats, Integers]:
        """Split individuals into profiles (n, U) and the index of each individual's assignment (n,)."""
        own = individuals[:, self.protected_columns]
        lowest = np.array([self.schema[name].first for name in self.protected])
        sizes = [self.schema[name].size or 1 for name in self.protected]
        which = np.ravel_multi_index(tuple((own - lowest).astype(np.int64).T), sizes)
        return np.ascontiguousarray(individuals[:, self.columns]), np.asarray(which, dtype=np.int64)

    def keys(self, unprotected: Floats) -> Integers:
        """Return a key for each profile; equal profiles have equal keys, shape (n,).

        If there are fewer than 2**62 profiles, keys are distinct. Otherwise they are hashes: the probability that two
        of a million profiles have the same hash is below one in ten million.
        """
        offsets, factors, reals = self._hash_tables
        codes = (unprotected - offsets).astype(np.int64)
        if len(reals):
            codes[:, reals] = np.ascontiguousarray(unprotected[:, reals] + 0.0).view(np.int64)  # -0.0 equals 0.0
            codes[:, reals] ^= (codes[:, reals] >> 32) * 0x5851F42D4C957F2D
        return np.asarray(codes @ factors)

    @cached_property
    def _hash_tables(self) -> tuple[Floats, Integers, Integers]:
        sizes = [attribute.size for attribute in self.attributes]
        reals = np.flatnonzero([size is None for size in sizes])
        factors, count = [], 1
        for size in sizes:
            factors.append(count)
            count *= size or MAX_KEYED_PROFILES
        offsets = np.where([size is None for size in sizes], 0.0, self.lower)
        if count < MAX_KEYED_PROFILES:
            return offsets, np.array(factors, dtype=np.int64), reals
        odd = np.random.default_rng(0).integers(-(2**62), 2**62, size=len(sizes)) * 2 + 1
        return offsets, odd, reals

    def uniform(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw up to n admissible profiles uniformly from the domain, shape (m, U).

        Profiles are drawn until enough are admissible. If fewer than one in a thousand are, random walks from people in
        the data replace rejection sampling.
        """
        return self._draw_admissible(lambda m: self.draw_anywhere(m, rng), n, rng, walk=True)

    def draw_anywhere(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw profiles uniformly from the domain, whether or not they are admissible, (n, U)."""
        is_whole = np.array([attribute.kind != "real" for attribute in self.attributes])
        rows = rng.random((n, self.width))
        rows *= self.upper - self.lower + is_whole
        np.floor(rows, out=rows, where=is_whole)
        rows += self.lower
        return rows

    def draw_near(self, n: int, rng: np.random.Generator, *, changes: int) -> Floats:
        """Draw up to n admissible profiles (m, U) near people in the data, with up to ``changes`` other values."""
        assert self.people is not None
        people, marginals = self.people, self._marginals

        def draw(m: int) -> Floats:
            rows = people[rng.integers(0, len(people), size=m)]
            values = np.stack([marginals[column].sample(m, rng) for column in self.columns], axis=1)
            for _ in range(changes):
                column = rng.integers(0, self.width, size=m)
                rows[np.arange(m), column] = values[np.arange(m), column]
            return rows

        return self._draw_admissible(draw, n, rng, walk=False)

    @cached_property
    def _marginals(self) -> tuple[Marginal | UniformMarginal, ...]:
        """Marginal distribution of each attribute in the data."""
        assert isinstance(self.source, People)
        return product_of_marginals(self.source).marginals

    def seeds(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw up to n seeds, shape (m, attributes): people in the data, taken from k-means clusters in turn.

        Without data, seeds are admissible profiles drawn uniformly, under assignments drawn uniformly.
        """
        if self.people is None:
            rows = self.uniform(n, rng)
            return self.rows_as(rows, rng.integers(0, len(self.assignments), size=len(rows)))
        # Clusters are fitted once on many people, although later seeds come from few.
        size = max(MAX_CLUSTERED if self._kmeans is None else 10 * n, 10 * n)
        people = self._complete[rng.choice(len(self._complete), size=min(len(self._complete), size), replace=False)]
        people[:, self.columns] = self._normalize_profiles(people[:, self.columns])
        if self.constraints or self.schema.constrains_people:
            people = people[self.is_legal(people[:, self.columns])]
        if len(people) == 0:
            return people
        if self._kmeans is None:
            from sklearn.cluster import KMeans

            sample = people[:MAX_CLUSTERED]
            clusters = min(CLUSTERS, len(np.unique(sample, axis=0)))
            self._kmeans = KMeans(n_clusters=clusters, n_init=1, random_state=int(rng.integers(0, 2**31))).fit(sample)
        return people[_take_in_turns(self._kmeans.predict(people), n)]

    def move(self, unprotected: Floats, directions: Floats, rng: np.random.Generator) -> Floats:
        """Move profiles (n, U) one step along ``directions`` (n, U), each -1, 0 or 1, while they remain admissible.

        All attributes move at once, up to the ends of the domain. If the result is not admissible, the attributes move
        one by one in random order, except for moves that lead outside.
        """
        target: Floats = np.clip(unprotected + directions * self.step, self.lower, self.upper)
        if self.free:
            return target
        outside = ~self.is_comparable(target)
        if not outside.any():
            return target
        several = outside & ((target != unprotected).sum(axis=1) > 1)
        target[outside & ~several] = unprotected[outside & ~several]
        retried = np.flatnonzero(several)
        rows = unprotected[retried].copy()
        goal = target[retried]
        for column in rng.permutation(self.width):
            changed = rows[:, column] != goal[:, column]
            if not changed.any():
                continue
            trial = rows[changed]
            trial[:, column] = goal[changed, column]
            admissible = self.is_comparable(trial)
            rows[np.flatnonzero(changed)[admissible]] = trial[admissible]
        target[retried] = rows
        return target

    def _draw_admissible(self, draw: Sampler, n: int, rng: np.random.Generator, *, walk: bool) -> Floats:
        """Draw up to n admissible profiles from a product of distributions, shape (m, U).

        ``walk`` permits random walks if fewer than one in a thousand profiles are admissible.
        """
        if self.free:
            return draw(n)
        people = self.people if walk else None
        parts = [np.empty((0, self.width))]
        count, attempts = 0, 0
        while count < n and attempts < MAX_SAMPLE_DRAWS:
            if people is not None and attempts >= MAX_DRAWN and count < SPARSE * attempts:
                break
            share = max(count / attempts if attempts else 1.0, 0.01)
            rows = self._normalize_profiles(draw(min(int(1.2 * (n - count) / share) + 16, MAX_DRAWN)))
            attempts += len(rows)
            rows = rows[self.is_comparable(rows)]
            parts.append(rows)
            count += len(rows)
        if people is not None and count < n:
            parts.append(self._random_walk(draw, people, n - count, rng))
        return np.concatenate(parts)[:n]

    def _random_walk(self, draw: Sampler, people: Floats, n: int, rng: np.random.Generator) -> Floats:
        """Walk randomly from people in the data: redraw one value at a time, and keep it if the profile is admissible.

        The stationary distribution of the walk is the same product, restricted to the admissible profiles reachable by
        such changes.
        """
        people = people[self.is_legal(people)]
        if len(people) == 0:
            return people
        rows = people[rng.integers(0, len(people), size=n)]
        for _ in range(WALK_ROUNDS):
            values = draw(n)
            for column in rng.permutation(self.width):
                trial = rows.copy()
                trial[:, column] = values[:, column]
                admissible = self.is_comparable(trial)
                rows[admissible] = trial[admissible]
        return rows


def _step_size(attribute: Attribute) -> float:
    """Return the size of one move: to the next value, or about 1 % of a long range."""
    span = attribute.last - attribute.first
    if attribute.kind == "real":
        return span / STEPS
    return 1.0 if span <= STEPS else float(round(span / STEPS))


def _take_in_turns(cluster: Integers, n: int) -> Integers:
    """Select the positions of up to n rows, taken from the clusters in turn, shape (m,)."""
    order = np.argsort(cluster, kind="stable")
    turn = np.empty_like(order)
    turn[order] = np.arange(len(order)) - np.searchsorted(cluster[order], cluster[order])
    return np.asarray(np.lexsort((cluster, turn))[:n], dtype=np.int64)
