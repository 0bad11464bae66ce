"""Findings of other analyses, read from their results or files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.certification.certificate.result import Certificate
from evenhand.core.result import Result
from evenhand.core.typing import Floats
from evenhand.errors import DataError, EvenhandError
from evenhand.individual.result import IndividualResult, Profile
from evenhand.individual.search.findings import ProfileTable
from evenhand.individual.search.result import Example, SearchResult
from evenhand.individual.search.texts import TextSearchResult
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import Schema
from evenhand.schema.table import read_number
from evenhand.subgroups.result import Finding, SubgroupResult, TextSubgroupResult
from evenhand.subgroups.rules import MISSING, Range, Rule, Rules

OTHER_SCHEMA = "pass the schema that these findings were made with: `schema=FILE`"


@dataclass(frozen=True, eq=False)
class FoundProfiles:
    """Profiles whose decision differs between protected assignments.

    Attributes:
        protected: Attributes that vary jointly.
        individuals: Profiles under the unfavourable assignment, shape (n, attributes).
    """

    protected: tuple[str, ...]
    individuals: Floats


@dataclass(frozen=True)
class FoundSubgroup:
    """Subgroup with a different selection rate.

    Attributes:
        rules: Rules of the subgroup.
        gap: Selection rate minus that of the comparison group.
        words: Description of the rules.
    """

    rules: Rules
    gap: float
    words: str


@dataclass(frozen=True)
class Findings:
    """Findings to train on.

    Attributes:
        profiles: Distinct profiles for each set of protected attributes, in order.
        subgroups: Significant subgroups, the widest gap first.
        sources: Descriptions of the sources.
        people_left_out: Whether records of people were removed from a result.
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
            paths: Results of ``search``, ``subgroups``, ``certify`` and ``audit``, or their JSON files.
            schema: Data schema, which the findings must match.

        Raises:
            DataError: A file has another format, is damaged, or does not match the schema.
        """
        reader = _FindingsReader(schema)
        for path in paths:
            reader.read(path)
        return reader.findings()


def profiles_from_table(table: ProfileTable) -> FoundProfiles:
    """Convert the profiles of a search."""
    return FoundProfiles(table.protected, table.people(np.arange(len(table)), table.worse))


class _FindingsReader:
    """Reader that collects the findings of several sources."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._profiles: dict[tuple[str, ...], list[Floats]] = {}
        self._subgroups: dict[str, FoundSubgroup] = {}
        self._sources: list[str] = []
        self._people_left_out = False

    def read(self, source: Path | str | Result) -> None:
        """Read a result or file."""
        if isinstance(source, Result):
            location = f"a result of {source.kind}"
            self._read_result(source, location)
        else:
            location = str(source)
            self._read_json(_read_json(Path(source)), location)
        self._sources.append(location)

    def findings(self) -> Findings:
        """Return all findings without duplicates."""
        profiles = []
        for protected, parts in self._profiles.items():
            rows = np.concatenate(parts)
            if len(rows):
                columns = [i for i, name in enumerate(self._schema.names) if name not in protected]
                _, indices = np.unique(rows[:, columns], axis=0, return_index=True, equal_nan=True)
                profiles.append(FoundProfiles(protected, rows[np.sort(indices)]))
        subgroups = sorted(self._subgroups.values(), key=lambda subgroup: -abs(subgroup.gap))
        return Findings(tuple(profiles), tuple(subgroups), tuple(self._sources), self._people_left_out)

    def _read_json(self, content: Any, location: str) -> None:
        content = content if isinstance(content, dict) else {}
        if _is_about_texts(content):
            raise _texts_error(location)
        if content.get("kind") == "audit":
            lists = [content.get(name) or [] for name in ("searches", "certificates")]
            if not all(isinstance(parts, list) for parts in lists):
                raise _format_error(location)
            for part in (*lists[0], *lists[1], content.get("individual"), content.get("subgroups")):
                if part is not None:
                    self._read_json(part, location)
            return
        kinds: dict[str, type[Result]] = {
            "individual": SearchResult if "queries" in content else IndividualResult,
            "subgroups": SubgroupResult,
            "certificate": Certificate,
        }
        kind = kinds.get(str(content.get("kind")))
        if kind is None:
            raise _format_error(location)
        try:
            result = kind.from_json(json.dumps(content))
        except DataError as error:
            hint = "the file may be of another version: write it again"
            raise DataError(error.message, location=location, hint=hint) from None
        self._read_result(result, location)

    def _read_result(self, result: Result, location: str) -> None:
        self._people_left_out |= result.people_left_out
        if isinstance(result, TextSubgroupResult | TextSearchResult):
            raise _texts_error(location)
        if isinstance(result, SearchResult) and isinstance(result.table, ProfileTable):
            profile_set = profiles_from_table(result.table)
            self._profiles.setdefault(profile_set.protected, []).append(profile_set.individuals)
        elif isinstance(result, SearchResult | IndividualResult):
            examples: Iterable[Example | Profile] = result.examples
            for number, example in enumerate(examples, start=1):
                unprotected = example.unprotected | example.worse.moved
                self._read_profile(unprotected, example.worse.values, f"{location}, example {number}")
        elif isinstance(result, Certificate):
            for number, case in enumerate(result.counterexamples, start=1):
                self._read_profile(case.unprotected, case.first, f"{location}, counterexample {number}")
        elif isinstance(result, SubgroupResult):
            self._read_subgroups(result, location)
        elif result.kind == "audit":
            self._read_json(result.plain(), location)
        else:
            raise _format_error(location)

    def _read_profile(self, unprotected: Mapping[str, Any], protected: Mapping[str, Any], location: str) -> None:
        values = {**unprotected, **protected}
        self._require_attributes(values, location)
        row = [parse_entry(attribute, values[attribute.name], location) for attribute in self._schema.attributes]
        names = tuple(name for name in self._schema.names if name in protected)
        self._profiles.setdefault(names, []).append(np.array([row]))

    def _require_attributes(self, attributes: Iterable[str], location: str) -> None:
        attributes, names = set(attributes), self._schema.names
        unknown = sorted(attributes.difference(names))
        missing = [name for name in names if name not in attributes]
        if unknown or missing:
            raise DataError(
                f"these findings have an attribute {unknown[0]!r}, which the data do not have"
                if unknown
                else f"these findings have no attribute {missing[0]!r}, which the data have",
                location=location,
                hint=f"findings and data must have the same attributes: {', '.join(names)}",
            )

    def _read_subgroups(self, result: SubgroupResult, location: str) -> None:
        if result.measure != "favourable":
            raise DataError(
                f"expected gaps of the favourable label, got gaps of {result.measure!r}",
                location=location,
                hint="search for subgroups with `measure=favourable`",
            )
        for finding in (*result.findings, *(rule for rule in result.judged if isinstance(rule, Finding))):
            if finding.found and finding.under is None:
                for name, rule in finding.rules.items():
                    self._check_rule(name, rule, location)
                self._subgroups.setdefault(finding.words, FoundSubgroup(finding.rules, finding.gap, finding.words))

    def _check_rule(self, name: str, rule: Rule, location: str) -> None:
        if name not in self._schema.names:
            raise DataError(
                f"a subgroup is defined by {name!r}, which the data do not have",
                location=location,
                hint=f"findings and data must have the same attributes: {', '.join(self._schema.names)}",
            )
        attribute = self._schema[name]
        if not isinstance(rule, Range):
            for value in rule:
                if value != MISSING:
                    parse_entry(attribute, value, location)
        elif attribute.values is not None:
            raise DataError(
                f"a subgroup is defined by {name!r} from {rule.words()}, but {name!r} is not a number in the schema",
                location=location,
                hint=OTHER_SCHEMA,
            )


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except UnicodeDecodeError:
        raise _format_error(str(path)) from None
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror or error}", location=str(path)) from None
    except json.JSONDecodeError as error:
        raise DataError(
            f"expected JSON: {error.msg}, line {error.lineno}",
            location=str(path),
            hint="the file may be truncated: write it again",
        ) from None


def concern_texts(source: Path | str) -> bool:
    """Check whether a file contains findings about texts. False if it cannot be read."""
    try:
        content = _read_json(Path(source))
    except EvenhandError:
        return False
    return isinstance(content, dict) and _is_about_texts(content)


def _is_about_texts(content: dict[str, Any]) -> bool:
    return content.get("kind") == "individual-text" or (content.get("kind") == "subgroups" and "effects" in content)


def _texts_error(location: str) -> DataError:
    return DataError(
        "expected findings about people in rows, got findings about texts",
        location=location,
        hint="train your model of texts yourself, on your texts and on those found, each with its true label",
    )


def _format_error(location: str) -> DataError:
    return DataError(
        "the file does not contain findings",
        location=location,
        hint="pass the JSON of a search, of subgroups, of a certificate or of an audit",
    )


def parse_entry(attribute: Attribute, value: Any, location: str) -> float:
    """Convert a value as written by ``Attribute.text`` to an entry of an individual.

    Args:
        attribute: Attribute of the value.
        value: Text or number. None or NaN if it is missing.
        location: Location in messages.

    Raises:
        DataError: The attribute does not have this value.
    """
    empty = value is None or (isinstance(value, float) and math.isnan(value))
    word = "" if empty else str(value)
    positions = [i for i, text in enumerate(map(str, attribute.values or ())) if text == word]
    if len(positions) == 1:
        return float(positions[0])
    if positions:
        raise DataError(
            f"{attribute.name!r}: {value!r} is the text of {len(positions)} different values",
            location=location,
            hint="rename the values in the schema",
        )
    if (empty or value == "missing") and (attribute.missing == "keep" or attribute.unknown is not None):
        return math.nan
    expected = f"one of {attribute.describe_domain()}"
    if attribute.values is None:
        # Numbers are written with six digits, so the ends of the domain may be rounded outwards.
        ends = {attribute.text(end): end for end in (attribute.first, attribute.last)}
        number = ends[word] if attribute.kind == "real" and word in ends else read_number(value)
        if attribute.contains(np.array([number]))[0]:
            return number
        kind = "an integer" if attribute.kind == "integer" else "a number"
        expected = f"{kind} from {attribute.describe_domain()}" if math.isfinite(number) else "a number"
    raise DataError(f"{attribute.name!r}: expected {expected}, got {value!r}", location=location, hint=OTHER_SCHEMA)
