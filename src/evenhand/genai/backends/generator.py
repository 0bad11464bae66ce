"""An item, what generates items, the words that ask for values, and recorded items played back."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from evenhand.errors import DataError, OptionError

ItemKind: TypeAlias = Literal["image", "text"]


@dataclass(frozen=True)
class Item:
    """A picture or a text.

    Attributes:
        kind: ``image`` or ``text``.
        data: its bytes; a text's are UTF-8.
        media_type: such as ``image/png``.
        revised_prompt: the prompt that the service really used, if it says so.
        usage: what the service charges for, if it says so, such as ``{"total_tokens": 120}``.
        answer: all that the service said, where that is handed on.
    """

    kind: ItemKind
    data: bytes
    media_type: str
    revised_prompt: str = field(default="", compare=False)
    usage: Mapping[str, Any] = field(default_factory=dict, compare=False)
    answer: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of_text(cls, text: str, usage: Mapping[str, Any] | None = None) -> Item:
        """Return a text as an item."""
        return cls("text", text.encode(), "text/plain", usage=usage or {})

    @property
    def text(self) -> str:
        """The text.

        Raises:
            DataError: it is a picture, or no UTF-8.
        """
        if self.kind != "text":
            raise DataError(f"an item of type {self.media_type} is not text")
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            raise DataError(f"a text is not UTF-8: {error}") from error


def add_usage(before: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return what two answers charge for together: numbers added, also those in parts.

    >>> add_usage({"total_tokens": 3}, {"total_tokens": 4, "details": {"text": 1}})
    {'total_tokens': 7, 'details': {'text': 1}}
    """
    found = dict(before)
    for name, value in more.items():
        known = found.get(name)
        if isinstance(value, Mapping):
            found[name] = add_usage(known if isinstance(known, Mapping) else {}, value)
        elif isinstance(value, int | float) and isinstance(known, int | float):
            found[name] = known + value
        else:
            found[name] = value if known is None else known
    return found


class Generator(Protocol):
    """What makes items for prompts."""

    def generate(self, prompt: str) -> Item:
        """Return one item; asked again with the same prompt, it may make another.

        Raises:
            EvenhandError: it made none.
        """
        ...


@runtime_checkable
class Resumable(Protocol):
    """A generator whose items depend on how many it made before."""

    def resume(self, made: int) -> None:
        """Go on as if so many items had been made already."""
        ...


# The words that ask for values in a prompt, and how they are read back.


_CLAUSE = re.compile(r"\(showing:([^()]*)\)|\bshowing:([^()\n]*)", re.IGNORECASE)


def add_instruction(prompt: str, must: Mapping[str, Collection[str]]) -> str:
    """Return the prompt with a clause that asks for values; unchanged if nothing must be asked for.

    Args:
        must: for concept groups, the values, any of which will do; as in an admission.

    >>> add_instruction("a business leader", {"age": ("elderly",), "gender": ("woman", "man")})
    'a business leader (showing: age elderly, gender woman or man)'
    """
    if not must:
        return prompt
    clause = ", ".join(f"{group} {' or '.join(values)}" for group, values in must.items())
    return f"{prompt} (showing: {clause})"


def parse_instruction(prompt: str, groups: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    """Return the values that a prompt asks for, by concept group; groups it says nothing about are left out.

    A clause ``showing: group value`` decides about the groups it names. Else values count that stand in the prompt as
    whole words, so that "an elderly woman" asks for both. No grammar is read: "not a child" asks for a child.

    >>> prompt = "a leader, make sure that she is elderly"
    >>> parse_instruction(prompt, {"age": ("child", "elderly"), "gender": ("woman", "man")})
    {'age': ('elderly',)}
    """
    clauses = {}
    for match in _CLAUSE.finditer(prompt):
        for part in (match[1] or match[2] or "").split(","):
            group, _, rest = part.strip().partition(" ")
            clauses[group.casefold()] = rest
    plain = _CLAUSE.sub(" ", prompt)
    asked = {}
    for group, values in groups.items():
        text = clauses.get(group.casefold(), plain)
        named = tuple(value for value in values if WordMatcher([value]).is_in(text))
        if named:
            asked[group] = named
    return asked


# Whole words and phrases in a text: 'asian' is not in 'caucasian'.

_IGNORABLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control characters, and the code points that Unicode calls default ignorable: readers do not see them."""

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
                f"{phrases!r} names no words to look for", hint="Give at least one word, none of them empty."
            )
        # An underscore is a mark of emphasis in Markdown, and no part of a word.
        self._pattern = re.compile(rf"(?<![^\W_])(?:{'|'.join(patterns)})(?![^\W_])")

    def is_in(self, text: str) -> bool:
        """Return whether any of the words is in the text."""
        # Invisible characters may be in a word or between two words.
        for folded in {_fold(text), _fold(_IGNORABLE.sub(" ", text))}:
            # Accents may be added to a keyword without accents, but those of a keyword must be there.
            plain = _MARKS.sub("", unicodedata.normalize("NFD", folded))
            if self._pattern.search(folded) or self._pattern.search(unicodedata.normalize("NFC", plain)):
                return True
        return False


def _fold(text: str) -> str:
    """Fold case and compatibility forms, and remove what readers do not see."""
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


# A sequence of items that was recorded, played back.


MEDIA_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "image/gif": ".gif",
    "image/svg+xml": ".svg",
    "text/plain": ".txt",
}
"""How files of items end, by media type."""

_MEDIA_TYPES = {**{suffix: media_type for media_type, suffix in MEDIA_SUFFIXES.items()}, ".jpeg": "image/jpeg"}


class Playback:
    """A generator that hands out recorded items in their order, whatever it is asked for.

    Args:
        items: in the order in which they are handed out.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = list(items)
        self._next = 0

    @classmethod
    def of_files(cls, paths: Iterable[Path]) -> Playback:
        """Return the items in files: pictures by their suffix, and texts in ``.txt``.

        Raises:
            DataError: a file cannot be read, or its suffix is unknown.
        """
        return cls([_read_item(Path(path)) for path in paths])

    def __len__(self) -> int:
        """Return how many items are left."""
        return len(self._items) - self._next

    def resume(self, made: int) -> None:
        """Go on as if so many items had been handed out already."""
        self._next = min(made, len(self._items))

    def generate(self, prompt: str) -> Item:
        """Return the next item.

        Raises:
            DataError: there are no more.
        """
        if not len(self):
            raise DataError(
                f"all {len(self._items)} recorded items were played back", hint="Record more, or ask for fewer."
            )
        item = self._items[self._next]
        self._next += 1
        return item


def _read_item(path: Path) -> Item:
    media_type = _MEDIA_TYPES.get(path.suffix.lower())
    if media_type is None:
        raise DataError(f"{path.name} is neither a picture nor a text", hint=f"Known: {', '.join(_MEDIA_TYPES)}.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", location=str(path)) from error
    return Item("text" if media_type == "text/plain" else "image", data, media_type)
