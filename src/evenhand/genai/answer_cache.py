"""Cache of the answers of judges and classifiers.

The service and assessments share a cache if both name the same file. The key of an answer includes the description of
the judge or classifier, so a change of a question, for example, invalidates its answers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

from evenhand.models.answer_store import AnswerStore, ModelReply

_stores: WeakValueDictionary[tuple[Path, int], AnswerStore] = WeakValueDictionary()
_lock = Lock()


def open_answers(file: Path | None, entries: int) -> AnswerStore:
    """Open a store of answers. Stores of the same file and size are shared within a process.

    Args:
        file: File of the store. None keeps it in memory.
        entries: Maximum number of answers. The oldest are removed first.

    Raises:
        DataError: The file is not usable.
    """
    if file is None:
        return AnswerStore(None, most=entries)
    with _lock:
        store = _stores.get((file.absolute(), entries))
        if store is None:
            store = _stores[file.absolute(), entries] = AnswerStore(file, most=entries)
        return store


class AnswerCache:
    """Answers of one judge or classifier.

    Args:
        store: Store of answers.
        described: Description of the judge or classifier as JSON values. Another description invalidates its answers.

    Attributes:
        observers: Functions called for each question with whether its answer was cached.
    """

    def __init__(self, store: AnswerStore, described: Any) -> None:
        self._store = store
        self._fingerprint = _digest(described)
        self.observers: list[Callable[[bool], None]] = []

    async def answer(self, question: Any, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Return the cached answer to a question as JSON values, or ask for it. Errors are not cached."""
        key = _digest([self._fingerprint, question])
        cached = self._store.get(key)
        for observer in self.observers:
            observer(cached is not None)
        if cached is not None:
            return json.loads(cached.text)
        answer = await ask()
        self._store.keep(key, ModelReply(json.dumps(answer), False, "", {}, None))
        return answer


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
