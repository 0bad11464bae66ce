"""Linear bounds by workers: the search stays here, and each of its calls goes to a process or a machine of its own.

A call splits or proves some hundred boxes and depends on nothing else. So the result is the same to the last digit
whichever worker answers, a lost worker costs one call, and a search that is repeated reads the answers that were kept.
"""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.frontier import BoxFrontier
from evenhand.certification.bounds.linear import LinearBounder
from evenhand.certification.query.question import Query
from evenhand.errors import LostWorkWarning
from evenhand.typing import Floats
from evenhand.workers import MOST_LOSSES, UnitStore, WorkerLostError, WorkerPool, Workforce, fingerprint_of, open_pool


class DistributedBounder:
    """A bounder whose calls are answered by workers; as many as there are workers are under way at a time.

    Args:
        local: the same bounds here, for what takes no time.
        asked: query and device, pickled; each worker lays it out once.
        pool: the workers.
        store: keeps answers; None: they are not kept.
    """

    def __init__(self, local: LinearBounder, asked: bytes, pool: WorkerPool, store: UnitStore | None) -> None:
        self.jobs = pool.size
        self.proofs_per_box = local.proofs_per_box
        self.plain = False
        self._local, self._pool, self._store = local, pool, store
        self._asked = asked

    def root(self) -> BoxFrontier:
        """Return the domain as one box."""
        return self._local.root()

    def expand(
        self, boxes: BoxFrontier, threshold: float, limit: float = np.inf, *, recording: bool = False
    ) -> tuple[BoxFrontier, Floats]:
        """Split boxes as ``CompiledBounder.expand`` does; those that workers are lost with stay whole."""
        arrays = self._answer("expand", boxes, (float(threshold), float(limit), recording, self.plain))
        if arrays is None:
            boxes.plan[:] = -1
            return boxes, np.zeros(3)
        totals = arrays.pop("totals")
        return BoxFrontier(**arrays), totals

    def prove(self, boxes: BoxFrontier, precision: tuple[int, int]) -> Floats:
        """Proved shares of each box, fair and unfair, shape (boxes, 2); 0 of those that workers are lost with."""
        arrays = self._answer("prove", boxes, (*precision, self.plain))
        return np.zeros((len(boxes), 2)) if arrays is None else arrays["shares"]

    def _answer(self, call: str, boxes: BoxFrontier, options: tuple[Any, ...]) -> dict[str, NDArray[Any]] | None:
        """Return the arrays that a worker answers with, or that were kept of it before; None if it was lost."""
        name = ""
        if self._store is not None:
            said = hashlib.sha256(f"{call} {options}".encode())
            for array in vars(boxes).values():
                said.update(np.ascontiguousarray(array).tobytes())
            name = said.hexdigest()[:32]
            kept = self._store.read(name)
            if kept is not None:
                return kept
        try:
            found: dict[str, NDArray[Any]] = self._pool.call(answer_call, self._asked, call, boxes, options)
        except WorkerLostError:
            warnings.warn(
                f"{len(boxes):,} boxes stay undecided: they ended {MOST_LOSSES} workers", LostWorkWarning, stacklevel=2
            )
            return None
        if self._store is not None:
            self._store.write(name, found)
        return found


@contextmanager
def distributed_bounder(
    local: LinearBounder, query: Query, device: str | None, workforce: Workforce
) -> Iterator[DistributedBounder]:
    """Open the workers of a bounder, and close them at the end.

    Args:
        local: the same bounds here.
        query: what is asked.
        device: where workers compute; None: by compiled kernels.
        workforce: who they are, and where answers are kept.
    """
    asked = pickle.dumps((query, device))
    store = None
    if workforce.state is not None:
        store = UnitStore(workforce.state, "certificate", fingerprint_of("bounds", query, device))
    with open_pool(workforce.workers) as pool:
        yield DistributedBounder(local, asked, pool, store)


def answer_call(asked: bytes, call: str, boxes: BoxFrontier, options: tuple[Any, ...]) -> dict[str, NDArray[Any]]:
    """Split or prove boxes: on a worker, which keeps what it lays out for the next call."""
    bounder = _lay_out(asked)
    *rest, bounder.plain = options
    if call == "prove":
        grid, room = rest
        return {"shares": np.ascontiguousarray(bounder.prove(boxes, (grid, room)))}
    threshold, limit, recording = rest
    found, totals = bounder.expand(boxes, threshold, limit, recording=recording)
    return {**vars(found), "totals": totals}


@lru_cache(maxsize=2)
def _lay_out(asked: bytes) -> LinearBounder:
    from evenhand.certification.proof_run import choose_bounder

    query, device = pickle.loads(asked)
    return choose_bounder(query, device, 1)
