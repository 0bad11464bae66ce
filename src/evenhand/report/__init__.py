"""What people see of an audit: the first screen in a terminal, a report in one HTML file, progress."""

from evenhand.report.files import write, write_page
from evenhand.report.frontier import render_frontier
from evenhand.report.genai import render_generation, show_feasibility, show_generation
from evenhand.report.genai_check import show_check, show_confusion
from evenhand.report.html import render
from evenhand.report.mitigation import render_mitigation, show_mitigation
from evenhand.report.search import Subject, render_search, show_search
from evenhand.report.shield import render_inspection, replayed, show_inspection, show_policy, show_replay
from evenhand.report.simulation import render_simulation, show_simulation
from evenhand.report.subgroups import render_subgroups, show_subgroups
from evenhand.report.terminal import progress, show

__all__ = [
    "Subject",
    "progress",
    "render",
    "render_frontier",
    "render_generation",
    "render_inspection",
    "render_mitigation",
    "render_search",
    "render_simulation",
    "render_subgroups",
    "replayed",
    "show",
    "show_check",
    "show_confusion",
    "show_feasibility",
    "show_generation",
    "show_inspection",
    "show_mitigation",
    "show_policy",
    "show_replay",
    "show_search",
    "show_simulation",
    "show_subgroups",
    "write",
    "write_page",
]
