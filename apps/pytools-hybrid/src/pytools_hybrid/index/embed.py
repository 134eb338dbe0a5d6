"""Embedding the tools that have no vectors yet."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from toolembed import (
    EmbeddingError,
    FailureKind,
    StaticEmbedder,
    create_embedder,
    embed_pending,
)
from toolindex import DamagedDatabaseError, ToolIndexError, VectorError

from pytools_hybrid.settings import REMEDIES
from pytools_hybrid.telemetry import MODEL_REQUESTS, observe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Set

    from toolembed import Embedder
    from toolindex import Coverage, ToolStore

    from pytools_hybrid.index.sync import TreeSync
    from pytools_hybrid.settings import Settings

T = TypeVar("T")

_log = logging.getLogger("pytools_hybrid")

_PROBE = "tool"
_RECHECK_SECONDS = 5.0
# The accurate model takes a tenth of a second for these: a search can wait for that.
_FEW = 4


def configured_embedder(settings: Settings) -> Embedder | None:
    """Return the embedder that the settings name, or None."""
    return create_embedder(
        settings.embedding_model,
        dimensions=settings.embedding_dim,
        requests_per_minute=settings.embedding_requests_per_minute,
        device=settings.device,
        hints=REMEDIES,
    )


def interim_embedder(embedder: Embedder | None) -> StaticEmbedder | None:
    """Return the faster model whose vectors are searched until a slow one has embedded all tools.

    With it, searches are never worse while a better but slower model is still embedding.
    """
    static: object = getattr(embedder, "static", None)
    return static if isinstance(static, StaticEmbedder) else None


async def embed_texts(
    store: ToolStore,
    embedder: Embedder,
    *,
    dimensions: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    first: Set[str] = frozenset(),
    at_most: int | None = None,
) -> tuple[int, bool]:
    """Embed a store's pending texts with one model; the arguments are those of `embed_pending`.

    Returns:
        How many texts were embedded, and whether any was refused.
    """
    await asyncio.to_thread(store.use_model, embedder.model_id, dimensions=dimensions)
    with observe(MODEL_REQUESTS, "tools", embedder.model_id) as seen:
        report = await embed_pending(
            store, embedder, progress=progress, first=first, at_most=at_most
        )
        seen.outcome = "answered" if report.embedded else ""
    return report.embedded, bool(report.refused)


class EmbeddingBackfill:
    """Embeds the texts that a model has not embedded yet.

    Args:
        sync: Repairs a store that turns out to be damaged.

    Attributes:
        interim: The faster model, whose vectors are searched until the wanted one has all.
        interim_ready: Set when the faster model has embedded all tools.
        failure: Why some tools have no vector, or an empty string.
        is_done: Whether all texts have vectors; otherwise the model is called again later.
    """

    def __init__(self, store: ToolStore, embedder: Embedder | None, sync: TreeSync) -> None:
        self.interim: StaticEmbedder | None = interim_embedder(embedder)
        self.interim_ready: asyncio.Event = asyncio.Event()
        self.failure: str = ""
        self.is_done: bool = True
        self._store = store
        self._embedder = embedder
        self._sync = sync
        self._lock = asyncio.Lock()
        self._wanted: set[str] = set()
        self._dimensions: int | None = None
        self._had_refused = True
        # When to request a vector again, after their length has changed.
        self._recheck_length_at: float | None = None

    async def embed(
        self,
        progress: Callable[[int, int], object] | None = None,
        *,
        at_once: bool = False,
    ) -> int:
        """Embed new texts, storing each batch as it arrives, and return how many.

        Args:
            progress: Called with the number of texts embedded so far, and the total.
            at_once: Whether a search is waiting. If there is a faster model, the wanted one then
                embeds only a few tools, and the result counts those of the faster one.

        Raises:
            EmbeddingError: The model returned no vectors; earlier ones are stored.
            ToolIndexError: Its vectors cannot be stored.
        """
        interim = await self.embed_interim()
        embedder = self._embedder
        if embedder is None or self._store.read_only:
            return 0
        at_most = _FEW if at_once and self.interim is not None else None
        async with self._lock:
            embedded = await self._repairing(
                partial(self._embed, embedder, progress, at_most=at_most)
            )
        return embedded if at_most is None else interim

    async def embed_interim(self) -> int:
        """Embed new texts with the faster model, if there is one, and return how many."""
        if self.interim is None or self._store.read_only:
            return 0
        embedded, _ = await self._repairing(partial(embed_texts, self._store, self.interim))
        self.interim_ready.set()
        return embedded

    async def _repairing(self, embed: Callable[[], Awaitable[T]]) -> T:
        try:
            try:
                return await embed()
            except DamagedDatabaseError:
                await self._sync.repair()
                await self._sync.update()
                return await embed()
        except Exception as error:
            self.failure = str(error)
            raise

    async def want(self, ids: Collection[str]) -> None:
        """Move some tools to the front of the queue, if embedding is in progress."""
        if self._lock.locked() and ids:
            self._wanted.update(await asyncio.to_thread(self._store.text_hashes, ids))

    @property
    def is_outdated(self) -> bool:
        """Whether the length of the model's vectors has changed since the last embedding."""
        now = None if self._embedder is None else self._embedder.dimensions
        return now is not None and now != self._dimensions

    async def compare_dimensions(self) -> str:
        """Have the model embed a word, and return how its vector's length differs from the index's.

        Raises:
            EmbeddingError: The model returned no vector.
        """
        embedder = self._embedder
        if embedder is None:
            return ""
        stored = await asyncio.to_thread(self._coverage, embedder)
        current = embedder.dimensions or len(await embedder.embed_query(_PROBE))
        if stored.vectors and current != stored.dimensions:
            # A single answer may be wrong.
            current = len(await embedder.embed_query(_PROBE))
        if not stored.vectors or current == stored.dimensions:
            return ""
        return (
            f"{embedder.model_id} now returns vectors of {current} dimensions, those in the index "
            f"have {stored.dimensions}"
        )

    def _coverage(self, embedder: Embedder) -> Coverage:
        with self._store.reading() as reader:
            return reader.coverage(embedder.model_id)

    async def refused(self) -> dict[str, str]:
        """Return the ids of tools whose text the model has refused, with its reasons."""
        if self._embedder is None:
            return {}
        return dict(await asyncio.to_thread(self._store.refused, self._embedder.model_id))

    async def _embed(
        self,
        embedder: Embedder,
        progress: Callable[[int, int], object] | None,
        *,
        at_most: int | None,
    ) -> int:
        embedded, has_new_refusals = 0, False
        earlier = (await asyncio.to_thread(self._coverage, embedder)).dimensions
        if self._recheck_length_at is not None and time.monotonic() >= self._recheck_length_at:
            # The provider may have returned vectors of another length for a moment only.
            await embedder.embed_query(_PROBE)
            self._recheck_length_at = None
        for is_last in (False, False, True):
            before = self._dimensions = embedder.dimensions
            if earlier and before not in (None, earlier):
                self._recheck_length_at = time.monotonic() + _RECHECK_SECONDS
            try:
                done, has_new_refusals = await embed_texts(
                    self._store,
                    embedder,
                    dimensions=before,
                    progress=progress,
                    first=self._wanted,
                    at_most=at_most,
                )
            except (EmbeddingError, VectorError) as error:
                is_new = isinstance(error, VectorError) or error.kind is FailureKind.DIMENSIONS
                # The vectors have a new length, so all texts are pending again.
                if not is_new or is_last or embedder.dimensions == before:
                    raise
                continue
            embedded += done
            if embedder.dimensions == before:
                break
        if at_most is not None:
            return embedded
        self._wanted.clear()
        try:
            # After each change, because a busy server may never be idle.
            await asyncio.to_thread(self._store.prune)
        except ToolIndexError as error:
            _log.info("old vectors were not deleted yet: %s", error)
        refused = await self.refused()
        self.failure = (
            f"{len(refused)} refused by the model, which is retried from time to time: "
            "pytools-hybrid index lists them with the reasons"
            if refused
            else ""
        )
        self.is_done = not refused and self._recheck_length_at is None
        if self.is_done and self._had_refused:
            # A text whose refusal has expired since they were looked up is pending again.
            pending = await asyncio.to_thread(self._store.pending, embedder.model_id, limit=1)
            self.is_done = not pending
        self._had_refused = bool(refused)
        for tool_id, reason in refused.items() if has_new_refusals else ():
            _log.warning("%s has no vector: %s", tool_id, reason)
        return embedded
