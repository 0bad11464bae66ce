"""Bound boxes, then split them or prove their shares (compiled): what ``linear`` drives."""

from __future__ import annotations

import math

import numba
import numpy as np

from evenhand.certify.lanes import LANES
from evenhand.certify.relaxation import backward, first_layer, inner_bounds, scratch, split_scores
from evenhand.certify.shares import prove

SPLITS = 4
"""A box is split this often at once: its up to sixteen grandchildren fill the lanes."""

jit = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False)


@jit
def normal(x):
    """Standard normal distribution function."""
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@jit
def part(i, low, high, axes):
    """Share of the population in cells low..high of attribute i; mean and variance of the position there."""
    a = axes.first[i] + low
    b = axes.first[i] + high + 1
    weight = axes.weight[b] - axes.weight[a]
    if weight <= 0:
        return 0.0, 0.0, 0.0
    mean = (axes.moment[b] - axes.moment[a]) / weight
    variance = (axes.square[b] - axes.square[a]) / weight - mean * mean
    return weight / axes.total[i], mean + 0.5 * axes.reach[i], max(0.0, variance) + axes.reach[i] ** 2 / 12


@jit
def zscore_of(g, constant, low, high, mean, variance, axes):
    """Mean over standard deviation of an additive function on a box, as the population has it."""
    total = constant
    spread = 0.0
    for i in range(low.shape[0]):
        if axes.line[i]:
            slope = g[axes.start[i]]
            total += slope * mean[i]
            spread += slope * slope * variance[i]
        else:
            weight = 0.0
            first = 0.0
            second = 0.0
            for v in range(low[i], high[i] + 1):
                w = axes.weight[axes.first[i] + v + 1] - axes.weight[axes.first[i] + v]
                x = g[axes.start[i] + v]
                weight += w
                first += w * x
                second += w * x * x
            first /= weight
            total += first
            spread += max(0.0, second / weight - first * first)
    return total / (math.sqrt(spread) + 1e-12)


@jit
def functions(
    net, biases, joint, assignments, lo, hi, held_low, held_high, count, s, g, constant, least, score, scoring
):
    """The want-positive functions of every lane, for two choices of slopes, with their minima over the boxes.

    ``g`` (2 P, 2, lanes, columns), ``constant`` and ``least`` (2 P, 2, lanes). With ``joint`` the protected
    assignment is one more attribute of the network (its last), bounded together with the rest.
    """
    attributes = held_low.shape[0] - (1 if joint else 0)
    depth = net.sizes.shape[0]
    first_layer(net, lo, hi, s)
    for p in range(1 if joint else assignments):
        inner_bounds(net, biases[p], lo, hi, held_low, held_high, s)
        slack = s.out.copy()
        for up in range(2):
            sign = 1.0 - 2.0 * up
            for mode in range(2):
                backward(depth, 0, up == 1, s.adaptive if mode == 0 else s.flat, net, biases[p], held_low, held_high, s)
                for q in range(assignments if joint else 1):
                    f = up * assignments + p + q
                    for t in range(count):
                        x = s.const[0, t]
                        if joint:
                            x += s.coef[net.start[attributes] + q, t]
                        x = sign * x - slack[0, t]
                        constant[f, mode, t] = x
                        for i in range(attributes):
                            a = net.start[i]
                            if net.line[i]:
                                y = sign * s.coef[a, t]
                                g[f, mode, t, a] = y
                                x += y * (lo[i, t] if y > 0 else hi[i, t] + net.reach[i])
                            else:
                                y = 1e300
                                for c in range(a + int(lo[i, t]), a + int(hi[i, t]) + 1):
                                    z = sign * s.coef[c, t]
                                    g[f, mode, t, c] = z
                                    y = min(y, z)
                                x += y
                        least[f, mode, t] = x
        if scoring:
            split_scores(net, lo, hi, s, score)


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
def grandchildren(box_low, box_high, plan, axes, lo, hi):
    """Split a box by its plan into the lanes; parts without mass are cut away. Gives their number."""
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
            if axes.weight[at + cut + 1] <= axes.weight[at + low]:
                lo[a, t] = cut + 1
                continue
            if axes.weight[at + high + 1] <= axes.weight[at + cut + 1]:
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
def make_plan(score, t, low, high, plan):
    """The next splits of a box: the best attribute, its score halved, again; the widest where no score tells."""
    attributes = low.shape[0]
    left = np.empty(attributes)
    width = np.empty(attributes, np.int64)
    for i in range(attributes):
        width[i] = high[i] - low[i] + 1
        left[i] = score[i, t]
    for r in range(SPLITS):
        best = -1
        for i in range(attributes):
            if width[i] > 1 and (
                best < 0 or left[i] > left[best] or (left[i] == left[best] and width[i] > width[best])
            ):
                best = i
        plan[r] = best
        if best < 0:
            for q in range(r, SPLITS):
                plan[q] = -1
            return
        left[best] *= 0.5
        width[best] = (width[best] + 1) // 2


@jit
def work(
    net,
    biases,
    joint,
    assignments,
    axes,
    box_low,
    box_high,
    plan,
    size,
    threshold,
    limit,
    proving,
    grid,
    room,
    out_low,
    out_high,
    out_plan,
    out_open,
    out_mass,
    out_fair,
    out_unfair,
    totals,
):
    """Refine (``proving`` False) or prove boxes.

    Refining takes boxes off the stack ``box_low, box_high, plan`` (the first ``size`` entries are filled), splits them
    by their plans, and puts what is left of each part back on the stack while its estimated undecided mass exceeds
    ``threshold``, else into the output. Parts that are decided as a whole go to ``totals`` (fair, unfair, boxes); at
    most ``limit`` boxes are bounded. Proving bounds the given boxes as they are, and puts the proved shares of each
    into ``out_fair`` and ``out_unfair``.

    Returns:
        What is left on the stack, and the number of boxes put out (refining stops when the output might overflow).
    """
    attributes = axes.first.shape[0]
    held = net.start.shape[0]
    columns = net.columns.shape[0]
    s = scratch(net)
    lo = np.zeros((held, LANES))
    hi = np.zeros((held, LANES))
    held_low = np.zeros(held, np.int64)
    held_high = np.zeros(held, np.int64)
    if joint:
        held_high[attributes] = assignments - 1
        hi[attributes, :] = assignments - 1
    low = np.zeros(attributes, np.int64)
    high = np.zeros(attributes, np.int64)
    mean = np.zeros(attributes)
    variance = np.zeros(attributes)
    score = np.zeros((held, LANES))
    g = np.zeros((2 * assignments, 2, LANES, columns))
    constant = np.zeros((2 * assignments, 2, LANES))
    least = np.zeros((2 * assignments, 2, LANES))
    chosen = np.zeros((2 * assignments, columns))
    offset = np.zeros(2 * assignments)
    zscore = np.zeros(2 * assignments)
    share = np.zeros(4)
    out = 0
    at = 0
    while True:
        if proving:
            if at >= size:
                break
            count = min(LANES, size - at)
            for t in range(LANES):
                for i in range(attributes):
                    lo[i, t] = box_low[at + min(t, count - 1), i]
                    hi[i, t] = box_high[at + min(t, count - 1), i]
            at += count
        else:
            full = out + LANES > out_open.shape[0] or size + LANES > box_low.shape[0]
            if size <= 0 or full or totals[2] + LANES > limit:
                break
            size -= 1
            count = grandchildren(box_low[size], box_high[size], plan[size], axes, lo, hi)
        for i in range(attributes):
            a = lo[i, 0]
            b = hi[i, 0]
            for t in range(1, LANES):
                a = min(a, lo[i, t])
                b = max(b, hi[i, t])
            held_low[i] = int(a)
            held_high[i] = int(b)
        score[:] = 0.0
        functions(
            net, biases, joint, assignments, lo, hi, held_low, held_high, count, s, g, constant, least, score,
            not proving,
        )  # fmt: skip
        totals[2] += count
        for t in range(count):
            mass = 1.0
            for i in range(attributes):
                low[i] = int(lo[i, t])
                high[i] = int(hi[i, t])
                weight, mean[i], variance[i] = part(i, low[i], high[i], axes)
                mass *= weight
            if proving:
                out_fair[at - count + t] = 0.0
                out_unfair[at - count + t] = 0.0
            if mass <= 0:
                continue
            all_up = True
            all_down = True
            some_up = False
            some_down = False
            for p in range(assignments):
                up = max(least[p, 0, t], least[p, 1, t]) > 0
                down = max(least[assignments + p, 0, t], least[assignments + p, 1, t]) > 0
                all_up = all_up and up
                all_down = all_down and down
                some_up = some_up or up
                some_down = some_down or down
            if all_up or all_down or (some_up and some_down):
                fair = all_up or all_down
                if proving:
                    out_fair[at - count + t] = 1.0 if fair else 0.0
                    out_unfair[at - count + t] = 0.0 if fair else 1.0
                else:
                    totals[0 if fair else 1] += mass
                continue
            best = 0
            worst = 0
            weakest_up = 1e300
            weakest_down = 1e300
            for f in range(2 * assignments):
                zscore[f] = -1e300
                for mode in range(2):
                    z = zscore_of(g[f, mode, t], constant[f, mode, t], low, high, mean, variance, axes)
                    if mode == 0 or z > zscore[f]:
                        zscore[f] = z
                        offset[f] = constant[f, mode, t]
                        take = mode
                for i in range(attributes):
                    if axes.line[i]:
                        chosen[f, axes.start[i]] = g[f, take, t, axes.start[i]]
                    else:
                        for c in range(axes.start[i] + low[i], axes.start[i] + high[i] + 1):
                            chosen[f, c] = g[f, take, t, c]
                if f < assignments:
                    weakest_up = min(weakest_up, zscore[f])
                    if zscore[f] > zscore[best]:
                        best = f
                else:
                    weakest_down = min(weakest_down, zscore[f])
                    if zscore[f] > zscore[assignments + worst]:
                        worst = f - assignments
            if proving:
                prove(assignments, low, high, chosen, offset, zscore, axes, grid, room, best, worst, share)
                out_fair[at - count + t] = share[0] + share[1]
                out_unfair[at - count + t] = share[2] + share[3]
                continue
            undecided = 1 - normal(weakest_up) - normal(weakest_down)
            if assignments == 2:
                undecided -= max(0.0, normal(zscore[0]) + normal(zscore[3]) - 1)
                undecided -= max(0.0, normal(zscore[1]) + normal(zscore[2]) - 1)
            elif best != worst:
                undecided -= max(0.0, normal(zscore[best]) + normal(zscore[assignments + worst]) - 1)
            undecided = mass * max(0.0, undecided)
            if undecided > threshold:
                make_plan(score, t, low, high, plan[size])
                if plan[size, 0] >= 0:
                    for i in range(attributes):
                        box_low[size, i] = low[i]
                        box_high[size, i] = high[i]
                    size += 1
                    continue
            make_plan(score, t, low, high, out_plan[out])
            for i in range(attributes):
                out_low[out, i] = low[i]
                out_high[out, i] = high[i]
            out_open[out] = undecided
            out_mass[out] = mass
            out += 1
    return size, out
