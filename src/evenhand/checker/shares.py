"""Proving shares of a box by lower functions of its margins: bounds decide it as a whole, or its people are counted.

Lower functions are sums over the attributes, in float64 rounded to the safe side (``floats.bounds``). For counting they
are moved down to whole numbers, so that nothing else is rounded (``counting``).

**Tolerances.** With relaxed attributes everybody in a box is compared also with those who are close. They are in the
box widened by the tolerances, up to the ends of the domain, and functions are bounded there. The least that a function
may be for anybody close to a person is the sum of the least terms within the tolerance of each of the person's own
values, and the most is the sum of the greatest: so both are again sums over the attributes of the person.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from evenhand.checker.counting import ALL, HALF, ONE_BY_ONE, BoxSums
from evenhand.checker.floats.bounds import BoxFunctions, bound_arrays, bound_margins
from evenhand.checker.floats.network import FloatNetwork, entry_bounds
from evenhand.checker.form import LayeredForm
from evenhand.checker.network import CellAxis
from evenhand.models import LineTerm
from evenhand.typing import Booleans, Floats, Integers

MAX_WIDTH = 2**20
"""Cells of an attribute that are counted one by one."""
MAX_SHIFTS = 64
"""Distances at which somebody close is looked at, at most: where the tolerances end, and the person."""
SUM_BITS = 57
"""Bits of functions as whole numbers, so that sums and differences of them fit into 64."""


@dataclass(frozen=True)
class ProvedShares:
    """Shares of a box proved fair and unfair, in ``counting.ALL`` parts."""

    fair: int
    unfair: int

    @property
    def open(self) -> int:
        """What is proved neither."""
        return ALL - self.fair - self.unfair


def best_of(one: ProvedShares, other: ProvedShares) -> ProvedShares:
    """Return the larger shares of each kind: both are proved, so the larger one is."""
    return ProvedShares(max(one.fair, other.fair), max(one.unfair, other.unfair))


@dataclass(frozen=True)
class SharesProver:
    """Proves shares of boxes of one question.

    Attributes:
        net: the network in float64.
        form: says what its margins mean.
        least: how many different outcomes a person must be able to get to count as treated unfairly.
        widths: tolerances of the attributes in cells, (attributes,).
    """

    net: FloatNetwork
    form: LayeredForm
    least: int
    widths: Integers

    def prove(self, low: Integers, high: Integers, *, together: bool, half: int = HALF) -> tuple[ProvedShares, int]:
        """Return proved shares of a box, and the attribute that it had best be cut along, -1 if there is none.

        Args:
            low, high: the box, shape (attributes,).
            together: whether all assignments are bounded at once: their functions then differ by constants only.
            half: precision of counting.
        """
        wide_low, wide_high = self.widen(low, high)
        functions, axis = self._bound(wide_low, wide_high, low, high, together=together)
        fair, unfair = self._decide(functions)
        if fair or unfair:
            return ProvedShares(ALL * fair, ALL * unfair), axis
        if (low == high).all():
            return self._decide_person(wide_low, wide_high), axis
        if (wide_high - wide_low).max(initial=0) > MAX_WIDTH:
            return ProvedShares(0, 0), axis
        constants, terms = self._lower_functions(functions, wide_low, wide_high)
        ranges = zip(self.form.axes, low.tolist(), high.tolist(), strict=True)
        masses = tuple(cell_masses(each, first, last) for each, first, last in ranges)
        close = CloseFunctions(constants, terms, masses, low - wide_low, self.widths, half)
        return _count_shares(self.form, close, self.least), axis

    def widen(self, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """Return a box with everybody who is close to somebody in it."""
        return np.maximum(low - self.widths, 0), np.minimum(high + self.widths, self.net.count - 1)

    def _bound(
        self, low: Integers, high: Integers, inner_low: Integers, inner_high: Integers, *, together: bool
    ) -> tuple[BoxFunctions, int]:
        """Return the lower functions of a box, and the attribute that a box inside it had best be cut along."""
        assignments, margins = len(self.form.bases), len(self.form.pairs)
        shape = (assignments, margins, 2, 2)
        columns = (1 if together else assignments, margins, 2, 2, self.net.columns.shape[1])
        found = BoxFunctions(np.zeros(columns), np.zeros(shape), np.zeros(shape))
        axis = bound_margins(self.net, low, high, inner_low, inner_high, bound_arrays(self.net, 1), found)
        return found, int(axis)

    def _decide(self, functions: BoxFunctions) -> tuple[bool, bool]:
        """Return whether everybody in a box is treated fairly, and whether everybody is treated unfairly."""
        positive = functions.least.max(axis=3) > 0
        fair, unfair = decide_people(positive[..., None], self.form, self.least)
        return bool(fair[0]), bool(unfair[0])

    def _decide_person(self, low: Integers, high: Integers) -> ProvedShares:
        """Decide a person by the labels of everybody close, each by themselves."""
        if not self.widths.any():
            return ProvedShares(0, 0)
        ranges = (range(a, b + 1) for a, b in zip(low.tolist(), high.tolist(), strict=True))
        sets: set[int] = set()
        for cells in itertools.product(*ranges):
            person = np.array(cells, dtype=np.int64)
            functions, _ = self._bound(person, person, person, person, together=False)
            positive = functions.least.max(axis=3) > 0
            sets |= set(possible_labels(positive[..., None], self.form.pairs, self.form.labels).ravel().tolist())
        if len(sets) == 1 and all(one & (one - 1) == 0 for one in sets):
            return ProvedShares(ALL, 0)
        return ProvedShares(0, ALL * any(a & b == 0 for a, b in itertools.combinations(sets, 2)))

    def _lower_functions(
        self, functions: BoxFunctions, low: Integers, high: Integers
    ) -> tuple[Integers, list[Integers]]:
        """Return the lower functions of a box as whole numbers, of both slopes those that are higher on average.

        Returns:
            Constants of every assignment, margin and sign, (functions,), and for each attribute what its cells add,
            (functions, cells).
        """
        groups = len(functions.column)
        each = len(functions.constant) // groups
        table = [self._cell_terms(functions.column, i, int(low[i]), int(high[i])) for i in range(len(low))]
        means = sum((term.mean(axis=4) for term in table), np.zeros(functions.column.shape[:4]))
        steep = (functions.constant[::each] + means).argmax(axis=3)[..., None]
        table = [np.take_along_axis(term, steep[..., None], axis=3)[:, :, :, 0] for term in table]
        constants = np.take_along_axis(functions.constant, np.repeat(steep, each, axis=0), axis=3)[..., 0]
        # Constants beyond what all terms come to decide alone.
        most = sum((float(np.abs(term).max()) for term in table), 2.0**-900)
        constants = np.clip(constants, -4 * most, 4 * most)
        shift = SUM_BITS - math.frexp(8 * most)[1]

        def move_down(values: Floats) -> Integers:
            return np.floor(np.ldexp(values, shift)).astype(np.int64)

        terms = [np.repeat(move_down(term), each, axis=0) for term in table]
        return move_down(constants).ravel(), [term.reshape(-1, term.shape[3]) for term in terms]

    def _cell_terms(self, column: Floats, i: int, low: int, high: int) -> Floats:
        """Return what each cell of a range adds to functions at least, with the cells as the last axis."""
        axis, start = self.form.axes[i], int(self.net.start[i])
        if not isinstance(axis.part, LineTerm):
            return column[..., start + low : start + high + 1]
        slope = column[..., start, None]
        least, most = entry_bounds(axis, np.arange(low, high + 1))
        return np.minimum(slope * least, slope * most)


def decide_people(positive: Booleans, form: LayeredForm, least: int) -> tuple[Booleans, Booleans]:
    """Return who is surely treated fairly, and who unfairly, from which lower functions are positive.

    Args:
        positive: margins and negative margins, shape (assignments, margins, 2, people).
        form: says what margins mean.
        least: how many different outcomes a person must be able to get to count as treated unfairly.
    """
    if form.differences:
        return np.asarray(positive[0, :, 1].all(axis=0)), np.asarray(positive[0, :, 0].any(axis=0))
    labels = possible_labels(positive, form.pairs, form.labels)
    if least == 2:
        same = (labels == labels[0]).all(axis=0) & (labels[0] & (labels[0] - 1) == 0)
        apart = np.zeros(labels.shape[1], dtype=np.bool_)
        for a in range(len(labels)):
            for b in range(a):
                apart |= labels[a] & labels[b] == 0
        return same, apart
    sizes = _count_bits(labels, form.labels)
    single, some = np.where(sizes == 1, labels, 0), np.bitwise_or.reduce(labels, axis=0)
    known = np.bitwise_or.reduce(single, axis=0)
    # No more outcomes than labels that are left anywhere; or than those surely given, and one for each left several.
    most = np.minimum(_count_bits(some, form.labels), _count_bits(known, form.labels) + (sizes > 1).sum(axis=0))
    # No fewer than sets of which no two have a label in common: gathered from the smallest on.
    order = np.argsort(sizes, axis=0, kind="stable")
    taken, found = np.zeros_like(known), np.zeros_like(known)
    for row in np.take_along_axis(labels, order, axis=0):
        new = row & taken == 0
        found += new
        taken |= np.where(new, row, 0)
    return most < least, found >= least


def _count_bits(sets: Integers, labels: int) -> Integers:
    return np.asarray(sum((sets >> k) & 1 for k in range(labels)))


def possible_labels(positive: Booleans, pairs: tuple[tuple[int, int], ...], classes: int) -> Integers:
    """Return sets of possible labels, as bits, (assignments, people), from which margins and negatives are positive.

    Args:
        positive: shape (assignments, margins, 2, people).
        pairs: labels of each margin.
        classes: how many labels there are.
    """
    labels = np.full((len(positive), positive.shape[3]), (1 << classes) - 1, dtype=np.int64)
    for m, (a, b) in enumerate(pairs):
        labels &= np.where(positive[:, m, 0], ~np.int64(1 << a), np.int64(-1))
        labels &= np.where(positive[:, m, 1], ~np.int64(1 << b), np.int64(-1))
    return labels


def cell_masses(axis: CellAxis, low: int, high: int) -> Integers:
    """Return the masses of a range of cells out of ``ALL``, rounded down, shape (cells,)."""
    before = axis.before(np.arange(low, high + 2))
    weights = np.diff(before).astype(object)
    return np.asarray(weights * ALL // max(1, int(before[-1] - before[0]))).astype(np.int64)


@dataclass(frozen=True)
class CloseFunctions:
    """Lower functions of a box, and what they are for those close to a person; without tolerances, for the person.

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
            for distance in range(-width, width + 1) if width else ():
                found = choose(found, self._shift_terms(i, distance))
            moved.append(found)
        return self._sums(moved)

    def at(self, shift: tuple[int, ...]) -> BoxSums:
        """Return the functions for people at a distance, or as far as the domain reaches."""
        return self._sums([self._shift_terms(i, distance) for i, distance in enumerate(shift)])

    def _sums(self, terms: list[Integers]) -> BoxSums:
        wide = [i for i, mass in enumerate(self.masses) if len(mass) > 1]
        single = (term[:, 0] for i, term in enumerate(terms) if i not in wide)
        constants = sum(single, self.constants)
        return BoxSums(constants, tuple(terms[i] for i in wide), tuple(self.masses[i] for i in wide), self.half)

    def _shift_terms(self, i: int, distance: int) -> Integers:
        cells = int(self.first[i]) + np.arange(len(self.masses[i])) + distance
        return np.asarray(self.terms[i][:, np.clip(cells, 0, self.terms[i].shape[1] - 1)])


def _count_shares(form: LayeredForm, close: CloseFunctions, least: int) -> ProvedShares:
    """Count a box where the lower functions are positive for everybody close, or for somebody."""
    everybody = close.for_everybody()
    shape = (len(form.bases), len(form.pairs), 2, -1)
    few = everybody.people * len(close.constants) <= 4 * ONE_BY_ONE
    if few:
        decided = decide_people(everybody.positive().reshape(shape), form, least)
        shares = ProvedShares(*(_mass_of(everybody, chosen) for chosen in decided))
    elif form.differences:
        shares = _count_changes(everybody, len(form.pairs))
    else:
        shares = _count_by_events(everybody, form, least)
    if not close.widths.any():
        return shares
    somebody = close.for_somebody()
    if form.labels == 2 and few:
        # The second label for somebody close, and the first for somebody.
        positive = somebody.positive().reshape(shape)
        apart = _mass_of(somebody, positive[:, 0, 0].any(axis=0) & positive[:, 0, 1].any(axis=0))
    else:
        apart = min(ALL - shares.fair, _count_apart(form, close, somebody))
    return replace(shares, unfair=max(shares.unfair, apart))


def _mass_of(sums: BoxSums, chosen: Booleans) -> int:
    """Return the mass of chosen people of a box, all of it if these are all."""
    return ALL if chosen.all() else int(sums.weights()[chosen].sum())


def _count_changes(sums: BoxSums, margins: int) -> ProvedShares:
    """Fair: no number is beyond the tolerance. Unfair: the likeliest is, or its opposite, which excludes it."""
    mean = sums.mean()
    likely = max(range(margins), key=lambda m: mean[2 * m])
    both = {likely, likely ^ 1} if margins > 1 else {likely}
    fair = sums.all_positive([2 * m + 1 for m in range(margins)])
    return ProvedShares(fair, sum(sums.all_positive([2 * m]) for m in both))


def _winning(form: LayeredForm) -> list[list[list[int]]]:
    """Return the functions that are positive where a label beats all others, of each label and assignment."""
    index = np.arange(2 * len(form.bases) * len(form.pairs)).reshape(len(form.bases), len(form.pairs), 2).tolist()
    sides = [
        [(m, 0 if label == b else 1) for m, (a, b) in enumerate(form.pairs) if label in (a, b)]
        for label in range(form.labels)
    ]
    return [[[row[m][side] for m, side in mine] for row in index] for mine in sides]


def _count_by_events(sums: BoxSums, form: LayeredForm, least: int) -> ProvedShares:
    """Fair: one label beats all others under every assignment. Unfair: it does under one, and is beaten under another.

    Fair events of different labels exclude each other. With two labels and two assignments so do the two unfair events,
    in which the first label is given under one assignment or under the other. Else only the largest event counts. Of
    more outcomes than two the event is looked at that each assignment gets its likeliest label.
    """
    wins, assignments = _winning(form), len(form.bases)
    fair = sum(sums.all_positive([f for each in label for f in each]) for label in wins)
    mean = sums.mean()
    if least > 2:
        likely = [max(range(form.labels), key=lambda k: min(mean[f] for f in wins[k][p])) for p in range(assignments)]
        if len(set(likely)) == 1:
            return ProvedShares(fair, 0)
        share = sums.all_positive([f for p, label in enumerate(likely) for f in wins[label][p]])
        return ProvedShares(fair, share) if len(set(likely)) >= least else ProvedShares(fair + share, 0)
    if form.labels == 2 and assignments == 2:
        unfair = sum(sums.all_positive([*wins[0][p], *wins[1][1 - p]]) for p in range(2))
        return ProvedShares(fair, unfair)
    largest = 0
    for label in wins:
        strongest = max(label, key=lambda mine: min(mean[f] for f in mine))
        # A function and its negative are neighbours.
        beaten = max((f ^ 1 for mine in label for f in mine), key=lambda f: mean[f])
        largest = max(largest, sums.all_positive([*strongest, beaten]))
    return ProvedShares(fair, largest)


def _count_apart(form: LayeredForm, close: CloseFunctions, somebody: BoxSums) -> int:
    """Return the largest share in which a label is given at one distance, and beaten for somebody close."""
    functions = len(close.constants)
    shifts = itertools.islice(itertools.product(*({-width, 0, width} for width in close.widths.tolist())), MAX_SHIFTS)
    shifted = [close.at(shift) for shift in shifts]
    means, highest = [sums.mean() for sums in shifted], somebody.mean()
    largest = 0
    for label in _winning(form):
        beaten = max((f ^ 1 for mine in label for f in mine), key=lambda f: float(highest[f]))
        places = itertools.product(range(len(shifted)), label)
        at, wins = max(places, key=lambda place: min(float(means[place[0]][f]) for f in place[1]))
        rows = [*wins, functions + beaten]
        joined = BoxSums(
            np.concatenate([shifted[at].constants, somebody.constants])[rows],
            tuple(np.concatenate([a, b])[rows] for a, b in zip(shifted[at].terms, somebody.terms, strict=True)),
            somebody.masses,
            close.half,
        )
        largest = max(largest, joined.all_positive(list(range(len(rows)))))
    return largest
