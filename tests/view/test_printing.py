"""Documents on paper: the text of a PDF and a DOCX is that of the document, and equal documents are equal files."""

import datetime as dt
import io
import json
import re
import sys

import pandas as pd
import pytest

from evenhand.core import Document
from evenhand.core.document import Column, Facts, Heading, Note, ReportedNumber, Table, TableRow, Text
from evenhand.dossier import DossierConfig, compile_dossier
from evenhand.dossier.outline import OPEN
from evenhand.errors import MissingExtraError, OptionError
from evenhand.view import print_docx, print_pdf, write_dossier

pypdf = pytest.importorskip("pypdf", reason="needs pypdf, of the test group")
pytest.importorskip("typst", reason="needs the extra dossier")
docx = pytest.importorskip("docx", reason="needs the extra dossier")

NAMES = ["#panic()", "*Ana* & $x$", "<b>O'Neil</b>", "=1+1"]


def dossier():
    frame = pd.DataFrame({"sex": NAMES * 30, "selected": [1, 0, 1, 1, 0, 1] * 20})
    config = DossierConfig(
        system={"name": "Ranker #1"},
        outcome={"column": "selected"},
        attributes={"sex": {"column": "sex", "categories": NAMES}},
    )
    return compile_dossier(frame, config, dossiers=("ll144", "ugesp"), today=dt.date(2026, 11, 23))


def squeezed(text):
    return re.sub(r"\s+", "", text)


def texts(document):
    """Every text of a document in the order in which it is read."""
    yield document.title
    yield from document.opening_lines
    for block in document.blocks:
        match block:
            case Heading() | Note():
                yield block.text
            case Text():
                yield from (block.text, *block.items)
            case Facts():
                yield from (part for entry in block.entries for part in entry)
            case Table():
                yield block.caption
                yield from (column.name for column in block.columns)
                for row in block.rows:
                    for cell in row.cells:
                        yield (
                            cell.text
                            if isinstance(cell, ReportedNumber)
                            else f"{cell:,}"
                            if isinstance(cell, int)
                            else cell
                        )
    yield document.made


def test_the_text_of_the_pdf_is_that_of_the_document_and_of_the_json():
    found = dossier()
    for name, document in found.documents().items():
        pages = pypdf.PdfReader(io.BytesIO(print_pdf(document, open_word=OPEN))).pages
        said = ""
        for number, page in enumerate(pages, start=1):
            text = squeezed(page.extract_text()).replace("\N{BULLET}", "")
            footer = squeezed(f"{document.title} {number} / {len(pages)}")
            assert text.count(footer) == 1
            said += text.replace(footer, "")
        wanted = squeezed("".join(texts(document)))
        assert sorted(said) == sorted(wanted), name  # every letter, none more
        place = 0
        for one in texts(document):
            place = said.index(squeezed(one), place)  # in the order in which it is read
    written = json.loads(found.to_json())
    for row in written["runs"][0]["ll144"][0]["rows"]:
        assert squeezed(f"{row['category'][0]} {row['n']} 25.0 % {row['k']}") in squeezed(
            "".join(
                page.extract_text() for page in pypdf.PdfReader(io.BytesIO(print_pdf(found.documents()["ll144"]))).pages
            )
        )


def test_the_pdf_is_tagged_and_says_its_language_and_standard():
    given = print_pdf(dossier().documents()["ll144"])
    reader = pypdf.PdfReader(io.BytesIO(given))
    root = reader.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert str(root["/Lang"]).startswith("en")
    assert b"pdfuaid:part" in root["/Metadata"].get_data()
    assert "Ranker #1" in reader.metadata.title
    kinds = set()

    def walk(node):
        node = node.get_object()
        if isinstance(node, dict):
            kinds.add(node.get("/S"))
            children = node.get("/K", [])
            for child in children if isinstance(children, list) else [children]:
                if not isinstance(child, int):
                    walk(child)

    walk(root["/StructTreeRoot"])
    assert {"/H1", "/H2", "/Table", "/TH", "/TD", "/Caption"} <= kinds


def test_equal_documents_are_equal_files(tmp_path):
    one, other = (write_dossier(dossier(), tmp_path / name, printed=True) for name in ("one", "other"))
    assert {path.suffix for path in one} == {".html", ".json", ".csv", ".pdf", ".docx"}
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]


def test_the_docx_has_every_text_and_lines_to_fill():
    document = dossier().documents()["ugesp"]
    read = docx.Document(io.BytesIO(print_docx(document, open_word=OPEN)))
    parts = [part.text for part in read.paragraphs]
    parts += [cell.text for table in read.tables for row in table.rows for cell in row.cells]
    said = squeezed("".join(parts))
    missing = [one for one in texts(document) if one != OPEN and squeezed(one) not in said]
    assert missing == []
    assert sum("____" in part for part in parts) == sum(one == OPEN for one in texts(document))
    assert read.core_properties.created.year == 2000


def test_numbers_have_their_interval_and_other_kind_below():
    number = ReportedNumber("0.12", 0.12, "proved")
    other = ReportedNumber("7 %", 0.07, "observed", 0.05, 0.09, "5 to 9 %", 0.95)
    rows = (TableRow(("a", number), "small"), TableRow(("b", other)), TableRow(("c",)))
    table = Table("Numbers: observed", (Column("who"), Column("n", numeric=True)), rows, usual="observed")
    document = Document("Title", blocks=(table,))
    said = squeezed(pypdf.PdfReader(io.BytesIO(print_pdf(document))).pages[0].extract_text())
    assert "asmall0.12proved" in said
    assert "b7%5to9%c" in said


def test_a_letter_that_no_font_has_is_one_clear_error():
    with pytest.raises(OptionError, match="cannot be typeset"):
        print_pdf(Document("Title \u0378"))


def test_without_the_extra_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "typst", None)
    with pytest.raises(MissingExtraError, match="PDF"):
        write_dossier(dossier(), tmp_path / "out", printed=True)
    assert not (tmp_path / "out").exists()
    monkeypatch.setitem(sys.modules, "docx", None)
    with pytest.raises(MissingExtraError, match="DOCX"):
        print_docx(dossier().document())
