"""Bound boxes, then split them or prove their shares (compiled): what ``linear`` drives."""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from evenhand.certify.lanes import (
    LANES,
    add,
    divide,
    full,
    larger,
    load,
    multiply,
    multiply_add,
    root,
    smaller,
    store,
)
from evenhand.certify.relaxation import (
    Network,
    Scratch,
    backward,
    first_layer,
    inner_bounds,
    note_states,
    read_states,
    scratch,
    split_scores,
)
from evenhand.certify.shares import Axes, Desk, Events, desk, prove

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SPLITS = 4
"""A box is split this often at once: its up to sixteen grandchildren fill the lanes."""
OPEN, FAIR, UNFAIR = 0, 1, 2
"""What is known of a box as a whole."""

jit = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)


class Roles(NamedTuple):
    """What the functions say. Function ``beats[a, b] * P + p``: label a beats label b under assignment p.

    Attributes:
        assignments: P.
        labels: how many there are.
        beats: shape (labels, labels).
        biases: of the first units; one row if the assignments are bounded together, else P.
        joint: whether they are; then the assignment is the attribute of the network after the unprotected ones.
        relaxed: which unprotected attribute each of the last attributes of the network moves within its tolerance.
        tolerance: by how much, in positions.
        last: largest position of each of those unprotected attributes.
    """

    assignments: int
    labels: int
    beats: Ints
    biases: Floats
    joint: bool
    relaxed: Ints
    tolerance: Floats
    last: Floats


class Bench(NamedTuple):
    """Work arrays of one thread.

    Lanes come last in ``lo``, ``hi`` (held attributes), ``mean``, ``variance`` (attributes), ``mass``, ``score``, ``g``
    (forms, 2 slopes, columns), ``constant``, ``least``, ``gain``, ``zscore``, ``bolder`` (functions * 2 slopes), ``work`` (5).
    A form is the part of a function that all assignments share if they are bounded together.
    """

    lo: Floats
    hi: Floats
    held_low: Ints
    held_high: Ints
    low: Ints
    high: Ints
    mean: Floats
    variance: Floats
    mass: Floats
    score: Floats
    left: Floats
    width: Ints
    g: Floats
    constant: Floats
    least: Floats
    gain: Floats
    zscore: Floats
    bolder: Floats
    work: Floats
    chosen: Floats
    chosen_constant: Floats
    chosen_gain: Floats
    chosen_zscore: Floats
    chosen_bolder: Floats
    wins: Floats
    sure: NDArray[np.bool_]
    unit: Floats
    following: Floats
    offset: Floats
    known: NDArray[np.int8]
    state: NDArray[np.uint8]


def bench(net: Network, roles: Roles, axes: Axes) -> tuple[Bench, Scratch, Events, Desk]:
    """Fresh work arrays for a problem."""
    attributes, held, columns, widest = len(axes.first), len(net.start), len(net.columns), net.weights.shape[1]
    labels, outputs = len(roles.beats), int(net.sizes[-1])
    functions, members = 2 * outputs * roles.assignments, max(2, (labels - 1) * roles.assignments)
    kinds = [np.zeros((2 * functions, LANES)) for _ in range(5)]
    tables = Bench(
        lo=np.zeros((held, LANES)),
        hi=np.zeros((held, LANES)),
        held_low=np.zeros(held, np.int64),
        held_high=np.zeros(held, np.int64),
        low=np.zeros(attributes, np.int64),
        high=np.zeros(attributes, np.int64),
        mean=np.zeros((attributes, LANES)),
        variance=np.zeros((attributes, LANES)),
        mass=np.zeros(LANES),
        score=np.zeros((held, LANES)),
        left=np.zeros(attributes),
        width=np.zeros(attributes, np.int64),
        g=np.zeros((2 * outputs * len(roles.biases), 2, columns, LANES)),
        constant=kinds[0],
        least=kinds[1],
        gain=kinds[2],
        zscore=kinds[3],
        bolder=kinds[4],
        work=np.zeros((5, LANES)),
        chosen=np.zeros((functions, columns)),
        chosen_constant=np.zeros(functions),
        chosen_gain=np.zeros(functions),
        chosen_zscore=np.zeros(functions),
        chosen_bolder=np.zeros(functions),
        wins=np.zeros((labels, roles.assignments)),
        sure=np.zeros((labels, roles.assignments), np.bool_),
        unit=np.zeros(widest),
        following=np.zeros(widest),
        offset=np.zeros(max(1, len(roles.relaxed))),
        known=np.zeros((len(roles.biases), len(net.sizes) - 1, widest), np.int8),
        state=np.zeros((LANES, state_bytes(net, roles)), np.uint8),
    )
    events = Events(
        count=np.zeros(1, np.int64),
        size=np.zeros(labels + 2, np.int64),
        member=np.zeros((labels + 2, members), np.int64),
        unfair=np.zeros(labels + 2, np.bool_),
    )
    cells = len(axes.weight) - attributes
    return tables, scratch(net), events, desk(functions, attributes, cells, labels + 2, members)


def state_bytes(net: Network, roles: Roles) -> int:
    """Room that two bits take for every unit after the first layer."""
    return (len(roles.biases) * int(net.sizes[1:-1].sum()) + 3) // 4


@jit
def normal(x):
    """Standard normal distribution function."""
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@jit
def measure(count, axes, b):
    """Mass of each lane's box, and mean and variance of the position in each of its attributes."""
    for t in range(LANES):
        b.mass[t] = 1.0
    for i in range(axes.first.shape[0]):
        first = axes.first[i]
        for t in range(count):
            low = first + int(b.lo[i, t])
            high = first + int(b.hi[i, t]) + 1
            weight = axes.weight[high] - axes.weight[low]
            if weight <= 0:
                b.mass[t] = 0.0
                continue
            mean = (axes.moment[high] - axes.moment[low]) / weight
            b.mass[t] *= weight / axes.total[i]
            b.mean[i, t] = mean + 0.5 * axes.reach[i]
            spread = (axes.square[high] - axes.square[low]) / weight - mean * mean
            b.variance[i, t] = max(0.0, spread) + axes.reach[i] ** 2 / 12


@jit
def hold(net, roles, attributes, b):
    """Ranges of the attributes that are held besides the unprotected ones, and hulls of all over the lanes."""
    if roles.joint:
        for t in range(LANES):
            b.lo[attributes, t] = 0.0
            b.hi[attributes, t] = roles.assignments - 1
    for r in range(roles.relaxed.shape[0]):
        i = roles.relaxed[r]
        k = attributes + 1 + r
        for t in range(LANES):
            b.lo[k, t] = max(-roles.tolerance[r], -b.hi[i, t] - net.reach[i])
            b.hi[k, t] = min(roles.tolerance[r], roles.last[r] - b.lo[i, t])
    for i in range(attributes + (1 if roles.joint else 0)):
        low = b.lo[i, 0]
        high = b.hi[i, 0]
        for t in range(1, LANES):
            low = min(low, b.lo[i, t])
            high = max(high, b.hi[i, t])
        b.held_low[i] = int(low)
        b.held_high[i] = int(high)


@jit
def functions(net, roles, axes, count, scoring, b, s):
    """The want-positive functions of every lane, for two choices of slopes: least values, means and spreads."""
    depth = net.sizes.shape[0] - 1
    outputs = net.sizes[depth]
    passes = 1 if roles.joint else roles.assignments
    first_layer(net, b.lo, b.hi, s)
    for p in range(passes):
        inner_bounds(net, roles.biases[p], b.lo, b.hi, b.held_low, b.held_high, b.known[p], s)
        if scoring:
            for t in range(count):
                note_states(net, p, passes, t, s, b.state[t])
        for side in range(2):
            for mode in range(2):
                for o in range(outputs):
                    slopes = s.adaptive if mode == 0 else s.flat
                    backward(depth, o, side == 1, slopes, net, roles.biases[p], b.held_low, b.held_high, s)
                    form(net, roles, axes, count, side, mode, o, p, b, s)
        if scoring:
            split_scores(net, b.lo, b.hi, s, b.score)


@jit
def form(net, roles, axes, count, side, mode, o, p, b, s):
    """Keep what ``backward`` found: the function of output o under assignment p, or under all of them."""
    attributes = axes.first.shape[0]
    depth = net.sizes.shape[0] - 1
    at = side * net.sizes[depth] + o
    f = at * roles.assignments + p
    g = b.g[at * roles.biases.shape[0] + p, mode]
    sign = 1.0 - 2.0 * side
    zero = full(0.0)
    base = add(multiply(full(sign), load(s.const, 0)), full(-1.001 * s.error[depth, o] - net.last_pads[o]))
    low = zero
    mean = zero
    spread = full(1e-24)
    tables = False
    for i in range(attributes):
        a = net.start[i]
        tables = tables or not net.line[i]
        if net.line[i]:
            x = multiply(full(sign), load(s.coef, a))
            store(g, a, x)
            above = add(load(b.hi, i), full(net.reach[i]))
            low = multiply_add(larger(x, zero), load(b.lo, i), low)
            low = multiply_add(smaller(x, zero), above, low)
            mean = multiply_add(x, load(b.mean, i), mean)
            spread = multiply_add(multiply(x, x), load(b.variance, i), spread)
        else:
            for c in range(a + b.held_low[i], a + b.held_high[i] + 1):
                store(g, c, multiply(full(sign), load(s.coef, c)))
    gain = zero
    if tables or roles.relaxed.shape[0] > 0:
        for x, row in ((base, 0), (low, 1), (mean, 2), (spread, 3), (zero, 4)):
            store(b.work, row, x)
        for i in range(attributes):
            if not net.line[i]:
                of_table(net.start[i], i, count, g, axes, b)
        tolerate(net, roles, attributes, sign, count, b, s)
        base, low, mean, spread, gain = (
            load(b.work, 0), load(b.work, 1), load(b.work, 2), load(b.work, 3), load(b.work, 4)
        )  # fmt: skip
    deviation = divide(full(1.0), root(spread))
    for q in range(roles.assignments if roles.joint else 1):
        x = base
        if roles.joint:
            x = add(x, multiply(full(sign), load(s.coef, net.start[attributes] + q)))
        row = 2 * (f + q) + mode
        store(b.constant, row, x)
        store(b.gain, row, gain)
        store(b.least, row, add(x, low))
        x = add(x, mean)
        store(b.zscore, row, multiply(x, deviation))
        store(b.bolder, row, multiply(add(x, gain), deviation))


@jit
def tolerate(net, roles, attributes, sign, count, b, s):
    """What the attributes within tolerance take off at worst, and what they may add to that at best."""
    for r in range(roles.relaxed.shape[0]):
        i = roles.relaxed[r]
        k = attributes + 1 + r
        for t in range(count):
            x = sign * s.coef[net.start[k], t]
            fixed = x * (b.lo[k, t] if x > 0 else b.hi[k, t])
            if x > 0:
                best = x * min(roles.tolerance[r], roles.last[r] - b.hi[i, t] - net.reach[i])
            else:
                best = x * max(-roles.tolerance[r], -b.lo[i, t])
            b.work[0, t] += fixed
            b.work[4, t] += best - fixed


@jit
def of_table(a, i, count, g, axes, b):
    """Least value, mean and variance of the terms of attribute i, whose cells have a column each, added to ``work``."""
    for t in range(count):
        low = int(b.lo[i, t])
        high = int(b.hi[i, t])
        x = g[a + low, t]
        if low == high:
            b.work[1, t] += x
            b.work[2, t] += x
            continue
        weight = 0.0
        first = 0.0
        second = 0.0
        for v in range(low, high + 1):
            w = axes.weight[axes.first[i] + v + 1] - axes.weight[axes.first[i] + v]
            y = g[a + v, t]
            x = min(x, y)
            weight += w
            first += w * y
            second += w * y * y
        b.work[1, t] += x
        if weight > 0:
            first /= weight
            b.work[2, t] += first
            b.work[3, t] += max(0.0, second / weight - first * first)


@jit
def ask(net, roles, t, b, s):
    """Run the network on a box of one person, under every assignment, instead of bounding them together."""
    attributes = b.low.shape[0]
    depth = net.sizes.shape[0] - 1
    outputs = net.sizes[depth]
    for p in range(roles.assignments):
        first = True
        for r in range(roles.relaxed.shape[0]):
            b.offset[r] = b.lo[attributes + 1 + r, t]
        while True:
            for h in range(net.sizes[0]):
                x = roles.biases[0, h] + net.columns[net.start[attributes] + p, h]
                for i in range(attributes):
                    if net.line[i]:
                        x += net.columns[net.start[i], h] * b.lo[i, t]
                    else:
                        x += net.columns[net.start[i] + int(b.lo[i, t]), h]
                for r in range(roles.relaxed.shape[0]):
                    x += net.columns[net.start[attributes + 1 + r], h] * b.offset[r]
                b.unit[h] = max(x, 0.0)
            for k in range(depth):
                for j in range(net.sizes[k + 1]):
                    b.following[j] = net.offsets[k, j]
                for h in range(net.sizes[k]):
                    if b.unit[h] > 0:
                        for j in range(net.sizes[k + 1]):
                            b.following[j] += b.unit[h] * net.weights[k, h, j]
                for j in range(net.sizes[k + 1]):
                    b.unit[j] = max(b.following[j], 0.0)
            for o in range(outputs):
                slack = 1.001 * s.error[depth, o] + net.last_pads[o]
                for side in range(2):
                    f = (side * outputs + o) * roles.assignments + p
                    x = (1.0 - 2.0 * side) * b.following[o] - slack
                    if first:
                        b.least[2 * f, t] = x
                        b.gain[2 * f, t] = 0.0
                    else:
                        most = max(b.least[2 * f, t] + b.gain[2 * f, t], x)
                        b.least[2 * f, t] = min(b.least[2 * f, t], x)
                        b.gain[2 * f, t] = most - b.least[2 * f, t]
                    b.least[2 * f + 1, t] = b.least[2 * f, t]
                    b.gain[2 * f + 1, t] = b.gain[2 * f, t]
            first = False
            r = 0
            while r < roles.relaxed.shape[0]:
                b.offset[r] += 1.0
                if b.offset[r] <= b.hi[attributes + 1 + r, t]:
                    break
                b.offset[r] = b.lo[attributes + 1 + r, t]
                r += 1
            if r == roles.relaxed.shape[0]:
                break


@jit
def verdict(roles, t, b):
    """Whether a lane's box is decided as a whole."""
    labels, assignments = roles.labels, roles.assignments
    for c in range(labels):
        everywhere = True
        for p in range(assignments):
            sure = True
            for d in range(labels):
                if d != c:
                    f = roles.beats[c, d] * assignments + p
                    sure = sure and max(b.least[2 * f, t], b.least[2 * f + 1, t]) > 0
            b.sure[c, p] = sure
            everywhere = everywhere and sure
        if everywhere:
            return FAIR
    for c in range(labels):
        somewhere = False
        for p in range(assignments):
            sure = True
            for d in range(labels):
                if d != c:
                    sure = sure and boldly(roles.beats[c, d] * assignments + p, t, b)
            somewhere = somewhere or sure
        if somewhere:
            for d in range(labels):
                for p in range(assignments):
                    if d != c and boldly(roles.beats[d, c] * assignments + p, t, b):
                        return UNFAIR
    return OPEN


@jit
def boldly(f, t, b):
    """Whether function f is positive on all of a lane's box for some choice within the tolerances."""
    return max(b.least[2 * f, t] + b.gain[2 * f, t], b.least[2 * f + 1, t] + b.gain[2 * f + 1, t]) > 0


@jit
def pick(net, roles, attributes, t, b):
    """The better of the two slopes for every function, by mean over standard deviation."""
    passes = roles.biases.shape[0]
    for f in range(b.chosen.shape[0]):
        mode = 0 if b.zscore[2 * f, t] >= b.zscore[2 * f + 1, t] else 1
        b.chosen_constant[f] = b.constant[2 * f + mode, t]
        b.chosen_gain[f] = b.gain[2 * f + mode, t]
        b.chosen_zscore[f] = b.zscore[2 * f + mode, t]
        b.chosen_bolder[f] = b.bolder[2 * f + mode, t]
        g = b.g[(f // roles.assignments) * passes + (0 if roles.joint else f % roles.assignments), mode]
        for i in range(attributes):
            a = net.start[i]
            if net.line[i]:
                b.chosen[f, a] = g[a, t]
            else:
                for c in range(a + b.low[i], a + b.high[i] + 1):
                    b.chosen[f, c] = g[c, t]


@jit
def likely(roles, t, b):
    """The better score of both slopes for every function, and for every label and assignment whether it wins."""
    for f in range(b.chosen.shape[0]):
        b.chosen_zscore[f] = max(b.zscore[2 * f, t], b.zscore[2 * f + 1, t])
        b.chosen_bolder[f] = max(b.bolder[2 * f, t], b.bolder[2 * f + 1, t])


@jit
def plan_events(roles, b, events):
    """The events worth a proof: one label under all assignments; another label under some. Gives their likely share."""
    labels, assignments = roles.labels, roles.assignments
    share = 0.0
    count = 0
    for c in range(labels):
        weakest = 1e300
        size = 0
        for p in range(assignments):
            b.wins[c, p] = 1e300
            for d in range(labels):
                if d != c:
                    f = roles.beats[c, d] * assignments + p
                    events.member[count, size] = f
                    size += 1
                    weakest = min(weakest, b.chosen_zscore[f])
                    b.wins[c, p] = min(b.wins[c, p], b.chosen_bolder[f])
        events.size[count] = size
        events.unfair[count] = False
        share += normal(weakest)
        count += 1
    if labels == 2 and assignments == 2 and roles.relaxed.shape[0] == 0:
        for p in range(2):
            events.member[count, 0] = roles.beats[1, 0] * 2 + p
            events.member[count, 1] = roles.beats[0, 1] * 2 + 1 - p
            share += max(0.0, normal(b.wins[1, p]) + normal(b.wins[0, 1 - p]) - 1)
            events.size[count] = 2
            events.unfair[count] = True
            count += 1
    else:
        # The likeliest label that wins somewhere and the likeliest that beats it elsewhere.
        best = -1e300
        winner, at, other = 0, 0, 0
        for c in range(labels):
            p = 0
            for q in range(1, assignments):
                if b.wins[c, q] > b.wins[c, p]:
                    p = q
            for d in range(labels):
                for q in range(assignments):
                    f = roles.beats[d, c] * assignments + q
                    x = min(b.wins[c, p], b.chosen_bolder[f]) if d != c else -1e300
                    if x > best:
                        best = x
                        winner, at, other = c, p, f
        size = 0
        for d in range(labels):
            if d != winner:
                events.member[count, size] = roles.beats[winner, d] * assignments + at
                size += 1
        events.member[count, size] = other
        events.size[count] = size + 1
        events.unfair[count] = True
        share += max(0.0, normal(b.wins[winner, at]) + normal(b.chosen_bolder[other]) - 1)
        count += 1
    events.count[0] = count
    return share


@jit
def halve(i, low, high, axes):
    """The last cell of the lower half of low..high by mass; both halves have some cells."""
    begin = axes.first[i]
    goal = 0.5 * (axes.weight[begin + low] + axes.weight[begin + high + 1])
    a = low
    b = high - 1
    while a < b:
        middle = (a + b) // 2
        if axes.weight[begin + middle + 1] < goal:
            a = middle + 1
        else:
            b = middle
    if a > low and goal - axes.weight[begin + a] < axes.weight[begin + a + 1] - goal:
        a -= 1
    return a


@jit
def grandchildren(box_low, box_high, plan, axes, cutting, lo, hi):
    """Split a box by its plan into the lanes, ``cutting`` parts without mass away. Gives their number."""
    attributes = box_low.shape[0]
    for i in range(attributes):
        lo[i, 0] = box_low[i]
        hi[i, 0] = box_high[i]
    count = 1
    for r in range(SPLITS):
        a = plan[r]
        if a < 0:
            break
        for t in range(count):
            low = int(lo[a, t])
            high = int(hi[a, t])
            if high <= low:
                continue
            cut = halve(a, low, high, axes)
            at = axes.first[a]
            if cutting and axes.weight[at + cut + 1] <= axes.weight[at + low]:
                lo[a, t] = cut + 1
                continue
            if cutting and axes.weight[at + high + 1] <= axes.weight[at + cut + 1]:
                hi[a, t] = cut
                continue
            for i in range(attributes):
                lo[i, count] = lo[i, t]
                hi[i, count] = hi[i, t]
            hi[a, t] = cut
            lo[a, count] = cut + 1
            count += 1
    for t in range(count, LANES):
        for i in range(attributes):
            lo[i, t] = lo[i, 0]
            hi[i, t] = hi[i, 0]
    return count


@jit
def make_plan(t, b, plan):
    """The next splits of a box: the best attribute, its score halved, again; the widest where no score tells."""
    attributes = b.low.shape[0]
    left, width = b.left, b.width
    for i in range(attributes):
        width[i] = b.high[i] - b.low[i] + 1
        left[i] = b.score[i, t] if width[i] > 1 else -1.0
    for r in range(SPLITS):
        best = 0
        for i in range(1, attributes):
            if left[i] > left[best]:
                best = i
        if left[best] == 0.0:
            for i in range(attributes):
                if left[i] == 0.0 and width[i] > width[best]:
                    best = i
        if left[best] < 0.0:
            for q in range(r, SPLITS):
                plan[q] = -1
            return
        plan[r] = best
        width[best] = (width[best] + 1) // 2
        left[best] = 0.5 * left[best] if width[best] > 1 else -1.0


@jit
def evaluate(net, roles, axes, count, scoring, b, s):
    """Bound the boxes in the lanes."""
    attributes = axes.first.shape[0]
    hold(net, roles, attributes, b)
    measure(count, axes, b)
    if scoring:
        for i in range(b.score.shape[0]):
            store(b.score, i, full(0.0))
    functions(net, roles, axes, count, scoring, b, s)
    if roles.joint:
        for t in range(count):
            single = True
            for i in range(attributes):
                single = single and b.lo[i, t] == b.hi[i, t] and net.reach[i] == 0.0
            if single:
                ask(net, roles, t, b, s)


@jit
def refine(
    net, roles, axes, b, s, events, box_low, box_high, box_state, plan, size, threshold, limit, recording, out_low,
    out_high, out_state, out_plan, out_open, out_mass, out_kind, totals,
):  # fmt: skip
    """Take boxes off the stack, split them by their plans, and sort their parts.

    The stack is the first ``size`` entries of ``box_low, box_high, box_state, plan``. A part goes back on it while its estimated
    undecided mass exceeds ``threshold``, else into the output. Parts that are decided as a whole are counted in
    ``totals`` (fair, unfair, boxes), and put out too when ``recording``. At most ``limit`` boxes are bounded.

    Returns:
        What is left on the stack, and the number of boxes put out (it stops when the output might overflow).
    """
    attributes = axes.first.shape[0]
    out = 0
    while size > 0 and out + LANES <= out_open.shape[0] and size + LANES <= box_low.shape[0]:
        if totals[2] + LANES > limit:
            break
        size -= 1
        count = grandchildren(box_low[size], box_high[size], plan[size], axes, not recording, b.lo, b.hi)
        read_states(net, roles.biases.shape[0], box_state[size], True, b.known)
        evaluate(net, roles, axes, count, True, b, s)
        totals[2] += count
        for t in range(count):
            mass = b.mass[t]
            if mass <= 0 and not recording:
                continue
            known = verdict(roles, t, b) if mass > 0 else OPEN
            for i in range(attributes):
                b.low[i] = int(b.lo[i, t])
                b.high[i] = int(b.hi[i, t])
            undecided = 0.0
            if known != OPEN:
                totals[known - 1] += mass
                if not recording:
                    continue
            elif mass > 0:
                likely(roles, t, b)
                undecided = mass * max(0.0, 1 - plan_events(roles, b, events))
                if undecided > threshold:
                    make_plan(t, b, plan[size])
                    if plan[size, 0] >= 0:
                        for i in range(attributes):
                            box_low[size, i] = b.low[i]
                            box_high[size, i] = b.high[i]
                        for i in range(b.state.shape[1]):
                            box_state[size, i] = b.state[t, i]
                        size += 1
                        continue
                make_plan(t, b, out_plan[out])
            else:
                out_plan[out, 0] = -1
            for i in range(attributes):
                out_low[out, i] = b.low[i]
                out_high[out, i] = b.high[i]
            for i in range(b.state.shape[1]):
                out_state[out, i] = b.state[t, i]
            out_open[out] = undecided
            out_mass[out] = mass
            out_kind[out] = known
            out += 1
    return size, out


@jit
def prove_boxes(net, roles, axes, b, s, events, d, box_low, box_high, box_state, grid, room, out_fair, out_unfair):
    """Bound the boxes as they are, sixteen neighbours at a time, and prove the shares of each."""
    attributes = axes.first.shape[0]
    at = 0
    size = box_low.shape[0]
    while at < size:
        count = min(LANES, size - at)
        for t in range(LANES):
            for i in range(attributes):
                b.lo[i, t] = box_low[at + min(t, count - 1), i]
                b.hi[i, t] = box_high[at + min(t, count - 1), i]
        for t in range(count):
            read_states(net, roles.biases.shape[0], box_state[at + t], t == 0, b.known)
        evaluate(net, roles, axes, count, False, b, s)
        for t in range(count):
            fair = 0.0
            unfair = 0.0
            known = verdict(roles, t, b) if b.mass[t] > 0 else OPEN
            if known == FAIR:
                fair = 1.0
            elif known == UNFAIR:
                unfair = 1.0
            elif b.mass[t] > 0:
                for i in range(attributes):
                    b.low[i] = int(b.lo[i, t])
                    b.high[i] = int(b.hi[i, t])
                pick(net, roles, attributes, t, b)
                plan_events(roles, b, events)
                prove(
                    events, b.low, b.high, b.chosen, b.chosen_constant, b.chosen_gain, b.chosen_zscore, b.chosen_bolder,
                    axes, grid, room, d,
                )  # fmt: skip
                for e in range(events.count[0]):
                    if events.unfair[e]:
                        unfair += d.share[e]
                    else:
                        fair += d.share[e]
            out_fair[at + t] = fair
            out_unfair[at + t] = unfair
        at += count
