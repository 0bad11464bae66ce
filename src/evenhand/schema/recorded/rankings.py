"""Rankings that were recorded: lists of candidates in their order, read from a table of one row per candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.errors import DataError, OptionError
from evenhand.schema.arrays import check_type
from evenhand.schema.columns import list_columns, list_names, require_column, table_of_columns
from evenhand.schema.decisions import describe_groups
from evenhand.schema.people import People, encode
from evenhand.schema.reading import add_left_out
from evenhand.schema.rows import CodedColumn, is_missing
from evenhand.schema.schema import Schema
from evenhand.typing import Booleans, Floats, Integers

LARGEST = 1e9
"""Ranks beyond this are none."""


@dataclass(frozen=True)
class RecordedRankings:
    """Lists of candidates in their order; what ranked them is not needed.

    Rows are candidates, sorted by list and, within it, by position.

    Attributes:
        people: the candidates. Their attributes are those that groups are made by.
        lists: the list of each candidate, from 0 on, shape (n,).
        positions: its place in the list, 1 is the first, shape (n,). Candidates of equal rank or score share places:
            they stand on them in any order.
        ties: a number that those of equal rank or score in one list share, from 0 on in the order of rows, shape (n,).
        relevance: how much each candidate deserves attention, at least 0, shape (n,); None where it is not known.
        ranked_by: the column of ranks or scores; by_score: whether it holds scores, the highest first.
        query: the column whose values name the lists; None for one list.
        unranked: rows left out because they have no rank or score.
        gapped: lists whose recorded ranks leave places out.
    """

    people: People
    lists: Integers
    positions: Integers
    ties: Integers
    relevance: Floats | None
    ranked_by: str
    by_score: bool
    query: str | None = None
    relevance_name: str | None = None
    unranked: int = 0
    gapped: int = 0

    @property
    def count(self) -> int:
        """How many lists there are."""
        return int(self.lists[-1]) + 1

    @property
    def tied(self) -> int:
        """How many candidates have the rank or score of another one in their list."""
        sizes = np.bincount(self.ties)
        return int(sizes[sizes > 1].sum())


@dataclass(frozen=True)
class RankingRoles:
    """What the columns of a table of rankings are for; other columns are not looked at.

    Attributes:
        rank: column of recorded ranks, whole numbers from 1 on; None where a score ranks.
        rank_by: column of scores, the highest first; None where ranks are recorded.
        query: column that names the list of each row, such as a search; None where all rows are one list.
        relevance: column of how much each candidate deserves attention, such as clicks or grades; at least 0.
        protected: columns that groups are made by; with a schema, in place of those it marks.
        schema: what the protected columns mean; inferred from the data if left out.
        accept_proposals: where it is inferred, take what is proposed for columns that cannot be attributes as they are.
    """

    rank: str | None = None
    rank_by: str | None = None
    query: str | None = None
    relevance: str | None = None
    protected: Sequence[str] | None = None
    schema: Schema | None = None
    accept_proposals: bool = False

    def __post_init__(self) -> None:
        check_type("schema", self.schema, Schema, "a schema (see evenhand.schema.read_schema)")

    def read(self, frame: Any, *, location: str = "data") -> RecordedRankings:
        """Return the rankings in a data frame.

        Rows without a rank or score are left out and counted. Candidates of equal rank take the places from that rank
        on; a rank that is left out stays empty, so that a recorded rank is the place that was seen.

        Args:
            frame: any data frame that narwhals knows (pandas, polars, pyarrow, ...), one row per candidate.
            location: how to call the data in messages.

        Raises:
            EvenhandError: a column is missing or holds what it must not.
        """
        import narwhals as nw

        order, by_score = self._order()
        names = self._list_protected(list_columns(frame))
        table = nw.from_native(frame, eager_only=True)
        if len(table) == 0:
            raise DataError("there are no rows", location=location)
        ranks = _read_column(table[order], "score" if by_score else "rank")
        ranked = ~np.isnan(ranks)
        if not ranked.any():
            raise DataError(f"no row has a {'score' if by_score else 'rank'} in column {order!r}", location=location)
        if not by_score:
            _check_ranks(ranks[ranked], order, np.flatnonzero(ranked))
        queries = _read_queries(table[self.query], ranked) if self.query is not None else np.zeros(len(table), np.int64)
        relevance = None if self.relevance is None else _read_relevance(table[self.relevance], ranked)
        target = {"name": order, "kind": "number", "favourable": "higher" if by_score else "lower"}
        schema = describe_groups(table, names, target, self.schema, accept=self.accept_proposals)
        people = encode(schema, table.select([*names]).filter(ranked.tolist()).to_native(), location=location)
        unranked, reason = int((~ranked).sum()), f"without a {'score' if by_score else 'rank'}"
        assert people.reading is not None  # ``encode`` sets it
        reading = add_left_out(people.reading, reason, unranked)
        rows = np.flatnonzero(ranked)
        placed = _place(queries[rows], -ranks[rows] if by_score else ranks[rows], recorded=not by_score)
        # Who is left out because a value is missing has had a place all the same.
        number = np.full(len(rows), -1)
        number[people.rows] = np.arange(len(people))
        known = number[placed.order] >= 0
        return RecordedRankings(
            people=replace(people, rows=rows[people.rows], reading=reading).at(number[placed.order[known]]),
            lists=_renumber(placed.lists[known]),
            positions=placed.positions[known],
            ties=_renumber(placed.ties[known]),
            relevance=None if relevance is None else relevance[rows[placed.order[known]]],
            ranked_by=order,
            by_score=by_score,
            query=self.query,
            relevance_name=self.relevance,
            unranked=unranked,
            gapped=placed.gapped,
        )

    def _order(self) -> tuple[str, bool]:
        """Return the column that ranks, and whether it holds scores.

        Raises:
            OptionError: there is none, or two.
        """
        if (self.rank is None) == (self.rank_by is None):
            given = "neither" if self.rank is None else "both"
            raise OptionError(
                f"expected a column of ranks or one of scores, got {given}",
                hint="name recorded places: `rank=COLUMN`, 1 is the first; or scores: `rank_by=COLUMN`, highest first",
            )
        return (self.rank, False) if self.rank is not None else (str(self.rank_by), True)

    def _list_protected(self, columns: list[str]) -> tuple[str, ...]:
        """Return the columns that groups are made by, after a look at whether all columns that are named are there."""
        names = list_names(() if self.protected is None else self.protected, "protected")
        if not names and self.schema is not None:
            names = self.schema.protected
        if not names:
            hint = "name at least one: `protected=NAME`"
            raise OptionError("expected at least one protected attribute, got none", hint=hint)
        given = {"rank": self.rank, "rank_by": self.rank_by, "query": self.query, "relevance": self.relevance}
        roles: dict[str, str] = {}
        for role, name in [*given.items(), *(("protected", name) for name in names)]:
            if name is None:
                continue
            require_column(name, columns, role)
            # A score may be what is deserved as well: then the question is whether attention follows it.
            if roles.setdefault(name, role) != role and {role, roles[name]} != {"rank_by", "relevance"}:
                raise OptionError(f"expected different columns as `{roles[name]}=` and `{role}=`, got {name!r} twice")
        return tuple(dict.fromkeys(names))


def _read_column(column: Any, role: str) -> Floats:
    """Return the numbers of a column, NaN where one is missing.

    Raises:
        DataError: it holds something else, or infinity.
    """
    if column.dtype.is_numeric():
        numbers = np.asarray(column.to_numpy(), dtype=np.float64)
    else:
        coded = CodedColumn.read(column)
        numbers = np.array([_number_of(value) for value in coded.values], dtype=np.float64)[coded.codes]
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise DataError(
            f"column {column.name!r}, row {row + 1}: expected a finite number as {role}, got {column[row]!r} "
            f"({int(np.isinf(numbers).sum()):,} such rows)",
            hint=f"fill it in, or leave such rows out; an empty cell is a candidate without a {role}",
        )
    return numbers


def _number_of(value: Any) -> float:
    """Return the number in a cell: NaN where it is empty, infinity where it holds something else."""
    if is_missing(value) or (isinstance(value, str) and not value.strip()):
        return np.nan
    try:
        number = float(value)
    except (TypeError, ValueError):
        return np.inf
    return np.inf if np.isnan(number) else number


def _check_ranks(ranks: Floats, name: str, rows: Integers) -> None:
    wrong = (ranks < 1) | (ranks != np.floor(ranks)) | (ranks > LARGEST)
    if not wrong.any():
        return
    first = int(np.argmax(wrong))
    hint = "add 1 to ranks that begin at 0" if ranks[first] == 0 else "rank by the score instead: `rank_by=COLUMN`"
    raise DataError(
        f"column {name!r}, row {int(rows[first]) + 1}: expected a whole rank from 1 on, got {ranks[first]:g}", hint=hint
    )


def _read_queries(column: Any, ranked: Booleans) -> Integers:
    """Return the list of every row, numbered in the order of first appearance.

    Raises:
        DataError: a ranked row has none.
    """
    coded = CodedColumn.read(column)
    known = np.array([not is_missing(value) and value != "" for value in coded.values], dtype=bool)[coded.codes]
    if not known[ranked].all():
        row = int(np.argmax(ranked & ~known)) + 1
        raise DataError(
            f"column {column.name!r}, row {row}: expected the name of a list, got nothing "
            f"({int((ranked & ~known).sum()):,} such rows)",
            hint="fill it in, or leave such rows out",
        )
    return coded.codes


def _read_relevance(column: Any, ranked: Booleans) -> Floats:
    """Return the relevance of every row; of those that are not ranked it does not matter."""
    values = _read_column(column, "relevance")
    wrong = ranked & ~(values >= 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        given = "nothing" if np.isnan(values[row]) else f"{values[row]:g}"
        raise DataError(
            f"column {column.name!r}, row {row + 1}: expected relevance of at least 0, got {given} "
            f"({int(wrong.sum()):,} such rows)",
            hint="a candidate that was not judged relevant has 0",
        )
    if values[ranked].max() == 0:
        raise DataError(f"expected relevance above 0 in column {column.name!r}, got zeros alone")
    return values


@dataclass(frozen=True)
class _Places:
    """The order of rows, and what it is made of; see ``RecordedRankings``."""

    order: Integers
    lists: Integers
    positions: Integers
    ties: Integers
    gapped: int


def _place(queries: Integers, keys: Floats, *, recorded: bool) -> _Places:
    """Put rows into the order of their lists and, within them, of their keys, the lowest first."""
    _, lists = np.unique(queries, return_inverse=True)
    order = np.lexsort((keys, lists))
    lists, keys = lists[order], keys[order]
    n = len(order)
    opens = np.r_[True, lists[1:] != lists[:-1]]
    fresh = opens | np.r_[True, keys[1:] != keys[:-1]]
    ties = np.cumsum(fresh) - 1
    starts = np.flatnonzero(opens)
    place = np.arange(n) - starts[lists] + 1
    if not recorded:
        return _Places(order, lists, place, ties, 0)
    # A tied block begins at its rank, or behind the block before it: as far behind the row's own place as any row
    # before it is. The running maximum starts again in every list.
    ahead = (keys.astype(np.int64) - place)[np.flatnonzero(fresh)][ties]
    reach = np.int64(max(0, int(ahead.max()))) + 1
    ahead = np.maximum.accumulate(np.maximum(ahead, 0) + lists * reach) - lists * reach
    gaps = np.bincount(lists, weights=ahead > 0) > 0
    return _Places(order, lists, place + ahead, ties, int(gaps.sum()))


def _renumber(numbers: Integers) -> Integers:
    """Return ascending numbers as 0, 1, 2, ... without gaps."""
    return np.cumsum(np.r_[0, numbers[1:] != numbers[:-1]])


def table_of_rankings(
    sensitive_features: Any,
    *,
    rank: Any = None,
    rank_by: Any = None,
    query: Any = None,
    relevance: Any = None,
    **about: Any,
) -> tuple[Any, RankingRoles]:
    """Return a table of rankings given as plain columns, and what its columns are for.

    Args:
        sensitive_features: what groups are made by: a data frame, a mapping from names to columns, a column, or an
            array of shape (n,) or (n, attributes).
        rank, rank_by, query, relevance: see ``RankingRoles``; each of shape (n,), or None.
        about: ``schema`` and ``accept_proposals`` of ``RankingRoles``.

    Raises:
        DataError: the columns differ in length, or something given is not a column.
    """
    columns = {"rank": rank, "rank_by": rank_by, "query": query, "relevance": relevance}
    frame, features, names = table_of_columns(columns, sensitive_features)
    return frame, RankingRoles(
        rank=names.get("rank"),
        rank_by=names.get("rank_by"),
        query=names.get("query"),
        relevance=names.get("relevance"),
        protected=features,
        **about,
    )
