"""What every engine's result can do: be printed, tabulated, plotted, and travel as JSON."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

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
"""Of the JSON of every result."""


PEOPLE_LEFT_OUT = "Records of real people are left out."
"""Note of a result without records of people."""

PEOPLE_HIDDEN = f"{PEOPLE_LEFT_OUT} Set `show_people=` to see them."
"""Note in the place of records."""


class Result(BaseModel):
    """An immutable answer with the version, seed and time that made it.

    Attributes:
        evenhand: version of the library.
        schema_version: of the JSON; it grows when a field is renamed or changes its meaning, not when one is added.
        kind: which analysis it is; fixed by each subclass.
        seed: what the random numbers were drawn from; the same seed gives the same result, unless ``time_limited``.
        seconds: wall-clock time it took.
        time_limited: Whether a time limit decided the course of the analysis, which then depends on the machine.
        people_left_out: Whether records of real people were taken out (see ``hide_people``).
        table_reading: How the table was read; None if no table was read.
        test_reading: How the table of the test data was read; None without test data of its own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

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
        """Return the findings in words, numbers, tables and names of drawings: once, for every way to read them."""
        raise TypeError(f"{type(self).__name__} must define document()")

    def _write_document(self, module: str, *given: object) -> Document:
        """Return the document that a module writes of the result: words are loaded when they are read."""
        written: Document = importlib.import_module(module).build_document(self, *given)
        return written

    def hide_people(self) -> Self:
        """Return the result without records of real people: only aggregates and invented profiles are left.

        Verbs and commands return their results so, unless ``show_people`` is set. Left out are rows of the data,
        profiles that differ from one in protected attributes only, and profiles with a value that a single person has.
        """
        parts = {name: _map_results(value, lambda part: part.hide_people()) for name, value in self}
        return self.model_copy(update={**parts, **self._records_hidden(), "people_left_out": True})

    def without_people(self) -> Self:
        """Return the result without records of real people and without decisions about few of them.

        Rates of groups that are too small to be compared are unknown then, and decisions are not kept.
        """
        parts = {name: _map_results(value, lambda part: part.without_people()) for name, value in self}
        hidden = {**self._records_hidden(), **self._small_groups_hidden()}
        return self.model_copy(update={**parts, **hidden, "people_left_out": True})

    def _records_hidden(self) -> dict[str, Any]:
        """Return the fields that hold records of real people, without these."""
        return {}

    def _small_groups_hidden(self) -> dict[str, Any]:
        """Return the fields that hold decisions about few people, without these."""
        return {}

    @property
    def readings(self) -> dict[str, TableReading]:
        """How each table was read, by its name; a single table has an empty name."""
        if self.table_reading is None:
            return {}
        return {"": self.table_reading} | ({} if self.test_reading is None else {"Test data": self.test_reading})

    def summary(self) -> str:
        """Return the findings as plain text: the document's screen."""
        return str(_view("screen").summarize(self.document()))

    def to_markdown(self) -> str:
        """Return the whole document as Markdown."""
        return str(_view("markdown").render_markdown(self.document()))

    def to_frame(self) -> pd.DataFrame:
        """Return the numbers as a table, one row per finding."""
        raise TypeError(f"{type(self).__name__} must define to_frame()")

    def plot(self) -> alt.TopLevelMixin:
        """Return the result as an Altair chart."""
        chart: alt.TopLevelMixin = _view("charts").plot(self)
        return chart

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the whole result as JSON text; ``from_json`` gives an equal result."""
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what ``to_json`` wrote; fields that are not known here, as those of a later version, are ignored.

        Raises:
            DataError: the text is not such a result, or its fields mean something else.
        """
        try:
            found = cls.model_validate_json(text, extra="ignore")
        except ValidationError as error:
            fault = translate_error(error)
            raise DataError(f"this is not a {cls.__name__}: {fault.location}: {fault.message}") from None
        if found.schema_version > SCHEMA_VERSION:
            raise DataError(
                f"expected JSON of schema_version {SCHEMA_VERSION} at most, got {found.schema_version}, written by "
                f"evenhand {found.evenhand}",
                hint="read it with that version of evenhand",
            )
        return found

    def __str__(self) -> str:
        return self.summary()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.summary())

    def _repr_html_(self) -> str:
        return str(_view("page_template").render_fragment(self.document()))

    @property
    def provenance(self) -> str:
        """What made the result: version, seed and time."""
        made = f"Made by evenhand {self.evenhand}, seed {self.seed}, in {format_duration(self.seconds)}."
        made += f" {PEOPLE_LEFT_OUT}" if self.people_left_out else ""
        if not self.time_limited:
            return made
        return (
            f"{made} A time limit was used, so the result depends on the speed of the machine, and the seed alone does "
            "not reproduce it."
        )

    def plain(self) -> dict[str, Any]:
        """Return the result as plain Python data."""
        return self.model_dump(mode="json")


def _map_results(value: Any, function: Callable[[Result], Result]) -> Any:
    """Return a field's value with a function applied to the results in it."""
    if isinstance(value, Result):
        return function(value)
    return tuple(_map_results(part, function) for part in value) if type(value) is tuple else value


def _view(module: str) -> ModuleType:
    """Import a module of ``evenhand.view`` on demand: screens and pages stand above the engines."""
    return importlib.import_module(f"evenhand.view.{module}")
