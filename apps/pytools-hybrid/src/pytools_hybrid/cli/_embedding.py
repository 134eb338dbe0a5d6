"""Waiting for vectors at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools_hybrid.terminal import Progress

if TYPE_CHECKING:
    from toolembed import EmbeddingError

    from pytools_hybrid.search import ToolSearch

__all__ = ["embed"]


async def embed(
    tools: ToolSearch, *, patience: float | None = None
) -> tuple[EmbeddingError | None, int]:
    """Embed what is new; a model that fails is given back, for searches go on without it.

    Args:
        tools: Whose texts.
        patience: How many seconds a model may give no vector before it is not waited for.
    """
    import asyncio

    from toolembed import EmbeddingError

    loop = asyncio.get_running_loop()
    with Progress("embedding") as progress:
        try:
            async with asyncio.timeout(patience) as limit:

                def note(done: int, total: int) -> None:
                    progress(done, total)
                    if patience is not None:
                        limit.reschedule(loop.time() + patience)

                return None, await tools.index.embed_pending(note)
        except EmbeddingError as error:
            return error, progress.done
        except TimeoutError:
            return None, progress.done
