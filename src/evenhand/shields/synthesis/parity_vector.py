"""Sweeps over demographic parity with one cost, eight states at a time, for the speed of dynamic shields.

A compiler cannot know that the rows that are read and the row that is written never overlap, and rows are short: it
leaves most of this scalar. Here eight neighbouring states are one vector. The results are bitwise equal to those of
scalar code: the same products and sums in the same order, none of them fused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from evenhand.core.kernels import compile_kernel
from evenhand.shields.synthesis.kernels import DEAD_LEVEL

LANES = 8
SPARE = LANES + 1
"""Number of spare values after a layer, which may be read but are not used."""
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
_BYTES = ir.VectorType(ir.IntType(8), LANES)
_INTEGERS = ir.VectorType(ir.IntType(64), LANES)
ALL = np.uint64(2**64 - 1)


def _broadcast(builder: Any, number: Any, kind: Any) -> Any:
    undefined = ir.Constant(kind, ir.Undefined)
    single = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(single, undefined, zeros)


class _Vectors:
    """Code of vectors that the intrinsics share."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder = context, builder

    def address(self, array: Any, kind: Any, offset: Any, vector: Any) -> Any:
        data = self.context.make_array(kind)(self.context, self.builder, value=array).data
        return self.builder.bitcast(self.builder.gep(data, [offset]), vector.as_pointer())

    def load(self, array: Any, kind: Any, offset: Any) -> Any:
        return self.builder.load(self.address(array, kind, offset, _DOUBLES), align=8)

    def spread(self, number: Any) -> Any:
        return _broadcast(self.builder, number, _DOUBLES)

    def same(self, number: float) -> Any:
        return ir.Constant(_DOUBLES, [number] * LANES)

    def smaller(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered("<", a, b), a, b)

    def within(self, columns: Any, column: Any) -> Any:
        """Return the lanes whose state, counted from ``column`` on, is below ``columns``."""
        left = _broadcast(self.builder, self.builder.sub(columns, column), _INTEGERS)
        return self.builder.icmp_signed("<", ir.Constant(_INTEGERS, list(range(LANES))), left)

    def step(self, minus: Any, plus: Any, group: Any, price: Any) -> tuple[Any, ...]:
        """Return the values after one more of a group, and masks of level 1 or more, of level 2, and of live states."""
        builder = self.builder
        accept, reject, from_1, beyond_1 = (self.spread(builder.extract_value(group, place)) for place in range(4))
        down = self.smaller(plus, builder.fadd(price, minus))
        up = self.smaller(minus, builder.fadd(price, plus))
        value = builder.fadd(builder.fmul(accept, down), builder.fmul(reject, up))
        gain = builder.fsub(minus, plus)
        live = builder.fcmp_ordered("<", self.smaller(minus, plus), self.same(float("inf")))
        return value, builder.fcmp_ordered(">=", gain, from_1), builder.fcmp_ordered(">", gain, beyond_1), live

    def levels(self, at_least_1: Any, at_least_2: Any, live: Any) -> Any:
        builder = self.builder
        level = builder.add(builder.zext(at_least_1, _BYTES), builder.zext(at_least_2, _BYTES))
        return builder.select(live, level, ir.Constant(_BYTES, [DEAD_LEVEL] * LANES))


@intrinsic
def step_eight_states(context: Any, values: Any, places: Any, row: Any, groups: Any, cost: Any) -> Any:
    """Replace eight values of a row by those one decision earlier; return the levels as bits.

    ``values``: the layer. ``places``: positions of the first of the eight states with one more of group a rejected,
    with one more accepted, and unchanged; then its number in the row, and the number of states in the row. ``row``: for
    each group, the levels along the row as bytes, which are written too. ``groups``: for each group, (P(recommended to
    be accepted), P(to be rejected), gain from which on the level is 1, gain above which it is 2), see
    `single_cost_value` and `single_cost_level`. The bytes of the result, lowest first, are masks of the states of group
    a with level 1 or more, with level 2, and alive; then the same for group b.
    """

    integer = ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vectors, kind = _Vectors(context, builder), signature.args[0]
        rejected, accepted, own, column, columns = (builder.extract_value(args[1], place) for place in range(5))
        inside, price = vectors.within(columns, column), vectors.spread(args[4])
        answer: Any = ir.Constant(integer, 0)
        values = []
        own_values, next_values = (
            vectors.load(args[0], kind, builder.add(own, ir.Constant(integer, more))) for more in (0, 1)
        )
        pairs = (
            (vectors.load(args[0], kind, rejected), vectors.load(args[0], kind, accepted)),
            (own_values, next_values),
        )
        for group, (minus, plus) in enumerate(pairs):
            value, at_least_1, at_least_2, live = vectors.step(
                minus, plus, builder.extract_value(args[3], group), price
            )
            values.append(value)
            levels = builder.extract_value(args[2], group)
            place = vectors.address(levels, signature.args[2][group], column, _BYTES)
            builder.store(vectors.levels(at_least_1, at_least_2, live), place, align=1)
            live = builder.and_(live, inside)
            for number, mask in enumerate((builder.and_(live, at_least_1), builder.and_(live, at_least_2), live)):
                byte = builder.zext(builder.bitcast(mask, ir.IntType(LANES)), integer)
                shift = ir.Constant(integer, LANES * (3 * group + number))
                answer = builder.or_(answer, builder.shl(byte, shift))
        # States outside the row are unchanged.
        value = builder.select(inside, builder.fadd(values[0], values[1]), own_values)
        builder.store(value, vectors.address(args[0], kind, own, _DOUBLES), align=8)
        return answer

    return types.uint64(values, places, row, groups, cost), generate


@intrinsic
def first_bit(context: Any, bits: Any) -> Any:
    """Return the number of the lowest bit that is set; 64 if none is."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@compile_kernel(nogil=True, error_model="numpy", internal=True)
def note_rises(new, base, a, column, rows):
    """Record that columns reach a level in row ``a``: bit i is the column ``base + i``."""
    while new:
        rows[base + first_bit(new), column] = a
        new &= new - np.uint64(1)


@compile_kernel(nogil=True, error_model="numpy")
def sweep_parity_vectors(values, horizon, t, mix_a, mix_b, out):
    """Like `sweep_parity`, for one cost; ``values`` needs ``SPARE`` spare values after its end."""
    # Invariants of `sweep_parity`. Eight states are read before they are written, and the eight after them need none
    # of these. 64 states of a row are then examined as bits of a word: where the level first rises, and whether a live
    # state has a lower one later, along the row for group a and across the rows for group b.
    groups = (
        (mix_a.accept[1], mix_a.reject[1], mix_a.rises[0], mix_a.rises[1]),
        (mix_b.accept[1], mix_b.reject[1], mix_b.rises[0], mix_b.rises[1]),
    )
    row = (np.empty(horizon + SPARE, np.uint8), np.empty(horizon + SPARE, np.uint8))
    compact = len(out.rows_a) > 0
    reached = np.empty((2, horizon // 64 + 1), np.uint64)
    byte, wrong = np.uint64(255), np.uint64(0)
    start, cell = 0, 0
    for n_a in range(t + 1):
        columns, stride = t - n_a + 1, horizon - n_a + 1
        stop = start + (n_a + 1) * stride
        first_b, first_a = columns * (columns - 1) // 2, n_a * (n_a + 1) // 2
        if compact:
            out.rows_b[first_b : first_b + columns, :] = n_a + 1
            reached[:] = 0
        for a in range(n_a + 1):
            own, above = start + a * stride, stop + a * (stride - 1)
            rise_1 = rise_2 = columns
            for w in range((columns + 63) // 64):
                one_a = two_a = live_a = one_b = two_b = live_b = np.uint64(0)
                for b in range(64 * w, min(64 * w + 64, columns), LANES):
                    places = (above + b, above + stride - 1 + b, own + b, b, columns)
                    bits = step_eight_states(values, places, row, groups, mix_a.single)
                    shift = np.uint64(b & 63)
                    one_a |= (bits & byte) << shift
                    two_a |= (bits >> np.uint64(8) & byte) << shift
                    live_a |= (bits >> np.uint64(16) & byte) << shift
                    one_b |= (bits >> np.uint64(24) & byte) << shift
                    two_b |= (bits >> np.uint64(32) & byte) << shift
                    live_b |= (bits >> np.uint64(40) & byte) << shift
                if not compact:
                    continue
                if rise_1 == columns and one_a:
                    rise_1 = 64 * w + first_bit(one_a)
                if rise_2 == columns and two_a:
                    rise_2 = 64 * w + first_bit(two_a)
                # Live states behind a rise that are below it.
                if rise_1 < columns:
                    wrong |= live_a & ~one_a & (ALL << np.uint64(max(rise_1 - 64 * w, 0)))
                if rise_2 < columns:
                    wrong |= live_a & ~two_a & (ALL << np.uint64(max(rise_2 - 64 * w, 0)))
                wrong |= (live_b & ~one_b & reached[0, w]) | (live_b & ~two_b & reached[1, w])
                note_rises(one_b & ~reached[0, w], first_b + 64 * w, a, 0, out.rows_b)
                note_rises(two_b & ~reached[1, w], first_b + 64 * w, a, 1, out.rows_b)
                reached[0, w] |= one_b
                reached[1, w] |= two_b
            if compact:
                out.rows_a[first_a + a, 0] = rise_1
                out.rows_a[first_a + a, 1] = rise_2
            else:
                out.cells_a[cell : cell + columns] = row[0][:columns]
                out.cells_b[cell : cell + columns] = row[1][:columns]
                cell += columns
        start = stop
    return wrong == 0
