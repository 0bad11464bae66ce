"""What people see of an audit: the first screen in a terminal, a report in one HTML file, progress."""

from evenhand.report.files import write, write_page
from evenhand.report.html import render
from evenhand.report.search import Subject, render_search, show_search
from evenhand.report.terminal import progress, show

__all__ = ["Subject", "progress", "render", "render_search", "show", "show_search", "write", "write_page"]
