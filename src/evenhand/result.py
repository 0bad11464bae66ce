"""What every engine's result can do: be printed, tabulated, plotted, and travel as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evenhand import __version__
from evenhand.errors import DataError

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


class Result(BaseModel):
    """An immutable answer with the version, seed and time that made it.

    Attributes:
        evenhand: version of the library.
        kind: which analysis it is; fixed by each subclass.
        seed: what the random numbers were drawn from; the same seed gives the same result.
        seconds: wall-clock time it took.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    evenhand: str = __version__
    kind: str
    seed: int
    seconds: float = Field(ge=0)

    def summary(self) -> str:
        """The answer in a few lines of plain text."""
        raise TypeError(f"{type(self).__name__} must define summary()")

    def to_frame(self) -> pd.DataFrame:
        """The numbers as a table, one row per finding."""
        raise TypeError(f"{type(self).__name__} must define to_frame()")

    def plot(self) -> alt.TopLevelMixin:
        """The answer as an Altair chart."""
        raise TypeError(f"{type(self).__name__} must define plot()")

    def to_json(self, *, indent: int | None = 2) -> str:
        """The whole result as JSON text; ``from_json`` gives an equal result."""
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what ``to_json`` wrote.

        Raises:
            DataError: the text is not such a result.
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            fault = error.errors()[0]
            place = ".".join(str(part) for part in fault["loc"])
            raise DataError(f"this is no {cls.__name__}: {place}: {fault['msg']}") from None

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(self.summary())}</pre>"

    def plain(self) -> dict[str, Any]:
        """The result as plain Python data."""
        return self.model_dump(mode="json")
