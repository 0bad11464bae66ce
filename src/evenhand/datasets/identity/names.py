"""Lists of people whose names, pronouns or other words indicate their group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from evenhand.core.configuration import read_configuration
from evenhand.core.text import suggest_name
from evenhand.datasets.identity.pronouns import FORMS, GENDERS, Pronouns, pronouns_in
from evenhand.datasets.tables import read_frame
from evenhand.errors import DataError, OptionError

BUNDLED_NAMES = Path(__file__).parent / "name_lists"

PERSON_ENTRIES = ("group", "first", "last", "title", "pronouns", "birth_decade", "bearers")
LIST_ENTRIES = ("language", "source", "licence")


@dataclass(frozen=True)
class Person:
    """A person in prompts: ``{{ person.first }} {{ person.last }}: {{ person.They }} led a team``.

    Pronouns are attributes: ``they``, ``them``, ``to_them``, ``with_them``, ``their``, ``theirs``, ``themself``, each
    also capitalised (see ``Pronouns``).

    Attributes:
        first, last: Names; empty if the list has none.
        group: Group of the person, such as ``Black woman``.
        pronouns: Pronouns and grammatical gender.
        title: Title, such as ``Ms.``.
        birth_decade: Decade in which the first name was most common; None if unknown.
        bearers: Number of people with the name; None if unknown.
        words: Other columns of the list by name, such as explicit words and affiliations.
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
        """Name of the person, or the words of a person without a name."""
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
            OptionError: The list has no such word.
        """
        if name not in self.words:
            hint = f"the list has: {', '.join(self.words)}" if self.words else "the list has names only"
            raise OptionError(f"there is no word {name!r} for {self.label}", hint=suggest_name(name, self.words) + hint)
        return self.words[name]

    def agree(self, masculine: str, feminine: str, neutral: str | None = None) -> str:
        """Return the form of a word that agrees with the person: ``{{ person.agree('ingénieur', 'ingénieure') }}``."""
        return self.pronouns.agree(masculine, feminine, neutral)

    def verb(self, singular: str, plural: str) -> str:
        """Return the form of a verb for the pronoun: ``{{ person.They }} {{ person.verb('has', 'have') }}``."""
        return plural if self.pronouns.plural_verb else singular


@dataclass(frozen=True)
class NameList:
    """People of several groups, whose names or words indicate their groups.

    Attributes:
        name: Name of the list.
        language: Language code, such as ``en``.
        source: Origin of the names.
        licence: Terms of use.
        groups: Groups in the order of the file.
        people: People in the order of their groups.
    """

    name: str
    language: str
    source: str
    licence: str
    groups: tuple[str, ...]
    people: tuple[Person, ...]

    def by_group(self) -> dict[str, tuple[Person, ...]]:
        """Return the people of each group."""
        return {group: tuple(person for person in self.people if person.group == group) for group in self.groups}


def name_lists() -> tuple[str, ...]:
    """Return the names of the bundled lists."""
    return tuple(sorted(path.stem for path in BUNDLED_NAMES.glob("*.yaml")))


def load_name_list(name: str | Path) -> NameList:
    """Load a bundled list, or a list from a file.

    A CSV file has one row per person, with the column ``group`` and any of the columns ``first``, ``last``,
    ``pronouns`` (``she``, ``he`` or ``they``), ``title``, ``birth_decade`` and ``bearers``. A YAML file has
    ``groups:``, each with these entries: one value for all people of the group, or a list with one value per person.
    Any other column or entry is a word for prompts, such as an affiliation. ``language``, ``source`` and ``licence``
    describe the whole list.

    Raises:
        OptionError: There is no such list or file.
        DataError: The file is not such a list; the message states the location.
    """
    path = Path(name)
    if path.suffix.lower() not in (".yaml", ".yml", ".csv", ".tsv") and not path.exists():
        if str(name) not in name_lists():
            raise OptionError(
                f"there is no list of names called {str(name)!r}",
                hint=f"{suggest_name(str(name), name_lists())}there are: {', '.join(name_lists())}; "
                "or pass a CSV or YAML file",
            )
        return _bundled_list(str(name))
    return _read_yaml(path) if path.suffix.lower() in (".yaml", ".yml") else _read_table(path)


@cache
def _bundled_list(name: str) -> NameList:
    return _read_yaml(BUNDLED_NAMES / f"{name}.yaml")


def _read_table(path: Path) -> NameList:
    """Read a list from a table with one row per person."""
    frame = read_frame(path, words=True).fillna("")
    about = {}
    for entry in LIST_ENTRIES:
        values = sorted({str(value).strip() for value in frame[entry]} - {""}) if entry in frame else []
        if len(values) > 1:
            raise DataError(
                f"column {entry!r} must have one value for the whole list, got {values}", location=str(path)
            )
        about[entry] = "".join(values)
    people = frame.drop(columns=list(LIST_ENTRIES), errors="ignore").to_dict("records")
    rows = [
        (f"{path}, line {line}", {str(entry): value for entry, value in row.items()})
        for line, row in enumerate(people, start=2)
    ]
    return _build_list(path, about, rows)


def _read_yaml(path: Path) -> NameList:
    """Read a list from a YAML file: groups with entries that have one value, or one per person."""
    example = "groups: {woman: {pronouns: she, first: [Ada, Eva]}, man: {pronouns: he, first: [Max, Ben]}}"
    fields = read_configuration(path, example="names.yaml", entries=example, error=DataError)
    _refuse_misspelt(fields, (*LIST_ENTRIES, "groups"), str(path), strict=True)
    groups = fields.get("groups")
    if not isinstance(groups, Mapping):
        raise DataError(
            f"expected a mapping from groups to people, got {groups!r}", location=f"{path}, groups", hint=example
        )
    rows: list[tuple[str, dict[str, Any]]] = []
    for group, entries in groups.items():
        place = f"{path}, groups.{group}"
        if not isinstance(entries, Mapping):
            raise DataError(f"expected entries such as first: and pronouns:, got {entries!r}", location=place)
        sizes = {entry: len(value) for entry, value in entries.items() if isinstance(value, list)}
        if len(set(sizes.values())) > 1:
            lengths = ", ".join(f"{entry} has {size}" for entry, size in sizes.items())
            raise DataError(f"the lists of a group must have one value per person: {lengths}", location=place)
        for index in range(max(sizes.values(), default=1)):
            person = {str(entry): value[index] if entry in sizes else value for entry, value in entries.items()}
            rows.append((f"{place}, person {index + 1}", {"group": str(group), **person}))
    about = {entry: str(fields.get(entry, "")) for entry in LIST_ENTRIES}
    return _build_list(path, about, rows)


def _build_list(path: Path, about: Mapping[str, str], rows: Sequence[tuple[str, dict[str, Any]]]) -> NameList:
    language = about["language"] or "en"
    people: dict[tuple[str, ...], Person] = {}
    for location, row in rows:
        person = _build_person(row, language, location)
        key = (person.group, person.title, person.label, *person.words.values())
        if key in people:
            raise DataError(f"{person.label!r} occurs twice in group {person.group!r}", location=location)
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
    texts = {entry: str(value).strip() for entry, value in row.items() if value is not None and entry != "pronouns"}
    if not texts.get("group"):
        raise DataError("the group is missing", location=location, hint="add it as the column or entry `group`")
    words = {entry: value for entry, value in texts.items() if entry not in PERSON_ENTRIES and value}
    if not (texts.get("first") or texts.get("last") or words):
        hint = "add `first`, `last` or a word"
        raise DataError("expected a name or a word, got neither", location=location, hint=hint)
    try:
        pronouns = _build_pronouns(row.get("pronouns") or "", language)
    except OptionError as error:
        raise DataError(error.message, location=location, hint=error.hint) from None
    fields: dict[str, Any] = {entry: texts.get(entry, "") for entry in ("first", "last", "group", "title")}
    for entry in ("birth_decade", "bearers"):
        number = texts.get(entry)
        if number and not number.isdecimal():
            raise DataError(f"expected a whole number as {entry}, got {number!r}", location=location)
        fields[entry] = int(number) if number else None
    return Person(**fields, pronouns=pronouns, words=words)


def _build_pronouns(entry: Any, language: str) -> Pronouns:
    """Build pronouns from their name or their forms. Default: ``they``."""
    if not isinstance(entry, Mapping):
        return pronouns_in(language, str(entry).strip() or "they")
    forms = {str(use): str(form) for use, form in entry.items() if use not in ("gender", "plural_verb")}
    gender = next((gender for gender in GENDERS.values() if gender == entry.get("gender", "neutral")), None)
    unknown = [use for use in forms if use not in FORMS]
    if unknown or gender is None:
        raise OptionError(
            f"there is no form {unknown[0]!r} of pronouns" if unknown else f"there is no gender {entry['gender']!r}",
            hint=f"forms: {', '.join(FORMS)}; gender: {', '.join(GENDERS.values())}",
        )
    return Pronouns(language, gender, forms, plural_verb=entry.get("plural_verb") is True)


def _refuse_misspelt(fields: Mapping[str, Any], names: Sequence[str], location: str, *, strict: bool = False) -> None:
    """Reject entries that resemble a known entry. If ``strict``, reject all unknown entries."""
    for entry in fields:
        near = suggest_name(str(entry), names)
        if entry not in names and (near or strict):
            raise DataError(
                f"there is no entry {entry!r}",
                location=location,
                hint=f"{near}known: {', '.join(names)}"
                + ("" if strict else "; rename the entry if it is a word for prompts"),
            )
