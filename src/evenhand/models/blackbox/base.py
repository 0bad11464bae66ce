"""Base classes of black boxes.

``RowModel`` converts individuals to rows, ``LabelModel`` interprets answers. When a model is loaded, ``settle_input``
determines the form and column types that it accepts, and ``settle_outputs`` the meaning of its numbers.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias, TypedDict, TypeVar

import numpy as np

from evenhand.core.text import summarize_error
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, EvenhandError, ModelError
from evenhand.models.blackbox.type_search import is_clear, settle_types
from evenhand.models.column_types import AS_READ, ColumnInput, ColumnTypes
from evenhand.models.outputs import (
    PAID_PEOPLE,
    PROBE_COUNT,
    OutputKind,
    OutputReading,
    first_reading,
    read_outputs,
    reference_people,
)
from evenhand.models.replies import Answers, QuestionLedger, Reply, ReplyingScorer, label_reply
from evenhand.schema.attribute import Value
from evenhand.schema.people import decode, encode
from evenhand.schema.schema import Schema
from evenhand.schema.table import is_missing

InputForm: TypeAlias = Literal["frame", "words", "numbers"]
"""Forms of rows: a data frame of the data's values, an array of these values, or an array of encoded values."""

FORMS: dict[InputForm, str] = {
    "frame": "a data frame",
    "words": "an array of the data's own values",
    "numbers": "an array of numbers",
}
CANNOT_ASK = "the model cannot be queried: "

COMPARED_PEOPLE = 1000
"""Number of data rows on which decisions must agree before and after encoding by the schema."""


@dataclass(frozen=True)
class LoadRequest:
    """Request to load a model.

    Attributes:
        schema: Schema of the individuals.
        like: The user's data. A model that takes data frames receives frames of this type.
        trust: Whether to load files that can run code.
        name: Name of the model in reports. Default: the file, URL or type.
        ledger: Ledger of black-box queries, including those during loading. Default: a new one.
        untyped: Whether ``like`` was read from a text table, which has no column types. These are then taken from the
            model, or inferred by queries.
        output: Meaning of the model's numeric outputs: ``probability``, ``logit`` or ``score``. By default it is
            inferred from their values and the true labels (see ``evenhand.models.outputs``).
        confirm: Whether the true labels must confirm which label the numbers 0 and 1 mean.
    """

    schema: Schema
    like: Any = None
    trust: bool = False
    name: str | None = None
    ledger: QuestionLedger = field(default_factory=QuestionLedger)
    untyped: bool = False
    output: OutputKind | None = None
    confirm: bool = True

    def refuse_output(self, kind: str) -> None:
        """Check that no meaning of outputs is stated for a model that already returns labels or numbers.

        Args:
            kind: Name of the model in messages if the request has none.

        Raises:
            ModelError: A meaning is stated.
        """
        if self.output is not None:
            raise ModelError(
                f"expected no `output=`, got {self.output!r}: the model already returns labels or a number",
                location=self.name or kind,
                hint="leave it out",
            )


class LoadOptions(TypedDict, total=False):
    """Options for loading a model (see ``LoadRequest``)."""

    like: Any
    trust: bool
    name: str | None
    ledger: QuestionLedger
    untyped: bool
    output: OutputKind | None


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelModel(ReplyingScorer):
    """Model that returns labels, numbers for labels, or both.

    Attributes:
        schema: Schema of the individuals.
        name: Name of the model in reports.
        classes: Labels, in the order of the scores.
        favourable: Position of the favourable label in ``classes``.
        reading: Meaning of the numbers. None for labels only, or before it is determined.
        labelled: Whether the model returns labels together with its numbers.
        guessed: Whether the model returns 0 and 1, and 1 was assumed to be the favourable label.
        caution: Assumptions about inputs and outputs, for reports.
    """

    schema: Schema
    name: str
    classes: tuple[Value, ...] = ()
    favourable: int = 1
    reading: OutputReading | None = None
    labelled: bool = False
    guessed: bool = False
    caution: str = ""

    @property
    def label_only(self) -> bool:
        """Whether the scores are only the one-hot encoded labels."""
        return self.reading is None or (self.reading.label_only and not self.labelled)

    @property
    def output_class(self) -> int:
        """Position of the label that a single output refers to."""
        return self.favourable

    @abstractmethod
    def ask(self, individuals: Floats) -> Answers:
        """Query the model with individuals (n, attributes).

        Raises:
            EvenhandError: The model fails, or its answers cannot be read.
        """

    def read(self, answers: Answers) -> Reply:
        """Interpret answers as scores and labels."""
        labels, outputs = answers
        if outputs is None:
            assert labels is not None  # there is at least one of the two
            return label_reply(labels, len(self.classes))
        reading = self.reading or first_reading(outputs, self.classes)
        reply = reading.reply(outputs, self.classes, self.output_class, location=self.name)
        return reply if labels is None else Reply(reply.scores, labels, False)

    def reply(self, individuals: Floats) -> Reply:
        """Query scores and labels together."""
        return self.read(self.ask(individuals))


@dataclass(frozen=True, eq=False, kw_only=True)
class RowModel(ABC):
    """Model that receives rows of a table.

    Attributes:
        schema: Schema of the individuals.
        name: Name of the model in reports.
        model: The model itself: an estimator, a function, or the URL of an endpoint.
        like: Template frame for the rows: its type, column types and passthrough columns.
        form: Form of the rows.
        columns: Columns of the rows, in order. None for all columns of the schema.
        types: Column types that the model expects, for text tables.
        ledger: Ledger of the queries.
        caution: Assumptions about inputs and outputs, for reports.
    """

    schema: Schema
    name: str
    model: Any = field(repr=False)
    like: Any = field(default=None, repr=False)
    form: InputForm = "frame"
    columns: tuple[str, ...] | None = None
    types: ColumnTypes = AS_READ
    ledger: QuestionLedger = field(default_factory=QuestionLedger, repr=False)
    caution: str = ""

    @abstractmethod
    def answer_rows(self, rows: Any) -> Floats:
        """Query the decisions and, if available, the scores for rows, shape (n, k). Charges the ledger.

        Raises:
            ModelError: The model fails, or its answers cannot be read.
        """

    def answer(self, individuals: Floats) -> Floats:
        """Query decisions and scores of individuals, like ``answer_rows``."""
        return self.answer_rows(self.input(individuals))

    def answer_frame(self, frame: Any) -> Floats:
        """Query decisions and scores for the raw rows of a frame, without encoding by the schema."""
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True).select(list(self.columns or self.schema.columns))
        return self.answer_rows(self.types.convert(table.to_native(), self.name))

    def input(self, individuals: Floats) -> Any:
        """Convert individuals (n, attributes) to the form that the model accepts.

        Raises:
            ModelError: A value is missing without a code for missing values in the encoding, or required passthrough
                columns are absent.
        """
        import narwhals as nw

        schema, form, like, columns = self.schema, self.form, self.like, self.columns
        if form == "numbers":
            return plain_numbers(schema, individuals, location=self.name)
        frame = decode(schema, individuals, like=like if form == "frame" or self.types.conversions else None, rows=like)
        if columns is None and form == "words":
            columns = schema.names
        if columns is not None:
            if like is None and any(name in schema.passthrough for name in columns):
                raise ModelError(
                    f"the model takes passthrough columns ({', '.join(schema.passthrough)}), which are available only "
                    "in the data",
                    location=self.name,
                    hint="pass the data as well: `data=FILE`",
                )
            frame = nw.from_native(frame, eager_only=True).select(list(columns)).to_native()
        if self.types.conversions:
            frame = self.types.convert(frame, self.name)
        return frame if form == "frame" else frame.to_numpy(dtype=object)

    def call(self, function: Callable[[Any], Any], rows: Any) -> Any:
        """Call a function of the model and convert exceptions to ``ModelError``."""
        try:
            return function(rows)
        except EvenhandError:
            raise
        except Exception as error:
            raise refusal_error(error, location=self.name, rows=rows) from error

    @abstractmethod
    def probe(self, rows: Any) -> Self:
        """Query the model for rows, and return a copy adapted to its answers.

        Raises:
            ModelError: The model fails, or its answers cannot be read.
        """


@dataclass(frozen=True, eq=False, kw_only=True)
class RowLabelModel(RowModel, LabelModel):
    """Model that receives rows of a table and returns labels or numbers.

    Attributes:
        probed: Answers to the probe.
    """

    probed: Answers | None = field(default=None, repr=False)

    def probe(self, rows: Any) -> Self:
        """Query the model for rows, check that the answers can be read, and return a copy that stores them."""
        answers = self.ask_rows(rows)
        self.read(answers)
        return replace(self, probed=answers)

    @abstractmethod
    def ask_rows(self, rows: Any) -> Answers:
        """Query the model with rows. Charges the ledger."""

    def ask(self, individuals: Floats) -> Answers:
        """Query the model with individuals (n, attributes)."""
        return self.ask_rows(self.input(individuals))

    def answer_rows(self, rows: Any) -> Floats:
        """Query labels and scores, shape (n, 1 + classes)."""
        return self.read(self.ask_rows(rows)).columns


RowT = TypeVar("RowT", bound=RowModel)
LabelT = TypeVar("LabelT", bound=LabelModel)
ModelT = TypeVar("ModelT", bound=RowModel | LabelModel)


def add_caution(model: ModelT, text: str) -> ModelT:
    """Add a sentence to the cautions of a model."""
    return replace(model, caution=" ".join(filter(None, [model.caution, text])))


def probe_individuals(schema: Schema) -> Floats:
    """Build individuals that cover the range of each attribute evenly, shape (PROBE_COUNT, attributes).

    Each attribute takes one value of each of ``PROBE_COUNT`` equal parts of its range in a random order (a Latin
    hypercube), so that every value of a shorter domain occurs. Passthrough columns are those of the first data row.
    """
    rng = np.random.default_rng(0)
    shares, columns = (np.arange(PROBE_COUNT) + 0.5) / PROBE_COUNT, []
    for attribute in schema.attributes:
        width = attribute.last - attribute.first
        steps = shares * width if attribute.kind == "real" else np.floor(shares * (width + 1))
        columns.append(rng.permutation(attribute.first + steps))
    return np.column_stack([*columns, *[np.zeros(PROBE_COUNT)] * schema.carries_rows])


# Rows of a model.


def plain_numbers(schema: Schema, individuals: Floats, *, location: str) -> Floats:
    """Convert individuals (n, attributes) into numbers (n, schema.width). Missing numbers and codes are NaN.

    Raises:
        ModelError: A value is missing, and the encoding has no number for missing values.
    """
    for i, attribute in enumerate(schema.attributes):
        if (attribute.encoding == "one-hot" or isinstance(attribute.encoding, tuple)) and np.isnan(
            individuals[:, i]
        ).any():
            raise missing_values_error(attribute.name, "and its encoding has no number for them", location)
    return schema.inputs(individuals)


def missing_values_error(attribute: str, reason: str, location: str) -> ModelError:
    """Build the error for missing values that a model does not accept."""
    message = f"attribute {attribute!r} has missing values, {reason}"
    return ModelError(message, location=location, hint=f"set `missing: drop` for {attribute!r} in the schema")


def refusal_error(error: BaseException, *, location: str, rows: Any = None) -> ModelError:
    """Convert a model's exception to an error with a hint.

    Args:
        error: Exception that the model raised.
        location: Name of the model in messages.
        rows: Frame or array that the model received.
    """
    text = summarize_error(error)
    lower = text.lower()
    if re.search(r"\bnan\b|isnan|missing value", lower):
        hint = (
            "the model does not accept missing values: set `missing: drop` for those attributes in the schema"
            if rows is None or _has_missing(rows)
            else "no value is missing, but some column types differ from training: pass a data frame with the "
            "training types, or a function (module:function) that converts the table as in training"
        )
    elif "unknown categor" in lower or "unseen label" in lower:
        hint = "remove values absent from training from the schema, or train the model to accept unseen values"
    elif "could not convert string to float" in lower:
        hint = (
            "the model was trained on numbers but receives strings: set `model_input: number` in the "
            "attribute's `number_format`, or pass a function (module:function) that cleans the table as in training "
            "and calls the model"
        )
    elif "not fitted" in lower:
        hint = "fit the model first"
    else:
        hint = "the model must accept every row of the schema's domain: check attributes, order and encodings"
    return ModelError(f"{CANNOT_ASK}{text}", location=location, hint=hint)


def _has_missing(rows: Any) -> bool:
    """Check whether a frame or array has missing values."""
    import narwhals as nw

    table = nw.from_native(rows, eager_only=True, pass_through=True)
    if isinstance(table, nw.DataFrame):
        return any(is_missing(value) for name in table.columns for value in table[name].to_list())
    return any(map(is_missing, np.asarray(rows, dtype=object).ravel().tolist()))


# Input of a model, determined when it is loaded.


def settle_input(
    model: RowT,
    forms: Sequence[InputForm],
    inputs: Mapping[str, ColumnInput],
    *,
    untyped: bool,
    learnt: InputForm | None = None,
) -> RowT:
    """Determine the form and column types that a model accepts.

    Args:
        model: The model.
        forms: Candidate forms of its rows, most likely first.
        inputs: Types that the model declares, by column.
        untyped: Whether ``like`` is a text table. Undeclared column types are then inferred by queries.
        learnt: Input form that the model was fitted on. None if unknown.

    Raises:
        ModelError: The model rejects every form, or encoding by the schema changes its decisions.
    """
    people, refused = probe_individuals(model.schema), list[ModelError]()
    for form in forms:
        candidate = replace(model, form=form)
        try:
            if form != "numbers" and (untyped or model.like is None):
                frame = decode(model.schema, people) if model.like is None else model.like
                compare = None if model.like is None else form == "frame"
                candidate = settle_types(candidate, inputs, frame, people, compare=compare)
            candidate = candidate.probe(candidate.input(people))
        except ModelError as error:
            refused.append(error)
            continue
        if form == "frame" and model.like is not None:
            _check_same_people(candidate)
        if refused:  # array columns are matched by position, which cannot be verified
            reason = refused[0].message.removeprefix(CANNOT_ASK)
            return add_caution(
                candidate,
                f"The model was queried with {FORMS[form]}, columns in the order of the schema, because it failed with "
                f"{FORMS[forms[0]]}: {reason}. If it expects other columns, all its results are wrong.",
            )
        guessed = len(forms) > 1 and form != "frame" and learnt is None
        return add_caution(candidate, _describe_guess(candidate, forms[1])) if guessed else candidate
    attempts = [f"queried with {FORMS[form]}: {error.message}" for form, error in zip(forms, refused, strict=True)]
    message = refused[0].message if len(refused) == 1 else "; ".join(attempts)
    raise ModelError(message, location=model.name, hint=refused[0].hint)


def _describe_guess(model: RowModel, other: InputForm) -> str:
    """Describe how another form changes a model's answers. Empty if it does not, or if the model rejects that form."""
    people = probe_individuals(model.schema)
    try:
        differs = _differ(model.answer(people)[:, 0], replace(model, form=other).answer(people)[:, 0])
    except ModelError:
        return ""
    if not differs.any():
        return ""
    return (
        f"The model was fitted on an array of unknown contents: it accepts {FORMS['words']} and "
        f"{FORMS['numbers']}, and its answers differ for {differs.sum()} of {len(differs)} individuals. It was "
        "queried with the data's own values. If it was trained on numbers, all its results are wrong: fit it on a "
        "data frame, which names its columns, or wrap it as module:function that takes a data frame and encodes it."
    )


def _check_same_people(model: RowModel) -> None:
    """Check that a model's decisions are the same before and after encoding by the schema.

    If the schema normalises spaces, case or missing-value markers that the model distinguishes, its answers change.
    Binning changes the input by design, so the comparison is skipped. Only rows that the schema changes are compared.
    The decisions of a noisy model may differ as often as its answers to identical rows do.
    """
    import narwhals as nw

    schema, table = model.schema, nw.from_native(model.like, eager_only=True)
    absent = set(schema.columns) - set(table.columns)
    if absent or any(attribute.edges is not None for attribute in schema.attributes):
        return  # a frame that does not fit the schema is only a template
    rows = table.select([name for name in table.columns if name in schema.columns]).head(COMPARED_PEOPLE)
    try:
        people = encode(schema, rows.to_native())
        original = rows[people.rows.tolist()]
        encoded = nw.from_native(decode(schema, people.individuals, like=rows.to_native()), eager_only=True)
        differs = np.zeros(len(original), dtype=np.bool_)
        for name in schema.names:  # passthrough columns come from the data
            column, other = original[name], encoded[name]
            if column.dtype != other.dtype:
                differs[:] = True
                break
            missing = (column.is_null() & other.is_null()).to_numpy()
            differs |= ~(missing | np.asarray((column == other).fill_null(value=False).to_numpy(), dtype=np.bool_))
        changed = np.flatnonzero(differs).tolist()
        if not changed:
            return
        frames = [frame[changed].to_native() for frame in (original, encoded)]
        decisions = [model.answer_frame(frames[0])[:, 0]]
    except (DataError, ModelError):
        return
    decisions.append(model.answer_frame(frames[1])[:, 0])
    different = np.flatnonzero(_differ(*decisions))
    if not len(different):
        return
    again = [model.answer_frame(frame)[:, 0] for frame in frames]
    noise = sum(int(_differ(decision, repeated).sum()) for decision, repeated in zip(decisions, again, strict=True))
    if not is_clear(len(different) + int(_differ(*again).sum()), noise):
        return
    raise ModelError(
        f"encoding by the schema changes the decision for {len(different):,} of {len(people):,} people, first in row "
        f"{int(people.rows[changed[different[0]]]) + 1}",
        location=model.name,
        hint="the schema's values must match the training categories. Check whitespace, and markers of missing "
        "values that the model treats as categories",
    )


def _differ(answers: Floats, repeated: Floats) -> Booleans:
    """Check whether decisions (n,) differ by more than rounding."""
    return np.asarray(~np.isclose(answers, repeated, rtol=1e-9, atol=1e-12))


# Meaning of a model's outputs, determined when it is loaded.


def settle_outputs(model: LabelT, outputs: Floats, truth: Integers, stated: OutputKind | None) -> LabelT:
    """Determine the meaning of a model's outputs.

    Args:
        model: The model.
        outputs: Outputs for individuals, shape (n, k).
        truth: Their true labels (see ``ReferencePeople``), shape (n,).
        stated: Meaning stated by the caller. None to infer it from values and true labels.
    """
    reading = read_outputs(
        outputs, truth, model.classes, model.output_class, model.favourable, stated=stated, location=model.name
    )
    single = outputs.shape[1] == 1 and not model.labelled
    return add_caution(
        replace(model, reading=reading), reading.describe(model.classes[model.output_class]) if single else ""
    )


def ask_reference_rows(
    model: LabelModel, ledger: QuestionLedger, outputs: Floats, data: Any
) -> tuple[Floats, Floats, Integers]:
    """Query a model with data rows, charge its ledger and determine the meaning of its outputs. No query is sent if all
    outputs are labels of the target.

    Args:
        model: The model.
        ledger: Ledger of the model. At most a quarter of its budget is used.
        outputs: Outputs for individuals of the domain, shape (n, k).
        data: Data frame, or None.

    Returns:
        The m rows, shape (m, attributes); the outputs for the individuals of the domain and then for these rows,
        shape (n + m, k); and the true labels of the same individuals, shape (n + m,).
    """
    unknown = np.full(len(outputs), -1, dtype=np.int64)
    no_rows = np.empty((0, len(model.schema.attributes)))
    if first_reading(outputs, model.classes).label_only:
        return no_rows, outputs, unknown
    people = reference_people(model.schema, data, rows=int(min(PAID_PEOPLE, ledger.left // 4)), domain_rows=0)
    answers = model.ask(people.individuals).outputs if len(people.individuals) else None
    if answers is None or answers.shape[1] != outputs.shape[1]:
        return no_rows, outputs, unknown
    return people.individuals, np.concatenate([outputs, answers]), np.concatenate([unknown, people.truth])
