"""Embedding texts without a vector, in batches, each stored as soon as it is complete."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolembed._backoff import Backoff
from toolembed._requests import Requests
from toolembed._threads import finish_in_thread
from toolembed.errors import ToolEmbedError
from toolembed.protocols import EmbeddingLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set

    from toolembed.protocols import Embedder, PendingTexts, WorkLease

_DEFAULT_LIMITS = EmbeddingLimits()
_DEFAULT_RETRY = Backoff(jitter=True)
# Finding pending texts means checking every text, so ask for many at a time.
_PAGE_TEXTS = 4_000
# For the same reason, the lease is tried more often than pending texts are requested.
_ASKS_PER_LOOK = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedText:
    """A text for which a model returns no usable vector.

    Attributes:
        text_hash: The text, as `pending` names it.
        reason: Why, naming the model.
    """

    text_hash: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingReport:
    """The result of one round of embedding.

    Attributes:
        embedded: How many texts got a vector.
        refused: The texts that got none; the reasons are in the index.
    """

    embedded: int
    refused: tuple[RefusedText, ...]


async def embed_pending(
    index: PendingTexts,
    embedder: Embedder,
    *,
    limits: EmbeddingLimits = _DEFAULT_LIMITS,
    retry: Backoff = _DEFAULT_RETRY,
    progress: Callable[[int, int], object] | None = None,
    first: Set[str] = frozenset(),
    at_most: int | None = None,
    lease_poll: float = 0.25,
) -> EmbeddingReport:
    """Embed every text that has no vector of this model yet.

    Only one process at a time embeds for a model: the others wait, and then find the work done.
    The vectors of each request are stored before the next one starts, so a kill costs at most the
    requests in progress: one, or as many as `limits.concurrency` allows. A cancellation costs no
    more, and leaves neither a task nor the lease behind. After a failure, the answers to requests
    in progress are still stored, because they may have been paid for.

    A request that is refused, or answered with unusable vectors, is repeated with fewer texts,
    until the refused text is alone. If that text is long, its first half is tried instead, and then
    half of that. The reason is stored, the text is not pending for a while, and all others are
    embedded. A request that times out is repeated with a quarter of its texts.

    Args:
        index: The store of texts and vectors.
        embedder: The model.
        limits: The model's limits for one request.
        retry: How often, and after which delays, a failed request is repeated.
        progress: Called with the number of texts embedded so far, and the total.
        first: Hashes of texts to embed before the others. It is read before each request, so hashes
            added meanwhile are embedded next.
        at_most: How many texts to embed, without waiting for other processes; None for all.
        lease_poll: Seconds between two tries to get the lease.

    Returns:
        The report, which is empty if another process has done the work.

    Raises:
        EmbeddingError: The model returns no vectors for any text; earlier ones are stored.
        DimensionsError: Its vectors have another length than before.
        ToolEmbedError: The index does not store the vectors. Its own errors pass through.
    """
    model_id = embedder.model_id

    def look(limit: int) -> Mapping[str, str]:
        return index.pending(model_id, limit=limit)

    requests = Requests(index, embedder, limits=limits, retry=retry, first=first)
    turn = _Turn(index, f"embed-{model_id}")
    try:
        # Only checked in this process's turn, because another may have done the work before.
        poll = None if at_most is not None else lease_poll
        if await turn.got(lambda: bool(look(1)), poll=poll):
            page = max(_PAGE_TEXTS, limits.texts_per_request * limits.concurrency)
            page -= page % limits.texts_per_request
            page = page if at_most is None else min(page, at_most)
            texts = await finish_in_thread(look, page)
            if texts and progress is not None:
                requests.report_to(progress, await finish_in_thread(index.count_pending, model_id))
            while texts:
                await requests.embed(texts)
                if len(texts) < page or at_most is not None:
                    # Only texts that were pending at the start: the process that adds others also
                    # embeds them.
                    break
                previous, texts = texts, await finish_in_thread(look, page)
                if texts.keys() == previous.keys():
                    # Embedding them again would never end, and might cost money.
                    raise ToolEmbedError(f"{model_id}: the store does not keep the vectors")
    finally:
        turn.end()
    return EmbeddingReport(
        embedded=requests.embedded,
        refused=tuple(
            RefusedText(text_hash=text_hash, reason=reason)
            for text_hash, reason in requests.refused.items()
        ),
    )


class _Turn:
    """Waits for the lease of one kind of work without blocking a thread."""

    def __init__(self, index: PendingTexts, purpose: str) -> None:
        self._index = index
        self._purpose = purpose
        self._lease: WorkLease | None = None
        self._held = False

    async def got(self, is_needed: Callable[[], bool], *, poll: float | None) -> bool:
        """Wait for this process's turn, or until nothing is left to do.

        Without `poll`, the seconds between two attempts, it is tried only once.
        """
        asked = 0
        # Recorded in the thread that acquires it: a cancellation must not lose it.
        while not await finish_in_thread(self._ask):
            is_time = asked % _ASKS_PER_LOOK == 0
            if poll is None or (is_time and not await finish_in_thread(is_needed)):
                return False
            asked += 1
            await asyncio.sleep(poll)
        return True

    def end(self) -> None:
        """Release the lease, if it was acquired."""
        if self._lease is not None and self._held:
            self._lease.release()

    def _ask(self) -> bool:
        if self._lease is None:
            self._lease = self._index.lease(self._purpose)
        self._held = self._lease.acquire(timeout=0)
        return self._held
