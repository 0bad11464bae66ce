"""Fixed random draws, one per person, for models that decide with a probability.

An audited model must give equal answers to equal requests, so the draw of a person is fixed. It does not depend on
protected attributes: people who differ only in them have equal draws, and their decisions differ only if the method
treats them differently. Thresholds of 1/2 instead of draws would change the selection rates that a method computed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Floats
from evenhand.schema.schema import Schema


def draw_lots(schema: Schema, individuals: Floats, *, seed: int) -> Floats:
    """Draw a number in [0, 1) for each individual, shape (n,), from the seed and the unprotected attributes.

    The bits of the entries are mixed as in SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
    generators", OOPSLA 2014).
    """
    state: NDArray[np.uint64] = np.full(
        len(individuals), _mix_bits(np.array([seed], dtype=np.uint64))[0], dtype=np.uint64
    )
    for column, attribute in enumerate(schema.attributes):
        if not attribute.protected:
            entries = individuals[:, column] + 0.0  # -0.0 becomes 0.0
            entries = np.where(np.isnan(entries), np.nan, entries)  # all missing values have equal bits
            state = _mix_bits(state ^ np.ascontiguousarray(entries).view(np.uint64))
    return np.asarray((state >> np.uint64(11)).astype(np.float64) / 2**53)


def _mix_bits(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))
