"""Audits of language models: gaps by pair of groups and scenario, and flips by cause."""

from __future__ import annotations

from evenhand.core.text import format_percent
from evenhand.llm.comparison import LanguageModelComparison
from evenhand.llm.result import GroupGap, LanguageModelAudit
from evenhand.llm.wording import show_gap
from evenhand.stats.quantity import Quantity, Unknown
from evenhand.view.drawing.axis import differences, percentages, spread
from evenhand.view.drawing.rows import Bar, Block, Dot, Label, Line, Panel, Row, RowChart, Span, together

CAUSES = (("noise", "open", "own noise"), ("names", "third", "names"), ("identity", "different", "identity"))
"""The parts of flips: field, colour, name."""

NAMES = 330
"""Pixels for the names beside the drawing."""


def plot_language_audit(result: LanguageModelAudit) -> RowChart:
    """Plot the gaps above the causes of flips."""
    causes = [draw_causes(result)] if any(one.flips is not None for one in result.comparisons) else []
    return together([draw_language_gaps(result), *causes])


def draw_language_gaps(result: LanguageModelAudit) -> RowChart:
    """Draw two rows per pair of groups, over other names and here, then a row per scenario, with intervals."""
    rows: list[tuple[str, Quantity, int]] = []
    for one in result.comparisons:
        rows += [(f"{one.group_1} minus {one.group_0}", one.gap, 0), ("these templates and names", one.gap_here, 1)]
        rows += [(each.scenario, each.gap, 1) for each in one.scenarios]
    return _draw_gaps(result, rows, "Gaps with intervals. Right of the line the first group is better off")


def draw_language_changes(result: LanguageModelComparison) -> RowChart:
    """Draw the gap of both models and its change, with intervals, for each pair of groups."""
    rows: list[tuple[str, Quantity, int]] = []
    for one in result.changes:
        rows += [
            (f"{one.name}: {result.before.file}", one.before, 0),
            (result.after.file, one.after, 1),
            ("change of the gap", one.change, 1),
        ]
    return _draw_gaps(result.before, rows, "Gaps before and after, and their change, with intervals")


def _draw_gaps(result: LanguageModelAudit, rows: list[tuple[str, Quantity, int]], description: str) -> RowChart:
    """Draw quantities around a line at 0. Diamonds are estimated, filled dots observed, grey where 0 is inside."""
    scale = 100.0 if result.outcome in ("rate", "score") else 1.0
    ends = [end for _, one, _ in rows if not isinstance(one, Unknown) for end in (one.value, *_ends(one))]
    reach = scale * max((abs(end) for end in ends), default=0.0) or scale * 0.01
    panel = Panel(spread(-reach, reach, differences), lines=(Line(0.0, dashed=False),))
    said = "; ".join(f"{name}: {show_gap(result, one).text}" for name, one, _ in rows)
    drawn = tuple(_gap_row(name, one, indent, scale, show_gap(result, one).text) for name, one, indent in rows)
    return RowChart(f"{description}. {said}.", (Block(rows=drawn, panels=(panel,), names=NAMES, height=32),))


def _gap_row(name: str, gap: Quantity, indent: int, scale: float, text: str) -> Row:
    if isinstance(gap, Unknown):
        return Row(name, ((),), indent=indent, role="muted", aside=gap.reason)
    low, high = (scale * end for end in _ends(gap))
    certain = low > 0 or high < 0
    observed = gap.kind == "observed"
    role = ("same" if gap.value > 0 else "different") if certain else "faint"
    dot = Dot(scale * gap.value, low, high, role, "circle" if observed else "diamond", filled=observed)
    return Row(name, ((dot, Label(high, text)),), indent=indent)


def _ends(quantity: Quantity) -> tuple[float, float]:
    """Return the ends of an interval; the number itself twice without one."""
    value = 0.0 if isinstance(quantity, Unknown) else quantity.value
    return getattr(quantity, "low", value), getattr(quantity, "high", value)


def draw_causes(result: LanguageModelAudit) -> RowChart:
    """Draw one bar per pair of groups: noise, names and identity, with the interval of identity at its end."""
    split = [one for one in result.comparisons if one.flips is not None]
    top = max((_bar_end(one) for one in split), default=0.0) or 0.01
    panel = Panel(spread(0.0, top, percentages, about=4, whole=True))
    said = "; ".join(f"{one.name}: {_causes_in_words(one)}" for one in split)
    rows = tuple(Row(one.name, (_cause_marks(one),)) for one in split)
    legend = tuple((role, name) for _, role, name in CAUSES)
    description = f"Pairs with different answers when each is asked about once, by cause. {said}."
    return RowChart(description, (Block(rows=rows, panels=(panel,), names=NAMES, height=32),), legend)


def _parts(one: GroupGap) -> list[tuple[str, float]]:
    """Return each part's colour and size, none below 0: an unbiased estimate of a small part can be."""
    known = ((role, getattr(one.flips, name)) for name, role, _ in CAUSES)
    return [(role, max(0.0, part.value)) for role, part in known if not isinstance(part, Unknown)]


def _bar_end(one: GroupGap) -> float:
    size = sum(size for _, size in _parts(one))
    return size + max(0.0, _over(one)[1])


def _over(one: GroupGap) -> tuple[float, float]:
    """Return how far the ends of identity's interval lie from its value."""
    identity = one.flips.identity if one.flips is not None else None
    if identity is None or isinstance(identity, Unknown):
        return 0.0, 0.0
    low, high = _ends(identity)
    return low - max(0.0, identity.value), high - max(0.0, identity.value)


def _cause_marks(one: GroupGap) -> tuple[Bar | Span | Label, ...]:
    marks: list[Bar | Span | Label] = []
    at = 0.0
    for role, size in _parts(one):
        if size > 0:
            marks.append(Bar(at, at + size, role))
        at += size
    below, above = _over(one)
    return (*marks, Span(max(0.0, at + below), at + above, "ink"), Label(at + max(0.0, above), _total(one)))


def _total(one: GroupGap) -> str:
    assert one.flips is not None
    total = one.flips.asked_once
    return "" if isinstance(total, Unknown) else format_percent(total.value)


def _causes_in_words(one: GroupGap) -> str:
    known = ((name, getattr(one.flips, field)) for field, _, name in CAUSES)
    return ", ".join(f"{name} {format_percent(part.value)}" for name, part in known if not isinstance(part, Unknown))
