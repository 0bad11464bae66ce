"""Lists of identity terms: those that come with the package, and lists of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from evenhand.core import first_fault, read_configuration
from evenhand.errors import DataError, OptionError

BUNDLED_LISTS = Path(__file__).parent

COLLECTIONS = ("published",)
"""Files of the package that hold several lists."""


class TermRow(BaseModel):
    """Words that stand for each other, one per group; None where a group has no such word.

    Attributes:
        words: in the order of the category's groups.
        where: ``before a word``: only where another word follows (her book, not: I saw her); ``after an article``: only
            after a or an where no word follows (a Muslim, not: a Muslim neighbour). Everywhere unless set.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    words: tuple[str | None, ...]
    where: Literal["anywhere", "before a word", "after an article"] = "anywhere"

    @model_validator(mode="before")
    @classmethod
    def _list(cls, given: Any) -> Any:
        return {"words": given} if isinstance(given, list | tuple) else given

    @model_validator(mode="after")
    def _check_consistency(self) -> TermRow:
        if any(word is not None and not word.strip() for word in self.words):
            raise ValueError("a word is empty; write null where a group has none")
        return self


class IdentityCategory(BaseModel):
    """A kind of identity, such as religion, with its groups and their words.

    Attributes:
        name: how to call it.
        groups: the groups' names.
        rows: words that stand for each other. A word that several rows hold is read by the first that fits.
        replacement_only: words that are put in place of others but not looked for, since they mean other things too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    groups: tuple[str, ...]
    rows: tuple[TermRow, ...]
    replacement_only: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _plain_terms(cls, given: Any) -> Any:
        """``terms: [a, b]``: every term is a group of its own, and any stands in the place of any other."""
        if isinstance(given, dict) and isinstance(terms := given.get("terms"), list | tuple):
            return {key: value for key, value in given.items() if key != "terms"} | {"groups": terms, "rows": [terms]}
        return given

    @model_validator(mode="after")
    def _check_consistency(self) -> IdentityCategory:
        if len(self.groups) < 2 or len(set(self.groups)) < len(self.groups):
            raise ValueError("there must be at least two groups, with different names")
        if not self.rows:
            raise ValueError("there must be at least one row of words")
        group_of: dict[str, int] = {}
        for row in self.rows:
            if len(row.words) != len(self.groups):
                raise ValueError(f"a row needs one word per group, {len(self.groups)}; this one has {list(row.words)}")
            for group, word in enumerate(row.words):
                if word is None or word in self.replacement_only:
                    continue
                if group_of.setdefault(word.casefold(), group) != group:
                    raise ValueError(
                        f"{word!r} stands for {self.groups[group_of[word.casefold()]]} and for {self.groups[group]}: "
                        "list it under replacement_only, or under one of them"
                    )
        return self

    def by_term(self) -> IdentityCategory:
        """Return the same list with every term that is looked for as a group of its own."""
        words = (word for row in self.rows for word in row.words if word is not None)
        once = {word.casefold(): word for word in words if word not in self.replacement_only}
        return IdentityCategory(
            name=self.name, groups=tuple(once.values()), rows=(TermRow(words=tuple(once.values())),)
        )


def category_names() -> tuple[str, ...]:
    """Return the names of the lists that come with the package."""
    return tuple(sorted(path.stem for path in BUNDLED_LISTS.glob("*.yaml") if path.stem not in COLLECTIONS))


def collection_names() -> tuple[str, ...]:
    """Return the names of collections of several lists that come with the package: ``published``."""
    return COLLECTIONS


@cache
def bundled_category(name: str) -> IdentityCategory:
    """Return a list that comes with the package.

    Raises:
        OptionError: there is none of that name.
    """
    if name not in category_names():
        raise OptionError(
            f"there is no list of identity terms called {name!r}",
            hint=f"there are: {', '.join(category_names())}; or bring your own in a file",
        )
    return read_category(BUNDLED_LISTS / f"{name}.yaml")


@cache
def categories_named(name: str) -> tuple[IdentityCategory, ...]:
    """Return the lists that a name stands for: one list, or those of a collection such as ``published``.

    Raises:
        OptionError: there is nothing of that name.
    """
    if name in COLLECTIONS:
        return read_categories(BUNDLED_LISTS / f"{name}.yaml")
    return (bundled_category(name),)


def resolve_categories(
    protected: Sequence[str | IdentityCategory] | None, *, by_term: bool = False
) -> tuple[IdentityCategory, ...]:
    """Return the categories that names and lists stand for; all single lists of the package if left out.

    Args:
        protected: names as ``categories_named`` takes them, or lists.
        by_term: make every term a group of its own.

    Raises:
        OptionError: a name that there is not, or two categories of one name.
    """
    found = [
        one
        for name in protected or category_names()
        for one in (categories_named(name) if isinstance(name, str) else (name,))
    ]
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"there are two lists called {name!r}", hint="give one of them another name")
    return tuple(one.by_term() if by_term else one for one in found)


def read_category(path: str | Path) -> IdentityCategory:
    """Return a list in a YAML file: ``groups: [a, b]``, ``rows: [[word, word], ...]``, ``replacement_only: [...]``.

    Where every term is a group of its own, ``terms: [a, b, c]`` is enough. The category is called like the file, or as
    its ``name`` says.

    Raises:
        DataError: the file cannot be read, or is no such list.
    """
    path = Path(path)
    described = _read_term_file(path)
    return _parse_category({"name": path.stem, **described}, str(path))


def read_categories(path: str | Path) -> tuple[IdentityCategory, ...]:
    """Return the list in a YAML file (see ``read_category``), or several under their names: ``religion: [a, b, c]``.

    Raises:
        DataError: the file cannot be read, or holds no such lists.
    """
    path = Path(path)
    described = _read_term_file(path)
    if {"groups", "rows", "terms"} & described.keys():
        return (read_category(path),)
    if not described:
        raise DataError("there is no list in it", location=str(path))
    for name, one in described.items():
        if not isinstance(one, dict | list):
            raise DataError(f"expected a list of terms, or groups: and rows:, got {one!r}", location=f"{path}, {name}")
    return tuple(
        _parse_category({"name": str(name)} | (one if isinstance(one, dict) else {"terms": one}), f"{path}, {name}")
        for name, one in described.items()
    )


def _read_term_file(path: Path) -> Mapping[str, Any]:
    return read_configuration(path, example="teams.yaml", entries="groups: and rows:, or terms:", error=DataError)


def _parse_category(described: dict[str, Any], location: str) -> IdentityCategory:
    try:
        return IdentityCategory.model_validate(described)
    except ValidationError as error:
        fault = first_fault(error, {"": IdentityCategory.model_fields})
        raise DataError(fault.message, location=", ".join(filter(None, (location, fault.location)))) from None
