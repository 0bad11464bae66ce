#!/usr/bin/env python3
"""Draw the packages of src/evenhand into CONTRIBUTING.md: layers of pyproject.toml, first lines of docstrings.

Run it after a package is added or renamed; a test in tests/house says when the drawing is not today's.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- house: drawn by tools/draw_house.py -->", "<!-- end of house -->"


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring, without its full stop."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n", 1)[0].removesuffix(".")


def draw() -> str:
    """Return the drawing: one line per package, from the top layer to the ground."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    lines = []
    for layer in contracts[0]["layers"]:
        for name in (part.strip(" ()") for part in layer.split("|")):
            folder = ROOT / "src" / "evenhand" / name
            module = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
            lines.append(f"  {name + ('/' if folder.is_dir() else '.py'):<16} {first_line(module)}")
    return "\n".join([BEGIN, "", "```text", "src/evenhand/    an arrow may only point down", *lines, "```", "", END])


def drawn(text: str) -> str:
    """Return a text with the drawing in its place."""
    before, _, rest = text.partition(BEGIN)
    return before + draw() + rest.partition(END)[2]


if __name__ == "__main__":
    page = ROOT / "CONTRIBUTING.md"
    page.write_text(drawn(page.read_text(encoding="utf-8")), encoding="utf-8")
