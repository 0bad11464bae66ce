"""Judges of prompts: by keywords, and by functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from evenhand.errors import ModelError, OptionError
from evenhand.genai.specification import Configuration
from evenhand.genai.words import Words


class Judge(Protocol):
    """What says which conditions a prompt asks for, and what it leaves open."""

    def conditions(self, prompt: str) -> frozenset[str]:
        """The names of the conditions that hold, as ``Enforcer.admit`` takes them.

        Raises:
            EvenhandError: it cannot say, which is another thing than that none holds.
        """
        ...

    def fixed(self, prompt: str) -> frozenset[str]:
        """The concept groups whose value the prompt itself fixes, such as the age in "an elderly leader".

        Raises:
            EvenhandError: it cannot say, which is another thing than that none is fixed.
        """
        ...


class KeywordJudge:
    """A condition holds if one of its keywords is in the prompt, as a whole word or phrase in whatever case.

    In the same way a concept group is fixed if words for one of its values are there. No grammar is read: "not a child"
    fixes the age.

    Args:
        keywords: by condition.
        words: by concept group and value, what fixes it; groups left out are never fixed.

    >>> judge = KeywordJudge({"leader": ["leader", "chief executive"]}, {"age": {"elderly": ["elderly", "old"]}})
    >>> prompt = "an old Chief Executive at work"
    >>> sorted(judge.conditions(prompt)), sorted(judge.fixed(prompt))
    (['leader'], ['age'])
    """

    def __init__(
        self,
        keywords: Mapping[str, Collection[str]],
        words: Mapping[str, Mapping[str, Collection[str]]] | None = None,
    ) -> None:
        self._words = {condition: Words(said) for condition, said in keywords.items()}
        self._fixing = {
            group: [Words(said) for said in values.values()] for group, values in (words or {}).items() if values
        }

    @classmethod
    def of(
        cls, configuration: Configuration, words: Mapping[str, Mapping[str, Collection[str]]] | None = None
    ) -> KeywordJudge:
        """By the keywords and the groups in a configuration.

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
                where="conditions",
                mend="Give every condition keywords, or judge prompts by a model or by functions.",
            )
        return cls(
            {condition.name: condition.keywords for condition in configuration.conditions},
            _words(configuration.values, words or {}),
        )

    def conditions(self, prompt: str) -> frozenset[str]:
        """The conditions with a keyword in the prompt."""
        return frozenset(condition for condition, words in self._words.items() if words.found(prompt))

    def fixed(self, prompt: str) -> frozenset[str]:
        """The groups with words for one of their values in the prompt."""
        return frozenset(
            group for group, values in self._fixing.items() if any(words.found(prompt) for words in values)
        )


class JudgeFunctions:
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
        """The conditions whose functions say True.

        Raises:
            ModelError: one answered with something else than True or False.
        """
        return _held(self._functions, prompt)

    def fixed(self, prompt: str) -> frozenset[str]:
        """The groups whose functions say True.

        Raises:
            ModelError: one answered with something else than True or False.
        """
        return _held(self._fixed, prompt)


def _held(functions: Mapping[str, Callable[[str], bool]], prompt: str) -> frozenset[str]:
    held = set()
    for name, function in functions.items():
        answer = function(prompt)
        # "no" would be taken for true.
        if not isinstance(answer, bool):
            raise ModelError(f"the judge of {name!r} answered {answer!r}, which is neither True nor False")
        if answer:
            held.add(name)
    return frozenset(held)


def _words(
    groups: Mapping[str, Collection[str]], given: Mapping[str, Mapping[str, Collection[str]]]
) -> dict[str, dict[str, Collection[str]]]:
    """Words for the values of every group: those given, or the values' own names."""
    for group, values in given.items():
        if group not in groups:
            raise OptionError(
                f"there is no group {group!r}", where="words", mend=f"Known: {', '.join(groups) or 'none'}."
            )
        for value in values:
            if value not in groups[group]:
                raise OptionError(
                    f"there is no value {value!r}", where=f"words.{group}", mend=f"Known: {', '.join(groups[group])}."
                )
    return {
        group: {
            value: given.get(group, {}).get(value, [value])
            for value in values
            if value in given.get(group, {}) or value.casefold() != "other"
        }
        for group, values in groups.items()
    }
