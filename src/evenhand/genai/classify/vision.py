"""What a model says that a picture or a text shows."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from evenhand.errors import DataError, OptionError
from evenhand.genai.backends.chat import OpenAIChat
from evenhand.genai.backends.item import Item
from evenhand.genai.classify.classifier import exact_label
from evenhand.genai.questions import about, answer_in, choose, steady

UNSURE = "cannot tell"
"""The answer that a model may always give."""

SEEN = ("image/png", "image/jpeg", "image/webp", "image/gif")
"""Types of pictures that models take."""


class ChatClassifier:
    """Asks a model one question for every concept group, with the group's values and "cannot tell" as answers.

    A picture is sent as a data URL, so for pictures the model must be one that sees. An answer that is not exactly one
    of the values is taken for "cannot tell"; a JSON object with such a value is as good.

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
                f"there is no group {unknown[0]!r}", where="questions", mend=f"Known: {', '.join(groups)}."
            )
        self._chat = steady(chat)
        self._groups = {group: tuple(values) for group, values in groups.items()}
        self._questions = dict(questions or {})

    def classify(self, item: Item) -> dict[str, str | None]:
        """The value of every group; None where the model cannot tell.

        Raises:
            DataError: a picture of a type that models do not take.
            FetchError: the service does not answer, or refuses.
            ModelError: its answer holds no text, or the model declines.
        """
        found = {}
        for group, values in self._groups.items():
            reply = self._chat.reply(self._question(item, group, values))
            found[group] = exact_label(answer_in(reply, group), values)
        return found

    def _question(self, item: Item, group: str, values: Sequence[str]) -> str | list[dict[str, Any]]:
        what = "picture" if item.kind == "image" else "text"
        asked = self._questions.get(group, f"Which {group} does this {what} show?")
        question = choose(asked, [*values, *([] if UNSURE in values else [UNSURE])])
        if item.kind == "text":
            return about("text", item.text, question)
        if item.media_type not in SEEN:
            raise DataError(f"no model looks at an item of type {item.media_type}", mend=f"One of: {', '.join(SEEN)}.")
        address = f"data:{item.media_type};base64,{base64.b64encode(item.data).decode()}"
        return [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": address}}]
