"""Spans for OpenTelemetry: nothing is imported or recorded unless this program traces.

A program that has set up OpenTelemetry itself gets the spans of its searches there. With the extra
`otel`, the command sets it up from the standard variables `OTEL_…`.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from opentelemetry.trace import Span, Tracer

    Value = str | int | float | tuple[str, ...]
    Attributes = Mapping[str, Value]
    Kind = Literal["internal", "client", "server"]

__all__ = [
    "end_tracing",
    "failed",
    "is_tracing",
    "is_wanted",
    "span",
    "start_tracing",
    "traced_ids",
]

_NAME = "pytools-hybrid"
_END_SECONDS = 1.0
_OFF: AbstractContextManager[None] = nullcontext()


def span(
    name: str,
    attributes: Attributes | None = None,
    *,
    kind: Kind = "internal",
    carrier: Mapping[str, str] | None = None,
) -> AbstractContextManager[Span | None]:
    """Record the work of the block as a span, below the current one.

    Args:
        name: The name of the span, one of a few.
        attributes: Attributes known at the start.
        kind: The side of a request that it is on.
        carrier: Headers that may name the parent span.

    Returns:
        A context manager that yields the span, or None if this program does not trace.
    """
    if (tracer := _tracer()) is None:
        return _OFF
    return _recorded(tracer, name, attributes, kind, carrier)


def is_tracing() -> bool:
    """Return whether spans are recorded."""
    return _tracer() is not None


def traced_ids() -> dict[str, str]:
    """Return the ids of the current trace and span, as in logs."""
    if (trace := sys.modules.get("opentelemetry.trace")) is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def is_wanted() -> bool:
    """Return whether the environment says where to send traces."""
    given = os.environ.get
    return (
        given("OTEL_SDK_DISABLED", "").lower() != "true"
        and given("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
        and any(
            map(
                given,
                (
                    "OTEL_TRACES_EXPORTER",
                    "OTEL_EXPORTER_OTLP_ENDPOINT",
                    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                ),
            )
        )
    )


def start_tracing() -> None:
    """Send traces over OTLP, as the environment configures it.

    Raises:
        ImportError: The extra `otel` is not installed.
    """
    from importlib.metadata import version

    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if _tracer() is not None:
        # The program that called this has set up tracing already.
        return
    ours = Resource({SERVICE_NAME: _NAME, SERVICE_VERSION: version(_NAME)})
    theirs = Resource.create()
    is_named = not str(theirs.attributes[SERVICE_NAME]).startswith("unknown_service")
    resource = ours.merge(theirs) if is_named else theirs.merge(ours)
    # `end_tracing` is called in time, and does not wait for long.
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def end_tracing() -> None:
    """Send the remaining spans, if that can be done quickly."""
    if _tracer() is None:
        return
    from threading import Thread

    from opentelemetry import trace

    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        # In a thread, because it would wait long for a receiver that has gone away.
        flushing = Thread(target=flush, daemon=True)
        flushing.start()
        flushing.join(_END_SECONDS)


def _tracer() -> Tracer | None:
    # The MCP library imports the interface; only programs that trace import the SDK.
    if (trace := sys.modules.get("opentelemetry.trace")) is None:
        return None
    if getattr(trace, "_TRACER_PROVIDER", _OFF) is None:
        # The same as below, in a tenth of the time.
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        return None
    tracer: Tracer = provider.get_tracer(_NAME)
    return tracer


@contextmanager
def _recorded(
    tracer: Tracer,
    name: str,
    attributes: Attributes | None,
    kind: Kind,
    carrier: Mapping[str, str] | None,
) -> Generator[Span]:
    from opentelemetry.propagate import extract
    from opentelemetry.trace import SpanKind

    with tracer.start_as_current_span(
        name,
        context=None if carrier is None else extract(carrier),
        kind=SpanKind[kind.upper()],
        attributes=attributes,
        # The error's message may quote a query, or arguments.
        record_exception=False,
        set_status_on_exception=False,
    ) as recorded:
        try:
            yield recorded
        except BaseException as error:
            failed(recorded, type(error).__qualname__)
            raise


def failed(recorded: Span, error: str) -> None:
    """Record on a span that its operation has failed, and how."""
    from opentelemetry.trace import StatusCode

    recorded.set_attribute("error.type", error)
    recorded.set_status(StatusCode.ERROR)
