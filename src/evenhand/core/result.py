"""Base class of results, which can be printed, tabulated, plotted and saved as JSON."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand import __version__
from evenhand.core.config import translate_error
from evenhand.core.document import Document
from evenhand.core.reading import TableReading
from evenhand.core.result_part import own_names
from evenhand.core.text import format_duration
from evenhand.errors import DataError

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


SCHEMA_VERSION = 1
"""Version of the JSON of results."""


PEOPLE_LEFT_OUT = "Records of real people are left out."
"""Note of a result without records of people."""

PEOPLE_HIDDEN = f"{PEOPLE_LEFT_OUT} Set `show_people=` to see them."
"""Note that replaces records."""


class ResultNumber(NamedTuple):
    """A number of a result.

    Attributes:
        name: Name, as in conditions of ``--fail-on``.
        attribute: Protected attribute, or several joined by ``_x_``. Empty for all people together.
        group: Label of the group. Empty for gaps and for all people together.
        quantity: Quantity of ``evenhand.stats``, or a float that is exact.
        note: Description, such as the groups that a gap compares.
        caution: Caution about selective true labels.
        left_out: Groups that are too small for the number.
    """

    name: str
    attribute: str
    group: str
    quantity: Any
    note: str = ""
    caution: str = ""
    left_out: str = ""


class Result(BaseModel):
    """Immutable result of an analysis, with its version, seed and time.

    Attributes:
        evenhand: Version of the library.
        schema_version: Version of the JSON. It increases if a field is renamed or changes its meaning.
        kind: Name of the analysis.
        seed: Seed of the random numbers. Equal seeds give equal results, unless ``time_limited``.
        seconds: Wall-clock time.
        time_limited: Whether a time limit affected the result, which then depends on the machine.
        people_left_out: Whether records of real people were removed (see ``hide_people``).
        table_reading: Table reading. None if no table was read.
        test_reading: Reading of the table of test data. None without a separate table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    chart: ClassVar[str] = ""
    """Module and function of ``evenhand.view.charts`` that draw the result. Empty without a chart."""

    evenhand: str = __version__
    schema_version: int = SCHEMA_VERSION
    kind: str
    seed: int
    seconds: float = Field(ge=0)
    time_limited: bool = False
    people_left_out: bool = False
    table_reading: TableReading | None = Field(None, exclude_if=lambda reading: reading is None)
    test_reading: TableReading | None = Field(None, exclude_if=lambda reading: reading is None)

    def __dir__(self) -> list[str]:
        return own_names(super().__dir__())

    def document(self) -> Document:
        """Build the document of the result for terminals, pages and notebooks."""
        raise TypeError(f"{type(self).__name__} must define document()")

    def _write_document(self, module: str, *arguments: object) -> Document:
        """Build the document in a module, which is imported on demand."""
        document: Document = importlib.import_module(module).build_document(self, *arguments)
        return document

    def hide_people(self) -> Self:
        """Remove records of real people; aggregates and invented profiles remain.

        Verbs and commands do this unless ``show_people`` is set. It removes rows of the data, profiles that differ from
        a row in protected attributes only, and profiles with a value that a single person has.
        """
        parts = {name: _map_results(value, lambda part: part.hide_people()) for name, value in self}
        return self.model_copy(update={**parts, **self._records_hidden(), "people_left_out": True})

    def without_people(self) -> Self:
        """Remove records of real people, decisions, and rates of groups that are too small to be compared."""
        parts = {name: _map_results(value, lambda part: part.without_people()) for name, value in self}
        hidden = {**self._records_hidden(), **self._small_groups_hidden()}
        return self.model_copy(update={**parts, **hidden, "people_left_out": True})

    def _records_hidden(self) -> dict[str, Any]:
        """Return replacements of the fields with records of real people."""
        return {}

    def _small_groups_hidden(self) -> dict[str, Any]:
        """Return replacements of the fields with decisions about few people."""
        return {}

    @property
    def readings(self) -> dict[str, TableReading]:
        """Table readings by the name of the table. A single table has an empty name."""
        if self.table_reading is None:
            return {}
        return {"": self.table_reading} | ({} if self.test_reading is None else {"Test data": self.test_reading})

    def summary(self) -> str:
        """Render the screen of the document as plain text."""
        return str(_view("screen").summarize(self.document()))

    def to_markdown(self) -> str:
        """Render the document as Markdown."""
        return str(_view("markdown").render_markdown(self.document()))

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the numbers of the result: conditions, cards and trackers of experiments read them here."""
        return iter(())

    def to_frame(self) -> pd.DataFrame:
        """Convert the result to a data frame, one row per finding."""
        raise TypeError(f"{type(self).__name__} must define to_frame()")

    def plot(self) -> alt.TopLevelMixin:
        """Plot the result as an Altair chart."""
        chart: alt.TopLevelMixin = _view("charts").plot(self)
        return chart

    def to_json(self, *, indent: int | None = 2) -> str:
        """Convert the result to JSON, which ``from_json`` reads."""
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a result from JSON. Unknown fields, such as those of a later version, are ignored.

        Raises:
            DataError: The text is not such a result, or its schema version is not supported.
        """
        try:
            result = cls.model_validate_json(text, extra="ignore")
        except ValidationError as error:
            fault = translate_error(error)
            raise DataError(f"not a {cls.__name__}: {fault.location}: {fault.message}") from None
        if result.schema_version > SCHEMA_VERSION:
            raise DataError(
                f"expected JSON of schema_version {SCHEMA_VERSION} at most, got {result.schema_version}, written by "
                f"evenhand {result.evenhand}",
                hint="read it with that version of evenhand",
            )
        return result

    def __str__(self) -> str:
        return self.summary()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.summary())

    def _repr_html_(self) -> str:
        return str(_view("page_template").render_fragment(self.document()))

    @property
    def provenance(self) -> str:
        """Version, seed and time of the result."""
        text = f"Made by evenhand {self.evenhand}, seed {self.seed}, in {format_duration(self.seconds)}."
        text += f" {PEOPLE_LEFT_OUT}" if self.people_left_out else ""
        if not self.time_limited:
            return text
        return (
            f"{text} A time limit was used, so the result depends on the speed of the machine, and the seed alone does "
            "not reproduce it."
        )

    def plain(self) -> dict[str, Any]:
        """Convert the result to plain Python data."""
        return self.model_dump(mode="json")


def _map_results(value: Any, function: Callable[[Result], Result]) -> Any:
    """Apply a function to the results in the value of a field."""
    if isinstance(value, Result):
        return function(value)
    return tuple(_map_results(part, function) for part in value) if type(value) is tuple else value


def _view(module: str) -> ModuleType:
    """Import a module of ``evenhand.view``, which is a higher layer, on demand."""
    return importlib.import_module(f"evenhand.view.{module}")
