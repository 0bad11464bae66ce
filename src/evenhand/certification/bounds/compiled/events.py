"""Decide boxes as a whole from their functions, and plan the events to prove (compiled)."""

from __future__ import annotations

import math

from evenhand.core.kernels import compile_kernel

jit = compile_kernel(internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)
# Passing the work arrays takes longer than the body of the shortest functions (see ``shares``).
inlined = compile_kernel(
    internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False, forceinline=True
)

OPEN, FAIR, UNFAIR = 0, 1, 2
"""Outcome of a whole box."""


@inlined
def normal_cdf(x):
    """Return the standard normal distribution function."""
    # Phi(x) = erfc(-x / sqrt(2)) / 2, accurate in both tails.
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@inlined
def decide_lane(roles, t, b):
    """Decide a lane's box as a whole."""
    if roles.demanded >= 0:
        return decide_demanded(roles, t, b)
    # A function is the smaller of its two pieces. FAIR: one label beats every other, under every assignment, everywhere
    # in the box.
    labels, assignments = roles.labels, roles.assignments
    for c in range(labels):
        everywhere = True
        for p in range(assignments):
            sure = True
            for d in range(labels):
                if d != c:
                    f = roles.beats[c, d] * assignments + p
                    sure = sure and min(b.least[2 * f, t], b.least[2 * f + 1, t]) > 0
            b.sure[c, p] = sure
            everywhere = everywhere and sure
        if everywhere:
            return FAIR
    if roles.least > 2:
        return count_labels(roles, t, b)
    # UNFAIR: everywhere in the box c wins under one assignment, and some label beats c under another.
    for c in range(labels):
        somewhere = False
        for p in range(assignments):
            sure = True
            for d in range(labels):
                if d != c:
                    sure = sure and is_positive(roles.beats[c, d] * assignments + p, t, b)
            somewhere = somewhere or sure
        if somewhere:
            for d in range(labels):
                for p in range(assignments):
                    if d != c and is_positive(roles.beats[d, c] * assignments + p, t, b):
                        return UNFAIR
    return OPEN


@jit
def decide_demanded(roles, t, b):
    """Decide a lane's box as a whole if one label is required."""
    # FAIR: the required label beats every other; UNFAIR: some other label beats it everywhere in the box.
    c = roles.demanded
    everywhere = True
    for d in range(roles.labels):
        if d != c:
            f = roles.beats[d, c]
            if min(b.least[2 * f, t], b.least[2 * f + 1, t]) > 0:
                return UNFAIR
            f = roles.beats[c, d]
            everywhere = everywhere and min(b.least[2 * f, t], b.least[2 * f + 1, t]) > 0
    return FAIR if everywhere else OPEN


@jit
def count_labels(roles, t, b):
    """Decide a lane's box from bounds on the number of labels over the assignments."""
    # ``sure[c, p]``: everywhere in the box c wins under p. The number of labels that certainly win somewhere is a lower
    # bound. The number of labels that some assignment does not rule out is an upper bound, as is the lower bound plus
    # one for each other assignment.
    labels, assignments = roles.labels, roles.assignments
    certain = 0
    possible = 0
    for c in range(labels):
        wins = False
        left = False
        for p in range(assignments):
            wins = wins or b.sure[c, p]
            beaten = False
            for d in range(labels):
                if d != c:
                    f = roles.beats[d, c] * assignments + p
                    beaten = beaten or min(b.least[2 * f, t], b.least[2 * f + 1, t]) > 0
            left = left or not beaten
        certain += 1 if wins else 0
        possible += 1 if left else 0
    if certain >= roles.least:
        return UNFAIR
    unsure = 0
    for p in range(assignments):
        some = False
        for c in range(labels):
            some = some or b.sure[c, p]
        unsure += 0 if some else 1
    return FAIR if min(possible, certain + unsure) < roles.least else OPEN


@inlined
def is_positive(f, t, b):
    """Check whether function f is positive on all of a lane's box."""
    return min(b.least[2 * f, t], b.least[2 * f + 1, t]) > 0


@inlined
def collect_functions(net, roles, attributes, t, b):
    """Collect the functions of a lane: first pieces by function, then second pieces."""
    # One form for each assignment if they are bounded separately, otherwise one for all; see ``build_functions``.
    passes = roles.biases.shape[0]
    functions = b.chosen.second.shape[0] // 2
    for f in range(functions):
        form = (f // roles.assignments) * passes + (0 if roles.joint else f % roles.assignments)
        b.chosen.second[f] = functions + f if b.pieces[form, t] > 0 else -1
        for piece in range(2 if b.pieces[form, t] > 0 else 1):
            row = piece * functions + f
            b.chosen.constant[row] = b.constant[2 * f + piece, t]
            b.chosen.zscore[row] = b.zscore[2 * f + piece, t]
            g = b.g[form, piece]
            for i in range(attributes):
                a = net.start[i]
                if net.line[i]:
                    b.chosen.g[row, a] = g[a, t]
                else:
                    for c in range(a + b.low[i], a + b.high[i] + 1):
                        b.chosen.g[row, c] = g[c, t]


@inlined
def score_labels(roles, t, b):
    """Score every function by the piece that is less likely to be positive."""
    for f in range(b.chosen.second.shape[0] // 2):
        b.chosen.zscore[f] = min(b.zscore[2 * f, t], b.zscore[2 * f + 1, t])


@inlined
def plan_events(roles, b, events):
    """Plan the events to prove: one label under all assignments, or different labels. Return their likely share."""
    if roles.demanded >= 0:
        return plan_demanded(roles, b, events)
    labels, assignments = roles.labels, roles.assignments
    share = 0.0
    count = 0
    # Fair events: c beats all others under all assignments. The probability that all functions are positive is about
    # that of the weakest one, Phi(min z).
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
                    weakest = min(weakest, b.chosen.zscore[f])
                    b.wins[c, p] = min(b.wins[c, p], b.chosen.zscore[f])
        events.size[count] = size
        events.unfair[count] = events.apart[count] = False
        share += normal_cdf(weakest)
        count += 1
    if roles.least > 2:
        return plan_likely_labels(roles, share, b, events)
    # Unfair events: label 1 under p and label 0 under the other. By P(A and B) >= P(A) + P(B) - 1 (Frechet), their
    # normal approximations estimate the share that a proof reaches.
    if labels == 2 and assignments == 2:
        for p in range(2):
            events.member[count, 0] = roles.beats[1, 0] * 2 + p
            events.member[count, 1] = roles.beats[0, 1] * 2 + 1 - p
            share += max(0.0, normal_cdf(b.wins[1, p]) + normal_cdf(b.wins[0, 1 - p]) - 1)
            events.size[count] = 2
            events.unfair[count] = events.apart[count] = True
            count += 1
    else:
        # The most likely label to win somewhere, and the most likely label to beat it elsewhere.
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
                    x = min(b.wins[c, p], b.chosen.zscore[f]) if d != c else -1e300
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
        events.unfair[count] = events.apart[count] = True
        share += max(0.0, normal_cdf(b.wins[winner, at]) + normal_cdf(b.chosen.zscore[other]) - 1)
        count += 1
    events.number[0] = count
    return share


@jit
def plan_demanded(roles, b, events):
    """Plan the events if one label is required: it wins, the most likely label wins, or its opposite wins."""
    # Labels 2k + 1 and 2k + 2 exclude each other (``FunctionRoles``), so their events are disjoint. That neither of the
    # two wins are opposing conditions, such as a change that is neither too large nor too small.
    c = roles.demanded
    failing = 0.0
    size = 0
    other = 1
    for d in range(1, roles.labels):
        f = roles.beats[c, d]
        events.member[0, size] = f
        size += 1
        failing += normal_cdf(-b.chosen.zscore[f])
        if b.chosen.zscore[roles.beats[d, c]] > b.chosen.zscore[roles.beats[other, c]]:
            other = d
    events.size[0] = size
    events.unfair[0] = False
    events.apart[0] = True
    share = max(0.0, 1.0 - failing)
    for k in range(2):
        f = roles.beats[other if k == 0 else ((other - 1) ^ 1) + 1, c]
        events.member[1 + k, 0] = f
        events.size[1 + k] = 1
        events.unfair[1 + k] = events.apart[1 + k] = True
        share += normal_cdf(b.chosen.zscore[f])
    events.number[0] = 3
    return share


@jit
def plan_likely_labels(roles, share, b, events):
    """Add the event that every assignment has its most likely label."""
    # It is fair or unfair depending on the number of these labels, and excludes events of one label under all
    # assignments.
    labels, assignments = roles.labels, roles.assignments
    count = labels
    size = 0
    weakest = 1e300
    different = 0
    for c in range(labels):
        occurs = False
        for p in range(assignments):
            best = 0
            for d in range(1, labels):
                if b.wins[d, p] > b.wins[best, p]:
                    best = d
            if best == c:
                occurs = True
                weakest = min(weakest, b.wins[c, p])
                for d in range(labels):
                    if d != c:
                        events.member[count, size] = roles.beats[c, d] * assignments + p
                        size += 1
        different += 1 if occurs else 0
    if different > 1:
        events.size[count] = size
        events.unfair[count] = different >= roles.least
        events.apart[count] = True
        share += max(0.0, 1.0 - size * (1.0 - normal_cdf(weakest)))
        count += 1
    events.number[0] = count
    return share


@jit
def clip_lane(net, roles, axes, t, b):
    """Cut cells off the ends of each attribute's range in which the box is decided as fair.

    The remaining box is in ``b.low`` and ``b.high``. Return its share of the mass.
    """
    # The parts that are cut off are slabs of the box, in which attribute i is in one cell. Together with the remaining
    # box they cover the box.
    share = 1.0
    for i in range(b.low.shape[0]):
        low = b.low[i]
        high = b.high[i]
        first = low
        last = high
        for label in range(2):
            while first < last and is_slab_fair(net, roles, i, first, low, high, label, t, b):
                first += 1
            while first < last and is_slab_fair(net, roles, i, last, low, high, label, t, b):
                last -= 1
        if first == low and last == high:
            continue
        before = axes.weight[axes.first[i] : axes.first[i] + high + 2]
        share *= (before[last + 1] - before[first]) / (before[high + 1] - before[low])
        b.score[i, t] *= (last - first + 1.0) / (high - low + 1.0)
        b.low[i] = first
        b.high[i] = last
    return share


@inlined
def is_slab_fair(net, roles, i, cell, low, high, label, t, b):
    """Check whether a label wins under every assignment wherever attribute i, from low to high, is in one cell."""
    # The functions are additive: their minimum over the slab is that over the box, minus the minimum of the terms
    # of attribute i, plus that of its term in the cell. With unit roundoff u, the error of each term is at most 2 u
    # times its magnitude, and that of the sum 3 u times the sum of magnitudes, so 8 u = 2**-50 suffices; the pads cover
    # the rounding of the rest.
    passes = roles.biases.shape[0]
    output = roles.beats[label, 1 - label]
    for p in range(roles.assignments):
        f = output * roles.assignments + p
        form = output * passes + (0 if roles.joint else p)
        for piece in range(2 if b.pieces[form, t] > 0 else 1):
            g = b.g[form, piece]
            box = smallest_term(net, g, i, low, high, t)
            slab = smallest_term(net, g, i, cell, cell, t)
            x = b.least[2 * f + piece, t]
            if x - box + slab <= 2.0**-50 * (abs(x) + abs(box) + abs(slab)):
                return False
    return True


@inlined
def smallest_term(net, g, i, low, high, t):
    """Return the minimum of a function's terms of attribute i over a range of cells."""
    a = net.start[i]
    if net.line[i]:
        return min(g[a, t] * low, g[a, t] * (high + net.reach[i]))
    x = g[a + low, t]
    for cell in range(low + 1, high + 1):
        x = min(x, g[a + cell, t])
    return x
