"""Parquet files piece by piece: row groups in one order, however often they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.datasets.rows import connect, is_row_number, list_files
from evenhand.errors import DataError, MissingExtraError
from evenhand.typing import Integers

if TYPE_CHECKING:
    import pandas as pd

AT_ONCE = 250_000
"""Rows in memory at once, at most."""


@dataclass(frozen=True)
class RowGroup:
    """One row group of a Parquet file.

    Attributes:
        path, group: the file, and the number of the row group in it.
        rows: how many it has.
    """

    path: Path
    group: int
    rows: int

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Yield its rows, some at a time.

        Raises:
            DataError: they cannot be read.
        """
        import pyarrow.parquet as parquet

        try:
            with parquet.ParquetFile(self.path) as file:
                for batch in file.iter_batches(AT_ONCE, row_groups=[self.group], columns=columns):
                    # A named index of pandas is a column, as it is for DuckDB.
                    frame = batch.to_pandas(ignore_metadata=True)
                    yield frame[[name for name in frame.columns if not is_row_number(name)]]
        except (OSError, ValueError) as error:  # Arrow's own errors are such
            message = f"row group {self.group + 1} cannot be read: {str(error).splitlines()[0]}"
            raise DataError(message, location=str(self.path)) from None


def list_pieces(place: str | Path) -> list[RowGroup]:
    """Return the row groups of a Parquet file, or of all files of a folder or pattern, in one order.

    Raises:
        DataError: there are no such files, or one cannot be read.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError("pyarrow", extra="parquet", purpose="to read Parquet files") from None
    found = []
    for path in map(Path, list_files(str(place))):
        try:
            with parquet.ParquetFile(path) as file:
                about = file.metadata
                found += [RowGroup(path, i, about.row_group(i).num_rows) for i in range(about.num_row_groups)]
        except (OSError, ValueError) as error:
            raise DataError(f"not a readable Parquet file: {error}", location=str(path)) from None
    return found


def describe_place(pieces: Sequence[RowGroup], column: str, value: Any) -> str:
    """Return how many rows have a value, and where the first of them is, for messages.

    Args:
        pieces: row groups of files, in order.
        column: which column; value: None or NaN stand for a missing one.
    """
    many, first, before = 0, "", 0
    for number, piece in enumerate(pieces):
        before = before if number and pieces[number - 1].path == piece.path else 0
        for frame in piece.frames([column]):
            same = (frame[column].isna() if value is None or value != value else frame[column] == value).to_numpy()
            if same.any() and not many:
                first = f"row {before + int(np.argmax(same)) + 1:,} of {piece.path}"
            many, before = many + int(same.sum()), before + len(frame)
    return first if many <= 1 else f"{many:,} rows, the first of them in {first}"


PROFILES = "evenhand n"
"""The column of ``count_profiles`` that says how many rows are alike."""

MEMORY = "400MB"
"""What is counted in memory; more goes into temporary files."""


def count_profiles(pieces: Sequence[RowGroup], columns: Sequence[str], path: Path) -> list[RowGroup] | None:
    """Count rows that are alike in some columns, and write each of them once to a Parquet file.

    Args:
        pieces: of the data.
        columns: what a model is asked about, and the true label.
        path: the file; one that is there is taken.

    Returns:
        The row groups of that file, which has one more column, ``PROFILES``; None where DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError:
        return None
    if not path.exists():
        connection = connect(duckdb)
        connection.execute(f"SET memory_limit = '{MEMORY}'")
        rows = connection.read_parquet(sorted({str(piece.path) for piece in pieces}))
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
        beside = path.with_name(f".{path.name}")
        rows.aggregate(f'{names}, count(*)::BIGINT AS "{PROFILES}"').write_parquet(str(beside), row_group_size=AT_ONCE)
        connection.close()
        beside.replace(path)
    return list_pieces(path)


@dataclass(frozen=True)
class Draw:
    """Rows drawn at random from pieces, and what occurs in all of them.

    Attributes:
        frame: the rows that were drawn.
        occurring: the same with rows made up of other values on top, so that every word, the least and the largest
            number, a fraction and a missing value of each column are in it, as far as they occur.
    """

    frame: pd.DataFrame
    occurring: pd.DataFrame


def draw_rows(pieces: Sequence[RowGroup], many: int, seed: int, most_words: int) -> Draw:
    """Draw rows at random from all pieces, each as likely as any other, and look at every value.

    Args:
        pieces: of the data.
        many: how many are drawn; all if there are fewer.
        seed: of the draw.
        most_words: of a column with more different words, no more than these are kept.
    """
    import pandas as pd

    total = sum(piece.rows for piece in pieces)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(total, size=min(many, total), replace=False, shuffle=False))
    drawn, seen, start = [], _Occurring(most_words), 0
    # Which rows are drawn is settled before any is read, so that every piece is read once.
    for piece in pieces:
        for frame in piece.frames():
            drawn.append(frame.iloc[_between(chosen, start, start + len(frame)) - start])
            seen.add(frame)
            start += len(frame)
    sample = pd.concat(drawn, ignore_index=True)
    return Draw(sample, seen.put_on(sample))


def _between(rows: Integers, low: int, high: int) -> Integers:
    return rows[np.searchsorted(rows, low) : np.searchsorted(rows, high)]


class _Occurring:
    """Values that occur in each column: words, ends of numbers, one fraction, one missing value."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.values: dict[str, dict[Any, None]] = {}

    def add(self, frame: pd.DataFrame) -> None:
        for name in frame.columns:
            column, known = frame[name], self.values.setdefault(name, {})
            present = column.dropna()
            if column.dtype.kind in "iuf" and len(present):
                numbers = present.to_numpy()
                fractions = numbers[np.floor(numbers) != numbers][:1] if column.dtype.kind == "f" else numbers[:0]
                ends = [one for one in known if isinstance(one, int | float)]
                ends += [numbers.min().item(), numbers.max().item()]
                some = [one for one in ends if one != np.floor(one)][:1] + fractions.tolist()
                gone = [None] if None in known else []
                known.clear()
                known.update(dict.fromkeys([min(ends), max(ends), *some[:1], *gone]))
            elif len(known) <= self.most:
                known.update(dict.fromkeys(present.unique().tolist()))
            if len(present) < len(column):
                known[None] = None

    def put_on(self, sample: pd.DataFrame) -> pd.DataFrame:
        """Return the rows with others on top, of values that occur: columns without more of them repeat the first."""
        import pandas as pd

        more = max(map(len, self.values.values()), default=0)
        made = {
            name: pd.Series([*known, *[next(iter(known))] * (more - len(known))], dtype=object)
            for name, known in self.values.items()
        }
        top = pd.DataFrame(made)
        for name in top.columns:
            kind = sample[name].dtype
            whole = kind.kind in "iu" and None not in self.values[name]
            top[name] = top[name].astype(kind if whole else "float64" if kind.kind in "iuf" else kind)
        return pd.concat([sample, top], ignore_index=True)
