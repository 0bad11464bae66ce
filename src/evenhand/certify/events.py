"""What the functions of a box decide as a whole, and which events are worth a proof (compiled)."""

from __future__ import annotations

import math

import numba

OPEN, FAIR, UNFAIR = 0, 1, 2
"""What is known of a box as a whole."""

jit = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)


@jit
def normal(x):
    """Standard normal distribution function."""
    return 0.5 * math.erfc(-x * 0.7071067811865476)


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
    events.number[0] = count
    return share
