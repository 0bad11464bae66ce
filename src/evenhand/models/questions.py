"""How a black box is asked: in the data's own words as a frame or an array, or as the numbers a plain network takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DataError, ModelError
from evenhand.population import uniform
from evenhand.schema import Schema, decode, encode

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

Form: TypeAlias = Literal["frame", "words", "numbers"]
"""A data frame in the data's own words, an array of the same words, or an array by each attribute's encoding."""

PROBES = 32
"""Individuals drawn from the whole domain to see, before any work, whether and how a model answers."""

COMPARED = 1000
"""Rows of the user's data on which the model must decide the same before and after they went through the schema."""


def probes(schema: Schema) -> NDArray[np.float64]:
    """Individuals from all over the domain, always the same, shape (PROBES, attributes)."""
    return uniform(schema).sample(PROBES, np.random.default_rng(0))


def question(
    schema: Schema,
    individuals: NDArray[np.float64],
    form: Form,
    *,
    like: Any,
    columns: Sequence[str] | None = None,
    where: str,
) -> Any:
    """Individuals (n, attributes) in the form that a model takes.

    Args:
        like: a frame whose type and column types are used for ``frame``.
        columns: the columns wanted of a frame or of words, in order; by default every attribute.
        where: how to call the model in messages.

    Raises:
        ModelError: a missing value in an attribute whose encoding has no number for it.
    """
    if form == "numbers":
        return numbers(schema, individuals, where=where)
    frame = decode(schema, individuals, like=like if form == "frame" else None)
    if columns is not None:
        frame = _columns(frame, columns)
    return frame if form == "frame" else frame.to_numpy(dtype=object)


def numbers(schema: Schema, individuals: NDArray[np.float64], *, where: str) -> NDArray[np.float64]:
    """Individuals (n, attributes) as plain numbers (n, schema.width); NaN where a number or a code is missing.

    Raises:
        ModelError: a missing value in an attribute whose encoding has no number for it.
    """
    for i, attribute in enumerate(schema.attributes):
        if (attribute.encoding == "one-hot" or isinstance(attribute.encoding, tuple)) and np.isnan(
            individuals[:, i]
        ).any():
            raise ModelError(
                f"attribute {attribute.name!r} has missing values, and its encoding has no number for them",
                where=where,
                mend=f"say `missing: drop` for {attribute.name!r} in the schema",
            )
    return schema.inputs(individuals)


def refusal(error: BaseException, *, where: str) -> ModelError:
    """What a model raised when asked, as one message with a way out."""
    text = first_line(error)
    low = text.lower()
    if re.search(r"\bnan\b|isnan|missing value", low):
        mend = "the model takes no missing values: say `missing: drop` for those attributes in the schema"
    elif "unknown categor" in low or "unseen label" in low:
        mend = "leave the values that the model has never seen out of the schema, or train it to take any"
    elif "not fitted" in low:
        mend = "fit the model first"
    else:
        mend = "a model must answer for everyone that the schema describes: its attributes, their order and encodings"
    return ModelError(f"the model cannot be asked: {text}", where=where, mend=mend)


def first_line(error: BaseException, most: int = 300) -> str:
    """The kind of an error and the first line of what it says."""
    lines = str(error).strip().splitlines()
    text = lines[0].strip() if lines else ""
    return f"{type(error).__name__}: {text[:most]}" if text else type(error).__name__


def check_same_people(
    decide: Callable[[Any], NDArray[np.int64]], schema: Schema, like: IntoDataFrame, *, where: str
) -> None:
    """Make sure that the model sees through the schema the people that the data holds.

    A stray space, a capital letter or a marker of missing values that the schema tidied up, and the model knows, would
    otherwise change its answers without a word. Bins change what the model sees on purpose: nothing is compared then.

    Args:
        decide: labels of a frame's rows, shape (n,).
        like: the user's data; a frame that does not fit the schema is only a template, and nothing is compared.

    Raises:
        ModelError: some people are decided differently.
    """
    import narwhals as nw

    table = nw.from_native(like, eager_only=True)
    absent = set(schema.names) - set(table.columns)
    if absent or any(attribute.edges is not None for attribute in schema.attributes):
        return
    rows = table.select(list(schema.names)).head(COMPARED)
    try:
        people = encode(schema, rows.to_native())
        as_given = decide(rows[people.rows.tolist()].to_native())
    except (DataError, ModelError):
        return
    described = decide(decode(schema, people.individuals, like=like))
    differ = np.flatnonzero(as_given != described)
    if len(differ):
        raise ModelError(
            f"described by the schema, {len(differ):,} of {len(people):,} people are decided differently than as they "
            f"stand in the data, the first in row {int(people.rows[differ[0]]) + 1}",
            where=where,
            mend="the schema's values must be the words the model was trained on: mind spaces, and markers of missing "
            "values that it knows as values",
        )


def _columns(frame: Any, columns: Sequence[str]) -> Any:
    import narwhals as nw

    return nw.from_native(frame, eager_only=True).select(list(columns)).to_native()
