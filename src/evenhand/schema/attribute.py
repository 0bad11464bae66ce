"""One attribute of an individual: its kind, its domain, how a model sees it."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from evenhand.schema.words import outcome_key, truth_key
from evenhand.typing import Booleans, Floats

Value: TypeAlias = StrictBool | StrictInt | StrictFloat | StrictStr
"""A value as it stands in a user's data. Strict: ``1`` and ``True`` stay what they are."""

Kind: TypeAlias = Literal["categorical", "ordinal", "integer", "real"]
Missing: TypeAlias = Literal["refuse", "keep", "drop"]


# Numbers that are written as words, such as $1,200.50: how they are read and written back.

PARTS = re.compile(r"([^\d]*)(\d(?:.*\d)?)([^\d]*)", re.DOTALL)
"""What stands before the number, the number from its first to its last digit, and what stands behind."""

NEGATIVE = re.compile(r"-|\u2212|\(|\)")
"""What says that a number is negative: a hyphen, a minus sign, or parentheses."""

SEPARATORS = (".", ",", " ", "\u00a0", "\u202f", "'", "\u2019")
"""What may stand between thousands; the first two may stand before the decimals."""

MAX_DECIMALS = 12


class NumberFormat(BaseModel):
    """How a number is written in the data.

    A word is only read as a number if the number is written back as this very word. So a model that was trained on the
    words is given what stands in the data, and words of the same form for other values of the attribute.

    Attributes:
        before, after: what stands around the digits, blanks included, e.g. ``"$"`` and ``" €"``.
        negative: how minus one is written, the digit 1 standing for all digits: ``"($1)"``, ``"$-1"``, ``"1-"``. If
            left out, a hyphen comes first: ``"-$1"``.
        thousands: what stands between groups of three digits; empty for nothing.
        lakhs: whether only the last group has three digits, and those before it two: 12,34,567.
        decimal: what stands before the decimals.
        decimals: how many there are, at most.
        fixed: whether there are always so many; else zeros at the end are left out.
        given: what the model gets in a data frame, as it was trained: the ``word``, or the ``number``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    before: StrictStr = ""
    after: StrictStr = ""
    negative: Annotated[StrictStr, Field(pattern=r"^[^\d]*1[^\d]*$")] | None = None
    thousands: StrictStr = ""
    lakhs: StrictBool = False
    decimal: Literal[".", ","] = "."
    decimals: Annotated[int, Field(ge=0, le=MAX_DECIMALS)] = 0
    fixed: bool = True
    given: Literal["word", "number"] = "word"

    def read(self, word: str) -> float:
        """Return the number that a word stands for; NaN if it is not written so."""
        found = PARTS.fullmatch(word.strip())
        if found is None:
            return math.nan
        digits = found[2].replace(self.thousands, "") if self.thousands else found[2]
        try:
            number = float(digits.replace(self.decimal, "."))
        except ValueError:
            return math.nan
        return next((one for one in (number, -number) if self.write(one) == word.strip()), math.nan)

    def write(self, number: float) -> str:
        """Return the word for a number, rounded to the decimals."""
        digits = f"{abs(number):,.{self.decimals}f}"
        if not self.fixed and "." in digits:
            digits = digits.rstrip("0").removesuffix(".")
        whole, _, rest = digits.partition(".")
        if self.lakhs:
            whole = re.sub(r"(?<=\d)(?=(\d\d)*\d{3}$)", ",", whole.replace(",", ""))
        form = f"{self.before}1{self.after}"
        if number < 0 and any(digit in "123456789" for digit in digits):
            form = self.negative or f"-{form}"
        before, _, after = form.partition("1")
        tail = self.decimal + rest if rest else ""
        return f"{before}{whole.replace(',', self.thousands)}{tail}{after}"


def guess_format(words: Sequence[str]) -> NumberFormat | None:
    """Return how numbers are written in words, if all are written alike; None if not.

    ``1,200`` alone may be 1200 or 1.2: groups of three digits throughout are taken for thousands.
    """
    parts = [PARTS.fullmatch(word) for word in words]
    if not words or any(one is None for one in parts):
        return None
    found = [one for one in parts if one is not None]
    before, after, negative = _guess_signs({(one[1], one[3]) for one in found})
    used = [sign for sign in SEPARATORS if any(sign in one[2] for one in found)]
    for thousands, decimal in itertools.product([*used, ""], [".", ","]):
        if thousands == decimal or not {*used} <= {thousands, decimal}:
            continue
        most = max(len(one[2].rpartition(decimal)[2]) if decimal in one[2] else 0 for one in found)
        if most > MAX_DECIMALS:
            continue
        for fixed, lakhs in itertools.product((True, False), (False, True)):
            guess = NumberFormat(
                before=before, after=after, negative=negative, thousands=thousands, lakhs=lakhs, decimal=decimal,
                decimals=most, fixed=fixed,
            )  # fmt: skip
            if not any(math.isnan(guess.read(word)) for word in words):
                return guess
    return None


def _guess_signs(around: set[tuple[str, str]]) -> tuple[str, str, str | None]:
    """Return what stands around positive numbers, and how minus one is written where no hyphen comes first.

    Of two ways the one with a hyphen, a minus sign or parentheses more than the other is that of negative numbers. In
    one way alone there is only a hyphen at the start to tell it by: other signs may as well be decoration.
    """
    bare = {pair: tuple(NEGATIVE.sub("", one).strip() for one in pair) for pair in around}
    plain = min(around, key=lambda pair: (len(NEGATIVE.findall("".join(pair))), pair))
    kept = [one.strip() for one in plain]
    signed = next(
        (one for one in around - {plain} if bare[one] == bare[plain] and kept[0] in one[0] and kept[1] in one[1]), None
    )
    if len(around) == 1 and plain[0].startswith("-"):
        return plain[0][1:], plain[1], None
    if signed is None or signed == (f"-{plain[0]}", plain[1]):
        return *plain, None
    return *plain, f"{signed[0]}1{signed[1]}"


class AffineEncoding(BaseModel):
    """The model's input is ``(value - offset) / scale``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    offset: float = 0.0
    scale: Annotated[float, Field(gt=0)] = 1.0


Encoding: TypeAlias = Literal["code", "one-hot", "value"] | AffineEncoding | tuple[float, ...]


class Attribute(BaseModel):
    """One attribute, by name; its bounds travel with it.

    An individual's entry for this attribute is one float: the position in ``values`` for a categorical
    or ordinal attribute, the number itself for an integer or real one, NaN where it is missing.

    Attributes:
        name: the column it comes from.
        kind: ``categorical`` (nominal), ``ordinal`` (ordered values), ``integer`` or ``real``.
        values: the domain of a categorical or ordinal attribute, in the order of its codes.
        lower, upper: the domain of an integer or real attribute, both ends included.
        edges: for an ordinal attribute made from a numeric column, the bin edges e0 < e1 < ... < en;
            code i holds e_i <= x < e_{i+1}, the last bin its upper end too. ``values`` are then labels.
        encoding: how a network that takes plain numbers sees it: ``code`` (position in ``values``),
            ``one-hot``, ``value`` (the number itself), ``{offset, scale}``, or one number per value. None where
            nothing says it: positions stand in then, and a model that is fed with them is refused
            (see ``lacks_encoding``).
        protected: whether a decision must not depend on it.
        missing: what to do with a missing value: ``refuse`` it with an error, ``drop`` the person, or
            ``keep`` it and hand it to the model as missing (the domain itself never contains it).
        unknown: what stands in the data where the value is not known, such as ``Prefer not to say``; with it, even if
            it lists nothing, missing values count as unknown too. The model gets what stands there. People of unknown
            value are left out of every figure by this attribute, and stay in all others.
        written: how a number (integer, real, or cut by ``edges``) is written in the data, where it is written as words.
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
    written: NumberFormat | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        given = dict(given)
        if given.get("kind") in ("integer", "real"):
            given.setdefault("encoding", "value")
        edges = given.get("edges")
        if edges is not None and given.get("values") is None and isinstance(edges, list | tuple) and len(edges) > 1:
            given["values"] = bin_labels([float(edge) for edge in edges])
        return given

    @model_validator(mode="after")
    def _check_consistency(self) -> Attribute:
        if self.is_discrete:
            self._check_values()
        else:
            self._check_bounds()
        if self.kind == "real" and self.protected:
            raise ValueError(
                "a protected attribute needs finitely many values: make it ordinal with `edges: [...]`, or integer"
            )
        if self.protected and self.missing == "keep":
            raise ValueError(
                "a protected attribute cannot keep missing values: count them with `unknown: []`, or use "
                "`missing: drop` or `refuse`"
            )
        if self.unknown is not None and self.missing == "drop":
            raise ValueError(
                "`unknown` keeps people whose value is missing, and `missing: drop` drops them: choose one"
            )
        if self.written is not None and self.is_discrete and self.edges is None:
            raise ValueError(f"`written` is how a number is written, and a {self.kind} attribute holds none")
        both = [value for value in self.unknown or () if value in (self.values or ())]
        if both:
            raise ValueError(f"{both[0]!r} is among the values and stands for an unknown one: choose one")
        return self

    def _check_values(self) -> None:
        if not self.values:
            raise ValueError(f"a {self.kind} attribute needs its values: [...]")
        if len({(type(v) is bool, v) for v in self.values}) != len(self.values):
            raise ValueError("values must be distinct")
        if self.lower is not None or self.upper is not None:
            raise ValueError(f"lower and upper belong to integer and real attributes, not to a {self.kind} one")
        if self.edges is not None:
            if self.kind != "ordinal":
                raise ValueError("edges belong to an ordinal attribute")
            if len(self.edges) != len(self.values) + 1 or np.any(np.diff(self.edges) <= 0):
                raise ValueError(f"edges must be {len(self.values) + 1} increasing numbers for {len(self.values)} bins")
        if self.encoding == "value" or isinstance(self.encoding, AffineEncoding):
            raise ValueError(f"encoding of a {self.kind} attribute is code, one-hot or one number per value")
        if isinstance(self.encoding, tuple) and len(self.encoding) != len(self.values):
            raise ValueError(f"encoding lists {len(self.encoding)} numbers for {len(self.values)} values")

    def _check_bounds(self) -> None:
        if self.values is not None or self.edges is not None:
            raise ValueError(f"values and edges belong to categorical and ordinal attributes, not to {self.kind} ones")
        if self.lower is None or self.upper is None:
            raise ValueError(f"a {self.kind} attribute needs lower and upper")
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower <= self.upper):
            raise ValueError(f"lower {self.lower:g} and upper {self.upper:g} must be finite, lower not above upper")
        if self.kind == "integer":
            if self.lower != int(self.lower) or self.upper != int(self.upper):
                raise ValueError("the bounds of an integer attribute must be whole numbers")
            if max(abs(self.lower), abs(self.upper)) > 2**53:
                raise ValueError("bounds beyond 2**53 cannot be held exactly")
        if self.encoding != "value" and not isinstance(self.encoding, AffineEncoding):
            raise ValueError(f"encoding of an {self.kind} attribute is value or {{offset, scale}}")

    @property
    def is_discrete(self) -> bool:
        """Whether entries are positions in ``values`` (categorical or ordinal)."""
        return self.kind in ("categorical", "ordinal")

    @property
    def ordered(self) -> bool:
        """Whether ranges of this attribute make sense (everything but categorical)."""
        return self.kind != "categorical"

    @property
    def lacks_encoding(self) -> bool:
        """Whether a number that stands for a value would be a guess.

        It is for a categorical attribute without encoding, unless its values are the numbers 0, 1, 2, ... themselves or
        false and true. The order of an ordinal attribute's values is a statement, and its positions keep that order.
        """
        values = self.values or ()
        plain = values == tuple(range(len(values))) or [truth_key(value) for value in values] == ["0", "1"]
        return self.kind == "categorical" and self.encoding is None and not plain

    @property
    def first(self) -> float:
        """The smallest entry of the domain."""
        return 0.0 if self.is_discrete else float(self.lower or 0.0)

    @property
    def last(self) -> float:
        """The largest entry of the domain."""
        return float(len(self.values or ()) - 1) if self.is_discrete else float(self.upper or 0.0)

    @property
    def last_number(self) -> float:
        """The largest number of the domain, in the units of the data."""
        return self.last if self.edges is None else self.edges[-1]

    @property
    def size(self) -> int | None:
        """The number of entries in the domain, an exact integer; None for a real attribute."""
        return None if self.kind == "real" else int(self.last) - int(self.first) + 1

    @property
    def width(self) -> int:
        """How many inputs of a plain network this attribute takes."""
        return len(self.values or ()) if self.encoding == "one-hot" else 1

    def domain(self) -> Floats:
        """Return all entries, in order, shape (size,). Only for attributes with finitely many."""
        if self.size is None:
            raise ValueError(f"{self.name} is real: its domain cannot be listed")
        return np.arange(int(self.first), int(self.last) + 1, dtype=np.float64)

    def contains(self, entries: Floats) -> Booleans:
        """Return which entries lie in the domain; missing (NaN) does not."""
        inside = (entries >= self.first) & (entries <= self.last)
        return np.asarray(inside if self.kind == "real" else inside & (entries == np.floor(entries)))

    def inputs(self, entries: Floats) -> Floats:
        """Return entries (n,) as the numbers that a plain network takes, shape (n, width)."""
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
        """Return the entry of a discrete attribute that a word stands for; None if it is none or several.

        A word without quotes may be a number in other digits: 2.50 for 2.5. Quotes tell 1 and "1" apart where both are
        values.
        """
        values = self.values or ()
        same = [i for i, value in enumerate(values) if str(value) == word]
        if not quoted:
            same = same or [i for i, value in enumerate(values) if _equals_number(value, word)]
        if len(same) > 1:
            same = [i for i in same if isinstance(values[i], str) == quoted]
        return float(same[0]) if len(same) == 1 else None

    def describe_domain(self) -> str:
        """Return the values, the first 20 at most, or the ends of the range, in the data's own words."""
        if self.values is None:
            return f"{self.text(self.first)} to {self.text(self.last)}"
        return f"{{{', '.join(map(str, self.values[:20]))}{', ...' if len(self.values) > 20 else ''}}}"

    def text(self, entry: float) -> str:
        """Return one entry in the data's own words."""
        if math.isnan(entry):
            return "missing"
        if self.values is not None:
            return str(self.values[int(entry)])
        return str(int(entry)) if self.kind == "integer" else f"{entry:g}"


def bin_labels(edges: list[float]) -> tuple[str, ...]:
    """Return readable names of the bins between consecutive edges, e.g. ``"10 to 20"``."""
    return tuple(f"{low:g} to {high:g}" for low, high in itertools.pairwise(edges))


def find_value(given: Value, values: Iterable[Value]) -> Value | None:
    """Return the value that is written the same, or else means the same (``1`` means ``1.0`` and ``"1"``)."""
    values = tuple(values)
    same = (value for value in values if str(value) == str(given))
    return next(same, next((value for value in values if outcome_key(value) == outcome_key(given)), None))


def _equals_number(value: object, text: str) -> bool:
    try:
        return isinstance(value, int | float) and float(text) == value
    except ValueError:
        return False
