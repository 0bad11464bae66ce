"""Column types that a black box expects in a text table: declared by schema or model, or inferred by queries.

A model may raise an exception for a wrong type. A comparison such as ``level == "2"`` raises none but is never true for
numbers, so the model ignores the column until it contains strings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import DataError, FetchError, ModelError
from evenhand.models.column_types import AS_READ, ColumnInput, needs_conversion, other_input
from evenhand.models.outputs import STANDARD_ERRORS
from evenhand.models.scorer import BATCH_ROWS
from evenhand.schema.people import encode
from evenhand.schema.schema import Schema

ModelT = TypeVar("ModelT", bound=Any)

MIN_ROWS, MAX_ROWS = 50, 1000
"""Number of data rows used to check whether a model depends on a column. If the table width or the budget allows fewer
than the minimum, the check is skipped."""

MAX_CELLS = 10_000_000
"""Maximum number of cells in the queries of this check."""

MAX_QUESTIONS, MAX_ENDPOINT_QUESTIONS = 40, 8
"""Maximum number of calls for each of the three checks, and to an endpoint, which may cost money."""

MAX_COMPARED, COMPARED_ROWS = 16, 200
"""Maximum number of columns, and number of rows, that are compared with both types."""

BUDGET_SHARE = 0.25
"""Maximum fraction of the query budget for the checks."""

REFUSED_STATUSES = (400, 422)
"""HTTP statuses of rejected inputs."""


def settle_types(
    model: ModelT, inputs: Mapping[str, ColumnInput], frame: Any, people: Floats, *, compare: bool | None
) -> ModelT:
    """Apply the column types that the schema and the model declare, and infer the others by queries.

    Args:
        model: The model.
        inputs: The model's declared types by column.
        frame: The text table.
        people: A few individuals for which each candidate model is queried.
        compare: Whether answers for rows of the table are compared. If False, only rejections count; if None, no query
            is sent.

    Raises:
        ModelError: A value of the table cannot be converted to its declared type, or the model rejects every tested
            combination of types.
    """
    schema = model.schema
    declared = _schema_inputs(schema, frame) | dict(inputs)
    stated = {name: column for name, column in declared.items() if name in frame.columns}
    columns = {name: column for name, column in stated.items() if needs_conversion(name, column, schema, frame[name])}
    if columns:
        types = AS_READ.with_inputs(columns, schema, frame)
        rows = _kept_rows(schema, frame)
        types.convert((frame if rows is None else frame.iloc[rows])[list(columns)], model.name)
        model = replace(model, types=types)
    if compare is None:
        return model
    unstated = [name for name in schema.columns if name in frame.columns and name not in stated]
    others = {name: other_input(name, schema, frame[name]) for name in unstated}
    search = _TypeSearch(model, frame, {name: other for name, other in others.items() if other is not None}, people)
    if not search.others:
        return model
    error = search.refusal(model)
    result: ModelT = search.accepted
    if error is not None:
        result = search.find_accepted(error, MAX_QUESTIONS if compare else MAX_ENDPOINT_QUESTIONS)
    elif compare:
        result = search.find_used()
    return result


def _schema_inputs(schema: Schema, frame: Any) -> dict[str, ColumnInput]:
    """Collect the types that a schema declares: strings for numbers listed as strings, and ``model_input: number``."""
    stated = {}
    for attribute in schema.attributes:
        words = attribute.values if attribute.edges is None else None
        is_number = attribute.name in frame.columns and frame[attribute.name].dtype.kind in "iuf"
        if attribute.number_format is not None and attribute.number_format.model_input == "number":
            stated[attribute.name] = ColumnInput("numbers", missing=True)
        elif is_number and words is not None and all(isinstance(value, str) for value in words):
            stated[attribute.name] = ColumnInput("words", words)
    return stated


def _kept_rows(schema: Schema, frame: Any) -> Any:
    """Find the positions of the rows that ``encode`` keeps. None if the frame does not fit the schema."""
    try:
        return encode(schema, frame).rows
    except DataError:
        return None


@dataclass
class _TypeSearch:
    """Search for the types of some columns.

    Attributes:
        model: Model with the types that are stated.
        frame: Text table.
        others: Alternative type of each column.
        people: A few individuals for which each candidate model is queried.
        questions: Number of calls so far.
        accepted: Last model that was not rejected.
    """

    model: Any
    frame: Any
    others: Mapping[str, ColumnInput]
    people: Floats
    questions: int = 0
    accepted: Any = None

    def switch(self, names: Iterable[str], model: Any = None) -> Any:
        """Give the model the alternative type of some columns."""
        model = model or self.model
        inputs = {name: self.others[name] for name in names}
        return replace(model, types=model.types.with_inputs(inputs, model.schema, self.frame))

    def refusal(self, model: Any) -> ModelError | FetchError | None:
        """Query a model with a few individuals. Return its rejection, or None."""
        self.questions += 1
        try:
            self.accepted = model.probe(model.input(self.people))
        except ModelError as error:
            return error
        except FetchError as error:
            if error.status not in REFUSED_STATUSES:
                raise
            return error
        return None

    def find_accepted(self, error: ModelError | FetchError, limit: int) -> Any:
        """Find the types that the model accepts, and return the model with them.

        Args:
            error: Rejection of the current types.
            limit: Maximum number of calls; twice as many in the last step.

        Raises:
            ModelError: The model rejects every tested combination.
        """
        refusal_as_read, switched = error, list[str]()
        # Try columns named in the message first.
        order = sorted(self.others, key=lambda name: name not in str(error))
        pending = order
        while pending and self.questions < limit:
            name, pending = pending[0], pending[1:]
            refusal = self.refusal(self.switch([*switched, name]))
            if refusal is None:
                return self.accepted
            if refusal.message != error.message:
                switched, error = [*switched, name], refusal
                pending = [other for other in order if other not in switched]
        # Several columns may cause the same message, so they are also switched together.
        for kinds in ({"words"}, {"numbers", "booleans"}, {"words", "numbers", "booleans"}):
            names = [name for name, other in self.others.items() if other.type in kinds]
            if names and self.refusal(self.switch(names)) is None:
                self._drop_needless(names, 2 * limit)
                return self.accepted
        raise refusal_as_read

    def _drop_needless(self, names: Sequence[str], limit: int) -> None:
        """Remove the columns that need not be switched from an accepted set, trying halves of it first."""
        needed, size = list(names), len(names)
        while size > 1:
            size = (size + 1) // 2
            for part in [needed[start : start + size] for start in range(0, len(needed), size)]:
                remaining = [name for name in needed if name not in part]
                if self.questions < limit and self.refusal(self.switch(remaining)) is None:
                    needed = remaining

    def find_used(self) -> Any:
        """Find the column types that influence the model's answers, and return the model with them.

        A column that it ignores gets its alternative type if the model accepts that type and depends on it.
        """
        rows = self._sample_rows()
        if rows is None:
            return replace(
                self.model,
                caution=f"The types of {', '.join(self.others)} were taken from the table: the budget is too small, "
                "or the table is too wide, to check them with the model.",
            )
        reactions = _Reactions(rows)
        depends = reactions.measure(self.model, list(self.others), confirm=False)
        ignored = [name for name, reacts in zip(self.others, depends, strict=True) if not reacts]
        accepted = self._accepted_columns(ignored)
        reactions_after = reactions.measure(self.switch(accepted), accepted, confirm=True) if accepted else []
        model = self.switch(name for name, reacts in zip(accepted, reactions_after, strict=True) if reacts)
        differing = self._find_differing(model, ignored, reactions)
        if not differing:
            return model
        other = "; ".join(f"{name} as {self.others[name].type}" for name in differing)
        return replace(
            model,
            caution=f"The model's answers change if it receives {other}. The types of the table were kept. If the "
            "model was trained on other types, pass the data as a data frame or Parquet file with the "
            "training types.",
        )

    def _sample_rows(self) -> Any:
        """Sample rows of the table, and drop those that ``encode`` drops. None if there may be too few."""
        ledger, blocks = self.model.ledger, len(self.others) + 4
        limit = min(MAX_ROWS, MAX_CELLS // (blocks * len(self.frame.columns)))
        if ledger.budget is not None:
            limit = min(limit, int(BUDGET_SHARE * ledger.left) // (3 * blocks))
        if limit < min(MIN_ROWS, len(self.frame)):
            return None
        places = np.random.default_rng(0).permutation(len(self.frame))[:limit]
        sample = self.frame.iloc[places].reset_index(drop=True)
        positions = _kept_rows(self.model.schema, sample)
        return None if positions is None else sample.iloc[positions].reset_index(drop=True)

    def _accepted_columns(self, names: list[str]) -> list[str]:
        """Find the columns whose alternative types the model accepts, by bisection."""
        self.questions, accepted, pending = 0, list[str](), [names]
        while pending and self.questions < MAX_QUESTIONS:
            group = pending.pop()
            if not group:
                continue
            if self.refusal(self.switch([*accepted, *group])) is None:
                accepted += group
            elif len(group) > 1:
                pending += [group[len(group) // 2 :], group[: len(group) // 2]]
        return accepted

    def _find_differing(self, model: Any, ignored: Sequence[str], reactions: _Reactions) -> list[str]:
        """Find the columns for which both types remain possible although the answers differ."""
        differing = []
        for name in [name for name in self.others if name not in model.types.conversions][:MAX_COMPARED]:
            other = self.switch([name], model)
            if not reactions.differ(model, other):
                continue
            # A model that ignores the column in its alternative type was not trained on that type.
            if name in ignored or reactions.measure(other, [name], confirm=True)[0]:
                differing.append(name)
        return differing


@dataclass
class _Reactions:
    """Answers of models to rows of a table, and their differences beyond noise. Attributes: rows: The rows."""

    rows: Any

    def measure(self, model: Any, names: Sequence[str], *, confirm: bool) -> list[bool]:
        """Measure for each column whether permuting its cells changes the answers.

        Args:
            model: The model.
            names: The columns.
            confirm: Whether to repeat queries to exclude noise.
        """
        import pandas as pd

        rng = np.random.default_rng(0)
        blocks = [self.rows]
        for name in names:
            cells = self.rows[name].iloc[rng.permutation(len(self.rows))].reset_index(drop=True)
            blocks.append(self.rows.assign(**{name: cells}))
        table = pd.concat(blocks, ignore_index=True)
        answers = self._ask_blocks(model, table)
        changes = [_count_changes(answers[0], block) for block in answers[1:]]
        if not confirm or not any(changes):
            return [count > 0 for count in changes]
        repeated = self._ask_blocks(model, table)
        noise = [_count_changes(block, again) for block, again in zip(answers, repeated, strict=True)]
        return [
            is_clear(min(count, _count_changes(repeated[0], repeated[i])), noise[0] + noise[i])
            for i, count in enumerate(changes, start=1)
        ]

    def _ask_blocks(self, model: Any, table: Any) -> list[Floats]:
        answers, size = _ask_batches(model, table), len(self.rows)
        return [answers[at : at + size] for at in range(0, len(answers), size)]

    def differ(self, model: Any, other: Any) -> bool:
        """Check whether the answers of two models differ. False if the second model rejects the rows."""
        rows = self.rows.head(COMPARED_ROWS)
        try:
            other_answers = [_ask_batches(other, rows) for _ in range(2)]
        except ModelError:
            return False
        answers = [_ask_batches(model, rows) for _ in range(2)]
        changes = min(_count_changes(mine, theirs) for mine, theirs in zip(answers, other_answers, strict=True))
        return is_clear(changes, _count_changes(*answers) + _count_changes(*other_answers))


def _ask_batches(model: Any, table: Any) -> Floats:
    return np.concatenate(
        [model.answer_frame(table.iloc[at : at + BATCH_ROWS]) for at in range(0, len(table), BATCH_ROWS)]
    )


def _count_changes(answers: Floats, other_answers: Floats) -> int:
    """Count the rows with different answers. Numbers may differ by rounding."""
    return int((~np.isclose(answers, other_answers, rtol=1e-9, atol=1e-12)).any(axis=1).sum())


def is_clear(changes: int, noise: int) -> bool:
    """Check whether there are more changes than noise explains."""
    return changes > 0 if noise == 0 else changes - noise > STANDARD_ERRORS * math.sqrt(changes + noise)
