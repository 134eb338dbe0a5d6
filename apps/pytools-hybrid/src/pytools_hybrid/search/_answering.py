"""From a request to an answer: the query's vector, of the model that can find most."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from toolembed import StaticEmbedder, stand_in
from toolrank import query_terms, split_request

from pytools_hybrid.search._query_vectors import QueryEmbedder
from pytools_hybrid.search._types import SearchMode
from pytools_hybrid.settings import REMEDIES

if TYPE_CHECKING:
    from toolembed import Embedder
    from toolindex import ToolStore

    from pytools_hybrid.index import Recorder
    from pytools_hybrid.search._engine import Searcher
    from pytools_hybrid.search._types import QueryVector, SearchRequest, SearchResponse

_AT_ONCE = 2


class Answering:
    """Answers requests, with the vectors of another model while the wanted ones are not ready.

    Args:
        store: Where vectors of queries are kept.
        searcher: What searches.
        recorder: What writes them there.
        embedder: The wanted model, or None for search by words alone.
    """

    def __init__(
        self, store: ToolStore, searcher: Searcher, recorder: Recorder, embedder: Embedder | None
    ) -> None:
        self._store = store
        self._searcher = searcher
        self._recorder = recorder
        self._embedder = embedder
        # Of many at once, two after two end earlier than all of them together: they share one
        # interpreter, and while one of the two waits for the database the other computes.
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._queries: dict[str, QueryEmbedder] = {}
        self._stand_ins: dict[str, Embedder | None] = {}

    def uses_vectors(self, mode: SearchMode) -> bool:
        """Return whether a search of this mode asks the vector channel."""
        return self._searcher.uses_vectors(mode)

    async def answer(self, request: SearchRequest, failure: str) -> SearchResponse:
        """Answer a request from the state that the index has now.

        Args:
            request: The request.
            failure: Why tools are missing vectors, if that is known.

        Raises:
            DatabaseError: The index cannot be read.
            RetrievalError: A search table is missing.
        """
        wanted = self._embedder
        if wanted is None:
            is_missed = request.mode is SearchMode.VECTOR
            why = "vectors are turned off: embedding model 'none'" if is_missed else ""
            return await self._looked_up(request, None, why, None)
        vector, why = await self._vector(request, wanted)
        uses_vectors = self._searcher.uses_vectors(request.mode)
        told = why or (failure if uses_vectors else "")
        response = await self._looked_up(request, vector, told, wanted)
        if response.misfit and vector is not None:
            # Neither remembered nor kept: the model may give the right one the next time.
            for text in (vector.text, *(part for part, _ in vector.parts)):
                self._queries[wanted.model_id].forget(text)
        for fuller in response.fuller_models:
            other = await self._stand_in(fuller, wanted.model_id)
            if other is None:
                continue
            vector, _ = await self._vector(request, other)
            if vector is not None:
                why = why or f"those of {wanted.model_id} are not ready"
                instead = await self._looked_up(request, vector, why, other)
                return replace(instead, unembedded=response.unembedded)
        return response

    async def _stand_in(self, model_id: str, wanted: str) -> Embedder | None:
        if model_id not in self._stand_ins:
            # In a thread: it may import what knows the providers.
            self._stand_ins[model_id] = await asyncio.to_thread(
                stand_in, model_id, wanted, remedies=REMEDIES
            )
        return self._stand_ins[model_id]

    async def _looked_up(
        self,
        request: SearchRequest,
        vector: QueryVector | None,
        why: str,
        embedder: Embedder | None,
    ) -> SearchResponse:
        model_id = None if self._embedder is None else self._embedder.model_id
        encode = None
        if isinstance(embedder, StaticEmbedder) and embedder.is_instant:
            encode = embedder.encode_documents
        async with self._turns:
            return await asyncio.to_thread(
                self._searcher.answer,
                request,
                model_id=model_id,
                vector=vector,
                why=why,
                encode=encode,
            )

    async def _vector(
        self, request: SearchRequest, embedder: Embedder
    ) -> tuple[QueryVector | None, str]:
        has_words = query_terms(request.text, stop_words=())
        if not has_words or not self._searcher.uses_vectors(request.mode):
            return None, ""
        queries = self._queries.get(embedder.model_id)
        if queries is None:
            queries = QueryEmbedder(embedder, self._store, self._recorder)
            self._queries[embedder.model_id] = queries
        text = request.text
        if isinstance(embedder, StaticEmbedder):
            # It knows nothing of a misspelt word; other models read over a slip.
            text = await asyncio.to_thread(self._searcher.corrected, text, known=embedder.knows)
        return await queries.vector(text, split_request(text))
