"""Linear bounds of a ReLU network over sixteen boxes at once (compiled).

Backward linear relaxation (CROWN: Zhang et al., NeurIPS 2018; DeepPoly: Singh et al., POPL 2019): the output is bounded
from below and above by additive functions of the individual. Inner units are bounded by the same relaxation,
intersected with interval arithmetic, and widened by the pads of ``slack``.

Layout. ``columns`` holds what attributes add to the first units: one row for an attribute that enters along a line
(per position, ``reach`` positions wide), one row per cell for the others. Lanes are the last axis of every work array.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from evenhand.certify.lanes import (
    LANES,
    add,
    axpy,
    full,
    larger,
    load,
    multiply,
    multiply_add,
    smaller,
    store,
    subtract,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Without reference counts on views (``_nrt``), which would cost several times the arithmetic; so nothing is allocated.
jit = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, boundscheck=False, _nrt=False)


# Handing all the work arrays to a short function takes longer than what it does.
inlined = numba.njit(
    nogil=True, error_model="numpy", fastmath={"contract"}, boundscheck=False, _nrt=False, inline="always"
)

UNKNOWN, OFF, ON = 0, 1, 2
"""What is known of a unit in a whole box, and so in all its parts."""
HUGE = 1e100


class Network(NamedTuple):
    """The network in flat arrays; ``K`` hidden layers and the outputs, of at most ``m`` units each.

    ``sizes`` (K + 1,); ``columns`` (columns, m); ``start``, ``line``, ``reach`` per attribute; ``weights`` (K, m, m)
    and ``offsets`` (K, m) of the layer after each hidden one; ``pads`` (K, m); for the model's own rounding
    ``first_error`` (m,), ``gammas`` (K + 1,), ``bias_sizes`` (K, m), ``output_sizes`` (m, outputs) which bound the last
    weights as deployed, and ``last_pads`` (outputs,).
    """

    sizes: Ints
    columns: Floats
    start: Ints
    line: NDArray[np.bool_]
    reach: Floats
    weights: Floats
    offsets: Floats
    pads: Floats
    first_error: Floats
    gammas: Floats
    bias_sizes: Floats
    output_sizes: Floats
    last_pads: Floats


class Scratch(NamedTuple):
    """Work arrays of one thread.

    Per hidden layer and unit: ``zl``, ``zu`` its interval, ``slope`` and ``shift`` of the chord above its ReLU, the
    slopes ``adaptive`` and ``flat`` of the lines below it, ``gaps``; ``error`` (K + 1, m) in float32, for all lanes
    together; the units that are ``on`` in every lane, and those ``live`` that may be either, with their numbers
    ``always`` and ``mixed``.
    """

    zl: Floats
    zu: Floats
    error: Floats
    slope: Floats
    shift: Floats
    adaptive: Floats
    flat: Floats
    gaps: Floats
    live: Ints
    on: Ints
    mixed: Ints
    always: Ints
    wa: Floats
    wb: Floats
    coef: Floats
    const: Floats
    out: Floats
    middle: Floats
    half: Floats
    base_low: Floats
    base_high: Floats


def scratch(net: Network) -> Scratch:
    """Fresh work arrays for a network."""
    k, m = len(net.sizes) - 1, net.weights.shape[1]
    lanes = [np.zeros((k, m, LANES)) for _ in range(7)]
    return Scratch(
        zl=lanes[0],
        zu=lanes[1],
        error=np.zeros((k + 1, m)),
        slope=lanes[2],
        shift=lanes[3],
        adaptive=lanes[4],
        flat=lanes[5],
        gaps=lanes[6],
        live=np.zeros((k, m), np.int64),
        on=np.zeros((k, m), np.int64),
        mixed=np.zeros(k, np.int64),
        always=np.zeros(k, np.int64),
        wa=np.zeros((m, LANES)),
        wb=np.zeros((m, LANES)),
        coef=np.zeros((len(net.columns), LANES)),
        const=np.zeros((1, LANES)),
        out=np.zeros((1, LANES)),
        middle=np.zeros((len(net.start), LANES)),
        half=np.zeros((len(net.start), LANES)),
        base_low=np.zeros((m, LANES)),
        base_high=np.zeros((m, LANES)),
    )


@jit
def first_layer(net, lo, hi, s):
    """Interval of every first unit without its bias: exact for the box, attribute by attribute."""
    n, units = lo.shape[0], net.sizes[0]
    for i in range(n):
        a = multiply(full(0.5), load(lo, i))
        b = multiply(full(0.5), add(load(hi, i), full(net.reach[i])))
        store(s.middle, i, add(b, a))
        store(s.half, i, subtract(b, a))
    for h in range(units):
        middle = full(0.0)
        half = full(0.0)
        for i in range(n):
            if net.line[i]:
                x = net.columns[net.start[i], h]
                middle = axpy(x, load(s.middle, i), middle)
                half = axpy(abs(x), load(s.half, i), half)
        store(s.base_low, h, subtract(middle, half))
        store(s.base_high, h, add(middle, half))
    for i in range(n):
        if not net.line[i]:
            for t in range(LANES):
                a = net.start[i] + int(lo[i, t])
                b = net.start[i] + int(hi[i, t])
                for h in range(units):
                    x = net.columns[a, h]
                    y = x
                    for c in range(a + 1, b + 1):
                        z = net.columns[c, h]
                        x = min(x, z)
                        y = max(y, z)
                    s.base_low[h, t] += x
                    s.base_high[h, t] += y


@jit
def relax(k, net, s):
    """Widen the intervals of layer k, then draw the lines above and below each ReLU.

    Units that are off in every lane are left out, those on in every lane kept apart: they are lines already.
    """
    zl, zu, error = s.zl[k], s.zu[k], s.error[k]
    chord, shifts, adaptives, flats = s.slope[k], s.shift[k], s.adaptive[k], s.flat[k]
    mixed = 0
    always = 0
    for h in range(net.sizes[k]):
        pad = net.pads[k, h]
        alive = False
        sure = True
        for t in range(LANES):
            zl[h, t] -= pad
            zu[h, t] += pad
            alive = alive or zu[h, t] + error[h] > 0
            sure = sure and zl[h, t] >= 0
        if not alive:
            continue
        if sure:
            s.on[k, always] = h
            always += 1
            continue
        s.live[k, mixed] = h
        mixed += 1
        for t in range(LANES):
            low = zl[h, t]
            high = zu[h, t]
            slope = 0.0
            shift = 0.0
            adaptive = 0.0
            flat = 0.0
            if low >= 0:
                slope = 1.0
                adaptive = 1.0
                flat = 1.0
            elif high > 0:
                slope = high / (high - low)
                shift = -slope * low
                adaptive = 1.0 if high > -low else 0.0
            chord[h, t] = slope
            shifts[h, t] = shift
            adaptives[h, t] = adaptive
            flats[h, t] = flat
    s.mixed[k] = mixed
    s.always[k] = always


@inlined
def through_relu(k, s, below, up, weights):
    """Replace each mixed ReLU by its line above or below, as the sign of its weight asks for."""
    zero = full(0.0)
    live, slope, shift, least = s.live[k], s.slope[k], s.shift[k], below[k]
    const = load(s.const, 0)
    for q in range(s.mixed[k]):
        h = live[q]
        x = load(weights, h)
        if up:
            chord = larger(x, zero)
            rest = smaller(x, zero)
        else:
            chord = smaller(x, zero)
            rest = larger(x, zero)
        store(weights, h, multiply_add(chord, load(slope, h), multiply(rest, load(least, h))))
        const = multiply_add(chord, load(shift, h), const)
    store(s.const, 0, const)


@inlined
def to_attributes(net, bias, held_low, held_high, s, weights):
    """A combination of first units as an additive function of the individual, into ``coef`` and ``const``."""
    mixed, always = s.mixed[0], s.always[0]
    const = load(s.const, 0)
    for q in range(mixed + always):
        h = s.live[0, q] if q < mixed else s.on[0, q - mixed]
        const = axpy(bias[h], load(weights, h), const)
    store(s.const, 0, const)
    for i in range(net.line.shape[0]):
        a = net.start[i]
        b = a + 1
        if not net.line[i]:
            a = net.start[i] + held_low[i]
            b = net.start[i] + held_high[i] + 1
        for c in range(a, b):
            x = full(0.0)
            for q in range(mixed):
                h = s.live[0, q]
                x = axpy(net.columns[c, h], load(weights, h), x)
            for q in range(always):
                h = s.on[0, q]
                x = axpy(net.columns[c, h], load(weights, h), x)
            store(s.coef, c, x)


@jit
def backward(k, j, up, below, net, bias, held_low, held_high, s):
    """Unit j of layer k (the output is layer K) as an additive function: below it, or above with ``up``.

    In the first step, units that are on in every lane have one weight for all of them: their part is summed once.
    """
    m = k - 1
    mixed, always = s.mixed[m], s.always[m]
    constant = net.offsets[m, j]
    store(s.const, 0, full(0.0))
    for q in range(mixed):
        h = s.live[m, q]
        store(s.wa, h, full(net.weights[m, h, j]))
    through_relu(m, s, below, up, s.wa)
    if m == 0:
        for q in range(always):
            h = s.on[0, q]
            constant += bias[h] * net.weights[0, h, j]
        const = add(load(s.const, 0), full(constant))
        for q in range(mixed):
            h = s.live[0, q]
            const = axpy(bias[h], load(s.wa, h), const)
        store(s.const, 0, const)
        for i in range(net.line.shape[0]):
            a = net.start[i]
            b = a + 1
            if not net.line[i]:
                a = net.start[i] + held_low[i]
                b = net.start[i] + held_high[i] + 1
            for c in range(a, b):
                shared = 0.0
                for q in range(always):
                    h = s.on[0, q]
                    shared += net.columns[c, h] * net.weights[0, h, j]
                x = full(shared)
                for q in range(mixed):
                    h = s.live[0, q]
                    x = axpy(net.columns[c, h], load(s.wa, h), x)
                store(s.coef, c, x)
        return
    for q in range(always):
        r = s.on[m, q]
        constant += net.offsets[m - 1, r] * net.weights[m, r, j]
    const = add(load(s.const, 0), full(constant))
    for q in range(mixed):
        r = s.live[m, q]
        const = axpy(net.offsets[m - 1, r], load(s.wa, r), const)
    store(s.const, 0, const)
    for z in range(s.mixed[m - 1] + s.always[m - 1]):
        h = s.live[m - 1, z] if z < s.mixed[m - 1] else s.on[m - 1, z - s.mixed[m - 1]]
        shared = 0.0
        for q in range(always):
            r = s.on[m, q]
            shared += net.weights[m - 1, h, r] * net.weights[m, r, j]
        x = full(shared)
        for q in range(mixed):
            r = s.live[m, q]
            x = axpy(net.weights[m - 1, h, r], load(s.wa, r), x)
        store(s.wb, h, x)
    here, there = s.wb, s.wa
    for layer in range(m - 1, -1, -1):
        through_relu(layer, s, below, up, here)
        if layer == 0:
            to_attributes(net, bias, held_low, held_high, s, here)
        else:
            one_layer_down(layer, net, s, here, there)
            here, there = there, here


@inlined
def one_layer_down(k, net, s, here, there):
    """Weights on layer k's pre-activations as weights on layer k - 1's activations."""
    mixed, always = s.mixed[k], s.always[k]
    const = load(s.const, 0)
    for q in range(mixed + always):
        r = s.live[k, q] if q < mixed else s.on[k, q - mixed]
        const = axpy(net.offsets[k - 1, r], load(here, r), const)
    store(s.const, 0, const)
    for z in range(s.mixed[k - 1] + s.always[k - 1]):
        h = s.live[k - 1, z] if z < s.mixed[k - 1] else s.on[k - 1, z - s.mixed[k - 1]]
        x = full(0.0)
        for q in range(mixed):
            r = s.live[k, q]
            x = axpy(net.weights[k - 1, h, r], load(here, r), x)
        for q in range(always):
            r = s.on[k, q]
            x = axpy(net.weights[k - 1, h, r], load(here, r), x)
        store(there, h, x)


@inlined
def extreme(net, lo, hi, up, s):
    """The largest (``up``) or smallest value of the additive function over each box, into ``out``."""
    zero = full(0.0)
    x = load(s.const, 0)
    for i in range(lo.shape[0]):
        if net.line[i]:
            c = load(s.coef, net.start[i])
            a = load(lo, i)
            b = add(load(hi, i), full(net.reach[i]))
            positive = larger(c, zero)
            negative = smaller(c, zero)
            if up:
                x = multiply_add(positive, b, multiply_add(negative, a, x))
            else:
                x = multiply_add(positive, a, multiply_add(negative, b, x))
    store(s.out, 0, x)
    for i in range(lo.shape[0]):
        if not net.line[i]:
            for t in range(LANES):
                y = s.coef[net.start[i] + int(lo[i, t]), t]
                for c in range(net.start[i] + int(lo[i, t]) + 1, net.start[i] + int(hi[i, t]) + 1):
                    y = max(y, s.coef[c, t]) if up else min(y, s.coef[c, t])
                s.out[0, t] += y


@jit
def inner_bounds(net, bias, lo, hi, held_low, held_high, known, s):
    """Intervals and relaxations of every hidden unit, layer by layer; float32 errors, those of the outputs last.

    ``known`` (K, m): units that are OFF or ON in boxes around all of these need no bounds of their own.
    """
    zero = full(0.0)
    depth = net.sizes.shape[0] - 1
    for h in range(net.sizes[0]):
        x = full(bias[h])
        store(s.zl[0], h, add(load(s.base_low, h), x))
        store(s.zu[0], h, add(load(s.base_high, h), x))
        s.error[0, h] = net.first_error[h]
    relax(0, net, s)
    for k in range(1, depth + 1):
        errors(k, net, s)
        if k == depth:
            return
        below, above = s.zl[k - 1], s.zu[k - 1]
        mixed, always = s.mixed[k - 1], s.always[k - 1]
        zl, zu = s.zl[k], s.zu[k]
        live, on = s.live[k - 1], s.on[k - 1]
        for q in range(mixed + always):
            h = live[q] if q < mixed else on[q - mixed]
            x = multiply(full(0.5), larger(load(below, h), zero))
            y = multiply(full(0.5), larger(load(above, h), zero))
            store(s.wa, h, add(y, x))
            store(s.wb, h, subtract(y, x))
        for j in range(net.sizes[k]):
            if known[k, j] == OFF:
                store(zl, j, full(-HUGE))
                store(zu, j, full(-HUGE))
                continue
            # Middle and half width of the sum: signs of weights, which no processor can guess, need no branch.
            middle = full(net.offsets[k - 1, j])
            half = zero
            for q in range(mixed):
                h = live[q]
                w = net.weights[k - 1, h, j]
                middle = axpy(w, load(s.wa, h), middle)
                half = axpy(abs(w), load(s.wb, h), half)
            for q in range(always):
                h = on[q]
                w = net.weights[k - 1, h, j]
                middle = axpy(w, load(s.wa, h), middle)
                half = axpy(abs(w), load(s.wb, h), half)
            low = subtract(middle, half)
            high = add(middle, half)
            if known[k, j] == ON:
                low = larger(low, full(net.pads[k, j]))
            store(zl, j, low)
            store(zu, j, high)
        for j in range(net.sizes[k]):
            if known[k, j] == UNKNOWN and crossing(zl, zu, j):
                backward(k, j, False, s.adaptive, net, bias, held_low, held_high, s)
                extreme(net, lo, hi, False, s)
                store(zl, j, larger(load(zl, j), load(s.out, 0)))
                if crossing(zl, zu, j):
                    backward(k, j, True, s.adaptive, net, bias, held_low, held_high, s)
                    extreme(net, lo, hi, True, s)
                    store(zu, j, smaller(load(zu, j), load(s.out, 0)))
        relax(k, net, s)


@jit
def note_states(net, p, passes, t, s, state):
    """Which units of the layers after the first are off or on in lane t, two bits each; pass p of so many."""
    at = 0
    for k in range(1, net.sizes.shape[0] - 1):
        at += net.sizes[k]
    at *= p
    for k in range(1, net.sizes.shape[0] - 1):
        zl, zu, error = s.zl[k], s.zu[k], s.error[k]
        for j in range(net.sizes[k]):
            x = UNKNOWN
            if zl[j, t] >= 0:
                x = ON
            elif zu[j, t] + error[j] <= 0:
                x = OFF
            if at & 3 == 0:
                state[at >> 2] = 0
            state[at >> 2] |= x << (2 * (at & 3))
            at += 1


@jit
def read_states(net, passes, state, first, known):
    """Unpack what ``note_states`` packed into ``known`` (passes, K, m); unless ``first``, keep what agrees with it."""
    at = 0
    for p in range(passes):
        for k in range(1, net.sizes.shape[0] - 1):
            for j in range(net.sizes[k]):
                x = (state[at >> 2] >> (2 * (at & 3))) & 3
                if first:
                    known[p, k, j] = x
                elif known[p, k, j] != x:
                    known[p, k, j] = UNKNOWN
                at += 1


@jit
def errors(k, net, s):
    """Float32 errors of layer k's sums from those of the layer before (see ``slack.Slack.after``), for all lanes."""
    gamma = net.gammas[k]
    error, above = s.error[k], s.zu[k - 1]
    mixed, always = s.mixed[k - 1], s.always[k - 1]
    for j in range(net.sizes[k]):
        error[j] = gamma * net.bias_sizes[k - 1, j]
    for q in range(mixed + always):
        h = s.live[k - 1, q] if q < mixed else s.on[k - 1, q - mixed]
        e = s.error[k - 1, h]
        u = above[h, 0]
        for t in range(1, LANES):
            u = max(u, above[h, t])
        passed = max(min(e, u + e), 0.0)
        carried = passed + gamma * (max(u, 0.0) + passed)
        weights = net.output_sizes[h] if k == net.sizes.shape[0] - 1 else net.weights[k - 1, h]
        for j in range(net.sizes[k]):
            error[j] += abs(weights[j]) * carried


@inlined
def crossing(zl, zu, j):
    """Whether unit j may be on or off in some lane."""
    found = False
    for t in range(LANES):
        found = found or (zl[j, t] < 0 and zu[j, t] > 0)
    return found


@jit
def split_scores(net, lo, hi, s, score):
    """Add to ``score`` (attributes, lanes) how much of the relaxation gap each attribute's width accounts for.

    A unit's gap is the height of its relaxation times how far the outputs can move with it (absolute weights through
    the slopes); an attribute's part is its own share of the width of the unit's pre-activation.
    """
    depth = net.sizes.shape[0] - 1
    k = depth - 1
    for q in range(s.mixed[k] + s.always[k]):
        h = s.live[k, q] if q < s.mixed[k] else s.on[k, q - s.mixed[k]]
        weight = 0.0
        for j in range(net.sizes[depth]):
            weight += abs(net.weights[k, h, j])
        store(s.wa, h, full(weight))
    here, there = s.wa, s.wb
    for k in range(depth - 1, -1, -1):
        for q in range(s.mixed[k]):
            h = s.live[k, q]
            for t in range(LANES):
                low = s.zl[k, h, t]
                high = s.zu[k, h, t]
                v = here[h, t] * s.slope[k, h, t]
                here[h, t] = v
                s.gaps[k, h, t] = v * (-low) / (high - low) if low < 0 and high > 0 else 0.0
        if k > 0:
            absolute_down(k, net, s, here, there)
            here, there = there, here
    # The gaps of all layers, gathered at the first: gap per unit of width of each first unit.
    k = depth - 1
    for q in range(s.mixed[k]):
        h = s.live[k, q]
        store(here, h, load(s.gaps[k], h))
    for q in range(s.always[k]):
        store(here, s.on[k, q], full(0.0))
    for k in range(depth - 1, 0, -1):
        absolute_down(k, net, s, here, there)
        for q in range(s.mixed[k - 1]):
            h = s.live[k - 1, q]
            store(there, h, multiply_add(load(there, h), load(s.slope[k - 1], h), load(s.gaps[k - 1], h)))
        here, there = there, here
    for i in range(lo.shape[0]):
        for q in range(s.mixed[0] + s.always[0]):
            h = s.live[0, q] if q < s.mixed[0] else s.on[0, q - s.mixed[0]]
            if net.line[i]:
                width = subtract(load(hi, i), load(lo, i))
                gap = multiply(load(here, h), width)
                store(score, i, axpy(abs(net.columns[net.start[i], h]), gap, load(score, i)))
            else:
                for t in range(LANES):
                    a = net.start[i] + int(lo[i, t])
                    x = net.columns[a, h]
                    y = x
                    for c in range(a + 1, net.start[i] + int(hi[i, t]) + 1):
                        x = min(x, net.columns[c, h])
                        y = max(y, net.columns[c, h])
                    score[i, t] += (y - x) * here[h, t]


@jit
def absolute_down(k, net, s, here, there):
    """As ``one_layer_down``, with absolute weights and without constants."""
    for z in range(s.mixed[k - 1] + s.always[k - 1]):
        h = s.live[k - 1, z] if z < s.mixed[k - 1] else s.on[k - 1, z - s.mixed[k - 1]]
        x = full(0.0)
        for q in range(s.mixed[k] + s.always[k]):
            r = s.live[k, q] if q < s.mixed[k] else s.on[k, q - s.mixed[k]]
            x = axpy(abs(net.weights[k - 1, h, r]), load(here, r), x)
        store(there, h, x)
