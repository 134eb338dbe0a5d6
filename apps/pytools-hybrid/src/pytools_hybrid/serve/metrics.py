"""Metrics of this process for Prometheus: its activity, and the state of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolindex import ToolIndexError

from pytools_hybrid.observing import COUNTS, DURATIONS

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from prometheus_client import Metric

    from pytools_hybrid.index import Index

__all__ = ["ToolMetrics"]


class ToolMetrics:
    """A collector for prometheus-client: `REGISTRY.register(ToolMetrics(tools.index))`.

    All searches and calls of the process are counted, whatever their interface.

    Args:
        index: The index whose state is included while it is open.
    """

    def __init__(self, index: Index | None = None) -> None:
        self._index = index

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        for count in COUNTS:
            counter = CounterMetricFamily(count.name, count.about, labels=count.labels)
            for labels, value in count.values().items():
                counter.add_metric(labels, value)
            yield counter
        for durations in DURATIONS:
            histogram = HistogramMetricFamily(
                durations.name, durations.about, labels=durations.labels
            )
            for labels, (buckets, total) in durations.values().items():
                histogram.add_metric(labels, buckets, total)
            yield histogram
        if self._index is not None and self._index.is_open:
            yield from _state(self._index)


def _state(index: Index) -> Generator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    from pytools_hybrid.index import server_unreachable

    sync, store = index.sync, index.store
    model = "" if index.embedder is None else index.embedder.model_id
    is_readable = True
    try:
        with store.reading() as reader:
            generation, coverage = reader.generation(), reader.coverage(model)
        yield GaugeMetricFamily("pytools_tools", "Tools in the index.", coverage.tools)
        yield GaugeMetricFamily("pytools_vectors", "Tools with a vector.", coverage.vectors)
        yield GaugeMetricFamily(
            "pytools_index_generation", "The generation of the index.", generation
        )
        pending = store.count_pending(model) if model else 0
        refused = len(store.refused(model)) if model else 0
        yield GaugeMetricFamily(
            "pytools_embedding_pending", "Texts of tools that are still to be embedded.", pending
        )
        yield GaugeMetricFamily(
            "pytools_embedding_refused", "Tools whose text the model has refused.", refused
        )
    except ToolIndexError:
        # pytools_index_up_to_date is 0 then.
        is_readable = False
    is_current = (
        is_readable
        and not server_unreachable(store)
        and sync.failure is None
        and not sync.is_first_look
    )
    yield GaugeMetricFamily(
        "pytools_index_up_to_date",
        "1; or 0 while the index or its server cannot be read, or the index could not be "
        "synchronised with the files.",
        int(is_current),
    )
    if sync.synced_at is not None:
        yield GaugeMetricFamily(
            "pytools_index_synced_timestamp_seconds",
            "When the index was last synchronised with the files.",
            sync.synced_at,
        )
