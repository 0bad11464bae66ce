"""Prove shares of a box by lower functions of its margins: decide the whole box by bounds, or count its people.

Lower functions are sums over the attributes, in float64 rounded to the safe side (``floats.bounds``). People are
counted by events that are chosen for each box (``floats.counting``).

**Tolerances.** With relaxed attributes everybody in a box is compared also with those who are close. They are in the
box widened by the tolerances, up to the ends of the domain, and functions are bounded there. The least that a function
may be for anybody close to a person is the sum of the least terms within the tolerance of each of the person's own
values, and the most is the sum of the greatest: so both are again sums over the attributes of the person.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from evenhand.checker.floats.bounds import BoundArrays, bound_arrays, bound_margins
from evenhand.checker.floats.counting import LEVELS, PeopleSums
from evenhand.checker.floats.network import FloatNetwork, entry_bounds
from evenhand.checker.form import LayeredForm
from evenhand.checker.network import CellAxis
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.models.additive.network import LineTerm

MAX_WIDTH = 2**20
"""Maximum number of cells of an attribute that are counted individually."""
MAX_SHIFTS = 64
"""Maximum number of distances at which close people are considered: the ends of the tolerances, and zero."""
ONE_BY_ONE = 2**18
"""Maximum number of function values that are computed person by person."""
MANY_FUNCTIONS = 256
"""Number of functions of an event above which grids are coarse, because each function takes memory."""


@dataclass(frozen=True)
class ProvedShares:
    """Proved fair and unfair shares of a box; 1 only if the entire box is proved."""

    fair: float
    unfair: float

    @property
    def open(self) -> float:
        """Undecided share."""
        return 1 - self.fair - self.unfair


def best_of(one: ProvedShares, other: ProvedShares) -> ProvedShares:
    """Combine two proofs of the same box: the larger share of each kind is proved."""
    return ProvedShares(max(one.fair, other.fair), max(one.unfair, other.unfair))


@dataclass(frozen=True)
class SharesProver:
    """Prover of the shares of boxes for one question.

    Attributes:
        net: Network in float64.
        form: Meaning of the margins.
        least: Minimum number of different outcomes that counts as unfair treatment.
        widths: Tolerance of each attribute in cells, shape (attributes,).
    """

    net: FloatNetwork
    form: LayeredForm
    least: int
    widths: Integers

    def prove(
        self, low: Integers, high: Integers, *, together: bool, level: tuple[int, int]
    ) -> tuple[ProvedShares, int]:
        """Prove shares of a box, and select the attribute to split, -1 if there is none.

        Args:
            low, high: First and last cell of the box, shape (attributes,).
            together: Whether to bound all assignments at once. Their functions then differ only by constants.
            level: Numbers of grid steps and of listed joint values.
        """
        wide_low, wide_high = self.widen(low, high)
        functions, axis = self._bound(wide_low, wide_high, low, high, together=together)
        fair, unfair = decide_people(self._positive(functions), self.form, self.least)
        if fair[0] or unfair[0]:
            return ProvedShares(float(fair[0]), float(unfair[0])), axis
        if (low == high).all():
            return self._decide_person(wide_low, wide_high), axis
        if (wide_high - wide_low).max(initial=0) > MAX_WIDTH:
            return ProvedShares(0, 0), axis
        constants, terms = self._lower_functions(functions, wide_low, wide_high)
        ranges = zip(self.form.axes, low.tolist(), high.tolist(), strict=True)
        chances = tuple(cell_chances(each, first, last) for each, first, last in ranges)
        close = CloseFunctions(constants, terms, chances, low - wide_low, self.widths)
        return self._count(close, level), axis

    def widen(self, low: Integers, high: Integers) -> tuple[Integers, Integers]:
        """Widen a box by the tolerances, up to the ends of the domain."""
        return np.maximum(low - self.widths, 0), np.minimum(high + self.widths, self.net.counts - 1)

    def _bound(
        self, low: Integers, high: Integers, inner_low: Integers, inner_high: Integers, *, together: bool
    ) -> tuple[BoundArrays, int]:
        """Compute the lower functions of a box, and select the attribute along which to split the inner box."""
        found = bound_arrays(self.net, 2 * len(self.form.bases) * len(self.form.pairs))
        axis = bound_margins(self.net, together, low, high, inner_low, inner_high, found)
        return found, int(axis)

    def _positive(self, functions: BoundArrays) -> Booleans:
        """Check which functions are positive on the entire box, in the layout of ``decide_people``."""
        positive = functions.least.max(axis=1) > 0
        return np.asarray(positive.reshape(len(self.form.bases), len(self.form.pairs), 2, 1))

    def _decide_person(self, low: Integers, high: Integers) -> ProvedShares:
        """Decide a person by the labels of all people within the tolerances."""
        if not self.widths.any():
            return ProvedShares(0, 0)
        ranges = (range(a, b + 1) for a, b in zip(low.tolist(), high.tolist(), strict=True))
        sets: set[int] = set()
        for cells in itertools.product(*ranges):
            person = np.array(cells, dtype=np.int64)
            functions, _ = self._bound(person, person, person, person, together=False)
            labels = possible_labels(self._positive(functions), self.form.pairs, self.form.labels)
            sets |= set(labels.ravel().tolist())
        if len(sets) == 1 and all(one & (one - 1) == 0 for one in sets):
            return ProvedShares(1.0, 0.0)
        return ProvedShares(0.0, float(any(a & b == 0 for a, b in itertools.combinations(sets, 2))))

    def _lower_functions(self, functions: BoundArrays, low: Integers, high: Integers) -> tuple[Floats, list[Floats]]:
        """Select for each lower function of a box the slopes with the higher mean.

        Returns:
            Constants of every assignment, margin and sign, (functions,), and for each attribute what its cells add,
            (functions, cells).
        """
        table = [self._cell_terms(functions.function, i, int(low[i]), int(high[i])) for i in range(len(low))]
        every = np.arange(len(functions.constant))
        steep = sum((term.mean(axis=2) for term in table), functions.constant).argmax(axis=1)
        # Constants beyond what all terms come to decide alone.
        most = sum((float(np.abs(term).max()) for term in table), 1.0)
        constants = np.clip(functions.constant[every, steep], -4 * most, 4 * most)
        return constants, [term[every, steep] for term in table]

    def _cell_terms(self, column: Floats, i: int, low: int, high: int) -> Floats:
        """Compute lower bounds on the terms of each cell of a range, with the cells as the last axis."""
        axis, start = self.form.axes[i], int(self.net.start[i])
        if not isinstance(axis.part, LineTerm):
            return column[..., start + low : start + high + 1]
        slope = column[..., start, None]
        least, most = entry_bounds(axis, np.arange(low, high + 1))
        return np.minimum(slope * least, slope * most)

    def _count(self, close: CloseFunctions, level: tuple[int, int]) -> ProvedShares:
        """Count the people of a box for whom the lower functions are positive for all, or for some, close people."""
        form, everybody = self.form, close.extreme(np.minimum)
        shape = (len(form.bases), len(form.pairs), 2, -1)
        few = everybody.people * len(close.constants) <= ONE_BY_ONE
        if few:
            decided = decide_people(everybody.positive().reshape(shape), form, self.least)
            shares = ProvedShares(*(everybody.share_of(chosen) for chosen in decided))
        else:
            shares = self._count_events(everybody, level)
        if not self.widths.any():
            return shares
        somebody = close.extreme(np.maximum)
        if form.labels == 2 and few:
            # The second label for somebody close, and the first for somebody.
            positive = somebody.positive().reshape(shape)
            apart = somebody.share_of(np.asarray(positive[:, 0, 0].any(axis=0) & positive[:, 0, 1].any(axis=0)))
        else:
            apart = min(1 - shares.fair, self._count_apart(close, somebody, level))
        return replace(shares, unfair=max(shares.unfair, apart))

    def _count_events(self, sums: PeopleSums, level: tuple[int, int]) -> ProvedShares:
        """Count the events of one box.

        Fair: one label beats all others under every assignment. Unfair: it does under one, and is beaten under another.

        Fair events of different labels exclude each other. With two labels and two assignments so do the two unfair
        events, in which the first label is given under one assignment or under the other. Else only the largest counts.
        Of more outcomes than two the event is looked at that each assignment gets its likeliest label. Of changes of a
        number all within the tolerance are fair; the likeliest change beyond it, and its opposite, exclude each other.
        """
        form, mean = self.form, sums.mean()
        assignments, margins = len(form.bases), len(form.pairs)
        if form.differences:
            likely = max(range(margins), key=lambda m: mean[2 * m])
            changes = {likely, likely ^ 1} if margins > 1 else {likely}
            return self._share_of(
                sums, [[2 * m + 1 for m in range(margins)]], [[2 * m] for m in changes], level, add=True
            )
        wins = _winning(form)
        fair = [[f for mine in label for f in mine] for label in wins]
        if self.least > 2:
            given = [
                max(range(form.labels), key=lambda k: min(mean[f] for f in wins[k][p])) for p in range(assignments)
            ]
            vector = [[f for p, label in enumerate(given) for f in wins[label][p]]]
            if len(set(given)) >= self.least:
                return self._share_of(sums, fair, vector, level, add=False)
            return self._share_of(sums, fair + vector * (len(set(given)) > 1), [], level, add=False)
        if form.labels == 2 and assignments == 2:
            return self._share_of(sums, fair, [[*wins[0][p], *wins[1][1 - p]] for p in range(2)], level, add=True)
        unfair = []
        for label in wins:
            strongest = max(label, key=lambda mine: min(mean[f] for f in mine))
            # A function and its negative are neighbours.
            unfair.append([*strongest, max((f ^ 1 for mine in label for f in mine), key=lambda f: mean[f])])
        return self._share_of(sums, fair, unfair, level, add=False)

    def _count_apart(self, close: CloseFunctions, somebody: PeopleSums, level: tuple[int, int]) -> float:
        """Compute the largest proved share in which a label wins at one distance and loses for some close person."""
        functions = len(close.constants)
        ends = ({-width, 0, width} for width in close.widths.tolist())
        shifted = [close.at(shift) for shift in itertools.islice(itertools.product(*ends), MAX_SHIFTS)]
        means, highest = [sums.mean() for sums in shifted], somebody.mean()
        largest = 0.0
        for label in _winning(self.form):
            beaten = max((f ^ 1 for mine in label for f in mine), key=lambda f: float(highest[f]))
            places = itertools.product(range(len(shifted)), label)
            at, wins = max(places, key=lambda place: min(float(means[place[0]][f]) for f in place[1]))
            joined = PeopleSums(
                np.concatenate([shifted[at].constants, somebody.constants]),
                tuple(np.concatenate(both) for both in zip(shifted[at].terms, somebody.terms, strict=True)),
                somebody.chances,
            )
            found = self._share_of(joined, [], [[*wins, functions + beaten]], level, add=False)
            largest = max(largest, found.unfair)
        return largest

    def _share_of(
        self, sums: PeopleSums, fair: list[list[int]], unfair: list[list[int]], level: tuple[int, int], *, add: bool
    ) -> ProvedShares:
        many = max(map(len, fair + unfair)) > MANY_FUNCTIONS
        return ProvedShares(*sums.count_events(fair, unfair, LEVELS[0] if many else level, add=add))


def decide_people(positive: Booleans, form: LayeredForm, least: int) -> tuple[Booleans, Booleans]:
    """Decide people by the signs of the lower functions.

    Args:
        positive: Signs of margins and negative margins, shape (assignments, margins, 2, people).
        form: Meaning of the margins.
        least: Minimum number of different outcomes that counts as unfair treatment.

    Returns:
        Masks of the people who are proved to be treated fairly, and unfairly.
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
    """Compute the sets of possible labels, as bits, shape (assignments, people), from the signs of the margins.

    Args:
        positive: Signs of margins and negative margins, shape (assignments, margins, 2, people).
        pairs: Labels of each margin.
        classes: Number of labels.
    """
    labels = np.full((len(positive), positive.shape[3]), (1 << classes) - 1, dtype=np.int64)
    for m, (a, b) in enumerate(pairs):
        labels &= np.where(positive[:, m, 0], ~np.int64(1 << a), np.int64(-1))
        labels &= np.where(positive[:, m, 1], ~np.int64(1 << b), np.int64(-1))
    return labels


def cell_chances(axis: CellAxis, low: int, high: int) -> Floats:
    """Compute the probability of each cell of a range, given the range, shape (cells,)."""
    before = axis.before(np.arange(low, high + 2))
    return np.asarray(np.diff(before) / (before[-1] - before[0]))


@dataclass(frozen=True)
class CloseFunctions:
    """Lower functions of a box, evaluated for the people close to a person; without tolerances, for the person alone.

    Attributes:
        constants: shape (functions,).
        terms: of each attribute what the cells of the widened box add, (functions, cells).
        chances: of each attribute those of the cells of the box.
        first: where the box begins in the widened one, (attributes,).
        widths: the tolerances, (attributes,).
    """

    constants: Floats
    terms: list[Floats]
    chances: tuple[Floats, ...]
    first: Integers
    widths: Integers

    def extreme(self, choose: np.ufunc) -> PeopleSums:
        """Compute the extreme of the functions over close people: the joint minimum, or the maximum of each."""
        moved = []
        for i, width in enumerate(self.widths.tolist()):
            found = self._shift_terms(i, 0)
            for distance in range(-width, width + 1) if width else ():
                found = choose(found, self._shift_terms(i, distance))
            moved.append(found)
        return PeopleSums(self.constants, tuple(moved), self.chances)

    def at(self, shift: tuple[int, ...]) -> PeopleSums:
        """Compute the functions for people at a distance, clipped to the domain."""
        terms = tuple(self._shift_terms(i, distance) for i, distance in enumerate(shift))
        return PeopleSums(self.constants, terms, self.chances)

    def _shift_terms(self, i: int, distance: int) -> Floats:
        cells = int(self.first[i]) + np.arange(len(self.chances[i])) + distance
        return np.asarray(self.terms[i][:, np.clip(cells, 0, self.terms[i].shape[1] - 1)])


def _winning(form: LayeredForm) -> list[list[list[int]]]:
    """List the functions that are positive where a label beats all others, by label and assignment."""
    index = np.arange(2 * len(form.bases) * len(form.pairs)).reshape(len(form.bases), len(form.pairs), 2).tolist()
    sides = [
        [(m, 0 if label == b else 1) for m, (a, b) in enumerate(form.pairs) if label in (a, b)]
        for label in range(form.labels)
    ]
    return [[[row[m][side] for m, side in mine] for row in index] for mine in sides]
