"""A reproduction as one HTML page that needs nothing beside it: no script, no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenhand import charts
from evenhand.reproduce.pages import figure, templates
from evenhand.reproduce.shields import published, tables, text
from evenhand.reproduce.shields.environments import TRAINED_ON
from evenhand.reproduce.shields.plot import draw_bias, draw_losses, draw_periods
from evenhand.reproduce.shields.result import Reproduction
from evenhand.reproduce.shields.settings import FINITE, PERIODIC

TEMPLATES = Path(__file__).parent / "templates"


def render(found: Reproduction) -> str:
    """The page. The same result gives the same text."""
    return str(templates(TEMPLATES).get_template("shields.html").render(_context(found)))


def _context(found: Reproduction) -> dict[str, Any]:
    kappa = tables.shown_kappa(found)
    settings = found.settings
    return {
        "result": found,
        "paper": published.PAPER,
        "where": published.WHERE,
        "runs": sum(cell.runs() for cell in found.cells),
        "said": said(found),
        "horizons": " or ".join(f"{count} decisions ({text.SHORT[name]})" for name, count in settings.horizons.items()),
        "bias": tables.bias_rows(found),
        "bias_place": published.BIAS_PLACE,
        "rates": [(name, tables.rate_rows(found, empty_group=name)) for name in settings.empty_groups],
        "rates_place": published.RATES_PLACE,
        "loss_place": published.UTILITY_LOSS_PLACE,
        "finite_losses": tables.finite_losses(found),
        "periodic_losses": tables.periodic_losses(found, kappa),
        "periodic": PERIODIC,
        "kappa": kappa,
        "choices": tables.choice_rows(found),
        "trained": [(one, tables.published_people(one), tables.published_classifier(one)) for one in found.classifiers],
        "classifiers": [name for name in settings.classifiers if name not in found.left_out],
        "left_out": text.left_out(found.left_out),
        "people_place": published.PEOPLE_PLACE,
        "classified_place": published.CLASSIFIED_PLACE,
        "notes": list(
            dict.fromkeys((f"{one.dataset}, {one.attribute}", one.note) for one in found.classifiers if one.note)
        ),
        "facts": _facts(found),
        "figures": {
            "bias": figure("bias", draw_bias, found),
            "losses": figure("losses", draw_losses, found),
            "periods": figure("periods", draw_periods, found),
        },
        "short": text.SHORT,
        "shield": text.shield,
        "number": text.number,
        "held": text.held,
        "chart_styles": charts.stylesheet(),
    }


def said(found: Reproduction) -> list[str]:
    """What came out, in a sentence each."""
    lines = []
    rows = {(row.property, row.shield): row for row in tables.bias_rows(found)}
    for name in tables.PROPERTIES:
        if (name, FINITE) not in rows:
            continue
        alone, shielded = rows[name, tables.NONE], rows[name, FINITE]
        theirs = published.BIAS[name, tables.NONE]
        lines.append(
            f"{text.LONG[name].capitalize()}, bounded horizon: {100 * alone.above / alone.runs:.1f} % of runs end "
            f"unfair without a shield (published {theirs.above:.1f} %, over five classifiers), {shielded.above} of "
            f"{shielded.runs:,} with FinHzn."
        )
    for name in tables.PROPERTIES:
        own = [row for row in tables.rate_rows(found) if row.property == name]
        shares = [f"{text.shield(row.shield)} {100 * row.fair / row.runs:.1f} %" for row in own]
        if shares:
            lines.append(f"{text.LONG[name].capitalize()}, fair at the end of every period: {', '.join(shares)}.")
    return lines


def _facts(found: Reproduction) -> list[tuple[str, str]]:
    settings = found.settings
    finite = {
        name: [cell.seconds for cell in found.cells if cell.shield == FINITE and cell.property == name]
        for name in tables.PROPERTIES
    }
    times = "; ".join(
        f"{text.SHORT[name]} {sum(seconds) / len(seconds):.2f} s for the shield and its {settings.runs} runs "
        f"(published, for the shield alone: about {published.SYNTHESIS[name][0]:g} s, {published.SYNTHESIS_PLACE})"
        for name, seconds in finite.items()
        if seconds
    )
    layers = " x ".join(str(size) for size in settings.layers)
    return [
        ("runs", f"{settings.runs} per setting with a bounded horizon, {settings.periodic_runs} per periodic one"),
        ("arrivals", "drawn with replacement from the people the classifier was not trained on; shields of one "
         "environment, property and threshold decide on the same ones"),
        ("classifiers", f"networks of layers {layers}, trained on {100 * TRAINED_ON:.0f} % of the people; they do not "
         "see the attribute whose groups are compared; periodic shields are for the first of them alone"),
        ("Static-BW", "welfare bounds as wide as the threshold, around the share of label 1"),
        ("equal opportunity", "the true label is known before the next decision; labels are expected as often as "
         "recommendations to accept, as in the authors' code"),
        ("time", times),
    ]  # fmt: skip
