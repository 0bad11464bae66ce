"""The mitigation tables as one HTML page that needs nothing beside it: no script, no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenhand import charts
from evenhand.reproduce.mitigation import published, tables, text
from evenhand.reproduce.mitigation.plot import draw_classifiers, draw_gaps
from evenhand.reproduce.mitigation.result import MitigationTables
from evenhand.reproduce.mitigation.subgroups import GIVEN
from evenhand.reproduce.pages import figure, templates
from evenhand.reproduce.shields import published as shields
from evenhand.reproduce.shields.text import left_out

TEMPLATES = Path(__file__).parent / "templates"


def render(found: MitigationTables) -> str:
    """The page. The same result gives the same text."""
    return str(templates(TEMPLATES).get_template("tables.html").render(_context(found)))


def _context(found: MitigationTables) -> dict[str, Any]:
    cases = list(dict.fromkeys(one.case for one in found.mended))
    return {
        "result": found,
        "given": GIVEN,
        "paper": published.PAPER,
        "place": published.RETRAINED_PLACE,
        "shields_where": shields.WHERE,
        "shields_place": shields.CLASSIFIED_PLACE,
        "said": text.said(found),
        "rows": tables.rows(found),
        "subgroups": [
            (case, tables.subgroups_found(found, case), published.RETRAINED[case]) for case in cases
        ],
        "left_out": left_out(found.left_out),
        "methods_left_out": tables.left_out(found),
        "classifiers": tables.classifier_rows(found),
        "facts": _facts(found),
        "figures": {
            name: figure(name, draw, found)
            for name, draw, made in (
                ("gaps", draw_gaps, bool(found.mended)),
                ("classifiers", draw_classifiers, bool(found.classifiers)),
            )
            if made
        },
        "percent": text.percent,
        "method": text.method,
        "chart_styles": charts.stylesheet(),
    }  # fmt: skip


def _facts(found: MitigationTables) -> list[tuple[str, str]]:
    settings = found.settings
    hidden = " x ".join(str(size) for size in settings.hidden)
    layers = " x ".join(str(size) for size in settings.layers)
    return [
        ("networks", f"hidden layers {hidden} and the decision, trained on 60 % of the people by Adam in batches of "
         f"{settings.batch_size}, {settings.epochs} times over everybody (at least {settings.least_steps:,} steps); "
         "the paper says no more than six layers. One that gives everybody the same label is begun again"),
        ("people", "60 % to learn from, 20 % to choose on, 20 % kept aside until the end; subgroups are searched on "
         "the first two"),
        ("subgroups", "the widest gap that stands out from chance over all rule sets with "
         f"{100 * settings.support:g} % of the people, and the widest at all where none does"),
        ("retraining", "samples of the subgroup with the opposite label, 50 at first, up to 10 % of the people learnt "
         "from; how many is chosen on the validation part"),
        ("samples", f"{settings.samples:,} people inside and outside, one attribute that is not sensitive moved one "
         "step, as the paper draws them"),
        ("classifiers", f"hidden layers {layers}, trained on 40 % of the people as for the shields; they do not see "
         "the attribute whose groups are compared"),
    ]  # fmt: skip
