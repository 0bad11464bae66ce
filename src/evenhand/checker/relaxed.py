"""Boxes of a question with tolerances: who is compared also with everybody whose relaxed attributes are close.

Those close to somebody in a box are in the box widened by the tolerances, up to the ends of the domain. A lower
function of a margin that holds there is a sum over the attributes. The least that it may be for anybody close to a
person is the sum of the least terms within the tolerance of each of the person's own values, and the most is the sum of
the greatest: so both are again sums over the attributes of the person, and are counted as ever.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from evenhand.checker.bounds import bound_margins
from evenhand.checker.counting import ALL, HALF, ONE_BY_ONE, BoxSums
from evenhand.checker.deployed import float32_errors_of
from evenhand.checker.fixed import (
    FAST_BITS,
    MAX_LAYERS,
    SLOW_BITS,
    FixedPointNetwork,
    PrecisionExceeded,
    fixed_point_of,
)
from evenhand.checker.form import LayeredForm, form_of
from evenhand.checker.network import RecordedQuestion
from evenhand.checker.reprove import (
    FAIR,
    MAX_PARTS,
    MAX_SLOW_PARTS,
    MAX_WIDTH,
    OPEN,
    UNFAIR,
    BoxProof,
    PartitionedBox,
    ProvedShares,
    batch_of,
    cell_masses,
    count_by_events,
    decide_boxes,
    decide_people,
    lower_functions,
    possible_labels,
)
from evenhand.typing import Integers

MAX_SHIFTS = 64
"""Distances at which somebody close is looked at, at most: where the tolerances end, and the person."""


class RelaxedProver:
    """Proves shares of boxes of a question about a network with tolerances.

    Args:
        question: what the certificate is about.
    """

    quick = whole_numbers = compiled = False

    def __init__(self, question: RecordedQuestion) -> None:
        # Neighbours without mass are compared all the same: relaxed attributes keep all cells of the file.
        self._kept = [
            axis.kept if axis.attribute.name in question.statement.relaxed else None for axis in question.axes
        ]
        axes = tuple(
            axis if kept is None else replace(axis, kept=None)
            for axis, kept in zip(question.axes, self._kept, strict=True)
        )
        self._form = form_of(replace(question, axes=axes))
        self._deployed = float32_errors_of(replace(question, axes=axes), self._form)
        widths = [question.statement.relaxed.get(axis.attribute.name, 0) for axis in axes]
        self._widths = np.array(widths, dtype=np.int64)

    def prove_quickly(
        self,
        low: NDArray[np.integer],
        high: NDArray[np.integer],
        fair: NDArray[np.integer],
        unfair: NDArray[np.integer],
    ) -> list[BoxProof]:
        """Prove claims again: there is no quicker way."""
        return self.prove(low, high, fair, unfair)

    def prove(
        self,
        low: NDArray[np.integer],
        high: NDArray[np.integer],
        fair: NDArray[np.integer],
        unfair: NDArray[np.integer],
    ) -> list[BoxProof]:
        """Prove claims again in whole numbers.

        Args:
            low, high: boxes of cells with mass, shape (n, attributes).
            fair, unfair: claimed shares in parts of ``WHOLE``.
        """
        low, high = low.astype(np.int64), high.astype(np.int64)
        for i, kept in enumerate(self._kept):
            if kept is not None:
                low[:, i], high[:, i] = kept[low[:, i]], kept[high[:, i]]
        claims = zip(low, high, fair.tolist(), unfair.tolist(), strict=True)
        return [self._prove_box(box_low, box_high, (int(a), int(b))) for box_low, box_high, a, b in claims]

    def _prove_box(self, low: NDArray[np.int64], high: NDArray[np.int64], claim: tuple[int, int]) -> BoxProof:
        best = BoxProof(claim == (0, 0), 0.0, 0.0, 0)
        for bits, most in ((FAST_BITS, MAX_PARTS), (SLOW_BITS, MAX_SLOW_PARTS)):
            if best.confirmed or (bits == FAST_BITS and len(self._form.layers) > MAX_LAYERS):
                continue
            try:
                fixed = fixed_point_of(self._form, self._deployed, bits, *widen(self._form, self._widths, low, high))
            except PrecisionExceeded:
                continue
            prove_shares = partial(_prove_shares, fixed, self._widths)
            proof = PartitionedBox(fixed, prove_shares, low, high, claim).proof(most, batch_of(self._form))
            best = max(best, proof, key=lambda each: (each.confirmed, each.fair + each.unfair))
        return best


def widen(
    form: LayeredForm, widths: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return boxes, shape (..., attributes), with everybody who is close to somebody in them."""
    last = np.array([axis.count - 1 for axis in form.axes], dtype=np.int64)
    return np.maximum(low - widths, 0), np.minimum(high + widths, last)


def _prove_shares(
    fixed: FixedPointNetwork,
    widths: NDArray[np.int64],
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    *,
    together: bool,
    half: int = HALF,
) -> tuple[list[ProvedShares], list[int]]:
    """Return proved shares of boxes, and the attribute that each had best be cut along."""
    wide = widen(fixed.form, widths, low, high)
    bounds = bound_margins(fixed, *wide, together=together)
    kinds = decide_boxes(bounds, fixed.form, 2)
    found = []
    for k, kind in enumerate(kinds):
        shares = ProvedShares(ALL * int(kind == FAIR), ALL * int(kind == UNFAIR))
        if kind == OPEN and (low[k] == high[k]).all():
            shares = _decide_person(fixed, wide[0][k], wide[1][k])
        elif kind == OPEN and (wide[1][k] - wide[0][k]).max(initial=0) <= MAX_WIDTH:
            one = np.array([k])
            both = [bounds.of(one)]
            if fixed.layers:
                both.append(bound_margins(fixed, wide[0][one], wide[1][one], together=together, flat=True))
            constants, terms = lower_functions(fixed, both, 0, wide[0][k], wide[1][k])
            ranges = zip(fixed.form.axes, low[k].tolist(), high[k].tolist(), strict=True)
            masses = tuple(cell_masses(axis, first, last) for axis, first, last in ranges)
            close = CloseFunctions(constants, terms, masses, low[k] - wide[0][k], widths, half)
            shares = _count_shares(fixed.form, close)
        found.append(shares)
    able = np.where(high > low, bounds.importance, -1.0)
    return found, [int(np.argmax(row)) if len(row) else 0 for row in able]


def _decide_person(fixed: FixedPointNetwork, low: NDArray[np.int64], high: NDArray[np.int64]) -> ProvedShares:
    """Decide a person by the labels of everybody close, each by themselves."""
    close = np.array(
        list(itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))), dtype=np.int64
    )
    close = close.reshape(-1, len(low))
    form, labels = fixed.form, []
    batch = batch_of(form)
    for at in range(0, len(close), batch):
        people = close[at : at + batch]
        bounds = bound_margins(fixed, people, people, together=False)
        positive = np.moveaxis(bounds.least > 0, 0, -1)
        labels.append(possible_labels(positive, form.pairs, form.labels).ravel())
    sets = np.concatenate(labels)
    union, common = int(np.bitwise_or.reduce(sets)), set(sets.tolist())
    if union & (union - 1) == 0:
        return ProvedShares(ALL, 0)
    return ProvedShares(0, ALL * any(a & b == 0 for a, b in itertools.combinations(common, 2)))


@dataclass(frozen=True)
class CloseFunctions:
    """Lower functions of a box, and what they are for those close to a person.

    Attributes:
        constants: shape (functions,).
        terms: of each attribute what the cells of the widened box add, (functions, cells).
        masses: of each attribute those of the cells of the box.
        first: where the box begins in the widened one, (attributes,).
        widths: the tolerances, (attributes,).
        half: precision of counting.
    """

    constants: Integers
    terms: list[Integers]
    masses: tuple[Integers, ...]
    first: Integers
    widths: Integers
    half: int

    def for_everybody(self) -> BoxSums:
        """Return the least that the functions may be for somebody close."""
        return self._extreme(np.minimum)

    def for_somebody(self) -> BoxSums:
        """Return the most that each function alone is for somebody close."""
        return self._extreme(np.maximum)

    def _extreme(self, choose: np.ufunc) -> BoxSums:
        moved = []
        for i, width in enumerate(self.widths.tolist()):
            found = self._shift_terms(i, 0)
            for distance in range(-width, width + 1):
                found = choose(found, self._shift_terms(i, distance))
            moved.append(found)
        return BoxSums(self.constants, tuple(moved), self.masses, self.half)

    def at(self, shift: tuple[int, ...]) -> BoxSums:
        """Return the functions for people at a distance, or as far as the domain reaches."""
        moved = tuple(self._shift_terms(i, distance) for i, distance in enumerate(shift))
        return BoxSums(self.constants, moved, self.masses, self.half)

    def _shift_terms(self, i: int, distance: int) -> Integers:
        cells = int(self.first[i]) + np.arange(len(self.masses[i])) + distance
        return np.asarray(self.terms[i][:, np.clip(cells, 0, self.terms[i].shape[1] - 1)])


def _count_shares(form: LayeredForm, close: CloseFunctions) -> ProvedShares:
    """Count a box where the lower functions are positive for everybody close, or for somebody."""
    everybody, somebody = close.for_everybody(), close.for_somebody()
    few = everybody.people * len(close.constants) <= 4 * ONE_BY_ONE
    shape = (1, len(form.bases), len(form.pairs), 2, -1)
    if few:
        same, _ = decide_people(everybody.positive().reshape(shape), form, 2)
        fair = ALL if same.all() else int(everybody.weights()[same].sum())
    else:
        fair = count_by_events(everybody, form, len(form.bases), 2).fair
    if form.labels == 2 and few:
        # The second label for somebody close, and the first for somebody.
        positive = somebody.positive().reshape(shape)[0]
        apart = positive[:, 0, 0].any(axis=0) & positive[:, 0, 1].any(axis=0)
        return ProvedShares(fair, ALL if apart.all() else int(somebody.weights()[apart].sum()))
    return ProvedShares(fair, min(ALL - fair, _count_apart(form, close, somebody)))


def _count_apart(form: LayeredForm, close: CloseFunctions, somebody: BoxSums) -> int:
    """Return the largest share in which a label is given at one distance, and beaten for somebody close."""
    assignments, functions = len(form.bases), len(close.constants)
    shifts = itertools.islice(itertools.product(*({-width, 0, width} for width in close.widths.tolist())), MAX_SHIFTS)
    shifted = [close.at(shift) for shift in shifts]
    means, highest = [sums.mean() for sums in shifted], somebody.mean()
    index = np.arange(functions).reshape(assignments, len(form.pairs), 2)
    largest = 0
    for label in range(form.labels):
        mine = [(m, 0 if label == b else 1) for m, (a, b) in enumerate(form.pairs) if label in (a, b)]
        beaten = max((int(index[p, m, 1 - sign]) for p in range(assignments) for m, sign in mine),
                     key=lambda f: float(highest[f]))  # fmt: skip
        wins = [[int(index[p, m, sign]) for m, sign in mine] for p in range(assignments)]
        places = itertools.product(range(len(shifted)), range(assignments))
        at, p = max(places, key=lambda place: min(float(means[place[0]][f]) for f in wins[place[1]]))
        rows = [*wins[p], functions + beaten]
        joined = BoxSums(
            np.concatenate([close.constants, close.constants])[rows],
            tuple(np.concatenate([a, b])[rows] for a, b in zip(shifted[at].terms, somebody.terms, strict=True)),
            close.masses,
            close.half,
        )
        largest = max(largest, joined.all_positive(list(range(len(rows)))))
    return largest
