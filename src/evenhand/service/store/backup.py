"""Copies of a whole store, at one moment, while the service goes on: from one to a file, and from that to a new one."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import func, insert, select

from evenhand.errors import StoreError
from evenhand.service.store.database import Database, read_heads
from evenhand.service.store.tables import metadata, replicas, revisions, streams, versions

ROWS_AT_ONCE = 1_000

NOT_COPIED = (replicas, revisions, versions)
"""Of processes that are not there any more, and what every store has of its own."""


def copy_store(
    source: Database, target: Database, progress: Callable[[int], None] = lambda rows: None
) -> dict[str, tuple[int, str]]:
    """Copy everything from one store to another, as it stands at one moment; the kinds of store may differ.

    Args:
        source: read in one transaction, which does not hold up writers.
        target: new; all of it is written in one transaction.
        progress: is told the number of rows that were copied so far.

    Returns:
        By stream the number and the hash of its last entry in the copy.

    Raises:
        StoreError: the target has something in it already, or one of the stores failed.
    """
    done = 0
    with source.reading() as here, target.transaction() as there:
        if there.execute(select(func.count()).select_from(streams)).scalar_one():
            raise StoreError(
                "the store is not empty: what it has would be mixed with the copy",
                hint="name one that is not there yet, or move the old one away",
            )
        for table in metadata.sorted_tables:
            if table in NOT_COPIED:
                continue
            rows = here.execution_options(stream_results=True).execute(select(table)).mappings()
            for piece in rows.partitions(ROWS_AT_ONCE):
                there.execute(insert(table), [dict(row) for row in piece])
                done += len(piece)
                progress(done)
        return read_heads(there)
