"""A lesson in the data's own words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.mitigate.lesson import Lesson
from evenhand.schema import Value, decode


def frame_of(lesson: Lesson, columns: Sequence[str] | None = None) -> Any:
    """Everybody in a lesson as one data frame of the user's own type, the real people as they stand in the data.

    Args:
        lesson: the added instances are written in the schema's words, with the data's column types.
        columns: the columns wanted, in order; by default every attribute.
    """
    import narwhals as nw

    people = lesson.people
    wanted = list(columns or people.schema.names)
    real = nw.from_native(people.frame, eager_only=True)[people.rows.tolist()].select(wanted)
    if len(lesson.added) == 0:
        return real.to_native()
    added = nw.from_native(decode(people.schema, lesson.added, like=people.frame), eager_only=True).select(wanted)
    return nw.concat([real, added], how="vertical").to_native()


def words_of(lesson: Lesson) -> NDArray[Any]:
    """Everybody's label as it stands in the data, shape (n + m,)."""
    return typed(lesson.people.schema.target.values or ())[lesson.all_labels]


def typed(values: Sequence[Value]) -> NDArray[Any]:
    """Labels as an array: of numbers where all of them are, of text where all of them are, else of objects."""
    kinds = {type(value) for value in values}
    if len(kinds) == 1:
        return np.array(values)
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array
