"""A hook of MkDocs: formulas between dollars, ``$a \\le b$``, become MathML, which browsers draw by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import latex2mathml.converter
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

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
    """Give the pages of the site formulas."""
    config["markdown_extensions"].append(FormulaExtension())
    return config
