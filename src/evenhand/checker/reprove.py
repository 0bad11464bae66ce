"""Proving the shares of boxes again: bounds over the box, and what they leave open by cutting it into parts."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.checker.bounds import MarginBounds, bound_margins, cell_terms, to_fast_bits
from evenhand.checker.counting import ALL, HALF, ONE_BY_ONE, BoxSums
from evenhand.checker.deployed import float32_errors_of, number_error_of
from evenhand.checker.fixed import (
    FAST_BITS,
    MAX_LAYERS,
    SLOW_BITS,
    FixedPointNetwork,
    PrecisionExceeded,
    fixed_point_of,
)
from evenhand.checker.floats.network import float_network_of, share_events_of
from evenhand.checker.floats.proofs import BoxClaims, prove_boxes, prove_claims
from evenhand.checker.form import LayeredForm, form_of
from evenhand.checker.network import CellAxis, RecordedQuestion
from evenhand.checker.reading import WHOLE
from evenhand.kernels import is_compiled

QUICK_PARTS = (64, 256)
"""Parts that a box is cut into in float64, at first and at most, before whole numbers are tried."""
UPWARD = 1 + 2.0**-50
"""Makes a claimed share no smaller by being written as a float."""
MAX_PARTS = 4096
"""Parts that a box is cut into before it counts as not confirmed."""
MAX_SLOW_PARTS = 512
"""The same with Python's integers."""
LARGE_HALF = 2**15
"""Precision of a last attempt to count in the box as a whole."""
SMALL_HALF = 2**11
"""Precision of counting in parts: there are many of them, and bounds are what their shares suffer from."""
MAX_WIDTH = 2**20
"""Cells of an attribute that are counted one by one."""
WORK_CELLS = 2**21
"""Numbers per intermediate array."""


@dataclass(frozen=True)
class ProvedShares:
    """Shares of a box proved fair and unfair, in ``counting.ALL`` parts."""

    fair: int
    unfair: int

    @property
    def open(self) -> int:
        """What is proved neither."""
        return ALL - self.fair - self.unfair


@dataclass(frozen=True)
class BoxProof:
    """What was proved of a box, as lower bounds on its shares.

    Attributes:
        confirmed: whether it confirms the claim.
        refuted: whether it contradicts the claim.
        fair, unfair: shares proved.
        parts: into how many parts the box was cut.
    """

    confirmed: bool
    fair: float
    unfair: float
    parts: int
    refuted: bool = False


class BoxProver:
    """Proves shares of boxes of a question.

    Args:
        question: what the certificate is about.
        least: how many different outcomes a person must be able to get to count as treated unfairly.
    """

    def __init__(self, question: RecordedQuestion, least: int = 2) -> None:
        self._question = question
        self._form = form_of(question)
        self._least = least
        self._deployed = (
            2 * number_error_of(question) if self._form.differences else float32_errors_of(question, self._form)
        )
        self._network = self._events = None
        if not self._form.differences and least == 2:
            self._network, self._events = float_network_of(question, self._form), share_events_of(self._form)
        self._fast = self._prepare_fixed(FAST_BITS) if len(self._form.layers) <= MAX_LAYERS else None

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
        claims = [(int(a), int(b)) for a, b in zip(fair, unfair, strict=True)]
        if self._question.constant:
            return [BoxProof(not other, 1.0, 0.0, 1) for _, other in claims]
        low, high = low.astype(np.int64), high.astype(np.int64)
        decided = np.zeros(len(low), dtype=np.int64)
        wholes = np.flatnonzero((fair == WHOLE) | (unfair == WHOLE))
        if self._fast is not None:
            for at in range(0, len(wholes), self.batch):
                chosen = wholes[at : at + self.batch]
                decided[chosen] = decide_boxes(
                    bound_margins(self._fast, low[chosen], high[chosen], together=False), self._form, self._least
                )
        found: list[BoxProof] = []
        for k, claim in enumerate(claims):
            if claim == (0, 0):
                found.append(BoxProof(True, 0.0, 0.0, 0))
            elif claim == (WHOLE, 0) and decided[k] == FAIR:
                found.append(BoxProof(True, 1.0, 0.0, 1))
            elif claim == (0, WHOLE) and decided[k] == UNFAIR:
                found.append(BoxProof(True, 0.0, 1.0, 1))
            else:
                found.append(self._cut(low[k], high[k], claim))
        return found

    whole_numbers = False

    @property
    def quick(self) -> bool:
        """Whether float64 serves for this question."""
        return self._network is not None and self._events is not None

    @property
    def compiled(self) -> bool:
        """Whether its kernels have been compiled."""
        return is_compiled(prove_boxes)

    def prove_quickly(
        self,
        low: NDArray[np.integer],
        high: NDArray[np.integer],
        fair: NDArray[np.integer],
        unfair: NDArray[np.integer],
    ) -> list[BoxProof]:
        """Prove claims again in float64, rounded to the safe side; arguments as for ``prove``."""
        if self._question.constant or self._network is None or self._events is None:
            return self.prove(low, high, fair, unfair)
        n = len(low)
        claims = BoxClaims(*(np.minimum(1.0, shares / WHOLE * UPWARD) for shares in (fair, unfair)), *np.zeros((3, n)))
        claims.fair[fair == WHOLE] = 1.0
        some = (fair > 0) | (unfair > 0)
        confirmed, refuted = ~some, np.zeros(n, dtype=np.bool_)
        for most in QUICK_PARTS:
            again = np.flatnonzero(some & ~confirmed & ~refuted)
            taken = BoxClaims(*(np.ascontiguousarray(column[again]) for column in claims))
            box = low[again].astype(np.int64), high[again].astype(np.int64)
            prove_claims(self._network, self._events, *box, taken, most)
            for column, done in zip(claims, taken, strict=True):
                column[again] = done
            confirmed = (claims.proved_fair >= claims.fair) & (claims.proved_unfair >= claims.unfair)
            refuted = (claims.proved_fair > 1 - claims.unfair + 1e-9) | (claims.proved_unfair > 1 - claims.fair + 1e-9)
        rows = (
            confirmed,
            claims.proved_fair,
            claims.proved_unfair,
            claims.parts.astype(np.int64),
            refuted & ~confirmed,
        )
        return [BoxProof(*row) for row in zip(*(column.tolist() for column in rows), strict=True)]

    @property
    def batch(self) -> int:
        """Boxes bounded at once."""
        return batch_of(self._form)

    def _cut(self, low: NDArray[np.int64], high: NDArray[np.int64], claim: tuple[int, int]) -> BoxProof:
        best = BoxProof(False, 0.0, 0.0, 0)
        for bits, most in ((FAST_BITS, MAX_PARTS), (SLOW_BITS, MAX_SLOW_PARTS)):
            if bits == FAST_BITS and len(self._form.layers) > MAX_LAYERS:
                continue
            # In units made for this box, so that no digit is lost to people far away from it.
            fixed = self._prepare_fixed(bits, low, high)
            if fixed is None:
                continue
            proof = PartitionedBox(fixed, partial(_prove_shares, fixed, self._least), low, high, claim).proof(
                most, self.batch
            )
            if proof.confirmed:
                return proof
            best = max(best, proof, key=lambda each: each.fair + each.unfair)
        return best

    def _prepare_fixed(
        self, bits: int, low: NDArray[np.int64] | None = None, high: NDArray[np.int64] | None = None
    ) -> FixedPointNetwork | None:
        try:
            return fixed_point_of(self._form, self._deployed, bits, low, high)
        except PrecisionExceeded:
            return None


def _confirms_claim(proved: int, claimed: int) -> bool:
    """Return whether a proved share is at least the claimed one, exactly."""
    return proved * WHOLE >= claimed * ALL


def batch_of(form: LayeredForm) -> int:
    """Return how many boxes are bounded at once."""
    widths = [len(form.units), *(len(layer.bias) for layer in form.layers)]
    widest = max((2 * a * b for a, b in itertools.pairwise(widths)), default=widths[0])
    return max(1, WORK_CELLS // (widest * len(form.bases)))


class SharesProver(Protocol):
    """Proves shares of boxes, and says which attribute each had best be cut along."""

    def __call__(
        self, low: NDArray[np.int64], high: NDArray[np.int64], *, together: bool, half: int = ...
    ) -> tuple[list[ProvedShares], list[int]]:
        """With ``together`` all assignments are bounded at once; ``half`` is the precision of counting."""


class PartitionedBox:
    """A box, cut where the most is open until its claim is reached."""

    def __init__(
        self,
        fixed: FixedPointNetwork,
        prove_shares: SharesProver,
        low: NDArray[np.int64],
        high: NDArray[np.int64],
        claim: tuple[int, int],
    ) -> None:
        self._fixed = fixed
        self._prove_shares = prove_shares
        self._claim = claim
        self._whole = _box_mass(fixed.form.axes, low, high)
        self._low, self._high = low[None], high[None]
        self._masses = [self._whole]
        self._shares = [ProvedShares(0, 0)]
        self._axes = [0]

    def proof(self, most: int, batch: int) -> BoxProof:
        """Go on until the claim is reached or refuted, or there are so many parts."""
        ways = (False, True) if len(self._fixed.form.bases) > 1 else (False,)
        for together, half in [*((way, HALF) for way in ways), (False, LARGE_HALF)]:
            shares, axes = self._prove_shares(self._low, self._high, together=together, half=half)
            self._shares = [_best_of(self._shares[0], shares[0])]
            self._axes = axes if not together else self._axes
            if self._check_stop():
                break
        # With two assignments it pays less to bound them together too, the smaller the parts are.
        ways = ways if len(self._fixed.form.bases) > 2 else ways[:1]
        while not self._check_stop() and not self._is_refuted() and len(self._masses) < most:
            order = sorted(range(len(self._masses)), key=lambda k: -self._masses[k] * self._shares[k].open)
            able = [k for k in order if self._shares[k].open > 0 and (self._low[k] < self._high[k]).any()]
            if not able:
                break
            self._split(able[: max(1, min(batch, len(able) // 2))], ways)
        fair, unfair = self._proved_shares()
        return BoxProof(self._check_stop(), fair / self._whole / ALL, unfair / self._whole / ALL, len(self._masses))

    def _split(self, chosen: list[int], ways: tuple[bool, ...]) -> None:
        cut = [_split_box(self._low[k], self._high[k], self._axes[k]) for k in chosen]
        low = np.stack([part for halves in cut for part in halves[0]])
        high = np.stack([part for halves in cut for part in halves[1]])
        found, axes = self._prove_shares(low, high, together=ways[0], half=SMALL_HALF)
        for together in ways[1:]:
            others, _ = self._prove_shares(low, high, together=together, half=SMALL_HALF)
            found = [_best_of(a, b) for a, b in zip(found, others, strict=True)]
        rest = [k for k in range(len(self._masses)) if k not in set(chosen)]
        self._low = np.concatenate([self._low[rest], low])
        self._high = np.concatenate([self._high[rest], high])
        self._masses = [self._masses[k] for k in rest] + [
            _box_mass(self._fixed.form.axes, a, b) for a, b in zip(low, high, strict=True)
        ]
        self._shares = [self._shares[k] for k in rest] + found
        self._axes = [self._axes[k] for k in rest] + axes

    def _proved_shares(self) -> tuple[int, int]:
        pairs = list(zip(self._masses, self._shares, strict=True))
        return sum(mass * share.fair for mass, share in pairs), sum(mass * share.unfair for mass, share in pairs)

    def _check_stop(self) -> bool:
        fair, unfair = self._proved_shares()
        return _confirms_claim(fair, self._claim[0] * self._whole) and _confirms_claim(
            unfair, self._claim[1] * self._whole
        )

    def _is_refuted(self) -> bool:
        """Return whether so much is proved of one kind that the claim of the other cannot be true."""
        fair, unfair = self._proved_shares()
        room = ALL * self._whole
        return not (
            _confirms_claim(room - unfair, self._claim[0] * self._whole)
            and _confirms_claim(room - fair, self._claim[1] * self._whole)
        )


def _best_of(one: ProvedShares, other: ProvedShares) -> ProvedShares:
    """Return the larger shares of each kind: both are proved, so the larger one is."""
    return ProvedShares(max(one.fair, other.fair), max(one.unfair, other.unfair))


def _split_box(
    low: NDArray[np.int64], high: NDArray[np.int64], axis: int
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    middle = (low[axis] + high[axis]) // 2
    left, right = high.copy(), low.copy()
    left[axis], right[axis] = middle, middle + 1
    return (low, right), (left, high)


def _box_mass(axes: tuple[CellAxis, ...], low: NDArray[np.int64], high: NDArray[np.int64]) -> int:
    """Return exact mass of a box."""
    return math.prod(
        int(axis.before(high[i : i + 1] + 1)[0] - axis.before(low[i : i + 1])[0]) for i, axis in enumerate(axes)
    )


def _prove_shares(
    fixed: FixedPointNetwork,
    least: int,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    *,
    together: bool,
    half: int = HALF,
) -> tuple[list[ProvedShares], list[int]]:
    """Return proved shares of boxes, and the attribute that each had best be cut along."""
    bounds = bound_margins(fixed, low, high, together=together)
    kinds = decide_boxes(bounds, fixed.form, least)
    again = np.flatnonzero(kinds == OPEN)
    both = [bounds.of(again)]
    if len(again) and fixed.layers:
        both.append(bound_margins(fixed, low[again], high[again], together=together, flat=True))
        kinds[again] = decide_boxes(both[1], fixed.form, least)
    found = [ProvedShares(ALL * int(kind == FAIR), ALL * int(kind == UNFAIR)) for kind in kinds]
    for place, k in enumerate(again):
        if kinds[k] == OPEN:
            found[k] = _count_shares(fixed, least, both, place, low[k], high[k], half)
    able = np.where(high > low, bounds.importance, -1.0)
    return found, [int(np.argmax(row)) if len(row) else 0 for row in able]


def decide_boxes(bounds: MarginBounds, form: LayeredForm, least: int) -> NDArray[np.int64]:
    """Return what bounds say of each box as a whole."""
    kinds = []
    for positive in bounds.least > 0:
        fair, unfair = decide_people(positive[..., None], form, least)
        kinds.append(FAIR if fair[0] else UNFAIR if unfair[0] else OPEN)
    return np.array(kinds, dtype=np.int64)


def decide_people(
    positive: NDArray[np.bool_], form: LayeredForm, least: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return who is surely treated fairly, and who unfairly, from which lower functions are positive.

    Args:
        positive: margins and negative margins, shape (groups, each, margins, 2, people).
        form: says what margins mean.
        least: how many different outcomes a person must be able to get to count as treated unfairly.
    """
    if form.differences:
        return np.asarray(positive[0, 0, :, 1].all(axis=0)), np.asarray(positive[0, 0, :, 0].any(axis=0))
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


def _count_bits(sets: NDArray[np.int64], labels: int) -> NDArray[np.int64]:
    return np.asarray(sum((sets >> k) & 1 for k in range(labels)))


OPEN, FAIR, UNFAIR = 0, 1, 2


def possible_labels(positive: NDArray[np.bool_], pairs: tuple[tuple[int, int], ...], classes: int) -> NDArray[np.int64]:
    """Return sets of possible labels, as bits, from which margins and negative margins are positive.

    ``positive`` has shape (groups, each, margins, 2) or with one more axis; the result (assignments, people).
    """
    flags = positive.reshape(-1, len(pairs), 2, *(positive.shape[4:] or (1,)))
    labels = np.full((len(flags), flags.shape[3]), (1 << classes) - 1, dtype=np.int64)
    for m, (a, b) in enumerate(pairs):
        labels &= np.where(flags[:, m, 0], ~np.int64(1 << a), np.int64(-1))
        labels &= np.where(flags[:, m, 1], ~np.int64(1 << b), np.int64(-1))
    return labels


def _count_shares(
    fixed: FixedPointNetwork,
    least: int,
    both: list[MarginBounds],
    k: int,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    half: int,
) -> ProvedShares:
    """Shares of one box by counting where its lower functions are positive; of several, those that are higher."""
    if (high - low).max(initial=0) > MAX_WIDTH:
        return ProvedShares(0, 0)
    groups, each, margins, _ = both[0].constants.shape[1:]
    constants, terms = lower_functions(fixed, both, k, low, high)
    wide = [i for i in range(len(low)) if high[i] > low[i]]
    constants = constants + sum(
        (term[:, 0] for i, term in enumerate(terms) if i not in wide), np.zeros(len(constants), dtype=np.int64)
    )
    masses = tuple(cell_masses(fixed.form.axes[i], int(low[i]), int(high[i])) for i in wide)
    sums = BoxSums(constants, tuple(terms[i] for i in wide), masses, half)
    if sums.people * len(constants) <= 4 * ONE_BY_ONE:
        positive = sums.positive().reshape(groups, each, margins, 2, -1)
        weights = sums.weights()
        chosen = decide_people(positive, fixed.form, least)
        return ProvedShares(*(ALL if each.all() else int(weights[each].sum()) for each in chosen))
    if fixed.form.differences:
        return _count_changes(sums, margins)
    return count_by_events(sums, fixed.form, groups * each, least)


def cell_masses(axis: CellAxis, low: int, high: int) -> NDArray[np.int64]:
    """Return the masses of a range of cells out of ``ALL``, rounded down, shape (cells,)."""
    before = axis.before(np.arange(low, high + 2))
    weights = np.diff(before).astype(object)
    return np.asarray(weights * ALL // max(1, int(before[-1] - before[0]))).astype(np.int64)


def lower_functions(
    fixed: FixedPointNetwork, both: list[MarginBounds], k: int, low: NDArray[np.int64], high: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Return the lower functions of one box, of several choices of lines those that are higher on average.

    Returns:
        Constants of every assignment, margin and sign, (functions,), and for each attribute what its cells add,
        (functions, cells).
    """
    groups, each, margins, _ = both[0].constants.shape[1:]
    many = groups * margins * 2
    options = []
    for bounds in both:
        coefficients = bounds.coefficients[k].reshape(many, -1)
        table = [cell_terms(fixed, coefficients, i, int(low[i]), int(high[i])) for i in range(len(low))]
        # One function per group, margin and sign; the assignments of a group differ in constants only.
        constants = to_fast_bits(bounds.constants[k], fixed.bits).reshape(groups, each, margins * 2)
        options.append((constants, table))
    constants, table = options[0]
    for others, other_table in options[1:]:
        gain = (others - constants)[:, 0].reshape(-1) + sum(
            (b.mean(axis=1) - a.mean(axis=1) for a, b in zip(table, other_table, strict=True)), np.zeros(many)
        )
        higher = gain > 0
        table = [np.where(higher[:, None], b, a) for a, b in zip(table, other_table, strict=True)]
        constants = np.where(higher.reshape(groups, 1, -1), others, constants)
    rows = np.broadcast_to(np.arange(many).reshape(groups, 1, -1), constants.shape).reshape(-1)
    return constants.reshape(-1), [term[rows] for term in table]


def _count_changes(sums: BoxSums, margins: int) -> ProvedShares:
    """Fair: no number is beyond the tolerance. Unfair: the likeliest is, or its opposite, which excludes it."""
    mean = sums.mean()
    likely = max(range(margins), key=lambda m: mean[2 * m])
    both = {likely, likely ^ 1} if margins > 1 else {likely}
    fair = sums.all_positive([2 * m + 1 for m in range(margins)])
    return ProvedShares(fair, sum(sums.all_positive([2 * m]) for m in both))


def count_by_events(sums: BoxSums, form: LayeredForm, assignments: int, least: int) -> ProvedShares:
    """Fair: one label beats all others under every assignment. Unfair: it does under one, and is beaten under another.

    Fair events of different labels exclude each other. With two labels and two assignments so do the two unfair events,
    in which the first label is given under one assignment or under the other. Else only the largest event counts. Of
    more outcomes than two the event is looked at that each assignment gets its likeliest label.
    """
    index = np.arange(len(sums.constants)).reshape(assignments, len(form.pairs), 2)
    wins = [
        [
            [int(index[p, m, 0 if label == b else 1]) for m, (a, b) in enumerate(form.pairs) if label in (a, b)]
            for p in range(assignments)
        ]
        for label in range(form.labels)
    ]
    fair = sum(sums.all_positive([f for each in label for f in each]) for label in wins)
    if least > 2:
        mean = sums.mean()
        likely = [max(range(form.labels), key=lambda k: min(mean[f] for f in wins[k][p])) for p in range(assignments)]
        if len(set(likely)) == 1:
            return ProvedShares(fair, 0)
        share = sums.all_positive([f for p, label in enumerate(likely) for f in wins[label][p]])
        return ProvedShares(fair, share) if len(set(likely)) >= least else ProvedShares(fair + share, 0)
    if form.labels == 2 and assignments == 2:
        unfair = sum(sums.all_positive([*wins[0][p], *wins[1][1 - p]]) for p in range(2))
        return ProvedShares(fair, unfair)
    mean = sums.mean()
    largest = 0
    for label in range(form.labels):
        strongest = max(range(assignments), key=lambda p: min(mean[f] for f in wins[label][p]))
        losing = [
            int(index[p, m, 1 if label == b else 0])
            for p in range(assignments)
            for m, (a, b) in enumerate(form.pairs)
            if label in (a, b)
        ]
        beaten = max(losing, key=lambda f: mean[f])
        largest = max(largest, sums.all_positive([*wins[label][strongest], beaten]))
    return ProvedShares(fair, largest)
