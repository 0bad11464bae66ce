"""Query copies of a model in worker processes, each with a chunk of the rows."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from evenhand.core.parallel import count_workers
from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.models.ledger import answers_per_row, ask_model, find_ledger
from evenhand.models.replies import Reply, ReplyingScorer, join_replies
from evenhand.models.scorer import Scorer, WrappedScorer

PIECE_ROWS = 2048
"""Rows per chunk. Neither the chunks nor the answers depend on the number of workers."""

IMPORTABLE = "omit the option, or define functions in a module that workers can import"


class ParallelScorer(ReplyingScorer, WrappedScorer):
    """Model that runs on workers. Queries are counted in this process.

    Args:
        model: Model to query.
        pool: joblib's pool of workers.

    Raises:
        OptionError: The model cannot be sent to another process.
    """

    def __init__(self, model: Scorer, pool: Any) -> None:
        self.model = model
        self._pool = pool
        try:
            packed = pickle.dumps(model)
        except (pickle.PicklingError, TypeError, AttributeError, ValueError, RuntimeError) as error:
            raise OptionError(
                f"{model.name} cannot be sent to workers: {str(error).splitlines()[0]}",
                location="`workers=`",
                hint=IMPORTABLE,
            ) from None
        # An array lets joblib share the memory of a large model among processes.
        self._packed = np.frombuffer(packed, dtype=np.uint8)
        self._key = hashlib.sha256(packed).hexdigest()

    def reply(self, individuals: Floats) -> Reply:
        """Return scores and labels from the same answers."""
        ledger = find_ledger(self.model)
        if ledger is not None:
            ledger.charge(answers_per_row(self.model) * len(individuals))
        pieces = [individuals[at : at + PIECE_ROWS] for at in range(0, len(individuals), PIECE_ROWS)]
        calls = (joblib.delayed(_answer_rows)(self._key, self._packed, piece) for piece in pieces)
        try:
            replies: list[Reply] = self._pool(calls)
        except BrokenExecutor:  # a worker was lost, for example because memory ran out
            replies = [_answer_rows(self._key, self._packed, piece) for piece in pieces]
        return join_replies(self, replies)


@contextmanager
def open_parallel(scorer: Scorer, workers: int) -> Iterator[ParallelScorer]:
    """Start workers with copies of a model and stop them on exit.

    Raises:
        OptionError: ``workers`` is not valid, or the model cannot be sent to them.
    """
    count_workers(workers)
    with joblib.Parallel(n_jobs=workers) as pool:
        yield ParallelScorer(scorer, pool)


_models: dict[str, Scorer] = {}
"""Unpickled models by the digest of their pickle."""


def _answer_rows(key: str, packed: NDArray[np.uint8], individuals: Floats) -> Reply:
    """Query the model on a worker.

    Raises:
        OptionError: The worker cannot unpickle the model.
    """
    if key not in _models:
        _models.clear()
        try:
            _models[key] = pickle.loads(packed.tobytes())
        except (AttributeError, ImportError) as error:
            raise OptionError(
                f"a worker cannot load the model: {error}", location="`workers=`", hint=IMPORTABLE
            ) from None
        copied = find_ledger(_models[key])
        if copied is not None:
            copied.budget = None  # the calling process has already charged the budget
    return ask_model(_models[key], individuals)
