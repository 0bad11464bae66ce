"""Attributes of an individual: kind, domain, number format and model encoding."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from evenhand.core.typing import Booleans, Floats
from evenhand.schema.table import outcome_key, read_number

Value: TypeAlias = StrictBool | StrictInt | StrictFloat | StrictStr
"""A cell value of the user's data. Strict types keep ``1`` and ``True`` apart."""

Kind: TypeAlias = Literal["categorical", "ordinal", "integer", "real"]
Missing: TypeAlias = Literal["refuse", "keep", "drop"]

MAX_DECIMALS = 12


class NumberFormat(BaseModel):
    """Format of numbers that the data store as text with a fixed number of decimals, such as ``12.50``.

    A string is read as a number only if formatting the number restores the same string. A model that was trained on
    strings therefore receives the strings in the data.

    Attributes:
        decimals: Number of decimals.
        model_input: Form of the column that the model was trained on: ``word`` or ``number``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    decimals: Annotated[int, Field(ge=0, le=MAX_DECIMALS)] = 0
    model_input: Literal["word", "number"] = "word"

    def read(self, value: Any) -> float:
        """Read a number, or a string in this format. Return NaN for other values."""
        number = read_number(value)
        return number if not isinstance(value, str) or self.write(number) == value.strip() else math.nan

    def write(self, number: float) -> str:
        """Format a number, rounded to the decimals."""
        word = f"{number:.{self.decimals}f}"
        return word.removeprefix("-") if float(word) == 0 else word  # no negative zero


def guess_format(words: Sequence[str]) -> NumberFormat | None:
    """Infer the format of numbers that are written with the same number of decimals. Return None for other strings."""
    decimals = {len(word.partition(".")[2]) for word in words}
    if len(decimals) != 1 or max(decimals) > MAX_DECIMALS:
        return None
    number_format = NumberFormat(decimals=decimals.pop())
    return None if any(math.isnan(number_format.read(word)) for word in words) else number_format


class AffineEncoding(BaseModel):
    """Model input ``(value - offset) / scale``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    offset: float = 0.0
    scale: Annotated[float, Field(gt=0)] = 1.0


Encoding: TypeAlias = Literal["code", "one-hot", "value"] | AffineEncoding | tuple[float, ...]


class Attribute(BaseModel):
    """An attribute of an individual and its domain.

    The entry of an individual is one float: the position in ``values`` for a categorical or ordinal attribute, the
    number itself for an integer or real attribute, and NaN for a missing value.

    Attributes:
        name: Column name.
        kind: ``categorical`` (unordered), ``ordinal`` (ordered values), ``integer`` or ``real``.
        values: Domain of a categorical or ordinal attribute, in the order of the codes.
        lower, upper: Inclusive bounds of an integer or real attribute.
        edges: Bin edges e0 < e1 < ... < en of an ordinal attribute that was made from a numeric column. Code i means
            e_i <= x < e_{i+1}; the last bin includes its upper edge. ``values`` are the bin labels.
        encoding: Encoding for a network with numeric inputs: ``code`` (position in ``values``), ``one-hot``, ``value``
            (the number itself), ``{offset, scale}``, or one number per value. Without it, a model that needs one is
            rejected (see `lacks_encoding`).
        protected: Whether decisions must not depend on this attribute.
        missing: Treatment of missing values: ``refuse`` raises an error, ``drop`` drops the row, ``keep`` passes the
            missing value to the model. The domain never contains missing values.
        unknown: Values that mean "unknown", such as ``Prefer not to say``. If it is a list, even an empty one,
            missing values are also unknown. The model receives the original value. Rows with an unknown value are
            excluded from results by this attribute only.
        number_format: Format of a number that the data store as text.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[StrictStr, Field(min_length=1)]
    kind: Kind
    values: tuple[Value, ...] | None = None
    lower: float | None = None
    upper: float | None = None
    edges: tuple[float, ...] | None = None
    encoding: Encoding | None = None
    protected: bool = False
    missing: Missing = "refuse"
    unknown: tuple[Value, ...] | None = None
    number_format: NumberFormat | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        edges = data.get("edges")
        if data.get("kind") in ("integer", "real"):
            data = {"encoding": "value"} | data
        if data.get("values") is None and isinstance(edges, list | tuple) and len(edges) > 1:
            bins = itertools.pairwise(float(edge) for edge in edges)
            data = data | {"values": tuple(f"{low:g} to {high:g}" for low, high in bins)}
        return data

    @model_validator(mode="after")
    def _check_consistency(self) -> Attribute:
        if self.is_discrete:
            self._check_values()
        else:
            self._check_bounds()
        if self.kind == "real" and self.protected:
            raise ValueError("a protected attribute cannot be real: make it ordinal with `edges: [...]`, or integer")
        if self.protected and self.missing == "keep":
            raise ValueError(
                "a protected attribute cannot keep missing values: count them with `unknown: []`, or use "
                "`missing: drop` or `refuse`"
            )
        if self.unknown is not None and self.missing == "drop":
            raise ValueError("`unknown` keeps rows with missing values and `missing: drop` drops them: remove one")
        if self.number_format is not None and self.is_discrete and self.edges is None:
            raise ValueError(f"`number_format` requires a numeric attribute, got kind {self.kind}")
        overlap = [value for value in self.unknown or () if value in (self.values or ())]
        if overlap:
            raise ValueError(f"{overlap[0]!r} is listed in both `values` and `unknown`: remove it from one")
        return self

    def _check_values(self) -> None:
        if not self.values:
            raise ValueError(f"a {self.kind} attribute needs its values: [...]")
        if len({(type(v) is bool, v) for v in self.values}) != len(self.values):
            raise ValueError("values must be distinct")
        if self.lower is not None or self.upper is not None:
            raise ValueError(f"lower and upper require kind integer or real, got {self.kind}")
        if self.edges is not None:
            if self.kind != "ordinal":
                raise ValueError(f"edges require kind ordinal, got {self.kind}")
            if len(self.edges) != len(self.values) + 1 or np.any(np.diff(self.edges) <= 0):
                raise ValueError(f"edges must be {len(self.values) + 1} increasing numbers for {len(self.values)} bins")
        if self.encoding == "value" or isinstance(self.encoding, AffineEncoding):
            raise ValueError(f"encoding of a {self.kind} attribute must be code, one-hot or one number per value")
        if isinstance(self.encoding, tuple) and len(self.encoding) != len(self.values):
            raise ValueError(f"encoding has {len(self.encoding)} numbers for {len(self.values)} values")

    def _check_bounds(self) -> None:
        if self.values is not None or self.edges is not None:
            raise ValueError(f"values and edges require kind categorical or ordinal, got {self.kind}")
        if self.lower is None or self.upper is None:
            raise ValueError(f"a {self.kind} attribute needs lower and upper")
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower <= self.upper):
            raise ValueError(f"lower and upper must be finite and ordered, got {self.lower:g} and {self.upper:g}")
        if self.kind == "integer":
            if self.lower != int(self.lower) or self.upper != int(self.upper):
                raise ValueError("the bounds of an integer attribute must be whole numbers")
            if max(abs(self.lower), abs(self.upper)) > 2**53:
                raise ValueError("the bounds of an integer attribute must be between -2**53 and 2**53")
        if self.encoding != "value" and not isinstance(self.encoding, AffineEncoding):
            raise ValueError(f"encoding of a numeric attribute must be value or {{offset, scale}}, got {self.encoding}")

    @property
    def is_discrete(self) -> bool:
        """Whether the attribute is categorical or ordinal."""
        return self.kind in ("categorical", "ordinal")

    @property
    def is_numeric(self) -> bool:
        """Whether all values are numbers."""
        return all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values or ())

    @property
    def ordered(self) -> bool:
        """Whether the entries have an order."""
        return self.kind != "categorical"

    @property
    def lacks_encoding(self) -> bool:
        """Whether the numerical encoding of a categorical attribute is unknown.

        False for values 0, 1, 2, ... and for false and true, which are their own positions, and for ordinal attributes,
        whose order is explicit.
        """
        values = self.values or ()
        positional = values == tuple(range(len(values))) or [outcome_key(value) for value in values] == ["0", "1"]
        return self.kind == "categorical" and self.encoding is None and not positional

    @property
    def first(self) -> float:
        """Smallest entry of the domain."""
        return 0.0 if self.is_discrete else float(self.lower or 0.0)

    @property
    def last(self) -> float:
        """Largest entry of the domain."""
        return float(len(self.values or ()) - 1) if self.is_discrete else float(self.upper or 0.0)

    @property
    def size(self) -> int | None:
        """Number of entries in the domain; None for a real attribute."""
        return None if self.kind == "real" else int(self.last) - int(self.first) + 1

    @property
    def width(self) -> int:
        """Number of network inputs."""
        return len(self.values or ()) if self.encoding == "one-hot" else 1

    def domain(self) -> Floats:
        """List all entries of a finite domain in ascending order, shape (size,)."""
        if self.values is not None:
            return np.arange(len(self.values), dtype=np.float64)
        if self.kind == "real":
            raise ValueError(f"expected a finite domain, got the real attribute {self.name}")
        return np.arange(int(self.first), int(self.last) + 1, dtype=np.float64)

    def contains(self, entries: Floats) -> Booleans:
        """Check elementwise whether entries are in the domain; missing entries (NaN) are not."""
        inside = (entries >= self.first) & (entries <= self.last)
        return np.asarray(inside if self.kind == "real" else inside & (entries == np.floor(entries)))

    def inputs(self, entries: Floats) -> Floats:
        """Encode entries (n,) as network inputs, shape (n, width)."""
        if self.encoding == "one-hot":
            return np.asarray(entries[:, None] == np.arange(self.width), dtype=np.float64)
        if isinstance(self.encoding, AffineEncoding):
            return np.asarray((entries - self.encoding.offset) / self.encoding.scale)[:, None]
        if isinstance(self.encoding, tuple):
            numbers = np.array([*self.encoding, np.nan])  # a missing value stays missing
            codes = np.where(np.isnan(entries), len(self.encoding), entries).astype(np.int64)
            return np.asarray(numbers[codes])[:, None]
        return entries[:, None]

    def find_value(self, word: str, *, quoted: bool) -> float | None:
        """Find the entry of a string in a discrete domain. Return None if the string is unknown or ambiguous.

        An unquoted string also matches an equal number: 2.50 matches 2.5. Quotes distinguish 1 from "1".
        """
        values = self.values or ()
        matches = [i for i, value in enumerate(values) if str(value) == word]
        if not quoted:
            number = read_number(word)
            matches = matches or [i for i, v in enumerate(values) if isinstance(v, int | float) and v == number]
        if len(matches) > 1:
            matches = [i for i in matches if isinstance(values[i], str) == quoted]
        return float(matches[0]) if len(matches) == 1 else None

    def describe_domain(self) -> str:
        """Format the first 20 values, or the bounds."""
        if self.values is None:
            return f"{self.text(self.first)} to {self.text(self.last)}"
        return f"{{{', '.join(map(str, self.values[:20]))}{', ...' if len(self.values) > 20 else ''}}}"

    def text(self, entry: float) -> str:
        """Format an entry as a value of the data."""
        if math.isnan(entry):
            return "missing"
        if self.values is not None:
            return str(self.values[int(entry)])
        return str(int(entry)) if self.kind == "integer" else f"{entry:g}"


def match_label(label: Value, values: Iterable[Value]) -> Value:
    """Return the value that matches a label (see ``find_value``), or the label itself if there is none."""
    match = find_value(label, values)
    return label if match is None else match


def find_value(label: Value, values: Iterable[Value]) -> Value | None:
    """Find a value with the same spelling, or else with the same meaning (``1`` means ``1.0`` and ``"1"``)."""
    values = tuple(values)
    same = (value for value in values if str(value) == str(label))
    return next(same, next((value for value in values if outcome_key(value) == outcome_key(label)), None))
