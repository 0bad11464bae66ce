"""Row groups of Parquet files: reading, counting identical rows, and sampling, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.datasets.rows import connect, is_row_number, list_files
from evenhand.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

AT_ONCE = 250_000
"""Maximum number of rows in memory."""

PROFILES = "evenhand n"
"""Column of ``count_profiles`` with the number of identical rows."""

MEMORY = "400MB"
"""Memory limit for counting. Larger tables use temporary files."""


@dataclass(frozen=True)
class RowGroup:
    """One row group of a Parquet file.

    Attributes:
        path: Path of the file.
        group: Number of the row group in the file.
        rows: Number of rows.
    """

    path: Path
    group: int
    rows: int

    def frames(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """Yield the rows in frames of limited size.

        Raises:
            DataError: The rows cannot be read.
        """
        import pyarrow.parquet as parquet

        try:
            with parquet.ParquetFile(self.path) as file:
                for batch in file.iter_batches(AT_ONCE, row_groups=[self.group], columns=columns):
                    # A named index of pandas is a column, as it is for DuckDB.
                    frame = batch.to_pandas(ignore_metadata=True)
                    yield frame[[name for name in frame.columns if not is_row_number(name)]]
        except (OSError, ValueError) as error:  # base classes of Arrow's errors
            message = f"row group {self.group + 1} cannot be read: {str(error).splitlines()[0]}"
            raise DataError(message, location=str(self.path)) from None


def list_pieces(place: str | Path) -> list[RowGroup]:
    """List the row groups of a Parquet file, or of all files of a folder or pattern, in a fixed order.

    Raises:
        DataError: There are no such files, or a file cannot be read.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError("pyarrow", extra="parquet", purpose="to read Parquet files") from None
    pieces = []
    for path in map(Path, list_files(str(place))):
        try:
            with parquet.ParquetFile(path) as file:
                metadata = file.metadata
                pieces += [RowGroup(path, i, metadata.row_group(i).num_rows) for i in range(metadata.num_row_groups)]
        except (OSError, ValueError) as error:
            raise DataError(f"not a readable Parquet file: {error}", location=str(path)) from None
    return pieces


def describe_place(pieces: Sequence[RowGroup], column: str, value: Any) -> str:
    """Describe the rows with a value for messages: their number and the place of the first.

    Args:
        pieces: Row groups of files, in order.
        column: Name of the column.
        value: Value to search for; None and NaN are missing values.
    """
    count, first, offset, path = 0, "", 0, None
    for piece in pieces:
        offset, path = offset if piece.path == path else 0, piece.path
        for frame in piece.frames([column]):
            same = (frame[column].isna() if value is None or value != value else frame[column] == value).to_numpy()
            if same.any() and not count:
                first = f"row {offset + int(np.argmax(same)) + 1:,} of {piece.path}"
            count, offset = count + int(same.sum()), offset + len(frame)
    return first if count <= 1 else f"{count:,} rows, the first of them in {first}"


def count_profiles(pieces: Sequence[RowGroup], columns: Sequence[str], path: Path) -> list[RowGroup] | None:
    """Count rows with identical values in some columns, and write each distinct row once to a Parquet file.

    Args:
        pieces: Row groups of the data.
        columns: Inputs of the model and the true label.
        path: Path of the file. An existing file is reused.

    Returns:
        Row groups of the file, which has an additional column ``PROFILES``; None if DuckDB is not installed.
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
        partial = path.with_name(f".{path.name}")
        rows.aggregate(f'{names}, count(*)::BIGINT AS "{PROFILES}"').write_parquet(str(partial), row_group_size=AT_ONCE)
        connection.close()
        partial.replace(path)
    return list_pieces(path)


@dataclass(frozen=True)
class Draw:
    """Random rows of row groups, and the values of all rows.

    Attributes:
        frame: Sampled rows.
        occurring: Sampled rows and additional rows, so that every word, the smallest and the largest number, a fraction
            and a missing value of each column occur, if they occur in the data.
    """

    frame: pd.DataFrame
    occurring: pd.DataFrame


def draw_rows(pieces: Sequence[RowGroup], many: int, seed: int, most_words: int) -> Draw:
    """Draw a uniform random sample of the rows of all row groups, and collect the values of all rows.

    Args:
        pieces: Row groups of the data.
        many: Number of rows to draw; all rows if there are fewer.
        seed: Seed of the sample.
        most_words: Maximum number of distinct words that are kept for a column.
    """
    import pandas as pd

    total = sum(piece.rows for piece in pieces)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(total, size=min(many, total), replace=False, shuffle=False))
    samples, values, start = [], _Values(most_words), 0
    # The rows are chosen before any is read, so every row group is read once.
    for piece in pieces:
        for frame in piece.frames():
            low, high = np.searchsorted(chosen, [start, start + len(frame)])
            samples.append(frame.iloc[chosen[low:high] - start])
            values.add(frame)
            start += len(frame)
    sample = pd.concat(samples, ignore_index=True)
    return Draw(sample, values.append_to(sample))


class _Values:
    """Values of each column: words, smallest and largest number, one fraction, one missing value."""

    def __init__(self, max_words: int) -> None:
        self.max_words = max_words
        self.columns: dict[str, dict[Any, None]] = {}

    def add(self, frame: pd.DataFrame) -> None:
        for name in frame.columns:
            column, known = frame[name], self.columns.setdefault(name, {})
            present = column.dropna()
            if column.dtype.kind in "iuf" and len(present):
                numbers = present.to_numpy()
                fractions = numbers[np.floor(numbers) != numbers][:1] if column.dtype.kind == "f" else numbers[:0]
                ends = [value for value in known if isinstance(value, int | float)]
                ends += [numbers.min().item(), numbers.max().item()]
                fraction = [*(value for value in ends if value != np.floor(value)), *fractions.tolist()][:1]
                missing = [None] if None in known else []
                known.clear()
                known.update(dict.fromkeys([min(ends), max(ends), *fraction, *missing]))
            elif len(known) <= self.max_words:
                known.update(dict.fromkeys(present.unique().tolist()))
            if len(present) < len(column):
                known[None] = None

    def append_to(self, sample: pd.DataFrame) -> pd.DataFrame:
        """Append rows with the collected values. Columns with fewer values repeat their first value."""
        import pandas as pd

        count = max(map(len, self.columns.values()), default=0)
        rows = pd.DataFrame(
            {
                name: pd.Series([*known, *[next(iter(known))] * (count - len(known))], dtype=object)
                for name, known in self.columns.items()
            }
        )
        for name in rows.columns:
            dtype = sample[name].dtype
            is_whole = dtype.kind in "iu" and None not in self.columns[name]
            rows[name] = rows[name].astype(dtype if is_whole else "float64" if dtype.kind in "iuf" else dtype)
        return pd.concat([sample, rows], ignore_index=True)
