"""Lists of identity terms: those that come with the package, and lists of one's own."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from evenhand.errors import DataError, OptionError

OWN = Path(__file__).parent


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


def categories() -> tuple[str, ...]:
    """Names of the lists that come with the package."""
    return tuple(sorted(path.stem for path in OWN.glob("*.yaml")))


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


def read_category(path: str | Path) -> Category:
    """A list in a YAML file: ``groups: [a, b]``, ``rows: [[word, word], ...]``, ``replacement_only: [...]``.

    The category is called like the file, or as its ``name`` says.

    Raises:
        DataError: the file cannot be read, or is no such list.
    """
    import yaml

    path = Path(path)
    try:
        described = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise DataError(f"the list of terms cannot be read: {reason}", where=str(path)) from None
    if not isinstance(described, dict):
        raise DataError("a list of terms holds `groups` and `rows`", where=str(path))
    try:
        return Category.model_validate({"name": path.stem} | described)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])
        message = str(fault["msg"]).removeprefix("Value error, ")
        raise DataError(f"{place + ': ' if place else ''}{message}", where=str(path)) from None
