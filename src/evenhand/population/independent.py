"""How individuals are distributed over the domain: uniformly, like the data attribute by attribute, or as the data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError
from evenhand.schema.attribute import Attribute
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

REAL_BINS = 32
"""Equal-width bins of the histogram that stands for a real attribute's marginal."""
MAX_DENSE = 1_000_000
"""Values of an attribute that have a cell each, at most. Of a wider domain, one age of a billion say, only values that
somebody has are listed; the masses and all that is drawn are the same."""


class Population(Protocol):
    """A distribution over individuals."""

    @property
    def name(self) -> str:
        """How to call it in a report."""
        ...

    @property
    def schema(self) -> Schema:
        """What its individuals are."""
        ...

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n individuals independently, shape (n, attributes)."""
        ...


@dataclass(frozen=True)
class Marginal:
    """The distribution of one attribute: masses over equal cells of its domain.

    Attributes:
        attribute: whose distribution this is.
        masses: shape (cells,), adding up to 1. One cell per value; for a real attribute, equal-width
            cells of [lower, upper] with uniform density inside each.
        breaks: where a real attribute's cells begin and end if they are not of equal width, shape (cells + 1,).
        listed: the values that cells are of, increasing, shape (cells,); None: all of the domain. Others have no mass.
    """

    attribute: Attribute
    masses: Floats
    breaks: Floats | None = None
    listed: Floats | None = None
    total = 1.0

    @property
    def edges(self) -> Floats:
        """Where the cells of a real attribute begin and end, shape (cells + 1,)."""
        if self.breaks is not None:
            return self.breaks
        return np.linspace(self.attribute.first, self.attribute.last, len(self.masses) + 1)

    def restrict(self, low: float, high: float) -> Marginal:
        """Return the distribution of a number among those who have it between these two, both included.

        Raises:
            OptionError: no one has.
        """
        narrowed = self.attribute.model_copy(update={"lower": low, "upper": high})
        breaks = listed = None
        if self.attribute.size is not None:
            begin, stop = self._cell_range(np.array([low]), np.array([high]))
            masses = self.masses[begin[0] : stop[0]]
            listed = None if self.listed is None else self.listed[begin[0] : stop[0]]
        elif low == high:
            masses = np.ones(int(self.attribute.first == self.attribute.last))
        else:
            edges = self.edges
            inside = edges[(edges > low) & (edges < high)]
            breaks = np.concatenate([[low], inside, [high]])
            masses = np.diff(np.interp(breaks, edges, np.concatenate([[0.0], np.cumsum(self.masses)])))
        return Marginal(narrowed, normalize_masses(self.attribute, masses), breaks, listed)

    def values_of(self, cells: Integers) -> Floats:
        """Return the value that each cell of a finite attribute is of."""
        return np.asarray(self.attribute.first + cells if self.listed is None else self.listed[cells], dtype=np.float64)

    def held_values(self) -> Floats:
        """Return the values of a finite attribute that anybody has, increasing."""
        return self.values_of(np.flatnonzero(self.masses > 0))

    def masses_of(self, entries: Floats) -> Floats:
        """Return the mass of each of some values of a finite attribute."""
        cells = self.cells_of(entries)
        if self.listed is None:
            return np.asarray(self.masses[cells])
        cells = np.minimum(cells, len(self.listed) - 1)
        return np.where(self.listed[cells] == entries, self.masses[cells], 0.0)

    def cells_of(self, entries: Floats) -> Integers:
        """Return the cell that each entry (n,) lies in: its value's, or a bin of a real attribute."""
        if self.listed is not None:
            return np.asarray(np.searchsorted(self.listed, entries))
        return _cells_of_domain(self.attribute, entries)

    def _cell_range(self, starts: Floats, ends: Floats) -> tuple[Integers, Integers]:
        """Return the first cell from each start on, and the one behind the last up to each end, of a finite domain."""
        if self.listed is not None:
            return np.searchsorted(self.listed, starts, "left"), np.searchsorted(self.listed, ends, "right")
        first = int(self.attribute.first)
        return starts.astype(np.int64) - first, ends.astype(np.int64) - first + 1

    @cached_property
    def cumulative(self) -> Floats:
        """Mass at or below each cell, shape (cells,)."""
        return np.cumsum(self.masses)

    @cached_property
    def _before(self) -> Floats:
        """Mass below each cell, and at last all of it, shape (cells + 1,)."""
        return np.concatenate([[0.0], self.cumulative])

    @property
    def peak_density(self) -> float:
        """How much denser than on average a real attribute is anywhere, at most."""
        first, last = self.attribute.first, self.attribute.last
        if first == last:
            return 1.0
        return float((self.masses / np.diff(self.edges)).max() * (last - first) / self.masses.sum())

    def mass_between(self, starts: Floats, ends: Floats) -> Floats:
        """Return the mass from each start to each end: of values, both included, or of real intervals."""
        if self.attribute.size is not None:
            begin, stop = self._cell_range(starts, ends)
            return np.asarray(self._before[stop] - self._before[begin])
        if self.attribute.first == self.attribute.last:
            return _point_mass(len(starts))
        return np.asarray(np.interp(ends, self.edges, self._before) - np.interp(starts, self.edges, self._before))

    def draw_between(self, starts: Floats, ends: Floats, rng: np.random.Generator) -> Floats:
        """Draw one entry between each start and end, both included."""
        share = rng.random(len(starts))
        if self.attribute.size is None:
            return _draw_real(self.attribute, self.edges, self._before, starts, ends, share)
        low, high = (self._before[border] for border in self._cell_range(starts, ends))
        cells = np.searchsorted(self._before, low + share * (high - low), side="right") - 1
        return np.asarray(np.clip(self.values_of(np.clip(cells, 0, len(self.masses) - 1)), starts, ends))

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n entries."""
        cells = np.searchsorted(self.cumulative, rng.random(n) * self.cumulative[-1], side="right")
        cells = np.minimum(cells, len(self.masses) - 1)
        if self.attribute.size is not None:
            return self.values_of(cells)
        low, high = self.edges[cells], self.edges[cells + 1]
        return np.asarray(np.minimum(low + (high - low) * rng.random(n), self.attribute.last))


def normalize_masses(attribute: Attribute, masses: Floats) -> Floats:
    """Normalise the masses of some of an attribute's values to a sum of 1.

    Raises:
        OptionError: they have none.
    """
    if not masses.sum() > 0:
        raise OptionError(
            f"no one in the population has a value of {attribute.name!r} that the conditions allow",
            hint="widen the conditions, or measure by the uniform population",
        )
    return np.asarray(masses / masses.sum())


@dataclass(frozen=True)
class UniformMarginal:
    """Every value of one attribute equally likely; what it counts is exact, however many values there are.

    Attributes:
        attribute: whose distribution this is.
    """

    attribute: Attribute
    peak_density = 1.0

    @property
    def total(self) -> float:
        """Return what ``mass_between`` says of the whole domain."""
        return float(self.attribute.size or 1)

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n entries."""
        ends = np.array([self.attribute.first, self.attribute.last])
        return self.draw_between(np.full(n, ends[0]), np.full(n, ends[1]), rng)

    def restrict(self, low: float, high: float) -> UniformMarginal:
        """Return the distribution of a number among those who have it between these two, both included.

        Raises:
            OptionError: no one has: a single point of a real attribute.
        """
        if low == high and self.attribute.size is None:
            normalize_masses(self.attribute, np.zeros(1))
        return UniformMarginal(self.attribute.model_copy(update={"lower": low, "upper": high}))

    def mass_between(self, starts: Floats, ends: Floats) -> Floats:
        """Return the mass from each start to each end: how many values, or which share of a real attribute's range."""
        first, last = self.attribute.first, self.attribute.last
        if self.attribute.size is not None:
            return ends - starts + 1
        if first == last:
            return _point_mass(len(starts))
        edges, below = [first, last], [0.0, 1.0]
        return np.asarray(np.interp(ends, edges, below) - np.interp(starts, edges, below))

    def draw_between(self, starts: Floats, ends: Floats, rng: np.random.Generator) -> Floats:
        """Draw one entry between each start and end, both included."""
        share = rng.random(len(starts))
        if self.attribute.size is None:
            edges = np.array([self.attribute.first, self.attribute.last])
            return _draw_real(self.attribute, edges, np.array([0.0, 1.0]), starts, ends, share)
        return np.asarray(np.minimum(starts + np.floor(share * (ends - starts + 1)), ends))


def _point_mass(bins: int) -> Floats:
    """Return the masses of bins of a real attribute with a single value: it lies in the last."""
    return np.array([0.0] * (bins - 1) + [1.0])


def _draw_real(
    attribute: Attribute,
    edges: Floats,
    below: Floats,
    starts: Floats,
    ends: Floats,
    share: Floats,
) -> Floats:
    """Return entries of a real attribute, by the inverse of its distribution function between each start and end."""
    start, stop = np.interp(starts, edges, below), np.interp(ends, edges, below)
    drawn = np.interp(start + share * (stop - start), below, edges)
    # A bin holds its lower cut but not its upper one, except the last of the domain.
    largest = np.where(ends < attribute.last, np.nextafter(ends, -np.inf), ends)
    return np.asarray(np.clip(drawn, starts, np.maximum(largest, starts)))


UNIFORM_POPULATION = "everyone in the domain, uniformly"
"""What the uniform population is called in reports and certificates."""


@dataclass(frozen=True)
class ProductPopulation:
    """Independent attributes, each with its own distribution (what certification can count exactly).

    Attributes:
        name: how to call it in a report.
        schema: what its individuals are.
        marginals: of each attribute, in schema order.
        rows: rows of the data that individuals may carry (see ``carry_rows``).
    """

    name: str
    schema: Schema
    marginals: tuple[Marginal | UniformMarginal, ...]
    rows: Integers | None = None

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n individuals, shape (n, attributes)."""
        drawn = np.stack([marginal.sample(n, rng) for marginal in self.marginals], axis=1)
        return carry_rows(self.schema, drawn, self.rows, rng)


def carry_rows(schema: Schema, drawn: Floats, rows: Integers | None, rng: np.random.Generator) -> Floats:
    """Return individuals drawn from a population (n, attributes) with the row of the data that each carries, if any do.

    What is in no domain has no distribution: of passthrough columns everybody has those of a person of the data, drawn
    at random and independently of the attributes; without any rows, those of the first.
    """
    if not schema.carries_rows:
        return drawn
    chosen = np.zeros(len(drawn)) if rows is None else rows[rng.integers(0, len(rows), len(drawn))]
    return np.column_stack([drawn, chosen])


@dataclass(frozen=True)
class DataPopulation:
    """The people in the data, drawn with replacement."""

    people: People
    name: str = "the people in the data"

    @property
    def schema(self) -> Schema:
        """What the people's columns mean."""
        return self.people.schema

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n individuals, shape (n, attributes)."""
        return self.people.individuals[rng.integers(0, len(self.people), size=n)]


def uniform_population(schema: Schema) -> ProductPopulation:
    """Return the population in which every individual of the domain is equally likely."""
    return ProductPopulation(
        name=UNIFORM_POPULATION,
        schema=schema,
        marginals=tuple(map(_uniform_marginal, schema.attributes)),
    )


def _uniform_marginal(attribute: Attribute) -> Marginal | UniformMarginal:
    size = attribute.size or 1
    return UniformMarginal(attribute) if size > MAX_DENSE else Marginal(attribute, np.full(size, 1 / size))


def product_of_marginals(people: People, *, smoothing: float = 0.0) -> ProductPopulation:
    """Return the population of independent attributes, each distributed as in the data without missing values.

    Args:
        people: the data.
        smoothing: pseudo-count added to every cell, so that unseen values keep some mass.

    Raises:
        OptionError: an attribute has no value in the data, or its domain is too wide for pseudo-counts.
    """
    return ProductPopulation(
        name="independent attributes, each as in the data",
        schema=people.schema,
        marginals=tuple(
            estimate_marginal(attribute, people.individuals[:, i], smoothing)
            for i, attribute in enumerate(people.schema.attributes)
        ),
        rows=people.rows if people.schema.carries_rows else None,
    )


def estimate_marginal(attribute: Attribute, entries: Floats, smoothing: float = 0.0) -> Marginal:
    """Return the distribution of one attribute among entries (n,), of which missing ones are left out.

    Raises:
        OptionError: there is none, or the domain is too wide for pseudo-counts.
    """
    known = entries[~np.isnan(entries)]
    listed = None
    if attribute.size is not None and attribute.size > MAX_DENSE:
        if smoothing:
            raise OptionError(
                f"attribute {attribute.name!r} has {attribute.size:,} values, too many to add a pseudo-count to each",
                hint="make it real in the schema, or bin it",
            )
        listed, seen = np.unique(known, return_counts=True)
    else:
        seen = np.bincount(_cells_of_domain(attribute, known), minlength=attribute.size or REAL_BINS)
    counts = seen + smoothing
    if counts.sum() <= 0:
        raise OptionError(f"attribute {attribute.name!r} has no value in the data, so it has no distribution")
    return Marginal(attribute, counts / counts.sum(), listed=listed)


def _cells_of_domain(attribute: Attribute, entries: Floats) -> Integers:
    """Return the cell of the whole domain that each entry (n,) lies in: one per value, or a bin of a real attribute."""
    if attribute.size is not None:
        return np.asarray((entries - attribute.first).astype(np.int64))
    span = attribute.last - attribute.first
    scaled = (entries - attribute.first) / span if span > 0 else np.zeros_like(entries)
    return np.minimum((scaled * REAL_BINS).astype(np.int64), REAL_BINS - 1)
