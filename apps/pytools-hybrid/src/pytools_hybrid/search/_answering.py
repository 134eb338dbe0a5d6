"""From a request to an answer, with vectors of the wanted model or else the offline one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from toolembed import StaticEmbedder
from toolrank import Query

from pytools_hybrid.index import sooner_than
from pytools_hybrid.search._engine import spelled
from pytools_hybrid.search._query_vectors import QueryEmbedder, QueryEncoder, QueryVector
from pytools_hybrid.search._types import SearchMode
from pytools_hybrid.telemetry import SEARCHES, lost_channels, observe, request_source

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolembed import Embedder
    from toolindex import ToolStore

    from pytools_hybrid.index import Recorder
    from pytools_hybrid.search._engine import Searcher
    from pytools_hybrid.search._types import SearchRequest, SearchResponse

_AT_ONCE = 2
# A model with vectors of fewer tools finds less than the offline one (benchmarks/RESULTS.md).
_ENOUGH = 0.9


async def observed(mode: SearchMode, answer: Awaitable[SearchResponse]) -> SearchResponse:
    """Wait for the answer to a search, and count it; every interface searches through this."""
    with observe(SEARCHES, request_source.get(), mode.value) as seen:
        response = await answer
        seen.outcome = "found" if response.tools else "early" if response.early else "empty"
        seen.note(
            "tools",
            {
                "gen_ai.request.model": response.model,
                "pytools.channels": response.channels,
                "pytools.lost": response.lost,
                "pytools.results": len(response.tools),
            },
        )
        if response.lost:
            # Only this channel can fail: the others only need the index.
            for counter in lost_channels:
                counter.labels("vector").inc()
    return response


class Answering:
    """Answers requests, with the offline model until the wanted one has embedded the tools."""

    def __init__(
        self, store: ToolStore, searcher: Searcher, recorder: Recorder, embedder: Embedder | None
    ) -> None:
        self._store = store
        self.searcher = searcher
        self._recorder = recorder
        self._embedder = embedder
        # Two searches at a time finish sooner than many at once: they share one interpreter, and
        # while one waits for the database, the other computes.
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._sooner = sooner_than(embedder)
        self._queries: dict[str, QueryEmbedder] = {}
        self._encoders: dict[str, QueryEncoder] = {}

    async def answer(self, request: SearchRequest, failure: str) -> SearchResponse:
        """Answer a request from the current state of the index."""
        wanted = self._embedder
        if wanted is None:
            is_missed = request.mode is SearchMode.VECTOR
            why = "vectors are turned off: embedding model 'none'" if is_missed else ""
            return await self._looked_up(request, None, why)
        if not self.searcher.uses_vectors(request.mode):
            return await self._looked_up(request, None, "")
        if self._sooner is not None:
            return await self._answered_at_once(request, wanted, self._sooner, failure)
        vector, why = await self._vector(request, wanted)
        response = await self._looked_up(request, vector, why or failure)
        if response.misfit and isinstance(vector, QueryVector):
            # Not cached: the model may return the right one the next time.
            for text in (vector.text, *(text for text, _ in vector.subqueries)):
                self._queries[wanted.model_id].forget(text)
        offline = StaticEmbedder()
        if wanted.model_id == offline.model_id or not _is_short(request, response, offline):
            return response
        vector, _ = await self._vector(request, offline)
        why = response.shortfall or f"those of {wanted.model_id} are not ready"
        instead = await self._looked_up(request, vector, why)
        if response.tools and not instead.tools:
            return response
        return replace(instead, unembedded=response.unembedded, misfit=response.misfit)

    async def _answered_at_once(
        self, request: SearchRequest, wanted: Embedder, sooner: StaticEmbedder, failure: str
    ) -> SearchResponse:
        """Answer with the wanted model if all tools have its vectors, else with the faster one."""
        spelled = await asyncio.to_thread(self._spelled, request.text, wanted, sooner.knows)
        if spelled is not None:
            vector, failure = await self._vector(request, wanted, spelled)
            if not failure:
                response = await self._looked_up(request, vector, "")
                # A tool may have changed in the meantime.
                if response.coverage.vectors >= response.coverage.tools:
                    return response
        vector, why = await self._vector(request, sooner)
        # Users only need to know if the wanted model fails, not that it is unfinished.
        model_id = wanted.model_id if failure else sooner.model_id
        return await self._looked_up(request, vector, why or failure, model_id=model_id)

    def _spelled(self, text: str, wanted: Embedder, known: Callable[[str], bool]) -> str | None:
        """Return a request in the tools' spelling, or None if not all tools have vectors.

        Our models know only the pieces of a misspelt word; a provider's copes with it.
        """
        with self._store.reading() as reader:
            coverage = reader.coverage(wanted.model_id)
            if coverage.vectors < coverage.tools:
                return None
            return spelled(reader, text, known)

    async def _looked_up(
        self,
        request: SearchRequest,
        vector: QueryVector | QueryEncoder | None,
        why: str,
        *,
        model_id: str | None = None,
    ) -> SearchResponse:
        if model_id is None and self._embedder is not None:
            model_id = self._embedder.model_id
        async with self._turns:
            return await asyncio.to_thread(
                self.searcher.answer,
                request,
                model_id=model_id,
                query=vector,
                why=why,
            )

    async def _vector(
        self, request: SearchRequest, embedder: Embedder, spelled: str | None = None
    ) -> tuple[QueryVector | QueryEncoder | None, str]:
        if not Query(request.text).terms:
            return None, ""
        if isinstance(embedder, StaticEmbedder):
            # It takes less time than another thread, so it is asked where the index is read.
            if embedder.model_id not in self._encoders:
                self._encoders[embedder.model_id] = QueryEncoder(embedder)
            return self._encoders[embedder.model_id], ""
        queries = self._queries.get(embedder.model_id)
        if queries is None:
            queries = QueryEmbedder(embedder, self._store, self._recorder)
            self._queries[embedder.model_id] = queries
        return await queries.vector(Query.of(spelled or request.text))


def _is_short(request: SearchRequest, response: SearchResponse, offline: StaticEmbedder) -> bool:
    """Return whether the offline model can find more than the one that answered.

    It can without any stored vectors: it embeds the tools that fit by their words before it
    answers. In modes without words, half of the wanted model's vectors are better.
    """
    coverage = response.coverage
    is_enough = request.mode is SearchMode.VECTOR or coverage.vectors >= _ENOUGH * coverage.tools
    return not (response.model and is_enough) or offline.model_id in response.fuller_models
