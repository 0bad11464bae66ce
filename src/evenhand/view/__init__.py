"""What people see: screens, pages, charts. The only place that knows colours and the words of the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.view.drawing import DASHES, LIGHT, SERIES, Spec, draw_figure
    from evenhand.view.files import write_dossier, write_page, write_report
    from evenhand.view.markdown import render_markdown
    from evenhand.view.page_template import SCRIPT_HASH, render_fragment, render_page
    from evenhand.view.printing import can_print, print_docx, print_pdf
    from evenhand.view.screen import summarize
    from evenhand.view.terminal import follow_progress, show_document, show_progress

__all__ = [
    "DASHES",
    "LIGHT",
    "SCRIPT_HASH",
    "SERIES",
    "Spec",
    "can_print",
    "draw_figure",
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

__getattr__, __dir__ = doors.open_when_used(__name__)
