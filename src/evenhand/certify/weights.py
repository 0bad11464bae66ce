"""Masses of cells as integers, so that the mass of any range is exact, and draws from inside a bin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.population import Marginal
from evenhand.schema import Attribute

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WEIGHT_BITS = 52
"""The masses of an attribute are integers out of about 2**52."""


def integer_masses(attribute: Attribute, marginal: Marginal | None, starts: Floats, ends: Floats) -> Floats:
    """Masses of bins of integers, given by their first and last."""
    if marginal is None:
        return ends - starts + 1
    before = np.concatenate([[0.0], np.cumsum(marginal.masses)])
    first = int(attribute.first)
    return np.asarray(before[ends.astype(np.int64) - first + 1] - before[starts.astype(np.int64) - first])


def real_masses(attribute: Attribute, marginal: Marginal | None, starts: Floats, ends: Floats) -> Floats:
    """Masses of intervals of a real attribute."""
    if attribute.first == attribute.last:
        return np.array([0.0] * (len(starts) - 1) + [1.0])
    edges, before = _running(attribute, marginal)
    return np.asarray(np.interp(ends, edges, before) - np.interp(starts, edges, before))


def _running(attribute: Attribute, marginal: Marginal | None) -> tuple[Floats, Floats]:
    """Ends of a real attribute's cells, and the mass below each."""
    if marginal is None:
        return np.array([attribute.first, attribute.last]), np.array([0.0, 1.0])
    return marginal.edges, np.concatenate([[0.0], np.cumsum(marginal.masses)])


def steepness(attribute: Attribute, marginal: Marginal | None) -> float:
    """How much denser than on average a real attribute is anywhere, at most."""
    if marginal is None or attribute.first == attribute.last:
        return 1.0
    widths = np.diff(marginal.edges)
    return float((marginal.masses / widths).max() * (attribute.last - attribute.first) / marginal.masses.sum())


def between(
    attribute: Attribute, marginal: Marginal | None, starts: Floats, ends: Floats, rng: np.random.Generator
) -> Floats:
    """Entries drawn between two of the attribute's, both included, as the population has them."""
    share = rng.random(len(starts))
    if attribute.size is None:
        edges, below = _running(attribute, marginal)
        start, stop = np.interp(starts, edges, below), np.interp(ends, edges, below)
        drawn = np.interp(start + share * (stop - start), below, edges)
        # A bin holds its lower cut but not its upper one, except the last of the domain.
        largest = np.where(ends < attribute.last, np.nextafter(ends, -np.inf), ends)
        return np.asarray(np.clip(drawn, starts, np.maximum(largest, starts)))
    if marginal is None:
        return np.asarray(np.minimum(starts + np.floor(share * (ends - starts + 1)), ends))
    before = np.concatenate([[0.0], np.cumsum(marginal.masses)])
    first = int(attribute.first)
    low, high = before[starts.astype(np.int64) - first], before[ends.astype(np.int64) - first + 1]
    drawn = attribute.first + np.searchsorted(before, low + share * (high - low), side="right") - 1
    return np.asarray(np.clip(drawn, starts, ends))


def weights_of(marginal: Marginal | None) -> tuple[Ints | None, float]:
    """A marginal's masses as integers, and how far apart the two are; none for uniform."""
    return (None, 0.0) if marginal is None else integers(marginal.masses)


def integers(masses: Floats) -> tuple[Ints, float]:
    """Masses as integers of about 2**WEIGHT_BITS in all, and how far the two distributions are apart at most."""
    scaled = np.rint(masses / masses.sum() * 2.0**WEIGHT_BITS).astype(np.int64)
    # Half a unit per value by rounding to integers, three roundings of the share itself, and the changed total.
    distance = (2 * len(masses) + 8) * 2.0**-WEIGHT_BITS
    return scaled, distance


def running(weights: Ints) -> Ints:
    """Weight before each cell, and at last the total."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(weights)])
