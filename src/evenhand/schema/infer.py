"""Schema inference: an entry for each column of a table, or a proposal that the user must confirm.

The model must receive the cells it was trained on. Most proposals therefore pass a column to the model unchanged
(``passthrough``), which suits identifiers, dates and texts. Amounts, percentages and decimals such as ``12.50`` become
numbers that are written back as the same strings (``number_format``).
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.errors import DataError
from evenhand.schema.arrays import require_column
from evenhand.schema.attribute import Value, guess_format
from evenhand.schema.outcome import OutcomeColumn, infer_target
from evenhand.schema.schema import PASSTHROUGH, Schema
from evenhand.schema.table import CodedColumn, CodedTable, is_missing, is_number, list_values, plain_value, sort_key
from evenhand.schema.target import OutcomeRole
from evenhand.schema.words import LARGEST_INTEGER, find_variants, means_unknown, parse_number, truth_key, unknown_codes

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

MAX_CATEGORIES = 1000
"""Maximum number of categories of an attribute."""

MAX_DISTINCT = 50
"""Maximum number of distinct strings that are categories regardless of the number of rows."""

FEW_DISTINCT = 20
"""Maximum number of distinct dates or amounts for a column to be categorical."""

TYPICAL = 0.95
"""Minimum share of the distinct strings with the same form, such as dates, for the column to have that form."""

STRAY_WORDS, STRAY_SHARE = 3, 0.2
"""Maximum number of distinct strings in a numeric column, and maximum share of rows, to read them as "unknown"."""

REPEATED, MOST_UNKNOWN = 3, 0.5
"""Minimum number and maximum share of rows with a code for it to be read as "unknown"."""

LEAST_OTHERS = 3
"""Minimum number of distinct other numbers for a number to be recognised as an outlying code."""

RANGES = 5
"""Number of ranges proposed for a protected real number."""

COUNTED_ROWS = 20
"""Minimum number of rows for a column to be recognised as a row number or a copy of the target."""

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


GROUP_ZIP_CODES = "group it, for example by region"
CONVERT_DATES = "convert it to a number, such as an age"
LEAVE_OUT = "leave it out"

FORMS = (
    (NUMBER, "numbers"),
    (DATE, "dates"),
    (PERCENT, "percentages written as words"),
    (COMMA_OR_NONE, "numbers with commas written as words"),
    (MONEY, "amounts of money written as words"),
)


@dataclass(frozen=True)
class ColumnProposal:
    """Problem with using a column as an attribute, and a proposed schema entry.

    Attributes:
        column: Name of the column.
        problem: Description of the problem, with the relevant counts.
        entry: Proposed schema entry; None if there is no proposal.
        advice: Description of the proposal, or an instruction if there is none.
        required: Whether the user must decide. If False, the column can be used as it is.
    """

    column: str
    problem: str
    entry: dict[str, Any] | None = field(hash=False)
    advice: str
    required: bool = True

    def __str__(self) -> str:
        return f"{self.column} {self.problem}: {self.advice}"


@dataclass(frozen=True)
class ReviewedColumn:
    """The schema entry inferred from a column's values, a proposal, or both."""

    entry: dict[str, Any] | None
    proposal: ColumnProposal | None = None


def infer_schema(
    frame: IntoDataFrame | CodedTable,
    *,
    target: str,
    protected: Sequence[str] = (),
    favourable: Value | None = None,
    unfavourable: Sequence[Value] = (),
    ignore: Sequence[str] = (),
    outcome: OutcomeRole | None = None,
    accept_proposals: bool = False,
    compared: Sequence[str] = (),
) -> Schema:
    """Infer a schema: strings are categorical, ordered categories ordinal, whole numbers integer.

    A column is numeric if it holds numbers, or strings that are all canonical spellings of numbers, in any file format.
    The domain of an attribute is the set of its values in the data, or the range of its numbers.
    Missing values are kept if the data contain any (as unknown for a protected attribute), otherwise refused.

    Args:
        frame: One row per person.
        target: Column of the true label, or of the true target value.
        protected: Attributes that decisions must not depend on.
        favourable: Favourable label. Default: proposed from labels such as ``yes`` and ``approved``, and from the
            column name. For a number, ``higher`` or ``lower``.
        unfavourable: All other labels. Required if there are several, unless ``outcome`` has kind ``label``.
        ignore: Columns that are not attributes, such as identifiers and weights.
        outcome: Kind of the target. Default: ``number`` for many distinct numbers, otherwise labels.
        accept_proposals: Whether to accept the proposals of ``propose_columns``.
        compared: Attributes that only define groups and are not varied.

    Raises:
        DataError: A named column is missing, the target has one class, or columns have no entry. The message lists
            these columns with the proposals.
        SchemaError: The favourable label cannot be proposed or does not occur.
    """
    table = CodedTable.of(frame)
    for argument, names in (("target", [target]), ("protected", [*protected, *compared]), ("ignore", ignore)):
        for name in names:
            require_column(name, table.names, argument)
    described = infer_target(OutcomeColumn.read(table[target]), favourable, outcome, unfavourable)
    names = [name for name in table.names if name not in (target, *ignore)]
    columns = review_columns(table, names, protected=protected, compared=compared, target=table[target])
    attributes = choose_entries(columns, accept=accept_proposals)
    if not any(entry["kind"] != PASSTHROUGH for entry in attributes):
        hint = "an audit needs at least one column of numbers or categories"
        raise DataError("no column can be an attribute", hint=hint)
    return Schema.parse({"target": described, "attributes": attributes})


def propose_columns(
    frame: IntoDataFrame | CodedTable, *, target: str, protected: Sequence[str] = (), ignore: Sequence[str] = ()
) -> tuple[ColumnProposal, ...]:
    """Propose entries for columns that cannot be attributes as they are, or that have a better entry.

    Args:
        frame, target, protected, ignore: As for ``infer_schema``, whose ``accept_proposals`` accepts them all.

    Example:
        >>> import pandas as pd
        >>> people = pd.DataFrame({"sex": ["f", "m"] * 50, "hired": [0, 1, 1, 0] * 25})
        >>> people["born"] = pd.date_range("1970", periods=100)
        >>> for proposal in propose_columns(people, target="hired", protected=["sex"]):
        ...     print(proposal)
        born holds dates or times, such as 1970-01-01 00:00:00: passthrough
    """
    table = CodedTable.of(frame)
    names = [name for name in table.names if name not in (target, *ignore)]
    decided = table[target] if target in table.names else None
    columns = review_columns(table, names, protected=protected, target=decided)
    return tuple(column.proposal for column in columns if column.proposal is not None)


def review_columns(
    table: CodedTable,
    names: Iterable[str],
    *,
    protected: Sequence[str] = (),
    compared: Sequence[str] = (),
    target: CodedColumn | None = None,
) -> list[ReviewedColumn]:
    """Review columns of a table.

    Args:
        table: One row per person.
        names: Columns to review.
        protected: Columns that decisions must not depend on.
        compared: Columns that only define groups. They may be real numbers.
        target: True labels, used to recognise columns that repeat them.
    """
    return [_Review(table, name, name in protected, name in compared, target).column() for name in names]


def choose_entries(reviewed: Sequence[ReviewedColumn], *, accept: bool) -> list[dict[str, Any]]:
    """Choose the entries of a schema for reviewed columns.

    Args:
        reviewed: See ``review_columns``.
        accept: Whether to accept every proposal.

    Raises:
        DataError: A required proposal is not accepted, or a column has none. The message lists all such columns.
    """
    entries: list[dict[str, Any] | None] = []
    unresolved = []
    for column in reviewed:
        proposal = column.proposal
        if proposal is not None and accept and proposal.entry is not None:
            entries.append(proposal.entry)
        elif proposal is not None and proposal.required:
            unresolved.append(proposal)
        else:
            entries.append(column.entry)
    if not unresolved:
        return [entry for entry in entries if entry is not None]
    hint = "leave columns out (`ignore=NAME`), or describe them in a schema"
    acceptable = sum(proposal.entry is not None for proposal in unresolved)
    if acceptable == len(unresolved):
        hint = f"accept the proposals (`accept_proposals=True`), {hint}"
    elif acceptable:
        hint = f"correct the columns without a proposal, accept the others (`accept_proposals=True`), {hint}"
    if len(unresolved) == 1:
        raise DataError(f"column {unresolved[0].column!r} {unresolved[0].problem}: {unresolved[0].advice}", hint=hint)
    lines = "".join(f"\n  {proposal.column}: {proposal.problem}: {proposal.advice}" for proposal in unresolved)
    raise DataError(f"{len(unresolved)} columns cannot be attributes as they are{lines}", hint=hint)


class _Review:
    """Review of one column."""

    def __init__(
        self, table: CodedTable, name: str, protected: bool, compared: bool, target: CodedColumn | None
    ) -> None:
        self.series, self.name, self.protected, self.target = table.frame[name], name, protected, target
        self.groups = protected or compared
        self.coded = coded = table[name].with_numbers()
        missing = coded.missing()
        self.present, self.missing = coded.count(~missing), coded.count(missing)
        self.rows = self.present + self.missing
        self.values = [value for value in self.coded.values if not is_missing(value)]

    def column(self) -> ReviewedColumn:
        """Review the column."""
        if not self.values:
            return self._passthrough(f"has no value in any of {self.rows:,} rows", LEAVE_OUT)
        unusual = next((value for value in self.values if not isinstance(value, str | bool | int | float)), None)
        if unusual is not None:
            return self._other_type(unusual)
        order = _ordered_categories(self.series)
        if order is not None and all(isinstance(value, str | bool | int | float) for value in order):
            return self._check_column({"kind": "ordinal", "values": order}, order)
        parsed: list[Any] = [parse_number(value.strip()) if isinstance(value, str) else value for value in self.values]
        numbers = [value for value in parsed if is_number(value)]
        words = [value for value, number in zip(self.values, parsed, strict=True) if number is None]
        if len(numbers) == len(self.values):
            return self._numbers(numbers)
        typed = any(is_number(value) for value in self.values)
        spelled = any(NUMBER.fullmatch(_without_sign(word.strip())) for word in words if isinstance(word, str))
        enough = not spelled and (typed or len(numbers) > FEW_DISTINCT / 2)
        if enough and len(numbers) + len(words) == len(self.values) and self._are_stray(words, len(numbers)):
            return self._numbers_with_words(self._entry_of_numbers(numbers), [word.strip() for word in words])
        return self._words([value for value in self.values if isinstance(value, str)])

    # Numbers.

    def _numbers(self, numbers: Sequence[float]) -> ReviewedColumn:
        infinite = next((value for value in numbers if math.isinf(value)), None)
        if infinite is not None:
            return self._passthrough(
                f"has numbers that are not finite: {infinite}", "replace them, or leave cells empty"
            )
        entry = _number_entry(numbers)
        low, high = entry["lower"], entry["upper"]
        if entry["kind"] == "integer":
            several, largest = len(numbers) > FEW_DISTINCT, max(abs(low), abs(high))
            if largest > LARGEST_INTEGER:
                return self._passthrough(f"has integers up to {largest:.3g}, beyond exact 64-bit floats", LEAVE_OUT)
            if self._numbers_rows(low, high):
                problem = f"has a different number in each of {self.rows:,} rows, like an identifier"
                return self._passthrough(problem, LEAVE_OUT)
            if several and POSTAL_NAME.fullmatch(self.name):
                return self._passthrough(f"has {len(numbers):,} zip codes, not a range of numbers", GROUP_ZIP_CODES)
            if several and low >= 19_000_101 and high <= 21_001_231 and _are_dates(numbers):
                return self._passthrough("has dates written as numbers", CONVERT_DATES)
        elif self.protected and (ranges := _range_entry(numbers)) is not None:
            return self._propose("is a protected number with fractions", ranges, "cut into ranges, `edges`")
        column = self._check_column(entry, numbers)
        codes = [] if column.proposal is not None else self._outlying_codes(numbers)
        others = [value for value in numbers if value not in codes]
        changed = self._entry_of_numbers(others) if codes else None
        if changed is None:
            return column
        listed = list_values([int(code) for code in codes])
        return self._propose(
            f"has {listed} in several rows, far from all its other numbers ({min(others):g} to {max(others):g})",
            changed | {"unknown": codes},
            f"unknown: {listed}, if that is a code for an unknown value",
            required=self.groups,
            entry=column.entry,
        )

    def _outlying_codes(self, numbers: Sequence[float]) -> list[float]:
        """Find codes for "unknown" among numbers: far from all other numbers, and in several rows.

        A negative code need not be far from numbers that are not negative.
        """
        codes = unknown_codes(numbers)
        others = np.sort([value for value in numbers if value not in codes])
        if not codes or len(others) < (2 if self.groups else LEAST_OTHERS):
            return []
        low, high = float(others[0]), float(others[-1])
        distance = max(3 * float(np.diff(others).max()), 0.2 * (high - low))
        for code in codes:
            isolated = code - high >= distance or low - code >= distance or (code < 0 <= low)
            rows = self.coded.count(self.coded.codes == self.coded.values.index(code))
            if not isolated or rows < REPEATED or rows > MOST_UNKNOWN * self.present:
                return []  # A code that is an ordinary number makes the others less plausible.
        return codes

    def _numbers_with_words(self, entry: dict[str, Any] | None, words: Sequence[str]) -> ReviewedColumn:
        """Review numeric columns that contain strings. Markers such as "unknown" need no decision unless the column
        defines groups."""
        listed = list_values(sorted(words))
        if entry is None:
            return self._passthrough(f"has {listed} among numbers", "correct the data")
        return self._propose(
            f"has {listed} among numbers",
            entry | {"unknown": list(words)},
            "a number" + (" in ranges" if "edges" in entry else "") + f", unknown: {listed}",
            required=self.groups or not all(means_unknown(word) for word in words),
        )

    def _entry_of_numbers(self, numbers: Sequence[float]) -> dict[str, Any] | None:
        """Return the entry of a numeric column. A real-valued column that defines groups is binned if it has enough
        distinct values."""
        if any(math.isinf(number) for number in numbers):
            return None
        entry = _number_entry(numbers)
        return _range_entry(numbers) if self.groups and entry["kind"] == "real" else entry

    # Strings.

    def _other_type(self, value: Any) -> ReviewedColumn:
        kind = type(value).__name__
        if isinstance(value, dt.date | dt.time | dt.timedelta) or kind in ("Timestamp", "Timedelta"):
            return self._passthrough(f"holds dates or times, such as {value}", CONVERT_DATES)
        return self._passthrough(f"holds {kind} values, which are not supported", "convert it to numbers or words")

    def _words(self, words: Sequence[str]) -> ReviewedColumn:
        stripped = sorted({word.strip() for word in words})
        others = [value for value in self.values if not isinstance(value, str)]
        distinct = [*others, *stripped]
        column = None if others else self._formatted(stripped)
        if column is not None:
            return column
        if len(distinct) <= MAX_DISTINCT or MAX_CATEGORIES >= len(distinct) <= self.present / 2:
            return self._check_column({"kind": "categorical", "values": sorted(distinct, key=sort_key)}, distinct)
        kind = "too many to be categories"
        if sum(word.count(" ") >= 3 for word in stripped) > len(stripped) / 2:
            kind = "free text"
        elif len(distinct) > 0.9 * self.present:
            kind = "an identifier or free text"
        problem = f"has {len(distinct):,} different values in {self.present:,} rows, {kind}"
        return self._passthrough(problem, "group its values, or leave it out")

    def _formatted(self, words: Sequence[str]) -> ReviewedColumn | None:
        """Review strings that are dates, amounts or decimals such as ``12.50``. Return None for categories.

        Numbers with leading zeros are codes, and a few decimals that define groups are categories.
        """
        if POSTAL_NAME.fullmatch(self.name) and len(words) > MAX_DISTINCT:
            return self._passthrough(f"has {len(words):,} zip codes", GROUP_ZIP_CODES)
        if any(LEADING_ZERO.match(word) for word in words) and all(NUMBER.fullmatch(word) for word in words):
            return None
        for pattern, plural in FORMS:
            formatted = [word for word in words if pattern.fullmatch(_without_sign(word))]
            signed = pattern is NUMBER and not all(pattern.fullmatch(word) for word in formatted)
            several = len(words) > FEW_DISTINCT or (pattern is NUMBER and not self.groups and not signed)
            typical = len(formatted) == len(words) or (several and len(formatted) >= TYPICAL * len(words))
            commas = pattern is not COMMA_OR_NONE or any(DECIMAL_COMMA.fullmatch(_without_sign(word)) for word in words)
            if not (formatted and several and typical and commas):
                continue
            if pattern is DATE:
                return self._passthrough(f"has {len(words):,} dates, such as {words[0]!r}", CONVERT_DATES)
            if pattern is NUMBER and len(words) <= FEW_DISTINCT and guess_format(formatted) is None:
                return None  # few decimals in several spellings are categories, such as versions 3.9 and 3.10
            if signed:
                plural = "numbers with unusual signs written as words"
            return self._formatted_numbers(pattern, plural, evident=pattern is NUMBER and not signed)
        return None

    def _formatted_numbers(self, pattern: re.Pattern[str], plural: str, *, evident: bool) -> ReviewedColumn:
        """Review strings as numbers, if writing each number back restores its string."""
        cells = [word for word in self.values if isinstance(word, str)]
        strays = [word for word in cells if not pattern.fullmatch(_without_sign(word.strip()))]
        formatted = [word for word in cells if word not in strays]
        words = [word.strip() for word in strays]
        format_ = guess_format(formatted)
        numbers: list[float] = []
        if format_ is not None and (not strays or self._are_stray(words, len(formatted))):
            numbers = [format_.read(word) for word in formatted]
        entry = self._entry_of_numbers(numbers) if numbers else None
        if entry is None or format_ is None:
            problem = f"has {'numbers in several spellings' if evident else plural}, such as {formatted[0]!r}"
            return self._passthrough(problem, "convert it to numbers")
        entry |= {"number_format": format_.model_dump(exclude_defaults=True)} | ({"unknown": words} if words else {})
        return self._propose(
            f"has {len(formatted):,} {plural}, such as {formatted[0]!r}",
            entry,
            f"a number, `number_format`: {formatted[0]!r} is {numbers[0]:.12g}"
            + (f", unknown: {list_values(strays)}" if strays else ""),
            required=self.groups or not evident or not all(means_unknown(word) for word in words),
        )

    # Entries and proposals.

    def _check_column(self, entry: dict[str, Any], values: Sequence[Any]) -> ReviewedColumn:
        """Review a column that can be an attribute, with a proposal if another entry is better."""
        entry = {"name": self.name, "protected": self.protected} | entry
        if self.missing:
            entry["missing"] = "drop" if self.protected else "keep"
        if self.groups:
            return self._check_groups(entry, values)
        if len(values) == 1:
            return self._pass_on(f"has the same value in all rows: {values[0]!r}", entry)
        if self._repeats_target():
            return self._pass_on("repeats the target under another name, row by row")
        return ReviewedColumn(entry)

    def _check_groups(self, entry: dict[str, Any], values: Sequence[Any]) -> ReviewedColumn:
        unknown = [value for value in values if means_unknown(value)]
        known = [value for value in values if value not in unknown]
        declared = {key: value for key, value in entry.items() if key != "missing"} | {"unknown": unknown}
        advice = "`unknown`: counted, and excluded from results by this attribute"
        if unknown and len(known) < 2:
            problem = f"has {list_values(unknown)} besides {list_values(known) or 'no other value'}"
            return self._propose(problem, None, "if these are groups, list them as `values` in a schema")
        if unknown:
            return self._propose(f"has {list_values(unknown)} among its values", declared | {"values": known}, advice)
        variants = find_variants(self.values)
        truths = [value for value in self.values if truth_key(value) is not None]
        if any(isinstance(value, bool) for value in truths) and len(truths) > 2:
            problem = f"has several spellings of true and false: {list_values(truths)}"
            return self._propose(problem, None, "use one spelling in the data")
        if variants:
            listed = "; ".join(", ".join(map(repr, words)) for words in variants)
            problem = f"has values that differ only in case or spaces: {listed}"
            return self._propose(problem, None, "use one spelling in the data")
        if self.missing:
            problem = f"lacks a value in {self.missing:,} of {self.rows:,} rows"
            return self._propose(problem, declared, advice, required=False, entry=entry)
        return ReviewedColumn(entry)

    def _passthrough(self, problem: str, remedy: str) -> ReviewedColumn:
        """Propose to pass the column to the model unchanged, unless it defines groups."""
        if not self.groups:
            return self._pass_on(problem)
        role = "protected" if self.protected else "it defines groups"
        return self._propose(problem, None, f"{role}: {remedy}")

    def _pass_on(self, problem: str, entry: dict[str, Any] | None = None) -> ReviewedColumn:
        """Propose to pass the column to the model unchanged, which is required if there is no other entry."""
        proposed = {"name": self.name, "kind": PASSTHROUGH}
        return ReviewedColumn(entry, ColumnProposal(self.name, problem, proposed, PASSTHROUGH, entry is None))

    def _propose(
        self,
        problem: str,
        proposed: dict[str, Any] | None,
        advice: str,
        *,
        required: bool = True,
        entry: dict[str, Any] | None = None,
    ) -> ReviewedColumn:
        """Propose an entry, or none. By default, an optional proposal is also the entry of the column."""
        if proposed is not None:
            proposed = {"name": self.name, "protected": self.protected} | proposed
            if self.missing and "unknown" not in proposed:
                proposed["unknown" if self.groups else "missing"] = [] if self.groups else "keep"
        proposal = ColumnProposal(self.name, problem, proposed, advice, required)
        return ReviewedColumn(proposed if entry is None else entry, proposal)

    # Recognition.

    def _are_stray(self, words: Sequence[str], numbers: int) -> bool:
        """Check whether the strings in a numeric column are rare enough to be read as "unknown"."""
        if not 0 < len(words) <= STRAY_WORDS or numbers < len(words):
            return False
        strays = {word.strip() for word in words}
        rows = self.coded.count(self.coded.each(lambda value: isinstance(value, str) and value.strip() in strays))
        return rows <= STRAY_SHARE * self.present

    def _numbers_rows(self, low: float, high: float) -> bool:
        """Check whether an integer column is a row ID, judged by its name or by consecutive values."""
        if self.groups or self.missing or not len(self.values) == self.rows >= COUNTED_ROWS:
            return False
        if IDENTIFIER_NAME.fullmatch(self.name) or self.name.startswith("Unnamed: "):
            return True
        in_order = np.asarray(self.values, dtype=np.float64)[self.coded.codes]
        return low in (0, 1) and bool((np.diff(in_order) == 1).all())

    def _repeats_target(self) -> bool:
        """Check whether the column and the target determine each other."""
        if self.target is None or self.rows < COUNTED_ROWS or self.missing:
            return False
        if not 1 < len(self.values) == len(self.target.values) <= MAX_DISTINCT:
            return False
        pairs = set(zip(self.coded.codes.tolist(), self.target.codes.tolist(), strict=True))
        return len(pairs) == len(self.values)


def _without_sign(word: str) -> str:
    """Remove signs of negative numbers; strings without digits and dates are returned unchanged."""
    unsigned = re.sub(r"^[-\u2212]|-$|[()]", "", word)
    return unsigned if any(letter.isdigit() for letter in unsigned) and not DATE.fullmatch(word) else word


def _number_entry(numbers: Sequence[float]) -> dict[str, Any]:
    integral = all(float(value).is_integer() for value in numbers)
    return {"kind": "integer" if integral else "real", "lower": float(min(numbers)), "upper": float(max(numbers))}


def _range_entry(numbers: Sequence[float]) -> dict[str, Any] | None:
    """Bin a number into ranges with about equally many distinct values. Return None if there are too few values."""
    cuts = np.quantile(np.asarray(numbers, dtype=np.float64), np.linspace(0, 1, RANGES + 1))
    if not np.isfinite(cuts).all():
        return None
    edges = sorted({math.floor(cuts[0]), *(float(f"{cut:.3g}") for cut in cuts[1:-1]), math.ceil(cuts[-1])})
    edges = [edge for edge in edges if math.floor(cuts[0]) <= edge <= math.ceil(cuts[-1])]
    return {"kind": "ordinal", "edges": [float(edge) for edge in edges]} if len(edges) > 2 else None


def _are_dates(numbers: Sequence[float]) -> bool:
    """Check whether all integers read as year, month and day."""
    parts = [divmod(int(number) % 10_000, 100) for number in numbers]
    return all(1 <= month <= 12 and 1 <= day <= 31 for month, day in parts)


def _ordered_categories(series: Any) -> list[Any] | None:
    """List the values of an ordered categorical (pandas) or Enum (polars) column, in order; None for others."""
    import narwhals as nw

    return [plain_value(value) for value in series.dtype.categories] if isinstance(series.dtype, nw.Enum) else None
