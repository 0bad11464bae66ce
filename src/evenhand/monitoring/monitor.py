"""The monitor: takes decisions and labels as they come, and says at any moment how groups fare."""

from __future__ import annotations

import copy
import hashlib
import secrets
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evenhand.errors import DataError
from evenhand.monitoring import blocks
from evenhand.monitoring.comparisons import (
    MISSING,
    OTHER,
    MonitoredComparison,
    choose_values,
    list_comparisons,
    list_members,
    member_sides,
)
from evenhand.monitoring.config import MonitorConfig, read_monitor_config
from evenhand.monitoring.events import Event, EventReader
from evenhand.monitoring.measure import MOST_POINTS, WatchedMeasure
from evenhand.monitoring.result import Alarm, GapHistory, MonitoredGap, MonitorResult
from evenhand.typing import Integers

SPACING = 250
"""Decisions between two points of a course, at first."""
MOST_VALUES = 1000
"""Different values of a field that are told apart while groups are learned."""
LABELS_BEFORE_REFUSAL = 100
"""Labels after which some must be of rejected decisions."""
REJECTED_SHARE = 0.1


class MonitorUpdate(NamedTuple):
    """What a batch brought.

    Attributes:
        alarms: those that are new, in their order.
        audits: ids of decisions whose true label is asked for from now on.
    """

    alarms: tuple[Alarm, ...]
    audits: tuple[str, ...]


class PendingDecision(NamedTuple):
    """A decision whose label has not come."""

    codes: tuple[int, ...]
    decision: float | None
    score: float | None


class QueuedDecision:
    """A decision with a proxy, in the order in which they came."""

    __slots__ = ("audited", "codes", "label", "proxy")

    def __init__(self, codes: tuple[int, ...], proxy: float, audited: bool, label: float | None) -> None:
        self.codes = codes
        self.proxy = proxy
        self.audited = audited
        self.label = label


class Rows(NamedTuple):
    """What a batch holds for one kind of measure: clock, codes of groups, and outcomes."""

    clock: list[int]
    codes: list[tuple[int, ...]]
    outcomes: list[tuple[float, ...]]

    def add(self, clock: int, codes: tuple[int, ...], *outcomes: float) -> None:
        self.clock.append(clock)
        self.codes.append(codes)
        self.outcomes.append(outcomes)


class Monitor:
    """Watches decisions while they are made: gaps between groups, with intervals and alarms that hold at every moment.

    What it says depends on the events and their order alone: not on how they are divided into batches, nor on whether
    the monitor was written to a file and read again in between.

    Args:
        config: what is watched: a configuration, its entries, or a YAML or TOML file.

    Raises:
        OptionError: the configuration makes no sense.

    Example:
        >>> from evenhand.monitoring import Monitor
        >>> monitor = Monitor({
        ...     "groups": {"by": ["sex"], "values": {"sex": ["female", "male"]}},
        ...     "watch": [{"gap": "selection_rate", "tolerance": 0.02}],
        ... })
        >>> women = [{"sex": "female", "decision": i % 10 == 0} for i in range(200)]
        >>> men = [{"sex": "male", "decision": i % 10 < 5} for i in range(200)]
        >>> update = monitor.add(event for pair in zip(women, men) for event in pair)
        >>> update.alarms[0].first, update.alarms[0].direction
        ('female', 'below')
    """

    def __init__(self, config: MonitorConfig | Mapping[str, Any] | str | Path) -> None:
        self.config = read_monitor_config(config)
        self.decisions = 0
        """Decisions so far."""
        self.labels = 0
        """Labels so far that were used, or will be."""
        self.unmatched = 0
        """Labels of decisions that are not known, not audited, or were given up."""
        self.given_up = 0
        """Decisions that were given up before their label came."""
        self.alarms: tuple[Alarm, ...] = ()
        """All alarms so far."""
        self.measures: tuple[WatchedMeasure, ...] = ()
        self.values: list[list[str]] = []
        self.seed = secrets.randbits(63) if self.config.seed is None else self.config.seed
        self.waiting: list[Event] = []
        """The first events, until it is known which groups there are."""
        self.pending: dict[str, PendingDecision] = {}
        self.queue: deque[QueuedDecision] = deque()
        self.audited: dict[str, QueuedDecision | None] = {}
        """Decisions that were drawn to be audited and are not yet, with their place in the queue if they have one."""
        self.held = Rows([], [], [])
        """Labels that wait until one of a rejected decision comes."""
        self.identified = self.config.labels.audited_with is not None or not self.config.needs_labels
        self.refusal: DataError | None = None
        self.rejected = 0
        self.spacing = SPACING
        self.points: list[int] = []
        self.read_event = EventReader(self.config).read
        """Reads one event, from a mapping."""
        self._codes: list[dict[str | None, int]] = []
        if self.config.groups.values is not None:
            self._begin([list(self.config.groups.values[name]) for name in self.config.groups.by], self._no_codes())

    # Taking events in.

    def add(self, batch: Iterable[Mapping[str, Any]] | Any) -> MonitorUpdate:
        """Take decisions and labels in, in their order.

        Args:
            batch: events as mappings, or a table with a row for each (pandas, polars, pyarrow).

        Returns:
            The new alarms, and the decisions that are to be audited.

        Raises:
            DataError: an event cannot be read, and then none was taken; or labels come of accepted decisions alone,
                which says nothing about all.
        """
        return self.take(self.read(batch))

    def read(self, batch: Iterable[Mapping[str, Any]] | Any) -> list[Event]:
        """Return the events of a batch, without taking them in.

        Raises:
            DataError: one cannot be read.
        """
        events = []
        for number, entry in enumerate(_list_entries(batch), start=1):
            try:
                events.append(self.read_event(entry))
            except DataError as error:
                raise DataError(error.message, location=f"event {number}", hint=error.hint) from None
        return events

    def may_refuse(self, events: Sequence[Event]) -> bool:
        """Return whether ``take`` could raise an error about these events, after which it has taken some of them."""
        if not self.measures:
            known = sum(event.groups is not None for one in (self.waiting, events) for event in one)
            return known >= self.config.groups.learn
        labels = len(self.held.clock) + sum(event.label is not None for event in events)
        return not self.identified and labels >= LABELS_BEFORE_REFUSAL

    def take(self, events: Sequence[Event]) -> MonitorUpdate:
        """Take events in that ``read`` returned."""
        if self.refusal is not None:
            raise self.refusal
        alarms, audits = len(self.alarms), []
        if not self.measures:
            events = self._learn(events)
        if self.measures and events:
            audits = self._take(events)
        return MonitorUpdate(self.alarms[alarms:], tuple(audits))

    def _learn(self, events: Sequence[Event]) -> Sequence[Event]:
        """Keep first events; return all that can be taken now: none, or all that came once there are enough."""
        wanted = self.config.groups.learn - sum(event.groups is not None for event in self.waiting)
        for i, event in enumerate(events):
            wanted -= event.groups is not None
            if not wanted:
                self.waiting += events[: i + 1]
                self.begin()
                kept, self.waiting = self.waiting, []
                return [*kept, *events[i + 1 :]]
        self.waiting += events
        return ()

    def begin(self) -> None:
        """Say which groups there are by the events so far.

        Raises:
            DataError: there are not two of each kind.
        """
        seen: list[dict[str | None, int]] = [{None: MISSING} for _ in self.config.groups.by]
        rows = [event.groups for event in self.waiting if event.groups is not None]
        for row in rows:
            for known, value in zip(seen, row, strict=True):
                if value not in known and len(known) <= MOST_VALUES:
                    known[value] = len(known) - 1
        codes = np.array(
            [[known.get(value, OTHER) for known, value in zip(seen, row, strict=True)] for row in rows], dtype=np.int64
        ).reshape(len(rows), len(seen))
        values = choose_values(self.config.groups, codes, [[str(v) for v in known if v is not None] for known in seen])
        chosen = [{value: code for code, value in enumerate(names)} for names in values]
        self._begin(
            values,
            np.array(
                [[MISSING if v is None else c.get(v, OTHER) for c, v in zip(chosen, row, strict=True)] for row in rows],
                dtype=np.int64,
            ),
        )

    def _no_codes(self) -> Integers:
        return np.empty((0, len(self.config.groups.by)), dtype=np.int64)

    def _begin(self, values: list[list[str]], codes: Integers) -> None:
        groups = self.config.groups
        pairs = list_comparisons(groups, values, codes)
        self._compare(
            values,
            [
                list_members(groups, values, codes, watch.bins) if watch.measure == "calibration" else pairs
                for watch in self.config.watch
            ],
        )

    def _compare(self, values: list[list[str]], lists: Sequence[Sequence[MonitoredComparison]]) -> None:
        self.values = values
        self._codes = [{None: MISSING} | {value: code for code, value in enumerate(names)} for names in values]
        total = sum(map(len, lists))
        self.measures = tuple(
            WatchedMeasure(self.config, watch, each, total)
            for watch, each in zip(self.config.watch, lists, strict=True)
        )

    def restore_comparisons(self, values: list[list[str]], comparisons: Sequence[Sequence[Sequence[Any]]]) -> None:
        """Compare the groups that a monitor compared which was written to a file."""
        lists = [
            [MonitoredComparison(by, first, second, tuple(fields), tuple(codes), against)
             for by, first, second, fields, codes, against in each]
            for each in comparisons
        ]  # fmt: skip
        self._compare(values, lists)

    def _take(self, events: Sequence[Event]) -> list[str]:
        """Take events in, once groups are known; return the ids of decisions to be audited."""
        decided, labelled, proxied = Rows([], [], []), Rows([], [], []), Rows([], [], [])
        audits: list[str] = []
        lookups = [codes.get for codes in self._codes]
        labels = self.config.needs_labels
        for event in events:
            if event.groups is None:
                self._take_label(str(event.id), float(event.label or 0.0), labelled, proxied)
                continue
            self.decisions += 1
            row = tuple([lookup(value, OTHER) for lookup, value in zip(lookups, event.groups, strict=True)])
            if event.decision is not None:
                decided.add(self.decisions, row, event.decision)
                self.rejected += not event.decision
            if labels:
                self._await_label(event, row, audits, labelled, proxied)
        self._feed(decided, labelled, proxied)
        if self.refusal is not None:
            raise self.refusal
        return audits

    def _await_label(
        self, event: Event, row: tuple[int, ...], audits: list[str], labelled: Rows, proxied: Rows
    ) -> None:
        """Draw whether a decision is audited, and keep it until its label comes."""
        audited, most, id = self.config.labels.audited_with, self.config.labels.wait, event.id
        decision = PendingDecision(row, event.decision, event.score)
        if audited is None:
            drawn = True
        elif event.proxy is not None and len(self.queue) >= most:
            self.given_up += 1  # the first of the queue waits for its label; what comes meanwhile takes no part
            return
        else:
            drawn = self._draw() < audited
            queued = None if event.proxy is None else QueuedDecision(row, event.proxy, drawn, None)
            if queued is not None:
                self.queue.append(queued)
            if drawn:
                self.audited[str(id)] = queued
                if event.label is None:
                    audits.append(str(id))
        if drawn and id is not None:
            self.pending[id] = decision
            if len(self.pending) > most:
                oldest = next(iter(self.pending))
                del self.pending[oldest]
                self.audited.pop(oldest, None)
                self.given_up += 1
        if event.label is not None and id is not None:
            self._take_label(id, event.label, labelled, proxied)
        elif event.label is not None:
            self._use_label(decision, event.label, labelled)
        self._release(proxied)

    def _draw(self) -> float:
        """Return a number between 0 and 1 for this decision, unknown to anyone without the seed."""
        drawn = hashlib.blake2b(self.decisions.to_bytes(8), key=self.seed.to_bytes(8), digest_size=8).digest()
        return int.from_bytes(drawn) / 2**64

    def _take_label(self, id: str, label: float, labelled: Rows, proxied: Rows) -> None:
        found = self.pending.pop(id, None)
        if found is None:
            self.unmatched += 1
            return
        queued = self.audited.pop(id, None)
        if queued is not None:
            queued.label = label
            self._release(proxied)
        self._use_label(found, label, labelled)

    def _use_label(self, decision: PendingDecision, label: float, labelled: Rows) -> None:
        self.labels += 1
        outcomes = (-1.0 if decision.decision is None else decision.decision, label, decision.score or 0.0)
        if self.identified:
            labelled.add(self.decisions, decision.codes, *outcomes)
            return
        self.held.add(self.decisions, decision.codes, *outcomes)
        few = self.rejected < REJECTED_SHARE * self.decisions
        if decision.decision != 1 or (few and len(self.held.clock) >= LABELS_BEFORE_REFUSAL):
            self.identified = True
            for codes, outcome in zip(self.held.codes, self.held.outcomes, strict=True):
                labelled.add(self.decisions, codes, *outcome)
            self.held = Rows([], [], [])
        elif len(self.held.clock) >= LABELS_BEFORE_REFUSAL:
            self.refusal = DataError(
                f"the first {len(self.held.clock)} labels are all of accepted decisions, and {self.rejected:,} of "
                f"{self.decisions:,} decisions are rejections",
                hint="what became of accepted people alone says nothing about errors in all decisions: have some of "
                "all audited, labels: {audited_with: 0.05}, or watch selection_rate alone",
            )

    def _release(self, proxied: Rows) -> None:
        """Hand on decisions with a proxy up to the first whose audit is awaited: in the order in which they came."""
        queue, audited = self.queue, self.config.labels.audited_with
        while queue and audited and (queue[0].label is not None or not queue[0].audited):
            one = queue.popleft()
            shift = 0.0 if one.label is None else (one.label - one.proxy) / audited
            proxied.add(self.decisions, one.codes, one.proxy + shift)

    def _feed(self, decided: Rows, labelled: Rows, proxied: Rows) -> None:
        """Hand what came to the measures, and note their course at the moments set for it."""
        feeds = [_Feed(self, measure, decided, labelled, proxied) for measure in self.measures]
        while True:
            edge = (self.points[-1] if self.points else 0) + self.spacing
            if edge >= self.decisions:  # labels may still come at this moment
                break
            self._advance(feeds, edge)
            self.points.append(edge)
            for measure in self.measures:
                measure.record()
            if len(self.points) == MOST_POINTS:
                self.points, self.spacing = self.points[1::2], 2 * self.spacing
                for measure in self.measures:
                    measure.thin()
        self._advance(feeds, self.decisions)

    def _advance(self, feeds: Sequence[_Feed], edge: int) -> None:
        found = [alarm for feed in feeds for alarm in feed.advance(edge)]
        self.alarms += tuple(sorted(found, key=lambda alarm: alarm.decision))

    # What it says.

    def intervals(self) -> tuple[MonitoredGap, ...]:
        """Return every gap with its interval: all of them hold together, at all moments, as the configuration says."""
        current = self._current()
        return tuple(
            describe_gap(measure, k, gaps) for measure in current.measures for gaps in [measure.gaps()]
            for k in range(len(measure.comparisons))
        )  # fmt: skip

    def result(self, *, seconds: float = 0.0, skipped: int = 0) -> MonitorResult:
        """Return all that is known now, as numbers, tables, a page and JSON.

        Args:
            seconds: that were spent on it.
            skipped: lines that could not be read.

        Raises:
            DataError: there is no decision yet, or there are not two groups to compare.
        """
        current = self._current()
        counts = {
            "decisions": current.decisions, "labels": current.labels, "unmatched": current.unmatched,
            "given_up": current.given_up, "awaited": len(current.audited), "queued": len(current.queue),
            "skipped": skipped,
        }  # fmt: skip
        histories = [_describe_history(current, measure) for measure in current.measures]
        return MonitorResult(
            seed=self.seed if self.config.seed is not None else 0,
            seconds=seconds,
            config=self.config.model_dump(mode="json", exclude={"webhook", "seed"}),
            gaps=current.intervals() if current is not self else self.intervals(),
            alarms=current.alarms,
            histories=tuple(histories),
            **counts,
        )

    def _current(self) -> Monitor:
        """Return the monitor as it would be if the groups were those that came so far."""
        if self.measures:
            return self
        if not self.waiting:
            raise DataError("there is no decision yet", hint="add some first")
        current = copy.deepcopy(self)
        current.begin()
        current.waiting, events = [], current.waiting
        current._take(events)
        return current


class _Feed:
    """What a batch holds for one measure, handed on piece by piece."""

    def __init__(self, monitor: Monitor, measure: WatchedMeasure, decided: Rows, labelled: Rows, proxied: Rows) -> None:
        self.measure = measure
        kind = measure.watch.measure
        rows = proxied if measure.proxied else decided if kind == "selection_rate" else labelled
        self.clock = np.array(rows.clock, dtype=np.int64)
        codes = np.array(rows.codes, dtype=np.int64).reshape(len(self.clock), len(monitor.values))
        outcomes = np.array(rows.outcomes, dtype=np.float64).reshape(len(self.clock), -1 if rows.clock else 1)
        self.begin = 0
        if kind == "equal_opportunity" and len(self.clock):
            wanted = outcomes[:, 1] == 1
            self.clock, codes, outcomes = self.clock[wanted], codes[wanted], outcomes[wanted]
        columns = {"selection_rate": [0], "equal_opportunity": [0], "base_rate": [0 if measure.proxied else 1]}
        if kind == "calibration":
            self.outcomes = np.ascontiguousarray(outcomes[:, 1:3]) if len(self.clock) else np.empty((0, 2))
            self.sides = member_sides(measure.comparisons, codes, self.outcomes[:, 1], measure.watch.bins)
        else:
            self.outcomes = np.ascontiguousarray(outcomes[:, columns[kind]]) if len(self.clock) else np.empty((0, 1))
            self.sides = np.empty((len(codes), len(measure.comparisons)), dtype=np.int64)
            for k, comparison in enumerate(measure.comparisons):
                self.sides[:, k] = comparison.sides(codes)

    def advance(self, edge: int) -> list[Alarm]:
        """Take all events in until this moment; return the alarms that they raised."""
        end = int(np.searchsorted(self.clock, edge, side="right"))
        alarms = []
        while self.begin < end:
            self.begin, new = self.measure.take(self.sides[:end], self.outcomes[:end], self.clock[:end], self.begin)
            if new:
                gaps, now = self.measure.gaps(), int(self.clock[self.begin - 1])
                alarms += [
                    Alarm(
                        **describe_gap(self.measure, k, gaps).model_dump(exclude={"alarm"}),
                        decision=now,
                        direction="above" if above else "below",
                    )
                    for k, above in new
                ]
        return alarms


def describe_gap(measure: WatchedMeasure, k: int, gaps: Any) -> MonitoredGap:
    """Return one comparison of a measure as it stands."""
    row, comparison = measure.state[k], measure.comparisons[k]

    def number(value: float) -> float | None:
        return float(value) if np.isfinite(value) else None

    def rate(count: int, total: int) -> float | None:
        return float(row[total] / row[count]) if row[count] else None

    alarmed = [int(row[field]) for field in (blocks.ALARM, blocks.OTHER_ALARM) if row[field]]
    return MonitoredGap(
        measure=measure.watch.measure,
        form="gap" if measure.watch.gap else "ratio",
        tolerance=measure.watch.tolerance,
        by=comparison.by,
        first=comparison.first,
        second=comparison.second,
        first_count=int(row[blocks.FIRST]),
        second_count=int(row[blocks.SECOND]),
        first_rate=rate(blocks.FIRST, blocks.FIRST_SUM),
        second_rate=rate(blocks.SECOND, blocks.SECOND_SUM),
        estimate=number(gaps.estimate[k]),
        low=number(gaps.low[k]),
        high=number(gaps.high[k]),
        recent=number(gaps.recent[k]),
        alarm=min(alarmed, default=None),
    )


def _describe_history(monitor: Monitor, measure: WatchedMeasure) -> GapHistory:
    """Return the course of a measure until now."""
    points = np.concatenate([measure.history, np.stack(measure.gaps(), axis=-1)[None]])
    return GapHistory(
        decisions=(*monitor.points, monitor.decisions),
        gaps=tuple(
            tuple(tuple(float(v) if np.isfinite(v) else None for v in point) for point in points[:, k])
            for k in range(len(measure.comparisons))
        ),
    )


def _list_entries(batch: Any) -> Iterable[Any]:
    """Return the events of a batch: rows of a table, or what it holds."""
    if isinstance(batch, Mapping):
        raise DataError("expected events, got one mapping", hint="add([event])")
    if hasattr(batch, "columns") or hasattr(batch, "column_names"):
        import narwhals.stable.v1 as nw

        rows: Iterable[Any] = nw.from_native(batch, eager_only=True).iter_rows(named=True)
        return rows
    return [*batch]
