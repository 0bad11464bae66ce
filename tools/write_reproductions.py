#!/usr/bin/env python3
"""Write docs/reproductions: a page for every JSON of a reproduced paper that lies there, and the index.

    make reproduce PAPER=fairquant
    cp build/reproductions/fairquant/fairquant.json docs/reproductions/
    tools/write_reproductions.py

Figures on the pages come from the JSON alone; a test in tests/house says when a page is not today's. Add a new page
to the menu in mkdocs.yml. What stands around the table of the index is written by hand.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reproductions"
BEGIN, END = "<!-- papers: listed by tools/write_reproductions.py -->", "<!-- end of papers -->"
VERDICTS = ("agrees", "better", "differs", "not compared")

sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from evenhand.text import format_duration  # noqa: E402  (after the path is set)
from evenhand.view import render_markdown  # noqa: E402  (after the path is set)
from reproductions.comparison import PaperReproduction  # noqa: E402  (after the path is set)


def read_papers() -> list[PaperReproduction]:
    """Return what was found for each paper, by name."""
    return [PaperReproduction.from_json(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))]


def write_page(found: PaperReproduction) -> dict[str, str]:
    """Return the files of a paper by name: its page and the JSON without line breaks."""
    files = {f"{found.paper}.json": found.to_json(indent=None) + "\n"}
    title, _, rest = render_markdown(found.document()).partition("\n\n")
    quick = " QUICK=1" if found.quick else ""
    command = f"```console\n$ make reproduce PAPER={found.paper}{quick}\n```"
    written = f"<!-- Written by tools/write_reproductions.py from {found.paper}.json. -->"
    method = f"[The method](../methods/{found.paper}.md) has a page of its own."
    files[f"{found.paper}.md"] = "\n\n".join([title, written, method, command, rest])
    return files


def write_index(text: str, papers: list[PaperReproduction]) -> str:
    """Return the index with a row for every paper."""
    lines = ["| paper | tables and drawings | agrees | better | differs | not compared | work, by the clock |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|")
    for found in papers:
        counts = Counter(table.verdict for table in found.tables)
        cells = [f"[{found.title}]({found.paper}.md), {found.published_in}", str(len(found.tables))]
        cells += [str(counts[verdict]) for verdict in VERDICTS]
        cells.append(format_duration(sum(piece.seconds for piece in found.pieces)))
        lines.append("| " + " | ".join(cells) + " |")
    before, _, after = text.partition(BEGIN)
    return before + "\n".join([BEGIN, "", *lines, "", END]) + after.partition(END)[2]


def write_files() -> dict[Path, str]:
    """Return the text of every file."""
    papers = read_papers()
    files = {FOLDER / name: text for found in papers for name, text in write_page(found).items()}
    index = FOLDER / "index.md"
    return {index: write_index(index.read_text("utf-8"), papers)} | files


if __name__ == "__main__":
    for path, text in write_files().items():
        path.write_text(text, "utf-8")
