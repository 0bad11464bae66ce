import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import NotAdditiveError
from evenhand.models.additive.cells import (
    ListedCell,
    RampCell,
    apply_jointly,
    first_true,
)

finite = st.floats(allow_nan=False, allow_infinity=False)


def ramp(low=-1e6, high=1e6, kind=np.float32):
    return RampCell(0, 1.0, 0.0, low, high, lambda entries: entries.astype(kind))


@given(st.lists(finite, min_size=3, max_size=3, unique=True))
def test_bisection_finds_the_very_number(numbers):
    low, threshold_, high = sorted(numbers)
    found = first_true(lambda x: x >= threshold_, np.array([low]), np.array([high]))
    assert found.tolist() == [threshold_]


def test_bins_of_the_same_number_are_refined_together():
    first, second = (ListedCell(0, np.array([True, False]), np.array([cut])) for cut in (3.0, 7.0))
    (both,) = apply_jointly(lambda a, b: a.astype(int) * 10 + b, [first, second])
    assert both.values.tolist() == [11, 1, 0]
    assert both.cuts.tolist() == [3, 7]


def test_only_one_attribute_at_a_time():
    cells = [ListedCell(0, np.array([1, 2])), ListedCell(1, np.array([1, 2]))]
    with pytest.raises(NotAdditiveError, match="several attributes"):
        apply_jointly(lambda a, b: a * b, cells)


def test_numbers_that_cannot_be_listed_cannot_be_bent():
    with pytest.raises(NotAdditiveError, match="nonlinear step"):
        apply_jointly(np.abs, [ramp()])
