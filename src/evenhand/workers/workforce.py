"""Who computes the units of an engine's work, and where their results are kept meanwhile."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from evenhand.errors import LostWorkWarning
from evenhand.typing import Progress
from evenhand.workers.executors import Workers, open_pool
from evenhand.workers.pools import MOST_LOSSES, UnitsDone, UnitTask, run_units
from evenhand.workers.store import UnitStore

R = TypeVar("R")


class StoredTask(UnitTask[R], Protocol[R]):
    """A task whose results can be kept in files.

    Attributes:
        kind: what is done, in a word or two.
        fingerprint: of all that the results depend on; see ``fingerprint_of``.
    """

    @property
    def kind(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...

    def pack(self, result: R) -> dict[str, NDArray[Any]]:
        """Return the arrays that say a result."""
        ...

    def unpack(self, arrays: dict[str, NDArray[Any]]) -> R:
        """Return the result that arrays say."""
        ...


@dataclass(frozen=True)
class Workforce:
    """Workers, and the folder in which work that is stopped is kept.

    Results depend on the units alone, so neither changes them.

    Attributes:
        workers: a number of processes on this machine, ``dask://host:port``, ``ray://host:port``, or an executor.
        state: the results of units that are done are kept there, and not computed again; None: they are not kept.
    """

    workers: Workers = 1
    state: Path | None = None

    def compute(
        self, task: StoredTask[R], units: int, progress: Progress | None = None
    ) -> tuple[dict[int, R], UnitsDone]:
        """Return the results of units 0, 1, ... by unit, ascending, and how it ended.

        Raises:
            OptionError: there are no such workers, or the folder is of other work.
        """
        store = None if self.state is None else UnitStore(self.state, task.kind, task.fingerprint)
        found: dict[int, R] = {}
        for unit in range(units) if store is not None else ():
            arrays = store.read(unit) if store is not None else None
            if arrays is not None:
                found[unit] = task.unpack(arrays)

        def collect(unit: int, result: R) -> None:
            if store is not None:
                store.write(unit, task.pack(result))
            found[unit] = result
            if progress is not None:
                progress(f"{task.kind}: {len(found):,} of {units:,} units", len(found) / units)

        missing = [unit for unit in range(units) if unit not in found]
        ended = UnitsDone()
        if missing:
            with open_pool(self.workers) as pool:
                ended = run_units(task, missing, pool, collect)
        if ended.given_up:
            lost = ", ".join(map(str, ended.given_up))
            warnings.warn(
                f"the result is without units {lost} of {units:,}: each ended {MOST_LOSSES} workers",
                LostWorkWarning,
                stacklevel=2,
            )
        return dict(sorted(found.items())), ended
