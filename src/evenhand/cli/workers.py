"""The option ``--workers``: processes of this machine, or a Dask cluster."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from evenhand.errors import MissingExtraError, OptionError

WorkersOption = Annotated[
    str | None,
    typer.Option(metavar="N|dask://HOST:PORT", help="Number of worker processes, or the address of a Dask scheduler."),
]


@contextmanager
def open_workers(workers: str | None) -> Iterator[int | None]:
    """Yield the number of workers for ``workers=``; on a Dask cluster, with its joblib backend."""
    if workers is None or re.fullmatch(r"-?\d+", workers):
        yield None if workers is None else int(workers)
        return
    if not workers.startswith("dask://"):
        raise OptionError(f"expected a number of processes or dask://HOST:PORT, got {workers!r}", location="--workers")
    import joblib

    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise MissingExtraError("distributed", extra="dask", purpose="to work on a Dask cluster") from None
    address = f"tcp://{workers.removeprefix('dask://')}"
    try:
        client = distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise OptionError(
            f"no Dask scheduler answers at {address}: {type(error).__name__}",
            location="--workers",
            hint="start one with `dask scheduler`, and workers with `dask worker tcp://HOST:PORT`",
        ) from None
    try:
        if not client.nthreads():
            raise OptionError(
                f"the Dask scheduler at {address} has no workers",
                location="--workers",
                hint="start some with `dask worker tcp://HOST:PORT`",
            )
        with joblib.parallel_config(backend="dask", client=client):
            yield -1
    finally:
        client.close()
