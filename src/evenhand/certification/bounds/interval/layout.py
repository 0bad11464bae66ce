"""A query as flat arrays, the form that compiled kernels read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.certification.query.question import Query
from evenhand.core.typing import Booleans, Floats, Integers


class KernelLayout(NamedTuple):
    """Flat arrays of a query.

    Attributes:
        columns: (columns, first units), what each column of a linear function adds per unit of it.
        start: (attributes + 1,), first column of each attribute.
        line: (attributes,), whether the attribute is one column times its position; else one column per cell.
        key_start: (attributes,), where its positions start in ``keys``, -1 if evenly spaced.
        keys: positions of the cells of all attributes that have them listed.
        spacing: (attributes, 4), base, step, reach and pad of the others (see ``cells.CellScale``).
        biases: (assignments, first units).
        widths: units per layer, the margins last.
        weights: per later layer its weights, transposed and flat, one after the other.
        offsets: where each of them starts; the same for the next, whose layers start at ``bias_offsets``.
        sizes: absolute values of weights that bound the rounding error, flat like ``weights``.
        bias_offsets: where each later layer starts in ``bias`` and ``bias_sizes``.
        bias, bias_sizes: their biases, and the absolute values that bound rounding.
        pads: how much bounds are widened, flat over all layers of units, the first included.
        pad_offsets: where each layer starts in ``pads``.
        threshold: (margins,), how far from zero a margin must be, besides its float32 error.
        base: (first units,), size of the terms that are always there.
        gammas: relative float32 error per layer.
        pairs: (margins, 2), the classes (a, b) of each margin.
        classes: how many labels.
    """

    columns: Floats
    start: Integers
    line: Booleans
    key_start: Integers
    keys: Floats
    spacing: Floats
    biases: Floats
    widths: Integers
    weights: Floats
    offsets: Integers
    sizes: Floats
    bias_offsets: Integers
    bias: Floats
    bias_sizes: Floats
    pads: Floats
    pad_offsets: Integers
    threshold: Floats
    base: Floats
    gammas: Floats
    pairs: Integers
    classes: int


def kernel_layout_of(query: Query) -> KernelLayout:
    """Flatten a query."""
    units = query.biases.shape[1]
    keys: list[Floats] = []
    key_start, spacing = [], np.zeros((len(query.cells), 4))
    held = 0
    for i, cells in enumerate(query.cells):
        scale = cells.scale
        if scale is not None and scale.keys is not None:
            key_start.append(held)
            keys.append(scale.keys)
            held += len(scale.keys)
        else:
            key_start.append(-1)
            if scale is not None:
                spacing[i] = scale.base, scale.step, scale.reach, scale.pad
    widths = [units, *(layer.weights.shape[1] for layer in query.layers)]
    slack = query.slack
    return KernelLayout(
        columns=_concatenate([cells.rows for cells in query.cells], (0, units)),
        start=_array_starts([len(cells.rows) for cells in query.cells]),
        line=np.array([cells.scale is not None for cells in query.cells], dtype=np.bool_),
        key_start=np.array(key_start, dtype=np.int64),
        keys=_concatenate(keys, (0,)),
        spacing=spacing,
        biases=np.ascontiguousarray(query.biases),
        widths=np.array(widths, dtype=np.int64),
        weights=_concatenate([layer.weights.T.ravel() for layer in query.layers], (0,)),
        offsets=_array_starts([layer.weights.size for layer in query.layers]),
        sizes=_concatenate([weights.T.ravel() for weights in slack.weights], (0,)),
        bias_offsets=_array_starts(widths[1:]),
        bias=_concatenate([layer.bias for layer in query.layers], (0,)),
        bias_sizes=_concatenate(list(slack.biases), (0,)),
        pads=np.concatenate(slack.pads),
        pad_offsets=_array_starts(widths),
        threshold=slack.decision(np.zeros(widths[-1])),
        base=slack.base,
        gammas=slack.gammas,
        pairs=query.pairs,
        classes=len(query.classes),
    )


def _concatenate(arrays: list[Floats], empty: tuple[int, ...]) -> Floats:
    return np.ascontiguousarray(np.concatenate([np.zeros(empty), *arrays]))


def _array_starts(lengths: list[int]) -> Integers:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.array(lengths, dtype=np.int64))])
