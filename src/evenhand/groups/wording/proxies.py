"""Answers and tables for probabilistic groups; each estimate is shown with its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenhand.core.document import Block, Column, Heading, Metric, Note, ReportedNumber, Table, TableRow
from evenhand.core.text import format_count, format_level
from evenhand.groups.proxies.result import ProxyDifference, ProxyRate, ProxyRates
from evenhand.stats.metric_specs import METRIC_TITLES
from evenhand.stats.quantity import Estimated, Unknown, format_value, show_quantity

STEP = 0.1
"""Difference between members and others of the same probability in the sensitivity column."""


def proxy_answers(proxies: Sequence[ProxyRates], weighted: str) -> list[Metric]:
    """Build the answers on the largest difference in selection rates, with its bounds.

    Args:
        proxies: Rates by each probabilistic attribute.
        weighted: Source of the weights, as a suffix of numbers.
    """
    return [_answer(part, weighted) for part in proxies]


def proxy_sentences(proxies: Sequence[ProxyRates], weighted: str) -> list[str]:
    """Compare the groups with the largest difference in selection rates, one sentence for each attribute."""
    return [_describe(part, pair, weighted) for part in proxies if (pair := _widest_pair(part)) is not None]


def proxy_blocks(proxies: Sequence[ProxyRates], weighted: str, *, level: int = 2) -> Iterator[Block]:
    """Yield rates and differences by each attribute: estimates, their assumption, and bounds."""
    for part in proxies:
        yield Heading(f"By {part.by}, known by probability", level, detail=True)
        yield Note(part.assumption, "caution")
        if part.unknown:
            people = format_count(part.unknown, "person", "people")
            yield Note(f"Left out: {people} of unknown {part.by}, who are in every figure that is not by {part.by}.")
        for metric in dict.fromkeys(rate.metric for rate in part.rates):
            yield _rate_table(part, metric, weighted)
            if part.pairs(metric):
                yield _difference_table(part, metric, weighted)


def _rate_table(proxies: ProxyRates, metric: str, weighted: str) -> Table:
    rates = [rate for rate in proxies.rates if rate.metric == metric]
    level = next((rate.estimate.confidence for rate in rates if isinstance(rate.estimate, Estimated)), 0.95)
    titles = (
        "expected people",
        "effective size",
        "under the assumption",
        "without the assumption",
        f"if members are selected {100 * STEP:.0f} points more or less often",
    )
    return Table(
        f"{METRIC_TITLES[metric].capitalize()} by {proxies.by}, estimated from probabilities{weighted}; below each its "
        f"{format_level(level)} interval",
        (Column(proxies.by), *(Column(title, numeric=True) for title in titles)),
        tuple(
            TableRow(
                (
                    rate.group,
                    f"{rate.expected_people:,.0f}",
                    f"{rate.effective_size:,.0f}",
                    show_quantity(rate.estimate, "rate", basis=f"on {proxies.people:,} people"),
                    f"{100 * rate.low:.1f} to {100 * rate.high:.1f} %",
                    _format_sensitivity(rate),
                ),
                "effective size too small: in no difference" if rate.small else "",
                faint=rate.small,
            )
            for rate in rates
        ),
        usual="estimated",
    )


def _difference_table(proxies: ProxyRates, metric: str, weighted: str) -> Table:
    pairs = proxies.pairs(metric)
    simultaneous = "" if len(pairs) == 1 else f", simultaneous over {len(pairs)} pairs"
    basis, name = f"on {proxies.people:,} people", "demographic_parity_difference"
    titles = ("under the assumption", "without the assumption")
    return Table(
        f"Differences of the {METRIC_TITLES[metric]} by {proxies.by}, estimated from probabilities{weighted}; "
        f"intervals and bounds{simultaneous}",
        (Column("first minus second"), *(Column(title, numeric=True) for title in titles)),
        tuple(
            TableRow(
                (
                    f"{pair.first} - {pair.second}",
                    show_quantity(pair.estimate, name, basis=basis),
                    f"{pair.low:.2f} to {pair.high:.2f}",
                )
            )
            for pair in pairs
        ),
        usual="estimated",
    )


def _format_sensitivity(rate: ProxyRate) -> str:
    if rate.sensitivity is None or isinstance(rate.estimate, Unknown):
        return "-"
    bias = STEP * rate.sensitivity
    up, down = (min(1.0, max(0.0, rate.estimate.value + side * bias)) for side in (1, -1))
    return f"{100 * up:.1f} or {100 * down:.1f} %"


def _widest_pair(proxies: ProxyRates) -> ProxyDifference | None:
    """Return the largest absolute difference in selection rates."""
    return max(proxies.pairs(), key=lambda pair: abs(pair.value), default=None)


def _order(pair: ProxyDifference) -> tuple[str, str]:
    """Return the group with the higher and the one with the lower rate."""
    return (pair.first, pair.second) if pair.value >= 0 else (pair.second, pair.first)


def _answer(proxies: ProxyRates, weighted: str) -> Metric:
    name, pair, bounds = "demographic parity difference, by probability", _widest_pair(proxies), None
    if pair is not None:
        bounds = proxies.largest_bounds("selection_rate")
    if pair is None or bounds is None:
        return Metric(
            name,
            ReportedNumber("-", kind="unknown", basis="not computable: fewer than two groups are large enough"),
            about=proxies.by,
            next_step="bring more people",
        )
    best, worst = _order(pair)
    notes = [
        f"without the assumption that decisions do not depend on {proxies.by} among people of the same probability: "
        f"{bounds[0]:.2f} to {bounds[1]:.2f}",
        f"highest selection rate: {best}; lowest: {worst}{weighted}",
    ]
    if proxies.unknown:
        notes.append(f"left out: {format_count(proxies.unknown, 'person', 'people')} of unknown {proxies.by}")
    basis = f"from the probabilities of {proxies.people:,} people"
    return Metric(
        name,
        show_quantity(proxies.largest_difference("selection_rate"), "demographic_parity_difference", basis=basis),
        tuple(notes),
        about=proxies.by,
        next_step="read the bounds with the estimate",
    )


def _describe(proxies: ProxyRates, pair: ProxyDifference, weighted: str) -> str:
    best, worst = (proxies.rate(group).estimate for group in _order(pair))
    assert isinstance(best, Estimated)
    assert isinstance(worst, Estimated)
    low, high = (pair.low, pair.high) if pair.value >= 0 else (-pair.high, -pair.low)
    highest, lowest = _order(pair)
    return (
        f"By probabilities of {proxies.by}, people of {proxies.by} {lowest} are selected in "
        f"{format_value(worst, 'rate')} of cases and those of {highest} in {format_value(best, 'rate')} "
        f"(estimated{weighted}; {100 * abs(pair.value):.1f} points apart, {100 * low:.1f} to {100 * high:.1f} without "
        "the assumption of the estimate)."
    )
