"""Findings of other analyses, read from their results or files, without profiles of the test set."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenhand.certification.certificate.result import Certificate
from evenhand.core.result import Result
from evenhand.core.typing import Floats
from evenhand.errors import DataError, EvenhandError
from evenhand.individual.flips import Variants
from evenhand.individual.result import IndividualResult, Profile
from evenhand.individual.search.findings import ProfileTable
from evenhand.individual.search.result import SearchResult
from evenhand.individual.search.texts import TextSearchResult
from evenhand.mitigation.split import Split
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
class Findings:
    """Findings to train on.

    Attributes:
        profiles: Distinct profiles for each set of protected attributes, in order.
        subgroups: Rules of the significant subgroups, widest gap first.
        sources: Descriptions of the sources.
        people_left_out: Whether records of people were removed from a result.
    """

    profiles: tuple[FoundProfiles, ...] = ()
    subgroups: tuple[Rules, ...] = ()
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
            DataError: A file has the wrong format, is damaged, or does not match the schema.
        """
        profiles: dict[tuple[str, ...], list[Floats]] = {}
        subgroups: dict[str, Finding] = {}
        locations = [f"a result of {path.kind}" if isinstance(path, Result) else str(path) for path in paths]
        people_left_out = False
        for path, location in zip(paths, locations, strict=True):
            for result in _read_results(path, location):
                people_left_out |= result.people_left_out
                for part in _list_findings(result, schema, location):
                    if isinstance(part, Finding):
                        subgroups.setdefault(part.words, part)
                    else:
                        profiles.setdefault(part.protected, []).append(part.individuals)
        return cls(
            tuple(_merge_profiles(schema, protected, np.concatenate(rows)) for protected, rows in profiles.items()),
            tuple(subgroup.rules for subgroup in sorted(subgroups.values(), key=lambda finding: -abs(finding.gap))),
            tuple(locations),
            people_left_out,
        )


def profiles_from_table(table: ProfileTable) -> FoundProfiles:
    """Convert the profiles of a search."""
    return FoundProfiles(table.space.protected, table.space.rows_as(table.unprotected, table.pairs.sides[:, 0]))


def _merge_profiles(schema: Schema, protected: tuple[str, ...], rows: Floats) -> FoundProfiles:
    """Keep the first of the profiles that agree on all unprotected attributes."""
    columns = [i for i, name in enumerate(schema.names) if name not in protected]
    _, indices = np.unique(rows[:, columns], axis=0, return_index=True, equal_nan=True)
    return FoundProfiles(protected, rows[np.sort(indices)])


def _read_results(source: Path | str | Result, location: str) -> Iterator[Result]:
    """Yield a result, or the results in a file. An audit consists of several results."""
    if not isinstance(source, Result):
        yield from _parse_results(_read_json(Path(source)), location)
    elif source.kind == "audit":
        yield from _parse_results(source.plain(), location)
    else:
        yield source


def _parse_results(content: Any, location: str) -> Iterator[Result]:
    content = content if isinstance(content, dict) else {}
    if _is_about_texts(content):
        raise _texts_error(location)
    if content.get("kind") == "audit":
        lists = [content.get(name) or [] for name in ("searches", "certificates")]
        if not all(isinstance(parts, list) for parts in lists):
            raise _format_error(location)
        for part in (*lists[0], *lists[1], content.get("individual"), content.get("subgroups")):
            if part is not None:
                yield from _parse_results(part, location)
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
        yield kind.from_json(json.dumps(content))
    except DataError as error:
        hint = "the file may be of another version: write it again"
        raise DataError(error.message, location=location, hint=hint) from None


def _list_findings(result: Result, schema: Schema, location: str) -> Iterator[FoundProfiles | Finding]:
    """Yield the profiles and the significant subgroups of a result."""
    if isinstance(result, TextSubgroupResult | TextSearchResult):
        raise _texts_error(location)
    if isinstance(result, SearchResult) and isinstance(result.table, ProfileTable):
        if len(result.table):
            yield profiles_from_table(result.table)
    elif isinstance(result, SearchResult | IndividualResult):
        examples: Iterable[Profile] = result.examples
        for number, example in enumerate(examples, start=1):
            unprotected = example.unprotected | example.worse.moved
            yield _parse_profile(schema, unprotected, example.worse.values, f"{location}, example {number}")
    elif isinstance(result, Certificate):
        for number, case in enumerate(result.counterexamples, start=1):
            yield _parse_profile(schema, case.unprotected, case.first, f"{location}, counterexample {number}")
    elif isinstance(result, SubgroupResult):
        yield from _significant_subgroups(result, schema, location)
    else:
        raise _format_error(location)


def _parse_profile(
    schema: Schema, unprotected: Mapping[str, Any], protected: Mapping[str, Any], location: str
) -> FoundProfiles:
    values, names = {**unprotected, **protected}, schema.names
    unknown = sorted(set(values).difference(names))
    missing = [name for name in names if name not in values]
    if unknown or missing:
        raise DataError(
            f"these findings have an attribute {unknown[0]!r}, which the data do not have"
            if unknown
            else f"these findings have no attribute {missing[0]!r}, which the data have",
            location=location,
            hint=f"findings and data must have the same attributes: {', '.join(names)}",
        )
    row = [parse_entry(attribute, values[attribute.name], location) for attribute in schema.attributes]
    return FoundProfiles(tuple(name for name in names if name in protected), np.array([row]))


def _significant_subgroups(result: SubgroupResult, schema: Schema, location: str) -> Iterator[Finding]:
    if result.measure != "favourable":
        raise DataError(
            f"expected gaps of the favourable label, got gaps of {result.measure!r}",
            location=location,
            hint="search for subgroups with `measure=favourable`",
        )
    for finding in (*result.findings, *(rule for rule in result.judged if isinstance(rule, Finding))):
        if finding.found and finding.under is None:
            for name, rule in finding.rules.items():
                _check_rule(schema, name, rule, location)
            yield finding


def _check_rule(schema: Schema, name: str, rule: Rule, location: str) -> None:
    if name not in schema.names:
        raise DataError(
            f"a subgroup is defined by {name!r}, which the data do not have",
            location=location,
            hint=f"findings and data must have the same attributes: {', '.join(schema.names)}",
        )
    attribute = schema[name]
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
            hint="the file may be truncated; write it again",
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
        hint="train your text model yourself, on your texts and those found, each with its true label",
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


def drop_test_profiles(findings: Findings, split: Split) -> tuple[Findings, int]:
    """Remove profiles of the test set from findings, and count them.

    A model trained on these profiles would be tested on its training data. Profiles that also occur in the training or
    validation set are kept.
    """
    removed, profiles = 0, []
    schema = split.test.schema
    for profile_set in findings.profiles:
        train, validation, test = (
            _distinct_rows(merge_counterparts(schema, people.individuals, profile_set.protected))
            for people in (split.train, split.validation, split.test)
        )
        leaking = test - train - validation
        merged = merge_counterparts(schema, profile_set.individuals, profile_set.protected)
        mask = [row.tobytes() not in leaking for row in merged + 0.0]
        removed += mask.count(False)
        profiles.append(replace(profile_set, individuals=profile_set.individuals[mask]))
    return replace(findings, profiles=tuple(profiles)), removed


def merge_counterparts(schema: Schema, individuals: Floats, protected: tuple[str, ...]) -> Floats:
    """Map individuals (n, attributes) to rows that are equal for all counterparts."""
    if schema.constrains_people:
        return Variants.of(schema, protected, individuals).representatives[:, : len(schema.attributes)]
    return individuals[:, [i for i, name in enumerate(schema.names) if name not in protected]]


def count_overlap(split: Split) -> int:
    """Count the people in the test set who are identical, including the label, to people in the other sets."""
    width = len(split.test.schema.attributes)
    train, validation, test = (
        np.column_stack([people.individuals[:, :width], np.asarray(people.labels, dtype=np.float64)])
        for people in (split.train, split.validation, split.test)
    )
    other = _distinct_rows(train) | _distinct_rows(validation)
    return sum(row.tobytes() in other for row in test + 0.0)


def _distinct_rows(rows: Floats) -> set[bytes]:
    return {row.tobytes() for row in rows + 0.0}
