"""The product as one object: an index kept in step with a tree of tools, and searches of it."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from toolindex import (
    DatabaseBusyError,
    DatabaseError,
    ForeignDatabaseError,
    NewerSchemaError,
    ToolIndex,
    ToolIndexError,
)
from toolrank import Query, query_terms

from pytools_hybrid.embedding import create_embedder
from pytools_hybrid.errors import EmbeddingError, RootUnreadableError
from pytools_hybrid.refresh import refresh
from pytools_hybrid.search import MAX_LIMIT, Scope, SearchMode, SearchResponse, rank_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import PurePosixPath
    from types import TracebackType

    from toolindex import Coverage, Embedder, SyncReport

    from pytools_hybrid.settings import Settings

__all__ = ["ToolSearch"]

_log = logging.getLogger("pytools_hybrid")

# What providers take in one request: a failure loses no batch that came before it.
_EMBED_BATCH = 64
_QUERY_EMBEDDING_SECONDS = 10.0
# No request is as long; what is pasted after it is not read.
_QUERY_CHARACTERS = 20_000


class ToolSearch:
    """Searches one tree of tools.

    Use it as an async context manager. `refresh` and `embed_pending` bring the index up to
    date; `Upkeep` does so again and again as files change.

    Args:
        settings: The settings.
        root: The tree of tools; it may appear later.

    Raises:
        DatabaseError: (on entering) The index can be neither written nor read.
    """

    def __init__(self, settings: Settings, root: str | os.PathLike[str]) -> None:
        self.settings = settings
        self.root = Path(root)
        self._database = settings.resolved_database(self.root)
        self._embedder: Embedder | None = create_embedder(
            settings.embedding_model, dimensions=settings.embedding_dim
        )
        self._index: ToolIndex | None = None
        self._refreshing = asyncio.Lock()
        self._embedding = asyncio.Lock()
        self._embedding_failure: str | None = None
        self._refresh_failure: str | None = None

    async def __aenter__(self) -> Self:
        self._index = await asyncio.to_thread(self._open)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.index.close()

    @property
    def index(self) -> ToolIndex:
        """The open index."""
        if self._index is None:
            raise RuntimeError("ToolSearch is used outside its async with block")
        return self._index

    async def refresh(self, within: Iterable[PurePosixPath] | None = None) -> SyncReport:
        """Make the index equal to the files: all, or those at some paths.

        Raises:
            DatabaseError: The index cannot be written.
            RootUnreadableError: The tree cannot be listed.
        """
        async with self._refreshing:
            try:
                report = await asyncio.to_thread(refresh, self.index, self.root, within)
            except (ToolIndexError, RootUnreadableError) as error:
                self._refresh_failure = str(error)
                raise
            self._refresh_failure = None
            return report

    async def embed_pending(self, progress: Callable[[int], object] | None = None) -> int:
        """Embed what the model has not embedded yet, storing each batch as it comes.

        Args:
            progress: Called with the number of texts embedded so far.

        Returns:
            How many texts were embedded.

        Raises:
            EmbeddingError: The model gave no vectors; what came before is stored.
            ToolIndexError: Its vectors cannot be stored.
        """
        embedder, done = self._embedder, 0
        if embedder is None or self.index.read_only:
            return done
        model_id = embedder.model_id
        async with self._embedding:
            await asyncio.to_thread(self.index.use_model, model_id)
            while texts := await asyncio.to_thread(
                self.index.pending, model_id, limit=_EMBED_BATCH
            ):
                try:
                    vectors = await embedder.embed_documents(list(texts.values()))
                    batch = dict(zip(texts, vectors, strict=True))
                    await asyncio.to_thread(self.index.put_vectors, model_id, batch)
                except (EmbeddingError, ToolIndexError) as error:
                    self._embedding_failure = str(error)
                    raise
                done += len(batch)
                if progress is not None:
                    progress(done)
        self._embedding_failure = None
        return done

    async def search(
        self,
        query: str,
        *,
        mode: SearchMode = SearchMode.HYBRID,
        scope: Scope = Scope.ALL,
        limit: int = 5,
    ) -> SearchResponse:
        """Find the tools that fit a request, best first.

        Args:
            query: The request in plain language; any string is answered.
            mode: Words and meaning together, or one of them.
            scope: Whose tools.
            limit: How many at most, 1 to `MAX_LIMIT`.

        Raises:
            ValueError: The limit is out of range.
            DatabaseError: The index cannot be read.
            RetrievalError: A search table is missing.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise ValueError(f"limit must be between 1 and {MAX_LIMIT}, got {limit}")
        query = query[:_QUERY_CHARACTERS]
        notes: list[str] = []
        if self._refresh_failure is not None:
            notes.append(f"the index may be out of date ({self._refresh_failure})")
        elif self.index.read_only:
            notes.append("the index may be out of date: it cannot be written")
        vector = await self._query_vector(query, mode, notes)
        response = await asyncio.to_thread(
            self._search, Query(text=query, vector=vector), mode, scope, limit
        )
        return replace(response, notes=(*notes, *response.notes))

    def uses_vectors(self, mode: SearchMode) -> bool:
        """Tell whether a search of this mode asks the vector channel."""
        return mode is SearchMode.VECTOR or (
            mode is SearchMode.HYBRID and self.settings.vec_weight > 0
        )

    def _open(self) -> ToolIndex:
        index = self._opened()
        try:
            index.bind(os.fsencode(os.path.realpath(self.root)).decode("utf-8", "backslashreplace"))
        except DatabaseError:
            index.close()
            raise
        return index

    def _opened(self) -> ToolIndex:
        try:
            return ToolIndex(self._database)
        except (DatabaseBusyError, ForeignDatabaseError, NewerSchemaError):
            raise
        except DatabaseError as error:
            # A medium that cannot be written can still be searched.
            try:
                index = ToolIndex(self._database, read_only=True)
            except DatabaseError:
                raise error from None
            _log.warning("%s cannot be written; searching it as it is", self._database)
            return index

    async def _query_vector(
        self, query: str, mode: SearchMode, notes: list[str]
    ) -> list[float] | None:
        if not self.uses_vectors(mode) or not query_terms(query, stop_words=()):
            return None
        if self._embedder is None:
            if mode is SearchMode.VECTOR:
                notes.append("vectors are switched off (embedding model 'none'): searched by words")
            return None
        try:
            async with asyncio.timeout(_QUERY_EMBEDDING_SECONDS):
                vector = await self._embedder.embed_query(query)
                if all(map(math.isfinite, vector)) and any(vector):
                    return vector
                reason = f"{self._embedder.model_id} gave a vector without a direction"
        except TimeoutError:
            reason = f"no answer within {_QUERY_EMBEDDING_SECONDS:.0f} s"
        except EmbeddingError as error:
            reason = str(error)
        notes.append(f"vector channel lost ({reason}): searched by words")
        return None

    def _search(self, query: Query, mode: SearchMode, scope: Scope, limit: int) -> SearchResponse:
        notes: list[str] = []
        with self.index.reading() as reader:
            coverage = reader.coverage()
            if coverage.tools == 0:
                query = replace(query, vector=None)
            elif query.vector is not None and (reason := self._unsearchable(query, coverage)):
                notes.append(f"vector channel lost ({reason}): searched by words")
                query = replace(query, vector=None)
            elif query.vector is not None and coverage.vectors < coverage.tools:
                reason = f" ({self._embedding_failure})" if self._embedding_failure else ""
                notes.append(
                    f"{coverage.vectors} of {coverage.tools} tools have vectors so far{reason}"
                )
            tools = rank_tools(
                reader,
                query,
                weights=self._weights(mode, has_vector=query.vector is not None),
                fusion=self.settings.fusion,
                scope=scope,
                limit=limit,
            )
            generation = reader.generation()
        if not tools:
            notes.append(self._why_empty(query.text, coverage))
        return SearchResponse(tools=tools, notes=tuple(notes), generation=generation)

    def _weights(self, mode: SearchMode, *, has_vector: bool) -> dict[SearchMode, float]:
        if mode is SearchMode.HYBRID:
            bm25, vector = self.settings.bm25_weight, self.settings.vec_weight
            # A request must not go unanswered because its only channel is lost.
            return {
                SearchMode.BM25: bm25 if has_vector else bm25 or 1.0,
                SearchMode.VECTOR: vector,
            }
        if mode is SearchMode.VECTOR and has_vector:
            return {SearchMode.VECTOR: 1.0}
        return {SearchMode.BM25: 1.0}

    def _unsearchable(self, query: Query, coverage: Coverage) -> str | None:
        if coverage.vectors == 0:
            return self._embedding_failure or "no tool has a vector yet"
        if self._embedder is None or coverage.model_id != self._embedder.model_id:
            return f"the index holds vectors of {coverage.model_id}"
        if query.vector is not None and len(query.vector) != coverage.dimensions:
            return (
                f"{coverage.model_id} gave {len(query.vector)} dimensions, "
                f"the index has {coverage.dimensions}"
            )
        return None

    def _why_empty(self, text: str, coverage: Coverage) -> str:
        if coverage.tools == 0:
            remedy = "" if self.settings.sync else "; syncing is off: run pytools-hybrid index"
            return (
                f"no tools of {self.root} in the index: looked for mcptools/<category>/<tool>.py "
                "and gentools/<category>/<tool>/api.py with a documented run() or run_parsed()"
                f"{remedy}"
            )
        if not query_terms(text):
            return "the query holds no words: describe what the tool should do"
        return f"none of the {coverage.tools} tools fits: try other words"
