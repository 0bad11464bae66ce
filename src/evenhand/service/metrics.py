"""Metrics for Prometheus.

Labels are names from the service's file and constants, and never IDs, prompts or groups of people. Counters belong to
one process, so sum them over replicas. Gauges of streams are read from the store, and are equal in all replicas.
"""

from __future__ import annotations

import json
from collections import Counter as TallyOf
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from sqlalchemy import select

from evenhand.genai.enforcement.enforcer import Enforcer
from evenhand.genai.enforcement.guard import AnswerStatus
from evenhand.service.state_machines import GUARD_OPERATIONS
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.tables import streams
from evenhand.service.store.transaction import Commit

if TYPE_CHECKING:
    from evenhand.service.generation.guarded_request import ServedAnswer
    from evenhand.service.generation.guards import ServedGuard
    from evenhand.service.store.database import Database

MEDIA_TYPE = CONTENT_TYPE_LATEST

COMMIT_BUCKETS = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1, 2, 5)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
ANSWER_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)

SHIELD_OPERATIONS = ("decide", "label")
COUNTED_OPERATIONS = frozenset((*SHIELD_OPERATIONS, *GUARD_OPERATIONS, "checkpoint", "events", "posted"))

EXPECTED_STATUSES = (200, 400, 500, 502, 503, 504)
"""Statuses whose counters exist from the start."""


class Metrics:
    """Metrics of one application in a separate registry.

    Args:
        ledger: Ledger whose commits are counted.

    Attributes:
        requests: Counter of responses by method, route and status.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(name, text, labels, registry=registry, buckets=buckets)

        self._operations = counter("evenhand_operations", "Operations in the log", "stream", "op")
        self._decisions = counter("evenhand_decisions", "Decisions of shields", "stream", "decision")
        self._interventions = counter("evenhand_interventions", "Decisions that override the recommendation", "stream")
        self._items = counter("evenhand_items", "Requests to guarded generators by status", "stream", "status")
        self._changed = counter("evenhand_prompts_changed", "Requests whose prompt was changed", "stream")
        text = "Spent on the generator, in the currency of its prices"
        self._cost = counter("evenhand_generator_cost", text, "stream", "used")
        text = "Cost of delivered items by the values that they show"
        self._cost_by_value = counter("evenhand_generator_cost_by_value", text, "stream", "group", "value")
        text = "Time that a request spends in the generator"
        self._upstream = histogram("evenhand_upstream_seconds", text, ANSWER_BUCKETS, "stream")
        text = "Time that a request spends in the judge, the classifier and the store"
        self._guarding = histogram("evenhand_guarding_seconds", text, ANSWER_BUCKETS, "stream")
        text = "Duration of a transaction of decisions, until it is on disk"
        self._commit = histogram("evenhand_commit_seconds", text, COMMIT_BUCKETS)
        self._batch = histogram("evenhand_commit_operations", "Operations in one transaction", BATCH_BUCKETS)
        waiting = gauge("evenhand_waiting_operations", "Operations waiting for a transaction")
        waiting.set_function(lambda: ledger.waiting)
        text = "Requests, by route and status"
        self.requests = counter("evenhand_http_requests", text, "method", "route", "status")
        self._entries = gauge("evenhand_log_entries", "Number of the last entry of a log", "stream")
        self._allowed = gauge("evenhand_bias_allowed", "Largest permitted bias", "stream")
        bound = "Guaranteed upper bound on the bias at the end of this period; NaN: no guarantee"
        later = "The same bound for later periods; NaN: no guarantee, or no later period"
        assumption = "Whether the assumption of the guarantees has held and still can, 1 or 0; NaN: no assumption"
        # By entry of a certificate.
        self._certificate = {
            "bias": gauge("evenhand_bias", "Current bias of the decisions", "stream"),
            "bound": gauge("evenhand_bias_bound", bound, "stream"),
            "bound_later": gauge("evenhand_bias_bound_later", later, "stream"),
            "assumption_held": gauge("evenhand_assumption_held", assumption, "stream"),
        }
        text = "Items until the next deadline of a value"
        self._slack = gauge("evenhand_deadline_slack", text, "stream", "specification")
        text = "Missed deadlines since the stream began; a value that is still absent misses another"
        self._missed = gauge("evenhand_deadlines_missed", text, "stream", "specification")
        text = "Requests that wait for their item, in all replicas"
        self._open = gauge("evenhand_open_admissions", text, "stream")
        # Enforcers of the guards that interpret states and decide nothing.
        self._enforcers: dict[str, Enforcer] = {}
        self._one_at_a_time = Lock()
        ledger.listeners.append(self._count_commit)

    def watch_shield(self, name: str) -> None:
        """Create the counters of a shield with the value 0: alerts compare with it."""
        self._create_operations(name, SHIELD_OPERATIONS)
        for decision in ("0", "1"):
            self._decisions.labels(name, decision)
        self._interventions.labels(name)

    def watch_routes(self, routes: Mapping[str, Iterable[str]]) -> None:
        """Create the request counters of all routes with the value 0.

        Args:
            routes: HTTP methods by path.
        """
        for path, methods in routes.items():
            for method in methods:
                for status in EXPECTED_STATUSES:
                    self.requests.labels(method.upper(), path, str(status))

    def _create_operations(self, stream: str, operations: Iterable[str]) -> None:
        for operation in operations:
            self._operations.labels(stream, operation)

    def watch_guard(self, guard: ServedGuard) -> None:
        """Count the requests of a guarded generator. All counters start with the value 0."""
        name, config = guard.name, guard.pipeline.configuration
        self._create_operations(name, GUARD_OPERATIONS)
        for status in get_args(AnswerStatus):
            self._items.labels(name, status)
        for group, values in config.values.items():
            for value in (*values, "none"):
                self._cost_by_value.labels(name, group, value)
        used, unused = self._cost.labels(name, "yes"), self._cost.labels(name, "no")
        changed, upstream = self._changed.labels(name), self._upstream.labels(name)
        guarding = self._guarding.labels(name)

        def count_answer(served: ServedAnswer) -> None:
            answer = served.answer
            self._items.labels(name, answer.status).inc()
            changed.inc(answer.changed)
            used.inc(answer.cost)
            if answer.item is not None:
                for group, value in answer.values.items():
                    self._cost_by_value.labels(name, group, value or "none").inc(answer.cost)
            upstream.observe(served.upstream_seconds)
            guarding.observe(max(0.0, served.seconds - served.upstream_seconds))

        guard.observers.append(count_answer)
        guard.cost_observers.append(lambda _count, cost: unused.inc(cost))
        self._enforcers[name] = Enforcer(config, mode=config.guard.mode)

    def text(self, database: Database, allowed: Mapping[str, float]) -> bytes:
        """Return all metrics in the text format of Prometheus, with the stored states of the streams.

        Args:
            database: Store.
            allowed: Largest permitted bias by shield.

        Raises:
            StoreError: The store failed.
        """
        with database.reading() as connection:
            rows = connection.execute(select(streams).where(streams.c.name.in_((*allowed, *self._enforcers)))).all()
        # The lock makes each scrape a snapshot of the store.
        with self._one_at_a_time:
            for row in rows:
                self._entries.labels(row.name).set(row.number)
                # A stream of another replica with another configuration has no metrics here.
                if row.digest == self._ledger.machines[row.name].digest:
                    self._describe_stream(row.name, json.loads(row.state))
            for name, bias in allowed.items():
                self._allowed.labels(name).set(bias)
            return generate_latest(self.registry)

    def _describe_stream(self, name: str, state: Mapping[str, Any]) -> None:
        if "certificate" in state:
            certificate = state["certificate"]
            for entry, gauge in self._certificate.items():
                gauge.labels(name).set(float("nan") if certificate[entry] is None else float(certificate[entry]))
            return
        self._open.labels(name).set(len(state["open"]))
        enforcer = self._enforcers[name]
        enforcer.restore(state["rows"])
        for specification, left in enforcer.items_until_due().items():
            self._slack.labels(name, specification).set(min(left.values()))
            self._missed.labels(name, specification).set(enforcer.counts[specification]["missed"])

    def _count_commit(self, commit: Commit) -> None:
        self._batch.observe(commit.count)
        self._commit.observe(commit.seconds)
        # Each counter is updated once per transaction, not once per decision.
        counts: TallyOf[tuple[Any, ...]] = TallyOf()
        for stream, batch in commit.batches.items():
            for operation, output in batch.applied:
                op = operation.get("op")
                counts[self._operations, stream, op if op in COUNTED_OPERATIONS else "other"] += 1
                if op == "decide":
                    counts[self._decisions, stream, str(output["decision"])] += 1
                    counts[self._interventions, stream] += output["intervened"]
        for (counter, *labels), count in counts.items():
            counter.labels(*labels).inc(count)
