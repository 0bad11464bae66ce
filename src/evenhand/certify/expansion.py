"""Bound boxes, then split them or prove their shares (compiled): what ``linear`` drives."""

from __future__ import annotations

import numba

from evenhand.certify.events import FAIR, OPEN, UNFAIR, likely, pick, plan_events, verdict
from evenhand.certify.functions import evaluate
from evenhand.certify.lanes import LANES
from evenhand.certify.relaxation import read_states
from evenhand.certify.shares import prove
from evenhand.certify.splitting import grandchildren, make_plan

jit = numba.njit(cache=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)


@jit
def refine(
    net, roles, axes, b, s, events, box_low, box_high, box_state, plan, size, threshold, limit, recording, out_low,
    out_high, out_state, out_plan, out_open, out_mass, out_kind, totals,
):  # fmt: skip
    """Take boxes off the stack, split them by their plans, and sort their parts.

    The stack is the first ``size`` entries of ``box_low, box_high, box_state, plan``. A part goes back on it while its
    estimated undecided mass exceeds ``threshold``, else into the output. Parts decided as a whole are counted in
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
                for e in range(events.number[0]):
                    if events.unfair[e]:
                        unfair += d.share[e]
                    else:
                        fair += d.share[e]
            out_fair[at + t] = fair
            out_unfair[at + t] = unfair
        at += count
