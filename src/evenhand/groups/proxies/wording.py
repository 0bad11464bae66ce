"""Groups known by probability in words: answers, and tables in which no estimate stands without its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenhand.core.document import Block, Column, Heading, Metric, Note, ReportedNumber, Table, TableRow
from evenhand.core.text import format_count, format_level
from evenhand.groups.proxies.result import ProxyDifference, ProxyRate, ProxyRates
from evenhand.stats.metric_specs import METRIC_TITLES
from evenhand.stats.quantity import Estimated, Unknown, format_value, show_quantity

STEP = 0.1
"""How far members are thought to differ from others of the same probability, in the column that shows it."""


def proxy_answers(found: Sequence[ProxyRates], weighted: str) -> list[Metric]:
    """Return the largest difference in selection rate by each proxy, with what it can be without its assumption.

    Args:
        found: one for each attribute that is known by probability.
        weighted: by what people are weighted, to stand after numbers.
    """
    return [_answer(one, weighted) for one in found]


def proxy_sentences(found: Sequence[ProxyRates], weighted: str) -> list[str]:
    """Return one sentence for each attribute: which groups lie furthest apart, with the bounds."""
    return [_sentence(one, weighted) for one in found if _furthest(one) is not None]


def proxy_blocks(found: Sequence[ProxyRates], weighted: str, *, level: int = 2) -> Iterator[Block]:
    """Yield rates and differences by each proxy: estimates, what they rest on, and what holds without it."""
    for one in found:
        yield Heading(f"By {one.by}, known by probability", level, detail=True)
        yield Note(one.assumption, "caution")
        if one.unknown:
            people = format_count(one.unknown, "person", "people")
            yield Note(f"Left out: {people} of unknown {one.by}, who are in every figure that is not by {one.by}.")
        for metric in dict.fromkeys(rate.metric for rate in one.rates):
            yield _rate_table(one, metric, weighted)
            differences = [difference for difference in one.differences if difference.metric == metric]
            if differences:
                yield _difference_table(one, metric, differences, weighted)


def _rate_table(found: ProxyRates, metric: str, weighted: str) -> Table:
    rates = [rate for rate in found.rates if rate.metric == metric]
    level = format_level(_confidence(rates))
    return Table(
        f"{METRIC_TITLES[metric].capitalize()} by {found.by}, estimated from probabilities{weighted}; below each its "
        f"{level} interval",
        (
            Column(found.by),
            Column("expected people", numeric=True),
            Column("effective size", numeric=True),
            Column("under the assumption", numeric=True),
            Column("without the assumption", numeric=True),
            Column(f"if members are selected {100 * STEP:.0f} points more or less often", numeric=True),
        ),
        tuple(
            TableRow(
                (
                    one.group,
                    f"{one.expected_people:,.0f}",
                    f"{one.effective_size:,.0f}",
                    show_quantity(one.estimate, "rate", basis=f"on {found.people:,} people"),
                    _show_bounds(one.low, one.high),
                    _show_sensitivity(one),
                ),
                "effective size too small: in no difference" if one.small else "",
                faint=one.small,
            )
            for one in rates
        ),
        usual="estimated",
    )


def _difference_table(found: ProxyRates, metric: str, differences: Sequence[ProxyDifference], weighted: str) -> Table:
    together = "" if len(differences) == 1 else f", simultaneous over {len(differences)} pairs"
    return Table(
        f"Differences of the {METRIC_TITLES[metric]} by {found.by}, estimated from probabilities{weighted}; intervals "
        f"and bounds{together}",
        (
            Column("first minus second"),
            Column("under the assumption", numeric=True),
            Column("without the assumption", numeric=True),
        ),
        tuple(
            TableRow(
                (
                    f"{one.first} - {one.second}",
                    show_quantity(one.estimate, "demographic_parity_difference", basis=f"on {found.people:,} people"),
                    f"{one.low:.2f} to {one.high:.2f}",
                )
            )
            for one in differences
        ),
        usual="estimated",
    )


def _show_bounds(low: float, high: float) -> str:
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def _show_sensitivity(rate: ProxyRate) -> str:
    if rate.sensitivity is None or isinstance(rate.estimate, Unknown):
        return "-"
    off = STEP * rate.sensitivity
    up, down = (min(1.0, max(0.0, rate.estimate.value + side * off)) for side in (1, -1))
    return f"{100 * up:.1f} or {100 * down:.1f} %"


def _confidence(rates: Sequence[ProxyRate]) -> float:
    return next((one.estimate.confidence for one in rates if isinstance(one.estimate, Estimated)), 0.95)


def _furthest(found: ProxyRates) -> ProxyDifference | None:
    """Return the difference in selection rate that is largest, without its sign."""
    compared = [one for one in found.differences if one.metric == "selection_rate"]
    return max(compared, key=lambda one: abs(_value(one)), default=None)


def _value(difference: ProxyDifference) -> float:
    assert not isinstance(difference.estimate, Unknown)
    return difference.estimate.value


def _drop_sign(low: float, high: float) -> tuple[float, float]:
    return max(0.0, low, -high), max(high, -low)


def _answer(found: ProxyRates, weighted: str) -> Metric:
    name, furthest = "demographic parity difference, by probability", _furthest(found)
    if furthest is None:
        return Metric(
            name,
            ReportedNumber("-", kind="unknown", basis="not computable: fewer than two groups are large enough"),
            about=found.by,
            next_step="bring more people",
        )
    compared = [one for one in found.differences if one.metric == "selection_rate"]
    estimates = [one.estimate for one in compared if isinstance(one.estimate, Estimated)]
    # The true largest gap lies between the largest of the lower and of the upper ends, all of which hold together.
    low, high = (max(ends) for ends in zip(*(_drop_sign(one.low, one.high) for one in estimates), strict=True))
    least, most = (max(ends) for ends in zip(*(_drop_sign(one.low, one.high) for one in compared), strict=True))
    assert isinstance(furthest.estimate, Estimated)
    gap = furthest.estimate.model_copy(update={"value": abs(furthest.estimate.value), "low": low, "high": high})
    best, worst = _order(furthest)
    notes = [
        f"without the assumption that decisions do not depend on {found.by} among people of the same probability: "
        f"{least:.2f} to {most:.2f}",
        f"highest selection rate: {best}; lowest: {worst}{weighted}",
    ]
    if found.unknown:
        notes.append(f"left out: {format_count(found.unknown, 'person', 'people')} of unknown {found.by}")
    return Metric(
        name,
        show_quantity(gap, "demographic_parity_difference", basis=f"from the probabilities of {found.people:,} people"),
        tuple(notes),
        about=found.by,
        next_step="read the bounds beside the estimate",
    )


def _order(difference: ProxyDifference) -> tuple[str, str]:
    pair = (difference.first, difference.second)
    return pair if _value(difference) >= 0 else (pair[1], pair[0])


def _sentence(found: ProxyRates, weighted: str) -> str:
    furthest = _furthest(found)
    assert furthest is not None
    best, worst = (found.rate(group) for group in _order(furthest))
    assert isinstance(best.estimate, Estimated)
    assert isinstance(worst.estimate, Estimated)
    low, high = (furthest.low, furthest.high) if best.group == furthest.first else (-furthest.high, -furthest.low)
    return (
        f"By probabilities of {found.by}, people of {found.by} {worst.group} are selected in "
        f"{format_value(worst.estimate, 'rate')} of cases and those of {best.group} in "
        f"{format_value(best.estimate, 'rate')} (estimated{weighted}; {100 * abs(_value(furthest)):.1f} points apart, "
        f"{100 * low:.1f} to {100 * high:.1f} without the assumption that this rests on)."
    )
