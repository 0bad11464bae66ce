"""How individuals are distributed over the domain: uniformly, like the data attribute by attribute, or as the data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.schema import Attribute, People, Schema

REAL_BINS = 32
"""Equal-width bins of the histogram that stands for a real attribute's marginal."""


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

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
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
    """

    attribute: Attribute
    masses: NDArray[np.float64]
    breaks: NDArray[np.float64] | None = None

    @property
    def edges(self) -> NDArray[np.float64]:
        """Where the cells of a real attribute begin and end, shape (cells + 1,)."""
        if self.breaks is not None:
            return self.breaks
        return np.linspace(self.attribute.first, self.attribute.last, len(self.masses) + 1)

    def given(self, low: float, high: float) -> Marginal:
        """The distribution of a number among those who have it between these two, both included.

        Raises:
            OptionError: nobody has.
        """
        narrowed = self.attribute.model_copy(update={"lower": low, "upper": high})
        breaks = None
        if self.attribute.size is not None:
            start = int(self.attribute.first)
            masses = self.masses[int(low) - start : int(high) - start + 1]
        elif low == high:
            masses = np.ones(int(self.attribute.first == self.attribute.last))
        else:
            edges = self.edges
            inside = edges[(edges > low) & (edges < high)]
            breaks = np.concatenate([[low], inside, [high]])
            masses = np.diff(np.interp(breaks, edges, np.concatenate([[0.0], np.cumsum(self.masses)])))
        return Marginal(narrowed, shares(self.attribute, masses), breaks)

    @cached_property
    def cumulative(self) -> NDArray[np.float64]:
        """Mass at or below each cell, shape (cells,)."""
        return np.cumsum(self.masses)

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw n entries."""
        cells = np.searchsorted(self.cumulative, rng.random(n) * self.cumulative[-1], side="right")
        cells = np.minimum(cells, len(self.masses) - 1)
        if self.attribute.size is not None:
            return np.asarray(self.attribute.first + cells, dtype=np.float64)
        low, high = self.edges[cells], self.edges[cells + 1]
        return np.asarray(np.minimum(low + (high - low) * rng.random(n), self.attribute.last))


def shares(attribute: Attribute, masses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Masses of some of an attribute's values, made to add up to 1.

    Raises:
        OptionError: they have none.
    """
    if not masses.sum() > 0:
        raise OptionError(
            f"nobody in the population has a value of {attribute.name!r} that the conditions allow",
            mend="widen the conditions, or measure by the uniform population",
        )
    return np.asarray(masses / masses.sum())


@dataclass(frozen=True)
class ProductPopulation:
    """Independent attributes, each with its own distribution (what certification can count exactly)."""

    name: str
    schema: Schema
    marginals: tuple[Marginal, ...]

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw n individuals, shape (n, attributes)."""
        return np.stack([marginal.sample(n, rng) for marginal in self.marginals], axis=1)


@dataclass(frozen=True)
class DataPopulation:
    """The people in the data, drawn with replacement."""

    people: People
    name: str = "the people in the data"

    @property
    def schema(self) -> Schema:
        """What the people's columns mean."""
        return self.people.schema

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw n individuals, shape (n, attributes)."""
        return self.people.individuals[rng.integers(0, len(self.people), size=n)]


def uniform(schema: Schema) -> ProductPopulation:
    """Every individual of the domain equally likely."""
    return ProductPopulation(
        name="everyone in the domain, uniformly",
        schema=schema,
        marginals=tuple(
            Marginal(attribute, np.full(attribute.size or 1, 1 / (attribute.size or 1)))
            for attribute in schema.attributes
        ),
    )


def marginals(people: People, *, smoothing: float = 0.0) -> ProductPopulation:
    """Independent attributes, each distributed as in the data; missing values are left out.

    Args:
        people: the data.
        smoothing: pseudo-count added to every cell, so that unseen values keep some mass.

    Raises:
        OptionError: an attribute has no value in the data, or its domain is too wide to tabulate.
    """
    return ProductPopulation(
        name="independent attributes, each as in the data",
        schema=people.schema,
        marginals=tuple(
            _marginal(attribute, people.individuals[:, i], smoothing)
            for i, attribute in enumerate(people.schema.attributes)
        ),
    )


def _marginal(attribute: Attribute, entries: NDArray[np.float64], smoothing: float) -> Marginal:
    entries = entries[~np.isnan(entries)]
    if attribute.size is not None and attribute.size > 10_000_000:
        raise OptionError(
            f"attribute {attribute.name!r} has {attribute.size:,} values, too many for a table of frequencies",
            mend="make it real in the schema, or bin it",
        )
    if attribute.size is None:
        span = attribute.last - attribute.first
        scaled = (entries - attribute.first) / span if span > 0 else np.zeros_like(entries)
        cells, size = np.minimum((scaled * REAL_BINS).astype(np.int64), REAL_BINS - 1), REAL_BINS
    else:
        cells, size = (entries - attribute.first).astype(np.int64), attribute.size
    counts = np.bincount(cells, minlength=size) + smoothing
    if counts.sum() <= 0:
        raise OptionError(f"attribute {attribute.name!r} has no value in the data, so it has no distribution")
    return Marginal(attribute, counts / counts.sum())
