"""Additive functions of sixteen boxes that say, where they are positive, which label beats which (compiled)."""

from __future__ import annotations

import math
from typing import NamedTuple

from evenhand.certification.bounds.compiled.lanes import (
    LANES,
    add,
    divide,
    fill_vector,
    load_row,
    maximum,
    minimum,
    multiply,
    multiply_add,
    square_root,
    store_row,
)
from evenhand.certification.bounds.compiled.relaxation import (
    bound_first_layer,
    bound_hidden_layers,
    note_states,
    substitute_backward,
)
from evenhand.certification.bounds.compiled.splits import split_scores
from evenhand.kernels import compile_kernel

jit = compile_kernel(internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)
# Handing the work arrays to a function takes longer than what the shortest ones do (see ``shares``).
inlined = compile_kernel(
    internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False, forceinline=True
)


class FunctionIndex(NamedTuple):
    """Which function of a box is meant: the lower (0) or upper (1) side of an output, by which slopes, for whom."""

    side: int
    mode: int
    output: int
    assignment: int


@jit
def bound_lanes(net, roles, axes, count, scoring, b, s):
    """Bound the boxes in the lanes."""
    attributes = axes.first.shape[0]
    set_held_ranges(net, roles, attributes, b, s)
    measure_boxes(count, axes, b)
    if scoring:
        for i in range(b.score.shape[0]):
            store_row(b.score, i, fill_vector(0.0))
    build_functions(net, roles, axes, count, scoring, b, s)
    # A box of one person leaves nothing to bound but the assignment: running the network decides what bounds over all
    # assignments at once may not. Without a joint pass the bounds of a single person are exact already.
    if roles.joint:
        for t in range(count):
            single = True
            for i in range(attributes):
                single = single and b.lo[i, t] == b.hi[i, t] and net.reach[i] == 0.0
            if single:
                evaluate_person(net, roles, t, b)


@jit
def measure_boxes(count, axes, b):
    """Compute the mass of each lane's box, and mean and variance of the position in each of its attributes."""
    for t in range(LANES):
        b.mass[t] = 1.0
    # From prefix sums over cells: W = sum w, mean = sum w x / W, variance = sum w x^2 / W - mean^2. Within a cell of
    # width r positions are uniform, which adds r / 2 to the mean and r^2 / 12 to the variance. Masses of attributes
    # multiply.
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
def set_held_ranges(net, roles, attributes, b, s):
    """Ranges of the attributes that are held besides the unprotected ones, and hulls of all over the lanes."""
    # The assignment, all of them at once, is an attribute like the others. A relaxed attribute i adds its own: how far
    # the other person is from this one, d in [-tolerance, tolerance], cut where no place in the box stays inside the
    # domain, so that x_i + d covers everyone this person is compared with.
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
        s.held_low[i] = int(low)
        s.held_high[i] = int(high)


@jit
def build_functions(net, roles, axes, count, scoring, b, s):
    """Compute the want-positive functions of every lane, for two choices of slopes: least values, means and spreads."""
    # Four functions an output: below it and minus the one above it, each by both choices of lower slope. Every one is
    # sound, so a box may use whichever serves it best.
    depth = net.sizes.shape[0] - 1
    outputs = net.sizes[depth]
    passes = 1 if roles.joint else roles.assignments
    bound_first_layer(net, b.lo, b.hi, s)
    for p in range(passes):
        bound_hidden_layers(net, roles.biases[p], b.lo, b.hi, b.known[p], s)
        if scoring:
            note_states(net, s, b.states[p])
        for side in range(2):
            for mode in range(2):
                for o in range(outputs):
                    substitute_backward(depth, o, side == 1, mode == 1, net, roles.biases[p], s)
                    store_function(net, roles, axes, count, FunctionIndex(side, mode, o, p), b, s)
        if scoring:
            split_scores(net, b.lo, b.hi, s, b.score)


@jit
def store_function(net, roles, axes, count, index, b, s):
    """Keep what ``substitute_backward`` found: the function of an output under one assignment, or under all of them."""
    side, mode, o, p = index
    # G = sign * (const + sum_i c_i(x_i)) - 1.001 * error - pad: where G > 0 the deployed model's output has this sign,
    # for all that may round. Over the box G is at least base + sum_i min c_i. Its mean and variance add up over
    # independent attributes; P(G > 0) is about Phi(mean / deviation), which steers the search and proves nothing.
    attributes = axes.first.shape[0]
    depth = net.sizes.shape[0] - 1
    at = side * net.sizes[depth] + o
    f = at * roles.assignments + p
    g = b.g[at * roles.biases.shape[0] + p, mode]
    sign = 1.0 - 2.0 * side
    zero = fill_vector(0.0)
    base = add(
        multiply(fill_vector(sign), load_row(s.const, 0)), fill_vector(-1.001 * s.error[depth, o] - net.last_pads[o])
    )
    low = zero
    mean = zero
    spread = fill_vector(1e-24)
    tables = False
    for i in range(attributes):
        a = net.start[i]
        tables = tables or not net.line[i]
        if net.line[i]:
            x = multiply(fill_vector(sign), load_row(s.coef, a))
            store_row(g, a, x)
            above = add(load_row(b.hi, i), fill_vector(net.reach[i]))
            low = multiply_add(maximum(x, zero), load_row(b.lo, i), low)
            low = multiply_add(minimum(x, zero), above, low)
            mean = multiply_add(x, load_row(b.mean, i), mean)
            spread = multiply_add(multiply(x, x), load_row(b.variance, i), spread)
        else:
            for c in range(a + s.held_low[i], a + s.held_high[i] + 1):
                store_row(g, c, multiply(fill_vector(sign), load_row(s.coef, c)))
    gain = zero
    if tables or roles.relaxed.shape[0] > 0:
        for x, row in ((base, 0), (low, 1), (mean, 2), (spread, 3), (zero, 4)):
            store_row(b.work, row, x)
        for i in range(attributes):
            if not net.line[i]:
                add_table_moments(net.start[i], i, count, g, axes, b)
        apply_tolerances(net, roles, attributes, sign, count, b, s)
        base, low, mean, spread, gain = (
            load_row(b.work, 0), load_row(b.work, 1), load_row(b.work, 2), load_row(b.work, 3), load_row(b.work, 4)
        )  # fmt: skip
    deviation = divide(fill_vector(1.0), square_root(spread))
    for q in range(roles.assignments if roles.joint else 1):
        x = base
        if roles.joint:
            x = add(x, multiply(fill_vector(sign), load_row(s.coef, net.start[attributes] + q)))
        row = 2 * (f + q) + mode
        store_row(b.constant, row, x)
        store_row(b.gain, row, gain)
        store_row(b.least, row, add(x, low))
        x = add(x, mean)
        store_row(b.zscore, row, multiply(x, deviation))
        store_row(b.bolder, row, multiply(add(x, gain), deviation))


@jit
def apply_tolerances(net, roles, attributes, sign, count, b, s):
    """Compute what the attributes within tolerance take off at worst, and what they may add to that at best."""
    for r in range(roles.relaxed.shape[0]):
        i = roles.relaxed[r]
        k = attributes + 1 + r
        for t in range(count):
            # G + x * d for every d within the tolerance is at least G + min x d (``fixed``); for an unfair event one d
            # is enough, the same for the whole box: max x d over the d that keep all of the box inside the domain.
            x = sign * s.coef[net.start[k], t]
            fixed = x * (b.lo[k, t] if x > 0 else b.hi[k, t])
            if x > 0:
                best = x * min(roles.tolerance[r], roles.last[r] - b.hi[i, t] - net.reach[i])
            else:
                best = x * max(-roles.tolerance[r], -b.lo[i, t])
            b.work[0, t] += fixed
            b.work[4, t] += best - fixed


@jit
def add_table_moments(a, i, count, g, axes, b):
    """Least value, mean and variance of the terms of attribute i, whose cells have a column each, added to ``work``."""
    for t in range(count):
        low = int(b.lo[i, t])
        high = int(b.hi[i, t])
        x = g[a + low, t]
        # With one cell the term is a number: no variance, and no division by a weight that may be zero.
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
def evaluate_person(net, roles, t, b):
    """Run the network on a box of one person, under every assignment, instead of bounding them together."""
    attributes = b.low.shape[0]
    depth = net.sizes.shape[0] - 1
    outputs = net.sizes[depth]
    # Like an odometer, ``offset`` goes through all distances within the tolerances. Invariant: least and gain of a
    # function are its smallest value over those so far, and how much the largest is above that.
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
                b.unit[h] = x
                b.miss[h] = net.first_error[h]
            for k in range(depth):
                forward_layer(net, k, b)
            for o in range(outputs):
                slack = 1.001 * b.miss[o] + net.last_pads[o]
                for side in range(2):
                    f = (side * outputs + o) * roles.assignments + p
                    x = (1.0 - 2.0 * side) * b.unit[o] - slack
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
def forward_layer(net, k, b):
    """From one person's units before ReLU k, and their float32 errors, to the next (``RoundingError.after``)."""
    # As ``rounding_errors``, for the one value each unit has here.
    gamma = net.gammas[k + 1]
    last = k == net.sizes.shape[0] - 2
    for j in range(net.sizes[k + 1]):
        b.following[j] = net.offsets[k, j]
        b.missing[j] = gamma * net.bias_sizes[k, j]
    for h in range(net.sizes[k]):
        x = max(b.unit[h], 0.0)
        passed = max(min(b.miss[h], b.unit[h] + b.miss[h]), 0.0)
        if x > 0 or passed > 0:
            carried = passed + gamma * (x + passed)
            weights = net.weights[k, h]
            sizes = net.output_sizes[h] if last else weights
            for j in range(net.sizes[k + 1]):
                b.following[j] += x * weights[j]
                b.missing[j] += carried * abs(sizes[j])
    for j in range(net.sizes[k + 1]):
        b.unit[j] = b.following[j]
        b.miss[j] = b.missing[j]


# What the functions of a box decide as a whole, and which events are worth a proof (compiled).

OPEN, FAIR, UNFAIR = 0, 1, 2
"""What is known of a box as a whole."""


@inlined
def normal_cdf(x):
    """Return the standard normal distribution function."""
    # Phi(x) = erfc(-x / sqrt(2)) / 2, accurate in both tails.
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@inlined
def decide_lane(roles, t, b):
    """Return whether a lane's box is decided as a whole."""
    if roles.demanded >= 0:
        return decide_demanded(roles, t, b)
    # Both choices of slopes give sound functions: the better least value counts. FAIR: one label beats every other,
    # under every assignment, everywhere in the box.
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
    if roles.least > 2:
        return count_labels(roles, t, b)
    # UNFAIR: everywhere in the box c wins under one assignment, and some label beats c under another.
    for c in range(labels):
        somewhere = False
        for p in range(assignments):
            sure = True
            for d in range(labels):
                if d != c:
                    sure = sure and positive_within_tolerance(roles.beats[c, d] * assignments + p, t, b)
            somewhere = somewhere or sure
        if somewhere:
            for d in range(labels):
                for p in range(assignments):
                    if d != c and positive_within_tolerance(roles.beats[d, c] * assignments + p, t, b):
                        return UNFAIR
    return OPEN


@jit
def decide_demanded(roles, t, b):
    """Return whether a lane's box is decided as a whole where one label is demanded."""
    # FAIR: the demanded label beats every other; UNFAIR: some other beats it, everywhere in the box.
    c = roles.demanded
    everywhere = True
    for d in range(roles.labels):
        if d != c:
            f = roles.beats[d, c]
            if max(b.least[2 * f, t], b.least[2 * f + 1, t]) > 0:
                return UNFAIR
            f = roles.beats[c, d]
            everywhere = everywhere and max(b.least[2 * f, t], b.least[2 * f + 1, t]) > 0
    return FAIR if everywhere else OPEN


@jit
def count_labels(roles, t, b):
    """Return whether fewer than ``roles.least`` labels, or that many, occur among the assignments wherever in a box."""
    # ``sure[c, p]``: everywhere in the box c wins under p. At least as many labels occur as win for sure somewhere. At
    # most as many as are not ruled out under every assignment; or one more than these for each other assignment.
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
                    beaten = beaten or max(b.least[2 * f, t], b.least[2 * f + 1, t]) > 0
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
def positive_within_tolerance(f, t, b):
    """Return whether function f is positive on all of a lane's box for some choice within the tolerances."""
    return max(b.least[2 * f, t] + b.gain[2 * f, t], b.least[2 * f + 1, t] + b.gain[2 * f + 1, t]) > 0


@inlined
def pick_slopes(net, roles, attributes, t, b):
    """Pick the better of the two slopes for every function, by mean over standard deviation."""
    # P(G > 0) is about Phi(zscore): the function that is likelier to be positive decides more of the box. The largest
    # least value would be the wrong choice, as it says how bad the worst corner is.
    passes = roles.biases.shape[0]
    for f in range(b.chosen.g.shape[0]):
        mode = 0 if b.zscore[2 * f, t] >= b.zscore[2 * f + 1, t] else 1
        b.chosen.constant[f] = b.constant[2 * f + mode, t]
        b.chosen.gain[f] = b.gain[2 * f + mode, t]
        b.chosen.zscore[f] = b.zscore[2 * f + mode, t]
        b.chosen.bolder[f] = b.bolder[2 * f + mode, t]
        g = b.g[(f // roles.assignments) * passes + (0 if roles.joint else f % roles.assignments), mode]
        for i in range(attributes):
            a = net.start[i]
            if net.line[i]:
                b.chosen.g[f, a] = g[a, t]
            else:
                for c in range(a + b.low[i], a + b.high[i] + 1):
                    b.chosen.g[f, c] = g[c, t]


@inlined
def score_labels(roles, t, b):
    """The better score of both slopes for every function, and for every label and assignment whether it wins."""
    # Only scores are wanted here, to say where to split; ``pick_slopes`` does the same for a proof, with coefficients.
    for f in range(b.chosen.g.shape[0]):
        b.chosen.zscore[f] = max(b.zscore[2 * f, t], b.zscore[2 * f + 1, t])
        b.chosen.bolder[f] = max(b.bolder[2 * f, t], b.bolder[2 * f + 1, t])


@inlined
def plan_events(roles, b, events):
    """The events worth a proof: one label under all assignments; another label under some. Gives their likely share."""
    if roles.demanded >= 0:
        return plan_demanded(roles, b, events)
    labels, assignments = roles.labels, roles.assignments
    share = 0.0
    count = 0
    # Fair events: c beats all others under all assignments. All functions positive has about the probability of the
    # weakest one, Phi(min z).
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
                    b.wins[c, p] = min(b.wins[c, p], b.chosen.bolder[f])
        events.size[count] = size
        events.unfair[count] = events.apart[count] = False
        share += normal_cdf(weakest)
        count += 1
    if roles.least > 2:
        return plan_likely_labels(roles, share, b, events)
    # Unfair events: label 1 under p and label 0 under the other. P(A and B) >= P(A) + P(B) - 1 (Frechet), about which
    # the normal approximations of both say how likely a proof is.
    if labels == 2 and assignments == 2 and roles.relaxed.shape[0] == 0:
        for p in range(2):
            events.member[count, 0] = roles.beats[1, 0] * 2 + p
            events.member[count, 1] = roles.beats[0, 1] * 2 + 1 - p
            share += max(0.0, normal_cdf(b.wins[1, p]) + normal_cdf(b.wins[0, 1 - p]) - 1)
            events.size[count] = 2
            events.unfair[count] = events.apart[count] = True
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
                    x = min(b.wins[c, p], b.chosen.bolder[f]) if d != c else -1e300
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
        share += max(0.0, normal_cdf(b.wins[winner, at]) + normal_cdf(b.chosen.bolder[other]) - 1)
        count += 1
    events.number[0] = count
    return share


@jit
def plan_demanded(roles, b, events):
    """The same where one label is demanded: it beats all others; the likeliest of them beats it, or its opposite."""
    # Labels 2k + 1 and 2k + 2 exclude each other (``FunctionRoles``), so their events are disjoint. That neither of the
    # two wins are conditions that pull against each other, as when a change is to be neither too large nor too small.
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
    """Add the event that every assignment has its likeliest label to those of one label for all; no other counts."""
    # It is fair or unfair by how many labels that are, and excludes events of one label under all assignments.
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
