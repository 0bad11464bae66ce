"""Proving the shares of boxes again: bounds over the box, and what they leave open by cutting it into parts."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.checker.bounds import Bounds, as_fast, bound, terms
from evenhand.checker.counting import ALL, ONE_BY_ONE, Sums
from evenhand.checker.deployed import deployed_of
from evenhand.checker.fixed import DEEPEST, FAST, SLOW, Fixed, TooFarApart, fixed_of
from evenhand.checker.question import Question
from evenhand.checker.reading import WHOLE

MOST_PARTS = 4096
"""Parts that a box is cut into before it counts as not confirmed."""
MOST_SLOW_PARTS = 512
"""The same with Python's integers."""
WORK = 2**21
"""Numbers per intermediate array."""


@dataclass(frozen=True)
class Shares:
    """Shares of a box proved fair and unfair, in ``counting.ALL`` parts."""

    fair: int
    unfair: int

    @property
    def open(self) -> int:
        """What is proved neither."""
        return ALL - self.fair - self.unfair


@dataclass(frozen=True)
class Proof:
    """What was proved of a box, as lower bounds on its shares, and whether it confirms the claim."""

    confirmed: bool
    fair: float
    unfair: float
    parts: int


class Prover:
    """Proves shares of boxes of a question."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._deployed = deployed_of(question)
        self._fast = self._fixed(FAST) if len(question.network.layers) <= DEEPEST else None

    def prove(
        self,
        low: NDArray[np.int64],
        high: NDArray[np.int64],
        fair: NDArray[np.integer],
        unfair: NDArray[np.integer],
    ) -> list[Proof]:
        """Prove claims again.

        Args:
            low, high: boxes of cells with mass, shape (n, attributes).
            fair, unfair: claimed shares in parts of ``WHOLE``.
        """
        if self._question.constant:
            return [Proof(not other, 1.0, 0.0, 1) for other in unfair]
        claims = [(int(a), int(b)) for a, b in zip(fair, unfair, strict=True)]
        if self._fast is None:
            return [self._cut(low[k], high[k], *claims[k]) for k in range(len(low))]
        found: list[Proof] = []
        step = self.batch
        for at in range(0, len(low), step):
            cut = slice(at, at + step)
            shares, _ = _shares(self._question, self._fast, low[cut], high[cut], claims[cut], together=False)
            for k, share in enumerate(shares):
                claim = claims[at + k]
                if _reaches(share.fair, claim[0]) and _reaches(share.unfair, claim[1]):
                    found.append(Proof(True, share.fair / ALL, share.unfair / ALL, 1))
                else:
                    found.append(self._cut(low[at + k], high[at + k], *claim))
        return found

    @property
    def batch(self) -> int:
        """Boxes bounded at once."""
        network = self._question.network
        widths = [len(network.bias), *(len(layer.bias) for layer in network.layers)]
        widest = max((2 * a * b for a, b in itertools.pairwise(widths)), default=widths[0])
        return max(1, WORK // (widest * len(self._question.bases)))

    def _cut(self, low: NDArray[np.int64], high: NDArray[np.int64], fair: int, unfair: int) -> Proof:
        best = Proof(False, 0.0, 0.0, 0)
        for bits, most in ((FAST, MOST_PARTS), (SLOW, MOST_SLOW_PARTS)):
            if bits == FAST and len(self._question.network.layers) > DEEPEST:
                continue
            # In units made for this box, so that no digit is lost to people far away from it.
            fixed = self._fixed(bits, low, high)
            if fixed is None:
                continue
            proof = _by_parts(self._question, fixed, low, high, (fair, unfair), most, self.batch)
            if proof.confirmed:
                return proof
            best = max(best, proof, key=lambda each: each.fair + each.unfair)
        return best

    def _fixed(
        self, bits: int, low: NDArray[np.int64] | None = None, high: NDArray[np.int64] | None = None
    ) -> Fixed | None:
        try:
            return fixed_of(self._question, self._deployed, bits, low, high)
        except TooFarApart:
            return None


def _reaches(proved: int, claimed: int) -> bool:
    """Whether a proved share is at least the claimed one, exactly."""
    return proved * WHOLE >= claimed * ALL


def _by_parts(
    question: Question,
    fixed: Fixed,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    claim: tuple[int, int],
    most: int,
    batch: int,
) -> Proof:
    """Cut a box where the most is open, until its claim is reached or there are too many parts."""
    held_low, held_high = low[None], high[None]
    whole = _mass(question, low, high)
    masses, shares, axes = [whole], [Shares(0, 0)], [_widest(low, high)]
    together = False
    while True:
        order = sorted(range(len(masses)), key=lambda k: -masses[k] * shares[k].open)
        able = (
            [k for k in order if shares[k].open > 0 and (held_low[k] < held_high[k]).any()] if len(masses) > 1 else [0]
        )
        chosen = able[: max(1, min(batch, len(able) // 2, most - len(masses)))]
        if len(masses) == 1 and not together:
            # The whole box once more, with all assignments bounded at once: their functions differ by constants.
            parts_low, parts_high, together = held_low, held_high, True
        elif chosen and len(masses) < most:
            cut = [_halves(held_low[k], held_high[k], axes[k]) for k in chosen]
            parts_low = np.stack([part for halves in cut for part in halves[0]])
            parts_high = np.stack([part for halves in cut for part in halves[1]])
        else:
            break
        both = [
            _shares(question, fixed, parts_low, parts_high, None, together=way)
            for way in ((True, False) if len(question.bases) > 1 else (False,))
        ]
        found = [
            Shares(max(each.fair for each in options), max(each.unfair for each in options))
            for options in zip(*(shares for shares, _ in both), strict=True)
        ]
        parts_axes = both[-1][1]
        gone = set(chosen) if len(parts_low) > 1 else {0}
        rest = [k for k in range(len(masses)) if k not in gone]
        held_low = np.concatenate([held_low[rest], parts_low])
        held_high = np.concatenate([held_high[rest], parts_high])
        masses = [masses[k] for k in rest] + [_mass(question, a, b) for a, b in zip(parts_low, parts_high, strict=True)]
        shares = [shares[k] for k in rest] + found
        axes = [axes[k] for k in rest] + parts_axes
        fair = sum(mass * share.fair for mass, share in zip(masses, shares, strict=True))
        unfair = sum(mass * share.unfair for mass, share in zip(masses, shares, strict=True))
        if _reaches(fair, claim[0] * whole) and _reaches(unfair, claim[1] * whole):
            return Proof(True, fair / whole / ALL, unfair / whole / ALL, len(masses))
        refuted = not (
            _reaches(ALL * whole - unfair, claim[0] * whole) and _reaches(ALL * whole - fair, claim[1] * whole)
        )
        if refuted or not (low < high).any():
            break
    return Proof(False, fair / whole / ALL, unfair / whole / ALL, len(masses))


def _halves(
    low: NDArray[np.int64], high: NDArray[np.int64], axis: int
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    middle = (low[axis] + high[axis]) // 2
    left, right = high.copy(), low.copy()
    left[axis], right[axis] = middle, middle + 1
    return (low, right), (left, high)


def _widest(low: NDArray[np.int64], high: NDArray[np.int64]) -> int:
    return int(np.argmax(high - low)) if len(low) else 0


def _mass(question: Question, low: NDArray[np.int64], high: NDArray[np.int64]) -> int:
    """Exact mass of a box."""
    return math.prod(
        int(axis.before(high[i : i + 1] + 1)[0] - axis.before(low[i : i + 1])[0])
        for i, axis in enumerate(question.axes)
    )


def _shares(
    question: Question,
    fixed: Fixed,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    claims: list[tuple[int, int]] | None,
    *,
    together: bool,
) -> tuple[list[Shares], list[int]]:
    """Proved shares of boxes, and the attribute that each had best be cut along."""
    bounds = bound(fixed, low, high, together=together)
    pairs = fixed.pairs
    whole = [_judged(_possible(bounds.least[k] > 0, pairs, fixed.classes)[..., 0]) for k in range(len(low))]
    found, again = [], []
    for k, kind in enumerate(whole):
        share = Shares(ALL * (kind == FAIR), ALL * (kind == UNFAIR))
        if kind == OPEN and (claims is None or claims[k] != (0, 0)):
            if claims is None or WHOLE not in claims[k]:
                share = _counted(question, fixed, bounds, k, low[k], high[k])
            if not (claims and _reaches(share.fair, claims[k][0]) and _reaches(share.unfair, claims[k][1])):
                again.append(k)
        found.append(share)
    if again and fixed.layers:
        flat = bound(fixed, low[again], high[again], together=together, flat=True)
        for place, k in enumerate(again):
            kind = _judged(_possible(flat.least[place] > 0, pairs, fixed.classes)[..., 0])
            if kind == OPEN:
                other = _counted(question, fixed, flat, place, low[k], high[k])
            else:
                other = Shares(ALL * (kind == FAIR), ALL * (kind == UNFAIR))
            found[k] = Shares(max(found[k].fair, other.fair), max(found[k].unfair, other.unfair))
    able = np.where(high > low, bounds.importance, -1.0)
    return found, [int(np.argmax(row)) if len(row) else 0 for row in able]


OPEN, FAIR, UNFAIR = 0, 1, 2


def _possible(positive: NDArray[np.bool_], pairs: tuple[tuple[int, int], ...], classes: int) -> NDArray[np.int64]:
    """Sets of possible labels, as bits, from which margins and negative margins are positive.

    ``positive`` has shape (groups, each, margins, 2) or with one more axis; the result (assignments, people).
    """
    flags = positive.reshape(-1, len(pairs), 2, *(positive.shape[4:] or (1,)))
    labels = np.full((len(flags), flags.shape[3]), (1 << classes) - 1, dtype=np.int64)
    for m, (a, b) in enumerate(pairs):
        labels &= np.where(flags[:, m, 0], ~np.int64(1 << a), np.int64(-1))
        labels &= np.where(flags[:, m, 1], ~np.int64(1 << b), np.int64(-1))
    return labels


def _judged(labels: NDArray[np.int64]) -> int:
    """What sets of possible labels, one per assignment, say of one person or box."""
    sets = {int(each) for each in labels}
    if any(a & b == 0 for a, b in itertools.combinations(sets, 2)):
        return UNFAIR
    only = next(iter(sets))
    return FAIR if len(sets) == 1 and only & (only - 1) == 0 else OPEN


def _counted(
    question: Question, fixed: Fixed, bounds: Bounds, k: int, low: NDArray[np.int64], high: NDArray[np.int64]
) -> Shares:
    """Shares of one box by counting where its lower functions are positive."""
    groups, each, margins, _ = bounds.constants.shape[1:]
    coefficients = bounds.coefficients[k].reshape(groups * margins * 2, -1)
    table, masses = [], []
    constants = as_fast(bounds.constants[k], fixed.bits)
    fixed_part = np.zeros(len(coefficients), dtype=np.int64)
    for i, axis in enumerate(question.axes):
        added = terms(fixed, coefficients, i, int(low[i]), int(high[i])) if high[i] - low[i] < 2**20 else None
        if added is None:
            return Shares(0, 0)
        if added.shape[1] == 1:
            fixed_part += added[:, 0]
            continue
        before = axis.before(np.arange(low[i], high[i] + 2))
        weights = np.diff(before).astype(object)
        masses.append((weights * ALL // int(before[-1] - before[0])).astype(np.int64))
        table.append(added)
    constants = constants + fixed_part.reshape(groups, 1, margins, 2)
    # One function per assignment, margin and sign; assignments of one group have the same terms.
    owner = np.broadcast_to(np.arange(groups)[:, None, None, None], constants.shape)
    kind = np.broadcast_to(np.arange(margins * 2).reshape(margins, 2), constants.shape)
    rows = (owner * margins * 2 + kind).reshape(-1)
    sums = Sums(constants.reshape(-1), tuple(term[rows] for term in table), tuple(masses))
    if sums.people * len(rows) <= 4 * ONE_BY_ONE:
        return _one_by_one(sums, fixed, constants.shape)
    return _by_events(sums, fixed, groups * each)


def _one_by_one(sums: Sums, fixed: Fixed, shape: tuple[int, ...]) -> Shares:
    positive = sums.positive().reshape(*shape, -1)
    labels = _possible(positive, fixed.pairs, fixed.classes)
    same = (labels == labels[0]).all(axis=0) & (labels[0] & (labels[0] - 1) == 0)
    apart = np.zeros(labels.shape[1], dtype=np.bool_)
    for a in range(len(labels)):
        for b in range(a):
            apart |= labels[a] & labels[b] == 0
    weights = sums.weights()
    fair, unfair = (ALL if chosen.all() else int(weights[chosen].sum()) for chosen in (same, apart))
    return Shares(fair, unfair)


def _by_events(sums: Sums, fixed: Fixed, assignments: int) -> Shares:
    """Fair: one label beats all others under every assignment. Unfair: it does under one, and is beaten under another.

    Fair events of different labels exclude each other. With two labels and two assignments so do the two unfair events,
    in which the first label is given under one assignment or under the other. Else only the largest event counts.
    """
    index = np.arange(len(sums.constants)).reshape(assignments, len(fixed.pairs), 2)
    wins = [
        [
            [int(index[p, m, 0 if label == b else 1]) for m, (a, b) in enumerate(fixed.pairs) if label in (a, b)]
            for p in range(assignments)
        ]
        for label in range(fixed.classes)
    ]
    fair = sum(sums.all_positive([f for each in label for f in each]) for label in wins)
    if fixed.classes == 2 and assignments == 2:
        unfair = sum(sums.all_positive([*wins[0][p], *wins[1][1 - p]]) for p in range(2))
        return Shares(fair, unfair)
    mean = sums.mean()
    largest = 0
    for label in range(fixed.classes):
        strongest = max(range(assignments), key=lambda p: min(mean[f] for f in wins[label][p]))
        losing = [
            int(index[p, m, 1 if label == b else 0])
            for p in range(assignments)
            for m, (a, b) in enumerate(fixed.pairs)
            if label in (a, b)
        ]
        beaten = max(losing, key=lambda f: mean[f])
        largest = max(largest, sums.all_positive([*wins[label][strongest], beaten]))
    return Shares(fair, largest)
