"""A model that workers ask: questions of many rows are cut into pieces, and each goes to a process of its own."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from evenhand.errors import ModelError, OptionError
from evenhand.models.ledger import answers_per_row, ask_model, find_ledger
from evenhand.models.replies import Reply
from evenhand.models.scorer import Scorer, WrappedScorer
from evenhand.typing import Floats, Integers
from evenhand.workers import MOST_LOSSES, WorkerLostError, WorkerPool, Workforce, open_pool

PIECE_ROWS = 2048
"""Individuals of one call to a worker, however many workers there are."""

IMPORTABLE = "leave them out; a function has to stand in a module that workers can import"


class DistributedScorer(WrappedScorer):
    """A model of which copies answer on workers; what it is asked is counted here.

    Pieces and their order depend on the question alone, so that answers do not depend on the number of workers.

    Args:
        model: what is asked.
        pool: the workers.
        threads: as many as there are workers.

    Raises:
        OptionError: the model cannot be sent to another process.
    """

    def __init__(self, model: Scorer, pool: WorkerPool, threads: ThreadPoolExecutor) -> None:
        self.model = model
        self._pool, self._threads = pool, threads
        try:
            self._packed = pickle.dumps(model)
        except (pickle.PicklingError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            raise OptionError(
                f"{model.name} cannot be sent to workers: {str(error).splitlines()[0]}",
                location="`workers=`",
                hint=IMPORTABLE,
            ) from None
        self._key = hashlib.sha256(self._packed).hexdigest()

    def scores(self, individuals: Floats) -> Floats:
        """Return the model's scores, shape (n, classes)."""
        return self.reply(individuals).scores

    def predict(self, individuals: Floats) -> Integers:
        """Return the model's labels, shape (n,)."""
        return self.reply(individuals).labels

    def reply(self, individuals: Floats) -> Reply:
        """Return scores and labels, of the same answers."""
        ledger = find_ledger(self.model)
        if ledger is not None:
            ledger.charge(answers_per_row(self.model) * len(individuals))
        starts = range(0, len(individuals), PIECE_ROWS)
        try:
            parts = list(self._threads.map(lambda at: self._ask(individuals[at : at + PIECE_ROWS]), starts))
        except KeyboardInterrupt:
            # What the caller asks next, to end its work, does not wait for answers that are no longer wanted.
            self._pool.give_up()
            raise
        scores = np.concatenate([np.empty((0, len(self.classes))), *(part.scores for part in parts)])
        labels = np.concatenate([np.empty(0, dtype=np.int64), *(part.labels for part in parts)])
        return Reply(scores, labels, self.label_only)

    def _ask(self, individuals: Floats) -> Reply:
        try:
            # A model may be large: it is sent to workers that do not have it yet.
            found: Reply | None = self._pool.call(answer_rows, self._key, None, individuals)
            if found is None:
                found = self._pool.call(answer_rows, self._key, self._packed, individuals)
        except WorkerLostError:
            raise ModelError(
                f"asking the model ended {MOST_LOSSES} workers", hint="try fewer workers: memory may be short"
            ) from None
        assert found is not None
        return found


@contextmanager
def open_distributed(scorer: Scorer, workforce: Workforce) -> Iterator[DistributedScorer]:
    """Open workers who answer in the place of a model, and close them at the end.

    Raises:
        OptionError: there are no such workers, or the model cannot be sent to them.
    """
    with open_pool(workforce.workers) as pool, ThreadPoolExecutor(pool.size) as threads:
        try:
            yield DistributedScorer(scorer, pool, threads)
        finally:
            pool.stop()


def answer_rows(key: str, packed: bytes | None, individuals: Floats) -> Reply | None:
    """Return what the model says about individuals: on a worker, which keeps it; None if it does not have it yet.

    Raises:
        OptionError: the worker lacks something that the model is made of.
    """
    if packed is not None:
        _models().clear()
        try:
            _models()[key] = pickle.loads(packed)
        except (AttributeError, ImportError) as error:
            raise OptionError(
                f"a worker cannot load the model: {error}", location="`workers=`", hint=IMPORTABLE
            ) from None
    model = _models().get(key)
    return None if model is None else ask_model(model, individuals)


@lru_cache(maxsize=1)
def _models() -> dict[str, Scorer]:
    """Return the models that this process has, by what tells them apart."""
    return {}
