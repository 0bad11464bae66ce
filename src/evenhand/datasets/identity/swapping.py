"""Swapping identity terms in a text: one group's words for another's, with case and a/an kept right.

Where a text speaks of both groups they change places, so that "he asked her" becomes "she asked him" and not "she asked
her". This is the metamorphic relation of Ma, Wang & Liu, "Metamorphic testing and certified mitigation of fairness
violations in NLP models", IJCAI 2020, with words of the same form in place of one word per group.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from evenhand.datasets.identity import IdentityCategory
from evenhand.typing import Floats, Integers

_FUNCTION_WORD_LIST = """
a about across after again against all along already also although always am among an and anyway are around as
at away back because been before behind being below beside between both but by did do does down during each
either even ever every for from gets got had has have he how i if in inside into is it its just left like me
more my near never nor not now of off on once or our out outside over said she since so some than that the their
them then there these they this those through till to today together tomorrow too toward under until up us was
we well were what when where which while who whom why will with without would yesterday yet you your
"""

FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())
"""A pronoun that one of these follows stands alone: "I saw her there", not: "her book"."""

WORD = re.compile(r"\w+")

SILENT_H = re.compile(r"(?:hour|honest|honou?r|heir)", re.IGNORECASE)
SOUNDS_LIKE_YOU = re.compile(r"(?:uni(?!n|m)|u[kgrst]|use|eu|one\b|once\b|ukr)", re.IGNORECASE)


@dataclass(frozen=True)
class TermMention:
    """One identity term in a text.

    Attributes:
        start, end: where it stands.
        group, row: whose word it is, and which row of the category it belongs to.
        article: where an ``a`` or ``an`` before it begins, if there is one.
    """

    start: int
    end: int
    group: int
    row: int
    article: int | None


@dataclass(frozen=True)
class SwapTemplate:
    """A text in which one group's words can be swapped for other groups'.

    Attributes:
        text: as it was.
        group: whose words are in it.
        pieces: the text cut before and after each term, shape (2 * terms + 1,): every second one is a term.
        swapped: group -> the terms that take the place of the others then; the own group has the text's own.
    """

    text: str
    group: str
    pieces: tuple[str, ...]
    swapped: Mapping[str, tuple[str, ...]]

    def of(self, group: str) -> str:
        """Return the text with this group's words."""
        return self._fill_terms(self.swapped[group])

    @property
    def variants(self) -> list[str]:
        """The text with the words of every group that has them, in the order of ``swapped``: its own text first."""
        return [self.of(group) for group in self.swapped]

    def between(self, first: str, second: str) -> str:
        """Return both texts in one: ``{He|She} asked for {his|her} pay``."""
        pairs = zip(self.swapped[first], self.swapped[second], strict=True)
        return self._fill_terms(tuple(_inline_choice(one, other) for one, other in pairs))

    def _fill_terms(self, terms: tuple[str, ...]) -> str:
        parts = list(self.pieces)
        parts[1::2] = terms
        return "".join(parts)


class TermSwapper:
    """Finds a category's terms in texts.

    Args:
        category: groups and their words.
    """

    def __init__(self, category: IdentityCategory) -> None:
        self.category = category

    @cached_property
    def _rows_of(self) -> dict[str, list[tuple[int, int]]]:
        """Term, in small letters and with single blanks -> (row, group) in the order of the rows."""
        found: dict[str, list[tuple[int, int]]] = {}
        for row, one in enumerate(self.category.rows):
            for group, word in enumerate(one.words):
                if word is not None and word not in self.category.replacement_only:
                    found.setdefault(_term_key(word), []).append((row, group))
        return found

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self._rows_of, key=lambda term: (-len(term), term))
        terms = "|".join(re.escape(term).replace("\\ ", r"[\s-]+").replace(r"\-", r"[\s-]+") for term in longest_first)
        return re.compile(rf"(?P<article>\b(?:an?)\s+)?(?<![\w'\u2019-])(?P<term>{terms})(?![\w-])", re.IGNORECASE)

    @cached_property
    def _words(self) -> tuple[frozenset[str], list[frozenset[str]]]:
        """Terms of one word, and the words of all others."""
        words = [frozenset(WORD.findall(term)) for term in self._rows_of]
        return frozenset().union(*(one for one in words if len(one) == 1)), [one for one in words if len(one) != 1]

    def may_mention(self, words: Set[str]) -> bool:
        """Whether a text of these words (see ``words_of``) can hold a term: quick to know, and mostly it cannot."""
        single, several = self._words
        return not single.isdisjoint(words) or any(one <= words for one in several)

    def mentions(self, text: str) -> list[TermMention]:
        """Return the category's terms in a text, in order, none within another."""
        found = []
        for match in self._pattern.finditer(text):
            start, end = match.span("term")
            candidates = self._rows_of[_term_key(match["term"])]
            article = match.start("article") if match["article"] else None
            places = _matching_contexts(text, end, article is not None)
            row, group = next((one for one in candidates if self.category.rows[one[0]].where in places), candidates[-1])
            found.append(TermMention(start, end, group, row, article))
        return found

    def slots(self, text: str) -> list[SwapTemplate]:
        """Return the text once per group that it speaks of and that can be swapped for at least one other.

        Two groups that can only change places with each other make one slot.
        """
        mentions = self.mentions(text)
        slots: list[SwapTemplate] = []
        seen: list[set[str]] = []
        for own in dict.fromkeys(mention.group for mention in mentions):
            slot = self._slot(text, mentions, own)
            texts = {slot.of(group) for group in slot.swapped}
            if len(texts) > 1 and texts not in seen:
                slots.append(slot)
                seen.append(texts)
        return slots

    def _slot(self, text: str, mentions: list[TermMention], own: int) -> SwapTemplate:
        groups = self.category.groups
        starts = [mention.start if mention.article is None else mention.article for mention in mentions]
        cuts = [0, *(cut for start, mention in zip(starts, mentions, strict=True) for cut in (start, mention.end))]
        ends = [*cuts[1:], len(text)]
        pieces = tuple(text[start:end] for start, end in zip(cuts, ends, strict=True))
        swapped = {groups[own]: pieces[1::2]}
        for other in range(len(groups)):
            if other == own:
                continue
            terms = [self._replacement_term(text, mention, own, other) for mention in mentions]
            if None not in terms:
                swapped[groups[other]] = tuple(term for term in terms if term is not None)
        return SwapTemplate(text=text, group=groups[own], pieces=pieces, swapped=swapped)

    def _replacement_term(self, text: str, mention: TermMention, own: int, other: int) -> str | None:
        """Return what stands in a mention's place (its article included) when two groups change places."""
        before = text[mention.start if mention.article is None else mention.article : mention.end]
        if mention.group not in (own, other):
            return before
        words = self.category.rows[mention.row].words
        word, canonical = words[other if mention.group == own else own], words[mention.group]
        if word is None or canonical is None:
            return None
        term = text[mention.start : mention.end]
        written = _copy_case(word, term, canonical)
        if mention.article is None:
            return written
        return _adapt_article(text[mention.article : mention.start], term, written) + written


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, in small letters."""
    return frozenset(WORD.findall(text.lower()))


def _inline_choice(one: str, other: str) -> str:
    """Return two terms as ``{one|other}``, behind the article where they share it."""
    if one == other:
        return one
    article, _, rest = one.rpartition(" ") if one.count(" ") == 1 else ("", "", one)
    if article and other.startswith(f"{article} ") and article.lower() in ("a", "an"):
        return f"{article} {{{rest}|{other[len(article) + 1 :]}}}"
    return f"{{{one}|{other}}}"


def _term_key(term: str) -> str:
    return re.sub(r"[\s-]+", " ", term).lower()


def _matching_contexts(text: str, end: int, article: bool) -> set[str]:
    """Return which conditions of a row hold for a term that ends here."""
    following = re.match(r"\s+([A-Za-z]+)", text[end : end + 40])
    if following is not None and following[1].lower() not in FUNCTION_WORDS:
        return {"anywhere", "before a word"}
    return {"anywhere", "after an article"} if article else {"anywhere"}


def _copy_case(word: str, term: str, canonical: str) -> str:
    """Return the word in the case of the term that it replaces."""
    if term.isupper() and len(term) > 1:
        return word.upper()
    if term.islower() and not canonical.islower():
        return word.lower()
    if term[:1].isupper() and canonical[:1].islower():
        return word[:1].upper() + word[1:]
    return word


def _adapt_article(article: str, term: str, written: str) -> str:
    """Return the article, changed from a to an or back where the sound changes."""
    if _starts_with_vowel(term) == _starts_with_vowel(written):
        return article
    letters, space = article.rstrip(), article[len(article.rstrip()) :]
    if len(letters) == 1:
        return letters + ("N" if letters.isupper() and written.isupper() else "n") + space
    return letters[:1] + space


def _starts_with_vowel(word: str) -> bool:
    """Return whether a word begins with the sound of a vowel, as far as spelling tells."""
    if SILENT_H.match(word):
        return True
    return word[:1].lower() in "aeiou" and not SOUNDS_LIKE_YOU.match(word)


# Two texts that differ in identity terms alone and are decided differently.


class TextSide(BaseModel):
    """What the model says to the text with one group's words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str
    text: str
    label: str
    score: float


class TextFinding(BaseModel):
    """One text whose label changes with the words of a category.

    Attributes:
        category: which words were swapped.
        row: position of the text in the data.
        original: the group that the text speaks of.
        template: the text with both groups' words where they differ: ``{She|He} asked for {her|his} pay``.
        worse, better: the groups with the lowest and the highest score among those that disagree.
        disagreeing: groups whose words bring another label than the original's.
        gap: difference of the two scores.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    category: str
    row: int
    original: str
    template: str
    worse: TextSide
    better: TextSide
    disagreeing: tuple[str, ...]
    gap: float


def text_finding(
    category: str,
    row: int,
    slot: SwapTemplate,
    labels: Integers,
    scores: Floats,
    classes: Sequence[Any],
) -> TextFinding | None:
    """Return what swapping changed in one text; None where all variants have the same label.

    Args:
        category: whose words were swapped.
        row: position of the text in the data.
        slot: the text and what takes the words' place; the text's own group comes first.
        labels: positions in ``classes``, one per group of ``slot.swapped``.
        scores: of the favourable label, one per group.
        classes: the labels' names.
    """
    if (labels == labels[0]).all():
        return None
    groups = list(slot.swapped)
    better = int(np.argmax(scores))
    other = labels != labels[better]
    worse = int(np.argmin(np.where(other, scores, np.inf)))

    def side(which: int) -> TextSide:
        return TextSide(
            group=groups[which],
            text=slot.of(groups[which]),
            label=str(classes[labels[which]]),
            score=float(scores[which]),
        )

    return TextFinding(
        category=category,
        row=row,
        original=slot.group,
        template=slot.between(groups[worse], groups[better]),
        worse=side(worse),
        better=side(better),
        disagreeing=tuple(group for group, label in zip(groups, labels, strict=True) if label != labels[0]),
        gap=float(scores[better] - scores[worse]),
    )


def clearest_findings(findings: Sequence[TextFinding], most: int) -> tuple[TextFinding, ...]:
    """Return the findings with the widest gaps: each pair of texts once, though several rows of the data lead to it."""
    seen: set[tuple[str, frozenset[str]]] = set()
    kept = []
    for one in sorted(findings, key=lambda one: (-one.gap, one.row)):
        key = one.category, frozenset((one.worse.text, one.better.text))
        if key not in seen:
            seen.add(key)
            kept.append(one)
    return tuple(kept[:most])
