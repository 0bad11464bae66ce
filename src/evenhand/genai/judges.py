"""Judges of prompts, which say what is asked for and what is fixed: keywords, functions, and a model over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from evenhand.core.coroutines import blocks, call, gather
from evenhand.errors import ModelError, OptionError
from evenhand.genai.backends.generator import WordMatcher
from evenhand.genai.backends.openai_service import (
    OpenAIChat,
    at_zero_temperature,
    choice_question,
    quote_text,
)
from evenhand.genai.spec.specification import GenerationConfig
from evenhand.models.language.chat_answers import read_choice


class Judge(Protocol):
    """What says which conditions a prompt asks for, and what it leaves open."""

    def conditions(self, prompt: str) -> frozenset[str]:
        """Return the names of the conditions that hold, as ``Enforcer.admit`` takes them.

        Raises:
            EvenhandError: it cannot say, which is another thing than that none holds.
        """
        ...

    def fixed_groups(self, prompt: str) -> frozenset[str]:
        """Return the concept groups whose value the prompt itself fixes, such as the age in "an elderly leader".

        Raises:
            EvenhandError: it cannot say, which is another thing than that none is fixed.
        """
        ...


class KeywordJudge:
    """Judge of prompts by keywords.

    A condition holds if one of its keywords or its English plural is in the prompt, as a whole word or phrase. A group
    is fixed if words for one of its values are in the prompt. Grammar is not analysed: "not a child" fixes the age.

    Args:
        keywords: Keywords by condition.
        words: Words by concept group and value. Groups without words are never fixed.

    >>> judge = KeywordJudge({"leader": ["leader", "chief executive"]}, {"age": {"elderly": ["elderly", "old"]}})
    >>> prompt = "an old Chief Executive at work"
    >>> sorted(judge.conditions(prompt)), sorted(judge.fixed_groups(prompt))
    (['leader'], ['age'])
    """

    def __init__(
        self,
        keywords: Mapping[str, Collection[str]],
        words: Mapping[str, Mapping[str, Collection[str]]] | None = None,
    ) -> None:
        self._words = {condition: WordMatcher(words_of, plurals=True) for condition, words_of in keywords.items()}
        self._fixing = {
            group: [WordMatcher(words_of, plurals=True) for words_of in values.values()]
            for group, values in (words or {}).items()
            if values
        }

    @classmethod
    def of(
        cls, configuration: GenerationConfig, words: Mapping[str, Mapping[str, Collection[str]]] | None = None
    ) -> KeywordJudge:
        """Build from the keywords and the groups in a configuration.

        Args:
            configuration: whose values fix their group by their names, but for ``other``, which is a word like any
                other.
            words: by concept group and value, words instead of the value's name.

        Raises:
            OptionError: a condition has none.
        """
        silent = [condition.name for condition in configuration.conditions if not condition.keywords]
        if silent:
            raise OptionError(
                f"nothing tells when {', '.join(map(repr, silent))} is asked for",
                location="conditions",
                hint="Give every condition keywords, or judge prompts by a model or by functions.",
            )
        return cls(
            {condition.name: condition.keywords for condition in configuration.conditions},
            _value_words(configuration.values, words or {}),
        )

    @blocks
    async def conditions(self, prompt: str) -> frozenset[str]:
        """Return the conditions with a keyword in the prompt."""
        return frozenset(condition for condition, words in self._words.items() if words.is_in(prompt))

    @blocks
    async def fixed_groups(self, prompt: str) -> frozenset[str]:
        """Return the groups with words for one of their values in the prompt."""
        return frozenset(
            group for group, values in self._fixing.items() if any(words.is_in(prompt) for words in values)
        )


class FunctionJudge:
    """A condition holds, and a concept group is fixed, if its function says so.

    Args:
        functions: by condition; each answers True or False for a prompt.
        fixed: by concept group, likewise; groups left out are never fixed.
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[[str], bool]],
        fixed: Mapping[str, Callable[[str], bool]] | None = None,
    ) -> None:
        self._functions = dict(functions)
        self._fixed = dict(fixed or {})

    def conditions(self, prompt: str) -> frozenset[str]:
        """Return the conditions whose functions say True.

        Raises:
            ModelError: one answered with something else than True or False.
        """
        return _true_functions(self._functions, prompt)

    def fixed_groups(self, prompt: str) -> frozenset[str]:
        """Return the groups whose functions say True.

        Raises:
            ModelError: one answered with something else than True or False.
        """
        return _true_functions(self._fixed, prompt)


def _true_functions(functions: Mapping[str, Callable[[str], bool]], prompt: str) -> frozenset[str]:
    held = set()
    for name, function in functions.items():
        answer = function(prompt)
        # "no" would be taken for true.
        if not isinstance(answer, bool):
            raise ModelError(f"the judge of {name!r} answered {answer!r}, which is neither True nor False")
        if answer:
            held.add(name)
    return frozenset(held)


def _value_words(
    groups: Mapping[str, Collection[str]], given: Mapping[str, Mapping[str, Collection[str]]]
) -> dict[str, dict[str, Collection[str]]]:
    """Return the words for the values of every group: those given, or the values' own names."""
    for group, values in given.items():
        if group not in groups:
            raise OptionError(
                f"there is no group {group!r}", location="words", hint=f"Known: {', '.join(groups) or 'none'}."
            )
        for value in values:
            if value not in groups[group]:
                raise OptionError(
                    f"there is no value {value!r}",
                    location=f"words.{group}",
                    hint=f"Known: {', '.join(groups[group])}.",
                )
    return {
        group: {
            value: given.get(group, {}).get(value, [value])
            for value in values
            if value in given.get(group, {}) or value.casefold() != "other"
        }
        for group, values in groups.items()
    }


# What a model says that a prompt asks for, and what it fixes.


_ANSWERS = ("yes", "no")
_MAX_QUOTED = 80
"""Characters of an answer in a message."""


class ChatJudge:
    """Asks a model about prompts: one question for every condition, and one for every concept group.

    An answer that states neither yes nor no, or both, is an error; see ``evenhand.models.language.chat_answers``.

    Args:
        chat: the model. It is asked at temperature 0 unless its options say another, or None for models that take none.
        questions: by condition, what to ask about a prompt; to be answered by yes or no.
        groups: the values of every concept group that a prompt may fix; groups left out are never fixed.
    """

    def __init__(
        self, chat: OpenAIChat, questions: Mapping[str, str], groups: Mapping[str, Collection[str]] | None = None
    ) -> None:
        self._chat = at_zero_temperature(chat)
        self._questions = dict(questions)
        self._groups = {group: tuple(values) for group, values in (groups or {}).items()}

    @classmethod
    def of(cls, configuration: GenerationConfig, chat: OpenAIChat) -> ChatJudge:
        """Build from a configuration: the questions (``judge``) of its conditions or their names, and its groups."""
        questions = {
            condition.name: condition.judge or f"Does this prompt ask for {condition.name!r}?"
            for condition in configuration.conditions
        }
        return cls(chat, questions, configuration.values)

    @blocks
    async def conditions(self, prompt: str) -> frozenset[str]:
        """Return the conditions that the model says the prompt asks for.

        Raises:
            FetchError: the service does not answer, or refuses.
            ModelError: it cannot say, or its answer holds no text.
        """
        return await self._find_affirmed(prompt, self._questions)

    @blocks
    async def fixed_groups(self, prompt: str) -> frozenset[str]:
        """Return the groups that the model says the prompt fixes.

        Raises:
            FetchError: the service does not answer, or refuses.
            ModelError: it cannot say, or its answer holds no text.
        """
        asked = {
            group: f"Does this prompt itself say which {group} must be shown, one of: {', '.join(values)}?"
            for group, values in self._groups.items()
        }
        return await self._find_affirmed(prompt, asked)

    async def _find_affirmed(self, prompt: str, questions: Mapping[str, str]) -> frozenset[str]:
        """Return the names of the questions that are answered by yes."""
        said = await gather(*(self._ask_yes_no(prompt, name, question) for name, question in questions.items()))
        return frozenset(name for name, yes in zip(questions, said, strict=True) if yes)

    async def _ask_yes_no(self, prompt: str, name: str, question: str) -> bool:
        reply = await call(self._chat.reply, quote_text("prompt", prompt, choice_question(question, _ANSWERS)))
        answer = read_choice(reply, _ANSWERS, entry=name)
        if answer is None:
            said = " ".join(reply.split())
            shown = said[:_MAX_QUOTED] + "..." if len(said) > _MAX_QUOTED else said
            raise ModelError(
                f"the judge cannot say about {name!r}: its answer is neither yes nor no but {shown!r}",
                location=self._chat.wire.url,
                hint="try a larger model, or a plainer question as judge: of the condition",
            )
        return answer == "yes"
