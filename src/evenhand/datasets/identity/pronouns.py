"""Pronouns and grammatical agreement in several languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from evenhand.core.configuration import read_configuration
from evenhand.errors import OptionError

Gender = Literal["masculine", "feminine", "neutral"]

FORMS = ("they", "them", "to_them", "with_them", "their", "theirs", "themself")
"""Subject, object, indirect object, after a preposition, before a noun, without a noun, reflexive."""

GENDERS: Mapping[str, Gender] = {"he": "masculine", "she": "feminine", "they": "neutral"}
"""Grammatical gender by pronoun. Lists of names in any language use these English names of pronouns."""


@dataclass(frozen=True)
class Pronouns:
    """Pronouns of one person in one language, with the grammatical gender of other words.

    Attributes:
        language: Language code, such as ``en``.
        gender: Grammatical gender of the form that ``agree`` returns.
        forms: Pronouns by role: ``they`` (subject), ``them`` (object), ``to_them`` (indirect object), ``with_them``
            (after a preposition), ``their`` (before a noun), ``theirs`` (without a noun) and ``themself`` (reflexive).
            Forms that the language lacks are omitted.
        plural_verb: Whether the verb after the subject is in the plural, as in English: they have.
    """

    language: str
    gender: Gender
    forms: Mapping[str, str] = field(default_factory=dict, hash=False)
    plural_verb: bool = False

    def form(self, name: str) -> str:
        """Return the pronoun for a grammatical role, capitalised if the name is capitalised.

        Raises:
            OptionError: The language has no such form that depends on the person, or no forms are known.
        """
        if form := self.forms.get(name.lower()):
            return form[:1].upper() + form[1:] if name[:1].isupper() else form
        language = _bundled_pronouns(self.language).get("language", f"the language {self.language!r}")
        if self.language in ("fr", "es") and name.lower() in ("their", "theirs"):
            hint = "it agrees with the noun, not with the person: write son, sa, ses (French) or su, sus (Spanish)"
            raise OptionError(f"{language} has no form of {name!r} that depends on the person", hint=hint)
        raise OptionError(
            f"there is no {name!r} for {self.gender} pronouns in {language}",
            hint="add the forms to the list of names, such as pronouns: {they: iel, them: iel}, or omit the pronoun",
        )

    def agree(self, masculine: str, feminine: str, neutral: str | None = None) -> str:
        """Return the form of a word that agrees with the person: ``agree('ingénieur', 'ingénieure')``.

        Raises:
            OptionError: The person is neither masculine nor feminine, and there is no third form.
        """
        form = {"masculine": masculine, "feminine": feminine, "neutral": neutral}[self.gender]
        if form is None:
            raise OptionError(
                f"agree({masculine!r}, {feminine!r}) has no form for a person who is neither masculine nor feminine",
                hint="pass a third form, or set the pronouns of the people in the list to she or he",
            )
        return form


def pronouns_in(language: str, name: str) -> Pronouns:
    """Return the pronouns ``he``, ``she`` or ``they``. No inflected forms are available for other languages.

    Raises:
        OptionError: There are no such pronouns.
    """
    if name not in GENDERS:
        raise OptionError(f"there are no pronouns {name!r}", hint=f"one of: {', '.join(GENDERS)}")
    forms = dict(zip(FORMS, _bundled_pronouns(language).get(name, ()), strict=False))
    return Pronouns(language, GENDERS[name], forms, plural_verb=(language, name) == ("en", "they"))


@cache
def _bundled_pronouns(language: str) -> Mapping[str, Any]:
    """Read the name of a language and its pronouns. Return an empty mapping if there are none."""
    path = Path(__file__).parent / "grammar" / "pronouns.yaml"
    pronouns: Mapping[str, Any] = read_configuration(path, example="pronouns.yaml", entries="en:").get(language, {})
    return pronouns
