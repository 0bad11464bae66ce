"""Whether what items show depends on the prompts, or is the generator's own way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict

from evenhand.charts import percent
from evenhand.stats import Estimated, Quantity, Unknown, bonferroni, sequential_rate

Source: TypeAlias = Literal["prompts", "generator", "unknown"]


class Dependence(BaseModel):
    """How much the values of one concept group depend on the prompt.

    Attributes:
        group: the concept group.
        prompts: with at least one recognised item.
        value: the one whose share differs most between two prompts; None where nothing can be compared.
        difference: by how much.
        source: generator: one value comes more than half of the time whichever the prompt. Prompts: none does, and
            their shares do differ. Unknown: neither is shown.
        why: one sentence.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str
    prompts: int
    value: str | None
    difference: Quantity
    source: Source
    why: str


class _Span(NamedTuple):
    """The difference of the shares of one value between prompts, its bounds, and the least that its share can be."""

    seen: float
    low: float
    high: float
    least: float


def dependence(group: str, shown: Mapping[str, Mapping[str, int]], confidence: float = 0.95) -> Dependence:
    """Compare the shares of every value between the prompts.

    The intervals are those of ``sequential_rate``, of all prompts and values together, so they hold whenever
    generating was stopped, as long as items of a prompt are made independently of each other.

    Args:
        group: the concept group.
        shown: prompt -> value -> recognised items that show it.
        confidence: of the interval of the difference.
    """
    counted = {prompt: counts for prompt, counts in shown.items() if sum(counts.values())}
    if len(counted) < 2:
        reason = f"there is {'only one' if counted else 'no'} prompt to compare"
        return Dependence(
            group=group, prompts=len(counted), value=None, difference=Unknown(reason=reason), source="unknown",
            why=reason,
        )  # fmt: skip
    values = list(next(iter(counted.values())))
    level = bonferroni(confidence, len(counted) * len(values))
    spans: dict[str, _Span] = {}
    for value in values:
        cells = [(counts[value], sum(counts.values())) for counts in counted.values()]
        shares = [k / n for k, n in cells]
        ends = [sequential_rate(k, n, level) for k, n in cells]
        lows, highs = zip(*ends, strict=True)
        spans[value] = _Span(
            max(shares) - min(shares), max(0.0, max(lows) - min(highs)), max(highs) - min(lows), min(lows)
        )
    # The value of the largest difference seen; the bounds are those of the largest difference that there is.
    value = max(spans, key=lambda one: spans[one].seen)
    low, high = max(span.low for span in spans.values()), max(span.high for span in spans.values())
    total = sum(sum(counts.values()) for counts in counted.values())
    difference = Estimated(
        value=spans[value].seen, low=low, high=min(1.0, high), confidence=confidence, n=total,
        population="items for these prompts", method="mixture likelihood ratio of every share, Bonferroni",
    )  # fmt: skip
    differ = f"two prompts differ by at least {percent(low)} in how often one value comes"
    source: Source = "prompts" if low > 0 else "unknown"
    why = differ if low > 0 else "no difference between prompts is shown, and none is ruled out"
    usual = next((one for one in values if spans[one].least > 0.5), None)
    if usual is not None:
        source = "generator"
        why = f"whichever prompt, {usual} comes more than half of the time (at least {percent(spans[usual].least)})"
        why += f"; {differ}" if low > 0 else ""
    return Dependence(group=group, prompts=len(counted), value=value, difference=difference, source=source, why=why)
