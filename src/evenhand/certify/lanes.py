"""Sixteen float64 numbers as one value inside compiled kernels: the same step for sixteen boxes at once.

A compiler cannot know that two work arrays never overlap, and then leaves short inner loops scalar. Here a row of
sixteen is loaded, combined and stored as one LLVM vector, so that nothing is left to guess.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

LANES = 16
VECTOR = ir.VectorType(ir.DoubleType(), LANES)
CONTRACT = ("contract",)


class Lanes(types.Type):  # type: ignore[misc]
    """The compiler's name for sixteen numbers."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


LANES_TYPE = Lanes()


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    """How the compiler holds them: one vector register (or as many as it takes)."""

    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, VECTOR)


def _address(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(kind)(context, builder, value=array).data
    return builder.bitcast(builder.gep(data, [offset]), VECTOR.as_pointer())


def _row(builder: Any, row: Any) -> Any:
    return builder.mul(row, ir.Constant(ir.IntType(64), LANES))


def _spread(builder: Any, number: Any) -> Any:
    undefined = ir.Constant(VECTOR, ir.Undefined)
    single = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(single, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


@intrinsic  # type: ignore[untyped-decorator]
def load(context: Any, array: Any, row: Any) -> Any:
    """Row ``row`` of an array (rows, 16)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], args[0], _row(builder, args[1])), align=8)

    return LANES_TYPE(array, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def store(context: Any, array: Any, row: Any, value: Any) -> Any:
    """Put a value into row ``row`` of an array (rows, 16)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _address(context, builder, signature.args[0], args[0], _row(builder, args[1]))
        builder.store(args[2], place, align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, LANES_TYPE), generate


@intrinsic  # type: ignore[untyped-decorator]
def load_at(context: Any, array: Any, start: Any) -> Any:
    """Sixteen consecutive numbers of a flat array, from any position."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], args[0], args[1]), align=8)

    return LANES_TYPE(array, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def store_at(context: Any, array: Any, start: Any, value: Any) -> Any:
    """Put sixteen consecutive numbers into a flat array, from any position."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _address(context, builder, signature.args[0], args[0], args[1]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.int64, LANES_TYPE), generate


@intrinsic  # type: ignore[untyped-decorator]
def full(context: Any, number: Any) -> Any:
    """The same number sixteen times."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _spread(builder, args[0])

    return LANES_TYPE(types.float64), generate


def _pairwise(combine: Callable[[Any, Any, Any], Any]) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def operation(context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return combine(builder, args[0], args[1])

        return LANES_TYPE(LANES_TYPE, LANES_TYPE), generate

    return operation


add = _pairwise(lambda builder, a, b: builder.fadd(a, b, flags=CONTRACT))
subtract = _pairwise(lambda builder, a, b: builder.fsub(a, b, flags=CONTRACT))
multiply = _pairwise(lambda builder, a, b: builder.fmul(a, b, flags=CONTRACT))
divide = _pairwise(lambda builder, a, b: builder.fdiv(a, b))
larger = _pairwise(lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))
smaller = _pairwise(lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b))


@intrinsic  # type: ignore[untyped-decorator]
def axpy(context: Any, number: Any, a: Any, b: Any) -> Any:
    """``number * a + b`` with one number for all lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        product = builder.fmul(_spread(builder, args[0]), args[1], flags=CONTRACT)
        return builder.fadd(product, args[2], flags=CONTRACT)

    return LANES_TYPE(types.float64, LANES_TYPE, LANES_TYPE), generate


@intrinsic  # type: ignore[untyped-decorator]
def multiply_add(context: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fadd(builder.fmul(args[0], args[1], flags=CONTRACT), args[2], flags=CONTRACT)

    return LANES_TYPE(LANES_TYPE, LANES_TYPE, LANES_TYPE), generate


@intrinsic  # type: ignore[untyped-decorator]
def root(context: Any, a: Any) -> Any:
    """Square roots."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        name = f"llvm.sqrt.v{LANES}f64"
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(VECTOR, [VECTOR]), name)
        return builder.call(function, args)

    return LANES_TYPE(LANES_TYPE), generate
