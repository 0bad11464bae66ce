"""Vectors of sixteen float64 numbers inside compiled kernels, for the same operation on sixteen boxes.

A compiler cannot know that two work arrays never overlap, and then leaves short inner loops scalar. Here a row of
sixteen is loaded, combined and stored as one LLVM vector, so vectorisation is guaranteed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

LANES = 16
VECTOR = ir.VectorType(ir.DoubleType(), LANES)
# A product and a sum may become one instruction with a single rounding, as in kernels with ``fastmath={"contract"}``:
# the error is never larger, and the slack allows for two roundings.
CONTRACT = ("contract",)


class SimdVector(types.Type):
    """Compiler type of sixteen numbers."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


SIMD_VECTOR = SimdVector()


@register_model(SimdVector)
class SimdVectorModel(models.PrimitiveModel):
    """Representation in the compiler: one or more vector registers."""

    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, VECTOR)


def _element_address(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(kind)(context, builder, value=array).data
    return builder.bitcast(builder.gep(data, [offset]), VECTOR.as_pointer())


def _row_offset(builder: Any, row: Any) -> Any:
    # Rows are LANES wide and contiguous: row r begins at r * LANES.
    return builder.mul(row, ir.Constant(ir.IntType(64), LANES))


def _broadcast(builder: Any, number: Any) -> Any:
    # LLVM's idiom for a broadcast: insert the number in the first lane, then shuffle with a mask of zeros.
    undefined = ir.Constant(VECTOR, ir.Undefined)
    single = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(single, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


@intrinsic
def load_row(context: Any, array: Any, row: Any) -> Any:
    """Row ``row`` of an array (rows, 16)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(
            _element_address(context, builder, signature.args[0], args[0], _row_offset(builder, args[1])), align=8
        )

    return SIMD_VECTOR(array, types.int64), generate


@intrinsic
def store_row(context: Any, array: Any, row: Any, value: Any) -> Any:
    """Store a value in row ``row`` of an array (rows, 16)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _element_address(context, builder, signature.args[0], args[0], _row_offset(builder, args[1]))
        builder.store(args[2], place, align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, SIMD_VECTOR), generate


@intrinsic
def load_at(context: Any, array: Any, start: Any) -> Any:
    """Sixteen consecutive numbers of a flat array, from any position."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_element_address(context, builder, signature.args[0], args[0], args[1]), align=8)

    return SIMD_VECTOR(array, types.int64), generate


@intrinsic
def store_at(context: Any, array: Any, start: Any, value: Any) -> Any:
    """Store sixteen consecutive numbers in a flat array, at any position."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _element_address(context, builder, signature.args[0], args[0], args[1]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, SIMD_VECTOR), generate


@intrinsic
def fill_vector(context: Any, number: Any) -> Any:
    """Broadcast a number to sixteen lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _broadcast(builder, args[0])

    return SIMD_VECTOR(types.float64), generate


def _pairwise(combine: Callable[[Any, Any, Any], Any]) -> Any:
    @intrinsic
    def operation(context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return combine(builder, args[0], args[1])

        return SIMD_VECTOR(SIMD_VECTOR, SIMD_VECTOR), generate

    return operation


add = _pairwise(lambda builder, a, b: builder.fadd(a, b, flags=CONTRACT))
subtract = _pairwise(lambda builder, a, b: builder.fsub(a, b, flags=CONTRACT))
multiply = _pairwise(lambda builder, a, b: builder.fmul(a, b, flags=CONTRACT))
divide = _pairwise(lambda builder, a, b: builder.fdiv(a, b))
# Neither number is ever NaN, so an ordered comparison is enough.
maximum = _pairwise(lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))
minimum = _pairwise(lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))


@intrinsic
def select_positive(context: Any, x: Any, a: Any, b: Any) -> Any:
    """``a`` where ``x > 0``, else ``b``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", args[0], ir.Constant(VECTOR, [0.0] * LANES)), args[1], args[2])

    return SIMD_VECTOR(SIMD_VECTOR, SIMD_VECTOR, SIMD_VECTOR), generate


@intrinsic
def axpy(context: Any, number: Any, a: Any, b: Any) -> Any:
    """``number * a + b`` with one number for all lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        product = builder.fmul(_broadcast(builder, args[0]), args[1], flags=CONTRACT)
        return builder.fadd(product, args[2], flags=CONTRACT)

    return SIMD_VECTOR(types.float64, SIMD_VECTOR, SIMD_VECTOR), generate


@intrinsic
def multiply_add(context: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(builder.fmul(args[0], args[1], flags=CONTRACT), args[2], flags=CONTRACT)

    return SIMD_VECTOR(SIMD_VECTOR, SIMD_VECTOR, SIMD_VECTOR), generate


@intrinsic
def square_root(context: Any, a: Any) -> Any:
    """Square roots."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        name = f"llvm.sqrt.v{LANES}f64"
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(VECTOR, [VECTOR]), name)
        return builder.call(function, args)

    return SIMD_VECTOR(SIMD_VECTOR), generate


@intrinsic
def largest(context: Any, a: Any) -> Any:
    """Return the largest of the sixteen numbers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        name = f"llvm.vector.reduce.fmax.v{LANES}f64"
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(ir.DoubleType(), [VECTOR]), name)
        return builder.call(function, args, fastmath=("nnan",))

    return types.float64(SIMD_VECTOR), generate
