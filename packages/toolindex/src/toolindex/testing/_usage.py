"""The promises of a store about its records: searches, outcomes, query vectors."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from toolindex._usage import OutcomeRecord, SearchRecord
from toolindex.errors import VectorError
from toolindex.testing._trees import ODD_TEXTS, expect, refused

if TYPE_CHECKING:
    from toolindex.protocols import ToolStore

_GOOD, _BAD = "mcptools:mail:read", "mcptools:mail:send"
_DAY = 86_400.0


def _search(
    id_: str, *, at: float = 1.0, query: str = "q", results: tuple[str, ...] = (_GOOD, _BAD)
) -> SearchRecord:
    return SearchRecord(id=id_, at=at, query=query, mode="hybrid", results=results, latency_ms=2.0)


def _generation(store: ToolStore) -> int:
    with store.reading() as reader:
        return reader.usage_generation()


def _check_usage(store: ToolStore) -> None:
    """Searches and outcomes are summarized."""
    generations = [_generation(store)]
    expect(store.usage.statistics().searches, 0, "a new store has no searches")
    store.usage.record_searches([_search("a"), _search("a"), _search("b", at=5.0)])
    store.usage.record_searches([_search("a"), _search("c", query="none", results=())])
    outcomes = [
        OutcomeRecord(at=2.0, tool_id=_GOOD, success=True, latency_ms=10.0, search_id="a"),
        OutcomeRecord(at=3.0, tool_id=_GOOD, success=True, latency_ms=30.0),
        OutcomeRecord(at=4.0, tool_id=_GOOD, success=False, latency_ms=900.0),
        OutcomeRecord(at=4.0, tool_id=_BAD, success=False, search_id="b"),
    ]
    store.usage.record_outcomes(outcomes)
    generations.append(_generation(store))
    found = store.usage.statistics()
    expect(found.searches, 3, "a search that is recorded twice counts once")
    expect(found.without_results, 1, "searches without results are counted")
    named = [(entry.query, entry.count) for entry in found.queries_without_results]
    expect(named, [("none", 1)], "queries without results are named")
    accepted = found.judged, found.first_accepted
    expect(accepted, (2, 1), "searches with outcomes are counted, and those whose first was right")
    used = [(tool.tool_id, tool.observations, tool.successes) for tool in found.tools]
    expect(used, [(_GOOD, 3, 2), (_BAD, 1, 0)], "outcomes are counted by tool, the most used first")
    latencies = [tool.latency_p50_ms for tool in found.tools]
    expect(latencies, [10.0, None], "latencies are those of successes")
    for tool in found.tools:
        promise = "the usage of one tool is the same as in the statistics of all"
        expect(store.usage.of_tool(tool.tool_id), tool, promise)
    expect(store.usage.of_tool("other"), None, "a tool without outcomes has no usage")
    expect(store.usage.statistics(since=4.5).searches, 1, "older records are left out")
    expect(
        store.usage.statistics(top=0).queries_without_results, (), "no more queries than asked for"
    )
    kept = store.usage.searches
    expect([it.id for it in kept()], ["a", "c", "b"], "searches are returned, oldest first")
    expect([it.id for it in kept(since=4.5)], ["b"], "older searches are left out")
    promise = "searches that found a tool are returned"
    expect([it.id for it in kept(found=_GOOD)], ["a", "b"], promise)
    expect(len(kept(found=_GOOD[:-1])), 0, promise)
    expect(store.usage.outcomes(), tuple(outcomes), "outcomes are returned, oldest first")
    its = store.usage.outcomes(since=2.5, tool_id=_GOOD)
    expect(its, tuple(outcomes[1:3]), "outcomes of one tool are returned")
    removed = store.usage.clear()
    expect((removed.searches, removed.outcomes), (3, 4), "what is deleted is counted")
    expect(store.usage.statistics().searches, 0, "a record that was cleared is empty")
    promise = "a cleared record has no tools"
    expect(store.usage.of_tool(_GOOD), None, promise)
    generations.append(_generation(store))
    expect(len(set(generations)), 3, "the usage generation changes with every change of outcomes")


def _check_odd_records(store: ToolStore) -> None:
    """Any string can be recorded."""
    for number, text in enumerate(ODD_TEXTS):
        store.usage.record_searches([_search(f"{number}{text}", query=text, results=(text,))])
        store.usage.record_outcomes([OutcomeRecord(at=1.0, tool_id=text, success=True)])
        of_text = store.usage.of_tool(text)
        promise = f"what is known of a tool is found by any string ({text[:20]!r})"
        expect(of_text is not None and of_text.observations, 1, promise)
    found = store.usage.statistics()
    expect(found.searches, len(ODD_TEXTS), "any string can be recorded of a search")
    expect(len(found.tools), len(ODD_TEXTS), "any string can be recorded of an outcome")


def _check_retention(store: ToolStore) -> None:
    """Old records are deleted, and the oldest if there are too many."""
    now = time.time()
    ages = [20, 10, 3, 2, 1]
    store.usage.record_searches(_search(f"{age}", at=now - age * _DAY) for age in ages)
    store.usage.record_outcomes(
        OutcomeRecord(at=now - age * _DAY, tool_id=_GOOD, success=True) for age in ages
    )
    before = _generation(store)
    kept = store.usage.retain(max_age_days=30, max_rows=9)
    expect((kept.searches, kept.outcomes), (0, 0), "other records are kept")
    removed = store.usage.retain(max_age_days=5, max_rows=9)
    expect((removed.searches, removed.outcomes), (2, 2), "records that are too old are deleted")
    expect(
        _generation(store) != before, True, "the usage generation moves when outcomes are deleted"
    )
    removed = store.usage.retain(max_age_days=5, max_rows=1)
    expect(
        (removed.searches, removed.outcomes),
        (2, 2),
        "the oldest surplus records are deleted",
    )
    newest = store.usage.statistics(since=now - 1.5 * _DAY)
    expect(
        (newest.searches, len(newest.tools)),
        (1, 1),
        "the newest records are kept",
    )


def _check_query_vectors(store: ToolStore) -> None:
    """Query vectors are kept by model and query."""
    kept = store.query_vectors
    expect(kept.get("m", "merge"), None, "a query that was not asked has no vector")
    for query in ("merge", *ODD_TEXTS):
        kept.put("m", {query: [3.0, 4.0]}, used=["merge"])
        values = list(kept.get("m", query) or ())
        alike = len(values) == 2 and math.isclose(values[0], 0.6, rel_tol=1e-6)
        promise = "the vector of a query is kept, at length 1"
        expect(alike, True, f"{promise} ({query[:20]!r} has {values})")
    expect(kept.get("other", "merge"), None, "models have separate vectors")
    expect(kept.get("m", "merge", dimensions=3), None, "a vector of another length is not returned")
    expect(
        kept.get("m", "merge", dimensions=2) is None,
        False,
        "a vector of its own length is returned",
    )
    with refused(VectorError, "query vectors of zeros are refused"):
        kept.put("m", {"zero": [0.0, 0.0]})


CHECKS = (_check_usage, _check_odd_records, _check_retention, _check_query_vectors)
