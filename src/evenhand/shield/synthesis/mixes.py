"""The step of one group: what is expected of it, by the level that is best."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.shield.inputs import Inputs

Floats = NDArray[np.float64]

TOLERANCE = 1e-9
"""Of the largest cost: a gain that exceeds a cost by less is a tie, and the recommendation is followed."""
FORBIDDEN = 1e300
"""Only a gain that is infinite exceeds it."""


class Mix(NamedTuple):
    """The expected value of a group's step, by the level that is best: linear in the values after either decision.

    Attributes:
        rises: (2 costs,), the gain in accepting above which the level is one more.
        accept, reject: (2 costs + 1,), probability that the group comes and the decision is this.
        cost: (2 costs + 1,), expected cost of the overrides.
        single: the cost, if it is one and overriding is a matter of cost; otherwise -1.
    """

    rises: Floats
    accept: Floats
    reject: Floats
    cost: Floats
    single: float


def mix_of(inputs: Inputs, group: int, tolerance: float) -> Mix:
    """The piecewise linear mix of a group's step over its recommendations and costs, see `Mix`."""
    costs = np.array(inputs.costs)
    rejected, accepted = inputs.joint()[group]
    total = rejected.sum() + accepted.sum()
    # At level k the k cheapest of those recommended to be rejected are accepted, at level -k likewise.
    up = np.concatenate([[0.0], np.cumsum(rejected)])
    up_cost = np.concatenate([[0.0], np.cumsum(rejected * costs)])
    down = np.concatenate([[0.0], np.cumsum(accepted)])
    down_cost = np.concatenate([[0.0], np.cumsum(accepted * costs)])
    accept = np.concatenate([accepted.sum() - down[:0:-1], accepted.sum() + up])
    accept[0], accept[-1] = 0.0, total
    # Not as total - accept: what is improbable but possible must not be rounded to 0, see `IMPOSSIBLE`.
    reject = np.concatenate([rejected.sum() + down[:0:-1], rejected.sum() - up])
    reject[0], reject[-1] = total, 0.0
    return Mix(
        rises=np.concatenate([-costs[::-1] - tolerance, costs + tolerance]),
        accept=accept,
        reject=reject,
        cost=np.concatenate([down_cost[:0:-1], up_cost]),
        single=float(costs[0]) if len(costs) == 1 else -1.0,
    )


def forced(mix: Mix) -> Mix:
    """The same where nothing is worth an override but an end that is forbidden."""
    count = len(mix.rises) // 2
    return mix._replace(rises=np.repeat([-FORBIDDEN, FORBIDDEN], count), single=-1.0)
