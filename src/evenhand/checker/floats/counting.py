"""Count the mass of a box that meets conditions on additive functions, in float64 rounded down (compiled).

A condition is ``constant + sum of one term per attribute > 0``. All joint values of some attributes, the listed ones,
are enumerated. The others are represented by a table of ``P(sum of the others >= least sum + j * step)``, for which
every term is rounded down to a grid of this step. One of several conditions leads: on the tabled attributes, each other
condition exceeds it by at least the sum of the minimum differences of their terms, so one look-up decides all of them.

Rounding. With at most 1,024 attributes, a sum of terms errs by less than 2**-42 of the sum of their sizes. That
includes the rounding to the grid, which may be too high by 2**-50 of a term's size and 2**-52 of the span. This
error is subtracted from each constant and each difference. Probabilities are sums of products of nonnegative numbers,
so only their relative errors add up: one unit for each addition and product, at most twice the number of grid steps,
terms and listed values together.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from evenhand.checker.floats.bounds import entry_range
from evenhand.checker.kernels import jit
from evenhand.core.kernels import array_table, new_arrays

LEVELS = ((512, 64), (1024, 512), (4096, 4096))
"""Numbers of grid steps and of listed joint values, in the order in which they are tried."""
MOST_LISTED = LEVELS[-1][1]
MOST_ATOMS = 1024
"""Maximum number of joint values of the narrowest tabled attributes that are rounded to the grid together."""
LOSS = 2.0**-42
HOPELESS = -6.0
"""Score of a function below which its event is not counted."""


CountArrays = array_table(
    "CountArrays",
    __name__,
    {
        # Number of runs of each attribute of the box, and of cells of a run; index of its first run.
        "runs step at": "int64 axes",
        # Whether an attribute is listed, and whether it is not in a table yet.
        "listed waiting": "bool axes",
        # Probability of each run, and lower bound on its term in each function.
        "chance": "float64 runs",
        "term": "float64 functions runs",
        # Smallest and largest term of each function and attribute.
        "low high": "float64 functions axes",
        # Constant of each function, lowered; its extremes over the box; mean over deviation.
        "constant least most score": "float64 functions",
        # Mean and deviation of the terms for both choices of slopes.
        "middle deviation": "float64 functions 2",
        # Whether a function belongs to a live event, and whether its tails are computed.
        "used tabled": "bool functions",
        # Least sum of a table, one over its step, and the tails.
        "bottom inverse": "float64 functions",
        "table": "float64 functions bins",
        # Whether an event is counted, and whether its people are treated unfairly.
        "live unfair": "bool events",
        # Leading function of an event, number of its functions, and their indices.
        "lead size": "int64 events",
        "member": "int64 events members",
        # Sums and probabilities of the joint values; number that the tabled attributes must exceed in the lead.
        "partial": "float64 functions values",
        "weight needed": "float64 values",
        # Buffers for computing a table.
        "value chances": "float64 atoms",
        "here there": "float64 sums",
        "hits": "float64 bins",
    },
)
"""Work arrays of one thread."""


def count_arrays(axes: int, functions: int, events: tuple[int, int], cells: int, level: tuple[int, int]) -> Any:
    """Allocate work arrays.

    Args:
        axes, functions: Numbers of attributes and functions.
        events: Maximum numbers of events, and of functions of an event.
        cells: Maximum number of runs of all attributes.
        level: Maximum numbers of grid steps and of listed joint values.
    """
    steps, values = level
    sizes = {"runs": cells, "values": values, "atoms": MOST_ATOMS, "bins": steps + 2, "sums": 2 * steps + 8}
    work = new_arrays(CountArrays, axes=max(1, axes), functions=functions, events=events[0], members=events[1], **sizes)
    work.step[:] = work.runs[:] = 1
    return work


@jit
def mass_before(net, i, cell):
    """Compute the integer mass of the cells of an attribute before a cell."""
    if net.values[i] > 0:
        return int(min(cell * net.values[i], int(net.last[i] - net.first[i]) + 1))
    # Running sums have one number more than there are cells, for every attribute.
    return int(net.before[net.cell[i] + i + cell])


@jit
def lay_out_box(net, low, high, room, b, d):
    """Divide the attributes of a box into at most ``room`` runs, and tabulate their terms in each function."""
    cells = 0
    for i in range(len(net.line)):
        width = high[i] - low[i] + 1
        d.step[i] = (width + room - 1) // room if net.line[i] else 1
        d.runs[i] = (width + d.step[i] - 1) // d.step[i]
        d.at[i] = cells
        mass = mass_before(net, i, low[i] + width) - mass_before(net, i, low[i])
        for v in range(d.runs[i]):
            end = low[i] + min((v + 1) * d.step[i], width)
            d.chance[cells + v] = (mass_before(net, i, end) - mass_before(net, i, low[i] + v * d.step[i])) / mass
        cells += d.runs[i]
    for f in range(len(d.constant)):
        for trial in range(2):
            d.middle[f, trial], d.deviation[f, trial] = _moments(net, f, trial, low, b, d)
    for f in range(len(d.constant)):
        # The slopes with the higher mean in units of the deviation are better.
        flat = 0
        for trial in range(2):
            score = (b.constant[f, trial] + d.middle[f, trial]) / d.deviation[f, trial]
            if trial == 0 or score > d.score[f]:
                d.score[f] = score
                flat = trial
        size = abs(b.constant[f, flat])
        d.least[f] = d.most[f] = b.constant[f, flat]
        for i in range(len(net.line)):
            x = b.function[f, flat, net.start[i]]
            smallest, largest, extent = np.inf, -np.inf, 0.0
            for v in range(d.runs[i]):
                if net.line[i]:
                    # A line is monotone, so the least term of a run is at one of its ends.
                    y, z = entry_range(net, i, low[i] + v * d.step[i])
                    s, t = entry_range(net, i, min(low[i] + (v + 1) * d.step[i] - 1, high[i]))
                    y, z = min(y, s), max(z, t)
                    value = min(x * y, x * z)
                    extent = max(extent, max(abs(x * y), abs(x * z)))
                else:
                    value = b.function[f, flat, net.start[i] + low[i] + v]
                    extent = max(extent, abs(value))
                d.term[f, d.at[i] + v] = value
                smallest = min(smallest, value)
                largest = max(largest, value)
            d.low[f, i] = smallest
            d.high[f, i] = largest
            d.least[f] += smallest
            d.most[f] += largest
            size += 2 * extent
        d.constant[f] = b.constant[f, flat] - LOSS * size
        d.least[f] -= 2 * LOSS * size


@jit
def _moments(net, f, trial, low, b, d):
    """Estimate the mean and the deviation of the terms of a function. They only guide the search."""
    middle, variance = 0.0, 1e-300
    for i in range(len(net.line)):
        at = net.start[i]
        if net.line[i]:
            # Approximated as uniform on [near, far]: mean at the midpoint, variance width^2 / 12.
            x = b.function[f, trial, at]
            middle += 0.5 * x * (b.near[i] + b.far[i])
            variance += (x * (b.far[i] - b.near[i])) ** 2 / 12
            continue
        total, square = 0.0, 0.0
        for v in range(d.runs[i]):
            y = b.function[f, trial, at + low[i] + v]
            total += d.chance[d.at[i] + v] * y
            square += d.chance[d.at[i] + v] * y * y
        middle += total
        variance += max(0.0, square - total * total)
    return middle, math.sqrt(variance)


@jit
def plan_events(q, assignments, d):
    """Choose the events of a box by the scores of its functions, into ``d.member``, ``d.size`` and ``d.unfair``.

    Fair: one label beats all others under every assignment. Unfair: a label beats all others under one assignment and
    is beaten under another. Fair events of different labels exclude each other. With two labels and two assignments,
    the two unfair events also exclude each other: in them, the first label is given under one assignment or under the
    other. If three labels or more are needed, the event is that every assignment gets its most likely label. A number
    changes fairly if every change is within the tolerance; the most likely change beyond it and its opposite exclude
    each other.

    Returns:
        The number of events, and whether unfair ones exclude each other. If not, only the largest counts.
    """
    margins, labels = len(q.pairs), len(q.wins)
    rows = 1 if q.together else assignments
    if q.differences:
        likely = 0
        for m in range(margins):
            d.member[0, m] = 2 * m + 1
            if d.score[2 * m] > d.score[2 * likely]:
                likely = m
        d.size[0] = margins
        d.unfair[0] = False
        count = 1
        for m in (likely, likely ^ 1):
            if m < margins:
                d.member[count, 0] = 2 * m
                d.size[count] = 1
                d.unfair[count] = True
                count += 1
        return count, True
    for c in range(labels):
        d.size[c] = 0
        d.unfair[c] = False
        for p in range(rows):
            _add_wins(q, c, c, p, d)
    count = labels
    if q.together:
        d.member[count, 0], d.member[count, 1] = 2, 3
        d.size[count] = 2
        d.unfair[count] = True
        return count + 1, False
    if q.least > 2:
        d.size[count] = 0
        labels_given = 0
        for p in range(assignments):
            likely = 0
            for c in range(1, labels):
                if _win_score(q, c, p, d) > _win_score(q, likely, p, d):
                    likely = c
            _add_wins(q, count, likely, p, d)
            labels_given |= 1 << likely
        different = 0
        for c in range(labels):
            different += (labels_given >> c) & 1
        d.unfair[count] = different >= q.least
        # One label under all assignments is a fair event already.
        return count + (1 if different > 1 else 0), False
    exclusive = labels == 2 and assignments == 2
    for c in range(labels):
        d.size[count] = 0
        d.unfair[count] = True
        if exclusive:
            _add_wins(q, count, 0, c, d)
            _add_wins(q, count, 1, 1 - c, d)
        else:
            best, loss = 0, -1
            for p in range(assignments):
                if _win_score(q, c, p, d) > _win_score(q, c, best, d):
                    best = p
                for k in range(q.wins.shape[1]):
                    # A function and its negative are neighbours.
                    f = (2 * margins * p + q.wins[c, k]) ^ 1
                    if q.wins[c, k] >= 0 and (loss < 0 or d.score[f] > d.score[loss]):
                        loss = f
            _add_wins(q, count, c, best, d)
            d.member[count, d.size[count]] = loss
            d.size[count] += 1
        count += 1
    return count, exclusive


@jit
def _add_wins(q, event, label, p, d):
    """Add the functions by which a label beats all others under assignment p to an event."""
    for k in range(q.wins.shape[1]):
        if q.wins[label, k] >= 0:
            d.member[event, d.size[event]] = 2 * len(q.pairs) * p + q.wins[label, k]
            d.size[event] += 1


@jit
def _win_score(q, label, p, d):
    """Compute the lowest score of the functions by which a label beats all others under assignment p."""
    lowest = np.inf
    for k in range(q.wins.shape[1]):
        if q.wins[label, k] >= 0:
            lowest = min(lowest, d.score[2 * len(q.pairs) * p + q.wins[label, k]])
    return lowest


@jit
def count_shares(events, exclusive, steps, room, d):
    """Compute lower bounds on the fair and unfair shares of a box that was laid out, from its first ``events``."""
    d.used[:] = False
    d.tabled[:] = False
    for e in range(events):
        # The function that is least likely to be positive leads. Functions that are positive everywhere are left out.
        d.lead[e] = -1
        d.live[e] = True
        for k in range(d.size[e]):
            f = d.member[e, k]
            d.live[e] = d.live[e] and d.most[f] > 0 and d.score[f] > HOPELESS
            if d.least[f] <= 0 and (d.lead[e] < 0 or d.score[f] < d.score[d.lead[e]]):
                d.lead[e] = f
        for k in range(d.size[e]):
            if d.live[e] and d.least[d.member[e, k]] <= 0:
                d.used[d.member[e, k]] = True
    _choose_listed(events, room, d)
    listed = _list_values(d)
    # Maximum number of additions and products of a probability, see above. Each errs by at most 2**-53, of which twice
    # is subtracted.
    additions = 2 * (steps + listed + MOST_ATOMS)
    for i in range(len(d.runs)):
        additions += 2 * d.runs[i] + 8
    loss = 2.0 * additions * 2.0**-53
    fair, unfair = 0.0, 0.0
    for e in range(events):
        if not d.live[e]:
            continue
        share = 1.0 if d.lead[e] < 0 else _count_event(e, listed, steps, loss, d)
        if not d.unfair[e]:
            fair += share
        # Shares of exclusive events add up. Otherwise only the largest counts.
        elif exclusive:
            unfair += share
        else:
            unfair = max(unfair, share)
    return min(fair, 1.0), min(unfair, 1.0)


@jit
def _choose_listed(events, room, d):
    """List the attributes in which the functions of an event differ most relative to their number of values."""
    axes = len(d.runs)
    d.listed[:] = False
    points = 1
    for _ in range(axes):
        best, chosen = 0.0, -1
        for i in range(axes):
            if d.listed[i] or d.runs[i] == 1 or points * d.runs[i] > room:
                continue
            # A listed attribute is not rounded to the grid, and loses nothing for the conditions that follow the lead.
            # It multiplies the number of joint values by its runs, so its benefit is measured per bit.
            benefit = 0.0
            for f in range(len(d.constant)):
                if d.used[f]:
                    benefit += 0.3 * (d.high[f, i] - d.low[f, i])
            for e in range(events):
                for k in range(d.size[e] if d.live[e] else 0):
                    g = d.member[e, k]
                    if d.least[g] <= 0 and g != d.lead[e]:
                        a, b = _difference_range(d, d.lead[e], g, i)
                        benefit += b - a
            benefit /= math.log2(d.runs[i])
            if benefit > best:
                best, chosen = benefit, i
        if chosen < 0:
            return
        d.listed[chosen] = True
        points *= d.runs[chosen]


@jit
def _difference_range(d, f, g, i):
    """Compute the smallest and largest excess of the terms of g over those of f along an attribute."""
    a, b = np.inf, -np.inf
    for v in range(d.at[i], d.at[i] + d.runs[i]):
        x = d.term[g, v] - d.term[f, v]
        a = min(a, x)
        b = max(b, x)
    return a, b


@jit
def _list_values(d):
    """Compute the sums and probabilities of all joint values of the listed attributes; return their number."""
    n = 1
    d.weight[0] = 1.0
    for f in range(len(d.constant)):
        d.partial[f, 0] = d.constant[f]
        for i in range(len(d.runs)):
            if d.runs[i] == 1:
                d.partial[f, 0] += d.term[f, d.at[i]]
    for i in range(len(d.runs)):
        if not d.listed[i]:
            continue
        # From the last value to the first, so that no entry is overwritten before it is read.
        for v in range(d.runs[i] - 1, -1, -1):
            chance = d.chance[d.at[i] + v]
            for k in range(n):
                d.weight[v * n + k] = d.weight[k] * chance
        for f in range(len(d.constant)):
            if d.used[f]:
                for v in range(d.runs[i] - 1, -1, -1):
                    x = d.term[f, d.at[i] + v]
                    for k in range(n):
                        d.partial[f, v * n + k] = d.partial[f, k] + x
        n *= d.runs[i]
    return n


@jit
def _make_table(f, steps, d):
    """Tabulate the tails of function f over the attributes that are not listed."""
    span, bottom = 0.0, 0.0
    for i in range(len(d.runs)):
        if not d.listed[i] and d.runs[i] > 1:
            bottom += d.low[f, i]
            span += d.high[f, i] - d.low[f, i]
    inverse = 0.0 if span <= 0 else steps / (span * (1 + 2.0**-40))
    current, shifted, hits = d.here, d.there, d.hits
    for i in range(len(d.runs)):
        d.waiting[i] = not d.listed[i] and d.runs[i] > 1
    # The narrowest attributes are joined first, so that all of them are rounded to the grid only once.
    atoms = 1
    d.value[0], d.chances[0] = 0.0, 1.0
    # Invariant: value[k] and chances[k], k < atoms, are the joint values above their least sum, and their chances.
    while True:
        i = _narrowest(d)
        if i < 0 or atoms * d.runs[i] > MOST_ATOMS:
            break
        d.waiting[i] = False
        for v in range(d.runs[i] - 1, -1, -1):
            x, p = d.term[f, d.at[i] + v] - d.low[f, i], d.chance[d.at[i] + v]
            for k in range(atoms):
                d.value[v * atoms + k] = d.value[k] + x
                d.chances[v * atoms + k] = d.chances[k] * p
        atoms *= d.runs[i]
    current[: steps + 2] = 0.0
    top = 0
    for k in range(atoms):
        j = int(d.value[k] * inverse)
        current[j] += d.chances[k]
        top = max(top, j)
    # Invariant: here[j], j <= top, is the probability that the rounded terms of the attributes so far sum to j steps.
    while True:
        i = _narrowest(d)
        if i < 0:
            break
        d.waiting[i] = False
        reach = 0
        for v in range(d.at[i], d.at[i] + d.runs[i]):
            j = int((d.term[f, v] - d.low[f, i]) * inverse)
            hits[j] += d.chance[v]
            reach = max(reach, j)
        shifted[: top + reach + 1] = 0.0
        for j in range(reach + 1):
            p = hits[j]
            if p != 0.0:
                hits[j] = 0.0
                for k in range(top + 1):
                    shifted[j + k] += p * current[k]
        top += reach
        current, shifted = shifted, current
    # Tails: table[j] = P(at least j steps), summed from above without subtractions.
    total = 0.0
    for j in range(steps + 1, top, -1):
        d.table[f, j] = 0.0
    for j in range(top, -1, -1):
        total += current[j]
        d.table[f, j] = total
    d.bottom[f] = bottom
    d.inverse[f] = inverse
    d.tabled[f] = True


@jit
def _narrowest(d):
    """Select the attribute with the fewest runs that is not in the table yet; -1 if there is none."""
    narrowest = -1
    for i in range(len(d.runs)):
        if d.waiting[i] and (narrowest < 0 or d.runs[i] < d.runs[narrowest]):
            narrowest = i
    return narrowest


@jit
def _tail(d, f, steps, x):
    """Bound from below the probability that the tabled attributes add more than x to function f."""
    # Terms were rounded down: with j steps on the grid, the sum is at least bottom + j * step, which exceeds x if j is
    # greater than (x - bottom) / step. The factor prevents rounding from selecting an earlier one.
    y = x - d.bottom[f]
    if y < 0:
        return d.table[f, 0]
    j = y * d.inverse[f] * (1 + 2.0**-45)
    if d.inverse[f] == 0.0 or j >= steps:
        return 0.0
    return d.table[f, int(j) + 1]


@jit
def _count_event(e, listed, steps, loss, d):
    """Compute a lower bound on the share of people with all functions of an event positive.

    ``loss`` bounds the relative error of all sums and products of probabilities.
    """
    lead, other, ahead, behind, followers = d.lead[e], -1, 0.0, 0.0, 0
    if not d.tabled[lead]:
        _make_table(lead, steps, d)
    needed = d.needed
    for c in range(listed):
        needed[c] = -d.partial[lead, c]
    # On the tabled attributes condition g exceeds the lead by ``gap`` at least and ``rise`` at most. So both hold where
    # these add more than max(-partial[lead], -partial[g] - gap) to the lead: one threshold per listed value.
    for k in range(d.size[e]):
        g = d.member[e, k]
        if g == lead or d.least[g] > 0:
            continue
        gap, rise, size = 0.0, 0.0, 0.0
        for i in range(len(d.runs)):
            if not d.listed[i] and d.runs[i] > 1:
                a, b = _difference_range(d, lead, g, i)
                gap += a
                rise += b
                size += abs(d.low[lead, i]) + abs(d.high[lead, i]) + abs(d.low[g, i]) + abs(d.high[g, i])
        gap -= LOSS * size
        rise += LOSS * size
        other, ahead, behind = g, gap, rise
        followers += 1
        for c in range(listed):
            needed[c] = max(needed[c], -d.partial[g, c] - gap)
    share = 0.0
    if followers != 1 or ahead == behind:
        for c in range(listed):
            share += d.weight[c] * _tail(d, lead, steps, needed[c])
        return share * (1 - loss)
    # With two conditions, use the best of three bounds: either condition leads, or each is counted separately, since
    # P(either fails) <= P(one fails) + P(other fails).
    if not d.tabled[other]:
        _make_table(other, steps, d)
    for c in range(listed):
        x, y = -d.partial[lead, c], -d.partial[other, c]
        # P(both) >= P(one) + P(other) - 1.
        lower = max(_tail(d, lead, steps, needed[c]), _tail(d, other, steps, max(y, x + behind)))
        separate = _tail(d, lead, steps, x) + _tail(d, other, steps, y) - 1.0 - 2 * loss
        share += d.weight[c] * max(lower, separate)
    return share * (1 - loss)
