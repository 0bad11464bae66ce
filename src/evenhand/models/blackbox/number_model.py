"""Estimators and functions that give everybody a number, as black boxes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from evenhand.core.typing import Floats
from evenhand.errors import ModelError
from evenhand.models.blackbox.estimator import (
    candidate_forms,
    describe_form,
    input_columns,
    is_repeatable,
    learnt_classes,
)
from evenhand.models.blackbox.learnt_types import learnt_inputs
from evenhand.models.blackbox.questions import (
    InputForm,
    check_same_people,
    model_input,
    probe_individuals,
    refusal_error,
)
from evenhand.models.blackbox.type_search import settle_types, with_caution
from evenhand.models.column_types import AS_READ, ColumnTypes
from evenhand.models.encodings import refuse_guessed_codes
from evenhand.models.ledger import QuestionLedger
from evenhand.models.regressor import check_numbers
from evenhand.schema.people import decode
from evenhand.schema.schema import Schema


@dataclass(frozen=True, eq=False)
class NumberModel:
    """A fitted regressor, or any function of a batch, that answers with one number per individual.

    Attributes:
        schema: what its individuals are.
        function: what is called: the regressor's ``predict``, or the function.
        name: how to call it in a report.
        kind: what it is, e.g. ``RandomForestRegressor`` or ``function``.
        like: a frame whose type and column types it is asked with.
        form: how it is asked.
        columns: the columns it was fitted on, None where it does not say.
        types: Types of the columns of a text table that it expects.
        can_vary: whether it may answer differently when asked again.
        ledger: counts the individuals that it was asked about.
        caution: what a reader must know about how it is asked.
    """

    schema: Schema
    function: Callable[[Any], Any]
    name: str
    kind: str
    like: Any
    form: InputForm = "frame"
    columns: tuple[str, ...] | None = None
    types: ColumnTypes = AS_READ
    can_vary: bool = True
    ledger: QuestionLedger = field(default_factory=QuestionLedger, repr=False)
    caution: str = ""

    def predict_numbers(self, individuals: Floats) -> Floats:
        """Return the number of each individual, shape (n,).

        Raises:
            ModelError: the model fails, or does not answer with one finite number each.
        """
        asked = model_input(
            self.schema,
            individuals,
            self.form,
            like=self.like,
            columns=self.columns,
            types=self.types,
            location=self.name,
        )
        return self._call(asked, len(individuals))

    def predict_frame(self, frame: Any) -> Floats:
        """Return the numbers of a frame's rows without going through the schema, shape (n,)."""
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True).select(list(self.columns or self.schema.names))
        return self._call(self.types.convert(table.to_native(), self.name), len(table))

    def answer_frame(self, frame: Any) -> Floats:
        """Return the numbers of a frame's rows without going through the schema, shape (n, 1)."""
        return self.predict_frame(frame)[:, None]

    def _call(self, asked: Any, n: int) -> Floats:
        self.ledger.charge(n)
        try:
            answer = self.function(asked)
        except Exception as error:
            raise refusal_error(error, location=self.name, asked=asked) from error
        return check_numbers(answer, n, model=self.name)


def wrap_regressor(
    source: Any,
    schema: Schema,
    *,
    like: Any = None,
    name: str | None = None,
    ledger: QuestionLedger | None = None,
    untyped: bool = False,
) -> NumberModel:
    """Wrap a fitted regressor, or a function, whose answers are numbers.

    It is asked as a classifier is (see ``wrap_estimator``, ``wrap_function``): with a data frame in the data's own
    words, an array of the same words, or plain numbers by each attribute's encoding.

    Args:
        source: has ``predict``, or is called itself.
        schema: what the columns mean; its target is a number.
        like: the user's data: its frame type is kept, and the model must give these people the same numbers before and
            after they went through the schema.
        name: how to call it in a report.
        ledger: counts whom it is asked about; by default a new one.
        untyped: Whether ``like`` is a text table, whose column types are those that the model expects.

    Raises:
        ModelError: it gives labels, is not fitted, was fitted on other columns, or cannot answer for everyone in the
            domain.
    """
    fitted = hasattr(source, "predict") and not isinstance(source, type)
    kind = type(source).__name__ if fitted else "function"
    name = name or (kind if fitted else str(getattr(source, "__name__", type(source).__name__)))
    if learnt_classes(source) is not None:
        raise ModelError(
            f"the model gives labels, and the target {schema.target.name!r} is a number",
            location=name,
            hint="for labels say `kind=label`; for a score give the function that computes it",
        )
    columns = input_columns(source, schema, name)
    forms = candidate_forms(source, schema, columns, name)
    model = NumberModel(
        schema,
        source.predict if fitted else source,
        name,
        kind,
        like,
        columns=columns,
        can_vary=not (fitted and is_repeatable(source)),
        ledger=ledger or QuestionLedger(),
    )
    people = probe_individuals(schema)
    refused: list[ModelError] = []
    for form in forms:
        asked = replace(model, form=form)
        try:
            inputs = learnt_inputs(source, columns or schema.names) if fitted else {}
            if form != "numbers" and like is None:
                asked = settle_types(asked, inputs, decode(schema, people))
            elif form != "numbers" and untyped:
                asked = settle_types(
                    asked,
                    inputs,
                    like,
                    probe=lambda box: box.predict_numbers(people),
                    answers=NumberModel.answer_frame if form == "frame" else None,
                )
            asked.predict_numbers(people)
        except ModelError as error:
            refused.append(error)
            continue
        if form == "numbers":
            refuse_guessed_codes(schema.attributes, name)
        if form == "frame" and like is not None:
            check_same_people(asked.predict_frame, schema, like, location=name)
        first = refused[0] if refused else None
        return with_caution(asked, describe_form(asked, source, forms, first, lambda box: box.predict_numbers(people)))
    tried = "; ".join(f"asked with {form}: {error.message}" for form, error in zip(forms, refused, strict=True))
    raise refused[0] if len(refused) == 1 else ModelError(tried, location=name, hint=refused[0].hint)
