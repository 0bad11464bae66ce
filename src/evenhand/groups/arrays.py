"""Flags and numbers read from plain arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenhand.core.typing import Floats, Integers
from evenhand.errors import DataError
from evenhand.schema.arrays import read_column


def read_flags(name: str, values: ArrayLike, *, unknown: bool = False) -> Integers:
    """Read booleans, or 0 and 1, and -1 if flags may be unknown, shape (n,).

    Raises:
        DataError: There is another value.
    """
    import pandas as pd

    flags = pd.Series(read_column(name, values))
    bad = flags[~flags.isin([0, 1, -1] if unknown else [0, 1])]
    if len(bad):
        expected = "booleans, or 0, 1 and -1," if unknown else "booleans, or 0 and 1,"
        raise DataError(
            f"expected {expected} as `{name}=`, got {bad.iloc[0]!r} in row {bad.index[0] + 1} ({len(bad):,} such rows)"
        )
    return flags.to_numpy(np.int64)


def read_numbers(name: str, values: ArrayLike) -> Floats:
    """Read finite numbers, shape (n,).

    Raises:
        DataError: A value is not a finite number.
    """
    column = read_column(name, values)
    try:
        array: Floats = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"expected numbers as `{name}=`") from None
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise DataError(f"expected finite numbers as `{name}=`, got {array[bad[0]]} in row {bad[0] + 1}")
    return array
