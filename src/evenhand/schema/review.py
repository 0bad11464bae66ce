"""Review the columns of a table as attributes: infer an entry of the schema, or propose one.

The model must receive the cells it was trained on. So most proposals pass a column to the model unchanged
(``passthrough``), which suits identifiers, dates and texts. Amounts, percentages and decimals such as ``12.50`` become
numbers that are written back as the same words (``written``).
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand.errors import DataError
from evenhand.schema.attribute import guess_format
from evenhand.schema.rows import CodedColumn, is_missing, list_values, plain_value, sort_key
from evenhand.schema.schema import PASSTHROUGH
from evenhand.schema.words import find_variants, means_unknown, parse_number, read_number, unknown_codes
from evenhand.typing import Integers

MAX_CATEGORIES = 1000
"""A column of words with more different ones than this has too many to list."""

MAX_DISTINCT = 50
"""Of so many different words or fewer, each may be a category, whatever they look like."""

FEW_DISTINCT = 20
"""With so many different dates or amounts, or fewer, they may be categories as well."""

TYPICAL = 0.95
"""Share of the different values that must look alike for a column to be called dates or amounts."""

STRAY_WORDS, STRAY_SHARE = 3, 0.2
"""Words among numbers, and their share of the rows, up to which they stand for numbers that are not known."""

REPEATED, MOST_UNKNOWN = 3, 0.5
"""In so many rows at least, and in this share of them at most, a number may be such a code."""

LEAST_OTHERS = 3
"""With fewer other numbers than this, which are far from the others cannot be told."""

RANGES = 5
"""Ranges that are proposed for a protected real number."""

COUNTED_ROWS = 20
"""With fewer rows than this, a column may number them or agree with the target by chance."""

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
LEADING_ZERO = re.compile(r"[+-]?0\d")
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+|[+-]?\d{1,3}([. ]\d{3})+(,\d+)?|[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
COMMA_OR_NONE = re.compile(rf"{DECIMAL_COMMA.pattern}|[+-]?\d+(\.\d+)?")
CURRENCY = r"([$€£¥₹₽₺₩₦₫฿₪₱₴]|[A-Z]{1,3}\$|[A-Z]{2,3}|Rs\.?|kr\.?|zł|Kč|Ft)"
AMOUNT = r"[+-]?\d[\d.,' \u00a0\u202f\u2019]*([kKmM]|mn|bn|Mio\.?)?"
MONEY = re.compile(
    rf"[+-]?({CURRENCY}[ \u00a0]?{AMOUNT}|{AMOUNT}[ \u00a0\u202f]?{CURRENCY})( ?(/|per )[A-Za-z]+| p\.a\.)?"
)
PERCENT = re.compile(
    r"[+-]?(%[ \u00a0]?\d[\d.,]*|\d[\d.,]*[ \u00a0\u202f]?(%|pct\.?|percent|per cent|Prozent))", re.IGNORECASE
)
DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{1,2}[ -][A-Za-z]{3,9}[ -,]+\d{2,4}"
    r"|[A-Za-z]{3,9} \d{1,2}(, | )\d{4})([T ,]+\d{1,2}:\d{2}.*)?"
)
POSTAL_NAME = re.compile(r"(zip|postal|post)[ _-]?(code)?s?|plz|.*[ _](zip|postcode|plz)|zip[ _-].*|.*zipcode", re.I)
IDENTIFIER_NAME = re.compile(
    r"(.*[ _-])?(id|ids|uuid|guid|index|idx|key|nr|no|number|ssn|row)|.*[a-z](ID|Id|UUID)", re.A
)


@dataclass(frozen=True)
class ColumnProposal:
    """What is wrong with a column as an attribute, and what is proposed.

    Attributes:
        column: its name.
        problem: what is wrong, with the numbers that show it.
        entry: its line in a schema, as proposed; None where nothing can be proposed.
        advice: the proposal in words, or how to go on without one.
        required: whether nothing goes on before it is decided. Else the column can stay what it is.
    """

    column: str
    problem: str
    entry: dict[str, Any] | None = field(hash=False)
    advice: str
    required: bool = True

    def __str__(self) -> str:
        return f"{self.column} {self.problem}: {self.advice}"


def _without_sign(word: str) -> str:
    """Return a word without what may say of a number that it is negative; a word without a digit as it is."""
    bare = re.sub(r"^[-\u2212]|-$|[()]", "", word)
    return bare if any(letter.isdigit() for letter in bare) and not DATE.fullmatch(word) else word


@dataclass(frozen=True)
class ReviewedColumn:
    """A column as an attribute: the line that its values suggest, or what is proposed in its place, or both."""

    entry: dict[str, Any] | None
    proposal: ColumnProposal | None = None


def review_columns(
    table: Any,
    names: Iterable[str],
    *,
    protected: Sequence[str] = (),
    compared: Sequence[str] = (),
    target: CodedColumn | None = None,
    counts: Integers | None = None,
) -> list[ReviewedColumn]:
    """Look at some columns of a table that narwhals wraps.

    Args:
        table: one row per person.
        names: the columns.
        protected: those that a decision must not depend on.
        compared: those that groups are made by, and no more; they may be numbers with fractions.
        target: the true labels, to find columns that repeat them.
        counts: how many people each row stands for; None: one.
    """
    return [
        _Review(
            table[name], CodedColumn.read(table[name], counts), name, name in protected, name in compared, target
        ).column()
        for name in names
    ]


def choose_entries(reviewed: Sequence[ReviewedColumn], *, accept: bool) -> list[dict[str, Any]]:
    """Return the lines of a schema for reviewed columns.

    Args:
        reviewed: see ``review_columns``.
        accept: take every proposal.

    Raises:
        DataError: proposals must be accepted, or some column has none; the message lists all of these columns.
    """
    entries, open_questions = [], []
    for one in reviewed:
        if one.proposal is None:
            entries.append(one.entry)
        elif accept and one.proposal.entry is not None:
            entries.append(one.proposal.entry)
        elif one.proposal.required:
            open_questions.append(one.proposal)
        else:
            entries.append(one.entry)
    if open_questions:
        raise _open_questions(open_questions)
    return [entry for entry in entries if entry is not None]


def _open_questions(proposals: Sequence[ColumnProposal]) -> DataError:
    left = "leave columns out (`ignore=NAME`), or describe them in a schema"
    acceptable = sum(one.entry is not None for one in proposals)
    if not acceptable:
        hint = left
    elif acceptable == len(proposals):
        hint = f"accept what is proposed (`accept_proposals=True`), {left}"
    else:
        hint = f"settle what has no proposal, accept the others (`accept_proposals=True`), {left}"
    if len(proposals) == 1:
        one = proposals[0]
        return DataError(f"column {one.column!r} {one.problem}: {one.advice}", hint=hint)
    lines = "".join(f"\n  {one.column}: {one.problem}: {one.advice}" for one in proposals)
    return DataError(f"{len(proposals)} columns cannot be attributes as they are{lines}", hint=hint)


class _Review:
    """One column, and what is said about it."""

    def __init__(
        self, series: Any, coded: CodedColumn, name: str, protected: bool, compared: bool, target: CodedColumn | None
    ) -> None:
        self.series, self.name, self.protected, self.target = series, name, protected, target
        self.groups = protected or compared
        self.coded = coded = coded.with_numbers()
        missing = coded.missing()
        self.present, self.missing = coded.people(~missing), coded.people(missing)
        self.rows = self.present + self.missing
        self.values = [value for value in self.coded.values if not is_missing(value)]

    def column(self) -> ReviewedColumn:
        """Return what the column is, or could be."""
        if not self.values:
            return self._passthrough(f"has no value in any of {self.rows:,} rows", "leave it out")
        odd = next((value for value in self.values if not isinstance(value, str | bool | int | float)), None)
        if odd is not None:
            return self._odd(odd)
        order = _ordered_categories(self.series)
        if order is not None and all(isinstance(value, str | bool | int | float) for value in order):
            return self._check_column({"kind": "ordinal", "values": order}, order)
        numbers = [value for value in self.values if isinstance(value, int | float) and not isinstance(value, bool)]
        words = [value for value in self.values if isinstance(value, str)]
        if len(numbers) == len(self.values):
            return self._numbers(numbers)
        if numbers and len(numbers) + len(words) == len(self.values) and self._are_stray(words, len(numbers)):
            return self._numbers_with_words(numbers, words)
        return self._words(words)

    # What columns hold.

    def _odd(self, odd: Any) -> ReviewedColumn:
        kind = type(odd).__name__
        if isinstance(odd, dt.date | dt.time | dt.timedelta) or kind in ("Timestamp", "Timedelta"):
            return self._passthrough(f"holds dates or times, such as {odd}", "turn it into a number, such as an age")
        return self._passthrough(f"holds {kind} values, which no attribute can", "turn it into numbers or words")

    def _numbers(self, numbers: Sequence[float]) -> ReviewedColumn:
        endless = next((value for value in numbers if math.isinf(value)), None)
        if endless is not None:
            return self._passthrough(
                f"has numbers that are not finite: {endless}", "replace them by numbers, or by missing values"
            )
        entry = _number_entry(numbers)
        low, high, whole = entry["lower"], entry["upper"], entry["kind"] == "integer"
        if whole and max(abs(low), abs(high)) > 2**53:
            return self._passthrough(
                f"has numbers up to {max(abs(low), abs(high)):.3g}, too large to be told apart", "leave it out"
            )
        if whole and self._numbers_rows(low, high):
            return self._passthrough(f"has another number in each of {self.rows:,} rows, an identifier", "leave it out")
        if whole and POSTAL_NAME.fullmatch(self.name) and len(numbers) > FEW_DISTINCT:
            return self._passthrough(
                f"has {len(numbers):,} zip codes: not every number between is one", "group it, by region for instance"
            )
        if whole and low >= 19_000_101 and high <= 21_001_231 and _are_dates(numbers) and len(numbers) > FEW_DISTINCT:
            return self._passthrough("has dates written as numbers", "turn it into a number, such as an age")
        if self.protected and not whole:
            ranges = _range_entry(numbers)
            if ranges is not None:
                return ReviewedColumn(
                    None, self._proposal("is a protected number with fractions", ranges, "cut into ranges, `edges`")
                )
        found = self._check_column(entry, numbers)
        marks = [] if found.proposal is not None else self._sentinels(numbers)
        return ReviewedColumn(found.entry, self._without_sentinels(numbers, marks)) if marks else found

    def _sentinels(self, numbers: Sequence[float]) -> list[float]:
        """Return the numbers that look like codes for what is not known: far from all others, and in several rows.

        Below zero, where no other number is, they need not be far.
        """
        marks = unknown_codes(numbers)
        others = np.sort([value for value in numbers if value not in marks])
        if not marks or len(others) < LEAST_OTHERS:
            return []
        low, high = float(others[0]), float(others[-1])
        apart = max(3 * float(np.diff(others).max()), 0.2 * (high - low))
        found = []
        for value in marks:
            isolated = value - high >= apart or low - value >= apart or (value < 0 <= low)
            rows = self.coded.people(self.coded.codes == self.coded.values.index(value))
            if not isolated or rows < REPEATED or rows > MOST_UNKNOWN * self.present:
                return []  # as one of the others it makes them less plausible as well
            found.append(value)
        return found

    def _without_sentinels(self, numbers: Sequence[float], marks: Sequence[float]) -> ColumnProposal | None:
        rest = [value for value in numbers if value not in marks]
        entry = self._entry_of_numbers(rest)
        if entry is None:
            return None
        shown = list_values([int(mark) for mark in marks])
        problem = f"has {shown} in several rows, far from all its other numbers ({min(rest):g} to {max(rest):g})"
        advice = f"unknown: {shown}, if that is a code for an unknown value"
        return self._proposal(problem, entry | {"unknown": list(marks)}, advice, required=self.groups)

    def _numbers_with_words(self, numbers: Sequence[float], words: Sequence[str]) -> ReviewedColumn:
        shown = list_values(sorted(words))
        entry = self._entry_of_numbers(numbers)
        if entry is None:
            return self._passthrough(f"has {shown} among numbers", "correct the data")
        proposal = self._proposal(
            f"has {shown} among numbers",
            entry | {"unknown": list(words)},
            f"a number, unknown: {shown}",
            required=self.groups or not all(means_unknown(word) for word in words),
        )
        return ReviewedColumn(None if proposal.required else proposal.entry, proposal)

    def _words(self, words: Sequence[str]) -> ReviewedColumn:
        stripped = sorted({word.strip() for word in words})
        others = [value for value in self.values if not isinstance(value, str)]
        distinct = [*others, *stripped]
        if not others:
            numeric = self._written_numbers(stripped) or self._written_otherwise(stripped)
            if numeric is not None:
                return numeric
        many = len(distinct) > MAX_CATEGORIES or (len(distinct) > MAX_DISTINCT and len(distinct) > self.present / 2)
        if many:
            return self._too_many(stripped, len(distinct))
        return self._check_column({"kind": "categorical", "values": sorted(distinct, key=sort_key)}, distinct)

    def _written_numbers(self, words: Sequence[str]) -> ReviewedColumn | None:
        """Return numbers in spellings of their own such as ``12.50``, or beside words for unknown; None for others.

        Words with leading zeros are codes, which are categories.
        """
        strays = [word for word in words if not NUMBER.fullmatch(word)]
        written = [word for word in words if NUMBER.fullmatch(word)]
        if strays and (
            all(NUMBER.fullmatch(_without_sign(word)) for word in strays)
            or len(written) <= FEW_DISTINCT / 2
            or not self._are_stray(strays, len(written))
        ):
            return None
        canonical = all(parse_number(word) is not None for word in written)
        if any(LEADING_ZERO.match(word) for word in written) or (
            not canonical and self.groups and len(words) <= FEW_DISTINCT
        ):
            return None
        format_ = None if canonical else guess_format(written)
        if not canonical and format_ is None and len(words) <= FEW_DISTINCT:
            return None
        entry = self._entry_of_numbers([read_number(word) for word in written])
        shown = list_values(strays)
        example = next(word for word in written if canonical or parse_number(word) is None)
        problem = f"has {shown} among numbers" if strays else f"has {len(words):,} numbers written like {example!r}"
        if not canonical and format_ is None and not self.groups:
            return self._passthrough(f"has numbers in several spellings, such as {example!r}", "")
        if entry is None:
            return None
        if format_ is not None:
            entry["written"] = format_.model_dump(exclude_defaults=True)
        if strays or (self.groups and self.missing):
            entry["unknown"] = strays
        advice = "a number" + (" in ranges" if "edges" in entry else "") + (f", unknown: {shown}" if strays else "")
        # A word for unknown among numbers leaves nothing to decide where no groups are formed.
        evident = all(means_unknown(word) for word in strays)
        proposal = self._proposal(problem, entry, advice, required=self.groups or not evident)
        return ReviewedColumn(None if proposal.required else proposal.entry, proposal)

    def _entry_of_numbers(self, numbers: Sequence[float]) -> dict[str, Any] | None:
        """Return a numeric entry; a protected real number is cut into ranges, None if there are too few values."""
        if any(math.isinf(number) for number in numbers):
            return None
        entry = _number_entry(numbers)
        return _range_entry(numbers) if self.groups and entry["kind"] == "real" else entry

    def _written_otherwise(self, words: Sequence[str]) -> ReviewedColumn | None:
        """Return what is proposed for dates, amounts and the like that are written as words."""
        if len(words) <= FEW_DISTINCT:
            return None
        if POSTAL_NAME.fullmatch(self.name) and len(words) > MAX_DISTINCT:
            return self._passthrough(f"has {len(words):,} zip codes", "group it, by region for instance")
        if all(NUMBER.fullmatch(word) for word in words):
            return None

        def are(pattern: re.Pattern[str]) -> bool:
            share = sum(pattern.fullmatch(_without_sign(word)) is not None for word in words) / len(words)
            commas = pattern is not COMMA_OR_NONE or any(DECIMAL_COMMA.fullmatch(_without_sign(one)) for one in words)
            return share >= TYPICAL and commas

        for pattern, what, advice in (
            (DATE, "dates", "turn it into a number, such as an age"),
            (PERCENT, "percentages that are written as words", "turn it into numbers"),
            (COMMA_OR_NONE, "numbers with commas that are written as words", "turn it into numbers"),
            (MONEY, "amounts of money that are written as words", "turn it into numbers"),
            (NUMBER, "numbers with signs of their own that are written as words", "turn it into numbers"),
        ):
            if are(pattern):
                converted = None if pattern is DATE else self._formatted_numbers(pattern, what)
                if converted is not None:
                    return converted
                return self._passthrough(f"has {len(words):,} {what}, such as {words[0]!r}", advice)
        return None

    def _formatted_numbers(self, pattern: re.Pattern[str], what: str) -> ReviewedColumn | None:
        """Return words as the numbers they stand for, if every one can be written back as it stands."""
        words = [word for word in self.values if isinstance(word, str)]
        strays = [word for word in words if not pattern.fullmatch(_without_sign(word.strip()))]
        written = [word for word in words if word not in strays]
        format_ = guess_format(written)
        if format_ is None or (strays and not self._are_stray([word.strip() for word in strays], len(written))):
            return None
        numbers = [format_.read(word) for word in written]
        entry = self._entry_of_numbers(numbers)
        if entry is None:
            return None
        more = {"unknown": [word.strip() for word in strays]} if strays else {}
        unknown = f", unknown where {list_values(strays)} stands" if strays else ""
        return ReviewedColumn(
            None,
            self._proposal(
                f"has {len(written):,} {what}, such as {written[0]!r}",
                entry | {"written": format_.model_dump(exclude_defaults=True)} | more,
                f"a number, `written`: {written[0]!r} is {numbers[0]:.12g}{unknown}",
            ),
        )

    def _too_many(self, words: Sequence[str], count: int) -> ReviewedColumn:
        spaced = sum(word.count(" ") >= 3 for word in words) > len(words) / 2
        if spaced:
            what = "free text"
        elif count > 0.9 * self.present:
            what = "an identifier or free text"
        else:
            what = "too many to be categories"
        problem = f"has {count:,} different values in {self.present:,} rows, {what}"
        return self._passthrough(problem, "group its values, or leave it out")

    # What is said.

    def _check_column(self, entry: dict[str, Any], values: Sequence[Any]) -> ReviewedColumn:
        """Return a column that can be an attribute, with what is said of it beside."""
        found = {"name": self.name, "protected": self.protected} | entry
        if self.missing:
            found["missing"] = "drop" if self.protected else "keep"
        if self.groups:
            return self._checked_groups(found, values)
        if len(values) == 1:
            proposal = self._pass_on(f"has the same value in all rows: {values[0]!r}", required=False)
            return ReviewedColumn(found, proposal)
        if self._repeats_target():
            return ReviewedColumn(None, self._pass_on("repeats the target under another name, row by row"))
        return ReviewedColumn(found)

    def _checked_groups(self, found: dict[str, Any], values: Sequence[Any]) -> ReviewedColumn:
        unknown = [value for value in values if means_unknown(value)]
        known = [value for value in values if value not in unknown]
        if unknown and len(known) < 2:
            problem = f"has {list_values(unknown)} beside {list_values(known) or 'no other value'}"
            advice = "if these are groups, list them as `values` in a schema"
            return ReviewedColumn(found, ColumnProposal(self.name, problem, None, advice))
        if unknown and len(known) > 1:
            entry = {key: value for key, value in found.items() if key != "missing"}
            proposal = self._proposal(
                f"has {list_values(unknown)} among its values", entry | {"values": known, "unknown": unknown},
                "`unknown`: counted, and left out of figures by it",
            )  # fmt: skip
            return ReviewedColumn(found, proposal)
        variants = find_variants(self.values)
        if variants:
            shown = "; ".join(", ".join(map(repr, words)) for words in variants)
            problem = f"has values that differ in case or spaces alone: {shown}"
            return ReviewedColumn(found, ColumnProposal(self.name, problem, None, "use one spelling in the data"))
        if self.missing:
            entry = {key: value for key, value in found.items() if key != "missing"}
            proposal = self._proposal(
                f"lacks a value in {self.missing:,} of {self.rows:,} rows", entry | {"unknown": []},
                "`unknown`: counted, and left out of figures by it", required=False,
            )  # fmt: skip
            return ReviewedColumn(found, proposal)
        return ReviewedColumn(found)

    def _passthrough(self, problem: str, otherwise: str) -> ReviewedColumn:
        """Return a column that is given to the model as it stands, unless groups are made by it."""
        if self.groups:
            whose = "protected" if self.protected else "groups are made by it"
            advice = f"{whose}: {otherwise or 'correct the data'}"
            return ReviewedColumn(None, ColumnProposal(self.name, problem, None, advice))
        return ReviewedColumn(None, self._pass_on(problem))

    def _pass_on(self, problem: str, *, required: bool = True) -> ColumnProposal:
        entry = {"name": self.name, "kind": PASSTHROUGH}
        return ColumnProposal(self.name, problem, entry, PASSTHROUGH, required)

    def _proposal(self, problem: str, entry: dict[str, Any], advice: str, *, required: bool = True) -> ColumnProposal:
        named = {"name": self.name, "protected": self.protected} | entry
        if self.missing and "unknown" not in named:
            named["missing"] = "drop" if self.protected else "keep"
        return ColumnProposal(self.name, problem, named, advice, required)

    # What is found.

    def _are_stray(self, words: Sequence[str], numbers: int) -> bool:
        """Return whether words stand among numbers as what is not known: few of them, in few rows."""
        if not 0 < len(words) <= STRAY_WORDS or numbers < len(words):
            return False
        those = set(words)
        rows = self.coded.people(self.coded.each(lambda value: isinstance(value, str) and value.strip() in those))
        return rows <= STRAY_SHARE * self.present

    def _numbers_rows(self, low: float, high: float) -> bool:
        """Return whether a column of whole numbers tells rows apart: by its name, or by numbering them in order."""
        if self.groups or self.missing or not len(self.values) == self.rows >= COUNTED_ROWS:
            return False
        if IDENTIFIER_NAME.fullmatch(self.name) or self.name.startswith("Unnamed: "):
            return True
        in_order = np.asarray(self.values, dtype=np.float64)[self.coded.codes]
        return low in (0, 1) and bool((np.diff(in_order) == 1).all())

    def _repeats_target(self) -> bool:
        """Return whether the true labels can be read off this column, and it off them."""
        if self.target is None or self.rows < COUNTED_ROWS or self.missing:
            return False
        if not 1 < len(self.values) == len(self.target.values) <= MAX_DISTINCT:
            return False
        pairs = set(zip(self.coded.codes.tolist(), self.target.codes.tolist(), strict=True))
        return len(pairs) == len(self.values)


def _number_entry(numbers: Sequence[float]) -> dict[str, Any]:
    low, high = float(min(numbers)), float(max(numbers))
    whole = all(float(value).is_integer() for value in numbers)
    return {"kind": "integer" if whole else "real", "lower": low, "upper": high}


def _range_entry(numbers: Sequence[float]) -> dict[str, Any] | None:
    """Return a number as ranges with about equally many of its different values; None where there are too few."""
    cuts = np.quantile(np.asarray(numbers, dtype=np.float64), np.linspace(0, 1, RANGES + 1))
    if not np.isfinite(cuts).all():
        return None
    edges = sorted({math.floor(cuts[0]), *(float(f"{cut:.3g}") for cut in cuts[1:-1]), math.ceil(cuts[-1])})
    edges = [edge for edge in edges if math.floor(cuts[0]) <= edge <= math.ceil(cuts[-1])]
    return {"kind": "ordinal", "edges": [float(edge) for edge in edges]} if len(edges) > 2 else None


def _are_dates(numbers: Sequence[float]) -> bool:
    """Return whether all whole numbers read as year, month and day."""
    parts = [divmod(int(number) % 10_000, 100) for number in numbers]
    return all(1 <= month <= 12 and 1 <= day <= 31 for month, day in parts)


def _ordered_categories(series: Any) -> list[Any] | None:
    """Return the values of an ordered categorical (pandas) or Enum (polars) column, in order."""
    import narwhals as nw

    return [plain_value(value) for value in series.dtype.categories] if isinstance(series.dtype, nw.Enum) else None
