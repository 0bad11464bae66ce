"""Read lists of identity terms from the package and from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from evenhand.core.config import check_configuration
from evenhand.core.configuration import read_configuration
from evenhand.core.text import find_repeated
from evenhand.errors import DataError, OptionError

BUNDLED_LISTS = Path(__file__).parent

COLLECTIONS = ("published",)
"""Bundled files that contain several lists."""


class TermRow(BaseModel):
    """Corresponding words, one per group; None where a group has no such word.

    Attributes:
        words: Words in the order of the category's groups.
        where: Context in which the row applies. ``before a word``: only if another word follows ("her book", not "I
            saw her"). ``after an article``: only after "a" or "an" and with no following noun ("a Muslim", not "a
            Muslim neighbour"). Default: ``anywhere``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    words: tuple[str | None, ...]
    where: Literal["anywhere", "before a word", "after an article"] = "anywhere"

    @model_validator(mode="before")
    @classmethod
    def _accept_list(cls, data: Any) -> Any:
        return {"words": data} if isinstance(data, list | tuple) else data

    @model_validator(mode="after")
    def _check_consistency(self) -> TermRow:
        if any(word is not None and not word.strip() for word in self.words):
            raise ValueError("a word is empty; write null if a group has no such word")
        return self


class IdentityCategory(BaseModel):
    """An identity category, such as religion, with its groups and their words.

    Attributes:
        name: Name of the category.
        groups: Names of the groups.
        rows: Corresponding words. For a word in several rows, the first row whose context matches is used.
        replacement_only: Words that replace others but are not searched for, because they have other meanings.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    groups: tuple[str, ...]
    rows: tuple[TermRow, ...]
    replacement_only: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _accept_terms(cls, data: Any) -> Any:
        """Expand ``terms: [a, b]`` to one group per term."""
        if isinstance(data, dict) and isinstance(terms := data.get("terms"), list | tuple):
            return {key: value for key, value in data.items() if key != "terms"} | {"groups": terms, "rows": [terms]}
        return data

    @model_validator(mode="after")
    def _check_consistency(self) -> IdentityCategory:
        if len(self.groups) < 2 or len(set(self.groups)) < len(self.groups):
            raise ValueError("there must be at least two groups, with different names")
        if not self.rows:
            raise ValueError("there must be at least one row of words")
        group_of: dict[str, int] = {}
        for row in self.rows:
            if len(row.words) != len(self.groups):
                raise ValueError(f"expected {len(self.groups)} words in each row, one per group, got {list(row.words)}")
            for group, word in enumerate(row.words):
                if word is None or word in self.replacement_only:
                    continue
                if (other := group_of.setdefault(word.casefold(), group)) != group:
                    raise ValueError(
                        f"{word!r} is a word of {self.groups[other]} and of {self.groups[group]}: "
                        "list it under replacement_only, or under one group only"
                    )
        return self

    def by_term(self) -> IdentityCategory:
        """Return a copy in which every searched term is a group."""
        words = (word for row in self.rows for word in row.words if word is not None)
        unique = {word.casefold(): word for word in words if word not in self.replacement_only}
        terms = tuple(unique.values())
        return IdentityCategory(name=self.name, groups=terms, rows=(TermRow(words=terms),))


def category_names() -> tuple[str, ...]:
    """Return the names of the bundled lists."""
    return tuple(sorted(path.stem for path in BUNDLED_LISTS.glob("*.yaml") if path.stem not in COLLECTIONS))


@cache
def categories_named(name: str) -> tuple[IdentityCategory, ...]:
    """Return the bundled list with a name, or the lists of a collection such as ``published``.

    Raises:
        OptionError: There is no such list or collection.
    """
    if name not in (*category_names(), *COLLECTIONS):
        raise OptionError(
            f"there is no list of identity terms called {name!r}",
            hint=f"there are: {', '.join(category_names())}; or write a list to a file",
        )
    return read_categories(BUNDLED_LISTS / f"{name}.yaml")


def resolve_categories(
    protected: Sequence[str | IdentityCategory] | None, *, by_term: bool = False
) -> tuple[IdentityCategory, ...]:
    """Return the categories of a selection.

    Args:
        protected: Names for ``categories_named``, or categories. Default: all bundled lists.
        by_term: Whether every term becomes a group.

    Raises:
        OptionError: A name is unknown, or two categories have the same name.
    """
    categories: list[IdentityCategory] = []
    for selected in protected or category_names():
        categories += categories_named(selected) if isinstance(selected, str) else (selected,)
    if repeated := find_repeated(category.name for category in categories):
        raise OptionError(f"there are two lists called {repeated[0]!r}", hint="rename one of them")
    return tuple(category.by_term() if by_term else category for category in categories)


def read_categories(path: str | Path) -> tuple[IdentityCategory, ...]:
    """Read the list of a YAML file, or several lists by name: ``religion: [a, b, c]``.

    A list has the entries ``groups: [a, b]``, ``rows: [[word, word], ...]`` and ``replacement_only: [...]``. If every
    term is a group, ``terms: [a, b, c]`` is sufficient. The name of a single list is its entry ``name``, or the name of
    the file.

    Raises:
        DataError: The file cannot be read, or does not contain such lists.
    """
    path = Path(path)
    entries = read_configuration(path, example="teams.yaml", entries="groups: and rows:, or terms:", error=DataError)
    single = bool({"groups", "rows", "terms"} & entries.keys())
    lists = {path.stem: entries} if single else entries
    if not lists:
        raise DataError("the file contains no list", location=str(path))
    categories = []
    for name, entry in lists.items():
        location = str(path) if single else f"{path}, {name}"
        if not isinstance(entry, Mapping | list):
            raise DataError(f"expected a list of terms, or groups: and rows:, got {entry!r}", location=location)
        fields = entry if isinstance(entry, Mapping) else {"terms": entry}
        data = {"name": str(name), **fields}
        category = check_configuration(
            partial(IdentityCategory.model_validate, data), IdentityCategory, location=location, error=DataError
        )
        categories.append(category)
    return tuple(categories)
