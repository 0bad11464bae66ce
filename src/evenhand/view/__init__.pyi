from .files import write_dossier, write_page, write_report
from .markdown import render_markdown
from .page_template import SCRIPT_HASH, render_fragment, render_page
from .printing import print_docx, print_pdf
from .screen import summarize
from .terminal import follow_progress, show_document, show_progress

__all__ = [
    "SCRIPT_HASH",
    "follow_progress",
    "print_docx",
    "print_pdf",
    "render_fragment",
    "render_markdown",
    "render_page",
    "show_document",
    "show_progress",
    "summarize",
    "write_dossier",
    "write_page",
    "write_report",
]
