"""What a model says that a prompt asks for."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from evenhand.genai.backends.chat import OpenAIChat
from evenhand.genai.specification import Configuration


class ChatJudge:
    """Asks a model about prompts: one question for every condition, and one for every concept group.

    Args:
        chat: the model. It is asked at temperature 0 unless its options say another.
        questions: by condition, what to ask about a prompt; to be answered by yes or no.
        groups: the values of every concept group that a prompt may fix.
    """

    def __init__(
        self, chat: OpenAIChat, questions: Mapping[str, str], groups: Mapping[str, Collection[str]] | None = None
    ) -> None:
        self._chat, self._questions, self._groups = chat, questions, groups

    @classmethod
    def of(cls, configuration: Configuration, chat: OpenAIChat) -> ChatJudge:
        """By the questions (``judge``) of a configuration's conditions, or else their names, and by its groups."""
        raise NotImplementedError

    def conditions(self, prompt: str) -> frozenset[str]:
        """The conditions that the model says the prompt asks for."""
        raise NotImplementedError

    def fixed(self, prompt: str) -> frozenset[str]:
        """The groups that the model says the prompt fixes."""
        raise NotImplementedError
