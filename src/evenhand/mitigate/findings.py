"""What was found, read from the files that other commands wrote."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from evenhand.certify.result import Certificate, Counterexample
from evenhand.datasets.tables import read_frame
from evenhand.errors import DataError
from evenhand.individual.result import IndividualResult, Profile
from evenhand.individual.search.result import Example, SearchResult
from evenhand.individual.search.save import TABLES
from evenhand.individual.search.table import Table
from evenhand.individual.text.result import TextResult
from evenhand.mitigate.entries import entry
from evenhand.result import Result
from evenhand.schema import Schema
from evenhand.subgroup import Finding, Range, Rule, Rules, SubgroupResult
from evenhand.subgroup.cells import MISSING
from evenhand.subgroup.text.result import TextSubgroups

Floats = NDArray[np.float64]

WORSE, BETTER = " (worse)", " (better)"
"""What stands behind a protected attribute's name in a table of all profiles."""


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
        subgroups: those that stand out from chance, the widest gap first.
        sources: where it was read, in words.
    """

    profiles: tuple[FoundProfiles, ...] = ()
    subgroups: tuple[FoundSubgroup, ...] = ()
    sources: tuple[str, ...] = ()

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
        reader = _Reader(schema)
        for path in paths:
            reader.take(path)
        return reader.findings()


def from_table(table: Table) -> FoundProfiles:
    """All profiles of a search."""
    rows = np.empty((len(table), len(table.schema.attributes)))
    rows[:, table.schema.positions(table.unprotected)] = table.found.unprotected
    rows[:, table.schema.positions(table.protected)] = table.assignments[table.worse]
    return FoundProfiles(table.protected, rows)


class _Reader:
    """Collects what several files say."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._profiles: dict[tuple[str, ...], list[Floats]] = {}
        self._subgroups: dict[str, FoundSubgroup] = {}
        self._sources: list[str] = []

    def take(self, source: Path | str | Result) -> None:
        """Read one file or result."""
        if isinstance(source, Result):
            where = f"a result of {source.kind}"
            self._result(source, where)
        else:
            path, where = Path(source), str(source)
            if path.name.lower().endswith(TABLES):
                self._frame(read_frame(path, words=True), where)
            else:
                self._json(_parsed(path), where)
        self._sources.append(where)

    def findings(self) -> Findings:
        """All of it, without repetition."""
        profiles = []
        for protected, parts in self._profiles.items():
            rows = np.concatenate(parts)
            if len(rows) == 0:
                continue
            rest = [i for i, name in enumerate(self._schema.names) if name not in protected]
            _, first = np.unique(rows[:, rest], axis=0, return_index=True, equal_nan=True)
            profiles.append(FoundProfiles(protected, rows[np.sort(first)]))
        subgroups = sorted(self._subgroups.values(), key=lambda one: -abs(one.gap))
        return Findings(tuple(profiles), tuple(subgroups), tuple(self._sources))

    def _json(self, plain: Any, where: str) -> None:
        plain = plain if isinstance(plain, dict) else {}
        kind = plain.get("kind")
        if kind == "individual-text" or (kind == "subgroups" and "effects" in plain):
            raise _texts(where)
        if kind == "audit":
            parts = [plain.get(name) or [] for name in ("searches", "certificates")]
            if not all(isinstance(one, list) for one in parts):
                raise _no_findings(where)
            for part in (*itertools.chain(*parts), plain.get("individual"), plain.get("subgroups")):
                if part is not None:
                    self._json(part, where)
            return
        made: type[Result] | None = {
            "individual": SearchResult if "queries" in plain else IndividualResult,
            "subgroups": SubgroupResult,
            "certificate": Certificate,
        }.get(str(kind))
        if made is None:
            raise _no_findings(where)
        self._result(_validated(made, plain, where), where)

    def _result(self, result: Result, where: str) -> None:
        if isinstance(result, SearchResult):
            if isinstance(result.table, Table):
                found = from_table(result.table)
                self._profiles.setdefault(found.protected, []).append(found.individuals)
            else:
                self._examples(result.examples, where)
        elif isinstance(result, IndividualResult):
            self._examples(result.examples, where)
        elif isinstance(result, Certificate):
            self._counterexamples(result.counterexamples, where)
        elif isinstance(result, TextSubgroups | TextResult):
            raise _texts(where)
        elif isinstance(result, SubgroupResult):
            self._gaps(result, where)
        elif result.kind == "audit":
            self._json(result.plain(), where)
        else:
            raise _no_findings(where)

    def _examples(self, examples: Iterable[Example | Profile], where: str) -> None:
        for number, example in enumerate(examples, start=1):
            self._profile(example.unprotected, example.worse.values, f"{where}, example {number}")

    def _counterexamples(self, found: Iterable[Counterexample], where: str) -> None:
        for number, one in enumerate(found, start=1):
            self._profile(one.unprotected, one.first, f"{where}, counterexample {number}")

    def _profile(self, unprotected: Mapping[str, Any], protected: Mapping[str, Any], where: str) -> None:
        said = {**unprotected, **protected}
        self._same_attributes(said, where)
        row = [entry(attribute, said[attribute.name], where) for attribute in self._schema.attributes]
        names = tuple(name for name in self._schema.names if name in protected)
        self._profiles.setdefault(names, []).append(np.array([row]))

    def _frame(self, frame: Any, where: str) -> None:
        columns = [str(column) for column in frame.columns]
        names = self._schema.names
        protected = tuple(n for n in names if n not in columns and {n + WORSE, n + BETTER} <= set(columns))
        if not protected:
            raise DataError(
                "this table has no pair of columns like 'sex (worse)' and 'sex (better)'",
                where=where,
                mend="give the table that evenhand search --out wrote",
            )
        self._same_attributes({name for name in columns if name in names} | set(protected), where)
        if len(frame) == 0:
            return
        rows = np.empty((len(frame), len(names)))
        for i, attribute in enumerate(self._schema.attributes):
            name = attribute.name + WORSE if attribute.name in protected else attribute.name
            known: dict[Any, float] = {}
            for row, said in enumerate(frame[name].tolist()):
                key = (type(said), said)
                if said != said or key not in known:
                    known[key] = entry(attribute, said, f"{where}, row {row + 1}")
                rows[row, i] = known[key]
        self._profiles.setdefault(protected, []).append(rows)

    def _same_attributes(self, said: Iterable[str], where: str) -> None:
        said, names = set(said), self._schema.names
        strange = sorted(said - set(names))
        lacking = [name for name in names if name not in said]
        if strange or lacking:
            fault = f"an attribute {strange[0]!r}, which" if strange else f"no attribute {lacking[0]!r}, which"
            raise DataError(
                f"these findings have {fault} the data {'have not' if strange else 'have'}",
                where=where,
                mend=f"findings and data must be about the same attributes: {', '.join(names)}",
            )

    def _gaps(self, result: SubgroupResult, where: str) -> None:
        if result.measure != "favourable":
            raise DataError(
                f"these gaps are those of {result.measure!r}, not of the favourable label",
                where=where,
                mend="run evenhand subgroups with --measure favourable",
            )
        judged = [one for one in result.judged if isinstance(one, Finding)]
        for one in (*result.findings, *judged):
            if not one.found or one.under is not None:
                continue
            for name, rule in one.rules.items():
                self._rule(name, rule, where)
            self._subgroups.setdefault(one.words, FoundSubgroup(one.rules, one.gap, one.words))

    def _rule(self, name: str, rule: Rule, where: str) -> None:
        if name not in self._schema.names:
            raise DataError(
                f"a subgroup is described by {name!r}, which the data have not",
                where=where,
                mend=f"findings and data must be about the same attributes: {', '.join(self._schema.names)}",
            )
        attribute = self._schema[name]
        if isinstance(rule, Range):
            if attribute.values is not None:
                raise DataError(
                    f"a subgroup is described by {name!r} from {rule.words()}, but {name!r} is no number here",
                    where=where,
                    mend="give the schema that these findings were made with: --schema FILE",
                )
            return
        for value in rule:
            if value != MISSING:
                entry(attribute, value, where)


def _parsed(path: Path) -> Any:
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        raise _no_findings(str(path)) from None
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror or error}", where=str(path)) from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"this is no JSON: {error.msg}, line {error.lineno}",
            where=str(path),
            mend="it may be cut short: write it again",
        ) from None


def _validated(made: type[Result], plain: Any, where: str) -> Result:
    try:
        return made.model_validate_json(json.dumps(plain))
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        raise DataError(
            f"this is no {made.__name__}: {place}: {fault['msg']}",
            where=where,
            mend="it may be of another version: write it again",
        ) from None


def _texts(where: str) -> DataError:
    return DataError(
        "these findings are about texts", where=where, mend="retraining needs people in rows, and findings about them"
    )


def _no_findings(where: str) -> DataError:
    return DataError(
        "these are no findings",
        where=where,
        mend="give JSON of evenhand search, subgroups, certify or audit, or the table of search --out",
    )
