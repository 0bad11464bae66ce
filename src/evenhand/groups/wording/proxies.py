"""Metrics and tables for probabilistic groups; each estimate is shown with its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenhand.core.document import Block, Column, Heading, Metric, Note, ReportedNumber, Table, TableRow, Text
from evenhand.core.text import format_count, format_level
from evenhand.groups.proxies.result import ProxyRates
from evenhand.groups.wording.tables import left_out_notes
from evenhand.stats.quantity import Estimated, Known, format_value, show_quantity

DIFFERENCE = "demographic_parity_difference"
"""Metric whose format is used for all differences."""


def proxy_answers(proxies: Sequence[ProxyRates], weighted: str) -> Iterator[Metric]:
    """Yield the largest difference in selection rates for each attribute, with its bounds, for the summary."""
    for part in proxies:
        name, difference = "demographic parity difference, by probability", part.difference
        if difference is None:
            basis = "not computable: fewer than two groups are large enough"
            number = ReportedNumber("-", kind="unknown", basis=basis)
            yield Metric(name, number, about=part.by, next_step="add more people")
            continue
        notes = [
            f"without the assumption that decisions do not depend on {part.by} among people of the same probability: "
            f"{difference.low:.2f} to {difference.high:.2f}",
            f"highest selection rate: {difference.best}; lowest: {difference.worst}{weighted}",
        ]
        if part.unknown:
            notes.append(f"left out: {format_count(part.unknown, 'person', 'people')} of unknown {part.by}")
        number = show_quantity(
            difference.estimate, DIFFERENCE, basis=f"from the probabilities of {part.people:,} people"
        )
        yield Metric(name, number, tuple(notes), about=part.by, next_step="consider the bounds, not only the estimate")


def proxy_sentences(proxies: Sequence[ProxyRates], weighted: str) -> list[str]:
    """Compare the groups with the largest difference in selection rates, in one sentence per attribute."""
    sentences = []
    for part in proxies:
        difference = part.difference
        if difference is None:
            continue
        rates = [part.rate(group).estimate for group in (difference.worst, difference.best)]
        lowest, highest = (format_value(rate, "rate") for rate in rates if isinstance(rate, Known))
        apart, low, high = (f"{100 * end:.1f}" for end in (difference.estimate.value, difference.low, difference.high))
        sentences.append(
            f"By probabilities of {part.by}, people of {part.by} {difference.worst} are selected in {lowest} of cases "
            f"and those of {difference.best} in {highest} (estimated{weighted}; {apart} points apart, {low} to {high} "
            "without the assumption of the estimate)."
        )
    return sentences


def proxy_blocks(proxies: Sequence[ProxyRates], weighted: str, *, level: int) -> Iterator[Block]:
    """Yield rates and differences for each attribute: estimates, their assumption, and bounds."""
    for part in proxies:
        yield Heading(f"By {part.by}, known only as a probability", level, detail=True)
        yield Note(part.assumption, "caution")
        yield from left_out_notes(part.unknown, [part.by])
        yield _rate_table(part, weighted)
        yield from (Text(sentence) for sentence in proxy_sentences([part], weighted))


def _rate_table(proxies: ProxyRates, weighted: str) -> Table:
    rates = proxies.rates
    level = next((rate.estimate.confidence for rate in rates if isinstance(rate.estimate, Estimated)), 0.95)
    titles = ("expected people", "effective size", "under the assumption", "without the assumption")
    return Table(
        f"Selection rate by {proxies.by}, estimated from probabilities{weighted}, each with its "
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
                ),
                "effective size too small: in no difference" if rate.small else "",
                faint=rate.small,
            )
            for rate in rates
        ),
        usual="estimated",
    )
