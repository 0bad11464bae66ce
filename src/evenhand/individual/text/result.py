"""Texts that are decided differently when who they speak of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from evenhand.charts import percent
from evenhand.result import Result
from evenhand.stats import Observed, Quantity
from evenhand.texts import TextFinding

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


SHOWN = 5
"""Findings in the summary, one per pair of groups."""


class TextCount(BaseModel):
    """How often the label changes with the words of one category.

    Attributes:
        rate: share of the texts that have words of the category whose label some swap changes.
        flips: how many of them.
        n: texts with words of the category.
        texts: texts looked at.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    category: str
    rate: Quantity
    flips: int
    n: int
    texts: int


class TextResult(Result):
    """What swapping identity terms changed.

    Attributes:
        classes, favourable: the labels, and the one whose score is compared.
        label_only: whether the scores are only the labels.
        counts: one per category.
        profiles: distinct texts whose label some swap changes.
        queries: texts that the model was asked about.
        examples: the clearest findings, widest gap first, up to the limit that was set.
        interrupted: whether somebody stopped it; what is here was found before.
    """

    kind: Literal["individual-text"] = "individual-text"
    classes: tuple[str, ...]
    favourable: str
    label_only: bool
    counts: tuple[TextCount, ...]
    profiles: int
    queries: int
    examples: tuple[TextFinding, ...]
    interrupted: bool = False

    def summary(self) -> str:
        """One line per category, then the clearest finding for each pair of groups."""
        width = max((len(count.category) for count in self.counts), default=0)
        lines = [f"{count.category:<{width}}  {_said(count)}" for count in self.counts]
        first = {(one.category, one.worse.group, one.better.group): one for one in reversed(self.examples)}
        for example in sorted(first.values(), key=lambda one: -one.gap)[:SHOWN]:
            lines += ["", f"{example.category}: {_shortened(example.template)}"]
            lines += [
                f"  {side.group:<14} -> {side.label}"
                + ("" if self.label_only else f", score {side.score:.2f} (observed)")
                for side in (example.worse, example.better)
            ]
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per example: category, template, both groups with label and score, gap."""
        import pandas as pd

        columns = ["category", "row", "template", "group (worse)", "group (better)", "label (worse)", "label (better)"]
        columns += ["score (worse)", "score (better)", "gap", "text (worse)", "text (better)"]
        return pd.DataFrame([_row(example) for example in self.examples], columns=columns)

    def plot(self) -> alt.TopLevelMixin:
        """The share of texts that flip, by category, with its interval."""
        from evenhand.individual.text.plot import plot

        return plot(self)


def _said(count: TextCount) -> str:
    rate = count.rate
    if not isinstance(rate, Observed):
        return f"no text has such words, of {count.texts:,}"
    return (
        f"flips for {percent(rate.value)} of the {count.n:,} texts that have such words (observed, "
        f"{100 * rate.confidence:g} % interval {percent(rate.low)} to {percent(rate.high)})"
    )


def _row(example: TextFinding) -> dict[str, object]:
    worse, better = example.worse, example.better
    return {
        "category": example.category,
        "row": example.row,
        "template": example.template,
        "group (worse)": worse.group,
        "group (better)": better.group,
        "label (worse)": worse.label,
        "label (better)": better.label,
        "score (worse)": worse.score,
        "score (better)": better.score,
        "gap": example.gap,
        "text (worse)": worse.text,
        "text (better)": better.text,
    }


def _shortened(template: str, most: int = 160) -> str:
    """A long text around its first slot, on one line."""
    words = " ".join(template.split())
    if len(words) <= most:
        return words
    start = max(0, words.find("{") - most // 3)
    part = words[start : start + most]
    return ("..." if start else "") + part + ("..." if start + most < len(words) else "")
