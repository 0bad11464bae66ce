"""Metrics of groups as functions of the score threshold."""

from __future__ import annotations

from pydantic import Field

from evenhand.core.result_part import ResultPart
from evenhand.schema.thresholds import Threshold
from evenhand.stats.quantity import Observed


class Curve(ResultPart):
    """A metric as a function of the threshold, with a band that is simultaneous over all thresholds.

    Attributes:
        name: ``accuracy``, ``selection_rate``, ``demographic_parity_difference`` or ``equal_opportunity_difference``.
        by: Protected attribute of a gap or a group; empty for all people.
        group: Group of a selection rate. Empty for all people and for gaps.
        values, low, high: Value and band at each threshold.
        n: Number of people.
        confidence, method: Confidence level of the band, and name of its method.
        not_assessable: Groups omitted from a gap, with their insufficient number of people.
    """

    name: str
    by: str = ""
    group: str = ""
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n: int
    confidence: float
    method: str
    not_assessable: dict[str, int] = Field(default_factory=dict)

    def at(self, place: int) -> Observed:
        """Return the number at one threshold, with the band as its interval."""
        return Observed(
            value=self.values[place],
            n=self.n,
            low=self.low[place],
            high=self.high[place],
            confidence=self.confidence,
            method=f"simultaneous over {len(self.values)} thresholds: {self.method}",
        )


class ThresholdCurves(ResultPart):
    """Metrics as functions of the threshold.

    Attributes:
        thresholds: Thresholds in ascending order. People are selected if their score is at least the threshold, or at
            most the threshold if ``low_is_good``.
        different: Number of distinct scores. If there are more scores than thresholds, the thresholds are quantiles of
            the scores.
        in_force: Threshold of the audit; None without one.
        low_is_good: Whether low scores are favourable.
        curves: ``selection_rate`` of all people and of each group, ``accuracy`` if true labels are known, and the gaps
            by each protected attribute.
    """

    thresholds: tuple[float, ...]
    different: int
    in_force: Threshold | None = None
    low_is_good: bool = False
    curves: tuple[Curve, ...]

    def curve(self, name: str, by: str = "", group: str = "") -> Curve | None:
        """Return one curve; None if it does not exist."""
        return next((curve for curve in self.curves if (curve.name, curve.by, curve.group) == (name, by, group)), None)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Protected attributes with curves of gaps."""
        return tuple(dict.fromkeys(curve.by for curve in self.curves if curve.by and not curve.group))
