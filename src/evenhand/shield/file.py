"""Policy files: a synthesised shield on disk, with the plan it solves; see ``docs/reference/shield-file.md``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, isnan
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand import __version__
from evenhand.errors import DataError, OptionError
from evenhand.shield.config import described, plan_from
from evenhand.shield.container import pack, read_bytes, unpack, write_bytes
from evenhand.shield.greedy import Greedy
from evenhand.shield.plan import Plan
from evenhand.shield.policy import Actions, Policy
from evenhand.shield.separable import Separate
from evenhand.shield.synthesis.general import Listed
from evenhand.shield.tables import Packed, Thresholds, bits_for, row_start, state_start

Numbers: TypeAlias = NDArray[Any]
Stored: TypeAlias = tuple[Numbers, ...]

NUMBERS: Mapping[str, tuple[type, ...]] = {
    "expected_cost": (int, float),
    "states": (int,),
    "peak_bytes": (int,),
    "seconds": (int, float),
}
"""What a file says of its synthesis besides the plan, and the types of it: all 0 or more. What is unknown is null."""


def save(policy: Policy, path: str | Path) -> int:
    """Write a policy; ``load`` gives it back exactly.

    Returns:
        The bytes of the file.

    Raises:
        OptionError: it cannot be written; there is then no file half-written.
    """
    data = to_bytes(policy)
    write_bytes(data, Path(path))
    return len(data)


def load(path: str | Path) -> Policy:
    """Read a policy file. Nothing in it is ever run.

    Raises:
        DataError: it cannot be read, is no policy file, a newer one, or not whole.
    """
    return from_bytes(read_bytes(Path(path)), where=str(path))


def to_bytes(policy: Policy) -> bytes:
    """What ``save`` writes."""
    actions = policy.actions
    numbers = {name: getattr(policy, name) for name in NUMBERS}
    head = {
        "evenhand": __version__,
        "plan": described(policy.plan),
        **{name: None if isnan(number) else number for name, number in numbers.items()},
        "form": actions.form,
    }
    return pack(head, {f"{number}": array for number, array in enumerate(_stored(actions))})


def from_bytes(data: bytes, *, where: str = "policy") -> Policy:
    """The policy that ``to_bytes`` wrote; ``where`` it comes from is said in complaints.

    Raises:
        DataError: as for ``load``.
    """
    head, arrays = unpack(data, where=where)
    try:
        plan = plan_from(head["plan"], where=None)
        numbers = {name: _number(head[name], kinds) for name, kinds in NUMBERS.items()}
        actions = READ[head["form"]](plan, tuple(arrays.values()))
    except (KeyError, TypeError, ValueError, OptionError) as error:
        raise DataError(
            f"this policy file contradicts itself: {_reason(error)}",
            where=where,
            mend="synthesize the shield again: evenhand shield synthesize",
        ) from None
    return Policy(plan, actions, **numbers)


def _stored(actions: Actions) -> Stored:
    """The arrays that store a table of actions."""
    if isinstance(actions, Thresholds):
        return tuple(_steps(positions, actions.costs) for positions in actions.positions)
    if isinstance(actions, Packed):
        return actions.cells
    if isinstance(actions, Separate):
        return actions.tables
    if isinstance(actions, Greedy):
        return ()
    if isinstance(actions, Listed):
        sizes = np.array([len(states) for states in actions.states], dtype=np.int64)
        states = np.diff(np.concatenate(actions.states), prepend=0)
        return np.array(actions.strides, dtype=np.int64), sizes, states, np.concatenate(actions.levels, axis=1)
    raise TypeError(f"a table of actions in the form {actions.form!r} has no file")


def _steps(positions: Numbers, costs: int) -> Numbers:
    """Thresholds as differences between neighbouring rows, level by level: these pack into half the bytes."""
    by_level = positions.reshape(-1, 2 * costs).T
    return np.diff(by_level, axis=1, prepend=by_level.dtype.type(0))


def _positions(steps: Numbers) -> Numbers:
    """Thresholds again: sums that run over at the same places as the differences did."""
    return np.ascontiguousarray(np.cumsum(steps, axis=1, dtype=steps.dtype).T).reshape(-1)


def _thresholds(plan: Plan, stored: Stored) -> Actions:
    labelled, costs = plan.property.labelled, len(plan.inputs.costs)
    kind = np.uint8 if plan.horizon <= 255 else np.uint16
    _check(stored, 2, kind, (2 * costs, row_start(plan.horizon, labelled)))
    return Thresholds(plan.horizon, labelled, costs, (_positions(stored[0]), _positions(stored[1])))


def _packed(plan: Plan, stored: Stored) -> Actions:
    labelled, costs = plan.property.labelled, len(plan.inputs.costs)
    _check(stored, 2, np.uint8, (-(-state_start(plan.horizon, labelled) * bits_for(costs) // 8),))
    return Packed(plan.horizon, labelled, costs, (stored[0], stored[1]))


def _separate(plan: Plan, stored: Stored) -> Actions:
    _check(stored, len(plan.inputs.groups), np.int8, (row_start(plan.horizon, labelled=False),))
    return Separate(stored)


def _greedy(plan: Plan, stored: Stored) -> Actions:
    _check(stored, 0, np.uint8, ())
    return Greedy(plan.property, plan.start, len(plan.inputs.costs))


def _listed(plan: Plan, stored: Stored) -> Actions:
    groups = len(plan.inputs.groups)
    if [array.dtype.str for array in stored] != ["<i8", "<i8", "<i8", "|i1"]:
        raise ValueError("its lists of states are not those of its plan")
    strides, sizes, steps, levels = stored
    total = int(sizes.sum())
    _check((strides,), 1, np.int64, (2 * groups,))
    _check((sizes,), 1, np.int64, (plan.horizon,))
    _check((steps,), 1, np.int64, (total,))
    _check((levels,), 1, np.int8, (groups, total))
    if sizes.min() < 1:
        raise ValueError("at some time it has no states")
    ends = np.cumsum(sizes)[:-1]
    return Listed(
        tuple(strides.tolist()),
        tuple(np.ascontiguousarray(part) for part in np.split(np.cumsum(steps), ends)),
        tuple(np.ascontiguousarray(part) for part in np.split(levels, ends, axis=1)),
    )


READ: Mapping[str, Callable[[Plan, Stored], Actions]] = {
    "thresholds": _thresholds,
    "packed": _packed,
    "separate": _separate,
    "greedy": _greedy,
    "listed": _listed,
}
"""How a table of actions is read, by its form."""


def _check(stored: Stored, groups: int, kind: type[np.integer], shape: tuple[int, ...]) -> None:
    if len(stored) != groups:
        raise ValueError(f"it has tables for {len(stored)} groups, and its plan needs {groups}")
    for array in stored:
        if array.dtype != kind or array.shape != shape:
            raise ValueError(f"its table has the shape {array.shape}, and its plan needs {shape}")


def _number(given: Any, kinds: tuple[type, ...]) -> Any:
    """A number of a description; kinds are those that it may have, truth values not among them."""
    if given is None and float in kinds:
        return float("nan")
    if type(given) not in kinds or not isfinite(given) or given < 0:
        raise ValueError(f"{given!r} is not one of its numbers")
    return given


def _reason(error: Exception) -> str:
    if isinstance(error, OptionError):
        return f"{error.where}: {error.what}" if error.where else error.what
    return f"{error} is missing or unknown" if isinstance(error, KeyError) else str(error)
