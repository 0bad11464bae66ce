"""Classifiers of items: functions, words in texts, and models behind an endpoint."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from evenhand.core.coroutines import blocks, call, gather, never_blocks
from evenhand.errors import DataError, ModelError, OptionError
from evenhand.genai.backends.generator import Item, WordMatcher
from evenhand.genai.backends.openai_service import OpenAIChat, at_zero_temperature, choice_question, quote_text
from evenhand.genai.spec.entries import check_known
from evenhand.models.language.chat_answers import choice_parser, read_choice


class Classifier(Protocol):
    """Classifier of items."""

    def classify(self, item: Item) -> dict[str, str | None]:
        """Return the value of each known concept group. None if it is unknown.

        Raises:
            EvenhandError: The item cannot be classified, which is not the same as showing no value.
        """
        ...


class FunctionClassifier:
    """Classifier that calls a function.

    Args:
        function: Function that maps an item to a value, or None, for each concept group.
        groups: Values of each concept group. Any other answer counts as "cannot tell".
    """

    def __init__(
        self, function: Callable[[Item], Mapping[str, str | None]], groups: Mapping[str, Collection[str]]
    ) -> None:
        self._function = function
        self._parsers = {group: choice_parser(tuple(values)) for group, values in groups.items()}

    def classify(self, item: Item) -> dict[str, str | None]:
        """Return the value of each group. None if the function cannot tell. Other answers raise a ModelError."""
        answers = self._function(item)
        if not isinstance(answers, Mapping):
            raise ModelError(
                f"the classifier answered {answers!r}", hint="return a mapping from concept groups to values"
            )
        values: dict[str, str | None] = {}
        for group, parse in self._parsers.items():
            answer = answers.get(group)
            if answer is not None and not isinstance(answer, str):
                raise ModelError(f"the classifier answered {answer!r} for {group!r}, which is neither text nor None")
            values[group] = None if answer is None else parse(answer)
        return values


class LexiconClassifier:
    """Classifier of texts by words. The value of a group is unknown unless words of exactly one value occur.

    Args:
        groups: Words and phrases by concept group and value, which are matched as whole words in any case.

    >>> lexicon = LexiconClassifier({"gender": {"woman": ["she", "her"], "man": ["he", "his"]}})
    >>> lexicon.classify(Item.of_text("She thanked her team.")), lexicon.classify(Item.of_text("He met her."))
    ({'gender': 'woman'}, {'gender': None})
    """

    def __init__(self, groups: Mapping[str, Mapping[str, Collection[str]]]) -> None:
        if not groups:
            raise OptionError("a lexicon requires at least one concept group")
        self._matchers = {
            group: {value: WordMatcher(words) for value, words in values.items()} for group, values in groups.items()
        }

    @never_blocks
    def classify(self, item: Item) -> dict[str, str | None]:
        """Return the value of each group. Raises a DataError if the item is not text."""
        text = item.text
        values: dict[str, str | None] = {}
        for group, matchers in self._matchers.items():
            matches = [value for value, matcher in matchers.items() if matcher.is_in(text)]
            values[group] = matches[0] if len(matches) == 1 else None
        return values


UNSURE_ANSWER = "cannot tell"
"""Answer that is always permitted."""

VISIBLE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""Media types that models accept."""


def _with_unsure(values: Sequence[str]) -> Sequence[str]:
    return values if UNSURE_ANSWER in values else [*values, UNSURE_ANSWER]


class ChatClassifier:
    """Classifier that asks a model one question per concept group, whose answers are the values and "cannot tell".

    Pictures are sent as data URLs, so the model must accept pictures. An answer that does not state exactly one value
    counts as "cannot tell". See ``evenhand.models.language.chat_answers``.

    Args:
        chat: The model. Its temperature is 0 unless its options set a different value, or None for models without one.
        groups: Values of each concept group.
        questions: Question by concept group. Default: "Which age does this picture show?".

    Raises:
        OptionError: There are no groups, or a question concerns an unknown one.
    """

    def __init__(
        self, chat: OpenAIChat, groups: Mapping[str, Collection[str]], questions: Mapping[str, str] | None = None
    ) -> None:
        if not groups:
            raise OptionError("a classifier requires at least one concept group")
        self._questions = dict(questions or {})
        for group in self._questions:
            check_known(group, groups, "group", "questions")
        self._chat = at_zero_temperature(chat)
        self._groups = {group: tuple(values) for group, values in groups.items()}

    @blocks
    async def classify(self, item: Item) -> dict[str, str | None]:
        """Return the value of each group. None if the model cannot tell.

        Raises:
            EvenhandError: The model does not accept this type, the service is unavailable, or there is no answer.
        """
        values = await gather(*(self._ask_value(item, group) for group in self._groups))
        return dict(zip(self._groups, values, strict=True))

    async def _ask_value(self, item: Item, group: str) -> str | None:
        values = self._groups[group]
        reply = await call(self._chat.reply, self._question(item, group, values))
        answer = read_choice(reply, _with_unsure(values), entry=group)
        return answer if answer in values else None

    def _question(self, item: Item, group: str, values: Sequence[str]) -> str | list[dict[str, Any]]:
        kind = "picture" if item.kind == "image" else "text"
        text = self._questions.get(group, f"Which {group} does this {kind} show?")
        question = choice_question(text, _with_unsure(values))
        if item.kind == "text":
            return quote_text("text", item.text, question)
        if item.media_type not in VISIBLE_TYPES:
            raise DataError(
                f"models do not accept items of type {item.media_type}", hint=f"one of: {', '.join(VISIBLE_TYPES)}"
            )
        url = f"data:{item.media_type};base64,{base64.b64encode(item.data).decode()}"
        return [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": url}}]
