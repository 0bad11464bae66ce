"""Policy files: a synthesised shield on disk, with the plan it solves; see ``docs/reference/shield-file.md``."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from math import comb, isfinite, isnan, prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand import __version__
from evenhand.core.files import write_atomically
from evenhand.errors import DataError, OptionError
from evenhand.shields.policy.nudging import NudgedTable
from evenhand.shields.policy.periodic import GreedyRule
from evenhand.shields.policy.policy import ActionTable, ShieldPolicy
from evenhand.shields.policy.tables import PackedTable, ThresholdTable, bits_for, row_start, state_start
from evenhand.shields.spec.configuration import plan_from_mapping, plan_to_mapping
from evenhand.shields.spec.plan import ShieldPlan
from evenhand.shields.synthesis.general import ReachableTable
from evenhand.shields.synthesis.separable import SeparableTable

Numbers: TypeAlias = NDArray[Any]
StoredArrays: TypeAlias = tuple[Numbers, ...]

NUMBER_TYPES: Mapping[str, tuple[type, ...]] = {
    "expected_cost": (int, float),
    "states": (int,),
    "peak_bytes": (int,),
    "seconds": (int, float),
}
"""What a file says of its synthesis besides the plan, and the types of it: all 0 or more. What is unknown is null."""


def save_policy(policy: ShieldPolicy, path: str | Path) -> int:
    """Write a policy; ``load_policy`` gives it back exactly.

    Returns:
        The bytes of the file.

    Raises:
        OptionError: it cannot be written; there is then no file half-written.
    """
    data = policy_to_bytes(policy)
    try:
        write_atomically(Path(path), data)
    except OSError as error:
        raise OptionError(f"the policy cannot be written: {error.strerror or error}", location=str(path)) from None
    return len(data)


def load_policy(path: str | Path) -> ShieldPolicy:
    """Read a policy file. Nothing in it is ever run.

    Raises:
        DataError: it cannot be read, is not a policy file, a newer one, or not whole.
    """
    return policy_from_bytes(read_policy_bytes(path), location=str(path))


def policy_to_bytes(policy: ShieldPolicy) -> bytes:
    """Return what ``policy_to_bytes`` and ``save_policy`` write."""
    actions = policy.actions
    numbers = {name: getattr(policy, name) for name in NUMBER_TYPES}
    head = {
        "evenhand": __version__,
        "plan": plan_to_mapping(policy.plan),
        **{name: None if isnan(number) else number for name, number in numbers.items()},
        "form": actions.form,
    }
    return pack_container(head, {f"{number}": array for number, array in enumerate(_arrays_of_table(actions))})


def policy_from_bytes(data: bytes, *, location: str = "policy") -> ShieldPolicy:
    """Return the policy that ``policy_to_bytes`` wrote; ``where`` it comes from is said in complaints.

    Raises:
        DataError: as for ``load_policy``.
    """
    head, arrays = unpack_container(data, location=location)
    try:
        plan = plan_from_mapping(head["plan"], location=None)
        numbers = {name: _read_number(head[name], kinds) for name, kinds in NUMBER_TYPES.items()}
        actions = _read_table(head["form"], plan, tuple(arrays.values()))
    except (KeyError, TypeError, ValueError, OptionError) as error:
        raise DataError(
            f"this policy file contradicts itself: {_describe_error(error)}",
            location=location,
            hint="synthesize the shield again: evenhand shield synthesize",
        ) from None
    return ShieldPolicy(plan, actions, **numbers)


def _read_table(form: str, plan: ShieldPlan, stored: StoredArrays) -> ActionTable:
    """Return a table by the name of its form; nudges are drawn as the plan says."""
    if plan.nudging is None:
        return TABLE_READERS[form](plan, stored)
    nudged, _, below = str(form).partition(" ")
    if nudged != "nudged" or bool(below) != plan.nudging.filter:
        raise ValueError(f"its form is {form}, and its plan is of kind energy")
    if below:
        return NudgedTable.of(plan, TABLE_READERS[below](plan, stored))
    _check_arrays(stored, 0, np.uint8, ())
    return NudgedTable.of(plan, None)


def _arrays_of_table(actions: ActionTable) -> StoredArrays:
    """Return the arrays that store a table of actions."""
    if isinstance(actions, ThresholdTable):
        return tuple(_encode_thresholds(positions, actions.costs) for positions in actions.positions)
    if isinstance(actions, PackedTable):
        return actions.cells
    if isinstance(actions, SeparableTable):
        return actions.tables
    if isinstance(actions, GreedyRule):
        return ()
    if isinstance(actions, NudgedTable):
        return () if actions.base is None else _arrays_of_table(actions.base)
    if isinstance(actions, ReachableTable):
        sizes = np.array([len(states) for states in actions.states], dtype=np.int64)
        states = np.diff(np.concatenate(actions.states), prepend=0)
        return np.array(actions.strides, dtype=np.int64), sizes, states, np.concatenate(actions.levels, axis=1)
    raise TypeError(f"a table of actions in the form {actions.form!r} has no file")


def _encode_thresholds(positions: Numbers, costs: int) -> Numbers:
    """Return thresholds as differences between neighbouring rows, level by level: these pack into half the bytes."""
    by_level = positions.reshape(-1, 2 * costs).T
    return np.diff(by_level, axis=1, prepend=by_level.dtype.type(0))


def _decode_thresholds(steps: Numbers) -> Numbers:
    """Return the thresholds again: sums that run over at the same places as the differences did."""
    return np.ascontiguousarray(np.cumsum(steps, axis=1, dtype=steps.dtype).T).reshape(-1)


def _read_thresholds(plan: ShieldPlan, stored: StoredArrays) -> ActionTable:
    labelled, costs = plan.property.labelled, len(plan.inputs.costs)
    kind = np.uint8 if plan.horizon <= 255 else np.uint16
    _check_arrays(stored, 2, kind, (2 * costs, row_start(plan.horizon, labelled)))
    positions = (_decode_thresholds(stored[0]), _decode_thresholds(stored[1]))
    for each in positions:
        rows = each.reshape(-1, 2 * costs)
        if (rows[:, 1:] < rows[:, :-1]).any():
            raise ValueError("its thresholds do not ascend")
    return ThresholdTable(plan.horizon, labelled, costs, positions)


def _read_packed(plan: ShieldPlan, stored: StoredArrays) -> ActionTable:
    labelled, costs = plan.property.labelled, len(plan.inputs.costs)
    _check_arrays(stored, 2, np.uint8, (-(-state_start(plan.horizon, labelled) * bits_for(costs) // 8),))
    bits = bits_for(costs)
    for cells in stored:
        for shift in range(0, 8, bits):
            _check_levels((cells >> shift) & ((1 << bits) - 1), 0, 2 * costs)
    return PackedTable(plan.horizon, labelled, costs, (stored[0], stored[1]))


def _read_separable(plan: ShieldPlan, stored: StoredArrays) -> ActionTable:
    _check_arrays(stored, len(plan.inputs.groups), np.int8, (row_start(plan.horizon, labelled=False),))
    for levels in stored:
        _check_levels(levels, -len(plan.inputs.costs), len(plan.inputs.costs))
    return SeparableTable(stored)


def _read_greedy(plan: ShieldPlan, stored: StoredArrays) -> ActionTable:
    _check_arrays(stored, 0, np.uint8, ())
    return GreedyRule(plan.property, plan.start, len(plan.inputs.costs))


def _read_reachable(plan: ShieldPlan, stored: StoredArrays) -> ActionTable:
    groups = len(plan.inputs.groups)
    if [array.dtype.str for array in stored] != ["<i8", "<i8", "<i8", "|i1"]:
        raise ValueError("its lists of states are not those of its plan")
    strides, sizes, steps, levels = stored
    total = int(sizes.sum())
    _check_arrays((strides,), 1, np.int64, (2 * groups,))
    _check_arrays((sizes,), 1, np.int64, (plan.horizon,))
    _check_arrays((steps,), 1, np.int64, (total,))
    _check_arrays((levels,), 1, np.int8, (groups, total))
    if sizes.min() < 1:
        raise ValueError("at some time it has no states")
    _check_levels(levels, -len(plan.inputs.costs), len(plan.inputs.costs))
    ends = np.cumsum(sizes)[:-1]
    states = tuple(np.ascontiguousarray(part) for part in np.split(np.cumsum(steps), ends))
    _check_listed_states(plan, strides, states)
    return ReachableTable(
        tuple(strides.tolist()), states, tuple(np.ascontiguousarray(part) for part in np.split(levels, ends, axis=1))
    )


def _check_listed_states(plan: ShieldPlan, strides: Numbers, states: StoredArrays) -> None:
    """Check that exactly the states are listed that the counters can be in, in their order."""
    groups, extent = len(plan.inputs.groups), plan.horizon + 1
    if strides.tolist() != [extent**power for power in range(2 * groups)]:
        raise ValueError("the numbers of its states are not those of its plan")
    # A state's number has the counters as digits in base horizon + 1. There are as many states as ways to part t
    # decisions (with labels, t at most) into accepted and rejected of every group.
    labelled = plan.property.labelled
    for t, listed in enumerate(states):
        counters = listed[:, None] // strides % extent
        seen, accepted = counters[:, ::2], counters[:, 1::2]
        total = seen.sum(axis=1)
        possible = (accepted <= seen).all() and (total <= t if labelled else total == t).all()
        whole = len(listed) == comb(t + 2 * groups - (not labelled), 2 * groups - (not labelled))
        ascending = listed[0] >= 0 and bool((np.diff(listed) > 0).all()) and listed[-1] < extent ** (2 * groups)
        if not (possible and whole and ascending):
            raise ValueError(f"its states after {t} decisions are not those that the counters can be in")


TABLE_READERS: Mapping[str, Callable[[ShieldPlan, StoredArrays], ActionTable]] = {
    "thresholds": _read_thresholds,
    "packed": _read_packed,
    "separate": _read_separable,
    "greedy": _read_greedy,
    "listed": _read_reachable,
}
"""How a table of actions is read, by its form."""


def _check_arrays(stored: StoredArrays, groups: int, kind: type[np.integer], shape: tuple[int, ...]) -> None:
    if len(stored) != groups:
        raise ValueError(f"it has tables for {len(stored)} groups, and its plan needs {groups}")
    for array in stored:
        if array.dtype != kind or array.shape != shape:
            raise ValueError(f"its table has the shape {array.shape}, and its plan needs {shape}")


def _check_levels(levels: Numbers, lowest: int, highest: int) -> None:
    if levels.size and (levels.min() < lowest or levels.max() > highest):
        raise ValueError(f"its levels are not all between {lowest} and {highest}, as its costs need")


def _read_number(given: Any, kinds: tuple[type, ...]) -> Any:
    """Return a number of a description; kinds are those that it may have, truth values not among them."""
    if given is None and float in kinds:
        return float("nan")
    if type(given) not in kinds or not isfinite(given) or given < 0:
        raise ValueError(f"{given!r} is not one of its numbers")
    return given


def _describe_error(error: Exception) -> str:
    if isinstance(error, OptionError):
        return f"{error.location}: {error.message}" if error.location else error.message
    return f"{error} is missing or unknown" if isinstance(error, KeyError) else str(error)


# The container of a policy file: readable JSON, packed arrays of numbers, and a checksum over everything.
#
# The layout is described in ``docs/reference/shield-file.md``. Reading never runs anything: JSON and plain numbers are
# all that there is.


MAGIC = b"EVENHAND shield "
VERSION = 1
CHECKSUM_BYTES = hashlib.sha256().digest_size
ARRAY_TYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
"""Numbers that a file may hold, as NumPy writes their types."""
MAX_COMPRESSION_RATIO = 1040
"""zlib packs no more bytes than so many into one: an array that claims more was never written."""

Arrays = Mapping[str, NDArray[Any]]


def pack_container(head: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes of a file that holds a description and arrays; ``unpack_container`` gives both back exactly.

    Args:
        head: anything that JSON can hold, without the keys ``arrays``.
        arrays: by name; numbers of the types in ``ARRAY_TYPES``, in either byte order.
    """
    listed, parts = [], []
    for name, array in arrays.items():
        kind = array.dtype.newbyteorder("<").str
        if kind not in ARRAY_TYPES:
            raise TypeError(f"the array {name!r} holds {array.dtype}, which a policy file does not")
        packed = zlib.compress(np.ascontiguousarray(array, dtype=kind).tobytes(), 6)
        listed.append({"name": name, "type": kind, "shape": list(array.shape), "bytes": len(packed)})
        parts.append(packed)
    text = json.dumps({**head, "arrays": listed}, ensure_ascii=True, allow_nan=False).encode("ascii")
    body = b"".join([MAGIC, b"%d\n" % VERSION, text, b"\n", *parts])
    return body + hashlib.sha256(body).digest()


def unpack_container(data: bytes, *, location: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the description and the arrays of ``pack_container``.

    Args:
        data: the whole file.
        location: what to call the file in a complaint.

    Raises:
        DataError: it is not a policy file, a newer one, cut short, or anything in it was altered.
    """
    start = _description_start(data, location)
    end = data.find(b"\n", start)
    head = _parse_description(data[start:end]) if end >= 0 else None
    listed = head.get("arrays") if head is not None else None
    expected = _expected_length(end + 1, listed)
    if head is None or expected is None:
        raise _damaged_file_error("its description cannot be read: it was cut short or altered", location)
    if len(data) < expected:
        raise _damaged_file_error(f"it was cut short: {len(data):,} of {expected:,} bytes are there", location)
    if len(data) > expected:
        raise _damaged_file_error(f"{len(data) - expected:,} bytes follow its end", location)
    body, checksum = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
    if hashlib.sha256(body).digest() != checksum:
        raise _damaged_file_error("it was altered: its checksum does not fit", location)
    arrays, at = {}, end + 1
    for one in head.pop("arrays"):
        arrays[one["name"]] = _unpack_array(one, body[at : at + one["bytes"]], location)
        at += one["bytes"]
    return head, arrays


def read_policy_bytes(path: str | Path) -> bytes:
    """Return the bytes of a policy file.

    Raises:
        DataError: it cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise DataError(
            f"the policy file cannot be read: {error.strerror or error}",
            location=str(path),
            hint="`evenhand shield synthesize` makes one",
        ) from None


def _description_start(data: bytes, location: str) -> int:
    """Return where the description begins."""
    line, newline, _ = data[:64].partition(b"\n")
    number = line.removeprefix(MAGIC)
    if not newline or not line.startswith(MAGIC) or not number.isdigit():
        raise DataError(
            "this is not a policy file of Evenhand",
            location=location,
            hint="give a file that `evenhand shield synthesize` wrote",
        )
    if number != b"%d" % VERSION:
        raise DataError(
            f"this policy file has format {number.decode()}, and this Evenhand reads format {VERSION}",
            location=location,
            hint="use the Evenhand that wrote it, or synthesize the shield again",
        )
    return len(line) + 1


def _parse_description(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _expected_length(start: int, listed: Any) -> int | None:
    """Return how long the file must be; None where the list of arrays makes no sense."""
    if not isinstance(listed, list):
        return None
    names = set()
    for one in listed:
        if not isinstance(one, dict) or one.keys() != {"name", "type", "shape", "bytes"}:
            return None
        name, kind, shape, length = one["name"], one["type"], one["shape"], one["bytes"]
        if not isinstance(name, str) or name in names or kind not in ARRAY_TYPES or not isinstance(shape, list):
            return None
        if any(type(number) is not int or number < 0 for number in [*shape, length]):
            return None
        names.add(name)
        start += length
    return start + CHECKSUM_BYTES


def _unpack_array(one: Mapping[str, Any], packed: bytes, location: str) -> NDArray[Any]:
    kind = np.dtype(one["type"])
    size = prod(one["shape"]) * kind.itemsize
    if size <= MAX_COMPRESSION_RATIO * len(packed):
        unpacking = zlib.decompressobj()
        try:
            plain = unpacking.decompress(packed, size + 1)
        except zlib.error:
            plain = b""
        if len(plain) == size and unpacking.eof and not unpacking.unused_data:
            return np.frombuffer(plain, dtype=kind).reshape(one["shape"])
    raise _damaged_file_error(f"the numbers of {one['name']!r} are not those that its description names", location)


def _damaged_file_error(what: str, location: str) -> DataError:
    return DataError(
        f"this policy file is not whole: {what}",
        location=location,
        hint="copy it again, or synthesize the shield again: evenhand shield synthesize",
    )
