"""How a black box is asked: in the data's own words as a frame or an array, or as the numbers a plain network takes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, ModelError
from evenhand.models.column_types import AS_READ, ColumnTypes
from evenhand.population.independent import uniform_population
from evenhand.schema.people import decode, encode
from evenhand.schema.schema import Schema
from evenhand.schema.table import is_missing

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

InputForm: TypeAlias = Literal["frame", "words", "numbers"]
"""A data frame in the data's own words, an array of the same words, or an array by each attribute's encoding."""

FORMS: dict[InputForm, str] = {
    "frame": "a data frame",
    "words": "a bare array of the data's own words",
    "numbers": "a bare array of numbers",
}
CANNOT_ASK = "the model cannot be asked: "

PROBE_COUNT = 32
"""Individuals drawn from the whole domain to see, before any work, whether and how a model answers."""

NOISE_ERRORS = 4.0
"""Standard errors by which a noisy model's differences may exceed those between its answers to the same rows."""

COMPARED_PEOPLE = 1000
"""Rows of the user's data on which the model must decide the same before and after they went through the schema."""


def probe_individuals(schema: Schema) -> Floats:
    """Return individuals from all over the domain, always the same, shape (PROBES, attributes)."""
    return uniform_population(schema).sample(PROBE_COUNT, np.random.default_rng(0))


def model_input(
    schema: Schema,
    individuals: Floats,
    form: InputForm,
    *,
    like: Any,
    columns: Sequence[str] | None = None,
    types: ColumnTypes = AS_READ,
    location: str,
) -> Any:
    """Return individuals (n, attributes) in the form that a model takes.

    Args:
        like: Frame whose type and column types are used for ``frame``.
        columns: Columns of the frame or of the words, in order. By default every attribute.
        types: Types of the columns of a text table that the model expects.
        location: Name of the model in messages.

    Raises:
        ModelError: a missing value in an attribute whose encoding has no number for it.
    """
    if form == "numbers":
        return plain_numbers(schema, individuals, location=location)
    frame = decode(schema, individuals, like=like if form == "frame" or types else None, rows=like)
    if columns is None and form == "words":
        columns = schema.names
    if columns is not None:
        if like is None and any(name in schema.passthrough for name in columns):
            raise ModelError(
                f"the model is given passthrough columns ({', '.join(schema.passthrough)}), which only the data have",
                location=location,
                hint="give the data too: `data=FILE`",
            )
        frame = _select_columns(frame, columns)
    frame = types.convert(frame, location)
    return frame if form == "frame" else frame.to_numpy(dtype=object)


def plain_numbers(schema: Schema, individuals: Floats, *, location: str) -> Floats:
    """Return individuals (n, attributes) as plain numbers (n, schema.width); NaN where a number or a code is missing.

    Raises:
        ModelError: a missing value in an attribute whose encoding has no number for it.
    """
    for i, attribute in enumerate(schema.attributes):
        if (attribute.encoding == "one-hot" or isinstance(attribute.encoding, tuple)) and np.isnan(
            individuals[:, i]
        ).any():
            raise ModelError(
                f"attribute {attribute.name!r} has missing values, and its encoding has no number for them",
                location=location,
                hint=f"say `missing: drop` for {attribute.name!r} in the schema",
            )
    return schema.inputs(individuals)


def refusal_error(error: BaseException, *, location: str, asked: Any = None) -> ModelError:
    """Return the exception of a model as an error with a hint.

    Args:
        error: The exception that the model raised.
        location: Name of the model in messages.
        asked: The frame or array that the model was asked with.
    """
    text = summarize_error(error)
    low = text.lower()
    if re.search(r"\bnan\b|isnan|missing value", low):
        hint = (
            "the model takes no missing values: say `missing: drop` for those attributes in the schema"
            if asked is None or _has_missing(asked)
            else "nothing is missing; some columns have other types than in training: give a data frame with the types "
            "of the training, or a function (module:function) that converts the table as in training"
        )
    elif "unknown categor" in low or "unseen label" in low:
        hint = "leave the values that the model has never seen out of the schema, or train it to take any"
    elif "could not convert string to float" in low:
        hint = (
            "the model was trained on numbers and receives words of the data: set `model_input: number` in the "
            "attribute's `number_format`, or pass a function (module:function) that cleans the table as in training "
            "and calls the model"
        )
    elif "not fitted" in low:
        hint = "fit the model first"
    else:
        hint = "a model must answer for everyone that the schema describes: its attributes, their order and encodings"
    return ModelError(f"{CANNOT_ASK}{text}", location=location, hint=hint)


def _has_missing(asked: Any) -> bool:
    """Return whether a frame or array has missing values."""
    import narwhals as nw

    table = nw.from_native(asked, eager_only=True, pass_through=True)
    if isinstance(table, nw.DataFrame):
        return any(is_missing(value) for name in table.columns for value in table[name].to_list())
    return any(map(is_missing, np.asarray(asked, dtype=object).ravel().tolist()))


def describe_retry(asked: InputForm, refused: InputForm, error: ModelError) -> str:
    """Say that a model is asked in another form than the one tried first, and why.

    In an array a model must take columns by their position, and nothing tells whether it means the same ones.
    """
    why = error.message.removeprefix(CANNOT_ASK)
    return (
        f"The model was asked with {FORMS[asked]}, columns in the order of the schema, because with {FORMS[refused]} "
        f"it failed: {why}. If it means other columns, all that is said of it is wrong."
    )


def describe_guess(with_words: Callable[[], Integers | Floats], with_numbers: Callable[[], Integers | Floats]) -> str:
    """Say that a model takes words and numbers, that it answers differently, and which it is asked with.

    Args:
        with_words, with_numbers: give its answers about the same individuals.

    Returns:
        Nothing where it refuses the numbers, or its answers are the same.
    """
    try:
        differs = _differ(with_words(), with_numbers())
    except ModelError:
        return ""
    if not differs.any():
        return ""
    return (
        f"The model was fitted on a bare array, and nothing tells of what: it takes {FORMS['words']} and "
        f"{FORMS['numbers']}, and answers differently about {differs.sum()} of {len(differs)} individuals. It was "
        "asked with the words. If it was trained on numbers, all that is said of it is wrong: fit it on a data frame, "
        "which names its columns, or give it as module:function, which is asked with a data frame and encodes it "
        "itself."
    )


def summarize_error(error: BaseException, most: int = 300) -> str:
    """Return the kind of an error and the first line of what it says."""
    lines = str(error).strip().splitlines()
    text = lines[0].strip() if lines else ""
    return f"{type(error).__name__}: {text[:most]}" if text else type(error).__name__


def check_same_people(
    decide: Callable[[Any], Integers | Floats], schema: Schema, like: IntoDataFrame, *, location: str
) -> None:
    """Make sure that the model sees through the schema the people that the data holds.

    A stray space, a capital letter or a marker of missing values that the schema tidied up, and the model knows, would
    otherwise change its answers without a word. Bins change what the model sees on purpose: nothing is compared then.

    Only people whose words the schema changes are asked about, each in both forms.
    A model that answers differently each time is allowed as many differences as there are between its answers to the
    same rows.

    Args:
        decide: labels or numbers of a frame's rows, shape (n,).
        like: the user's data; a frame that does not fit the schema is only a template, and nothing is compared.

    Raises:
        ModelError: some people are decided differently.
    """
    import narwhals as nw

    table = nw.from_native(like, eager_only=True)
    absent = set(schema.columns) - set(table.columns)
    if absent or any(attribute.edges is not None for attribute in schema.attributes):
        return
    rows = table.select([name for name in table.columns if name in schema.columns]).head(COMPARED_PEOPLE)
    try:
        people = encode(schema, rows.to_native())
        given = rows[people.rows.tolist()]
        described = nw.from_native(decode(schema, people.individuals, like=rows.to_native()), eager_only=True)
        # Passthrough columns are the data's own.
        changed = _changed_rows(given.select(list(schema.names)), described.select(list(schema.names)))
        if not changed:
            return
        forms = [frame[changed].to_native() for frame in (given, described)]
        as_given = decide(forms[0])
    except (DataError, ModelError):
        return
    as_described = decide(forms[1])
    differ = np.flatnonzero(_differ(as_given, as_described))
    if len(differ):
        given_again, described_again = (decide(form) for form in forms)
        own = int(_differ(as_given, given_again).sum() + _differ(as_described, described_again).sum())
        apart = len(differ) + int(_differ(given_again, described_again).sum())
        if own and apart - own <= NOISE_ERRORS * math.sqrt(apart + own):
            return
        raise ModelError(
            f"described by the schema, {len(differ):,} of {len(people):,} people are decided differently than as they "
            f"stand in the data, the first in row {int(people.rows[changed[differ[0]]]) + 1}",
            location=location,
            hint="the schema's values must be the words the model was trained on: mind spaces, and markers of missing "
            "values that it knows as values",
        )


def _differ(one: Integers | Floats, other: Integers | Floats) -> Booleans:
    """Return who is decided differently; numbers may differ by rounding."""
    return np.asarray(~np.isclose(one, other, rtol=1e-9, atol=1e-12))


def _changed_rows(given: Any, described: Any) -> list[int]:
    """Return the rows that are not the same to a model in two frames; all of them where a column has another type."""
    changed = np.zeros(len(given), dtype=np.bool_)
    for name in given.columns:
        one, other = given[name], described[name]
        if one.dtype != other.dtype:
            return list(range(len(given)))
        missing = (one.is_null() & other.is_null()).to_numpy()
        changed |= ~(missing | np.asarray((one == other).fill_null(value=False).to_numpy(), dtype=np.bool_))
    return [int(row) for row in np.flatnonzero(changed)]


def _select_columns(frame: Any, columns: Sequence[str]) -> Any:
    import narwhals as nw

    return nw.from_native(frame, eager_only=True).select(list(columns)).to_native()
