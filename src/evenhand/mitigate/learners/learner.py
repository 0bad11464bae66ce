"""What can learn: a kind of model that is trained again the way it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, Self, runtime_checkable

from evenhand.mitigate.lesson import Lesson
from evenhand.models import Scorer


class Learner(Protocol):
    """A model that can be trained again. The same lesson and seed give the same model, bit for bit.

    Attributes:
        name: what is trained and how, for a reader: ``a scikit-learn Pipeline, fitted anew``.
        endings: of the files that its models can be written to.
    """

    @property
    def name(self) -> str: ...
    @property
    def endings(self) -> tuple[str, ...]: ...

    def fit(self, lesson: Lesson, *, seed: int) -> Scorer:
        """A model of the same kind, trained on these people; the given one stays as it was."""
        ...

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write a model that this learner made; the files written, that one first."""
        ...


@runtime_checkable
class Resuming(Learner, Protocol):
    """A learner that trains on from weights: from those of a model it made as well as from the given ones."""

    def onward(self, scorer: Scorer) -> Self:
        """The same, training on from a model that this learner made."""
        ...
