"""Searches, calls and other work of the process, counted, timed and traced, from every interface.

Each event is observed once, where it happens. It is counted if something reads the counts
(`pytools_hybrid.serve.metrics`, which needs prometheus-client), and traced if the program has set
up OpenTelemetry. With the extra `otel`, the command sets it up from the variables `OTEL_…`.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from pytools_hybrid.exit import before_exit

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from opentelemetry.trace import Span
    from opentelemetry.util.types import AttributeValue
    from prometheus_client import CollectorRegistry, Counter, Histogram

_NAME = "pytools-hybrid"
_END_SECONDS = 1.0
_tracer = trace.get_tracer(_NAME)

QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The buckets of seconds for work that people wait for."""

_SLOW = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
request_source: ContextVar[str] = ContextVar("request_source", default="python")
"""The interface through which the current work was requested: mcp, http or python."""


class Operation:
    """A kind of work: how often it had which outcome, how long it took, and its span.

    Args:
        name: The beginning of the name of its timer.
        plural: As in "Searches"; also the name of its counter.
        labels: The names of the labels besides the outcome.
        outcomes: The possible outcomes.
        span: Its name in traces, from the GenAI conventions if they define one.
        buckets: The upper bounds of the buckets, in seconds.

    Attributes:
        count: The counter, once something reads it.
        seconds: The timer, once something reads it.
    """

    def __init__(
        self,
        name: str,
        plural: str,
        *labels: str,
        outcomes: str,
        span: str,
        buckets: tuple[float, ...] = _SLOW,
    ) -> None:
        self.labels = labels
        self.span = span
        self.count: Counter | None = None
        self.seconds: Histogram | None = None
        self._name = name
        self._plural = plural
        self._outcomes = outcomes
        self._buckets = buckets

    def start_counting(self, registry: CollectorRegistry) -> None:
        """Count and time the operation from now on."""
        from prometheus_client import Counter, Histogram

        many, labels = self._plural.lower(), [*self.labels, "outcome"]
        about = f"{self._plural}: {self._outcomes}."
        name = f"pytools_{many.replace(' ', '_')}"
        self.count = Counter(name, about, labels, registry=registry)
        self.seconds = Histogram(
            f"pytools_{self._name}_seconds",
            f"How long {many} took.",
            self.labels,
            registry=registry,
            buckets=self._buckets,
        )

    def record(self, labels: tuple[str, ...], outcome: str, seconds: float) -> None:
        """Count and time an operation that has ended, if something reads that."""
        if self.count is not None and self.seconds is not None:
            self.count.labels(*labels, outcome).inc()
            (self.seconds.labels(*labels) if labels else self.seconds).observe(seconds)


SEARCHES = Operation(
    "search",
    "Searches",
    "transport",
    "mode",
    outcomes="found, empty, early (the index was still being filled), failed or cancelled",
    span="retrieval",
    buckets=QUICK,
)
CALLS = Operation(
    "call",
    "Calls",
    "transport",
    "category",
    outcomes="ok, error (reported by the tool), refused, failed (no answer) or cancelled",
    span="execute_tool",
)
MODEL_REQUESTS = Operation(
    "model_request",
    "Model requests",
    "use",
    "model",
    outcomes="to embed a query or tools, or to rerank: answered, failed or cancelled",
    span="embeddings",
)
SYNCS = Operation(
    "sync",
    "Syncs",
    outcomes="of the index with the files: changed, unchanged or failed",
    span="sync",
)


lost_channels: list[Counter] = []
"""The counter of searches in which a channel failed, once something reads it."""


@contextmanager
def requested_through(source: str) -> Generator[None]:
    """Set the interface through which the work inside the block was requested."""
    token = request_source.set(source)
    try:
        yield
    finally:
        request_source.reset(token)


class Observation:
    """An operation in progress.

    Attributes:
        labels: The values of its labels; some may become known only in the block.
        outcome: How it ended. Without one, a block that ends is not counted, and one that raises is
            counted as cancelled or failed.
    """

    def __init__(self, operation: Operation, labels: tuple[str, ...], span: Span) -> None:
        self.labels = labels
        self.outcome = ""
        self._operation = operation
        self._span = span

    def note(self, target: str, attributes: Mapping[str, AttributeValue]) -> None:
        """Add to the span what the work is done to, and what else is known."""
        self._span.update_name(f"{self._operation.span} {target}")
        self._span.set_attributes(attributes)


@contextmanager
def observe(operation: Operation, *labels: str) -> Generator[Observation]:
    """Count, time and trace the work of a block."""
    name, kind = operation.span, SpanKind.INTERNAL
    attributes = {"gen_ai.operation.name": name}
    if operation is SYNCS:
        attributes = {}
    elif operation is MODEL_REQUESTS:
        use, model = labels
        operation_name = "rerank" if use == "rerank" else name
        name, kind = f"{operation_name} {model}", SpanKind.CLIENT
        attributes = {
            "gen_ai.operation.name": operation_name,
            "gen_ai.provider.name": model.partition(":")[0],
            "gen_ai.request.model": model,
        }
    started = time.perf_counter()
    with span(name, attributes, kind=kind) as recorded:
        seen = Observation(operation, labels, recorded)
        try:
            yield seen
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            seen.outcome = seen.outcome or ("cancelled" if cancelled else "failed")
            raise
        else:
            if seen.outcome in {"error", "failed"}:
                fail_span(recorded, "tool_error" if seen.outcome == "error" else "failed")
        finally:
            if seen.outcome:
                operation.record(seen.labels, seen.outcome, time.perf_counter() - started)
            values = zip((*operation.labels, "outcome"), (*seen.labels, seen.outcome), strict=True)
            recorded.set_attributes({f"pytools.{name}": it for name, it in values if it})


@contextmanager
def span(
    name: str,
    attributes: Mapping[str, AttributeValue] | None = None,
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    headers: Mapping[str, str] | None = None,
) -> Generator[Span]:
    """Record the work of the block as a span, below the current one.

    Args:
        name: The name of the span, one of a few.
        attributes: Attributes known at the start.
        kind: The side of a request that it is on.
        headers: Headers that may name the parent span.
    """
    context = None
    if headers:
        from opentelemetry.propagate import extract

        context = extract(headers)
    with _tracer.start_as_current_span(
        name,
        context=context,
        kind=kind,
        attributes=attributes,
        # The error's message may quote a query, or arguments.
        record_exception=False,
        set_status_on_exception=False,
    ) as recorded:
        try:
            yield recorded
        except BaseException as error:
            fail_span(recorded, type(error).__qualname__)
            raise


def fail_span(recorded: Span, error: str) -> None:
    """Record on a span that its operation has failed, and how."""
    recorded.set_attribute("error.type", error)
    recorded.set_status(StatusCode.ERROR)


def trace_ids() -> dict[str, str]:
    """Return the ids of the current trace and span, as in logs."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def is_wanted() -> bool:
    """Return whether the environment says where to send traces."""
    variables = (
        "OTEL_TRACES_EXPORTER",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    )
    return (
        os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true"
        and os.environ.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
        and any(map(os.environ.get, variables))
    )


def start_tracing() -> None:
    """Send the traces of this process over OTLP, as the environment configures it.

    Raises:
        ImportError: The extra `otel` is not installed.
    """
    from importlib.metadata import version

    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        # The program that called this has set up tracing already.
        return
    ours = Resource({SERVICE_NAME: _NAME, SERVICE_VERSION: version(_NAME)})
    theirs = Resource.create()
    is_named = not str(theirs.attributes[SERVICE_NAME]).startswith("unknown_service")
    resource = ours.merge(theirs) if is_named else theirs.merge(ours)
    # It is flushed in time below, and its own way may take long.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)

    def flush() -> None:
        from threading import Thread

        # In a thread, because it would wait long for a receiver that has gone away.
        flushing = Thread(target=provider.force_flush, daemon=True)
        flushing.start()
        flushing.join(_END_SECONDS)

    before_exit.append(flush)
