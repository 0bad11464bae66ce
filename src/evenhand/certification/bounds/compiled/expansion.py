"""Bound boxes and then split them or prove their shares (compiled)."""

from __future__ import annotations

from evenhand.certification.bounds.compiled.events import (
    FAIR,
    OPEN,
    UNFAIR,
    clip_lane,
    collect_functions,
    decide_lane,
    plan_events,
    score_labels,
)
from evenhand.certification.bounds.compiled.functions import bound_lanes
from evenhand.certification.bounds.compiled.lanes import LANES
from evenhand.certification.bounds.compiled.relaxation import UNKNOWN
from evenhand.certification.bounds.compiled.shares import prove_shares
from evenhand.certification.bounds.compiled.splits import plan_splits, split_by_plan
from evenhand.core.kernels import compile_kernel

MAX_OPEN_SHARE = 0.9
"""Maximum estimate of the open share of a box from which cells were cut off: a proof may decide the rest."""

jit = compile_kernel(internal=True, nogil=True, error_model="numpy", boundscheck=False, _nrt=False)
compile_entry = compile_kernel(nogil=True, error_model="numpy", boundscheck=False, _nrt=False)


@compile_entry
def run_order(problem, work, d, stack, size, order, out, totals):
    """Prove the boxes on the stack if the order has a precision, else split them.

    One kernel for both, because they share nearly all of their code. Returns as ``refine_stack``.
    """
    if order.precision[0] > 0:
        prove_boxes(problem, work, d, stack, size, order, out)
        return 0, size
    return refine_stack(problem, work, stack, size, order, out, totals)


@jit
def refine_stack(problem, work, stack, size, order, out, totals):
    """Pop boxes from the stack, split them according to their plans, and sort their parts.

    A part goes back on the stack, of which ``size`` boxes are in use, while its estimated undecided mass exceeds
    ``order.threshold``, otherwise it is added to ``out``. Parts that are decided as a whole are counted in ``totals``
    (fair, unfair, boxes), and are also added to ``out`` if ``order.recording``. At most ``order.limit`` boxes are
    bounded.

    Returns:
        The number of boxes left on the stack, and the number of boxes in ``out``. Splitting stops before ``out``
        overflows.
    """
    net, roles, axes = problem.network, problem.roles, problem.axes
    b, s, events = work.lanes, work.relaxation, work.events
    threshold, limit, recording = order.threshold, order.limit, order.recording
    attributes = axes.first.shape[0]
    known_before, states = b.known.reshape(-1), b.states.reshape((-1, LANES))
    outputs = 0
    b.plain[0] = order.plain
    clipping = not recording and roles.labels == 2 and roles.demanded < 0 and roles.least == 2
    # Invariant: the boxes on the stack, in the output and in ``totals`` partition the initial boxes, so fair, unfair
    # and undecided mass always add up (FairQuant, Algorithms 1 and 4).
    while size > 0 and outputs + LANES <= out.open.shape[0] and size + LANES <= stack.low.shape[0]:
        if totals[2] + LANES > limit:
            break
        size -= 1
        count = split_by_plan(stack.low[size], stack.high[size], stack.plan[size], axes, not recording, b.lo, b.hi)
        for q in range(stack.state.shape[1]):
            known_before[q] = stack.state[size, q]
        bound_lanes(net, roles, axes, count, True, b, s)
        totals[2] += count
        for t in range(count):
            mass = b.mass[t]
            if mass <= 0 and not recording:
                continue
            # Boxes without mass need no decision, but a record contains them to cover the domain.
            kind = decide_lane(roles, t, b) if mass > 0 else OPEN
            for i in range(attributes):
                b.low[i] = int(b.lo[i, t])
                b.high[i] = int(b.hi[i, t])
            undecided = 0.0
            if kind != OPEN:
                totals[kind - 1] += mass
                if not recording:
                    continue
            elif mass > 0:
                # Estimated open share: the share outside of the disjoint events if sums were normal.
                score_labels(roles, t, b)
                undecided = mass * max(0.0, 1 - plan_events(roles, b, events))
                if clipping:
                    remaining = mass * clip_lane(net, roles, axes, t, b)
                    totals[0] += mass - remaining
                    mass = remaining
                    if mass <= 0:
                        continue
                    undecided = min(undecided, MAX_OPEN_SHARE * mass)
                if undecided > threshold:
                    plan_splits(t, b, stack.plan[size])
                    if stack.plan[size, 0] >= 0:
                        for i in range(attributes):
                            stack.low[size, i] = b.low[i]
                            stack.high[size, i] = b.high[i]
                        for q in range(stack.state.shape[1]):
                            stack.state[size, q] = states[q, t]
                        size += 1
                        continue
                plan_splits(t, b, out.plan[outputs])
            else:
                out.plan[outputs, 0] = -1
            for i in range(attributes):
                out.low[outputs, i] = b.low[i]
                out.high[outputs, i] = b.high[i]
            out.open[outputs] = undecided
            out.mass[outputs] = mass
            out.kind[outputs] = kind
            outputs += 1
    return size, outputs


@jit
def prove_boxes(problem, work, d, stack, size, order, out):
    """Bound the first boxes of the stack without splits, sixteen neighbours at a time, and prove their shares."""
    net, roles, axes = problem.network, problem.roles, problem.axes
    b, s, events = work.lanes, work.relaxation, work.events
    low, high = stack.low, stack.high
    grid, room = order.precision
    # Each share is a lower bound: 1 if the bounds decide the whole box, otherwise the proved shares of the disjoint
    # events.
    attributes = axes.first.shape[0]
    at = 0
    b.known[:] = UNKNOWN
    b.plain[0] = order.plain
    while at < size:
        count = min(LANES, size - at)
        # Unused lanes repeat the last box, which enlarges no hull and costs nothing.
        for t in range(LANES):
            for i in range(attributes):
                b.lo[i, t] = low[at + min(t, count - 1), i]
                b.hi[i, t] = high[at + min(t, count - 1), i]
        bound_lanes(net, roles, axes, count, False, b, s)
        for t in range(count):
            fair = 0.0
            unfair = 0.0
            kind = decide_lane(roles, t, b) if b.mass[t] > 0 else OPEN
            if kind == FAIR:
                fair = 1.0
            elif kind == UNFAIR:
                unfair = 1.0
            elif b.mass[t] > 0:
                for i in range(attributes):
                    b.low[i] = int(b.lo[i, t])
                    b.high[i] = int(b.hi[i, t])
                collect_functions(net, roles, attributes, t, b)
                score_labels(roles, t, b)
                plan_events(roles, b, events)
                prove_shares(events, b.low, b.high, b.chosen, axes, grid, room, d)
                for e in range(events.number[0]):
                    if events.unfair[e]:
                        unfair += d.share[e]
                    else:
                        fair += d.share[e]
            out.share[at + t, 0] = fair
            out.share[at + t, 1] = unfair
        at += count
