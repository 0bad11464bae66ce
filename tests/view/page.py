"""A page as a tree, for tests: strict about what is open and what is closed."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

from evenhand.view.page_template import SCRIPT

VOID = {"meta", "link", "img", "br", "hr", "input", "source", "col", "wbr"}


class Element:
    def __init__(self, tag: str, attributes: dict[str, str], parent: Element | None) -> None:
        self.tag = tag
        self.attributes = attributes
        self.parent = parent
        self.children: list[Element | str] = []

    def all(self, tag: str | None = None, **wanted: str) -> list[Element]:
        """Elements below this one, in order; ``kind="observed"`` asks for ``data-kind``, ``class_`` for one class."""
        return [one for one in self._below() if one._is(tag, wanted)]

    def one(self, tag: str | None = None, **wanted: str) -> Element:
        (found,) = self.all(tag, **wanted)
        return found

    def _is(self, tag: str | None, wanted: dict[str, str]) -> bool:
        if tag is not None and self.tag != tag:
            return False
        for name, value in wanted.items():
            if name == "class_":
                if value not in self.attributes.get("class", "").split():
                    return False
            elif self.attributes.get({"kind": "data-kind"}.get(name, name)) != value:
                return False
        return True

    def _below(self) -> Iterator[Element]:
        for child in self.children:
            if isinstance(child, Element):
                yield child
                yield from child._below()

    def above(self, tag: str) -> Element | None:
        found = self.parent
        while found is not None and found.tag != tag:
            found = found.parent
        return found

    @property
    def text(self) -> str:
        """The words in it, white space as a browser shows it."""
        return " ".join("".join(self._words()).split())

    def _words(self) -> Iterator[str]:
        for child in self.children:
            if isinstance(child, str):
                yield child
            elif child.tag not in ("script", "style", "svg"):
                yield from child._words()
                if child.tag not in ("span", "strong", "data", "code", "a"):
                    yield " "


class Page(HTMLParser):
    """Reads HTML and complains about every tag that is not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {}, None)
        self._at = self.root
        self.feed(html)
        self.close()
        assert self._at is self.root, f"<{self._at.tag}> is never closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs}, self._at)
        self._at.children.append(element)
        if tag not in VOID:
            self._at = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._at = self._at.parent or self.root

    def handle_endtag(self, tag: str) -> None:
        assert self._at.tag == tag, f"</{tag}> closes <{self._at.tag}>"
        assert self._at.parent is not None
        self._at = self._at.parent

    def handle_data(self, data: str) -> None:
        self._at.children.append(data)


def foreign_scripts(root: Element) -> list[Element]:
    """Return the scripts of a page beside the one that every page has."""
    return [one for one in root.all("script") if "".join(map(str, one.children)) != SCRIPT]
