"""What the service does, as numbers for Prometheus.

Labels are names that the service's file gives, and words of the service: never an id, a prompt or a group. What is
counted is counted by each process for itself, so sum it over replicas; where streams stand is read from the store, and
is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.genai.core import Enforcer
from evenhand.service.store import Ledger
from evenhand.service.store.reading import heads, state_of

if TYPE_CHECKING:
    from evenhand.service.context import Context
    from evenhand.service.guards import Served, ServedGuard

MEDIA_TYPE = CONTENT_TYPE_LATEST

COMMITS = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1, 2, 5)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
ANSWERS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)

OPERATIONS = frozenset({"decide", "label", "unguarded", "admit", "complete", "fail", "abandon", "record"})


class Metrics:
    """Those of one application, in a registry of their own.

    Args:
        ledger: whose commits are counted.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._operations = Counter("evenhand_operations", "Operations that are in the log", ["stream", "op"],
                                   registry=registry)  # fmt: skip
        self._decisions = Counter("evenhand_decisions", "Decisions of shields", ["stream", "decision"],
                                  registry=registry)  # fmt: skip
        self._interventions = Counter("evenhand_interventions", "Decisions against the recommendation", ["stream"],
                                      registry=registry)  # fmt: skip
        self._items = Counter("evenhand_items", "Requests to guarded generators, by what they came to",
                              ["stream", "status"], registry=registry)  # fmt: skip
        self._changed = Counter("evenhand_prompts_changed", "Requests whose prompt was changed", ["stream"],
                                registry=registry)  # fmt: skip
        self._upstream = Histogram("evenhand_upstream_seconds", "What the generator took of a request", ["stream"],
                                   buckets=ANSWERS, registry=registry)  # fmt: skip
        self._guarding = Histogram("evenhand_guarding_seconds", "What all else took of it: judge, classifier, store",
                                   ["stream"], buckets=ANSWERS, registry=registry)  # fmt: skip
        self._commit = Histogram("evenhand_commit_seconds", "A transaction of decisions, until the disk has it",
                                 buckets=COMMITS, registry=registry)  # fmt: skip
        self._batch = Histogram("evenhand_commit_operations", "Operations in one transaction", buckets=BATCHES,
                                registry=registry)  # fmt: skip
        waiting = Gauge("evenhand_waiting_operations", "Operations that no transaction has taken up", registry=registry)
        waiting.set_function(lambda: ledger.waiting)
        self._requests = Counter("evenhand_http_requests", "Requests, by route and status",
                                 ["method", "route", "status"], registry=registry)  # fmt: skip
        self._entries = Gauge("evenhand_log_entries", "Number of the last entry of a log", ["stream"],
                              registry=registry)  # fmt: skip
        self._bias = Gauge("evenhand_bias", "Of the decisions in force so far", ["stream"], registry=registry)
        self._allowed = Gauge("evenhand_bias_allowed", "The largest bias that is fair", ["stream"], registry=registry)
        self._bound = Gauge("evenhand_bias_bound", "What the bias is guaranteed to be at most; NaN: nothing is",
                            ["stream"], registry=registry)  # fmt: skip
        self._slack = Gauge("evenhand_deadline_slack", "Items until the first value must have appeared",
                            ["stream", "specification"], registry=registry)  # fmt: skip
        self._missed = Gauge("evenhand_deadlines_missed", "Since the stream began", ["stream", "specification"],
                             registry=registry)  # fmt: skip
        self._open = Gauge("evenhand_open_admissions", "Requests whose item is not known yet, of all replicas",
                           ["stream"], registry=registry)  # fmt: skip
        self._passing = Gauge("evenhand_unlogged_recommendations", "Passed while the store was away, not logged yet",
                              ["stream"], registry=registry)  # fmt: skip
        # Of the guards, to say what states mean; nothing is decided by them.
        self._enforcers: dict[str, Enforcer] = {}
        self._one_at_a_time = Lock()
        ledger.measurers.append(self._committed)
        ledger.listeners.append(self._logged)

    def watch(self, guard: ServedGuard) -> None:
        """Count what a guarded generator answers."""

        def answered(served: Served) -> None:
            self._items.labels(guard.name, served.answer.status).inc()
            self._changed.labels(guard.name).inc(served.answer.changed)
            self._upstream.labels(guard.name).observe(served.upstream_seconds)
            self._guarding.labels(guard.name).observe(max(0.0, served.seconds - served.upstream_seconds))

        guard.observers.append(answered)
        about = guard.workbench.configuration
        self._enforcers[guard.name] = Enforcer(about, mode=about.guard.mode)

    def text(self, context: Context) -> bytes:
        """All of it, with where the streams stand now; it reads the store.

        Raises:
            StoreError: the store failed.
        """
        with context.database.reading() as connection:
            last = heads(connection)
            states = {name: state_of(connection, name) for name in (*context.shields, *context.guards)}
        with self._one_at_a_time:
            for name, state in states.items():
                if state is not None:
                    self._entries.labels(name).set(last[name][0])
                    self._stands(name, state)
            for name, decider in context.deciders.items():
                self._passing.labels(name).set(decider.remembered)
                self._allowed.labels(name).set(float(context.shields[name].plan.property.kappa))
            return generate_latest(self.registry)

    def answered(self, method: str, route: str, status: int) -> None:
        """A request was answered."""
        self._requests.labels(method, route, str(status)).inc()

    def _stands(self, name: str, state: Mapping[str, Any]) -> None:
        if "certificate" in state:
            certificate = state["certificate"]
            self._bias.labels(name).set(certificate["bias"])
            self._bound.labels(name).set(float("nan") if certificate["bound"] is None else certificate["bound"])
            return
        self._open.labels(name).set(len(state["open"]))
        enforcer = self._enforcers[name]
        enforcer.restore(state["rows"])
        for specification, left in enforcer.remaining().items():
            self._slack.labels(name, specification).set(min(left.values()))
            self._missed.labels(name, specification).set(enforcer.counts[specification]["missed"])

    def _committed(self, operations: int, seconds: float) -> None:
        self._batch.observe(operations)
        self._commit.observe(seconds)

    def _logged(self, stream: str, entries: Sequence[Mapping[str, Any]]) -> None:
        for entry in entries:
            body = entry["body"]
            op = body["input"].get("op") if "input" in body else "checkpoint"
            self._operations.labels(stream, op if op in OPERATIONS else "other").inc()
            if op == "decide":
                self._decisions.labels(stream, str(body["output"]["decision"])).inc()
                self._interventions.labels(stream).inc(body["output"]["intervened"])


class Measured:
    """Counts the requests and what was answered, by route: paths with names in them are those of their patterns."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                metrics: Metrics = scope["app"].state.context.metrics
                metrics.answered(scope["method"] if scope["method"] in METHODS else "other", route, message["status"])
            await send(message)

        await self._app(scope, receive, watched)


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Whatever else somebody sends must not become a label."""
