"""Check that boxes partition a domain, and add up their masses exactly."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Integers

PRIME = 2**31 - 1
ROUNDS = 5
"""Number of independent draws of weights."""


def is_partition(low: NDArray[np.integer], high: NDArray[np.integer], counts: Sequence[int]) -> bool:
    """Check whether boxes fill a domain without overlap.

    Let S(x) be the number of boxes that hold cell x. With a weight r_i for every cell of attribute i, drawn uniformly
    modulo the prime p, the products of the weights of the boxes' ranges add up to ``sum_x S(x) prod_i r_i(x_i)``. The
    boxes are accepted if this equals the value for S = 1, modulo p. Unless S is 1 everywhere, the difference is a
    nonzero polynomial in the weights (S < p) and has the number of attributes d as its degree, so it vanishes
    with a probability of at most d / p (Schwartz 1980, Zippel 1979). For 1,024 attributes and ``ROUNDS`` draws that is
    2**-105. The weights are drawn after the file is read, so boxes cannot be chosen to fit them.

    Args:
        low, high: First and last cell of each attribute, shape (boxes, attributes).
        counts: Number of cells of each attribute.
    """
    rng = np.random.default_rng(secrets.randbits(128))
    products, domain = np.ones((ROUNDS, len(low)), dtype=np.int64), np.ones(ROUNDS, dtype=np.int64)
    for i, count in enumerate(counts):
        begins, ends = low[:, i].astype(np.int64), high[:, i].astype(np.int64) + 1
        # The sum of the weights between two neighbouring boundaries is also uniform, so a single weight is drawn for
        # it.
        borders = np.unique(np.concatenate([begins, ends, [0, count]]))
        weights = rng.integers(0, PRIME, (ROUNDS, len(borders) - 1))
        cumulative = np.concatenate([np.zeros((ROUNDS, 1), dtype=np.int64), np.cumsum(weights, axis=1)], axis=1)
        inside = cumulative[:, np.searchsorted(borders, ends)] - cumulative[:, np.searchsorted(borders, begins)]
        products = products * (inside % PRIME) % PRIME
        domain = domain * (cumulative[:, -1] % PRIME) % PRIME
    return bool((products.sum(axis=1) % PRIME == domain).all())


def count_cells(low: NDArray[np.integer], high: NDArray[np.integer], counts: Sequence[int]) -> int:
    """Count the cells of all boxes exactly."""
    widths = (high[:, i].astype(np.int64) - low[:, i] + 1 for i in range(len(counts)))
    return int(exact_products(widths, len(low), math.prod(counts)).sum())


def exact_products(factors: Iterable[Integers], n: int, largest: int) -> NDArray[np.object_]:
    """Multiply arrays of n positive integers exactly.

    Args:
        factors: Arrays, each of shape (n,).
        n: Length of the arrays.
        largest: Upper bound on every product.
    """
    products = np.ones(n, dtype=np.int64 if largest < 2**62 else object)
    for factor in factors:
        products = products * factor.astype(products.dtype)
    return products.astype(object)
