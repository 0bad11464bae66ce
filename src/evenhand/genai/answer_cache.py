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

from evenhand.core.coroutines import blocks, call
from evenhand.genai.backends.generator import Item
from evenhand.genai.classifiers.classifier import Classifier
from evenhand.genai.judges import Judge
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


class CachedJudge:
    """Judge that judges each prompt once.

    Args:
        judge: The judge.
        cache: Cache of its answers.
    """

    def __init__(self, judge: Judge, cache: AnswerCache) -> None:
        self._judge, self.cache = judge, cache

    @blocks
    async def conditions(self, prompt: str) -> frozenset[str]:
        """Return the conditions that hold according to the judge."""
        return await self._ask("conditions", self._judge.conditions, prompt)

    @blocks
    async def fixed_groups(self, prompt: str) -> frozenset[str]:
        """Return the concept groups that the prompt fixes according to the judge."""
        return await self._ask("fixed", self._judge.fixed_groups, prompt)

    async def _ask(self, kind: str, judge: Callable[[str], frozenset[str]], prompt: str) -> frozenset[str]:
        async def ask() -> list[str]:
            return sorted(await call(judge, prompt))

        return frozenset(await self.cache.answer([kind, prompt], ask))


class CachedClassifier:
    """Classifier that classifies each item once.

    Args:
        classifier: The classifier.
        cache: Cache of its answers.
    """

    def __init__(self, classifier: Classifier, cache: AnswerCache) -> None:
        self._classifier, self.cache = classifier, cache

    @blocks
    async def classify(self, item: Item) -> dict[str, str | None]:
        """Return the value of each concept group according to the classifier."""

        async def ask() -> dict[str, str | None]:
            return dict(await call(self._classifier.classify, item))

        content = [item.media_type, hashlib.sha256(item.data).hexdigest()]
        values: dict[str, str | None] = await self.cache.answer(["item", *content], ask)
        return values
