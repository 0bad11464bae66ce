"""The network in float64, and how far everything that is computed of it may be from the exact numbers.

**Our own rounding.** Let u = 2**-53. A sum of n products in floating point, in any order, errs by at most
``gamma(n) * (sum of the sizes of the products)`` with ``gamma(n) = n u / (1 - n u)``. Let s be the sum of the sizes of
all terms of a first unit anywhere in the domain, and S(k) what ``|weights|`` and ``|bias|`` make of these sizes up to
layer k. A line on the way back has a slope between 0 and 1, so that the sizes of coefficients only shrink against those
of plain products of weights; hence at every layer the sum of (size of a coefficient times the size of its unit) is at
most S(k). What is rounded of a function is, once per layer, the product of coefficients with weights, the bias and the
constants of the lines, and at the end the product with what attributes add: sums of no more than (widest layer +
columns + 8) products whose sizes add up to S(k). A slope is no error: whatever number a coefficient was rounded to is
the slope of a line of its own, whose constant is computed for it. So 4 (k + 2) gamma(widest + columns + 8) S(k), with
half of it to spare for what was left out here (weights of a margin that are differences, sizes that are rounded
themselves), bounds what a function of layer k is off. It is taken off once (``pads``).

**The deployed model's**, in float32 with unit roundoff v = 2**-24, as ``deployed`` says: a term of a first unit passes
the rounding of its input, of its weight, of its product, up to four of a scaling before, and at most n additions of n
terms and a bias: n + 8 factors of 1 + d with |d| <= v. Later units carry on what their inputs were off.

Numbers of float64 that are added up here are sizes, none of them negative; the factor 1 + 2**-30 covers their rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.checker.deployed import fold_sizes, strip_reach, telling_margins
from evenhand.checker.form import LayeredForm
from evenhand.checker.network import RecordedQuestion
from evenhand.models import LineTerm
from evenhand.typing import Booleans, Floats, Integers

MAX_COLUMNS = 4096
"""Cells of attributes that enter through tables, and other attributes, at most."""
MAX_CELLS = 2**23
"""Cells of all attributes, at most: what is held of each is its entries and its mass."""
MAX_AXES = 64
MAX_SEPARATE = 4
"""Joint protected values that are bounded one by one, at most."""
MAX_EVENTS = 64
UPWARD = 1 + 2.0**-30


class FloatNetwork(NamedTuple):
    """A network and its domain as arrays.

    Attributes:
        sizes: units of each layer before ReLU; the last are the margins.
        line: which attributes enter affinely; the others have a row per cell.
        start: first column of each attribute.
        cell: where the cells of each attribute begin in ``entry_low``, ``entry_high`` and, plus one per attribute, in
            ``before``.
        entry_low, entry_high: smallest and largest entry of each cell; 0 where an attribute has rows.
        before: whole mass of the cells before each.
        columns: what columns add to first units, shape (units, columns).
        bases: the rest of the first units, shape (assignments, units).
        weights: shape (layers, to, from); biases: (layers, to).
        pads: what a bound of each unit may be off, shape (layers + 1, units).
        terms: sizes of what is always added to first units.
        gammas: relative float32 error of a sum, per layer of units.
        weight_sizes, bias_sizes: as ``weights`` and ``biases``.
        tie: how far each margin must be beyond its zero, besides.
    """

    sizes: Integers
    line: Booleans
    start: Integers
    cell: Integers
    entry_low: Floats
    entry_high: Floats
    before: Integers
    columns: Floats
    bases: Floats
    weights: Floats
    biases: Floats
    pads: Floats
    terms: Floats
    gammas: Floats
    weight_sizes: Floats
    bias_sizes: Floats
    tie: Floats


class ShareEvents(NamedTuple):
    """Events of people: all of some functions are positive.

    Attributes:
        size: functions of each event.
        member: which, shape (events, most).
        unfair: whether it means that people are treated unfairly.
        exclusive: whether unfair events exclude each other, so that their shares add up; else the largest counts.
        together: whether all assignments are bounded together.
    """

    size: Integers
    member: Integers
    unfair: Booleans
    exclusive: bool
    together: bool


def gamma(terms: int, unit: float) -> float:
    """Return the relative error of a sum of so many products."""
    return terms * unit / (1 - terms * unit)


def float_network_of(question: RecordedQuestion, form: LayeredForm) -> FloatNetwork | None:
    """Return the network in float64; None where it is too large for what is held."""
    axes = form.axes
    widths = [1 if isinstance(axis.part, LineTerm) else axis.count for axis in axes]
    if sum(widths) > MAX_COLUMNS or sum(axis.count for axis in axes) > MAX_CELLS or len(axes) > MAX_AXES:
        return None
    shifts = form.shifts if not form.layers else np.zeros(len(form.units))
    folded = [
        [float(row[a] - (row[b] if b >= 0 else 0)) - shift for (a, b), shift in zip(form.units, shifts, strict=True)]
        for row in form.bases
    ]
    bases = np.array(folded).reshape(len(form.bases), -1)
    terms = fold_sizes(form.sizes, form.units).max(axis=0) + np.abs(shifts)
    reach = np.zeros(bases.shape[1])
    parts, lows, highs, befores = [], [], [], []
    for axis in axes:
        if isinstance(axis.part, LineTerm):
            part = np.stack([axis.part.slope, axis.part.intercept])
            held = np.stack([part[:, a] - (part[:, b] if b >= 0 else 0.0) for a, b in form.units], axis=1)
            bases = bases + held[1]
            terms = terms + fold_sizes(np.abs(part[1:]), form.units)[0]
            largest = max(abs(end) for end in strip_reach(axis))
            reach = reach + fold_sizes(np.abs(part[:1]), form.units)[0] * largest
            parts.append(held[:1])
            low, high = axis.entries(np.arange(axis.count))
            if axis.cells.form == "even":
                # Three roundings of numbers up to the largest entry.
                off = 2.0**-50 * largest
                low, high = low - off, high + off
            lows.append(low)
            highs.append(high)
        else:
            rows = axis.part.at(axis.entries(np.arange(axis.count))[0])
            parts.append(np.stack([rows[:, a] - (rows[:, b] if b >= 0 else 0.0) for a, b in form.units], axis=1))
            reach = reach + fold_sizes(np.abs(rows), form.units).max(axis=0)
            lows.append(np.zeros(axis.count))
            highs.append(np.zeros(axis.count))
        befores.append(axis.before(np.arange(axis.count + 1)))
    if any(b >= 0 for _, b in form.units):
        # The model adds up two outputs one by one: their terms may be far larger than those of the difference.
        terms = terms + reach
    weights, biases, weight_sizes, bias_sizes = [], [], [], []
    for number, layer in enumerate(form.layers):
        last = number == len(form.layers) - 1
        chosen = form.margins if last else [(unit, -1) for unit in range(len(layer.bias))]
        stacked = np.concatenate([layer.weights, layer.bias[None, :]])
        held = np.stack([stacked[:, a] - (stacked[:, b] if b >= 0 else 0.0) for a, b in chosen], axis=1)
        size = fold_sizes(np.abs(stacked), chosen)
        if last:
            held[-1] -= form.shifts
            size[-1] += np.abs(form.shifts)
        weights.append(held[:-1].T)
        biases.append(held[-1])
        weight_sizes.append(size[:-1].T)
        bias_sizes.append(size[-1])
    sizes = [bases.shape[1], *(len(bias) for bias in biases)]
    widest = max(sizes)
    whole = [(terms + reach) * UPWARD]
    for weight, bias in zip(weight_sizes, bias_sizes, strict=True):
        whole.append((weight @ whole[-1] + bias) * UPWARD)
    if not max(float(size.max(initial=0.0)) for size in whole) < 2.0**100:
        return None
    most = widest + sum(widths) + 8
    pads = np.zeros((len(sizes), widest))
    for k, size in enumerate(whole):
        pads[k, : len(size)] = 4 * (k + 2) * gamma(most, 2.0**-53) * size
    count = [len(question.network.parts), *(len(layer.weights) for layer in form.layers)]
    starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    cells = np.concatenate([[0], np.cumsum([axis.count for axis in axes])]).astype(np.int64)
    nothing = [np.zeros(0)]
    return FloatNetwork(
        sizes=np.array(sizes, dtype=np.int64),
        line=np.array([isinstance(axis.part, LineTerm) for axis in axes], dtype=np.bool_),
        start=starts,
        cell=cells,
        entry_low=np.concatenate(lows or nothing),
        entry_high=np.concatenate(highs or nothing),
        before=np.concatenate(befores or [np.zeros(0, dtype=np.int64)]).astype(np.int64),
        columns=np.ascontiguousarray(np.concatenate(parts).T) if parts else np.zeros((bases.shape[1], 0)),
        bases=bases,
        weights=_pad_arrays(weights, (widest, widest)),
        biases=_pad_arrays(biases, (widest,)),
        pads=pads,
        terms=terms * UPWARD,
        gammas=np.array([gamma(n + 8, 2.0**-24) * UPWARD for n in count]),
        weight_sizes=_pad_arrays(weight_sizes, (widest, widest)),
        bias_sizes=_pad_arrays(bias_sizes, (widest,)),
        tie=telling_margins(question, len(form.pairs)),
    )


def _pad_arrays(arrays: list[Floats], shape: tuple[int, ...]) -> Floats:
    held = np.zeros((len(arrays), *shape))
    for k, array in enumerate(arrays):
        held[k][tuple(slice(0, n) for n in array.shape)] = array
    return held


def share_events_of(form: LayeredForm) -> ShareEvents | None:
    """Return the events by which people are counted; None if they are too many.

    Functions are numbered (assignment, margin, sign), where a sign of 0 means that the second label of the margin's
    pair beats the first. With many assignments all are bounded together: see ``bounds.bound_together``.
    """
    together = len(form.bases) > MAX_SEPARATE
    margins, labels = len(form.pairs), form.labels
    if together and labels > 2:
        return None
    assignments = 2 if together else len(form.bases)

    def wins(label: int, p: int) -> list[int]:
        return [
            (p * margins + m) * 2 + (0 if label == b else 1) for m, (a, b) in enumerate(form.pairs) if label in (a, b)
        ]

    # Fair: one label beats all others under every joint value. Unfair: a label beats all others under one and loses to
    # some other under another.
    if together:
        fair = [[*wins(label, 0), *wins(label, 2)] for label in range(2)]
        unfair = [[*wins(0, 1), *wins(1, 1)]]
    else:
        fair = [[f for p in range(assignments) for f in wins(label, p)] for label in range(labels)]
        unfair = []
        for label in range(labels):
            for p in range(assignments):
                for q in range(assignments):
                    if p != q:
                        losing = [f ^ 1 for f in wins(label, q)]
                        unfair += [[*wins(label, p), f] for f in losing]
        unfair = [event for k, event in enumerate(unfair) if sorted(event) not in map(sorted, unfair[:k])]
    every = fair + unfair
    if len(every) > MAX_EVENTS:
        return None
    member = np.full((len(every), max(map(len, every))), -1, dtype=np.int64)
    for k, event in enumerate(every):
        member[k, : len(event)] = event
    return ShareEvents(
        size=np.array([len(event) for event in every], dtype=np.int64),
        member=member,
        unfair=np.array([k >= len(fair) for k in range(len(every))], dtype=np.bool_),
        exclusive=labels == 2 and assignments == 2,
        together=together,
    )
