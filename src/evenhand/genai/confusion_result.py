"""A labelled sample, counted: how often a classifier's labels are right, and what deadlines are worth for it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evenhand.errors import OptionError
from evenhand.genai.confusion import Confusion, Worth
from evenhand.genai.labels import NONE, read_sample
from evenhand.result import Result
from evenhand.stats.quantity import Observed, Quantity, Unknown

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd
    from narwhals.typing import IntoDataFrame


class ConfusionResult(Result):
    """What a classifier says of items whose values are known.

    Attributes:
        source: the sample; conditions: column -> value of the items that were read.
        items: labelled; unlabelled: left out, because nobody knows their value.
        sample: the counts.
        right: by value, of the items said to show it the share that does.
        found: by value, of the items that show it the share that is said to.
        tolerated: share of wrong labels up to which a deadline is called guaranteed.
        worth: of deadlines, if any were asked about.
    """

    kind: Literal["genai-confusion"] = "genai-confusion"
    source: str
    conditions: dict[str, str]
    items: int
    unlabelled: int
    sample: Confusion
    right: dict[str, Quantity]
    found: dict[str, Quantity]
    tolerated: float
    worth: tuple[Worth, ...]

    def summary(self) -> str:
        """The counts, how often labels are right and values are found, and what deadlines are worth."""
        of = " and ".join(f"{name} = {value}" for name, value in self.conditions.items())
        left_out = f", {self.unlabelled:,} not labelled and left out" if self.unlabelled else ""
        lines = [f"{self.source}{f' ({of})' if of else ''}: {self.items:,} labelled items{left_out}", ""]
        lines += self.table()
        lines += ["", f"{self.sample.confidence:.0%} intervals, all together:"]
        wide = max(map(len, self.sample.values))
        for value in self.sample.values:
            lines.append(f"  {value:<{wide}}  said, and right: {_share(self.right[value])}")
            lines.append(f"  {'':<{wide}}  shown, and said: {_share(self.found[value])}")
        lines += ["", *(one.statement() for one in self.worth)] if self.worth else []
        return "\n".join(lines)

    def table(self) -> list[str]:
        """The counts, a line for every true value and a column for what is said."""
        names = [*self.sample.values, NONE]
        rows = [["shown \\ said", *names[:-1], "cannot tell"]]
        rows += [[name, *(f"{n:,}" for n in counts)] for name, counts in zip(names, self.sample.counts, strict=True)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return [
            "  ".join(
                f"{cell:<{widths[i]}}" if i == 0 else f"{cell:>{widths[i]}}" for i, cell in enumerate(row)
            ).rstrip()
            for row in rows
        ]

    def to_frame(self) -> pd.DataFrame:
        """One row for every true value and what is said of it, with the number of items; None: neither."""
        import pandas as pd

        return pd.DataFrame(self.cells())

    def cells(self) -> list[dict[str, str | int | float | None]]:
        """The counts one by one, with their share of the items that show the same."""
        names = [*self.sample.values, None]
        return [
            {"true": true, "said": said, "items": n, "share": n / sum(counts) if sum(counts) else None}
            for true, counts in zip(names, self.sample.counts, strict=True)
            for said, n in zip(names, counts, strict=True)
        ]

    def plot(self) -> alt.TopLevelMixin:
        """The counts as squares, darker the more of the items that show the same value."""
        from evenhand.genai.confusion_plot import plot

        return plot(self)


def run(
    source: str | Path | IntoDataFrame,
    *,
    true: str = "true",
    said: str = "said",
    values: Sequence[str] | None = None,
    conditions: Mapping[str, str] | None = None,
    repeated: int | Sequence[int] | None = None,
    tolerated: float = 0.05,
    confidence: float = 0.95,
) -> ConfusionResult:
    """Count a labelled sample; see ``read_sample``.

    Args:
        repeated: deadlines whose worth is asked for: one number, or one for every value in their order.
        tolerated: share of wrong labels up to which a deadline is called guaranteed.

    Raises:
        DataError: the sample cannot be read.
        OptionError: an option makes no sense.
    """
    started = time.perf_counter()
    if not 0 <= tolerated < 1:
        raise OptionError(
            f"{tolerated} is no share of labels", where="--tolerated", mend="0 or more, and less than 1; such as 0.05"
        )
    sample, unlabelled = read_sample(
        source, true=true, said=said, values=values, conditions=conditions, confidence=confidence
    )
    deadlines: dict[str, int] = {}
    if repeated is not None:
        each = [repeated] * len(sample.values) if isinstance(repeated, int) else list(repeated)
        if len(each) != len(sample.values):
            raise OptionError(
                f"{len(sample.values)} values need as many deadlines, and there are {len(each)}",
                where="--repeated",
                mend=f"in this order: {', '.join(sample.values)}",
            )
        deadlines = dict(zip(sample.values, each, strict=True))
    return ConfusionResult(
        seed=0,
        seconds=time.perf_counter() - started,
        source=Path(source).name if isinstance(source, str | Path) else "the data frame",
        conditions=dict(conditions or {}),
        items=sample.items,
        unlabelled=unlabelled,
        sample=sample,
        right={value: sample.right(value) for value in sample.values},
        found={value: sample.found(value) for value in sample.values},
        tolerated=tolerated,
        worth=sample.worth(deadlines, tolerated=tolerated),
    )


def _share(found: Quantity) -> str:
    if isinstance(found, Unknown):
        return f"unknown, as {found.reason}"
    if not isinstance(found, Observed):
        raise TypeError(f"{type(found).__name__} is no share that was counted")
    return f"{found.value:.1%} of {found.n:,} ({found.low:.1%} to {found.high:.1%})"
