"""Recorded rankings: ordered lists of candidates, read from a table with one row per candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, OptionError
from evenhand.schema.arrays import check_roles, table_of_columns
from evenhand.schema.infer import describe_groups
from evenhand.schema.people import People, encode, list_protected
from evenhand.schema.schema import Schema
from evenhand.schema.table import CodedColumn, CodedTable, check_type, list_columns

LARGEST = 1e9
"""Maximum rank."""


@dataclass(frozen=True)
class RankingRoles:
    """Column roles of a table of rankings. Other columns are ignored.

    Attributes:
        rank: Column of recorded ranks, whole numbers from 1. Mutually exclusive with ``rank_by``.
        rank_by: Column of scores, highest first.
        query: Column that identifies the list of each row, such as a search. None for a single list.
        relevance: Column of the relevance of each candidate, such as clicks or grades; at least 0.
        protected: Columns that define the groups. Default: the protected attributes of the schema.
        schema: Schema of the protected columns. Default: inferred from the data.
        accept_proposals: Whether to accept the proposals for columns that cannot be used as attributes directly.
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

    @property
    def by_score(self) -> bool:
        """Whether candidates are ranked by a score, highest first."""
        return self.rank is None

    @property
    def ranked_by(self) -> str:
        """Column of ranks or scores."""
        return str(self.rank_by if self.rank is None else self.rank)

    def read(self, frame: Any, *, location: str = "data") -> RecordedRankings:
        """Read the rankings of a data frame.

        Rows without a rank or score are excluded and counted. Tied candidates occupy consecutive positions starting
        at their rank, and skipped ranks remain empty, so a recorded rank is the displayed position.

        Args:
            frame: Data frame that narwhals supports (pandas, polars, pyarrow, ...), one row per candidate.
            location: Name of the data in messages.

        Raises:
            EvenhandError: A column is missing or contains invalid values.
        """
        if (self.rank is None) == (self.rank_by is None):
            raise OptionError(
                f"expected a column of ranks or a column of scores, got {'neither' if self.rank is None else 'both'}",
                hint="name a column of ranks from 1, `rank=COLUMN`, or a column of scores, `rank_by=COLUMN`",
            )
        names = list_protected(self.protected, self.schema)
        relevance_role = [] if self.by_score and self.relevance == self.rank_by else [self.relevance]
        roles = {"rank": [self.rank], "rank_by": [self.rank_by], "query": [self.query], "relevance": relevance_role}
        check_roles(roles | {"protected": names}, list_columns(frame))
        table = CodedTable(frame, location=location)
        key, column = "score" if self.by_score else "rank", table[self.ranked_by]
        keys = column.finite_numbers(np.arange(table.rows), key, optional=True)
        ranked = ~np.isnan(keys)
        if not ranked.any():
            raise DataError(f"no row has a {key} in column {self.ranked_by!r}", location=location)
        if not self.by_score:
            invalid = ranked & ~((keys >= 1) & (keys == np.floor(keys)) & (keys <= LARGEST))
            hint = "add 1 to ranks that start at 0, or rank by scores with `rank_by=COLUMN`"
            column.refuse(invalid, "a whole rank from 1", hint)
        queries = np.zeros(table.rows, dtype=np.int64)
        if self.query is not None:
            unnamed = ranked & table[self.query].missing()
            table[self.query].refuse(unnamed, "the name of a list", "fill in the name, or drop these rows")
            queries = table[self.query].as_words().coding.codes
        relevance = None if self.relevance is None else _read_relevance(table[self.relevance], ranked)
        target = {"name": self.ranked_by, "kind": "number", "favourable": "higher" if self.by_score else "lower"}
        schema = describe_groups(table, names, target, self.schema, accept=self.accept_proposals)
        people = encode(schema, table, read_target=False, without={f"a {key}": ~ranked})
        rows = np.flatnonzero(ranked)
        # Rows that are excluded because of missing values still occupy a position.
        order, lists, positions, ties, gapped = _rank(
            queries[rows], -keys[rows] if self.by_score else keys[rows], recorded=not self.by_score
        )
        rows = rows[order]
        encoded = np.isin(rows, people.rows)
        return RecordedRankings(
            people=people.at(np.searchsorted(people.rows, rows[encoded])),
            roles=self,
            lists=_renumber(lists[encoded]),
            positions=positions[encoded],
            ties=_renumber(ties[encoded]),
            relevance=None if relevance is None else relevance[rows[encoded]],
            gapped=gapped,
        )


@dataclass(frozen=True)
class RecordedRankings:
    """Recorded lists of candidates.

    Rows are candidates, sorted by list and then by position.

    Attributes:
        people: Candidates, whose attributes define the groups.
        roles: Column roles of the table.
        lists: Index of each candidate's list, from 0, shape (n,).
        positions: Positions in the list, from 1, shape (n,). Candidates of equal rank or score occupy consecutive
            positions in arbitrary order.
        ties: Index of each candidate's block of equal rank or score, from 0 in row order, shape (n,).
        relevance: Relevance of each candidate, at least 0, shape (n,); None if unknown.
        gapped: Number of lists with gaps in the recorded ranks.
    """

    people: People
    roles: RankingRoles
    lists: Integers
    positions: Integers
    ties: Integers
    relevance: Floats | None
    gapped: int = 0

    @property
    def count(self) -> int:
        """Number of lists."""
        return int(self.lists[-1]) + 1

    @property
    def tied(self) -> int:
        """Number of candidates tied with another candidate in the same list."""
        sizes = np.bincount(self.ties)
        return int(sizes[sizes > 1].sum())


def _read_relevance(column: CodedColumn, ranked: Booleans) -> Floats:
    """Read the relevance of all rows; values of unranked rows are not checked."""
    values = column.finite_numbers(np.arange(len(column)), "relevance", optional=True)
    hint = "set the relevance of unrated candidates to 0"
    column.refuse(ranked & ~(values >= 0), "a relevance of at least 0", hint)
    if values[ranked].max() == 0:
        raise DataError(f"expected some relevance above 0 in column {column.name!r}, got only 0")
    return values


def _rank(queries: Integers, keys: Floats, *, recorded: bool) -> tuple[Integers, Integers, Integers, Integers, int]:
    """Sort rows by list and then by key in ascending order.

    Returns:
        The order of the rows, and the list, the position and the block of ties of each sorted row, as in
        ``RecordedRankings``; and the number of lists with gaps.
    """
    _, lists = np.unique(queries, return_inverse=True)
    order = np.lexsort((keys, lists))
    lists, keys = lists[order], keys[order]
    list_starts = np.r_[True, lists[1:] != lists[:-1]]
    tie_starts = list_starts | np.r_[True, keys[1:] != keys[:-1]]
    ties = np.cumsum(tie_starts) - 1
    positions = np.arange(len(order)) - np.flatnonzero(list_starts)[lists] + 1
    if not recorded:
        return order, lists, positions, ties, 0
    # A tied block starts at its rank or after the previous block, so its rows are shifted by the maximum shift of all
    # blocks so far. The running maximum restarts in each list.
    shifts = (keys.astype(np.int64) - positions)[np.flatnonzero(tie_starts)][ties]
    list_offsets = lists * (np.int64(max(0, int(shifts.max()))) + 1)
    shifts = np.maximum.accumulate(np.maximum(shifts, 0) + list_offsets) - list_offsets
    gapped = np.bincount(lists, weights=shifts > 0) > 0
    return order, lists, positions + shifts, ties, int(gapped.sum())


def _renumber(numbers: Integers) -> Integers:
    """Renumber ascending numbers to 0, 1, 2, ... without gaps."""
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
    """Build a table of rankings and its column roles from the columns of ``evenhand.audit_rankings``.

    ``about`` are the other fields of ``RankingRoles``.

    Raises:
        DataError: The columns differ in length, or an argument is not a column.
    """
    columns = {"rank": rank, "rank_by": rank_by, "query": query, "relevance": relevance}
    frame, features, names = table_of_columns(columns, sensitive_features)
    roles: dict[str, Any] = about | {role: names.get(role) for role in columns}
    return frame, RankingRoles(protected=features, **roles)
