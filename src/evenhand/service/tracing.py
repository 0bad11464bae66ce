"""Traces for OpenTelemetry: nested spans of requests, decisions, transactions and backends.

Spans have the route, the stream, the ID and the outcome of a request. They never contain IDs of decisions, groups,
prompts or keys. Libraries that trace requests export complete URLs, whose query may contain any of these, so they are
not used. OpenTelemetry is only imported if the service's file enables tracing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from evenhand import __version__
from evenhand.core.coroutines import call
from evenhand.errors import MissingExtraError
from evenhand.service.settings import TracingConfig

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter

T = TypeVar("T")

RequestTeller: TypeAlias = Callable[[int, str | None, str | None], None]
"""Function that receives the status, the route and the stream of a response."""

MAX_LINKS = 128
"""Maximum number of requests that the span of a transaction links to."""

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
        except ModuleNotFoundError as error:
            raise MissingExtraError(str(error.name), extra="otel", purpose="for traces") from None
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence if they are set.
        about = Resource.create().merge(Resource({"service.version": __version__}))
        if str(about.attributes.get("service.name", "")).startswith("unknown_service"):
            about = about.merge(Resource({"service.name": "evenhand"}))
        sampler = ParentBased(TraceIdRatioBased(config.share))
        self._provider = TracerProvider(sampler=sampler, resource=about, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(build_exporter(config)))
        self._tracer = self._provider.get_tracer("evenhand", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._context, self._trace = context, trace

    @property
    def current(self) -> Context:
        """Context of the current span."""
        return self._context.get_current()

    @contextmanager
    def span(self, name: str, **about: str | int | bool) -> Iterator[Callable[[str, str | int | bool], None]]:
        """Trace the block, and yield a function that adds attributes to the span.

        Args:
            name: Name of the span.
            about: Attributes, which get the prefix ``evenhand.``.
        """
        attributes = {f"evenhand.{key}": value for key, value in about.items()}
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield lambda key, value: span.set_attribute(f"evenhand.{key}", value)
            except BaseException as error:
                # The message of an exception may quote the input of a caller.
                span.set_status(self._trace.StatusCode.ERROR, type(error).__name__)
                raise

    def record_commit(self, parents: Sequence[Context], seconds: float, streams: Sequence[str]) -> None:
        """Trace a finished transaction in the trace of its first operation, with links to the others."""
        spans = [self._trace.get_current_span(parent).get_span_context() for parent in parents]
        links = [self._trace.Link(context) for context in spans[1 : MAX_LINKS + 1] if context.is_valid]
        ended = time.time_ns()
        span = self._tracer.start_span(
            "evenhand.commit",
            parents[0],
            links=links,
            start_time=ended - int(1e9 * seconds),
            attributes={"evenhand.operations": len(parents), "evenhand.streams": list(streams)},
        )
        span.end(ended)

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str], called: str) -> Iterator[RequestTeller]:
        """Trace a request as part of the caller's trace, and yield a function that records its outcome.

        Args:
            method: HTTP method, which names the span.
            headers: Headers ``traceparent`` and ``tracestate`` of the caller's trace.
            called: ID of the request.
        """
        attributes = {"http.request.method": method, "evenhand.request_id": called}
        with self._tracer.start_as_current_span(
            method,
            self._propagator.extract(headers),
            kind=self._trace.SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:

            def record(status: int, route: str | None, stream: str | None) -> None:
                if route is not None:
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.route", route)
                if stream is not None:
                    span.set_attribute("evenhand.stream", stream)
                span.set_attribute("http.response.status_code", status)
                if status >= 500:
                    span.set_status(self._trace.StatusCode.ERROR)

            yield record

    def flush(self) -> None:
        """Export the recorded spans."""
        self._provider.force_flush(FLUSH_MILLISECONDS)

    def close(self) -> None:
        """Export the recorded spans, and stop."""
        self.flush()
        self._provider.shutdown()


def build_exporter(config: TracingConfig) -> SpanExporter:
    """Build the exporter: OTLP over HTTP, to the configured endpoint or as ``OTEL_EXPORTER_OTLP_*`` says.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), extra="otel", purpose="for traces") from None
    return OTLPSpanExporter(None if config.endpoint is None else f"{config.endpoint}/v1/traces")


def open_tracing(config: TracingConfig) -> Tracing | None:
    """Create the tracing if it is enabled.

    Raises:
        MissingExtraError: OpenTelemetry is not installed.
    """
    if not config.enabled:
        return None
    # The service's log reports spans that cannot be exported.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    return Tracing(config)


def trace_calls(tracing: Tracing | None, inner: T, spans: Mapping[str, str], stream: str) -> T:
    """Wrap an object so that calls of some of its methods are traced.

    Args:
        tracing: Tracing. If None, the object is returned unchanged.
        inner: Object with the methods.
        spans: Names of the spans by method.
        stream: Name of the stream.
    """
    return inner if tracing is None else _TracedCalls(tracing, inner, spans, stream)  # type: ignore[return-value]  # alike


class _TracedCalls:
    def __init__(self, tracing: Tracing, inner: object, spans: Mapping[str, str], stream: str) -> None:
        self._inner = inner
        for name, span in spans.items():
            if hasattr(inner, name):
                setattr(self, name, _trace_function(tracing, getattr(inner, name), span, stream))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _trace_function(tracing: Tracing, function: Callable[..., Any], name: str, stream: str) -> Callable[..., Any]:
    def traced(*args: Any, **kwargs: Any) -> Any:
        with tracing.span(name, stream=stream):
            return function(*args, **kwargs)

    async def traced_async(*args: Any, **kwargs: Any) -> Any:
        with tracing.span(name, stream=stream):
            return await call(function, *args, **kwargs)

    traced.awaited = traced_async  # type: ignore[attr-defined]  # how `call` finds what it can wait for
    return traced
