"""Base class of results, which can be printed, tabulated, plotted and saved as JSON."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
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
"""Version of the JSON format of results."""

PEOPLE_LEFT_OUT = "Records of real people are left out."
"""Note in results without records of people."""

PEOPLE_HIDDEN = f"{PEOPLE_LEFT_OUT} To see them, set show_people (on the command line, --show-people)."
"""Note shown instead of records."""


class ResultNumber(NamedTuple):
    """Number reported in a result.

    Attributes:
        name: Name, as used in ``--fail-on`` conditions.
        attribute: Protected attribute, or several joined by ``_x_``. Empty for the overall number.
        group: Label of the group. Empty for gaps and for the overall number.
        quantity: Quantity of ``evenhand.stats``, or an exact float.
        note: Description, such as the groups compared by a gap.
        caution: Caution about selective true labels.
        left_out: Groups that are excluded because they are too small.
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
        schema_version: Version of the JSON format. It increases if a field is renamed or changes its meaning.
        kind: Name of the analysis.
        seed: Random seed. Equal seeds give equal results, unless ``time_limited`` is True.
        seconds: Wall-clock time.
        time_limited: Whether a time limit affected the result. If True, the result depends on the machine.
        people_left_out: Whether records of real people were removed (see ``hide_people``).
        table_reading: Description of how the table was read. None if no table was read.
        test_reading: Description of how the test data were read. None if there is no separate test table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    chart: ClassVar[str] = ""
    """Module and function of ``evenhand.view.charts`` for the chart of the result. Empty if there is no chart."""

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
        """Build the document with ``build_document`` of a module, which is imported on demand.

        The table readings and, unless the document has one, the provenance are added.
        """
        document: Document = importlib.import_module(module).build_document(self, *arguments)
        return replace(document, made=document.made or self.provenance, readings=self.readings)

    def hide_people(self) -> Self:
        """Remove records of real people. Aggregates and synthetic profiles are kept.

        The functions of ``evenhand.api`` and the CLI call this method unless ``show_people`` is set. It removes rows of
        the data, profiles that differ from a row only in protected attributes, and profiles with a value that only one
        person has.
        """
        parts = {name: _map_results(value, lambda part: part.hide_people()) for name, value in self}
        return self.model_copy(update={**parts, **self._records_hidden(), "people_left_out": True})

    def without_people(self) -> Self:
        """Remove records of real people, decisions about individuals, and rates of groups too small for comparison."""
        parts = {name: _map_results(value, lambda part: part.without_people()) for name, value in self}
        hidden = {**self._records_hidden(), **self._small_groups_hidden()}
        return self.model_copy(update={**parts, **hidden, "people_left_out": True})

    def _records_hidden(self) -> dict[str, Any]:
        """Return replacements for fields that contain records of real people."""
        return {}

    def _small_groups_hidden(self) -> dict[str, Any]:
        """Return replacements for fields that reveal decisions about small groups."""
        return {}

    @property
    def readings(self) -> dict[str, TableReading]:
        """Table readings by name of the table. The main table has an empty name."""
        if self.table_reading is None:
            return {}
        return {"": self.table_reading} | ({} if self.test_reading is None else {"Test data": self.test_reading})

    def summary(self) -> str:
        """Render the document as plain text for a terminal."""
        return str(_view("screen").summarize(self.document()))

    def to_markdown(self) -> str:
        """Render the document as Markdown."""
        return str(_view("markdown").render_markdown(self.document()))

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the numbers of the result. Used by conditions, model cards and experiment trackers."""
        return iter(())

    def to_frame(self) -> pd.DataFrame:
        """Convert the result to a data frame, one row per finding."""
        raise TypeError(f"{type(self).__name__} must define to_frame()")

    def plot(self) -> alt.TopLevelMixin:
        """Plot the result as an Altair chart."""
        chart: alt.TopLevelMixin = _view("charts").plot(self)
        return chart

    def to_json(self, *, indent: int | None = 2) -> str:
        """Convert the result to JSON that ``from_json`` can read."""
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a result from JSON. Unknown fields, such as those of a later version, are ignored.

        Raises:
            DataError: The text is not a result of this class, or its schema version is not supported.
        """
        try:
            result = cls.model_validate_json(text, extra="ignore")
        except ValidationError as error:
            fault = translate_error(error)
            raise DataError(f"not a {cls.__name__}: {fault.location}: {fault.message}") from None
        if result.schema_version > SCHEMA_VERSION:
            raise DataError(
                f"expected schema_version {SCHEMA_VERSION} or lower, got {result.schema_version}, written by evenhand "
                f"{result.evenhand}",
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
        """Sentence with the version, seed and running time of the result."""
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
    """Apply a function to all results in the value of a field."""
    if isinstance(value, Result):
        return function(value)
    return tuple(_map_results(part, function) for part in value) if type(value) is tuple else value


def _view(module: str) -> ModuleType:
    """Import a module of ``evenhand.view``, which is a higher layer, on demand."""
    return importlib.import_module(f"evenhand.view.{module}")
