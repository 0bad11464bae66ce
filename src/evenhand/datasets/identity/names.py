"""Lists of people whose names, pronouns or other words say which group they belong to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from evenhand.core import read_configuration
from evenhand.datasets.identity.pronouns import FORMS, GENDERS, Pronouns, pronouns_in
from evenhand.datasets.tables import read_words
from evenhand.errors import DataError, OptionError
from evenhand.text import suggest_name

BUNDLED_NAMES = Path(__file__).parent / "name_lists"

PERSON_ENTRIES = ("group", "first", "last", "title", "pronouns", "birth_decade", "bearers")
LIST_ENTRIES = ("language", "source", "licence")


@dataclass(frozen=True)
class Person:
    """One person as prompts speak of them: ``{{ person.first }} {{ person.last }}: {{ person.They }} led a team``.

    Pronouns are attributes: ``they``, ``them``, ``to_them``, ``with_them``, ``their``, ``theirs``, ``themself``, each
    also with a capital letter (see ``Pronouns``).

    Attributes:
        first, last: the names; empty where the list has none.
        group: what the identity says: ``Black woman``.
        pronouns: the person's, and the gender that other words agree with.
        title: such as ``Ms.``.
        birth_decade: in which the first name was most usual; None where unknown.
        bearers: how many people bear the name; None where unknown.
        words: explicit words, affiliations and whatever else the list holds, by name.
    """

    first: str
    last: str
    group: str
    pronouns: Pronouns
    title: str = ""
    birth_decade: int | None = None
    bearers: int | None = None
    words: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first} {self.last}".strip()

    @property
    def label(self) -> str:
        """What tells the person from others of the list: the name, or the words of a person without one."""
        return self.name or ", ".join(self.words.values())

    def __str__(self) -> str:
        return self.label

    def __getattr__(self, name: str) -> str:
        """Return a pronoun: ``person.they``, ``person.Their``."""
        if name not in FORMS and name[:1].lower() + name[1:] not in FORMS:
            raise AttributeError(name)
        return self.pronouns.form(name)

    def word(self, name: str) -> str:
        """Return an explicit word or an affiliation: ``{{ person.word('club') }}``.

        Raises:
            OptionError: the list has no such word.
        """
        if name not in self.words:
            known = f"the list has: {', '.join(self.words)}" if self.words else "the list has no words beside names"
            raise OptionError(
                f"there is no word {name!r} for {self.label}", hint=suggest_name(name, self.words) + known
            )
        return self.words[name]

    def agree(self, masculine: str, feminine: str, neutral: str | None = None) -> str:
        """Return the form of a word that agrees with the person: ``{{ person.agree('ingénieur', 'ingénieure') }}``."""
        return self.pronouns.agree(masculine, feminine, neutral)

    def verb(self, singular: str, plural: str) -> str:
        """Return the form of a verb that fits the pronoun: ``{{ person.They }} {{ person.verb('has', 'have') }}``."""
        return plural if self.pronouns.plural_verb else singular


@dataclass(frozen=True)
class NameList:
    """People of several groups, whose names or words stand for their groups.

    Attributes:
        name: how to call the list.
        language: its code, such as ``en``.
        source, licence: where the names come from, and under which terms.
        groups: in the order of the file.
        people: all of them, group by group.
    """

    name: str
    language: str
    source: str
    licence: str
    groups: tuple[str, ...]
    people: tuple[Person, ...]

    def by_group(self) -> dict[str, tuple[Person, ...]]:
        """Return the people of each group."""
        return {group: tuple(one for one in self.people if one.group == group) for group in self.groups}


def name_lists() -> tuple[str, ...]:
    """Return the names of the lists that come with the package."""
    return tuple(sorted(path.stem for path in BUNDLED_NAMES.glob("*.yaml")))


def load_name_list(name: str | Path) -> NameList:
    """Return a list that comes with the package, or one of your own in a file.

    A CSV file has one row per person, with the columns ``group``, ``first``, ``last``, ``pronouns`` (``she``, ``he`` or
    ``they``), ``title``, ``birth_decade``, ``bearers``, as far as they are known. A YAML file has ``groups:``, each
    with these entries: one value for all of its people, or a list with one for each. Any other column or entry is a
    word that a prompt can use, such as an affiliation. ``language``, ``source`` and ``licence`` are of the whole list.

    Raises:
        OptionError: there is neither a list nor a file of that name.
        DataError: the file is no such list; the message names the place.
    """
    path = Path(name)
    if path.suffix.lower() not in (".yaml", ".yml", ".csv", ".tsv") and not path.exists():
        if str(name) not in name_lists():
            raise OptionError(
                f"there is no list of names called {str(name)!r}",
                hint=f"{suggest_name(str(name), name_lists())}there are: {', '.join(name_lists())}; "
                "or name a CSV or YAML file of your own",
            )
        return _bundled_list(str(name))
    return _read_yaml(path) if path.suffix.lower() in (".yaml", ".yml") else _read_table(path)


@cache
def _bundled_list(name: str) -> NameList:
    return _read_yaml(BUNDLED_NAMES / f"{name}.yaml")


def _read_table(path: Path) -> NameList:
    """Return the list in a table: one row per person."""
    frame = read_words(path).fillna("")
    about = {}
    for entry in LIST_ENTRIES:
        given = sorted({str(value).strip() for value in frame[entry]} - {""}) if entry in frame else []
        if len(given) > 1:
            raise DataError(f"column {entry!r} speaks of the whole list, and has {given}", location=str(path))
        about[entry] = given[0] if given else ""
    rows = [
        (f"{path}, line {line}", {str(entry): value for entry, value in row.items() if entry not in LIST_ENTRIES})
        for line, row in enumerate(frame.to_dict("records"), start=2)
    ]
    return _build_list(path, about, rows)


def _read_yaml(path: Path) -> NameList:
    """Return the list in a YAML file: groups with entries that hold one value, or one for each person."""
    example = "groups: {woman: {pronouns: she, first: [Ada, Eva]}, man: {pronouns: he, first: [Max, Ben]}}"
    given = read_configuration(path, example="names.yaml", entries=example, error=DataError)
    _refuse_misspelt(given, (*LIST_ENTRIES, "groups"), str(path), strict=True)
    groups = given.get("groups")
    if not isinstance(groups, Mapping):
        raise DataError(f"expected groups with their people, got {groups!r}", location=f"{path}, groups", hint=example)
    rows: list[tuple[str, dict[str, Any]]] = []
    for group, entries in groups.items():
        place = f"{path}, groups.{group}"
        if not isinstance(entries, Mapping):
            raise DataError(f"expected entries such as first: and pronouns:, got {entries!r}", location=place)
        lists = {entry: value for entry, value in entries.items() if isinstance(value, list)}
        if len({len(value) for value in lists.values()}) > 1:
            lengths = ", ".join(f"{entry} has {len(value)}" for entry, value in lists.items())
            raise DataError(f"lists of a group need one value for each person: {lengths}", location=place)
        for index in range(max((len(value) for value in lists.values()), default=1)):
            person = {str(key): value[index] if key in lists else value for key, value in entries.items()}
            rows.append((f"{place}, person {index + 1}", {"group": str(group), **person}))
    about = {entry: str(given.get(entry, "")) for entry in LIST_ENTRIES}
    return _build_list(path, about, rows)


def _build_list(path: Path, about: Mapping[str, str], rows: Sequence[tuple[str, dict[str, Any]]]) -> NameList:
    language = about["language"] or "en"
    people: dict[tuple[str, ...], Person] = {}
    for location, row in rows:
        person = _build_person(row, language, location)
        key = (person.group, person.title, person.label, *person.words.values())
        if key in people:
            raise DataError(f"{person.label!r} is twice in the group {person.group!r}", location=location)
        people[key] = person
    groups = tuple(dict.fromkeys(person.group for person in people.values()))
    if len(groups) < 2:
        raise DataError(f"expected at least two groups, got {list(groups)}", location=str(path))
    return NameList(
        name=path.stem,
        language=language,
        source=about["source"] or "not stated",
        licence=about["licence"] or "not stated",
        groups=groups,
        people=tuple(sorted(people.values(), key=lambda person: groups.index(person.group))),
    )


def _build_person(row: Mapping[str, Any], language: str, location: str) -> Person:
    _refuse_misspelt(row, PERSON_ENTRIES, location)
    plain = {entry: str(value).strip() for entry, value in row.items() if value is not None and entry != "pronouns"}
    if not plain.get("group"):
        raise DataError("the group is missing", location=location, hint="write it into the column or entry group")
    words = {entry: value for entry, value in plain.items() if entry not in PERSON_ENTRIES and value}
    if not (plain.get("first") or plain.get("last") or words):
        raise DataError("there is neither a name nor a word", location=location, hint="write first, last or a word")
    try:
        pronouns = _build_pronouns(row.get("pronouns") or "", language)
    except OptionError as error:
        raise DataError(error.message, location=location, hint=error.hint) from None
    return Person(
        first=plain.get("first", ""),
        last=plain.get("last", ""),
        group=plain["group"],
        pronouns=pronouns,
        title=plain.get("title", ""),
        birth_decade=_whole_number(plain, "birth_decade", location),
        bearers=_whole_number(plain, "bearers", location),
        words=words,
    )


def _whole_number(row: Mapping[str, str], entry: str, location: str) -> int | None:
    text = row.get(entry, "")
    if text and not text.isdecimal():
        raise DataError(f"expected a whole number as {entry}, got {text!r}", location=location)
    return int(text) if text else None


def _build_pronouns(given: Any, language: str) -> Pronouns:
    """Return pronouns by name, or from forms of one's own; without any, those that say no gender."""
    if not isinstance(given, Mapping):
        return pronouns_in(language, str(given).strip() or "they")
    forms = {str(use): str(form) for use, form in given.items() if use not in ("gender", "plural_verb")}
    gender = str(given.get("gender", "neutral"))
    unknown = [use for use in forms if use not in FORMS]
    if unknown or gender not in GENDERS.values():
        raise OptionError(
            f"there is no form {unknown[0]!r} of pronouns" if unknown else f"there is no gender {gender!r}",
            hint=f"forms: {', '.join(FORMS)}; gender: {', '.join(GENDERS.values())}",
        )
    return dataclasses.replace(
        pronouns_in(language, next(name for name, one in GENDERS.items() if one == gender)),
        forms=forms,
        plural_verb=given.get("plural_verb") is True,
    )


def _refuse_misspelt(given: Mapping[str, Any], known: Sequence[str], location: str, *, strict: bool = False) -> None:
    """Refuse an entry that is nearly one of those known; with ``strict``, any other too."""
    for entry in given:
        near = suggest_name(str(entry), known)
        if entry not in known and (near or strict):
            raise DataError(
                f"there is no entry {entry!r} here",
                location=location,
                hint=f"{near}known: {', '.join(known)}" + ("" if strict else "; call a word of your own differently"),
            )
