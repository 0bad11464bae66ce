import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import NotAdditiveError
from evenhand.models.additive.cells import (
    ListedCell,
    RampCell,
    apply_jointly,
    cell_arithmetic,
    cell_array,
    compare_cells,
    constant_cells,
    first_true,
    threshold_ramp,
)

finite = st.floats(allow_nan=False, allow_infinity=False)


def ramp(low=-1e6, high=1e6, kind=np.float32):
    return RampCell(0, 1.0, 0.0, low, high, lambda entries: entries.astype(kind), False)


@given(st.lists(finite, min_size=3, max_size=3, unique=True))
def test_bisection_finds_the_very_number(numbers):
    low, threshold_, high = sorted(numbers)
    found = first_true(lambda x: x >= threshold_, np.array([low]), np.array([high]))
    assert found.tolist() == [threshold_]


@given(st.floats(-1000, 1000, width=32))
def test_a_threshold_in_single_precision_is_exact_in_doubles(edge):
    bins = threshold_ramp(ramp(), lambda values: values < np.float32(edge))
    assert bins.values.tolist() == [True, False]
    at, before = bins.cuts, np.nextafter(bins.cuts, -np.inf)
    assert at.astype(np.float32)[0] >= np.float32(edge) > before.astype(np.float32)[0]


def test_a_threshold_that_nobody_crosses_is_a_constant():
    assert threshold_ramp(ramp(0, 1), lambda values: values < 5).attribute is None


@given(st.sampled_from(["Add", "Sub", "Mul", "Div"]), st.floats(0.01, 100), st.booleans(), st.floats(-100, 100))
def test_a_line_stays_the_line_that_is_computed(name, number, turned, entry):
    number = -number if turned else number
    pair = (cell_array([ramp(-100, 100, np.float64)]), constant_cells(np.array([number])))
    made = cell_arithmetic(name, *(reversed(pair) if turned and name != "Div" else pair))[0]
    assert made.slope * entry + made.intercept == pytest.approx(made.computed(np.array([entry]))[0], abs=1e-9)


def test_bins_of_the_same_number_are_refined_together():
    first = threshold_ramp(ramp(), lambda values: values < 3)
    second = threshold_ramp(ramp(), lambda values: values < 7)
    (both,) = apply_jointly(lambda a, b: a.astype(int) * 10 + b, [first, second])
    assert both.values.tolist() == [11, 1, 0]
    assert both.cuts == pytest.approx([3, 7], abs=1e-6)


def test_only_one_attribute_at_a_time():
    cells = [ListedCell(0, np.array([1, 2])), ListedCell(1, np.array([1, 2]))]
    with pytest.raises(NotAdditiveError, match="several attributes"):
        apply_jointly(lambda a, b: a * b, cells)


def test_numbers_that_cannot_be_listed_cannot_be_bent():
    with pytest.raises(NotAdditiveError, match="nonlinear step"):
        apply_jointly(np.abs, [ramp()])
    with pytest.raises(NotAdditiveError, match="compares"):
        compare_cells(np.less, cell_array([ramp()]), cell_array([ramp()]))
    with pytest.raises(NotAdditiveError, match="divides by a numeric column"):
        cell_arithmetic("Div", constant_cells(np.array([1.0])), cell_array([ramp()]))
    with pytest.raises(NotAdditiveError, match="divides by zero"):
        cell_arithmetic("Div", cell_array([ramp()]), constant_cells(np.array([0.0])))
