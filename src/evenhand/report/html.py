"""The report as one HTML file: no script, no network, readable in ten minutes, complete for an auditor."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenhand import charts
from evenhand.groups.result import SMALL
from evenhand.report import regulation, summary, words
from evenhand.report.method import levels, limits, methods, schema_rows

if TYPE_CHECKING:
    import jinja2

    from evenhand.audit.result import AuditResult
    from evenhand.certify.result import Certificate
    from evenhand.groups.result import Breakdown
    from evenhand.individual.result import Profile
    from evenhand.individual.search.reading.parts import KindOfPeople
    from evenhand.individual.search.result import SearchResult

WIDE = 880
NARROW = 330
"""Every chart is drawn twice, for these widths in pixels; the page shows the one that fits."""

REGIONS = 6
"""Parts of the domain shown per certificate; report.json has all."""

STOPPED = {
    "done": "nothing was left to decide",
    "time": "the time limit",
    "boxes": "the limit on boxes",
    "target": "its target: little enough is undecided",
    "depth": "boxes that cannot be divided further",
    "interrupt": "somebody",
}

METHODS = {
    "interval": "symbolic intervals, box by box",
    "linear": "linear bounds, box by box",
}


@dataclass(frozen=True)
class Figure:
    """One chart of the page in two sizes.

    Attributes:
        wide, narrow: ``<svg>`` elements.
    """

    wide: str
    narrow: str


def render(audit: AuditResult) -> str:
    """The whole report as text of one HTML file. The same audit gives the same text."""
    page = environment().get_template("report.html")
    return str(page.render(_context(audit)))


def _context(audit: AuditResult) -> dict[str, Any]:
    return {
        "audit": audit,
        "model": audit.model,
        "data": audit.data,
        "individual": audit.individual,
        "lines": _by_attribute(summary.lines(audit)),
        "present": _present(audit),
        "small": SMALL,
        "schema_rows": schema_rows(audit.described),
        "groups": [_group_section(breakdown, i) for i, breakdown in enumerate(audit.groups.breakdowns)],
        "levels": levels(audit.groups),
        "calibration": _calibration(audit),
        "most_regions": REGIONS,
        "flips": _flips(audit),
        "pairs": _pairs(audit),
        "searches": [_searched(search, i) for i, search in enumerate(audit.searches)],
        "proof": _proof(audit),
        "part": _subgroups(audit),
        "refused": _too_few(audit),
        "methods": methods(audit),
        "limits": limits(audit),
        "impact": regulation.impact_tables(audit),
        "four_fifths": regulation.four_fifths(audit),
        "local_law_144": regulation.local_law_144(audit),
        "annex_iv": regulation.annex_iv(audit),
        "chart_styles": charts.stylesheet(),
    }


def _by_attribute(lines: list[summary.Line]) -> dict[str, list[summary.Line]]:
    found: dict[str, list[summary.Line]] = {}
    for line in lines:
        found.setdefault(line.protected, []).append(line)
    return found


def _present(audit: AuditResult) -> list[dict[str, Any]]:
    """Who is there, by protected attribute: the groups that are compared, and every value where these are coarser."""
    groups = {
        one.by[0]: {group.label: group.size for group in one.groups}
        for one in audit.groups.breakdowns
        if len(one.by) == 1
    }
    return [
        {"attribute": name, "groups": groups.get(name, counts), "values": counts}
        for name, counts in audit.data.counts.items()
    ]


def _figure(name: str, draw: Callable[..., charts.Spec], what: Any) -> Figure:
    return Figure(
        wide=charts.svg(draw(what, width=WIDE), name=f"{name}-wide"),
        narrow=charts.svg(draw(what, width=NARROW), name=f"{name}-narrow"),
    )


def _group_section(breakdown: Breakdown, i: int) -> dict[str, Any]:
    from evenhand.groups.plot import draw_breakdown, drawn

    present = {metric for group in breakdown.groups for metric in group.metrics}
    return {
        "by": words.joined(breakdown.by),
        "groups": breakdown.groups,
        "gaps": breakdown.gaps,
        "metrics": [name for name in words.METRICS if name in present] + sorted(present - words.METRICS.keys()),
        "figure": _figure(f"groups-{i}", draw_breakdown, breakdown),
        "drawn": len(drawn(breakdown)),
        "small": [f"{group.label} ({group.size})" for group in breakdown.groups if group.small],
    }


def _calibration(audit: AuditResult) -> list[dict[str, Any]]:
    from evenhand.groups.plot import draw_calibration

    bins = audit.groups.calibration
    found = []
    for i, by in enumerate(dict.fromkeys(one.by for one in bins)):
        own = tuple(one for one in bins if one.by == by)
        figure = _figure(f"calibration-{i}", draw_calibration, own)
        found.append({"by": by, "bins": own, "figure": figure})
    return found


def _flips(audit: AuditResult) -> Figure | None:
    from evenhand.individual.plot import draw

    if all(rate.rate.kind == "unknown" for rate in audit.individual.rates):
        return None
    return _figure("flips", draw, audit.individual)


def _pairs(audit: AuditResult) -> list[tuple[str, list[Profile]]]:
    sets = dict.fromkeys(rate.protected for rate in audit.individual.rates)
    found = [(" and ".join(protected), summary.pairs(audit.individual, protected)) for protected in sets]
    return [(name, profiles) for name, profiles in found if profiles]


def _searched(search: SearchResult, i: int) -> dict[str, Any]:
    from evenhand.individual.search.plot import draw_attributes

    reading = search.reading
    return {
        "it": search,
        "by": words.joined(search.protected),
        "kinds": [] if reading is None else list(zip(reading.kinds, search.representatives, strict=True)),
        "figure": None if reading is None else _figure(f"search-{i}", draw_attributes, search),
    }


def shared(kind: KindOfPeople) -> str:
    """What the people of a kind have in common."""
    common = ", ".join(f"{name} {value}" for name, value in kind.common.items())
    return f"{common or 'people of every sort'}; median gap {words.decimal(kind.gap)}"


def _proof(audit: AuditResult) -> dict[str, Any] | None:
    from evenhand.certify.plot import draw_history, draw_shares

    certificates = audit.certificates
    if not certificates:
        return None
    timed = [certificate for certificate in certificates if len(certificate.history) > 1]
    return {
        "shares": _figure("shares", draw_shares, certificates),
        "history": _figure("history", draw_history, timed) if timed else None,
        "certificates": [_certificate(certificate, i) for i, certificate in enumerate(certificates)],
        "populations": sorted({certificate.population for certificate in certificates}),
    }


def _certificate(certificate: Certificate, i: int) -> dict[str, Any]:
    from evenhand.certify.slice_plot import draw_slices, telling

    return {
        "it": certificate,
        "by": words.joined(certificate.protected),
        "estimate": summary.estimate(certificate),
        "method": METHODS.get(certificate.method, certificate.method),
        "stopped": STOPPED[certificate.stopped_by],
        "slices": _figure(f"slices-{i}", draw_slices, certificate) if telling(certificate) else None,
    }


def _subgroups(audit: AuditResult) -> dict[str, Any] | None:
    from evenhand.report.subgroups import section  # which needs this module

    return None if audit.subgroups is None else section(audit.subgroups, audit.model.favourable)


def _too_few(audit: AuditResult) -> list[tuple[str, int, str]]:
    """Groups that were not looked at as subgroups: how they are called, their people, and why not."""
    searched = audit.subgroups
    if searched is None:
        return []
    share = f"fewer than {100 * searched.support:.6g} % of the people"
    floors = [(searched.least_people, f"fewer than {searched.least_people:,} people")]
    floors += [(math.ceil(searched.support * searched.people), share)]
    found = []
    for group in (group for breakdown in audit.groups.breakdowns for group in breakdown.groups):
        why = next((reason for least, reason in floors if group.size < least), None)
        if why is not None:
            found.append((group.label, group.size, why))
    return sorted(found, key=lambda one: -one[1])


def _shown(value: object) -> object:
    """What the page shows for a value: texts are printable, and no line breaks between a number and its unit."""
    return charts.printable(value).replace(" %", "\N{NO-BREAK SPACE}%") if type(value) is str else value


@cache
def environment() -> jinja2.Environment:
    """The templates, with the words and numbers that they use."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters |= {
        "shared": shared,
        "percent": charts.percent,
        "decimal": words.decimal,
        "at_least": words.at_least,
        "at_most": words.at_most,
        "value": words.value,
        "ends": words.ends,
        "basis": words.basis,
        "level": words.level,
        "duration": words.duration,
        "count": words.count,
        "joined": words.joined,
        "listed": words.listed,
        "metric": lambda name: words.METRICS.get(name, name.replace("_", " ")),
        "gap": lambda name: words.GAPS.get(name, name.replace("_", " ")),
    }
    return environment
