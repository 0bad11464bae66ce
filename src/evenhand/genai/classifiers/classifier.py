"""What says which values an item shows: functions, words in texts, and a model that is asked over HTTP."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from evenhand.core.coroutines import blocks, call, gather
from evenhand.errors import DataError, ModelError, OptionError
from evenhand.genai.backends.generator import Item, WordMatcher
from evenhand.genai.backends.openai_service import (
    OpenAIChat,
    at_zero_temperature,
    choice_question,
    quote_text,
)
from evenhand.models.language.chat_answers import choice_parser, read_choice


class Classifier(Protocol):
    """What says which values an item shows."""

    def classify(self, item: Item) -> dict[str, str | None]:
        """Return the value of every concept group it knows; None where it cannot tell.

        Raises:
            EvenhandError: the item cannot be looked at, which is another thing than showing no value.
        """
        ...


class FunctionClassifier:
    """A function as a classifier.

    Args:
        function: answers for an item, by concept group, with a value, or with None if it cannot tell.
        groups: the values of every concept group it answers for. An answer that is exactly none of them is taken for
            "cannot tell", and so is not an answer.
    """

    def __init__(
        self, function: Callable[[Item], Mapping[str, str | None]], groups: Mapping[str, Collection[str]]
    ) -> None:
        self._function = function
        self._groups = {group: tuple(values) for group, values in groups.items()}

    def classify(self, item: Item) -> dict[str, str | None]:
        """Return the value of every group; None where the function cannot tell.

        Raises:
            ModelError: it answered with something else than a value by group.
        """
        answers = self._function(item)
        if not isinstance(answers, Mapping):
            raise ModelError(
                f"the classifier answered {answers!r}", hint="It must answer with a mapping of concept group to value."
            )
        found = {}
        for group, values in self._groups.items():
            answer = answers.get(group)
            if answer is not None and not isinstance(answer, str):
                raise ModelError(f"the classifier answered {answer!r} for {group!r}, which is neither text nor None")
            found[group] = None if answer is None else choice_parser(values)(answer)
        return found


# Texts classified by the words in them.


class LexiconClassifier:
    """Says which value's words are in a text; it cannot tell where there are none, or those of several values.

    Args:
        groups: by concept group and value, words and phrases, found as whole words in whatever case.

    >>> lexicon = LexiconClassifier({"gender": {"woman": ["she", "her"], "man": ["he", "his"]}})
    >>> lexicon.classify(Item.of_text("She thanked her team.")), lexicon.classify(Item.of_text("He met her."))
    ({'gender': 'woman'}, {'gender': None})
    """

    def __init__(self, groups: Mapping[str, Mapping[str, Collection[str]]]) -> None:
        if not groups:
            raise OptionError("a lexicon needs at least one concept group")
        self._groups = {
            group: {value: WordMatcher(words) for value, words in values.items()} for group, values in groups.items()
        }

    @blocks
    async def classify(self, item: Item) -> dict[str, str | None]:
        """Return the value of every group.

        Raises:
            DataError: the item is not text.
        """
        text = item.text
        found: dict[str, str | None] = {}
        for group, values in self._groups.items():
            named = [value for value, words in values.items() if words.is_in(text)]
            found[group] = named[0] if len(named) == 1 else None
        return found


# What a model says that a picture or a text shows.


UNSURE_ANSWER = "cannot tell"
"""The answer that a model may always give."""

VISIBLE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""Types of pictures that models take."""


def _with_unsure(values: Sequence[str]) -> Sequence[str]:
    return values if UNSURE_ANSWER in values else [*values, UNSURE_ANSWER]


class ChatClassifier:
    """Asks a model one question for every concept group, with the group's values and "cannot tell" as answers.

    A picture is sent as a data URL, so for pictures the model must be one that sees. An answer that does not
    state one value is taken for "cannot tell"; see ``evenhand.models.language.chat_answers``.

    Args:
        chat: the model. It is asked at temperature 0 unless its options say another, or None for models that take none.
        groups: the values of every concept group.
        questions: by concept group, the question instead of "Which age does this picture show?".

    Raises:
        OptionError: no groups, or a question about another one.
    """

    def __init__(
        self,
        chat: OpenAIChat,
        groups: Mapping[str, Collection[str]],
        questions: Mapping[str, str] | None = None,
    ) -> None:
        if not groups:
            raise OptionError("a classifier needs at least one concept group")
        unknown = sorted((questions or {}).keys() - groups.keys())
        if unknown:
            raise OptionError(
                f"there is no group {unknown[0]!r}", location="questions", hint=f"Known: {', '.join(groups)}."
            )
        self._chat = at_zero_temperature(chat)
        self._groups = {group: tuple(values) for group, values in groups.items()}
        self._questions = dict(questions or {})

    @blocks
    async def classify(self, item: Item) -> dict[str, str | None]:
        """Return the value of every group; None where the model cannot tell.

        Raises:
            DataError: a picture of a type that models do not take.
            FetchError: the service does not answer, or refuses.
            ModelError: its answer holds no text, or the model declines.
        """
        said = await gather(*(self._ask_value(item, group, values) for group, values in self._groups.items()))
        return dict(zip(self._groups, said, strict=True))

    async def _ask_value(self, item: Item, group: str, values: Sequence[str]) -> str | None:
        reply = await call(self._chat.reply, self._question(item, group, values))
        answer = read_choice(reply, _with_unsure(values), entry=group)
        return answer if answer in values else None

    def _question(self, item: Item, group: str, values: Sequence[str]) -> str | list[dict[str, Any]]:
        what = "picture" if item.kind == "image" else "text"
        asked = self._questions.get(group, f"Which {group} does this {what} show?")
        question = choice_question(asked, _with_unsure(values))
        if item.kind == "text":
            return quote_text("text", item.text, question)
        if item.media_type not in VISIBLE_TYPES:
            raise DataError(
                f"no model looks at an item of type {item.media_type}", hint=f"One of: {', '.join(VISIBLE_TYPES)}."
            )
        address = f"data:{item.media_type};base64,{base64.b64encode(item.data).decode()}"
        return [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": address}}]
