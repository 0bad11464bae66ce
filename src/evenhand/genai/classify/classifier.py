"""What says which values an item shows, and how answers in words become values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from evenhand.errors import ModelError
from evenhand.genai.backends.item import Item


class Classifier(Protocol):
    """What says which values an item shows."""

    def classify(self, item: Item) -> dict[str, str | None]:
        """The value of every concept group it knows; None where it cannot tell.

        Raises:
            EvenhandError: the item cannot be looked at, which is another thing than showing no value.
        """
        ...


def exact_label(answer: str | None, values: Collection[str]) -> str | None:
    """The value that an answer is, whatever its case, and the spaces, quotes and full stop around it.

    Anything more or less is none: a value that is part of the answer is not the answer, because 'asian' is part of
    'caucasian', and of 'not asian'. None also for "cannot tell" and the like, unless that is a value.

    >>> exact_label(' "Asian." ', ["asian", "caucasian"]), exact_label("not asian", ["asian"])
    ('asian', None)
    """
    if answer is None:
        return None
    said = " ".join(answer.strip(" \t\r\n\"'`*.").casefold().split())
    return next((value for value in values if " ".join(value.casefold().split()) == said), None)


class ClassifierFunction:
    """A function as a classifier.

    Args:
        function: answers for an item, by concept group, with a value, or with None if it cannot tell.
        groups: the values of every concept group it answers for. An answer that is exactly none of them is taken for
            "cannot tell", and so is no answer.
    """

    def __init__(
        self, function: Callable[[Item], Mapping[str, str | None]], groups: Mapping[str, Collection[str]]
    ) -> None:
        self._function = function
        self._groups = {group: tuple(values) for group, values in groups.items()}

    def classify(self, item: Item) -> dict[str, str | None]:
        """The value of every group; None where the function cannot tell.

        Raises:
            ModelError: it answered with something else than a value by group.
        """
        answers = self._function(item)
        if not isinstance(answers, Mapping):
            raise ModelError(
                f"the classifier answered {answers!r}", mend="It must answer with a mapping of concept group to value."
            )
        found = {}
        for group, values in self._groups.items():
            answer = answers.get(group)
            if answer is not None and not isinstance(answer, str):
                raise ModelError(f"the classifier answered {answer!r} for {group!r}, which is neither text nor None")
            found[group] = exact_label(answer, values)
        return found
