"""What was found, read from the files that other commands wrote."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.certification.certificate.result import Certificate, Counterexample
from evenhand.core.result import Result
from evenhand.core.typing import Floats
from evenhand.datasets.tables import read_words
from evenhand.errors import DataError, EvenhandError
from evenhand.individual.result import IndividualResult, Profile
from evenhand.individual.search.findings import ProfileTable
from evenhand.individual.search.result import Example, SearchResult
from evenhand.individual.search.save import TABLES
from evenhand.individual.search.texts import TextSearchResult
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import Schema
from evenhand.subgroups.result import Finding, SubgroupResult, TextSubgroupResult
from evenhand.subgroups.rules import MISSING, Range, Rule, Rules

WORSE, BETTER = " (worse)", " (better)"
"""What stands behind a protected attribute's name in a table of all profiles."""

TEXT_COLUMNS = {"category", "template", "text (worse)", "text (better)"}
"""Columns by which a table of texts is told from one of profiles."""


@dataclass(frozen=True, eq=False)
class FoundProfiles:
    """Profiles that are decided differently under some assignment of the protected attributes.

    Attributes:
        protected: the attributes that were varied jointly.
        individuals: the profiles under the assignment that is treated worse, shape (n, attributes).
    """

    protected: tuple[str, ...]
    individuals: Floats


@dataclass(frozen=True)
class FoundSubgroup:
    """A subgroup that is treated differently.

    Attributes:
        rules: who is in it.
        gap: its share of favourable decisions minus that of those it was compared with.
        words: the rules, for a reader.
    """

    rules: Rules
    gap: float
    words: str


@dataclass(frozen=True)
class Findings:
    """What was found, to learn from.

    Attributes:
        profiles: one per set of protected attributes, profiles without repetition, in the order found.
        subgroups: those that are significant after adjustment, the widest gap first.
        sources: where it was read, in words.
        people_left_out: whether a result holds no records of real people.
    """

    profiles: tuple[FoundProfiles, ...] = ()
    subgroups: tuple[FoundSubgroup, ...] = ()
    sources: tuple[str, ...] = ()
    people_left_out: bool = False

    def __bool__(self) -> bool:
        return bool(self.profiles or self.subgroups)

    @classmethod
    def read(cls, paths: Sequence[Path | str | Result], schema: Schema) -> Findings:
        """Read findings.

        Args:
            paths: JSON files of ``evenhand search``, ``subgroups``, ``certify`` and ``audit``, tables of all profiles
                that a search wrote, or such results themselves.
            schema: what individuals are; the findings must be about such.

        Raises:
            DataError: a file is none of these, is damaged, or is about individuals of another kind.
        """
        reader = _FindingsReader(schema)
        for path in paths:
            reader.take(path)
        return reader.findings()


def profiles_from_table(table: ProfileTable) -> FoundProfiles:
    """Return all profiles of a search."""
    return FoundProfiles(table.protected, table.people(np.arange(len(table)), table.worse))


class _FindingsReader:
    """Collects what several files say."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._profiles: dict[tuple[str, ...], list[Floats]] = {}
        self._subgroups: dict[str, FoundSubgroup] = {}
        self._sources: list[str] = []
        self._people_left_out = False

    def take(self, source: Path | str | Result) -> None:
        """Read one file or result."""
        if isinstance(source, Result):
            location = f"a result of {source.kind}"
            self._read_result(source, location)
        else:
            path, location = Path(source), str(source)
            if path.name.lower().endswith(TABLES):
                self._read_frame(read_words(path), location)
            else:
                self._read_json(_read_json(path), location)
        self._sources.append(location)

    def findings(self) -> Findings:
        """Return all of it, without repetition."""
        profiles = []
        for protected, parts in self._profiles.items():
            rows = np.concatenate(parts)
            if len(rows) == 0:
                continue
            rest = [i for i, name in enumerate(self._schema.names) if name not in protected]
            _, first = np.unique(rows[:, rest], axis=0, return_index=True, equal_nan=True)
            profiles.append(FoundProfiles(protected, rows[np.sort(first)]))
        subgroups = sorted(self._subgroups.values(), key=lambda one: -abs(one.gap))
        return Findings(tuple(profiles), tuple(subgroups), tuple(self._sources), self._people_left_out)

    def _read_json(self, plain: Any, location: str) -> None:
        plain = plain if isinstance(plain, dict) else {}
        if _is_about_texts(plain):
            raise _texts_error(location)
        kind = plain.get("kind")
        if kind == "audit":
            parts = [plain.get(name) or [] for name in ("searches", "certificates")]
            if not all(isinstance(one, list) for one in parts):
                raise _no_findings_error(location)
            for part in (*itertools.chain(*parts), plain.get("individual"), plain.get("subgroups")):
                if part is not None:
                    self._read_json(part, location)
            return
        made: type[Result] | None = {
            "individual": SearchResult if "queries" in plain else IndividualResult,
            "subgroups": SubgroupResult,
            "certificate": Certificate,
        }.get(str(kind))
        if made is None:
            raise _no_findings_error(location)
        self._read_result(_validate_result(made, plain, location), location)

    def _read_result(self, result: Result, location: str) -> None:
        self._people_left_out |= result.people_left_out
        if isinstance(result, SearchResult):
            if isinstance(result.table, ProfileTable):
                found = profiles_from_table(result.table)
                self._profiles.setdefault(found.protected, []).append(found.individuals)
            else:
                self._read_examples(result.examples, location)
        elif isinstance(result, IndividualResult):
            self._read_examples(result.examples, location)
        elif isinstance(result, Certificate):
            self._read_counterexamples(result.counterexamples, location)
        elif isinstance(result, TextSubgroupResult | TextSearchResult):
            raise _texts_error(location)
        elif isinstance(result, SubgroupResult):
            self._gaps(result, location)
        elif result.kind == "audit":
            self._read_json(result.plain(), location)
        else:
            raise _no_findings_error(location)

    def _read_examples(self, examples: Iterable[Example | Profile], location: str) -> None:
        for number, example in enumerate(examples, start=1):
            same = example.unprotected | example.worse.moved
            self._read_profile(same, example.worse.values, f"{location}, example {number}")

    def _read_counterexamples(self, found: Iterable[Counterexample], location: str) -> None:
        for number, one in enumerate(found, start=1):
            self._read_profile(one.unprotected, one.first, f"{location}, counterexample {number}")

    def _read_profile(self, unprotected: Mapping[str, Any], protected: Mapping[str, Any], location: str) -> None:
        said = {**unprotected, **protected}
        self._same_attributes(said, location)
        row = [parse_entry(attribute, said[attribute.name], location) for attribute in self._schema.attributes]
        names = tuple(name for name in self._schema.names if name in protected)
        self._profiles.setdefault(names, []).append(np.array([row]))

    def _read_frame(self, frame: Any, location: str) -> None:
        columns = [str(column) for column in frame.columns]
        if set(columns) >= TEXT_COLUMNS:
            raise _texts_error(location)
        names = self._schema.names
        protected = tuple(n for n in names if n not in columns and {n + WORSE, n + BETTER} <= set(columns))
        if not protected:
            raise DataError(
                "this table has no pair of columns like 'sex (worse)' and 'sex (better)'",
                location=location,
                hint="give the table of a search",
            )
        self._same_attributes({name for name in columns if name in names} | set(protected), location)
        if len(frame) == 0:
            return
        rows = np.empty((len(frame), len(names)))
        for i, attribute in enumerate(self._schema.attributes):
            name = attribute.name + WORSE if attribute.name in protected else attribute.name
            known: dict[Any, float] = {}
            for row, said in enumerate(frame[name].tolist()):
                key = (type(said), said)
                if said != said or key not in known:
                    known[key] = parse_entry(attribute, said, f"{location}, row {row + 1}")
                rows[row, i] = known[key]
        self._profiles.setdefault(protected, []).append(rows)

    def _same_attributes(self, said: Iterable[str], location: str) -> None:
        said, names = set(said), self._schema.names
        strange = sorted(said - set(names))
        lacking = [name for name in names if name not in said]
        if strange or lacking:
            fault = f"an attribute {strange[0]!r}, which" if strange else f"no attribute {lacking[0]!r}, which"
            raise DataError(
                f"these findings have {fault} the data {'have not' if strange else 'have'}",
                location=location,
                hint=f"findings and data must be about the same attributes: {', '.join(names)}",
            )

    def _gaps(self, result: SubgroupResult, location: str) -> None:
        if result.measure != "favourable":
            raise DataError(
                f"these gaps are those of {result.measure!r}, not of the favourable label",
                location=location,
                hint="search subgroups with `measure=favourable`",
            )
        judged = [one for one in result.judged if isinstance(one, Finding)]
        for one in (*result.findings, *judged):
            if not one.found or one.under is not None:
                continue
            for name, rule in one.rules.items():
                self._rule(name, rule, location)
            self._subgroups.setdefault(one.words, FoundSubgroup(one.rules, one.gap, one.words))

    def _rule(self, name: str, rule: Rule, location: str) -> None:
        if name not in self._schema.names:
            raise DataError(
                f"a subgroup is described by {name!r}, which the data have not",
                location=location,
                hint=f"findings and data must be about the same attributes: {', '.join(self._schema.names)}",
            )
        attribute = self._schema[name]
        if isinstance(rule, Range):
            if attribute.values is not None:
                raise DataError(
                    f"a subgroup is described by {name!r} from {rule.words()}, but {name!r} is not a number here",
                    location=location,
                    hint="give the schema that these findings were made with: `schema=FILE`",
                )
            return
        for value in rule:
            if value != MISSING:
                parse_entry(attribute, value, location)


def _read_json(path: Path) -> Any:
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise _no_findings_error(str(path)) from None
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror or error}", location=str(path)) from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"this is not JSON: {error.msg}, line {error.lineno}",
            location=str(path),
            hint="it may be cut short: write it again",
        ) from None


def _validate_result(made: type[Result], plain: Any, location: str) -> Result:
    try:
        return made.from_json(json.dumps(plain))
    except DataError as error:
        hint = "it may be of another version: write it again"
        raise DataError(error.message, location=location, hint=hint) from None


def concern_texts(source: Path | str) -> bool:
    """Return whether a file of findings is about texts; one that cannot be read is not."""
    path = Path(source)
    try:
        if path.name.lower().endswith(TABLES):
            return set(map(str, read_words(path).columns)) >= TEXT_COLUMNS
        plain = _read_json(path)
    except EvenhandError:
        return False
    return isinstance(plain, dict) and _is_about_texts(plain)


def _is_about_texts(plain: dict[str, Any]) -> bool:
    return plain.get("kind") == "individual-text" or (plain.get("kind") == "subgroups" and "effects" in plain)


def _texts_error(location: str) -> DataError:
    return DataError(
        "expected findings about people in rows, got findings about texts",
        location=location,
        hint="no model of texts is trained here: train it on your texts and on those found, each with its true label",
    )


def _no_findings_error(location: str) -> DataError:
    return DataError(
        "these are not findings",
        location=location,
        hint="give JSON of a search, of subgroups, of a certificate or of an audit, or the table of a search",
    )


# Entries of individuals from the data's own words: what ``Attribute.text`` said, read back.


def parse_entry(attribute: Attribute, said: Any, location: str) -> float:
    """Return the entry that a value in words stands for.

    Args:
        attribute: whose value it is.
        said: the value as text, or as it comes out of a table: None and NaN where nothing is written.
        location: how to call the place in messages.

    Raises:
        DataError: it is not a value of the attribute.
    """
    nothing = said is None or (isinstance(said, float) and math.isnan(said))
    if attribute.values is not None:
        texts = [str(value) for value in attribute.values]
        word = "" if nothing else str(said)
        places = [i for i, text in enumerate(texts) if text == word]
        if len(places) == 1:
            return float(places[0])
        if len(places) > 1:
            raise DataError(
                f"{attribute.name!r}: {said!r} may be any of {len(places)} values that are written alike",
                location=location,
                hint="give the values of the schema names that differ",
            )
    if (nothing or said == "missing") and (attribute.missing == "keep" or attribute.unknown is not None):
        return math.nan
    if attribute.values is not None:
        shown = ", ".join(texts[:12]) + (f", ... ({len(texts)} in all)" if len(texts) > 12 else "")
        raise _outside_error(attribute, said, f"is not one of its values: {shown}", location)
    return _parse_number(attribute, said, location)


def _parse_number(attribute: Attribute, said: Any, location: str) -> float:
    try:
        number = float(said)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise _outside_error(attribute, said, "is not a number", location)
    for end in (attribute.first, attribute.last):
        # Numbers are shown with six digits, so the domain's ends may come back a little outside it.
        if attribute.kind == "real" and str(said) == attribute.text(end):
            return end
    whole = attribute.kind == "integer"
    if not attribute.first <= number <= attribute.last or (whole and number != int(number)):
        ends = f"is not {'a whole number ' if whole else ''}between {attribute.first:g} and {attribute.last:g}"
        raise _outside_error(attribute, said, ends, location)
    return number


def _outside_error(attribute: Attribute, said: Any, why: str, location: str) -> DataError:
    return DataError(
        f"{attribute.name!r}: {said!r} {why}",
        location=location,
        hint="give the schema that these findings were made with: `schema=FILE`",
    )
