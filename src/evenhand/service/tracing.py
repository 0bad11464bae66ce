"""OpenTelemetry traces: nested spans of requests, decisions, transactions and model calls.

Spans have the route, the stream, the ID and the outcome of a request. They never contain IDs of decisions, groups,
prompts or keys. Libraries that trace requests export complete URLs, whose query may contain any of these, so they are
not used. OpenTelemetry is only imported if the service's file enables tracing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.types import Scope

from evenhand import __version__
from evenhand.core.coroutines import call
from evenhand.errors import MissingExtraError
from evenhand.service.settings import TracingConfig

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter

    from evenhand.service.store.transaction import Commit

COUNTED_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""HTTP methods that are used as labels. Other methods are counted together."""

T = TypeVar("T")

STREAM_ROUTES = ("/v1/shields/", "/v1/streams/", "/v1/dashboard/streams/", "/v1/monitors/", "/monitors/")
"""Prefixes of routes that contain the name of a stream or monitor."""

MAX_LINKS = 128
"""Maximum number of operations that the span of a transaction links to."""

FLUSH_MILLISECONDS = 3_000
"""Time limit for exporting the last spans when the service ends."""


class Tracing:
    """Creates spans, and exports them in the background.

    Args:
        config: Section ``tracing`` of the service's file.

    Raises:
        MissingExtraError: OpenTelemetry is not installed.
    """

    def __init__(self, config: TracingConfig) -> None:
        try:
            from opentelemetry import context, trace
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

            exporter = build_exporter(config)
        except ModuleNotFoundError as error:
            raise MissingExtraError(str(error.name), extra="otel", purpose="for traces") from None
        # The service's log reports spans that cannot be exported.
        logging.getLogger("opentelemetry").setLevel(logging.ERROR)
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence if they are set.
        resource = Resource.create().merge(Resource({"service.version": __version__}))
        if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": "evenhand"}))
        sampler = ParentBased(TraceIdRatioBased(config.share))
        self._provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("evenhand", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._context, self._trace = context, trace

    @property
    def current(self) -> Context:
        """Context of the current span."""
        return self._context.get_current()

    @contextmanager
    def span(self, name: str, *, stream: str | None = None, **options: Any) -> Iterator[Any]:
        """Trace the block, and yield its span.

        Args:
            name: Name of the span.
            stream: Name of the stream, for an attribute of the span.
            options: Options of the tracer's ``start_as_current_span``.
        """
        if stream is not None:
            options["attributes"] = {"evenhand.stream": stream}
        with self._tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False, **options
        ) as span:
            try:
                yield span
            except BaseException as error:
                # The message of an exception may quote the input of a caller.
                span.set_status(self._trace.StatusCode.ERROR, type(error).__name__)
                raise

    @contextmanager
    def request(self, scope: Scope, id: str) -> Iterator[Callable[[int], None]]:
        """Trace a request as part of the caller's trace, and yield a function that records its status.

        Args:
            scope: ASGI scope of the request, to which the application adds the route.
            id: ID of the request.
        """
        headers = {
            name.decode(): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in (b"traceparent", b"tracestate")
        }
        method = scope["method"] if scope["method"] in COUNTED_METHODS else "_OTHER"
        attributes = {"http.request.method": method, "evenhand.request_id": id}
        parent, kind = self._propagator.extract(headers), self._trace.SpanKind.SERVER
        with self.span(method, context=parent, kind=kind, attributes=attributes) as span:

            def record(status: int) -> None:
                route = getattr(scope.get("route"), "path", None)
                if route is not None:
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)
                    if route.startswith(STREAM_ROUTES) and "name" in scope["path_params"]:
                        span.set_attribute("evenhand.stream", scope["path_params"]["name"])
                span.set_attribute("http.response.status_code", status)
                if status >= 500:
                    span.set_status(self._trace.StatusCode.ERROR)

            yield record

    def record_commit(self, commit: Commit) -> None:
        """Trace a finished transaction in the trace of its first operation, with links to the others."""
        parents = [request.trace for request in commit.requests]
        spans = [self._trace.get_current_span(parent).get_span_context() for parent in parents]
        links = [self._trace.Link(context) for context in spans[1 : MAX_LINKS + 1] if context.is_valid]
        ended = time.time_ns()
        span = self._tracer.start_span(
            "evenhand.commit",
            parents[0],
            links=links,
            start_time=ended - int(1e9 * commit.seconds),
            attributes={"evenhand.operations": len(parents), "evenhand.streams": sorted(commit.batches)},
        )
        span.end(ended)

    def wrap(self, inner: T, spans: Mapping[str, str], stream: str) -> T:
        """Wrap an object so that calls of some of its methods are traced.

        Args:
            inner: Object with the methods.
            spans: Names of the spans by method.
            stream: Name of the stream.
        """
        wrapper: Any = _TracedCalls(inner)
        for name, span in spans.items():
            if hasattr(inner, name):
                setattr(wrapper, name, self._trace_function(getattr(inner, name), span, stream))
        traced: T = wrapper
        return traced

    def _trace_function(self, function: Callable[..., Any], name: str, stream: str) -> Callable[..., Any]:
        def traced(*args: Any) -> Any:
            with self.span(name, stream=stream):
                return function(*args)

        async def traced_async(*args: Any) -> Any:
            with self.span(name, stream=stream):
                return await call(function, *args)

        traced.awaited = traced_async  # type: ignore[attr-defined]  # read by `call`
        return traced

    def flush(self) -> None:
        """Export the recorded spans."""
        self._provider.force_flush(FLUSH_MILLISECONDS)

    def close(self) -> None:
        """Export the recorded spans, and stop."""
        self.flush()
        self._provider.shutdown()


def build_exporter(config: TracingConfig) -> SpanExporter:
    """Build the OTLP exporter over HTTP, for the configured endpoint or that of ``OTEL_EXPORTER_OTLP_*``."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(None if config.endpoint is None else f"{config.endpoint}/v1/traces")


class _TracedCalls:
    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
