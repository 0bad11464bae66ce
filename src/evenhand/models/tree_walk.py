"""From inputs to raw outputs: every tree walked for every row, by NumPy and by a compiled kernel alike.

Both add the same leaves in the same order in float64, so they agree to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.models.tree_nodes import Nodes

Floats: TypeAlias = NDArray[np.float64]

ZERO = float(np.float32(1e-35))
"""What LightGBM takes for zero where zero means missing: anything as close to it as this."""

SMALL = 10_000
"""Up to so many rows times trees NumPy is quick enough, and the compiler is not loaded just for them."""

BLOCK = 256
"""Rows that the kernel takes down a tree before it turns to the next: they and the tree stay in the cache."""


def sums(nodes: Nodes, inputs: Floats, outputs: int) -> Floats:
    """What the trees add up to for inputs (n, columns), shape (n, outputs)."""
    if len(inputs) * nodes.trees <= SMALL and not _compiled.cache_info().currsize:
        return sums_numpy(nodes, inputs, outputs)
    return sums_compiled(nodes, inputs, outputs)


def sums_numpy(nodes: Nodes, inputs: Floats, outputs: int) -> Floats:
    """``sums`` by NumPy: all rows take one step down a tree at a time."""
    total = np.zeros((len(inputs), outputs))
    width = nodes.values.shape[1]
    for tree, first in enumerate(nodes.output):
        total[:, first : first + width] += nodes.values[_leaves(nodes, inputs, int(nodes.offsets[tree]))]
    return total


def _leaves(nodes: Nodes, inputs: Floats, root: int) -> NDArray[np.int64]:
    at = np.full(len(inputs), root, dtype=np.int64)
    walking = np.arange(len(inputs)) if nodes.left[root] >= 0 else np.zeros(0, dtype=np.int64)
    while len(walking):
        node = at[walking]
        left = goes_left(nodes, node, inputs[walking, nodes.feature[node]])
        at[walking] = np.where(left, nodes.left[node], nodes.right[node])
        walking = walking[nodes.left[at[walking]] >= 0]
    return at


def goes_left(nodes: Nodes, node: NDArray[np.int64], entry: Floats) -> NDArray[np.bool_]:
    """Whether inner nodes (n,) send entries (n,) of their columns to the left, shape (n,)."""
    missing = np.isnan(entry) | (nodes.zero_missing[node] & (np.abs(entry) <= ZERO))
    left = np.where(nodes.set_start[node] >= 0, _in_set(nodes, node, entry), entry <= nodes.threshold[node])
    return np.asarray(np.where(missing, nodes.default_left[node], left))


def _in_set(nodes: Nodes, node: NDArray[np.int64], entry: Floats) -> NDArray[np.bool_]:
    if len(nodes.words) == 0:
        return np.zeros(len(node), dtype=bool)
    inside = (entry >= 0) & (entry < 32.0 * nodes.set_size[node])
    category = np.where(inside, entry, 0).astype(np.int64)
    word = nodes.words[np.where(inside, nodes.set_start[node] + category // 32, 0)]
    return np.asarray(inside & ((word >> (category % 32).astype(np.uint32)) & 1 == 1))


def sums_compiled(nodes: Nodes, inputs: Floats, outputs: int) -> Floats:
    """``sums`` by the compiled kernel: a row at a time."""
    total = np.zeros((len(inputs), outputs))
    _compiled()(
        np.ascontiguousarray(inputs),
        nodes.offsets,
        nodes.output,
        nodes.feature,
        nodes.threshold,
        nodes.left,
        nodes.right,
        nodes.default_left,
        nodes.zero_missing,
        nodes.set_start,
        nodes.set_size,
        nodes.words,
        nodes.values,
        total,
    )
    return total


@cache
def _compiled() -> Callable[..., None]:
    import numba

    try:
        return numba.njit(cache=True, nogil=True)(_walk)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder for the cache is writable: compile for this process alone
        return numba.njit(nogil=True)(_walk)  # type: ignore[no-any-return]


def _walk(
    inputs: Any,
    offsets: Any,
    output: Any,
    feature: Any,
    threshold: Any,
    left: Any,
    right: Any,
    default_left: Any,
    zero_missing: Any,
    set_start: Any,
    set_size: Any,
    words: Any,
    values: Any,
    total: Any,
) -> None:
    for start in range(0, inputs.shape[0], BLOCK):
        stop = min(start + BLOCK, inputs.shape[0])
        for tree in range(len(output)):
            for row in range(start, stop):
                node = offsets[tree]
                while left[node] >= 0:
                    entry = inputs[row, feature[node]]
                    if np.isnan(entry) or (zero_missing[node] and abs(entry) <= ZERO):
                        goes_left = default_left[node]
                    elif set_start[node] >= 0:
                        goes_left = False
                        if 0 <= entry < 32.0 * set_size[node]:
                            category = int(entry)
                            word = np.int64(words[set_start[node] + category // 32])
                            goes_left = (word >> (category % 32)) & 1 == 1
                    else:
                        goes_left = entry <= threshold[node]
                    node = left[node] if goes_left else right[node]
                for k in range(values.shape[1]):
                    total[row, output[tree] + k] += values[node, k]
