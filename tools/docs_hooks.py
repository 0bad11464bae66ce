"""Hooks of MkDocs: the reference is made from the package, and formulas between dollars become MathML."""

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
    """Draws what stands between two dollars in a line; dollars beside a space or a letter are dollars."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[str, int, int]:  # noqa: N802  # Markdown's name
        """Return a formula as MathML, and where it stood."""
        drawn = latex2mathml.converter.convert(m[1])
        ET.fromstring(drawn)
        return self.md.htmlStash.store(drawn), m.start(0), m.end(0)


class FormulaExtension(Extension):
    """Adds formulas to Markdown."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  # Markdown's name
        """Read formulas after code and before everything else."""
        md.inlinePatterns.register(FormulaProcessor(FORMULA, md), "formula", AFTER_CODE)


def on_config(config: Any) -> Any:
    """Give the pages of the site formulas, and the menu the pages that are made: in place of ``reference/python/*``."""
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
            filled.append({name: _fill_menu(one) if isinstance(one, list) else one for name, one in entry.items()})
        else:
            filled.append(entry)
    return filled


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made."""
    for path, text in reference.write_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put what is made into the pages that are written."""
    return reference.fill_in(markdown)
