"""Vectors of the tools that have none yet: embedding them, and what went wrong."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from toolembed import DimensionsError, create_embedder, embed_pending
from toolindex import DamagedDatabaseError, ToolIndexError, VectorError

from pytools_hybrid.settings import REMEDIES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from toolembed import LimitedEmbedder
    from toolindex import Coverage, ToolStore

    from pytools_hybrid.index._sync import TreeSync
    from pytools_hybrid.settings import Settings

__all__ = ["VectorWork", "configured_embedder"]

_log = logging.getLogger("pytools_hybrid")

_PROBE = "tool"


def configured_embedder(settings: Settings) -> LimitedEmbedder | None:
    """Return the embedder that settings name, or None where they name none."""
    return create_embedder(
        settings.embedding_model,
        dimensions=settings.embedding_dim,
        requests_per_minute=settings.embedding_requests_per_minute,
        device=settings.device,
        remedies=REMEDIES,
    )


class VectorWork:
    """Embeds what a model has not embedded yet.

    Args:
        store: Where texts come from and vectors go.
        embedder: The model, or None for search by words alone.
        sync: What repairs a store that turns out to be damaged.

    Attributes:
        failure: Why some tools have no vector, or an empty string.
        is_done: Whether all texts have their vectors; otherwise some are asked for later.
    """

    def __init__(self, store: ToolStore, embedder: LimitedEmbedder | None, sync: TreeSync) -> None:
        self.failure: str = ""
        self.is_done: bool = True
        self._store = store
        self._embedder = embedder
        self._sync = sync
        self._lock = asyncio.Lock()
        self._wanted: set[str] = set()
        self._dimensions: int | None = None
        self._had_refused = True

    async def embed(self, progress: Callable[[int, int], object] | None = None) -> int:
        """Embed what is new, storing each batch as it comes; `ToolSearch.embed_pending` says more.

        Raises:
            EmbeddingError: The model returned no vectors; earlier ones are stored.
            ToolIndexError: Its vectors cannot be stored.
        """
        embedder = self._embedder
        if embedder is None or self._store.read_only:
            return 0
        async with self._lock:
            try:
                try:
                    return await self._embed(embedder, progress)
                except DamagedDatabaseError:
                    await self._sync.mend()
                    await self._sync.refresh()
                    return await self._embed(embedder, progress)
            except Exception as error:
                self.failure = str(error)
                raise

    async def _prune(self) -> None:
        """Delete vectors that the last changes left unused: a busy server has no quiet hour."""
        try:
            await asyncio.to_thread(self._store.prune)
        except ToolIndexError as error:
            _log.info("old vectors were not deleted yet: %s", error)

    async def want(self, ids: Collection[str]) -> None:
        """Put some tools before the others, where embedding is under way.

        Raises:
            DatabaseError: The index cannot be read.
        """
        if self._lock.locked() and ids:
            self._wanted.update(await asyncio.to_thread(self._store.text_hashes, ids))

    @property
    def is_outdated(self) -> bool:
        """Whether the model has given vectors of another length than those last embedded."""
        now = None if self._embedder is None else self._embedder.dimensions
        return now is not None and now != self._dimensions

    async def compare(self) -> str:
        """Request a vector from the model, and return how its length differs from the index's.

        Raises:
            EmbeddingError: The model returned no vector.
            DatabaseError: The index cannot be read.
        """
        embedder = self._embedder
        if embedder is None:
            return ""

        def look() -> Coverage:
            with self._store.reading() as reader:
                return reader.coverage(embedder.model_id)

        kept = await asyncio.to_thread(look)
        given = embedder.dimensions or len(await embedder.embed_query(_PROBE))
        if kept.vectors and given != kept.dimensions:
            # One answer may go wrong.
            given = len(await embedder.embed_query(_PROBE))
        if not kept.vectors or given == kept.dimensions:
            return ""
        return (
            f"{embedder.model_id} now gives vectors of {given} dimensions, those in the index have "
            f"{kept.dimensions}"
        )

    async def refused(self) -> dict[str, str]:
        """Return the tools whose text the model has refused, by id, with its reasons.

        Raises:
            DatabaseError: The index cannot be read.
        """
        if self._embedder is None:
            return {}
        return dict(await asyncio.to_thread(self._store.refused, self._embedder.model_id))

    async def _embed(
        self, embedder: LimitedEmbedder, progress: Callable[[int, int], object] | None
    ) -> int:
        embedded = 0
        for is_last in (False, False, True):
            before = self._dimensions = embedder.dimensions
            await asyncio.to_thread(self._store.use_model, embedder.model_id, dimensions=before)
            try:
                report = await embed_pending(
                    self._store,
                    embedder,
                    limits=embedder.limits,
                    progress=progress,
                    first=self._wanted,
                )
            except (DimensionsError, VectorError):
                # Another length than that of the batch before: then all texts are pending.
                if is_last or embedder.dimensions == before:
                    raise
                continue
            embedded += report.embedded
            if embedder.dimensions == before:
                break
        self._wanted.clear()
        await self._prune()
        refused = await self.refused()
        self.failure = (
            f"{len(refused)} refused by the model, which is retried from time to time: "
            "pytools-hybrid index lists them with the reasons"
            if refused
            else ""
        )
        self.is_done = not refused
        if self.is_done and self._had_refused:
            # A refusal that has expired since the texts were looked up leaves its text pending.
            pending = await asyncio.to_thread(self._store.pending, embedder.model_id, limit=1)
            self.is_done = not pending
        self._had_refused = bool(refused)
        for tool_id, reason in refused.items() if report.refused else ():
            _log.warning("%s has no vector: %s", tool_id, reason)
        return embedded
