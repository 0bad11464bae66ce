"""Items, generators, and instructions in prompts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from evenhand.errors import DataError, OptionError

ItemKind: TypeAlias = Literal["image", "text"]


@dataclass(frozen=True)
class Item:
    """A picture or a text.

    Attributes:
        kind: ``image`` or ``text``.
        data: Content in bytes. Text is encoded as UTF-8.
        media_type: Media type, such as ``image/png``.
        revised_prompt: Prompt that the service used according to its answer.
        usage: Usage reported by the service, such as ``{"total_tokens": 120}``.
        answer: Complete answer of the service, if it is forwarded.
    """

    kind: ItemKind
    data: bytes
    media_type: str
    revised_prompt: str = field(default="", compare=False)
    usage: Mapping[str, Any] = field(default_factory=dict, compare=False)
    answer: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of_text(cls, text: str, usage: Mapping[str, Any] | None = None) -> Item:
        """Build an item from a text."""
        return cls("text", text.encode(), "text/plain", usage=usage or {})

    @property
    def text(self) -> str:
        """The text.

        Raises:
            DataError: The item is a picture, or not UTF-8.
        """
        if self.kind != "text":
            raise DataError(f"an item of type {self.media_type} is not text")
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            raise DataError(f"a text is not UTF-8: {error}") from error


def add_usage(usage: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Add the usage of two answers, including nested numbers.

    >>> add_usage({"total_tokens": 3}, {"total_tokens": 4, "details": {"text": 1}})
    {'total_tokens': 7, 'details': {'text': 1}}
    """
    total = dict(usage)
    for name, value in more.items():
        earlier = total.get(name)
        if isinstance(value, Mapping):
            total[name] = add_usage(earlier if isinstance(earlier, Mapping) else {}, value)
        elif isinstance(value, int | float) and isinstance(earlier, int | float):
            total[name] = earlier + value
        elif earlier is None:
            total[name] = value
    return total


class Generator(Protocol):
    """Generator of items."""

    def generate(self, prompt: str) -> Item:
        """Generate one item. Items for the same prompt may differ.

        Raises:
            EvenhandError: No item was generated.
        """
        ...


@runtime_checkable
class Resumable(Protocol):
    """Generator whose items depend on the number of earlier items."""

    def resume(self, made: int) -> None:
        """Continue after ``made`` items."""
        ...


# Instructions in prompts


_CLAUSE = re.compile(r"\(showing:([^()]*)\)|\bshowing:([^()\n]*)", re.IGNORECASE)


def parse_instruction(prompt: str, groups: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    """Parse the values that a prompt requests by concept group. Other groups are omitted.

    A clause ``showing: group value`` determines the groups that it names. For other groups, values that occur in the
    prompt as whole words are requested, so "an elderly woman" requests both. Grammar is not analysed: "not a child"
    requests a child.

    >>> prompt = "a leader, make sure that she is elderly"
    >>> parse_instruction(prompt, {"age": ("child", "elderly"), "gender": ("woman", "man")})
    {'age': ('elderly',)}
    """
    clauses = {}
    for match in _CLAUSE.finditer(prompt):
        for part in (match[1] or match[2] or "").split(","):
            group, _, values_text = part.strip().partition(" ")
            clauses[group.casefold()] = values_text
    remaining = _CLAUSE.sub(" ", prompt)
    requested = {}
    for group, values in groups.items():
        text = clauses.get(group.casefold(), remaining)
        named = tuple(value for value in values if _match_word(value).is_in(text))
        if named:
            requested[group] = named
    return requested


@lru_cache(maxsize=1024)
def _match_word(word: str) -> WordMatcher:
    return WordMatcher([word])


# Matching of whole words and phrases

_IGNORABLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Invisible characters: control characters, and the default ignorable code points of Unicode."""

_MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
"""Combining marks of Latin, Greek and Cyrillic letters."""

_DASHES = re.compile("[\u2010-\u2015\u2212]")
_APOSTROPHES = re.compile("[\u2018\u2019\u02bc]")

_IRREGULAR_PLURALS = {"person": "people", "child": "children"}


class WordMatcher:
    """Find words or phrases in texts, as whole words.

    Case, spacing, hyphens between words, invisible characters, added accents and compatibility forms such as full-width
    letters do not matter.

    Args:
        words: Words or phrases, at least one.
        plurals: Whether English plurals of the words match, too.

    Examples:
        >>> WordMatcher(["business leader"]).is_in("a Business  leader."), WordMatcher(["asian"]).is_in("Caucasian")
        (True, False)
        >>> WordMatcher(["leader"], plurals=True).is_in("two lea\\u00adders")
        True
    """

    def __init__(self, words: Collection[str], *, plurals: bool = False) -> None:
        phrases = [words] if isinstance(words, str) else list(words)
        patterns = []
        for phrase in phrases:
            parts = [_plural_forms(part) if plurals else [part] for part in _fold(phrase).split()]
            patterns.append(r"[\s-]+".join(f"(?:{'|'.join(map(re.escape, forms))})" for forms in parts))
        if not patterns or not all(patterns):
            raise OptionError(
                f"expected words to match, got {phrases!r}", hint="pass at least one word, and no empty words"
            )
        # An underscore marks emphasis in Markdown and is not part of a word.
        self._pattern = re.compile(rf"(?<![^\W_])(?:{'|'.join(patterns)})(?![^\W_])")

    def is_in(self, text: str) -> bool:
        """Check whether any of the words is in the text."""
        return any(map(self._pattern.search, _spellings(text)))


@lru_cache(maxsize=16)
def _spellings(text: str) -> frozenset[str]:
    """Fold a text in all ways in which words are searched. Cached, because many words are searched in each text."""
    # Invisible characters may occur within a word or between words.
    spellings = {_fold(text), _fold(_IGNORABLE.sub(" ", text))}
    # The text may add accents to a keyword, but must contain the accents of the keyword.
    return frozenset(spellings) | {
        unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", folded))) for folded in spellings
    }


def _fold(text: str) -> str:
    """Fold case and compatibility forms, and remove invisible characters."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", _IGNORABLE.sub("", text)).casefold())
    return _MARKS.sub("", _APOSTROPHES.sub("'", _DASHES.sub("-", text)))


def _plural_forms(word: str) -> list[str]:
    """Return a word and its possible English plurals."""
    if len(word) < 3 or not (word.isascii() and word.isalpha()):
        return [word]
    forms = [word]
    if word in _IRREGULAR_PLURALS:
        forms.append(_IRREGULAR_PLURALS[word])
    if word.endswith("man"):
        forms.append(f"{word[:-3]}men")
    if word.endswith(("f", "fe")):
        forms.append(f"{word.removesuffix('e').removesuffix('f')}ves")
    if word.endswith("y") and word[-2] not in "aeiou":
        forms.append(f"{word[:-1]}ies")
    elif word.endswith(("s", "x", "z", "ch", "sh", "o")):
        forms.append(f"{word}es")
    return [*forms, f"{word}s"]


MEDIA_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "image/gif": ".gif",
    "image/svg+xml": ".svg",
    "text/plain": ".txt",
}
"""Suffix of files by media type."""
