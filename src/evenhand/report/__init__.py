"""What people see of an audit: the first screen in a terminal, a report in one HTML file, progress."""

from evenhand.report.files import write
from evenhand.report.html import render
from evenhand.report.terminal import progress, show

__all__ = ["progress", "render", "show", "write"]
