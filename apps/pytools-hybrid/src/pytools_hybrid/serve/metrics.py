"""Metrics of this process for Prometheus: its activity, and the state of an index.

Activity is counted from the import of this module on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from toolindex import ToolIndexError

from pytools_hybrid.telemetry import CALLS, MODEL_REQUESTS, QUICK, SEARCHES, SYNCS, lost_channels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from pytools_hybrid.index import Index

__all__ = ["ToolMetrics"]


_registry = CollectorRegistry()
for _each in (SEARCHES, CALLS, MODEL_REQUESTS, SYNCS):
    _each.start_counting(_registry)
lost_channels.append(
    Counter(
        "pytools_search_channels_lost",
        "Searches in which a channel failed.",
        ["channel"],
        registry=_registry,
    )
)
HTTP_REQUESTS = Counter(
    "pytools_http_requests",
    "HTTP requests, including those to /mcp.",
    ["method", "route", "status"],
    registry=_registry,
)
HTTP_SECONDS = Histogram(
    "pytools_http_request_seconds",
    "How long HTTP requests took to answer.",
    ["route"],
    registry=_registry,
    buckets=QUICK,
)


class ToolMetrics:
    """A collector for prometheus-client: `REGISTRY.register(ToolMetrics(tools.index))`.

    All searches and calls of the process since the import of this module are counted, whatever
    their interface.

    Args:
        index: The index whose state is included while it is open.
    """

    def __init__(self, index: Index | None = None) -> None:
        self._index = index

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        for metric in _registry.collect():
            # Prometheus does not need the times when counting began.
            metric.samples = [it for it in metric.samples if not it.name.endswith("_created")]
            yield metric
        if self._index is not None and self._index.is_open:
            yield from _state(self._index)


def _state(index: Index) -> Iterator[Metric]:
    from pytools_hybrid.index import server_unreachable

    sync, store = index.sync, index.store
    model = "" if index.embedder is None else index.embedder.model_id
    values: list[tuple[str, str, float]] = []
    is_current = sync.failure is None and not sync.is_first_scan
    try:
        with store.reading() as reader:
            generation, coverage = reader.generation(), reader.coverage(model)
        pending = store.count_pending(model) if model else 0
        refused = len(store.refused(model)) if model else 0
        values += [
            ("tools", "Tools in the index.", coverage.tools),
            ("vectors", "Tools with a vector.", coverage.vectors),
            ("index_generation", "The generation of the index.", generation),
            ("embedding_pending", "Texts of tools that are still to be embedded.", pending),
            ("embedding_refused", "Tools whose text the model has refused.", refused),
        ]
        # Known once the copy has been read.
        is_current = is_current and not server_unreachable(store)
    except ToolIndexError:
        is_current = False
    about = (
        "1; or 0 while the index or its server cannot be read, or the index could not be "
        "synchronised with the files."
    )
    values.append(("index_up_to_date", about, int(is_current)))
    if sync.synced_at is not None:
        about = "When the index was last synchronised with the files."
        values.append(("index_synced_timestamp_seconds", about, sync.synced_at))
    for name, about, value in values:
        yield GaugeMetricFamily(f"pytools_{name}", about, value)
