"""Judges of prompts, which identify conditions and fixed groups: keywords, functions, and a model over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from evenhand.core.coroutines import blocks, call, gather, never_blocks
from evenhand.errors import ModelError, OptionError
from evenhand.genai.backends.generator import WordMatcher
from evenhand.genai.backends.openai_service import OpenAIChat, at_zero_temperature, choice_question, quote_text
from evenhand.genai.spec.entries import check_values
from evenhand.genai.spec.specification import GenerationConfig
from evenhand.models.language.chat_answers import read_choice


class Judge(Protocol):
    """Judge of prompts."""

    def conditions(self, prompt: str) -> frozenset[str]:
        """Return the names of the conditions that hold, in the form that ``Enforcer.admit`` expects.

        Raises:
            EvenhandError: The conditions are unknown, which is not the same as no condition.
        """
        ...

    def fixed_groups(self, prompt: str) -> frozenset[str]:
        """Return the concept groups whose value the prompt itself fixes, such as the age in "an elderly leader".

        Raises:
            EvenhandError: The groups are unknown, which is not the same as no group.
        """
        ...


class KeywordJudge:
    """Judge of prompts by keywords.

    A condition holds if one of its keywords or its English plural is in the prompt, as a whole word or phrase. A group
    is fixed if words for one of its values are in the prompt. Grammar is not analysed: "not a child" fixes the age.

    Args:
        keywords: Keywords by condition.
        words: Words by concept group and value. Prompts never fix groups without words.

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
        self._conditions = {name: WordMatcher(own, plurals=True) for name, own in keywords.items()}
        self._groups = {
            group: [WordMatcher(own, plurals=True) for own in values.values()]
            for group, values in (words or {}).items()
        }

    @classmethod
    def of(
        cls, configuration: GenerationConfig, words: Mapping[str, Mapping[str, Collection[str]]] | None = None
    ) -> KeywordJudge:
        """Build a judge from the keywords and groups of a configuration, whose values fix their group by name.

        Args:
            configuration: Configuration. The value ``other`` fixes nothing.
            words: Words that replace the name of a value, by concept group and value.

        Raises:
            OptionError: A condition has no keywords, or a group or value is unknown.
        """
        stated = words or {}
        missing = [condition.name for condition in configuration.conditions if not condition.keywords]
        if missing:
            raise OptionError(
                f"the keywords of {', '.join(map(repr, missing))} are missing",
                location="conditions",
                hint="give every condition keywords, or judge prompts by a model or by functions",
            )
        groups = configuration.values
        check_values(stated, groups, "words")
        return cls(
            {condition.name: condition.keywords for condition in configuration.conditions},
            {
                group: {value: [value] for value in values if value.casefold() != "other"} | dict(stated.get(group, {}))
                for group, values in groups.items()
            },
        )

    @never_blocks
    def conditions(self, prompt: str) -> frozenset[str]:
        """Return the conditions with a keyword in the prompt."""
        return frozenset(name for name, matcher in self._conditions.items() if matcher.is_in(prompt))

    @never_blocks
    def fixed_groups(self, prompt: str) -> frozenset[str]:
        """Return the groups with words for one of their values in the prompt."""
        return frozenset(
            group for group, matchers in self._groups.items() if any(matcher.is_in(prompt) for matcher in matchers)
        )


class FunctionJudge:
    """Judge that calls a function for each condition and concept group.

    Args:
        functions: Function by condition, which returns True or False for a prompt.
        fixed: Function by concept group. Prompts never fix other groups.
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[[str], bool]],
        fixed: Mapping[str, Callable[[str], bool]] | None = None,
    ) -> None:
        self._functions = dict(functions)
        self._fixed = dict(fixed or {})

    def conditions(self, prompt: str) -> frozenset[str]:
        """Return the conditions whose functions return True."""
        return _true_functions(self._functions, prompt)

    def fixed_groups(self, prompt: str) -> frozenset[str]:
        """Return the groups whose functions return True."""
        return _true_functions(self._fixed, prompt)


def _true_functions(functions: Mapping[str, Callable[[str], bool]], prompt: str) -> frozenset[str]:
    """Return the names of the functions that return True. Answers other than True and False raise a ModelError."""
    answers = {name: function(prompt) for name, function in functions.items()}
    for name, answer in answers.items():
        # The text "no" would otherwise count as true.
        if not isinstance(answer, bool):
            raise ModelError(f"the judge of {name!r} answered {answer!r}, which is neither True nor False")
    return frozenset(name for name, answer in answers.items() if answer)


_ANSWERS = ("yes", "no")
_MAX_QUOTED = 80
"""Maximum number of characters of an answer that are shown in a message."""


class ChatJudge:
    """Judge that asks a model one question per condition, and one per concept group.

    An answer that states neither yes nor no, or both, is an error. See ``evenhand.models.language.chat_answers``.

    Args:
        chat: The model. Its temperature is 0 unless its options set a different value, or None for models without one.
        questions: Yes/no question about a prompt by condition.
        groups: Values of each concept group that a prompt may fix. Prompts never fix other groups.
    """

    def __init__(
        self, chat: OpenAIChat, questions: Mapping[str, str], groups: Mapping[str, Collection[str]] | None = None
    ) -> None:
        self._chat = at_zero_temperature(chat)
        self._questions = dict(questions)
        self._group_questions = {
            group: f"Does this prompt itself say which {group} must be shown, one of: {', '.join(values)}?"
            for group, values in (groups or {}).items()
        }

    @classmethod
    def of(cls, configuration: GenerationConfig, chat: OpenAIChat) -> ChatJudge:
        """Build a judge from the questions (``judge``) or names of conditions, and the groups of a configuration."""
        questions = {
            condition.name: condition.judge or f"Does this prompt ask for {condition.name!r}?"
            for condition in configuration.conditions
        }
        return cls(chat, questions, configuration.values)

    @blocks
    async def conditions(self, prompt: str) -> frozenset[str]:
        """Return the conditions that hold according to the model. See ``Judge.conditions``."""
        return await self._find_affirmed(prompt, self._questions)

    @blocks
    async def fixed_groups(self, prompt: str) -> frozenset[str]:
        """Return the groups that the prompt fixes according to the model. See ``Judge.fixed_groups``."""
        return await self._find_affirmed(prompt, self._group_questions)

    async def _find_affirmed(self, prompt: str, questions: Mapping[str, str]) -> frozenset[str]:
        """Return the names of the questions that are answered with yes."""
        answers = await gather(*(self._ask_yes_no(prompt, name, question) for name, question in questions.items()))
        return frozenset(name for name, yes in zip(questions, answers, strict=True) if yes)

    async def _ask_yes_no(self, prompt: str, name: str, question: str) -> bool:
        reply = await call(self._chat.reply, quote_text("prompt", prompt, choice_question(question, _ANSWERS)))
        answer = read_choice(reply, _ANSWERS, entry=name)
        if answer is None:
            text = " ".join(reply.split())
            quoted = text[:_MAX_QUOTED] + "..." if len(text) > _MAX_QUOTED else text
            raise ModelError(
                f"the judge's answer about {name!r} must be yes or no, got {quoted!r}",
                location=self._chat.wire.url,
                hint="use a larger model, or a simpler question as judge: of the condition",
            )
        return answer == "yes"
