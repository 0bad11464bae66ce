"""Sentences and tables for groups known by probability; each estimate is shown with its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenhand.core.document import Block, Column, Heading, Note, Table, TableRow, Text
from evenhand.core.text import format_level
from evenhand.groups.breakdown import ProxyRates
from evenhand.groups.wording.tables import left_out_notes
from evenhand.stats.quantity import Estimated, Known, format_value, show_quantity


def proxy_sentences(proxies: Sequence[ProxyRates], weighted: str) -> list[str]:
    """Compare the groups with the largest difference in selection rates, in one sentence per attribute."""
    sentences = []
    for part in proxies:
        (by,), (gap,) = part.by, part.gaps
        if gap.bounds is None or not isinstance(gap.value, Estimated):
            continue
        rates = {group.label: group.metrics["selection_rate"] for group in part.groups}
        ends = (rates[gap.worst], rates[gap.best])
        lowest, highest = (format_value(rate, "rate") for rate in ends if isinstance(rate, Known))
        apart, low, high = (f"{100 * end:.1f}" for end in (gap.value.value, *gap.bounds))
        sentences.append(
            f"By probabilities of {by}, people of {by} {gap.worst} are selected in {lowest} of cases and those of "
            f"{gap.best} in {highest} (estimated{weighted}; {apart} points apart, {low} to {high} without the "
            "assumption of the estimate)."
        )
    return sentences


def proxy_blocks(proxies: Sequence[ProxyRates], weighted: str, *, level: int) -> Iterator[Block]:
    """Yield rates and differences for each attribute: estimates, their assumption, and bounds."""
    for part in proxies:
        yield Heading(f"By {part.by[0]}, known only as a probability", level, detail=True)
        yield Note(part.assumption, "caution")
        yield from left_out_notes(part.unknown, part.by)
        yield _rate_table(part, weighted)
        yield from (Text(sentence) for sentence in proxy_sentences([part], weighted))


def _rate_table(proxies: ProxyRates, weighted: str) -> Table:
    rates = [group.metrics["selection_rate"] for group in proxies.groups]
    level = next((rate.confidence for rate in rates if isinstance(rate, Estimated)), 0.95)
    titles = ("expected people", "effective size", "under the assumption", "without the assumption")
    return Table(
        f"Selection rate by {proxies.by[0]}, estimated from probabilities{weighted}, each with its "
        f"{format_level(level)} interval",
        (Column(proxies.by[0]), *(Column(title, numeric=True) for title in titles)),
        tuple(
            TableRow(
                (
                    group.label,
                    group.size,
                    f"{group.effective_size:,.0f}",
                    show_quantity(rate, "rate", basis=f"on {proxies.people:,} people"),
                    " to ".join(f"{100 * end:.1f}" for end in group.bounds or ()) + " %",
                ),
                "effective size too small: in no difference" if group.small else "",
                faint=group.small,
            )
            for group, rate in zip(proxies.groups, rates, strict=True)
        ),
        usual="estimated",
    )
