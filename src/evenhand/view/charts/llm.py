"""Audits of language models: gaps by pair of groups and scenario, and flips by cause."""

from __future__ import annotations

from evenhand.core.text import format_percent
from evenhand.llm.comparison import LanguageModelComparison
from evenhand.llm.result import GroupGap, LanguageModelAudit
from evenhand.llm.wording import show_gap
from evenhand.stats.quantity import Quantity, Unknown
from evenhand.view.drawing.axis import differences, percentages, spread
from evenhand.view.drawing.rows import Bar, Block, Dot, Label, Line, Panel, Row, RowChart, Span, join_rows

CAUSES = (("noise", "open", "own noise"), ("names", "third", "names"), ("identity", "different", "identity"))
"""Causes of flips: field, colour and name."""

NAMES = 330
"""Width of the row names in pixels."""


def plot_language_audit(result: LanguageModelAudit) -> RowChart:
    """Plot the gaps above the causes of flips."""
    causes = [draw_causes(result)] if any(comparison.flips is not None for comparison in result.comparisons) else []
    return join_rows([draw_language_gaps(result), *causes])


def draw_language_gaps(result: LanguageModelAudit) -> RowChart:
    """Draw two rows per pair of groups, over the population and for these templates, then one row per scenario."""
    rows: list[tuple[str, Quantity, int]] = []
    for comparison in result.comparisons:
        rows += [
            (f"{comparison.group_1} minus {comparison.group_0}", comparison.gap, 0),
            ("these templates and names", comparison.gap_here, 1),
        ]
        rows += [(scenario.scenario, scenario.gap, 1) for scenario in comparison.scenarios]
    return _draw_gaps(result, rows, "Gaps with intervals. To the right of the line, the first group is better off")


def draw_language_changes(result: LanguageModelComparison) -> RowChart:
    """Draw the gap of both models and its change, with intervals, for each pair of groups."""
    rows: list[tuple[str, Quantity, int]] = []
    for change in result.changes:
        rows += [
            (f"{change.name}: {result.before.file}", change.before, 0),
            (result.after.file, change.after, 1),
            ("change of the gap", change.change, 1),
        ]
    return _draw_gaps(result.before, rows, "Gaps before and after, and their change, with intervals")


def _draw_gaps(result: LanguageModelAudit, rows: list[tuple[str, Quantity, int]], description: str) -> RowChart:
    """Draw gaps around a line at 0: diamonds are estimated, filled dots observed, and intervals around 0 grey."""
    scale = 100.0 if result.outcome in ("rate", "score") else 1.0
    ends = [end for _, gap, _ in rows if not isinstance(gap, Unknown) for end in (gap.value, *_ends(gap))]
    reach = scale * max((abs(end) for end in ends), default=0.0) or scale * 0.01
    panel = Panel(spread(-reach, reach, differences), lines=(Line(0.0, dashed=False),))
    gaps_text = "; ".join(f"{name}: {show_gap(result, gap).text}" for name, gap, _ in rows)
    gap_rows = tuple(_gap_row(name, gap, indent, scale, show_gap(result, gap).text) for name, gap, indent in rows)
    return RowChart(f"{description}. {gaps_text}.", (Block(rows=gap_rows, panels=(panel,), names=NAMES, height=32),))


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
    """Return the ends of an interval, or the value twice if there is none."""
    value = 0.0 if isinstance(quantity, Unknown) else quantity.value
    return getattr(quantity, "low", value), getattr(quantity, "high", value)


def draw_causes(result: LanguageModelAudit) -> RowChart:
    """Draw one bar per pair of groups: noise, names and identity, with the interval of identity at the end."""
    comparisons = [comparison for comparison in result.comparisons if comparison.flips is not None]
    top = max((_bar_end(comparison) for comparison in comparisons), default=0.0) or 0.01
    panel = Panel(spread(0.0, top, percentages, about=4, whole=True))
    causes_text = "; ".join(f"{comparison.name}: {_causes_in_words(comparison)}" for comparison in comparisons)
    rows = tuple(Row(comparison.name, (_cause_marks(comparison),)) for comparison in comparisons)
    legend = tuple((role, name) for _, role, name in CAUSES)
    description = f"Pairs with different answers when each is asked about once, by cause. {causes_text}."
    return RowChart(description, (Block(rows=rows, panels=(panel,), names=NAMES, height=32),), legend)


def _parts(comparison: GroupGap) -> list[tuple[str, float]]:
    """Return the colour and size of each part. Negative estimates, which are possible for small parts, become 0."""
    parts = ((role, getattr(comparison.flips, field)) for field, role, _ in CAUSES)
    return [(role, max(0.0, part.value)) for role, part in parts if not isinstance(part, Unknown)]


def _bar_end(comparison: GroupGap) -> float:
    length = sum(size for _, size in _parts(comparison))
    return length + max(0.0, _identity_margins(comparison)[1])


def _identity_margins(comparison: GroupGap) -> tuple[float, float]:
    """Compute the distances from the drawn size of identity to the ends of its interval."""
    identity = comparison.flips.identity if comparison.flips is not None else None
    if identity is None or isinstance(identity, Unknown):
        return 0.0, 0.0
    low, high = _ends(identity)
    return low - max(0.0, identity.value), high - max(0.0, identity.value)


def _cause_marks(comparison: GroupGap) -> tuple[Bar | Span | Label, ...]:
    marks: list[Bar | Span | Label] = []
    end = 0.0
    for role, size in _parts(comparison):
        if size > 0:
            marks.append(Bar(end, end + size, role))
        end += size
    below, above = _identity_margins(comparison)
    interval = Span(max(0.0, end + below), end + above, "ink")
    return (*marks, interval, Label(end + max(0.0, above), _total(comparison)))


def _total(comparison: GroupGap) -> str:
    assert comparison.flips is not None
    total = comparison.flips.asked_once
    return "" if isinstance(total, Unknown) else format_percent(total.value)


def _causes_in_words(comparison: GroupGap) -> str:
    parts = ((name, getattr(comparison.flips, field)) for field, _, name in CAUSES)
    return ", ".join(f"{name} {format_percent(part.value)}" for name, part in parts if not isinstance(part, Unknown))
