"""The papers whose tables can be made again, by the names they have on the command line."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from evenhand.errors import OptionError
from evenhand.text import suggest_name

if TYPE_CHECKING:
    from reproductions.comparison import Paper

PAPERS: dict[str, str] = {
    "maft": "reproductions.maft",
    "conditional-fairness": "reproductions.conditional_fairness",
    "shields": "reproductions.shields",
    "fairquant": "reproductions.fairquant",
    "testsgd": "reproductions.testsgd",
}
"""Name of a paper -> the module that has its ``PAPER``, which is imported when it is asked for."""


def load_paper(name: str) -> Paper:
    """Return a paper with its tables and the work for them.

    Raises:
        OptionError: there is no such paper.
    """
    if name not in PAPERS:
        raise OptionError(
            f"expected a paper, got {name!r}", location="`name=`", hint=suggest_name(name, PAPERS) or ", ".join(PAPERS)
        )
    return cast("Paper", importlib.import_module(PAPERS[name]).PAPER)
