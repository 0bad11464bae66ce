#!/usr/bin/env python3
"""Draw the badges of the README from what pyproject.toml and the source say: nothing is fetched, now or by readers.

tools/draw_badges.py
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
LETTER = 6.6
"""Pixels for each letter, on average."""


def state_facts() -> Iterator[tuple[str, str, str]]:
    """Yield the badges: file, what it is about, what holds."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = settings["project"]
    yield "badge-python.svg", "Python", project["requires-python"].removeprefix(">=") + " or newer"
    yield "badge-licence.svg", "licence", project["license"].split(" AND ")[0]
    if settings["tool"]["mypy"].get("strict") and (ROOT / "src" / "evenhand" / "py.typed").exists():
        yield "badge-types.svg", "types", "mypy --strict"


def draw_badge(about: str, holds: str) -> str:
    """Draw one badge as SVG, letters stretched to their place."""
    left, right = (round(LETTER * len(words)) + 14 for words in (about, holds))
    texts = (
        f'<text x="{x}" y="14" textLength="{width - 14}">{escape(words)}</text>'
        for x, width, words in ((7, left, about), (left + 7, right, holds))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img">'
        f"<title>{escape(about)}: {escape(holds)}</title>"
        f'<rect width="{left + right}" height="20" rx="3" fill="#0b5394"/>'
        f'<path d="M3 0H{left}V20H3A3 3 0 0 1 0 17V3A3 3 0 0 1 3 0Z" fill="#444c56"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{"".join(texts)}</g></svg>\n'
    )


def main() -> None:
    """Write every badge."""
    for name, about, holds in state_facts():
        (IMAGES / name).write_text(draw_badge(about, holds), "utf-8")
        print(f"{name}: {about}: {holds}")


if __name__ == "__main__":
    main()
