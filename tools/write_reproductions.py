#!/usr/bin/env python3
"""Write docs/reproductions: a page for every JSON of a reproduced paper that lies there, its drawings, and the index.

    evenhand reproduce fairquant --out fairquant
    cp fairquant/fairquant.json docs/reproductions/
    tools/write_reproductions.py

Figures on the pages come from the JSON alone; a test in tests/house says when a page is not today's. Add a new page
to the menu in mkdocs.yml. What stands around the table of the index is written by hand.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reproductions"
BEGIN, END = "<!-- papers: listed by tools/write_reproductions.py -->", "<!-- end of papers -->"
VERDICTS = ("agrees", "better", "differs", "not compared")
OVERVIEW = "**Every table and drawing,"
AGREEMENT = "How many figures of each table agree with the published ones"
AGREEMENT_OF_PAPERS = "How many figures of each paper agree with the published ones"

sys.path.insert(0, str(ROOT / "src"))

from evenhand.core import Figure  # noqa: E402  (after the path is set)
from evenhand.reproduce.comparison import ComparedTable, PaperReproduction  # noqa: E402  (after the path is set)
from evenhand.reproduce.comparison.wording import draw_agreement, draw_comparison  # noqa: E402  (after the path is set)
from evenhand.text import format_duration  # noqa: E402  (after the path is set)
from evenhand.view import drawing, render_markdown  # noqa: E402  (after the path is set)


def read_papers() -> list[PaperReproduction]:
    """Return what was found for each paper, by name."""
    return [PaperReproduction.from_json(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))]


def _on_white(svg: str) -> str:
    return svg.replace('style="', 'style="background:white;', 1) + "\n"


def write_page(found: PaperReproduction) -> dict[str, str]:
    """Return the files of a paper by name: its page, its drawings, and the JSON without line breaks."""
    files = {f"{found.paper}.json": found.to_json(indent=None) + "\n"}

    def add_picture(name: str, chart: dict[str, Any]) -> str:
        svg = drawing.to_svg(chart, name=name)
        files[f"{name}.svg"] = _on_white(svg)
        return f"{name}.svg"

    def picture(figure: Figure) -> str:
        position = int(figure.arguments[0])
        number = found.tables[position].number.lower().replace(" ", "-")
        return add_picture(f"{found.paper}-{number}", draw_comparison(found, position))

    title, _, rest = render_markdown(found.document(), picture).partition("\n\n")
    quick = " --quick" if found.quick else ""
    agreement = f"![{AGREEMENT}]({add_picture(f'{found.paper}-agreement', draw_agreement(found))})"
    rest = rest.replace(OVERVIEW, f"{agreement}\n\n{OVERVIEW}", 1)
    command = f"```console\n$ evenhand reproduce {found.paper}{quick} --out {found.paper}\n```"
    written = f"<!-- Written by tools/write_reproductions.py from {found.paper}.json. -->"
    method = f"[The method](../methods/{found.paper}.md) has a page of its own."
    files[f"{found.paper}.md"] = "\n\n".join([title, written, method, command, rest])
    return files


def draw_papers(papers: list[PaperReproduction]) -> str:
    """Return the drawing of the index: how many figures of each paper agree, a bar for every paper."""
    bars = [
        ComparedTable(
            number=found.title.partition(":")[0].partition(" for ")[0],
            title=found.title,
            figures=tuple(figure for table in found.tables for figure in table.figures),
            verdict="not compared",
        )
        for found in papers
    ]
    chart = draw_agreement(papers[0].model_copy(update={"tables": tuple(bars)}))
    return _on_white(drawing.to_svg(chart, name="papers"))


def write_index(text: str, papers: list[PaperReproduction]) -> str:
    """Return the index with a row for every paper."""
    lines = [f"![{AGREEMENT_OF_PAPERS}](papers.svg)", ""]
    lines.append("| paper | tables and drawings | agrees | better | differs | not compared | work, by the clock |")
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
    files[FOLDER / "papers.svg"] = draw_papers(papers)
    return {index: write_index(index.read_text("utf-8"), papers)} | files


if __name__ == "__main__":
    for path, text in write_files().items():
        path.write_text(text, "utf-8")
