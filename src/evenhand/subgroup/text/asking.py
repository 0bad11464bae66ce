"""Asking a model about texts, each once, as long as there is time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import LimitError
from evenhand.models.replies import Reply
from evenhand.texts import TextModel
from evenhand.texts.model import read


class Asking:
    """What a model said so far.

    Args:
        model: who is asked.
        labels, favourable: the labels and the favourable one, as far as the caller knows them.
        deadline: on the clock of ``time.perf_counter``; after it nothing more is asked.
    """

    def __init__(self, model: TextModel, labels: Sequence[Any] | None, favourable: Any, deadline: float | None) -> None:
        self.model, self.labels, self.favourable, self.deadline = model, labels, favourable, deadline
        self.stopped = False
        self._position: dict[str, int] = {}
        self._replies: list[NDArray[np.generic]] = []
        self._read: tuple[int, tuple[Reply, tuple[Any, ...], int]] | None = None

    def __len__(self) -> int:
        return len(self._position)

    def ask(self, texts: Iterable[str], say: Callable[[float], None] = lambda share: None) -> None:
        """Ask about those that were not asked about yet; an interrupt or the deadline ends all asking."""
        new = [text for text in dict.fromkeys(texts) if text not in self._position]
        batch = self.model.batch
        try:
            for start in range(0, len(new), batch):
                if self.stopped or self._late():
                    self.stopped = True
                    return
                say(start / len(new))
                part = new[start : start + batch]
                self._replies.append(self.model.replies(part))
                self._position.update({text: len(self._position) + i for i, text in enumerate(part)})
        except KeyboardInterrupt:
            self.stopped = True

    def positions(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """Where the answer about each text stands in ``answers``; -1 where it was not asked about."""
        return np.array([self._position.get(text, -1) for text in texts], dtype=np.int64)

    def answers(self) -> tuple[Reply, tuple[Any, ...], int]:
        """All answers, the labels' names, and the position of the favourable one.

        Raises:
            LimitError: there is none.
            ModelError: they are no labels or scores.
        """
        if not self._replies:
            raise LimitError("the search was stopped before anything was asked", mend="give it more time")
        if self._read is None or self._read[0] != len(self._replies):
            found = read(np.concatenate(self._replies), self.model, self.labels, self.favourable)
            self._read = len(self._replies), found
        return self._read[1]

    def _late(self) -> bool:
        return self.deadline is not None and time.perf_counter() > self.deadline
