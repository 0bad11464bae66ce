"""Column types of a text table that a black box expects: stated by the model, or found by asking it.

A model that refuses a type raises an exception. A comparison such as ``level == "2"`` is never true for numbers and
raises none: the answers of such a model do not depend on the column until it holds words.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import DataError, FetchError, ModelError
from evenhand.models.blackbox.questions import NOISE_ERRORS
from evenhand.models.column_types import AS_READ, ColumnInput, ColumnTypes, needs_conversion, other_input
from evenhand.models.ledger import QuestionLedger
from evenhand.models.scorer import BATCH_ROWS
from evenhand.schema.people import encode
from evenhand.schema.schema import Schema

MAX_ROWS = 1000
"""Rows of the data on which reactions to a column are checked."""

MIN_ROWS = 50
"""If the table is too wide for this many rows, or the budget too small, reactions are not checked."""

MAX_CELLS = 10_000_000
"""Cells that a model is asked with while its reactions are checked."""

MAX_QUESTIONS = 40
"""Calls for each of the three checks."""

MAX_COMPARED = 16
"""Columns of which the answers with both types are compared."""

COMPARED_ROWS = 200
"""Rows on which they are compared."""

MAX_ENDPOINT_QUESTIONS = 8
"""Calls to an endpoint, which may cost money."""

BUDGET_SHARE = 0.25
"""Share of a budget of questions that the checks may spend."""

REFUSED_STATUSES = (400, 422)
"""Statuses of an endpoint that refuses its input."""


class TypedBox(Protocol):
    """A black box that is asked with the columns of a text table."""

    @property
    def schema(self) -> Schema: ...
    @property
    def name(self) -> str: ...
    @property
    def types(self) -> ColumnTypes: ...
    @property
    def caution(self) -> str: ...
    @property
    def ledger(self) -> QuestionLedger: ...


BoxT = TypeVar("BoxT", bound=TypedBox)


def settle_types(
    box: BoxT,
    inputs: Mapping[str, ColumnInput],
    frame: Any,
    *,
    probe: Callable[[BoxT], object] | None = None,
    answers: Callable[[BoxT, Any], Floats] | None = None,
) -> BoxT:
    """Give a black box the types of the columns of a text table that it expects.

    The schema and the model state them, or else the model is asked.

    Args:
        box: The black box.
        inputs: The types that the model states, by column.
        frame: The text table.
        probe: Asks a box about a few individuals. None if only stated types are used.
        answers: Answers of a box about the rows of a frame, shape (n, k). None if only refusals are looked at.

    Raises:
        ModelError: A value of the table has no equivalent in a stated type, or the model refuses every combination of
            types that was tried.
    """
    schema = box.schema
    stated = {
        name: wanted for name, wanted in (_schema_inputs(schema, frame) | dict(inputs)).items() if name in frame.columns
    }
    wanted = {name: given for name, given in stated.items() if needs_conversion(name, given, schema, frame[name])}
    if wanted:
        types = AS_READ.with_inputs(wanted, schema, frame)
        rows = _kept_rows(schema, frame)
        types.convert((frame if rows is None else frame.iloc[rows])[list(wanted)], box.name)
        box = _with_types(box, types)
    if probe is None:
        return box
    unstated = [name for name in schema.columns if name in frame.columns and name not in stated]
    others = {name: other_input(name, schema, frame[name]) for name in unstated}
    search = _TypeSearch(box, frame, {name: other for name, other in others.items() if other is not None}, probe)
    if not search.others:
        return box
    error = search.refusal(box)
    found: BoxT = box
    if error is not None:
        found = search.accepted(error, MAX_ENDPOINT_QUESTIONS if answers is None else MAX_QUESTIONS)
    elif answers is not None:
        found = search.reacting(answers)
    return found


def with_caution(box: BoxT, text: str) -> BoxT:
    """Add a sentence to what a reader must know about how a model is asked."""
    changed: BoxT = dataclasses.replace(box, caution=" ".join(filter(None, [box.caution, text])))  # type: ignore[type-var]  # a Protocol
    return changed


def _with_types(box: BoxT, types: ColumnTypes) -> BoxT:
    changed: BoxT = dataclasses.replace(box, types=types)  # type: ignore[type-var]  # a Protocol
    return changed


def _schema_inputs(schema: Schema, frame: Any) -> dict[str, ColumnInput]:
    """Return the types that a schema states: words for numbers that it lists as words, and ``model_input: number``."""
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
    """Return the positions of the rows that a schema keeps; None if it does not describe the frame."""
    try:
        return encode(schema, frame).rows
    except DataError:
        return None


@dataclass
class _TypeSearch:
    """A search for the types of some columns.

    Attributes:
        box: The black box, with the types that are stated.
        frame: The text table.
        others: The other type that each column may have.
        probe: Asks a box about a few individuals.
        questions: Calls so far.
    """

    box: Any
    frame: Any
    others: Mapping[str, ColumnInput]
    probe: Callable[[Any], object]
    questions: int = 0

    def switch(self, names: Iterable[str]) -> Any:
        """Return the box with the other type of some columns."""
        inputs = {name: self.others[name] for name in names}
        return _with_types(self.box, self.box.types.with_inputs(inputs, self.box.schema, self.frame))

    def refusal(self, box: Any) -> ModelError | FetchError | None:
        """Ask a box about a few individuals and return its refusal; None if it answers."""
        self.questions += 1
        try:
            self.probe(box)
        except ModelError as error:
            return error
        except FetchError as error:
            if error.status not in REFUSED_STATUSES:
                raise
            return error
        return None

    def accepted(self, error: ModelError | FetchError, most: int) -> Any:
        """Return the box with the types that it accepts.

        Raises:
            ModelError: It refuses every combination that was tried.
        """
        first, switched = error, list[str]()
        # Columns that the message names come first.
        order = sorted(self.others, key=lambda name: name not in str(error))
        pending = order
        while pending and self.questions < most:
            name, pending = pending[0], pending[1:]
            after = self.refusal(self.switch([*switched, name]))
            if after is None:
                return self.switch([*switched, name])
            if after.message != error.message:
                switched, error = [*switched, name], after
                pending = [other for other in order if other not in switched]
        # The same message may come from one column after the other, so they are also switched together.
        for kinds in ({"words"}, {"numbers", "booleans"}, {"words", "numbers", "booleans"}):
            names = [name for name, other in self.others.items() if other.type in kinds]
            if names and self.refusal(self.switch(names)) is None:
                return self.switch(self._needed(names, 2 * most))
        raise first

    def _needed(self, names: Sequence[str], most: int) -> list[str]:
        """Return the columns that must be switched, of those with which the box answers."""
        needed, size = list(names), max(1, len(names) // 2)
        while self.questions < most:
            for start in range(0, len(needed), size):
                rest = [*needed[:start], *needed[start + size :]]
                if self.questions < most and self.refusal(self.switch(rest)) is None:
                    needed = rest
                    break
            else:
                if size == 1:
                    break
                size //= 2
        return needed

    def reacting(self, answers: Callable[[Any, Any], Floats]) -> Any:
        """Return the box with the types on which its answers depend.

        Columns that the box ignores as they were read get their other types if the box answers then and depends on
        them.
        """
        rows = self._sample_rows()
        if rows is None:
            return with_caution(
                self.box,
                f"The types of {', '.join(self.others)} were taken from the table: the budget or the width of the "
                "table is too small to check them with the model.",
            )
        reactions = _Reactions(rows, answers)
        depends = reactions.measure(self.box, list(self.others), confirm=False)
        ignored = [name for name, reacts in zip(self.others, depends, strict=True) if not reacts]
        accepted = self._accepted_columns(ignored)
        after = reactions.measure(self.switch(accepted), accepted, confirm=True) if accepted else []
        switched = [name for name, reacts in zip(accepted, after, strict=True) if reacts]
        box = self.switch(switched) if switched else self.box
        differing = self._find_differing(box, ignored, reactions)
        if not differing:
            return box
        other = "; ".join(f"{name} as {self.others[name].type}" for name in differing)
        return with_caution(
            box,
            f"The model answers differently if it receives {other}. The types of the table were kept. If the model was "
            "trained on other types, give the data as a data frame or a Parquet file with the types of the training.",
        )

    def _sample_rows(self) -> Any:
        """Return rows of the table that the schema keeps; None if there may be too few of them."""
        ledger, blocks = self.box.ledger, len(self.others) + 4
        most = min(MAX_ROWS, MAX_CELLS // (blocks * len(self.frame.columns)))
        if ledger.budget is not None:
            most = min(most, int(BUDGET_SHARE * ledger.left) // (3 * blocks))
        if most < min(MIN_ROWS, len(self.frame)):
            return None
        places = np.random.default_rng(0).permutation(len(self.frame))[:most]
        sample = self.frame.iloc[places].reset_index(drop=True)
        kept = _kept_rows(self.box.schema, sample)
        return None if kept is None else sample.iloc[kept].reset_index(drop=True)

    def _accepted_columns(self, names: list[str]) -> list[str]:
        """Return the columns whose other types the box accepts, found by halving."""
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

    def _find_differing(self, box: Any, ignored: Sequence[str], reactions: _Reactions) -> list[str]:
        """Return the columns that the box accepts in their other types, with answers that tell neither type wrong."""
        differing = []
        for name in [name for name in self.others if name not in box.types.conversions][:MAX_COMPARED]:
            types = box.types.with_inputs({name: self.others[name]}, box.schema, self.frame)
            other = dataclasses.replace(box, types=types)
            if not reactions.differ(box, other):
                continue
            # A model that ignores the column in its other type was not trained on it.
            if name in ignored or reactions.measure(other, [name], confirm=True)[0]:
                differing.append(name)
        return differing


@dataclass
class _Reactions:
    """Answers of a model about rows of a table, and their differences beyond its own noise.

    Attributes:
        rows: The rows.
        answers: Answers of a box about the rows of a frame.
    """

    rows: Any
    answers: Callable[[Any, Any], Floats]

    def measure(self, box: Any, names: Sequence[str], *, confirm: bool) -> list[bool]:
        """Return for each column whether the answers change if its cells are permuted among the rows.

        Args:
            box: The black box.
            names: The columns.
            confirm: Whether to ask again, so that the noise of a model is not taken for a reaction.
        """
        import pandas as pd

        rng = np.random.default_rng(0)
        blocks = [self.rows]
        for name in names:
            cells = self.rows[name].iloc[rng.permutation(len(self.rows))].reset_index(drop=True)
            blocks.append(self.rows.assign(**{name: cells}))
        table = pd.concat(blocks, ignore_index=True)
        first = self._ask_blocks(box, table)
        changes = [_count_changes(first[0], block) for block in first[1:]]
        if not confirm or not any(changes):
            return [count > 0 for count in changes]
        second = self._ask_blocks(box, table)
        own = [_count_changes(block, again) for block, again in zip(first, second, strict=True)]
        return [
            _is_clear(min(count, _count_changes(second[0], second[i])), own[0] + own[i])
            for i, count in enumerate(changes, start=1)
        ]

    def _ask_blocks(self, box: Any, table: Any) -> list[Floats]:
        answers, size = self._ask(box, table), len(self.rows)
        return [answers[at : at + size] for at in range(0, len(answers), size)]

    def differ(self, box: Any, other: Any) -> bool:
        """Return whether two boxes answer differently; no if the second refuses."""
        rows = self.rows.head(COMPARED_ROWS)
        try:
            theirs = [self._ask(other, rows) for _ in range(2)]
        except ModelError:
            return False
        ours = [self._ask(box, rows) for _ in range(2)]
        changes = min(_count_changes(one, two) for one, two in zip(ours, theirs, strict=True))
        return _is_clear(changes, _count_changes(*ours) + _count_changes(*theirs))

    def _ask(self, box: Any, table: Any) -> Floats:
        parts = [self.answers(box, table.iloc[at : at + BATCH_ROWS]) for at in range(0, len(table), BATCH_ROWS)]
        return np.concatenate(parts)


def _count_changes(first: Floats, second: Floats) -> int:
    """Return the number of rows with other answers; numbers may differ by rounding."""
    return int((~np.isclose(first, second, rtol=1e-9, atol=1e-12)).any(axis=1).sum())


def _is_clear(changes: int, own: int) -> bool:
    """Return whether there are more changes than a noisy model makes by itself."""
    return changes > 0 if own == 0 else changes - own > NOISE_ERRORS * math.sqrt(changes + own)
