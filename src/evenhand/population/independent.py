"""Populations of independent attributes, and the population of the data."""

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
"""Number of equal-width bins of the histogram of a real attribute."""
MAX_DENSE = 1_000_000
"""Maximum number of values with one cell each. For larger domains, only values that occur in the data have a cell."""


class Population(Protocol):
    """Distribution of individuals."""

    @property
    def name(self) -> str:
        """Name in reports."""
        ...

    @property
    def schema(self) -> Schema:
        """Schema of the individuals."""
        ...

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n independent individuals, shape (n, attributes)."""
        ...


@dataclass(frozen=True)
class Marginal:
    """Distribution of one attribute over cells: the values of a finite attribute, or intervals of a real attribute.

    Attributes:
        attribute: The attribute.
        masses: Mass of each cell, summing to 1, shape (cells,). The density within a real cell is uniform.
        breaks: Ends of the cells of a real attribute, shape (cells + 1,). None means cells of equal width.
        listed: Increasing values of the cells of a finite attribute; all other values have mass 0, shape (cells,). None
            means that each value of the domain has a cell.
    """

    attribute: Attribute
    masses: Floats
    breaks: Floats | None = None
    listed: Floats | None = None
    total = 1.0

    @property
    def edges(self) -> Floats:
        """Ends of the cells of a real attribute, shape (cells + 1,)."""
        if self.breaks is not None:
            return self.breaks
        return np.linspace(self.attribute.first, self.attribute.last, len(self.masses) + 1)

    @cached_property
    def _sums(self) -> Floats:
        """Mass below each cell, followed by the total mass, shape (cells + 1,)."""
        return np.concatenate([[0.0], np.cumsum(self.masses)])

    def restrict(self, low: float, high: float) -> Marginal:
        """Compute the conditional distribution of a number between two values, both inclusive.

        Raises:
            OptionError: The interval has no mass.
        """
        attribute = self.attribute.model_copy(update={"lower": low, "upper": high})
        breaks = listed = None
        if self.attribute.size is not None:
            (start,), (stop,) = self._cell_range(np.array([low]), np.array([high]))
            masses = self.masses[start:stop]
            listed = None if self.listed is None else self.listed[start:stop]
        elif low == high:
            masses = np.ones(int(self.attribute.first == self.attribute.last))
        else:
            edges = self.edges
            breaks = np.concatenate([[low], edges[(edges > low) & (edges < high)], [high]])
            masses = np.diff(np.interp(breaks, edges, self._sums))
        return Marginal(attribute, normalize_masses(self.attribute, masses), breaks, listed)

    def values_of(self, cells: Integers) -> Floats:
        """Return the values of the given cells of a finite attribute."""
        return np.asarray(self.attribute.first + cells if self.listed is None else self.listed[cells], dtype=np.float64)

    def held_values(self) -> Floats:
        """Return the values of a finite attribute with positive mass, in increasing order."""
        return self.values_of(np.flatnonzero(self.masses > 0))

    def masses_of(self, entries: Floats) -> Floats:
        """Return the masses of the given values of a finite attribute."""
        cells = self.cells_of(entries)
        if self.listed is None:
            return np.asarray(self.masses[cells])
        cells = np.minimum(cells, len(self.listed) - 1)
        return np.where(self.listed[cells] == entries, self.masses[cells], 0.0)

    def cells_of(self, entries: Floats) -> Integers:
        """Find the cell of each entry, shape (n,)."""
        if self.listed is not None:
            return np.asarray(np.searchsorted(self.listed, entries))
        return _cells_of_domain(self.attribute, entries)

    def _cell_range(self, starts: Floats, ends: Floats) -> tuple[Integers, Integers]:
        """Find the half-open ranges of cells whose values are between each start and end, for a finite attribute."""
        if self.listed is not None:
            return np.searchsorted(self.listed, starts, "left"), np.searchsorted(self.listed, ends, "right")
        first = int(self.attribute.first)
        return starts.astype(np.int64) - first, ends.astype(np.int64) - first + 1

    @property
    def peak_density(self) -> float:
        """Maximum density of a real attribute, relative to its mean density."""
        first, last = self.attribute.first, self.attribute.last
        if first == last:
            return 1.0
        return float((self.masses / np.diff(self.edges)).max() * (last - first) / self.masses.sum())

    def mass_between(self, starts: Floats, ends: Floats) -> Floats:
        """Compute the mass between each start and end, both inclusive for a finite attribute."""
        if self.attribute.size is not None:
            start, stop = self._cell_range(starts, ends)
            return np.asarray(self._sums[stop] - self._sums[start])
        if self.attribute.first == self.attribute.last:
            # The single point of the domain belongs to the last interval.
            return np.array([0.0] * (len(starts) - 1) + [1.0])
        return np.asarray(np.interp(ends, self.edges, self._sums) - np.interp(starts, self.edges, self._sums))

    def draw_between(self, starts: Floats, ends: Floats, rng: np.random.Generator) -> Floats:
        """Draw one entry between each start and end, both inclusive, by inversion of the distribution function."""
        share = rng.random(len(starts))
        if self.attribute.size is not None:
            low, high = (self._sums[cells] for cells in self._cell_range(starts, ends))
            cells = np.searchsorted(self._sums, low + share * (high - low), side="right") - 1
            return np.asarray(np.clip(self.values_of(np.clip(cells, 0, len(self.masses) - 1)), starts, ends))
        low, high = (np.interp(points, self.edges, self._sums) for points in (starts, ends))
        entries = np.interp(low + share * (high - low), self._sums, self.edges)
        # A cell includes its lower end and excludes its upper end, except for the last cell of the domain.
        largest = np.where(ends < self.attribute.last, np.nextafter(ends, -np.inf), ends)
        return np.asarray(np.clip(entries, starts, np.maximum(largest, starts)))

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n entries."""
        cells = np.searchsorted(self._sums[1:], rng.random(n) * self._sums[-1], side="right")
        cells = np.minimum(cells, len(self.masses) - 1)
        if self.attribute.size is not None:
            return self.values_of(cells)
        low, high = self.edges[cells], self.edges[cells + 1]
        return np.asarray(np.minimum(low + (high - low) * rng.random(n), self.attribute.last))


def normalize_masses(attribute: Attribute, masses: Floats) -> Floats:
    """Normalise masses of values of an attribute to a sum of 1.

    Raises:
        OptionError: The sum is 0.
    """
    if not masses.sum() > 0:
        raise OptionError(
            f"no one in the population has a value of {attribute.name!r} that the conditions allow",
            hint="widen the conditions, or use the uniform population",
        )
    return np.asarray(masses / masses.sum())


@dataclass(frozen=True)
class UniformMarginal:
    """Uniform distribution of one attribute, with exact counts for domains of any size.

    Attributes:
        attribute: The attribute.
    """

    attribute: Attribute
    peak_density = 1.0

    @property
    def total(self) -> float:
        """Value of ``mass_between`` for the whole domain."""
        return float(self.attribute.size or 1)

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n entries."""
        return self.draw_between(np.full(n, float(self.attribute.first)), np.full(n, float(self.attribute.last)), rng)

    def restrict(self, low: float, high: float) -> UniformMarginal:
        """Compute the conditional distribution of a number between two values, both inclusive.

        Raises:
            OptionError: The interval is a single point of a real attribute.
        """
        if low == high and self.attribute.size is None:
            normalize_masses(self.attribute, np.zeros(1))
        return UniformMarginal(self.attribute.model_copy(update={"lower": low, "upper": high}))

    def mass_between(self, starts: Floats, ends: Floats) -> Floats:
        """Compute the number of values between each start and end, or the share of the range of a real attribute."""
        if self.attribute.size is None:
            return Marginal(self.attribute, np.ones(1)).mass_between(starts, ends)
        return ends - starts + 1

    def draw_between(self, starts: Floats, ends: Floats, rng: np.random.Generator) -> Floats:
        """Draw one entry between each start and end, both inclusive."""
        if self.attribute.size is None:
            return Marginal(self.attribute, np.ones(1)).draw_between(starts, ends, rng)
        return np.asarray(np.minimum(starts + np.floor(rng.random(len(starts)) * (ends - starts + 1)), ends))


UNIFORM_POPULATION = "everyone in the domain, uniformly"
"""Name of the uniform population in reports and certificates."""


@dataclass(frozen=True)
class ProductPopulation:
    """Population of independent attributes, whose masses certification can compute exactly.

    Attributes:
        name: Name in reports.
        schema: Schema of the individuals.
        marginals: Distribution of each attribute, in schema order.
        rows: Data rows that supply the passthrough columns (see ``carry_rows``).
    """

    name: str
    schema: Schema
    marginals: tuple[Marginal | UniformMarginal, ...]
    rows: Integers | None = None

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n individuals, shape (n, attributes)."""
        individuals = np.stack([marginal.sample(n, rng) for marginal in self.marginals], axis=1)
        return carry_rows(self.schema, individuals, self.rows, rng)


def carry_rows(schema: Schema, individuals: Floats, rows: Integers | None, rng: np.random.Generator) -> Floats:
    """Append a random row of the data to each individual, if the schema has passthrough columns.

    Passthrough columns have no domain and thus no distribution. Their values are those of a random person in the data,
    independent of the attributes, or of the first person if there are no rows.

    Args:
        schema: Schema of the individuals.
        individuals: Individuals, shape (n, attributes).
        rows: Rows of the data to draw from.
        rng: Random generator.
    """
    if not schema.carries_rows:
        return individuals
    chosen = np.zeros(len(individuals)) if rows is None else rows[rng.integers(0, len(rows), len(individuals))]
    return np.column_stack([individuals, chosen])


@dataclass(frozen=True)
class DataPopulation:
    """People in the data, drawn with replacement."""

    people: People
    name: str = "the people in the data"

    @property
    def schema(self) -> Schema:
        """Schema of the people."""
        return self.people.schema

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Draw n individuals, shape (n, attributes)."""
        return self.people.individuals[rng.integers(0, len(self.people), size=n)]


def uniform_population(schema: Schema) -> ProductPopulation:
    """Build the population in which all individuals of the domain are equally likely."""
    sizes = [attribute.size or 1 for attribute in schema.attributes]
    marginals = tuple(
        UniformMarginal(attribute) if size > MAX_DENSE else Marginal(attribute, np.full(size, 1 / size))
        for attribute, size in zip(schema.attributes, sizes, strict=True)
    )
    return ProductPopulation(name=UNIFORM_POPULATION, schema=schema, marginals=marginals)


def product_of_marginals(people: People) -> ProductPopulation:
    """Build the population of independent attributes with the distributions of the data, without missing values.

    Raises:
        OptionError: An attribute has no value in the data.
    """
    columns = zip(people.schema.attributes, people.individuals.T, strict=False)
    return ProductPopulation(
        name="independent attributes, each as in the data",
        schema=people.schema,
        marginals=tuple(estimate_marginal(attribute, entries) for attribute, entries in columns),
        rows=people.rows if people.schema.carries_rows else None,
    )


def estimate_marginal(attribute: Attribute, entries: Floats) -> Marginal:
    """Estimate the distribution of one attribute from entries, shape (n,). Missing entries are ignored.

    Raises:
        OptionError: All entries are missing.
    """
    present = entries[~np.isnan(entries)]
    listed = None
    if not len(present):
        raise OptionError(f"attribute {attribute.name!r} has no value in the data, so it has no distribution")
    if attribute.size is not None and attribute.size > MAX_DENSE:
        listed, counts = np.unique(present, return_counts=True)
    else:
        counts = np.bincount(_cells_of_domain(attribute, present), minlength=attribute.size or REAL_BINS)
    return Marginal(attribute, counts / counts.sum(), listed=listed)


def _cells_of_domain(attribute: Attribute, entries: Floats) -> Integers:
    """Find the cell of each entry in a complete domain: its value, or its bin for a real attribute."""
    if attribute.size is not None:
        return np.asarray((entries - attribute.first).astype(np.int64))
    span = attribute.last - attribute.first
    scaled = (entries - attribute.first) / span if span > 0 else np.zeros_like(entries)
    return np.minimum((scaled * REAL_BINS).astype(np.int64), REAL_BINS - 1)
