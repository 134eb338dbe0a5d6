"""Stores that keep the usage record, or vectors of queries, wrongly in one way."""

from dataclasses import replace

from toolindex import RemovedRecords

from .memory_store import MemoryQueryVectors, MemoryStore
from .memory_usage import MemoryUsage


class CountsEverySearch(MemoryUsage):
    def record_searches(self, searches):
        new = [
            replace(search, id=f"{search.id} {number}") for number, search in enumerate(searches)
        ]
        super().record_searches(new)


class KeepsPlainText(MemoryUsage):
    def record_outcomes(self, outcomes):
        outcomes = list(outcomes)
        for outcome in outcomes:
            outcome.tool_id.encode()
        super().record_outcomes(outcomes)


class CountsOldSearches(MemoryUsage):
    def statistics(self, *, since=None, top=10):
        return super().statistics(top=top)


class CountsNoFailedSearch(MemoryUsage):
    def statistics(self, **options):
        return replace(super().statistics(**options), without_results=0)


class NamesNoQuery(MemoryUsage):
    def statistics(self, **options):
        return replace(super().statistics(**options), queries_without_results=())


class NamesAllQueries(MemoryUsage):
    def statistics(self, *, since=None, top=10):
        return super().statistics(since=since)


class CountsSuccessesOnly(MemoryUsage):
    def usage_of(self, tool_id, outcomes):
        return replace(super().usage_of(tool_id, outcomes), observations=1, successes=1)


class KnowsSuccessesOnly(MemoryUsage):
    def of_tool(self, tool_id):
        found = super().of_tool(tool_id)
        return found and replace(found, observations=found.successes)


class InventsUsage(MemoryUsage):
    def of_tool(self, tool_id):
        return super().of_tool(tool_id) or self.usage_of(tool_id, self.store.state.outcomes)


class RemembersWhatWasCleared(MemoryUsage):
    def __init__(self, store):
        super().__init__(store)
        self.known = {}

    def of_tool(self, tool_id):
        found = super().of_tool(tool_id) or self.known.get(tool_id)
        self.known[tool_id] = found
        return found


class CutsIdsShort(MemoryUsage):
    def of_tool(self, tool_id):
        return super().of_tool(tool_id.split("\0")[0])


class DeletesUncounted(MemoryUsage):
    def clear(self):
        super().clear()
        return RemovedRecords(searches=0, outcomes=0)


class KeepsNothing(MemoryUsage):
    def retain(self, **limits):
        return self.clear()


class AcceptsFailures(MemoryUsage):
    def statistics(self, **options):
        found = super().statistics(**options)
        return replace(found, first_accepted=found.judged)


class TimesFailures(MemoryUsage):
    def usage_of(self, tool_id, outcomes):
        found = super().usage_of(tool_id, outcomes)
        latency = max((outcome.latency_ms or 0.0 for outcome in outcomes), default=None)
        return replace(found, latency_p50_ms=latency)


class ClearsNothing(MemoryUsage):
    def clear(self):
        return RemovedRecords(searches=3, outcomes=4)


class KeepsOldRecords(MemoryUsage):
    def retain(self, *, max_age_days, max_rows):
        return super().retain(max_age_days=999, max_rows=max_rows)


class KeepsTooManyRecords(MemoryUsage):
    def retain(self, *, max_age_days, max_rows):
        return super().retain(max_age_days=max_age_days, max_rows=999)


class KeepsTheOldest(MemoryUsage):
    def keep(self, searches, outcomes):
        state = self.store.state
        first = list(state.searches.values())[: len(searches)]
        return super().keep(first if len(searches) == 1 else searches, outcomes)


class DeletesUnnoticed(MemoryUsage):
    def keep(self, searches, outcomes):
        before = self.store.state.usage_generation
        removed = super().keep(searches, outcomes)
        self.store.change(usage_generation=before)
        return removed


def with_usage(usage):
    class Broken(MemoryStore):
        def __init__(self, place=None):
            super().__init__(place)
            self.usage = usage(self)

    Broken.__name__ = usage.__name__
    return Broken


class KeepsNoQueries(MemoryQueryVectors):
    def put(self, model_id, vectors, *, used=()):
        super().put(model_id, {q: v for q, v in vectors.items() if not any(v)})


class KeepsLengths(MemoryQueryVectors):
    def put(self, model_id, vectors, *, used=()):
        self.kept.update({(model_id, query): tuple(v) for query, v in vectors.items()})


class TakesQueriesOfAnyModel(MemoryQueryVectors):
    def get(self, model_id, query, *, dimensions=None):
        return super().get("m", query, dimensions=dimensions)


class TakesAnyLength(MemoryQueryVectors):
    def get(self, model_id, query, *, dimensions=None):
        return super().get(model_id, query)


class KeepsPlainQueries(MemoryQueryVectors):
    def put(self, model_id, vectors, *, used=()):
        [query.encode() for query in vectors]
        super().put(model_id, vectors)


class KnowsEveryQuery(MemoryQueryVectors):
    def get(self, model_id, query, *, dimensions=None):
        return super().get(model_id, query, dimensions=dimensions) or (1.0,)


class KnowsNoLength(MemoryQueryVectors):
    def get(self, model_id, query, *, dimensions=None):
        return None if dimensions else super().get(model_id, query)


class KeepsZeros(MemoryQueryVectors):
    def put(self, model_id, vectors, *, used=()):
        super().put(model_id, {q: v for q, v in vectors.items() if any(v)})


def with_query_vectors(kept):
    class Broken(MemoryStore):
        def __init__(self, place=None):
            super().__init__(place)
            self.query_vectors = kept(self.place.query_vectors)

    Broken.__name__ = kept.__name__
    return Broken


BROKEN = {
    with_usage(CountsEverySearch): "a search that is recorded twice counts once",
    with_usage(KeepsPlainText): "Any string can be recorded.*But it raised UnicodeEncodeError",
    with_usage(CountsOldSearches): "what is older is left out",
    with_usage(AcceptsFailures): "and those whose first was right",
    with_usage(TimesFailures): "latencies are those of successes",
    with_usage(ClearsNothing): "a record that was cleared is empty",
    with_usage(KeepsOldRecords): "what is too old is deleted",
    with_usage(KeepsTooManyRecords): "of what is too many the oldest are deleted",
    with_usage(KeepsTheOldest): "of what is too many the newest are kept",
    with_usage(DeletesUnnoticed): "the usage generation",
    with_query_vectors(KeepsNoQueries): "the vector of a query is kept",
    with_query_vectors(KeepsLengths): "the vector of a query is kept, at length 1",
    with_query_vectors(TakesQueriesOfAnyModel): "the vectors of one model are not another's",
    with_query_vectors(TakesAnyLength): "a vector of another length is not given",
    with_query_vectors(KeepsPlainQueries): "But it raised UnicodeEncodeError",
    with_query_vectors(KnowsEveryQuery): "a query that was not asked has no vector",
    with_query_vectors(KnowsNoLength): "a vector of that length is given",
    with_usage(CountsNoFailedSearch): "searches without results are counted",
    with_usage(NamesNoQuery): "queries without results are named",
    with_usage(NamesAllQueries): "no more queries than asked for",
    with_usage(CountsSuccessesOnly): "outcomes are counted by tool",
    with_usage(KnowsSuccessesOnly): "what is known of one tool is what is known of it among all",
    with_usage(InventsUsage): "nothing is known of a tool without outcomes",
    with_usage(RemembersWhatWasCleared): "a record that was cleared is empty of every tool",
    with_usage(CutsIdsShort): "what is known of a tool is found by any string",
    with_usage(DeletesUncounted): "what is deleted is counted",
    with_usage(KeepsNothing): "what is neither too old nor too many is kept",
    with_query_vectors(KeepsZeros): "vectors of queries that have no direction are refused",
}
"""Each with the promise that it breaks, as a pattern."""
