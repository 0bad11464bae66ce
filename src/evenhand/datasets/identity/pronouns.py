"""Pronouns and agreement: what a text in some language says of a person, whoever the person is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from evenhand.errors import OptionError

Gender = Literal["masculine", "feminine", "neutral"]

FORMS = ("they", "them", "to_them", "with_them", "their", "theirs", "themself")
"""Subject, object, indirect object, after a preposition, before a noun, without a noun, reflexive."""

GENDERS: Mapping[str, Gender] = {"he": "masculine", "she": "feminine", "they": "neutral"}
"""Pronouns as lists of names write them, in any language, and the gender that words agree with."""

BUNDLED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("en", "he"): ("he", "him", "him", "him", "his", "his", "himself"),
    ("en", "she"): ("she", "her", "her", "her", "her", "hers", "herself"),
    ("en", "they"): ("they", "them", "them", "them", "their", "theirs", "themself"),
    # A German possessive takes the ending of what is possessed: sein, seine, seinem. The template writes the ending.
    ("de", "he"): ("er", "ihn", "ihm", "ihm", "sein", "sein", "sich"),
    ("de", "she"): ("sie", "sie", "ihr", "ihr", "ihr", "ihr", "sich"),
    # French and Spanish possessives follow what is possessed, not the person: the template writes son, sa, su.
    ("fr", "he"): ("il", "le", "lui", "lui", "", "", "lui-même"),
    ("fr", "she"): ("elle", "la", "lui", "elle", "", "", "elle-même"),
    ("es", "he"): ("él", "lo", "le", "él", "", "", "sí mismo"),
    ("es", "she"): ("ella", "la", "le", "ella", "", "", "sí misma"),
}

LANGUAGES: Mapping[str, str] = {"en": "English", "de": "German", "fr": "French", "es": "Spanish"}


@dataclass(frozen=True)
class Pronouns:
    """The pronouns of one person in one language, and the gender that other words agree with.

    Attributes:
        language: its code, such as ``en``.
        gender: which form ``agree`` takes.
        forms: the pronoun by its use, ``they`` (subject), ``them`` (object), ``to_them`` (indirect object),
            ``with_them`` (after a preposition), ``their`` (before a noun), ``theirs`` (without a noun) and ``themself``
            (reflexive), as far as the language has them.
        plural_verb: whether a verb behind the subject is in the plural, as in English: they have.
    """

    language: str
    gender: Gender
    forms: Mapping[str, str] = field(default_factory=dict, hash=False)
    plural_verb: bool = False

    def form(self, name: str) -> str:
        """Return a pronoun by its use, with a capital letter where the name of the use has one.

        Raises:
            OptionError: the language has no such form that depends on the person, or no forms are known.
        """
        found = self.forms.get(name.lower())
        if found:
            return found[:1].upper() + found[1:] if name[:1].isupper() else found
        language = LANGUAGES.get(self.language, f"the language {self.language!r}")
        if self.language in ("fr", "es") and name.lower() in ("their", "theirs"):
            hint = "it follows what is possessed, not the person: write son, sa, ses (French) or su, sus (Spanish)"
            raise OptionError(f"{language} has no form of {name!r} that depends on the person", hint=hint)
        raise OptionError(
            f"there is no {name!r} for {self.gender} pronouns in {language}",
            hint="write the forms into the list of names, such as pronouns: {they: iel, them: iel}; or leave it out",
        )

    def agree(self, masculine: str, feminine: str, neutral: str | None = None) -> str:
        """Return the form of a word that agrees with the person: ``agree('ingénieur', 'ingénieure')``.

        Raises:
            OptionError: the person is neither masculine nor feminine, and no third form is given.
        """
        chosen = {"masculine": masculine, "feminine": feminine, "neutral": neutral}[self.gender]
        if chosen is None:
            raise OptionError(
                f"agree({masculine!r}, {feminine!r}) has no form for a person who is neither masculine nor feminine",
                hint="give a third form, or give the people of the list pronouns: she or he",
            )
        return chosen


def pronouns_in(language: str, name: str) -> Pronouns:
    """Return the pronouns called ``he``, ``she`` or ``they``; outside the bundled languages, their gender alone.

    Raises:
        OptionError: there are no pronouns of that name.
    """
    if name not in GENDERS:
        raise OptionError(f"there are no pronouns {name!r}", hint=f"one of: {', '.join(GENDERS)}")
    forms = dict(zip(FORMS, BUNDLED.get((language, name), ()), strict=False))
    return Pronouns(language, GENDERS[name], forms, plural_verb=(language, name) == ("en", "they"))
