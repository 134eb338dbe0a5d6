"""What an index goes through before its first search: bounded in time, and never in the way."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pytools_hybrid.index._sync import SYNC_ERRORS

if TYPE_CHECKING:
    from pytools_hybrid.index._embed import VectorWork
    from pytools_hybrid.index._sync import TreeSync

__all__ = ["catch_up", "stop"]

_log = logging.getLogger("pytools_hybrid")

# Who searches does not wait for ever for a model that is slow to begin with.
_PATIENCE_SECONDS = 15.0


async def catch_up(sync: TreeSync, vectors: VectorWork) -> asyncio.Task[None] | None:
    """Bring an index up to date, and wait a while for the vectors of what is new.

    What fails is told with the answers, where it makes a difference, and in the log.

    Returns:
        The embedding, where it goes on.
    """
    try:
        await sync.refresh()
    except SYNC_ERRORS as error:
        _log.warning("the index could not be brought up to date: %s", error)
    embedding = asyncio.create_task(_embed(vectors))
    try:
        done, _ = await asyncio.wait({embedding}, timeout=_PATIENCE_SECONDS)
    except asyncio.CancelledError:
        await stop(embedding)
        raise
    return None if done else embedding


async def stop(task: asyncio.Task[None]) -> None:
    """Cancel some work, and wait until it has ended, also when the caller is cancelled."""
    task.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _embed(vectors: VectorWork) -> None:
    try:
        await vectors.embed(None)
    except Exception as error:  # noqa: BLE001 - a model may fail with anything
        _log.warning("vectors are missing for now: %s", error)
