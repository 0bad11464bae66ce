"""Lists of identity terms: those that come with the package, and lists of one's own."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from evenhand.errors import DataError, OptionError

OWN = Path(__file__).parent

COLLECTIONS = ("published",)
"""Files of the package that hold several lists."""


class Row(BaseModel):
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
    def _consistent(self) -> Row:
        if any(word is not None and not word.strip() for word in self.words):
            raise ValueError("a word is empty; write null where a group has none")
        return self


class Category(BaseModel):
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
    rows: tuple[Row, ...]
    replacement_only: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _plain_terms(cls, given: Any) -> Any:
        """``terms: [a, b]``: every term is a group of its own, and any stands in the place of any other."""
        if isinstance(given, dict) and isinstance(terms := given.get("terms"), list | tuple):
            return {key: value for key, value in given.items() if key != "terms"} | {"groups": terms, "rows": [terms]}
        return given

    @model_validator(mode="after")
    def _consistent(self) -> Category:
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

    def by_term(self) -> Category:
        """The same list with every term that is looked for as a group of its own."""
        words = (word for row in self.rows for word in row.words if word is not None)
        once = {word.casefold(): word for word in words if word not in self.replacement_only}
        return Category(name=self.name, groups=tuple(once.values()), rows=(Row(words=tuple(once.values())),))


def categories() -> tuple[str, ...]:
    """Names of the lists that come with the package."""
    return tuple(sorted(path.stem for path in OWN.glob("*.yaml") if path.stem not in COLLECTIONS))


def collections() -> tuple[str, ...]:
    """Names of collections of several lists that come with the package: ``published``."""
    return COLLECTIONS


@cache
def category(name: str) -> Category:
    """A list that comes with the package.

    Raises:
        OptionError: there is none of that name.
    """
    if name not in categories():
        raise OptionError(
            f"there is no list of identity terms called {name!r}",
            mend=f"there are: {', '.join(categories())}; or bring your own in a file",
        )
    return read_category(OWN / f"{name}.yaml")


@cache
def named(name: str) -> tuple[Category, ...]:
    """The lists that a name stands for: one list, or those of a collection such as ``published``.

    Raises:
        OptionError: there is nothing of that name.
    """
    if name in COLLECTIONS:
        return read_categories(OWN / f"{name}.yaml")
    return (category(name),)


def read_category(path: str | Path) -> Category:
    """A list in a YAML file: ``groups: [a, b]``, ``rows: [[word, word], ...]``, ``replacement_only: [...]``.

    Where every term is a group of its own, ``terms: [a, b, c]`` is enough. The category is called like the file, or as
    its ``name`` says.

    Raises:
        DataError: the file cannot be read, or is no such list.
    """
    path = Path(path)
    described = _described(path)
    if not isinstance(described, dict):
        raise DataError("a list of terms holds `groups` and `rows`", where=str(path))
    return _category({"name": path.stem} | described, str(path))


def read_categories(path: str | Path) -> tuple[Category, ...]:
    """The list in a YAML file (see ``read_category``), or several under their names: ``religion: [a, b, c]``.

    Raises:
        DataError: the file cannot be read, or holds no such lists.
    """
    path = Path(path)
    described = _described(path)
    if not isinstance(described, dict) or {"groups", "rows", "terms"} & described.keys():
        return (read_category(path),)
    if not described:
        raise DataError("there is no list in it", where=str(path))
    return tuple(
        _category({"name": str(name)} | (one if isinstance(one, dict) else {"terms": one}), f"{path}, {name}")
        for name, one in described.items()
    )


def _described(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise DataError(f"the list of terms cannot be read: {reason}", where=str(path)) from None


def _category(described: dict[str, Any], where: str) -> Category:
    try:
        return Category.model_validate(described)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        message = str(fault["msg"]).removeprefix("Value error, ")
        raise DataError(f"{place + ': ' if place else ''}{message}", where=where) from None
