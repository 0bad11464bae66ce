"""MkDocs hooks: generate the reference from the package, and render formulas between dollars as MathML."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import latex2mathml.converter
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
import make_reference as reference

if TYPE_CHECKING:
    import re

    from markdown import Markdown

FORMULA = r"(?<![\\\w$])\$([^\s$](?:[^$\n]*[^\s$])?)\$(?![\w$])"
AFTER_CODE = 185
"""Priority: below that of code between backticks, above that of emphasis."""


class FormulaProcessor(InlineProcessor):
    """Renders text between two dollars in a line. Dollars next to a space or a letter are ignored."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # noqa: N802  # Markdown's name
        """Render a formula as MathML, and return its position."""
        formula = latex2mathml.converter.convert(m[1])
        ET.fromstring(formula)
        return self.md.htmlStash.store(formula), m.start(0), m.end(0)


class FormulaExtension(Extension):
    """Adds formulas to Markdown."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  # Markdown's name
        """Register formulas after code and before all other patterns."""
        md.inlinePatterns.register(FormulaProcessor(FORMULA, md), "formula", AFTER_CODE)


def on_config(config: Any) -> Any:
    """Enable formulas, and replace entries such as ``reference/python/*`` of the menu by generated pages."""
    config["markdown_extensions"].append(FormulaExtension())
    config["nav"] = _fill_menu(config["nav"])
    return config


def _fill_menu(entries: list[Any]) -> list[Any]:
    filled: list[Any] = []
    for entry in entries:
        if isinstance(entry, str) and entry.endswith("/*"):
            pages = [page for page in reference.write_pages() if page.startswith(entry[:-1])]
            filled += [{Path(page).stem.removeprefix("evenhand."): page} for page in pages]
        elif isinstance(entry, dict):
            filled.append({name: _fill_menu(page) if isinstance(page, list) else page for name, page in entry.items()})
        else:
            filled.append(entry)
    return filled


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    for path, text in reference.write_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Insert generated tables into a page."""
    return reference.fill_in(markdown)
