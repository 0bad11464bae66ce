"""Schema inference: an entry for each column of a table, or a proposal that the user must confirm.

The model must receive the cells it was trained on. Most proposals therefore pass a column to the model unchanged
(``passthrough``), which suits identifiers, dates and texts. Decimals such as ``12.50`` become numbers that are written
back as the same strings (``number_format``).
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from evenhand.core.text import format_count
from evenhand.errors import DataError
from evenhand.schema.attribute import Value, guess_format
from evenhand.schema.outcome import INFERRED, OutcomeColumn, OutcomeRole, infer_target
from evenhand.schema.schema import PASSTHROUGH, Schema
from evenhand.schema.table import (
    LARGEST_INTEGER,
    TRUTH,
    CodedColumn,
    CodedTable,
    count_people,
    find_variants,
    is_missing,
    is_number,
    list_values,
    means_unknown,
    outcome_key,
    parse_word,
    plain_value,
    refuse_totals,
    require_column,
    sort_key,
    unknown_codes,
)

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

MAX_CATEGORIES = 5000
"""Maximum number of categories of an attribute."""

MAX_DISTINCT = 50
"""Maximum number of distinct strings that are categories regardless of the number of rows."""

FEW_DISTINCT = 20
"""Maximum number of distinct decimals for a column to be categorical."""

TYPICAL = 0.95
"""Minimum share of the distinct strings that are numbers for a column of decimals."""

STRAY_WORDS, STRAY_SHARE = 3, 0.2
"""Maximum number of distinct strings in a numeric column, and maximum share of rows, to read them as "unknown"."""

REPEATED, MOST_UNKNOWN = 3, 0.5
"""Minimum number and maximum share of rows with a code for it to be read as "unknown" in a column without groups."""

LEAST_OTHERS = 3
"""Minimum number of distinct other numbers for a number to be recognised as an outlying code."""

RANGES = 5
"""Number of ranges proposed for a protected real number."""

COUNTED_ROWS = 20
"""Minimum number of rows for a column to be recognised as a row number or a copy of the target."""

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
LEADING_ZERO = re.compile(r"[+-]?0\d")
DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{1,2}[ -][A-Za-z]{3,9}[ -,]+\d{2,4}"
    r"|[A-Za-z]{3,9} \d{1,2}(, | )\d{4})([T ,]+\d{1,2}:\d{2}.*)?"
)
UNIT = r"([%$€£¥₹₽₺₩₦₫฿₪₱₴]|[A-Z]{1,3}\$|[A-Z]{2,3}|Rs\.?|kr\.?|zł|Kč|Ft|pct\.?|percent)"
DATE_NUMBER = re.compile(r"(19\d\d|20\d\d|2100)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])", re.ASCII)
AMOUNT = re.compile(rf"[-+\u2212(]*{UNIT}?[ \u00a0]?[-+\u2212(]*\d[\d.,' \u00a0\u202f\u2019]*[)-]?{UNIT}?[)-]?")
POSTAL_NAME = re.compile(r"(zip|postal|post)[ _-]?(code)?s?|plz|.*[ _](zip|postcode|plz)|zip[ _-].*|.*zipcode", re.I)
IDENTIFIER_NAME = re.compile(
    r"(.*[ _-])?(id|ids|uuid|guid|index|idx|key|nr|no|number|ssn|row)|.*[a-z](ID|Id|UUID)|Unnamed: .*", re.A
)

GROUP_ZIP_CODES = "group it, for example by region"
CONVERT_DATES = "convert it to a number, such as an age"
LEAVE_OUT = "leave it out"


@dataclass(frozen=True)
class ColumnProposal:
    """Proposal for the schema entry of a column, with its reason.

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


Entry: TypeAlias = dict[str, Any] | None
"""Entry of a column in the schema; None if the values of the column do not suffice for one."""

Review: TypeAlias = tuple[Entry, ColumnProposal | None]
"""Entry of a column, a proposal for another entry, or both."""


def infer_schema(
    frame: IntoDataFrame | CodedTable,
    *,
    target: str,
    protected: Sequence[str] = (),
    favourable: Value | None = None,
    unfavourable: Sequence[Value] = (),
    ignore: Sequence[str] = (),
    outcome: OutcomeRole = INFERRED,
    accept_proposals: bool = False,
    varied: bool = True,
) -> Schema:
    """Infer a schema: strings are categorical, ordered categories ordinal, whole numbers integer.

    A column is numeric if it holds numbers, or strings that are all canonical spellings of numbers, in any file format.
    The domain of an attribute is the set of its values in the data, or the range of its numbers.
    Missing values are kept if the data contain any (as unknown for a protected attribute), otherwise refused.

    Args:
        frame: One row per person.
        target: Column of the true label, or of the true target value.
        protected: Attributes that decisions must not depend on, and that define the groups.
        favourable: Favourable label. Default: proposed from labels such as ``yes`` and ``approved``, and from the
            column name. For a numeric target: ``higher`` or ``lower``.
        unfavourable: All other labels. Required if there are several, unless ``outcome`` has kind ``label``.
        ignore: Columns that are not attributes, such as identifiers and weights.
        outcome: Kind of the target. Default: ``number`` for many distinct numbers, otherwise labels.
        accept_proposals: Whether to accept the proposals of ``propose_columns``.
        varied: Whether protected attributes are varied. If they only define groups, they may be real numbers.

    Raises:
        DataError: A named column is missing, the target has one class, or columns have no entry. The message lists
            these columns with the proposals.
        SchemaError: The favourable label cannot be proposed or does not occur.
    """
    table = frame if isinstance(frame, CodedTable) else CodedTable(frame)
    refuse_totals(table.frame)
    for argument, names in (("target", [target]), ("protected", protected), ("ignore", ignore)):
        for name in names:
            require_column(name, table.names, argument)
    described = infer_target(OutcomeColumn.read(table[target]), favourable, outcome, unfavourable)
    names = [name for name in table.names if name not in (target, *ignore)]
    reviews = [review_column(table, name, name in protected, varied, table[target]) for name in names]
    attributes = choose_entries(reviews, accept_proposals, protected)
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
    table = frame if isinstance(frame, CodedTable) else CodedTable(frame)
    labels = table[target] if target in table.names else None
    names = [name for name in table.names if name not in (target, *ignore)]
    reviews = [review_column(table, name, name in protected, True, labels) for name in names]
    return tuple(proposal for _, proposal in reviews if proposal is not None)


def describe_groups(
    table: CodedTable, names: Sequence[str], target: dict[str, Any], schema: Schema | None, *, accept: bool
) -> Schema:
    """Build a schema of the attributes that define the groups.

    Args:
        table: Table of the people.
        names: Columns of the attributes.
        target: Schema entry of the decision.
        schema: Schema of the columns. None to infer it from the data. People without a value then belong to no group.
        accept: Whether to accept the proposals for columns that cannot be attributes as they are.

    Raises:
        DataError: A column has no entry.
        SchemaError: The schema lacks an attribute.
    """
    if schema is not None:
        entries = [schema[name].model_dump(exclude_unset=True) for name in names]
    else:
        entries = choose_entries([review_column(table, name, True, True) for name in names], accept, names)
        for entry in entries:
            if entry.pop("missing", None) is not None:
                entry["unknown"] = []
    return Schema.parse({"target": target, "attributes": [entry | {"protected": False} for entry in entries]})


def choose_entries(reviews: Sequence[Review], accept: bool, groups: Sequence[str]) -> list[dict[str, Any]]:
    """Choose the entries of a schema for reviewed columns, and accept every proposal if ``accept`` is True.

    The columns in ``groups`` define groups and cannot be left out.

    Raises:
        DataError: A required proposal is not accepted, or a column has none. The message lists all such columns.
    """
    entries: list[Entry] = []
    unresolved = []
    for entry, proposal in reviews:
        if proposal is not None and accept and proposal.entry is not None:
            entries.append(proposal.entry)
        elif proposal is not None and proposal.required:
            unresolved.append(proposal)
        else:
            entries.append(entry)
    if not unresolved:
        return [entry for entry in entries if entry is not None]
    hint = "accept the proposals (`accept_proposals=True`), " * any(proposal.entry for proposal in unresolved)
    hint += "leave columns out (`ignore=NAME`), " * any(proposal.column not in groups for proposal in unresolved)
    hint += "choose other protected columns, " * any(proposal.column in groups for proposal in unresolved)
    lines = "".join(f"\n  {proposal.column!r} {proposal.problem}: {proposal.advice}" for proposal in unresolved)
    raise DataError(
        f"columns that cannot be attributes as they are:{lines}",
        hint=f"{hint}correct them, or describe them in a schema",
    )


def review_column(
    table: CodedTable, name: str, groups: bool, varied: bool, target: CodedColumn | None = None
) -> Review:
    """Review a column of a table.

    Args:
        table: The table.
        name: Name of the column.
        groups: Whether the column defines groups.
        varied: Whether columns that define groups are varied.
        target: Column of the target.
    """
    import narwhals as nw

    column = table[name]
    if column.array is not None:
        column = replace(column)  # so that the table does not keep the distinct numbers of all its columns
    else:
        # A column is numeric if all its strings are canonical spellings of numbers.
        parsed = list(map(parse_word, column.coding.values))
        column = column if any(isinstance(value, str) for value in parsed) else column.with_values(parsed)
    missing = column.missing()
    present, absent = count_people(~missing, table.counts), count_people(missing, table.counts)
    values = [value for value in column.coding.values if not is_missing(value)]
    review = _ColumnReview(name, column, values, present + absent, present, absent, groups, groups and varied, target)
    if not values:
        return review.pass_through(f"has no value in any of {absent:,} rows", LEAVE_OUT)
    if column.array is not None:
        return review.review_numbers(values)
    other = next((value for value in values if not isinstance(value, str | bool | int | float)), None)
    if isinstance(other, dt.date | dt.time | dt.timedelta):
        return review.pass_through(f"holds dates or times, such as {other}", CONVERT_DATES)
    if other is not None:
        problem = f"holds {type(other).__name__} values, which are not supported"
        return review.pass_through(problem, "convert it to numbers or text")
    dtype = table.frame[name].dtype
    if isinstance(dtype, nw.Enum):  # an ordered categorical of pandas, or an Enum of polars
        order = [plain_value(value) for value in dtype.categories]
        return review.check_entry({"kind": "ordinal", "values": order}, order)
    numbers = list(filter(is_number, map(parse_word, values)))
    return review.review_numbers(numbers) if len(numbers) == len(values) else review.review_words(numbers)


@dataclass
class _ColumnReview:
    """Review of a column.

    Attributes:
        name: Name of the column.
        column: The column.
        values: Distinct values, without missing ones.
        rows, present, missing: Number of people, and of those with and without a value.
        groups, protected: Whether the column defines groups, and whether these are varied.
        target: Column of the target. None if it is unknown.
    """

    name: str
    column: CodedColumn
    values: list[Any]
    rows: int
    present: int
    missing: int
    groups: bool
    protected: bool
    target: CodedColumn | None

    def review_numbers(self, numbers: Sequence[float]) -> Review:
        """Review a column whose distinct values are numbers."""
        infinite = next((value for value in numbers if math.isinf(value)), None)
        if infinite is not None:
            problem = f"has numbers that are not finite: {infinite}"
            return self.pass_through(problem, "replace them, or leave cells empty")
        low, high = float(min(numbers)), float(max(numbers))
        largest, several = max(abs(low), abs(high)), len(numbers) > FEW_DISTINCT
        integral = all(float(value).is_integer() for value in numbers)
        if integral and largest >= LARGEST_INTEGER:  # an array of floats merges larger ones
            return self.pass_through(f"has integers up to {largest:.3g}, beyond exact 64-bit floats", LEAVE_OUT)
        if integral and len(numbers) == self.rows >= COUNTED_ROWS and self._enumerates_rows(low):
            return self.pass_through(
                f"has a different number in each of {self.rows:,} rows, like an identifier", LEAVE_OUT
            )
        if integral and several and POSTAL_NAME.fullmatch(self.name):
            return self.pass_through(f"has {len(numbers):,} zip codes, not a range of numbers", GROUP_ZIP_CODES)
        if integral and several and all(DATE_NUMBER.fullmatch(str(int(number))) for number in numbers):
            return self.pass_through("has dates written as numbers", CONVERT_DATES)
        if not integral and self.protected and (ranges := self._enter_numbers(numbers)) is not None:
            return self._propose("is a protected number with fractions", ranges, "cut into ranges, `edges`")
        column = self.check_entry({"kind": "integer" if integral else "real", "lower": low, "upper": high}, numbers)
        codes, rows = unknown_codes(numbers) if column[1] is None else [], 0
        if codes:
            codes, rows = self._outlying_codes(codes, numbers)
        others = [value for value in numbers if value not in codes]
        changed = self._enter_numbers(others) if codes else None
        if changed is None:
            return column
        listed = list_values([int(code) for code in codes])
        return self._propose(
            f"has {listed} in {format_count(rows, 'row', 'rows')}, far from all its other numbers "
            f"({min(others):g} to {max(others):g})",
            changed | {"unknown": codes},
            f"unknown: {listed}, if that is a code for an unknown value",
            required=self.groups,
            entry=column[0],
        )

    def _outlying_codes(self, codes: list[float], numbers: Sequence[float]) -> tuple[list[float], int]:
        """Find the codes for "unknown" among numbers that are far from all other numbers, and count their rows.

        A number within or close to the range of the others is one of them, such as the age 77. A negative code need not
        be far from numbers that are not negative. In a column that defines groups, a code may occur once.
        """
        nearby = [math.nan]
        while codes and nearby:
            others = np.sort([value for value in numbers if value not in codes])
            if len(others) < (2 if self.groups else LEAST_OTHERS):
                return [], 0
            low, high = float(others[0]), float(others[-1])
            distance = max(3 * float(np.diff(others).max()), 0.2 * (high - low))
            nearby = [code for code in codes if low - distance < code < high + distance and not code < 0 <= low]
            codes = [code for code in codes if code not in nearby]
        values, positions = self.column.coding
        rows = [count_people(positions == values.index(code), self.column.counts) for code in codes]
        least = 1 if self.groups else REPEATED
        if not codes or min(rows) < least or sum(rows) > MOST_UNKNOWN * self.present:
            return [], 0
        return codes, sum(rows)

    def _enter_numbers(self, numbers: Sequence[float]) -> Entry:
        """Build the entry of a numeric column.

        Real numbers that define groups are cut into ranges with about equally many distinct values, if there are enough
        of these.
        """
        if any(math.isinf(number) for number in numbers):
            return None
        integral = all(float(value).is_integer() for value in numbers)
        if integral or not self.groups:
            kind = "integer" if integral else "real"
            return {"kind": kind, "lower": float(min(numbers)), "upper": float(max(numbers))}
        cuts = np.quantile(np.asarray(numbers, dtype=np.float64), np.linspace(0, 1, RANGES + 1))
        if not np.isfinite(cuts).all():
            return None
        low, high = math.floor(cuts[0]), math.ceil(cuts[-1])
        inner = (float(f"{cut:.3g}") for cut in cuts[1:-1])
        edges = [float(edge) for edge in sorted({low, high, *inner}) if low <= edge <= high]
        return {"kind": "ordinal", "edges": edges} if len(edges) > 2 else None

    def review_words(self, numbers: Sequence[float]) -> Review:
        """Review a column of strings, some of which may be canonical spellings of ``numbers``."""
        if numbers and (review := self._review_strays(numbers)) is not None:
            return review
        stripped = sorted({value.strip() for value in self.values if isinstance(value, str)})
        distinct = [*(value for value in self.values if not isinstance(value, str)), *stripped]
        count, codes = len(distinct), any(map(LEADING_ZERO.match, stripped))
        decimals = [word for word in stripped if NUMBER.fullmatch(word)] if count == len(stripped) else []
        if decimals and (review := self._review_decimals(stripped, decimals, codes)) is not None:
            return review
        if count > MAX_DISTINCT and POSTAL_NAME.fullmatch(self.name):
            return self.pass_through(f"has {count:,} zip codes", GROUP_ZIP_CODES)
        for pattern, plural in ((DATE, "dates"), (AMOUNT, "amounts or percentages")):
            formatted = [word for word in stripped if pattern.fullmatch(word)]
            if count > FEW_DISTINCT and len(formatted) >= TYPICAL * count and not codes:
                problem = f"has {len(formatted):,} {plural} written as words, such as {formatted[0]!r}"
                return self.pass_through(problem, "convert it to numbers")
        if count <= MAX_DISTINCT or MAX_CATEGORIES >= count <= self.present / 2:
            if self.target is not None and len(distinct) == len(self.values):
                distinct = sorted(self.values, key=sort_key)  # a model was trained on words with the spaces around them
            return self.check_entry({"kind": "categorical", "values": sorted(distinct, key=sort_key)}, distinct)
        kind = "too many to be categories"
        if sum(word.count(" ") >= 3 for word in stripped) > len(stripped) / 2:
            kind = "free text"
        elif count > 0.9 * self.present:
            kind = "an identifier or free text"
        problem = f"has {count:,} different values in {self.present:,} rows, {kind}"
        return self.pass_through(problem, "group its values, or leave it out")

    def _review_strays(self, numbers: Sequence[float]) -> Review | None:
        """Review numbers and a few strings. Return None for categories."""
        words = sorted({value.strip() for value in map(parse_word, self.values) if isinstance(value, str)})
        if any(isinstance(value, bool) for value in self.values) or any(map(NUMBER.fullmatch, words)):
            return None
        numeric = any(map(is_number, self.values)) or len(numbers) > FEW_DISTINCT / 2
        if not numeric or not self._are_stray(words, len(numbers)):
            return None
        problem, entry = f"has {list_values(words)} among numbers", self._enter_numbers(numbers)
        if entry is None:
            return self.pass_through(problem, "correct the data")
        return self._propose_number(problem, entry, "a number" + (" in ranges" if "edges" in entry else ""), words)

    def _review_decimals(self, words: Sequence[str], decimals: Sequence[str], codes: bool) -> Review | None:
        """Review strings that are decimals such as ``12.50``. Return None for categories.

        Numbers with leading zeros are codes. In a column that defines groups, a few distinct decimals are categories.
        """
        several = len(words) > FEW_DISTINCT or not self.groups
        if not several or len(decimals) < TYPICAL * len(words):
            return None
        number_format = guess_format(decimals)
        # Few decimals in several spellings are categories, such as versions 3.9 and 3.10.
        if (codes and len(decimals) == len(words)) or (number_format is None and len(words) <= FEW_DISTINCT):
            return None
        strays = sorted(set(words).difference(decimals))
        entry: Entry = None
        if number_format is not None and (not strays or self._are_stray(strays, len(decimals))):
            entry = self._enter_numbers([number_format.read(word) for word in decimals])
        if entry is None or number_format is None:
            problem = f"has numbers in several spellings, such as {decimals[0]!r}"
            return self.pass_through(problem, "convert it to numbers")
        entry["number_format"] = number_format.model_dump(exclude_defaults=True)
        problem = f"has {len(decimals):,} numbers written as words, such as {decimals[0]!r}"
        advice = f"a number, `number_format: {{decimals: {number_format.decimals}}}`"
        return self._propose_number(problem, entry, advice, strays)

    def _propose_number(self, problem: str, entry: dict[str, Any], advice: str, strays: Sequence[str]) -> Review:
        """Propose a number, with the strings in the column as values that mean "unknown"."""
        if strays:
            entry, advice = entry | {"unknown": list(strays)}, f"{advice}, unknown: {list_values(strays)}"
        # Markers such as "unknown" need no decision unless the column defines groups.
        return self._propose(problem, entry, advice, required=self.groups or not all(map(means_unknown, strays)))

    def check_entry(self, entry: dict[str, Any], values: Sequence[Any]) -> Review:
        """Review a column that can be an attribute, with a proposal if another entry is better."""
        declared = entry = {"name": self.name, "protected": self.protected} | entry
        if self.missing:
            entry = entry | {"missing": "drop" if self.protected else "keep"}
        if self.groups:
            return self._check_groups(entry, declared, values)
        if len(values) == 1:
            return self.pass_through(f"has the same value in all rows: {values[0]!r}", LEAVE_OUT, entry)
        target = self.target
        if target is not None and len(self.values) == len(target.coding.values) and self._repeats(target):
            return self.pass_through("repeats the target under another name, row by row", LEAVE_OUT)
        return entry, None

    def _check_groups(self, entry: Entry, declared: dict[str, Any], values: Sequence[Any]) -> Review:
        unknown = [value for value in values if isinstance(value, str) and means_unknown(value)]
        known = [value for value in values if value not in unknown]
        advice = "`unknown`: counted, and excluded from results by this attribute"
        if self.column.array is None:
            written = [value for value in self.values if not (isinstance(value, str) and means_unknown(value))]
            truths = [value for value in written if outcome_key(value) in TRUTH]
            problem, variants = "", find_variants(written)
            if any(isinstance(value, bool) for value in truths) and len(truths) > 2:
                problem = f"has several spellings of true and false: {list_values(truths)}"
            elif variants:
                listed = "; ".join(", ".join(map(repr, words)) for words in variants)
                problem = f"has values that differ only in case, spaces or look-alike characters: {listed}"
            if problem:
                merge = f"; for {list_values(unknown)} accept the proposal (`accept_proposals=True`)" if unknown else ""
                return self._propose(problem, None, f"use one spelling in the data{merge}")
        if unknown and len(known) < 2:
            problem = f"has {list_values(unknown)} besides {list_values(known) or 'no other value'}"
            return self._propose(problem, None, "if these are groups, list them as `values` in a schema")
        if unknown:
            proposed = declared | {"unknown": unknown, "values": known}
            return self._propose(f"has {list_values(unknown)} among its values", proposed, advice)
        if self.missing:
            problem = f"lacks a value in {self.missing:,} of {self.rows:,} rows"
            return self._propose(problem, declared | {"unknown": []}, advice, required=False, entry=entry)
        return entry, None

    def pass_through(self, problem: str, remedy: str, entry: Entry = None) -> Review:
        """Propose to pass the column to the model unchanged, or the remedy if it defines groups.

        The proposal is optional if ``entry`` is passed and the column does not define groups.
        """
        if self.groups:
            return self._propose(problem, None, f"{'protected' if self.protected else 'it defines groups'}: {remedy}")
        proposed = {"name": self.name, "kind": PASSTHROUGH}
        return entry, ColumnProposal(self.name, problem, proposed, PASSTHROUGH, entry is None)

    def _propose(
        self, problem: str, proposed: Entry, advice: str, *, required: bool = True, entry: Entry = None
    ) -> Review:
        """Propose an entry, or none. By default, an optional proposal is also the entry of the column."""
        if proposed is not None:
            proposed = {"name": self.name, "protected": self.protected} | proposed
            if self.missing and "unknown" not in proposed:
                proposed["unknown" if self.groups else "missing"] = [] if self.groups else "keep"
        return proposed if entry is None else entry, ColumnProposal(self.name, problem, proposed, advice, required)

    def _are_stray(self, words: Sequence[str], numbers: int) -> bool:
        """Check whether the strings in a numeric column are rare enough to be read as "unknown"."""
        if not 0 < len(words) <= STRAY_WORDS or numbers < len(words):
            return False
        strays = {word.strip() for word in words}
        rows = self.column.map(lambda value: isinstance(value, str) and value.strip() in strays)
        return count_people(rows, self.column.counts) <= STRAY_SHARE * self.present

    def _enumerates_rows(self, low: float) -> bool:
        """Check whether a column of distinct integers is a row ID, judged by its name or by consecutive values."""
        if self.groups:
            return False
        numbers = np.asarray(self.values, dtype=np.float64)[self.column.coding.codes]
        consecutive = low in (0, 1) and bool((np.diff(numbers) == 1).all())
        return consecutive or IDENTIFIER_NAME.fullmatch(self.name) is not None

    def _repeats(self, target: CodedColumn) -> bool:
        """Check whether the column and a target with as many distinct values determine each other."""
        if self.rows < COUNTED_ROWS or self.missing or not 1 < len(self.values) <= MAX_DISTINCT:
            return False
        pairs = set(zip(self.column.coding.codes.tolist(), target.coding.codes.tolist(), strict=True))
        return len(pairs) == len(self.values)
