"""Monitored measure: bets on its comparisons, with their intervals and history."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from pydantic import PlainSerializer, PlainValidator

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.monitoring import blocks
from evenhand.monitoring.blocks import BetPlan, bet_on_blocks, open_blocks
from evenhand.monitoring.comparisons import MonitoredComparison
from evenhand.monitoring.config import Measure, MonitorConfig, Watch
from evenhand.monitoring.result import Alarm, GapHistory, MonitoredGap
from evenhand.stats.level import bisect_edges
from evenhand.stats.sequential.looks import largest_deviation, log_evidence

SMALLEST = 4
"""Minimum number of events of each side in a block. Small blocks detect large gaps early; large blocks waste less
if one group is rare.
"""
START = 0.8
"""Share of the capital that is available from the start. The rest is reserved for later changes."""
MAX_POINTS = 128
"""Maximum number of points of a history. At the maximum, every other point is dropped."""
_HALVINGS = 50
_RATIO_ENDS = 1e-6
"""Ratios below this count as 0, and ratios above its inverse as infinite."""
NO_LABEL = -1.0
"""Label of the row of a decision."""
COLUMNS: dict[Measure, list[int]] = {
    "selection_rate": [0],
    "equal_opportunity": [0],
    "base_rate": [1],
    "calibration": [1, 2],
}
"""Outcomes of each measure: the decision, the label or the score."""


def encode_numbers(numbers: Any, dtype: str) -> str:
    """Encode numbers of a type, such as ``<f8``, in base64."""
    return base64.b64encode(np.ascontiguousarray(numbers, dtype=dtype).tobytes()).decode()


def decode_numbers(text: str, dtype: str) -> Any:
    """Decode the numbers that ``encode_numbers`` encoded."""
    return np.frombuffer(base64.b64decode(text), dtype=dtype)


def _unpack(packed: Any) -> Any:
    shape, text = packed
    return decode_numbers(text, "<f8").reshape(shape).astype(np.float64)


Array: TypeAlias = Annotated[
    Any,
    PlainSerializer(lambda array: [list(np.shape(array)), encode_numbers(array, "<f8")]),
    PlainValidator(_unpack),
]
Row: TypeAlias = tuple[int, tuple[int, ...], float, float, float]
"""Number of decisions, codes of the groups, decision, label and score. The label of a decision is ``NO_LABEL``."""


class Gaps(NamedTuple):
    """Estimates and intervals of all comparisons of a measure, arrays (comparisons,); NaN before the first block.

    Attributes:
        estimate: Difference or ratio, mean over blocks.
        low, high: Interval of the estimate.
        recent: Estimate that gives most weight to recent decisions.
    """

    estimate: Floats
    low: Floats
    high: Floats
    recent: Floats


@dataclass
class MeasureState:
    """Mutable state of a measure.

    Attributes:
        comparisons: Comparisons of the measure.
        state, wealth: See `open_blocks`.
        history: Estimates and intervals, (points, comparisons, fields of `Gaps`).
    """

    comparisons: tuple[MonitoredComparison, ...]
    state: Array
    wealth: Array
    history: Array


class WatchedMeasure(MeasureState):
    """Bets on the comparisons of one measure, which share the probability of a false alarm with the whole monitor."""

    def __init__(
        self, config: MonitorConfig, watch: Watch, comparisons: Sequence[MonitoredComparison], total: int
    ) -> None:
        self.watch = watch
        self.plan = _make_plan(config, watch, total)
        self._log_threshold = float(np.log(2 * total / config.false_alarms.probability))
        history = np.empty((0, len(comparisons), len(Gaps._fields)))
        super().__init__(tuple(comparisons), *open_blocks(len(comparisons), self.plan), history)

    def add(self, clock: Integers, codes: Integers, outcomes: Floats, points: Sequence[int] = ()) -> list[Alarm]:
        """Add the rows of a batch that are relevant to this measure, and return the new alarms.

        Args:
            clock: Number of decisions at each row.
            codes: Codes of the groups, (rows, fields).
            outcomes: Decisions, labels and scores, (rows, 3).
            points: Decision numbers at which a point is added to the history.
        """
        kind, label = self.watch.measure, outcomes[:, 1]
        rows = label == 1 if kind == "equal_opportunity" else (label == NO_LABEL) == (kind == "selection_rate")
        clock, codes = clock[rows], codes[rows]
        outcomes = np.ascontiguousarray(outcomes[rows][:, COLUMNS[kind]])
        sides = np.empty((len(codes), len(self.comparisons)), dtype=np.int64)
        for k, comparison in enumerate(self.comparisons):
            sides[:, k] = comparison.sides(codes)
        if kind == "calibration":
            # Each group is compared in every bin of scores, and with its own scores only.
            bins = self.watch.bins
            place = np.minimum((outcomes[:, 1] * bins).astype(np.int64), bins - 1)
            others = place[:, None] != np.arange(len(self.comparisons)) % bins
            sides[others | (sides == 1)] = -1
        alarms: list[Alarm] = []
        begin = 0
        for i, end in enumerate((*np.searchsorted(clock, points, side="right"), len(clock))):
            while begin < end:
                earlier = self._find_alarms()
                begin = int(
                    bet_on_blocks(self.state, self.wealth, sides[:end], outcomes[:end], clock[:end], self.plan, begin)
                )
                new = np.argwhere(self._find_alarms() & ~earlier)
                gaps = self.describe() if len(new) else []
                alarms += [
                    Alarm(
                        **gaps[k].model_dump(exclude={"alarm"}),
                        decision=int(clock[begin - 1]),
                        direction="above" if bool(way) == self.plan.ratio else "below",
                    )
                    for k, way in new
                ]
            if i < len(points):
                self.history = np.concatenate([self.history, np.stack(self.gaps(), axis=-1)[None]])
                if len(self.history) == MAX_POINTS:
                    self.history = self.history[1::2]
        return alarms

    def _find_alarms(self) -> Booleans:
        return np.asarray(self.state[:, blocks.ALARM : blocks.OTHER_ALARM + 1] > 0)

    def describe(self) -> list[MonitoredGap]:
        """Describe every comparison."""
        described = []
        for comparison, row, gaps in zip(self.comparisons, self.state, _list_numbers(self.gaps()), strict=True):
            counts, sums = row[[blocks.FIRST, blocks.SECOND]], row[[blocks.FIRST_SUM, blocks.SECOND_SUM]]
            rates = [float(total / n) if n else None for n, total in zip(counts, sums, strict=True)]
            alarms = [int(row[field]) for field in (blocks.ALARM, blocks.OTHER_ALARM) if row[field]]
            described.append(
                MonitoredGap(
                    measure=self.watch.measure,
                    form="gap" if self.watch.gap else "ratio",
                    tolerance=self.watch.tolerance,
                    by=comparison.by,
                    first=comparison.first,
                    second=comparison.second,
                    first_count=int(counts[0]),
                    second_count=int(counts[1]),
                    first_rate=rates[0],
                    second_rate=rates[1],
                    **dict(zip(Gaps._fields, gaps, strict=True)),
                    alarm=min(alarms, default=None),
                )
            )
        return described

    def describe_history(self, decisions: Sequence[int]) -> GapHistory:
        """Describe the history, given the number of decisions at each point and now."""
        points = [_list_numbers(Gaps(*point.T)) for point in self.history] + [_list_numbers(self.gaps())]
        return GapHistory(decisions=tuple(decisions), gaps=tuple(zip(*points, strict=True)))

    def gaps(self) -> Gaps:
        """Compute the estimate and the interval of every comparison."""
        state = self.state
        n = np.where(state[:, blocks.BLOCKS] > 0, state[:, blocks.BLOCKS], np.nan)
        sum_first, sum_second = state[:, blocks.SUM_FIRST], state[:, blocks.SUM_SECOND]
        recent = state[:, blocks.RECENT_FIRST], state[:, blocks.RECENT_SECOND]
        weight = np.where(state[:, blocks.RECENT] > 0, state[:, blocks.RECENT], np.nan)
        if self.plan.ratio:
            low, high = self._ratio_ends(sum_first, sum_second)
            with np.errstate(invalid="ignore", divide="ignore"):
                has_blocks = n * 0 + 1
                return Gaps(
                    has_blocks * sum_first / sum_second, has_blocks * low, has_blocks * high, recent[0] / recent[1]
                )
        width = self._range(1.0)
        reach = width * largest_deviation(self._squares(np.ones(len(n))) / width**2, self._log_threshold) / n
        gap = (sum_first - sum_second) / n
        return Gaps(gap, np.maximum(gap - reach, -1), np.minimum(gap + reach, 1), (recent[0] - recent[1]) / weight)

    def _range(self, ratio: Any) -> Any:
        """Bound the distance between ``ratio * second - first`` and its guess.

        With guesses u, v between 0 and 1, at most APART apart, r v - u is at most max(0, r - 1) + APART, and at least
        -max(0, 1 - r) - APART. Outcomes are between 0 and 1, so that r y - x is between -1 and r.
        """
        return np.maximum(1, ratio) + blocks.APART

    def _squares(self, ratio: Floats) -> Floats:
        """Compute the sum of squared deviations of ``ratio * second - first``."""
        state = self.state
        return np.asarray(
            state[:, blocks.SQUARES_FIRST]
            - 2 * ratio * state[:, blocks.PRODUCTS]
            + ratio**2 * state[:, blocks.SQUARES_SECOND]
        ).clip(min=0)

    def _ratio_ends(self, sum_first: Floats, sum_second: Floats) -> tuple[Floats, Floats]:
        """Compute the range of the ratios r that the data do not reject (``r * second - first``), by bisection."""
        with np.errstate(invalid="ignore", divide="ignore"):
            middle = np.nan_to_num(sum_first / sum_second, nan=1.0, posinf=1 / _RATIO_ENDS)
        start = np.log(middle.clip(_RATIO_ENDS, 1 / _RATIO_ENDS))
        ends = []
        for sign, unbounded in ((-1, 0.0), (1, np.inf)):

            def holds(log_ratio: Floats, sign: int = sign) -> Booleans:
                ratio = np.exp(log_ratio)
                width = self._range(ratio)
                evidence = log_evidence(
                    sign * (ratio * sum_second - sum_first) / width, self._squares(ratio) / width**2
                )
                return np.asarray(evidence < self._log_threshold)

            far = np.full(len(start), -sign * np.log(_RATIO_ENDS))
            ends.append(np.where(holds(far), unbounded, np.exp(bisect_edges(holds, start, far, _HALVINGS))))
        return ends[0], ends[1]


def _list_numbers(gaps: Gaps) -> list[tuple[float | None, ...]]:
    """List the numbers of each comparison. None if a number is not finite."""
    return [tuple([float(v) if np.isfinite(v) else None for v in row]) for row in zip(*gaps, strict=True)]


def _make_plan(config: MonitorConfig, watch: Watch, total: int) -> BetPlan:
    rare, ratio = config.false_alarms, watch.ratio is not None
    payments = -(-rare.horizon // rare.period)
    paired, bound = watch.measure == "calibration", watch.tolerance
    return BetPlan(
        ratio=ratio,
        paired=paired,
        smallest=1 if paired else SMALLEST,
        bound=bound,
        least=1.0 if ratio else 1.0 + bound,
        threshold=2 * total / rare.probability,
        start=START,
        further=(1 - START) / payments,
        payments=payments,
        period=rare.period,
        half_life=float(config.recent),
    )
