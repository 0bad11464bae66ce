"""Bound parts of boxes of a network, and count their people, in float64 with outward rounding (compiled)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from evenhand.checker.floats.bounds import bound_arrays, bound_box, bound_functions, bound_together, choose_axis
from evenhand.checker.floats.counting import LEVELS, MOST_LISTED, count_arrays, count_shares, lay_out_box, plan_events
from evenhand.checker.floats.network import box_question_of, count_functions, float_network_of
from evenhand.checker.form import form_of
from evenhand.checker.kernels import FAIR, OPEN, UNFAIR, compile_entry, decide_sets, jit
from evenhand.checker.network import RecordedQuestion
from evenhand.checker.reprove import PartBounds, Prover
from evenhand.core.kernels import is_compiled
from evenhand.core.typing import Integers

STEPS = tuple(steps for steps, _ in LEVELS)
LISTED = tuple(listed for _, listed in LEVELS)
QUICK_FUNCTIONS = 64
"""Maximum number of functions of a box for which all boxes of a certificate are checked by default."""
MANY_FUNCTIONS = 256
"""Number of functions above which only the coarsest level is used, because each function takes memory."""
MAX_ASSIGNMENTS = 64
"""Maximum number of assignments that are bounded one by one after being bounded together."""


class NetworkProver(Prover):
    """Prover of claims about boxes of a network.

    Args:
        question: Question of the certificate.
        least: Minimum number of different outcomes that counts as unfair treatment.
    """

    quick_parts: ClassVar[int] = 256

    def __init__(self, question: RecordedQuestion, least: int = 2) -> None:
        super().__init__(question)
        self._constant = question.constant
        if self._constant:
            return
        form = form_of(question)
        self._network = float_network_of(question, form)
        self._question = box_question_of(form, least)
        few = len(form.bases) <= MAX_ASSIGNMENTS
        self._separate = box_question_of(form, least, separate=True) if few else self._question
        functions = count_functions(self._network, self._question)
        self.quick, self.compiled = functions <= QUICK_FUNCTIONS, is_compiled(bound_parts)
        self.levels = 1 if functions > MANY_FUNCTIONS else len(LEVELS)

    def workspace(self) -> dict[bool, Any]:
        """Return the work arrays of one thread by whether assignments are bounded together, allocated on first use."""
        return {}

    def bound_parts(
        self, low: Integers, high: Integers, level: Integers, work: dict[bool, Any], *, quickly: bool
    ) -> PartBounds:
        """Bound parts of boxes; see ``Prover``."""
        n = len(low)
        if self._constant:
            return PartBounds(np.repeat([[1.0], [0.0]], n, axis=1), np.full(n, -1), np.zeros(n, dtype=np.int64))
        net, question = self._network, self._question if quickly else self._separate
        if quickly not in work:
            functions, (labels, wins) = count_functions(net, question), question.wins.shape
            # Events of one label under all assignments, and as many unfair ones; or events of changes of a number.
            most = max(len(question.pairs) if question.differences else 2, wins * len(net.bases), wins + 1)
            cells = 1 + int(np.where(net.line, np.minimum(net.counts, MOST_LISTED), net.counts).sum())
            precision = LEVELS[self.levels - 1]
            counts = count_arrays(len(net.line), functions, (2 * max(2, labels), most), cells, precision)
            work[quickly] = bound_arrays(net, functions), counts
        bounds = PartBounds(np.zeros((2, n)), *np.zeros((2, n), dtype=np.int64))
        bound_parts(net, question, low, high, level, bounds, work[quickly])
        return bounds


@compile_entry
def bound_parts(net, question, low, high, level, out, work):
    """Bound parts of boxes, and count the people of those that are undecided. ``work`` are the work arrays."""
    bounds, counts = work
    shares, axis, cut = out
    for p in range(len(low)):
        kind, i = _bound_part(net, question, low[p], high[p], bounds)
        axis[p] = i
        cut[p] = (low[p, i] + high[p, i]) // 2 + 1 if i >= 0 else 0
        shares[0, p] = 1.0 if kind == FAIR else 0.0
        shares[1, p] = 1.0 if kind == UNFAIR else 0.0
        if kind == OPEN and level[p] >= 0:
            steps, listed = STEPS[level[p]], LISTED[level[p]]
            lay_out_box(net, low[p], high[p], max(steps // 4, listed), bounds, counts)
            events, exclusive = plan_events(question, len(net.bases), counts)
            shares[0, p], shares[1, p] = count_shares(events, exclusive, steps, listed, counts)


@jit
def _bound_part(net, question, low, high, b):
    """Bound a part of a box; return whether bounds decide it, and the attribute to split, -1 if none."""
    single = True
    for i in range(len(low)):
        single = single and low[i] == high[i]
    b.weight[:] = 0.0
    assignments = len(net.bases)
    if question.together and not single:
        bound_box(net, 0, assignments, low, high, b)
        bound_together(net, low, high, b)
        for q in range(assignments):
            # A function's least value is its constant plus the least terms, which are equal for all assignments.
            second_label, first_label = -np.inf, -np.inf
            for flat in range(2):
                second_label = max(second_label, b.least[0, flat] - b.constant[0, flat] + b.offset[0, flat, q])
                first_label = max(first_label, b.least[1, flat] - b.constant[1, flat] + b.offset[1, flat, q])
            b.sets[q] = 3 - (1 if second_label > 0 else 0) - (2 if first_label > 0 else 0)
    else:
        for q in range(assignments):
            slot = 0 if question.together else q
            bound_box(net, q, q + 1, low, high, b)
            bound_functions(net, q, slot, low, high, b)
            if not question.differences:
                b.sets[q] = _possible_labels(question, slot, b)
    kind = (
        _decide_changes(question, b)
        if question.differences
        else decide_sets(b.sets, len(question.wins), question.least)
    )
    return kind, -1 if kind != OPEN or single else choose_axis(net, low, high, b)


@jit
def _possible_labels(question, slot, b):
    """Compute the set of labels, as bits, that the functions of a slot leave possible."""
    labels = (1 << len(question.wins)) - 1
    # Either choice of slopes gives a lower function, so the greater of the two least values decides.
    for m in range(len(question.pairs)):
        f = 2 * (slot * len(question.pairs) + m)
        if max(b.least[f, 0], b.least[f, 1]) > 0:
            labels &= ~(1 << question.pairs[m, 0])
        if max(b.least[f + 1, 0], b.least[f + 1, 1]) > 0:
            labels &= ~(1 << question.pairs[m, 1])
    return labels


@jit
def _decide_changes(question, b):
    """Decide a box by the changes of a number: all within the tolerance, or one beyond it."""
    within = True
    for m in range(len(question.pairs)):
        if max(b.least[2 * m, 0], b.least[2 * m, 1]) > 0:
            return UNFAIR
        within = within and max(b.least[2 * m + 1, 0], b.least[2 * m + 1, 1]) > 0
    return FAIR if within else OPEN
