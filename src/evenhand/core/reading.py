"""Description of how a table was read."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count, list_some


class OutcomeReading(ResultPart):
    """Favourable and unfavourable values of a column.

    Attributes:
        column: Column of the decisions or true labels.
        favourable: Favourable values. For numeric columns: ``higher`` or ``lower``. Empty if no value is favourable.
        unfavourable: All other values of the column. Empty for numeric columns.
        unknown: Labels that mark unknown values in the column. Rows with these labels have no decision or true label.
        how: Source of the favourable values, such as ``stated`` or ``proposed``.
    """

    column: str
    favourable: tuple[str, ...] = ()
    unfavourable: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    how: str = "stated"

    def describe(self) -> str:
        """Describe the favourable values, such as ``status = hired (unfavourable: rejected)``."""
        remarks = [f"unfavourable: {list_some(self.unfavourable)}"] if self.unfavourable else []
        remarks += [f"unknown: {list_some(self.unknown)}"] if self.unknown else []
        remarks += [self.how] if self.how != "stated" else []
        equals = " =" if self.unfavourable else ""
        return f"{self.column}{equals} {' or '.join(self.favourable)}" + (f" ({'; '.join(remarks)})" if remarks else "")


class TableReading(ResultPart):
    """Rows, favourable values and unknown values of a table.

    Attributes:
        rows: Number of rows of the table.
        used: Number of rows that the result is based on.
        left_out: Number of excluded rows, by reason, such as ``without a decision``. The sum of ``used`` and these
            numbers is ``rows``.
        unlabelled: Number of used rows without a true label. Error rates exclude these rows.
        decision: Column of the decisions. None if a model decides.
        true_label: Column of the true labels. None if there are no true labels.
        unknown: Number of rows with an unknown value, by attribute and by the string that marks it, which for an empty
            cell is the empty string. Attributes without unknown values have an empty entry.
        types: Suspected type of each column that may have been misread: ``numbers`` in an unusual format, such as
            ``$1,200``, or ``words`` that look like numbers, such as ``02134``.
        notes: Other remarks, such as skipped title rows.
    """

    rows: int = Field(ge=0)
    used: int = Field(ge=0)
    left_out: dict[str, int] = Field(default_factory=dict)
    unlabelled: int = Field(default=0, ge=0)
    decision: OutcomeReading | None = None
    true_label: OutcomeReading | None = None
    unknown: dict[str, dict[str, int]] = Field(default_factory=dict)
    types: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        """Describe in one line how the table was read."""
        return " ".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        used = f"{self.used:,} used" if self.left_out else "all used"
        used += f" ({self.unlabelled:,} without a true label)" if self.unlabelled else ""
        left_out = [f"{number:,} {reason}" for reason, number in self.left_out.items()]
        used += f"; left out {', '.join(left_out)}" if left_out else ""
        yield f"{format_count(self.rows, 'row', 'rows')}: {used}."
        outcomes = [(self.decision, ""), (self.true_label, "true label " if self.decision else "")]
        favourable = [
            name + outcome.describe() for outcome, name in outcomes if outcome is not None and outcome.favourable
        ]
        if favourable:
            yield f"Favourable: {'; '.join(favourable)}."
        unknown = [
            f"{name} {sum(words.values()):,} ({list_some([word or 'empty cells' for word in words])})"
            for name, words in self.unknown.items()
            if words
        ]
        if unknown:
            yield f"Unknown: {'; '.join(unknown)}."
        for kind in dict.fromkeys(self.types.values()):
            yield f"Read as {kind}: {list_some([name for name, type_ in self.types.items() if type_ == kind])}."
        yield from self.notes
