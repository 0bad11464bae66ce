"""Swapping of identity terms in texts, with case and articles (a, an) adapted.

If a text mentions both groups, their terms are exchanged: "he asked her" becomes "she asked him", not "she asked her".
This is the metamorphic relation of Ma, Wang & Liu, "Metamorphic testing and certified mitigation of fairness violations
in NLP models", IJCAI 2020, extended from one word per group to corresponding word forms.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property

from evenhand.datasets.identity.lists import IdentityCategory

_FUNCTION_WORD_LIST = """
a about across after again against all along already also although always am among an and anyway are around as
at away back because been before behind being below beside between both but by did do does down during each
either even ever every for from gets got had has have he how i if in inside into is it its just left like me
more my near never nor not now of off on once or our out outside over said she since so some than that the their
them then there these they this those through till to today together tomorrow too toward under until up us was
we well were what when where which while who whom why will with without would yesterday yet you your
"""

FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())
"""A pronoun before one of these words is not a possessive: "I saw her there", unlike "her book"."""

WORD = re.compile(r"\w+")

SILENT_H = re.compile(r"(?:hour|honest|honou?r|heir)", re.IGNORECASE)
SOUNDS_LIKE_YOU = re.compile(r"(?:uni(?!n|m)|u[kgrst]|use|eu|one\b|once\b|ukr)", re.IGNORECASE)


@dataclass(frozen=True)
class TermMention:
    """Identity term in a text.

    Attributes:
        start, end: Positions of the term and its article in the text.
        article: Preceding ``a`` or ``an`` with the space after it; empty if there is none.
        term: Term as it is written in the text.
        group: Position of the group in the category.
        row: Position of the row in the category.
    """

    start: int
    end: int
    article: str
    term: str
    group: int
    row: int


@dataclass(frozen=True)
class SwapTemplate:
    """Text whose terms of one group can be swapped for those of other groups.

    Attributes:
        text: Original text.
        group: Group whose terms are in the text.
        pieces: Text split before and after each term, shape (2 * terms + 1,). Every second piece is a term.
        swapped: Replacement terms by group. The first group is the one whose terms occur in the original text.
    """

    text: str
    group: str
    pieces: tuple[str, ...]
    swapped: Mapping[str, tuple[str, ...]]

    def of(self, group: str) -> str:
        """Return the text with the terms of a group."""
        return self._fill_terms(self.swapped[group])

    @property
    def variants(self) -> list[str]:
        """Texts with the terms of each group, in the order of ``swapped``; the original text is the first."""
        return [self.of(group) for group in self.swapped]

    def between(self, group: str, other: str) -> str:
        """Combine both variants in one text: ``{He|She} asked for {his|her} pay``."""
        pairs = zip(self.swapped[group], self.swapped[other], strict=True)
        return self._fill_terms(tuple(itertools.starmap(_inline_choice, pairs)))

    def _fill_terms(self, terms: tuple[str, ...]) -> str:
        parts = list(self.pieces)
        parts[1::2] = terms
        return "".join(parts)


class TermSwapper:
    """Finds and swaps the terms of a category.

    Args:
        category: Groups and their words.
    """

    def __init__(self, category: IdentityCategory) -> None:
        self.category = category

    @cached_property
    def _rows_of(self) -> dict[str, list[tuple[int, int]]]:
        """Rows and groups by term key, in the order of the rows."""
        rows_of: dict[str, list[tuple[int, int]]] = {}
        for number, row in enumerate(self.category.rows):
            for group, word in enumerate(row.words):
                if word is not None and word not in self.category.replacement_only:
                    rows_of.setdefault(_term_key(word), []).append((number, group))
        return rows_of

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self._rows_of, key=lambda term: (-len(term), term))
        terms = "|".join(re.escape(term).replace("\\ ", r"[\s-]+").replace(r"\-", r"[\s-]+") for term in longest_first)
        return re.compile(rf"(?P<article>\b(?:an?)\s+)?(?<![\w'\u2019-])(?P<term>{terms})(?![\w-])", re.IGNORECASE)

    @cached_property
    def _words(self) -> tuple[frozenset[str], list[frozenset[str]]]:
        """Terms of one word, and the words of each other term."""
        terms = [frozenset(WORD.findall(term)) for term in self._rows_of]
        return frozenset().union(*(term for term in terms if len(term) == 1)), [term for term in terms if len(term) > 1]

    def may_mention(self, words: Set[str]) -> bool:
        """Check quickly whether a text with these words (see ``words_of``) can contain a term."""
        single, several = self._words
        return not single.isdisjoint(words) or any(term <= words for term in several)

    def mentions(self, text: str) -> list[TermMention]:
        """Find the terms in a text, in order and without overlaps."""
        mentions = []
        for match in self._pattern.finditer(text):
            article, term = match["article"] or "", match["term"]
            candidates = self._rows_of[_term_key(term)]
            contexts = _matching_contexts(text, match.end(), bool(article))
            matching = (pair for pair in candidates if self.category.rows[pair[0]].where in contexts)
            row, group = next(matching, candidates[-1])
            mentions.append(TermMention(match.start(), match.end(), article, term, group, row))
        return mentions

    def slots(self, text: str) -> list[SwapTemplate]:
        """Build one template per mentioned group that can be swapped for at least one other group.

        Two groups that can only be exchanged with each other yield one template.
        """
        mentions = self.mentions(text)
        slots: dict[frozenset[str], SwapTemplate] = {}
        for own in dict.fromkeys(mention.group for mention in mentions):
            slot = self._slot(text, mentions, own)
            variants = frozenset(slot.variants)
            if len(variants) > 1:
                slots.setdefault(variants, slot)
        return list(slots.values())

    def _slot(self, text: str, mentions: list[TermMention], own: int) -> SwapTemplate:
        groups = self.category.groups
        cuts = [0, *(cut for mention in mentions for cut in (mention.start, mention.end)), len(text)]
        pieces = tuple(text[start:end] for start, end in itertools.pairwise(cuts))
        swapped = {groups[own]: pieces[1::2]}
        for other in (group for group in range(len(groups)) if group != own):
            terms = [term for mention in mentions if (term := self._replacement_term(mention, own, other)) is not None]
            if len(terms) == len(mentions):
                swapped[groups[other]] = tuple(terms)
        return SwapTemplate(text=text, group=groups[own], pieces=pieces, swapped=swapped)

    def _replacement_term(self, mention: TermMention, own: int, other: int) -> str | None:
        """Return the replacement for a mention and its article when two groups are exchanged, or None."""
        if mention.group not in (own, other):
            return mention.article + mention.term
        words = self.category.rows[mention.row].words
        word, canonical = words[other if mention.group == own else own], words[mention.group]
        if word is None or canonical is None:
            return None
        replacement = _copy_case(word, mention.term, canonical)
        return _adapt_article(mention.article, mention.term, replacement) + replacement


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text in lower case."""
    return frozenset(WORD.findall(text.lower()))


def _inline_choice(term: str, replacement: str) -> str:
    """Combine two terms as ``{term|replacement}``, after a shared article."""
    if term == replacement:
        return term
    article, _, noun = term.rpartition(" ") if term.count(" ") == 1 else ("", "", term)
    if article and replacement.startswith(f"{article} ") and article.lower() in ("a", "an"):
        return f"{article} {{{noun}|{replacement[len(article) + 1 :]}}}"
    return f"{{{term}|{replacement}}}"


def _term_key(term: str) -> str:
    return re.sub(r"[\s-]+", " ", term).lower()


def _matching_contexts(text: str, end: int, article: bool) -> set[str]:
    """Return the row contexts that match a term ending at this position."""
    following = re.match(r"\s+([A-Za-z]+)", text[end : end + 40])
    if following is not None and following[1].lower() not in FUNCTION_WORDS:
        return {"anywhere", "before a word"}
    return {"anywhere", "after an article"} if article else {"anywhere"}


def _copy_case(word: str, term: str, canonical: str) -> str:
    """Convert a word to the case of the term that it replaces."""
    if term.isupper() and len(term) > 1:
        return word.upper()
    if term.islower() and not canonical.islower():
        return word.lower()
    if term[:1].isupper() and canonical[:1].islower():
        return word[:1].upper() + word[1:]
    return word


def _adapt_article(article: str, term: str, replacement: str) -> str:
    """Change the article (a, an) if the replacement begins with a different sound."""
    if _starts_with_vowel(term) == _starts_with_vowel(replacement):
        return article
    letters, space = article.rstrip(), article[len(article.rstrip()) :]
    if len(letters) == 1:
        return letters + ("N" if letters.isupper() and replacement.isupper() else "n") + space
    return letters[:1] + space


def _starts_with_vowel(word: str) -> bool:
    """Check whether a word begins with a vowel sound, judged by its spelling."""
    if SILENT_H.match(word):
        return True
    return word[:1].lower() in "aeiou" and not SOUNDS_LIKE_YOU.match(word)
