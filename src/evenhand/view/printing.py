"""Print a document: as a tagged PDF, typeset by typst, or as a DOCX with blank lines for open entries."""

from __future__ import annotations

import datetime as dt
import io
import json
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evenhand.core.document import (
    Block,
    Cell,
    Document,
    Facts,
    Fold,
    Heading,
    Metric,
    NextStep,
    Note,
    ReportedNumber,
    Table,
    Text,
)
from evenhand.core.text import strip_unprintable
from evenhand.errors import MissingExtraError, OptionError

FONTS = ("Libertinus Serif", "DejaVu Sans Mono")
"""Fonts included in typst. Missing glyphs are taken from system fonts."""

LONG, WIDEST = 16, 40
"""Minimum length of cells that are wrapped, and maximum width of a column, in characters."""

EPOCH = dt.datetime(2000, 1, 1)
"""Fixed date inside a DOCX, so that equal documents give equal files."""

BLANK = "_" * 60


def can_print() -> bool:
    """Check whether the extra for PDF and DOCX files is installed."""
    return find_spec("typst") is not None and find_spec("docx") is not None


def print_pdf(document: Document, *, open_word: str = "") -> bytes:
    """Return a document as a PDF/UA-1, tagged, with real headings and tables; equal documents give equal bytes.

    A static template reads the document as data, so that no name in it becomes markup.

    Args:
        document: of headings, texts, notes, facts and tables.
        open_word: Text of open entries, which is printed in a box.

    Raises:
        MissingExtraError: typst is not installed.
        OptionError: no available font has one of its characters.
    """
    try:
        import typst
    except ImportError:
        raise MissingExtraError("typst", extra="dossier", purpose="to write a PDF") from None
    template = (Path(__file__).parent / "templates" / "document.typ").read_bytes()
    data = {
        "title": _printable(document.title),
        "lead": [_printable(line) for line in document.opening_lines],
        "brand": document.brand,
        "made": _printable(document.made),
        "open": open_word,
        "fonts": FONTS,
        "blocks": [_lay_out(block) for block in _unfold(document.blocks)],
    }
    inputs = {"document": json.dumps(data, ensure_ascii=False)}
    # System fonts are searched only if the bundled fonts lack a character.
    for without_system in (True, False):
        try:
            return bytes(
                typst.compile(
                    template,
                    format="pdf",
                    sys_inputs=inputs,
                    pdf_standards="ua-1",
                    ignore_system_fonts=without_system,
                )
            )
        except typst.TypstError as error:
            fault = str(error).splitlines()[0]
    raise OptionError(
        f"the PDF cannot be typeset: {fault}",
        hint="install a font that has every character of the names, or use the HTML page",
    )


def print_docx(document: Document, *, open_word: str = "") -> bytes:
    """Render a document as DOCX with marked empty lines for open entries. Equal documents give equal bytes.

    Args:
        document: of headings, texts, notes, facts and tables.
        open_word: Text of open entries.

    Raises:
        MissingExtraError: python-docx is not installed.
    """
    try:
        import docx
    except ImportError:
        raise MissingExtraError("python-docx", extra="dossier", purpose="to write a DOCX") from None
    file = docx.Document()
    file.styles["Normal"].font.name = "Calibri"
    file.styles["Normal"].font.size = docx.shared.Pt(10)
    captions = file.styles["Caption"].paragraph_format
    captions.keep_with_next, captions.space_before = True, docx.shared.Pt(8)
    properties = file.core_properties
    properties.title, properties.author, properties.language = _printable(document.title), document.brand, "en"
    properties.created = properties.modified = EPOCH
    file.add_heading(_printable(document.title), level=0)
    for line in document.opening_lines:
        file.add_paragraph(_printable(line))
    for block in _unfold(document.blocks):
        _add_block(file, _lay_out(block), open_word)
    if document.made:
        file.add_paragraph(_printable(document.made))
    buffer = io.BytesIO()
    file.save(buffer)
    return _fix_dates(buffer.getvalue())


def _unfold(blocks: tuple[Block, ...]) -> Iterator[Block]:
    for block in blocks:
        if isinstance(block, Fold):
            yield Heading(block.summary, level=3)
            yield from _unfold(block.blocks)
        else:
            yield block


def _lay_out(block: Block) -> dict[str, Any]:
    """Convert a block to plain data for a template."""
    match block:
        case Heading():
            return {"kind": "heading", "level": block.level, "text": _printable(block.text)}
        case Text():
            return {"kind": "text", "text": _printable(block.text), "items": [_printable(item) for item in block.items]}
        case Note():
            return {"kind": "note", "text": _printable(block.text)}
        case NextStep():
            return {"kind": "note", "text": _printable(": ".join(filter(None, (block.text, block.command))))}
        case Facts():
            return {
                "kind": "facts",
                "entries": [[_printable(term), _printable(meaning)] for term, meaning in block.entries],
            }
        case Metric():
            result = "; ".join((block.number.text, *block.explanation))
            return {"kind": "facts", "entries": [[_printable(block.name), _printable(result)]]}
        case Table():
            return _lay_out_table(block)
        case _:
            raise TypeError(f"{type(block).__name__} cannot be printed")


def _lay_out_table(table: Table) -> dict[str, Any]:
    rows = [[_lay_out_cell(cell, table) for cell in row.cells] for row in table.rows]
    for laid_out, row in zip(rows, table.rows, strict=True):
        laid_out += [{"text": "", "under": ""}] * (len(table.columns) - len(laid_out))
        if row.detail:
            under = laid_out[0]["under"]
            laid_out[0] = laid_out[0] | {"under": "; ".join(filter(None, (under, _printable(row.detail))))}
    columns = []
    for place, column in enumerate(table.columns):
        longest = max((len(text) for row in rows for text in row[place].values()), default=0)
        columns.append(
            {
                "name": _printable(column.name),
                "numeric": column.numeric,
                # Share of the page for a broad column. Narrow columns fit their content.
                "share": min(max(longest, LONG), WIDEST) if max(longest, len(column.name)) > LONG else 0,
            }
        )
    return {"kind": "table", "caption": _printable(table.caption), "columns": columns, "rows": rows}


def _lay_out_cell(cell: Cell, table: Table) -> dict[str, str]:
    """Return the text of a cell, and its interval and kind, which are shown below."""
    if isinstance(cell, int):
        return {"text": f"{cell:,}", "under": ""}
    if not isinstance(cell, ReportedNumber):
        return {"text": _printable(cell), "under": ""}
    if cell.kind == "unknown":
        return {"text": "unknown", "under": _printable(cell.basis)}
    notes = [cell.ends] if cell.ends else []
    if cell.kind is not None and cell.kind != table.usual:
        notes.append(cell.kind)
    return {"text": _printable(cell.text), "under": _printable("; ".join(notes))}


def _printable(text: str) -> str:
    return " ".join(strip_unprintable(text).split())


def _add_block(file: Any, block: dict[str, Any], open_word: str) -> None:
    if block["kind"] == "heading":
        file.add_heading(block["text"], level=min(block["level"] - 1, 4))
    elif block["kind"] == "text":
        if block["text"]:
            file.add_paragraph(_leave_line(block["text"], open_word))
        for item in block["items"]:
            file.add_paragraph(item, style="List Bullet")
    elif block["kind"] == "note":
        file.add_paragraph(block["text"], style="Intense Quote")
    elif block["kind"] == "facts":
        for term, meaning in block["entries"]:
            paragraph = file.add_paragraph()
            paragraph.add_run(f"{term}: ").bold = True
            paragraph.add_run(_leave_line(meaning, open_word))
    elif block["kind"] == "table":
        _add_table(file, block, open_word)


def _add_table(file: Any, block: dict[str, Any], open_word: str) -> None:
    from docx.enum.text import WD_ALIGN_PARAGRAPH
    from docx.oxml import OxmlElement
    from docx.shared import Pt

    file.add_paragraph(block["caption"], style="Caption")
    table = file.add_table(rows=1, cols=len(block["columns"]), style="Light Grid Accent 1")
    size = Pt(7 if len(block["columns"]) > 8 else 8 if len(block["columns"]) > 5 else 9)

    def fill(cell: Any, text: str, column: dict[str, Any]) -> None:
        paragraph = cell.paragraphs[0]
        if column["numeric"]:
            paragraph.alignment = WD_ALIGN_PARAGRAPH.RIGHT
        paragraph.add_run(_leave_line(text, open_word)).font.size = size

    for place, column in enumerate(block["columns"]):
        fill(table.rows[0].cells[place], column["name"], column)
    # Repeated on every page, and read as headers by screen readers.
    table.rows[0]._tr.get_or_add_trPr().append(OxmlElement("w:tblHeader"))
    for row in block["rows"]:
        cells = table.add_row().cells
        for place, column in enumerate(block["columns"]):
            fill(cells[place], "\n".join(filter(None, row[place].values())), column)


def _leave_line(text: str, open_word: str) -> str:
    return f"{BLANK} ({open_word})" if open_word and text == open_word else text


def _fix_dates(packed: bytes) -> bytes:
    """Return a DOCX whose parts have one fixed date; a zip file otherwise contains the time at which it was written."""
    fixed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as source, zipfile.ZipFile(fixed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(zipfile.ZipInfo(name, EPOCH.timetuple()[:6]), source.read(name), zipfile.ZIP_DEFLATED)
    return fixed.getvalue()
