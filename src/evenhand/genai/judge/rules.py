"""Judges of prompts: by keywords, and by functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from evenhand.errors import ModelError, OptionError
from evenhand.genai.specification import Configuration
from evenhand.genai.words import Words


class Judge(Protocol):
    """What says which conditions a prompt asks for."""

    def conditions(self, prompt: str) -> frozenset[str]:
        """The names of the conditions that hold, as ``Enforcer.admit`` takes them.

        Raises:
            EvenhandError: it cannot say, which is another thing than that none holds.
        """
        ...


class KeywordJudge:
    """A condition holds if one of its keywords is in the prompt, as a whole word or phrase in whatever case.

    Args:
        keywords: by condition.

    >>> sorted(KeywordJudge({"leader": ["leader", "chief executive"]}).conditions("a Chief Executive at work"))
    ['leader']
    """

    def __init__(self, keywords: Mapping[str, Collection[str]]) -> None:
        self._words = {condition: Words(words) for condition, words in keywords.items()}

    @classmethod
    def of(cls, configuration: Configuration) -> KeywordJudge:
        """By the keywords in a configuration.

        Raises:
            OptionError: a condition has none.
        """
        silent = [condition.name for condition in configuration.conditions if not condition.keywords]
        if silent:
            raise OptionError(
                f"nothing tells when {', '.join(map(repr, silent))} is asked for",
                where="conditions",
                mend="Give every condition keywords, or judge prompts by functions.",
            )
        return cls({condition.name: condition.keywords for condition in configuration.conditions})

    def conditions(self, prompt: str) -> frozenset[str]:
        """The conditions with a keyword in the prompt."""
        return frozenset(condition for condition, words in self._words.items() if words.found(prompt))


class JudgeFunctions:
    """A condition holds if its function says so.

    Args:
        functions: by condition; each answers True or False for a prompt.
    """

    def __init__(self, functions: Mapping[str, Callable[[str], bool]]) -> None:
        self._functions = dict(functions)

    def conditions(self, prompt: str) -> frozenset[str]:
        """The conditions whose functions say True.

        Raises:
            ModelError: one answered with something else than True or False.
        """
        held = set()
        for condition, function in self._functions.items():
            answer = function(prompt)
            # "no" would be taken for true.
            if not isinstance(answer, bool):
                raise ModelError(f"the judge of {condition!r} answered {answer!r}, which is neither True nor False")
            if answer:
                held.add(condition)
        return frozenset(held)
