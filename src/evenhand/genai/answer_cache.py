"""Answers of judges and classifiers, remembered by what was asked and by who answered.

The service and assessments share what they remember where both name the same file. A judge or classifier that is
described in another way, if only by another question, is another one, and nothing is remembered of it.
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
    """Return a store of answers; those of one file and size in one process are the same.

    Args:
        file: where they are kept; None: in memory alone.
        entries: how many are remembered; the oldest are forgotten first.

    Raises:
        DataError: the file cannot be used.
    """
    if file is None:
        return AnswerStore(None, most=entries)
    with _lock:
        store = _stores.get((file.absolute(), entries))
        if store is None:
            store = _stores[file.absolute(), entries] = AnswerStore(file, most=entries)
        return store


class AnswerCache:
    """What one judge or classifier answered.

    Args:
        store: of answers.
        described: all that its answers depend on besides what is asked, as JSON can hold it.

    Attributes:
        observers: are told of every question whether its answer was remembered.
    """

    def __init__(self, store: AnswerStore, described: Any) -> None:
        self._store = store
        self._fingerprint = _digest(described)
        self.observers: list[Callable[[bool], None]] = []

    async def answer(self, asked: Any, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Return an answer, as JSON can hold it: the one that was given before, or else what asking gives.

        Errors are not remembered.
        """
        key = _digest([self._fingerprint, asked])
        known = self._store.get(key)
        for observer in self.observers:
            observer(known is not None)
        if known is not None:
            return json.loads(known.text)
        answer = await ask()
        self._store.keep(key, ModelReply(json.dumps(answer), False, "", {}, None))
        return answer


def _digest(what: Any) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


class CachedJudge:
    """A judge that is asked about each prompt once.

    Args:
        judge: who is asked.
        cache: of its answers.
    """

    def __init__(self, judge: Judge, cache: AnswerCache) -> None:
        self._judge, self.cache = judge, cache

    @blocks
    async def conditions(self, prompt: str) -> frozenset[str]:
        """Return the conditions that hold, as the judge says, or said before."""

        async def ask() -> list[str]:
            return sorted(await call(self._judge.conditions, prompt))

        return frozenset(await self.cache.answer(["conditions", prompt], ask))

    @blocks
    async def fixed_groups(self, prompt: str) -> frozenset[str]:
        """Return the concept groups that the prompt fixes, as the judge says, or said before."""

        async def ask() -> list[str]:
            return sorted(await call(self._judge.fixed_groups, prompt))

        return frozenset(await self.cache.answer(["fixed", prompt], ask))


class CachedClassifier:
    """A classifier that looks at each item once.

    Args:
        classifier: who looks.
        cache: of its answers.
    """

    def __init__(self, classifier: Classifier, cache: AnswerCache) -> None:
        self._classifier, self.cache = classifier, cache

    @blocks
    async def classify(self, item: Item) -> dict[str, str | None]:
        """Return the value of every concept group, as the classifier says, or said before."""

        async def ask() -> dict[str, str | None]:
            return dict(await call(self._classifier.classify, item))

        content = [item.media_type, hashlib.sha256(item.data).hexdigest()]
        found: dict[str, str | None] = await self.cache.answer(["item", *content], ask)
        return found
