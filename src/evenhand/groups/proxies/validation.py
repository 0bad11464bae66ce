"""Probabilities of membership calibrated on people of known group, and the error that this leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.schema import KnownGroups
from evenhand.typing import Floats, Integers

BINS = 10
LEAST = 50
"""Bins of similar probability, at most, and people of known group in each, at least."""


@dataclass(frozen=True)
class Calibration:
    """How far one group's probabilities are off, by bins, as people of known group show.

    In each bin of similar probabilities the share of members among people of known group, minus their mean probability,
    is added to everybody's probability there: within a bin the probabilities keep their order, on average they are
    right. A bin's shift has the variance of a mean of m differences, ``s^2 / m``; s^2 is at least the mean of
    p (1 - p), so that a bin without a single member does not look certain. By the delta method a rate r adds
    ``sum over bins (dr / dshift)^2 s^2 / m`` to its variance.

    Attributes:
        shift: what is added to the probability of each audited person, shape (n,).
        bins: the bin of each audited person, shape (n,), and ``known_bins`` of each person of known group, shape (m,).
        errors: of each person of known group, what they add to the error of their bin's shift, shape (m,).
    """

    shift: Floats
    bins: Integers
    known_bins: Integers
    errors: Floats

    @classmethod
    def fit(cls, p: Floats, known: KnownGroups, group: int) -> Calibration:
        """Return the calibration of one group's probabilities.

        Args:
            p: of the audited people, shape (n,).
            known: people of known group.
            group: its position.
        """
        given, member = known.probabilities.values[:, group], known.member == group
        count = int(np.clip(len(given) // LEAST, 1, BINS))
        edges = np.unique(np.quantile(given, np.arange(1, count) / count))
        bins, known_bins = (np.searchsorted(edges, one, side="right") for one in (p, given))
        count = len(edges) + 1
        people = np.maximum(np.bincount(known_bins, minlength=count), 1)
        difference = member - given
        shift = np.bincount(known_bins, weights=difference, minlength=count) / people
        off = difference - shift[known_bins]
        seen = np.bincount(known_bins, weights=off**2, minlength=count)
        expected = np.bincount(known_bins, weights=given * (1 - given), minlength=count)
        wanted = np.maximum(seen * people / np.maximum(people - 1, 1), expected)
        # Errors are stretched to that variance; where all agreed, each carries the same part of it.
        stretched = off * np.sqrt(wanted / np.where(seen > 0, seen, 1))[known_bins]
        errors = np.where(seen[known_bins] > 0, stretched, np.sqrt(wanted / people)[known_bins])
        return cls(shift[bins], bins, known_bins, errors / people[known_bins])

    def carry(self, slopes: Floats) -> Floats:
        """Return what each person of known group adds to the error of a rate, shape (m,).

        Args:
            slopes: the derivative of the rate by each audited person's probability, shape (n,).
        """
        by_bin = np.bincount(self.bins, weights=slopes, minlength=int(self.known_bins.max()) + 1)
        return np.asarray(by_bin[self.known_bins] * self.errors)
