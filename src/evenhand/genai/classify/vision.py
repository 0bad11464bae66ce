"""What a model says that a picture or a text shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from evenhand.genai.backends.chat import OpenAIChat
from evenhand.genai.backends.item import Item


class ChatClassifier:
    """Asks a model one question for every concept group.

    Args:
        chat: the model; for pictures one that sees. It is asked at temperature 0 unless its options say another.
        groups: the values of every concept group.
        questions: by concept group, the question instead of "Which age does this picture show?".
    """

    def __init__(
        self,
        chat: OpenAIChat,
        groups: Mapping[str, Collection[str]],
        questions: Mapping[str, str] | None = None,
    ) -> None:
        self._chat, self._groups, self._questions = chat, groups, questions

    def classify(self, item: Item) -> dict[str, str | None]:
        """The value of every group; None where the model cannot tell."""
        raise NotImplementedError
