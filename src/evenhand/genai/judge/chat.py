"""What a model says that a prompt asks for, and what it fixes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from evenhand.errors import ModelError
from evenhand.genai.backends.chat import OpenAIChat
from evenhand.genai.classify.classifier import exact_label
from evenhand.genai.questions import about, answer_in, choose, steady
from evenhand.genai.specification import Configuration

_ANSWERS = ("yes", "no")
_SHOWN = 80
"""Characters of an answer in a message."""


class ChatJudge:
    """Asks a model about prompts: one question for every condition, and one for every concept group.

    An answer that is not exactly yes or no, or a JSON object with one of them, is an error: it cannot say.

    Args:
        chat: the model. It is asked at temperature 0 unless its options say another, or None for models that take none.
        questions: by condition, what to ask about a prompt; to be answered by yes or no.
        groups: the values of every concept group that a prompt may fix; groups left out are never fixed.
    """

    def __init__(
        self, chat: OpenAIChat, questions: Mapping[str, str], groups: Mapping[str, Collection[str]] | None = None
    ) -> None:
        self._chat = steady(chat)
        self._questions = dict(questions)
        self._groups = {group: tuple(values) for group, values in (groups or {}).items()}

    @classmethod
    def of(cls, configuration: Configuration, chat: OpenAIChat) -> ChatJudge:
        """By the questions (``judge``) of a configuration's conditions, or else their names, and by its groups."""
        questions = {
            condition.name: condition.judge or f"Does this prompt ask for {condition.name!r}?"
            for condition in configuration.conditions
        }
        return cls(chat, questions, configuration.values)

    def conditions(self, prompt: str) -> frozenset[str]:
        """The conditions that the model says the prompt asks for.

        Raises:
            FetchError: the service does not answer, or refuses.
            ModelError: it cannot say, or its answer holds no text.
        """
        return frozenset(name for name, question in self._questions.items() if self._yes(prompt, name, question))

    def fixed(self, prompt: str) -> frozenset[str]:
        """The groups that the model says the prompt fixes.

        Raises:
            FetchError: the service does not answer, or refuses.
            ModelError: it cannot say, or its answer holds no text.
        """
        return frozenset(
            group
            for group, values in self._groups.items()
            if self._yes(
                prompt, group, f"Does this prompt itself say which {group} must be shown, one of: {', '.join(values)}?"
            )
        )

    def _yes(self, prompt: str, name: str, question: str) -> bool:
        reply = self._chat.reply(about("prompt", prompt, choose(question, _ANSWERS)))
        answer = exact_label(answer_in(reply, name), _ANSWERS)
        if answer is None:
            said = " ".join(reply.split())
            shown = said[:_SHOWN] + "..." if len(said) > _SHOWN else said
            raise ModelError(
                f"the judge cannot say about {name!r}: its answer is neither yes nor no but {shown!r}",
                where=self._chat.wire.url,
                mend="try a larger model, or a plainer question as judge: of the condition",
            )
        return answer == "yes"
