"""What people see of an audit: the first screen in a terminal, a report in one HTML file, progress."""

from evenhand.report.html import render
from evenhand.report.terminal import progress, show
from evenhand.report.write import write

__all__ = ["progress", "render", "show", "write"]
