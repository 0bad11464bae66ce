"""Policy files: a synthesised shield on disk, with its plan; see ``docs/reference/shield-and-monitor-files.md``.

A file holds readable JSON, packed arrays of numbers, and a checksum over everything. Reading it never runs anything.
The types and shapes of the arrays follow from the plan.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from itertools import pairwise
from math import isfinite, isnan, prod
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand import __version__
from evenhand.core.files import write_atomically
from evenhand.errors import DataError, LimitError, OptionError
from evenhand.shields.policy.periodic import GreedyRule
from evenhand.shields.policy.policy import ActionTable, ShieldPolicy
from evenhand.shields.policy.tables import PackedTable, ThresholdTable, bits_for, row_start, state_start
from evenhand.shields.spec.configuration import plan_from_mapping, plan_to_mapping
from evenhand.shields.spec.plan import ShieldPlan
from evenhand.shields.synthesis.general import ReachableTable, count_states, list_states
from evenhand.shields.synthesis.separable import SeparableTable

StoredArrays: TypeAlias = tuple[NDArray[Any], ...]
ArrayShape: TypeAlias = tuple[type[np.integer], tuple[int, ...]]

MAGIC = b"EVENHAND shield "
VERSION = 2
CHECKSUM_BYTES = hashlib.sha256().digest_size
MAX_COMPRESSION_RATIO = 1040
"""Maximum compression ratio of zlib. An array that unpacks to more bytes is forged."""

NUMBER_TYPES: Mapping[str, tuple[type, ...]] = {
    "expected_cost": (int, float),
    "states": (int,),
    "peak_bytes": (int,),
    "seconds": (int, float),
}
"""Synthesis figures stored in a file, with their types. All are nonnegative; unknown numbers are null."""


def save_policy(policy: ShieldPolicy, path: str | Path) -> int:
    """Write a policy to a file. `load_policy` reads it back exactly.

    Returns:
        Size of the file in bytes.

    Raises:
        OptionError: The file cannot be written. No partial file is left.
    """
    data = policy_to_bytes(policy)
    try:
        write_atomically(Path(path), data)
    except OSError as error:
        raise OptionError(f"the policy cannot be written: {error.strerror or error}", location=str(path)) from None
    return len(data)


def load_policy(path: str | Path) -> ShieldPolicy:
    """Read a policy file. Nothing in the file is executed.

    Raises:
        DataError: The file cannot be read, is not a policy file, has a newer format, or is damaged.
    """
    return policy_from_bytes(read_policy_bytes(path), location=str(path))


def read_policy_bytes(path: str | Path) -> bytes:
    """Read the bytes of a policy file.

    Raises:
        DataError: The file cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise DataError(
            f"the policy file cannot be read: {error.strerror or error}",
            location=str(path),
            hint="`evenhand shield synthesize` creates one",
        ) from None


def policy_to_bytes(policy: ShieldPolicy) -> bytes:
    """Encode a policy as the bytes of a file."""
    numbers = {name: getattr(policy, name) for name in NUMBER_TYPES}
    arrays = _arrays_of_table(policy.actions)
    parts = [zlib.compress(array.astype(array.dtype.newbyteorder("<"), "C").tobytes(), 6) for array in arrays]
    head = {
        "evenhand": __version__,
        "plan": plan_to_mapping(policy.plan),
        **{name: None if isnan(number) else number for name, number in numbers.items()},
        "form": policy.actions.form,
    }
    return pack_container(head, parts)


def policy_from_bytes(data: bytes, *, location: str = "policy") -> ShieldPolicy:
    """Decode a policy that `policy_to_bytes` encoded.

    Args:
        data: Bytes of the file.
        location: Name of the file in errors.

    Raises:
        DataError: As for `load_policy`.
    """
    head, parts = unpack_container(data, location=location)
    try:
        plan = plan_from_mapping(head["plan"], location=None)
        numbers = {name: _read_number(head[name], types) for name, types in NUMBER_TYPES.items()}
        actions = _read_table(head["form"], plan, parts)
    except (KeyError, TypeError, ValueError, OptionError, LimitError) as error:
        raise DataError(
            f"this policy file is inconsistent: {_describe_error(error)}",
            location=location,
            hint="synthesize the shield again: evenhand shield synthesize",
        ) from None
    return ShieldPolicy(plan, actions, **numbers)


def _read_number(number: Any, types: tuple[type, ...]) -> Any:
    if number is None and float in types:
        return float("nan")
    if type(number) not in types or not isfinite(number) or number < 0:
        raise ValueError(f"{number!r} is not a valid value")
    return number


def _describe_error(error: Exception) -> str:
    if isinstance(error, OptionError):
        return f"{error.location}: {error.message}" if error.location else error.message
    return f"{error} is missing or unknown" if isinstance(error, KeyError) else str(error)


# Tables of actions.


def _arrays_of_table(actions: ActionTable) -> StoredArrays:
    """Return the arrays that store a table of actions."""
    if isinstance(actions, ThresholdTable):
        # Differences between neighbouring rows, level by level, pack into half the bytes.
        by_level = (positions.reshape(-1, 2 * actions.costs).T for positions in actions.positions)
        return tuple(np.diff(levels, axis=1, prepend=levels.dtype.type(0)) for levels in by_level)
    if isinstance(actions, ReachableTable):
        return (np.concatenate(actions.levels_by_time, axis=1),)
    return actions.arrays


class TableForm(NamedTuple):
    """Form in which a table of actions is stored.

    Attributes:
        shapes: Function that computes the type and shape of each array of a plan.
        build: Function that builds the table from these arrays.
    """

    shapes: Callable[[ShieldPlan], list[ArrayShape]]
    build: Callable[[ShieldPlan, StoredArrays], ActionTable]


def _read_table(form: str, plan: ShieldPlan, parts: list[bytes]) -> ActionTable:
    """Read a table of actions."""
    shapes = FORMS[form].shapes(plan)
    if len(parts) != len(shapes):
        raise ValueError(f"it has {len(parts)} tables, but its plan needs {len(shapes)}")
    return FORMS[form].build(plan, tuple(map(_unpack_array, shapes, parts)))


def _unpack_array(expected: ArrayShape, packed: bytes) -> NDArray[Any]:
    kind, shape = np.dtype(expected[0]).newbyteorder("<"), expected[1]
    size = prod(shape) * kind.itemsize
    unpacking = zlib.decompressobj()
    try:
        unpacked = unpacking.decompress(packed, min(size, MAX_COMPRESSION_RATIO * len(packed)) + 1)
    except zlib.error:
        unpacked = b""
    if len(unpacked) != size or not unpacking.eof or unpacking.unused_data:
        raise ValueError(f"its plan needs a table of shape {shape} and type {kind.name}")
    return np.frombuffer(unpacked, dtype=kind).reshape(shape)


def _check_levels(levels: NDArray[Any], lowest: int, highest: int) -> None:
    if levels.size and (levels.min() < lowest or levels.max() > highest):
        raise ValueError(f"its levels are not all between {lowest} and {highest}, as its costs require")


def _build_thresholds(plan: ShieldPlan, arrays: StoredArrays) -> ActionTable:
    costs = len(plan.inputs.costs)
    # Sums wrap around at the same places as the differences did.
    rows = [np.ascontiguousarray(np.cumsum(steps, axis=1, dtype=steps.dtype).T) for steps in arrays]
    if any((row[:, 1:] < row[:, :-1]).any() for row in rows):
        raise ValueError("its thresholds are not ascending")
    return ThresholdTable(plan.horizon, plan.property.labelled, costs, (rows[0].reshape(-1), rows[1].reshape(-1)))


def _build_packed(plan: ShieldPlan, arrays: StoredArrays) -> ActionTable:
    costs = len(plan.inputs.costs)
    bits = bits_for(costs)
    for cells in arrays:
        for shift in range(0, 8, bits):
            _check_levels((cells >> shift) & ((1 << bits) - 1), 0, 2 * costs)
    return PackedTable(plan.horizon, plan.property.labelled, costs, (arrays[0], arrays[1]))


def _build_separable(plan: ShieldPlan, arrays: StoredArrays) -> ActionTable:
    for levels in arrays:
        _check_levels(levels, -len(plan.inputs.costs), len(plan.inputs.costs))
    return SeparableTable(arrays)


def _build_reachable(plan: ShieldPlan, arrays: StoredArrays) -> ActionTable:
    _check_levels(arrays[0], -len(plan.inputs.costs), len(plan.inputs.costs))
    strides, layers = list_states(plan)
    ends = np.cumsum([len(states) for states in layers[:-1]])
    levels = tuple(np.ascontiguousarray(part) for part in np.split(arrays[0], ends[:-1], axis=1))
    return ReachableTable(tuple(strides.tolist()), tuple(layers[:-1]), levels)


def _shapes_of_thresholds(plan: ShieldPlan) -> list[ArrayShape]:
    rows = row_start(plan.horizon, plan.property.labelled)
    return [(np.uint8 if plan.horizon <= 255 else np.uint16, (2 * len(plan.inputs.costs), rows))] * 2


def _shapes_of_packed(plan: ShieldPlan) -> list[ArrayShape]:
    bits = state_start(plan.horizon, plan.property.labelled) * bits_for(len(plan.inputs.costs))
    return [(np.uint8, (-(-bits // 8),))] * 2


FORMS: Mapping[str, TableForm] = {
    "thresholds": TableForm(_shapes_of_thresholds, _build_thresholds),
    "packed": TableForm(_shapes_of_packed, _build_packed),
    "separate": TableForm(
        lambda plan: [(np.int8, (row_start(plan.horizon, labelled=False),))] * len(plan.inputs.groups),
        _build_separable,
    ),
    "greedy": TableForm(
        lambda plan: [], lambda plan, arrays: GreedyRule(plan.property, plan.start, len(plan.inputs.costs))
    ),
    "listed": TableForm(
        lambda plan: [(np.int8, (len(plan.inputs.groups), sum(count_states(plan, t) for t in range(plan.horizon))))],
        _build_reachable,
    ),
}
"""Table formats, by their name in a file."""


# The container.


def pack_container(head: Mapping[str, Any], parts: list[bytes]) -> bytes:
    """Pack a description and binary parts into the bytes of a file.

    Args:
        head: Description as JSON values, without the key ``bytes``.
        parts: Binary parts.
    """
    text = json.dumps({**head, "bytes": [len(part) for part in parts]}, allow_nan=False).encode("ascii")
    body = b"".join([MAGIC, b"%d\n" % VERSION, text, b"\n", *parts])
    return body + hashlib.sha256(body).digest()


def unpack_container(data: bytes, *, location: str) -> tuple[dict[str, Any], list[bytes]]:
    """Unpack the description and the parts of a file.

    Args:
        data: Bytes of the file.
        location: Name of the file in errors.

    Raises:
        DataError: The file is not a policy file, has a newer format, was truncated or altered.
    """
    line, newline, _ = data[:64].partition(b"\n")
    number = line.removeprefix(MAGIC)
    if not newline or not line.startswith(MAGIC) or not number.isdigit():
        raise DataError(
            "this is not a policy file of Evenhand",
            location=location,
            hint="pass a file that `evenhand shield synthesize` wrote",
        )
    if number != b"%d" % VERSION:
        raise DataError(
            f"this policy file has format {number.decode()}, but this version of Evenhand reads format {VERSION}",
            location=location,
            hint="use the version of Evenhand that wrote it, or synthesize the shield again",
        )
    end = data.find(b"\n", len(line) + 1)
    head = _parse_description(data[len(line) + 1 : max(end, 0)])
    if head is None:
        raise _damaged_file_error("its description cannot be read: it was truncated or altered", location)
    edges = np.cumsum([end + 1, *head.pop("bytes")]).tolist()
    expected = edges[-1] + CHECKSUM_BYTES
    if len(data) < expected:
        raise _damaged_file_error(f"it was truncated: {len(data):,} of {expected:,} bytes remain", location)
    if len(data) > expected:
        raise _damaged_file_error(f"{len(data) - expected:,} bytes follow its end", location)
    if hashlib.sha256(data[:-CHECKSUM_BYTES]).digest() != data[-CHECKSUM_BYTES:]:
        raise _damaged_file_error("it was altered: its checksum does not match", location)
    return head, [data[start:stop] for start, stop in pairwise(edges)]


def _parse_description(text: bytes) -> dict[str, Any] | None:
    """Parse the description of a file; None if it is not a description."""
    try:
        head = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError):
        return None
    lengths = head.get("bytes") if isinstance(head, dict) else None
    if not isinstance(lengths, list) or any(type(n) is not int or not 0 <= n < 2**40 for n in lengths):
        return None
    return head  # type: ignore[no-any-return]  # it is a dict


def _damaged_file_error(reason: str, location: str) -> DataError:
    return DataError(
        f"this policy file is damaged: {reason}",
        location=location,
        hint="copy it again, or synthesize the shield again: evenhand shield synthesize",
    )
