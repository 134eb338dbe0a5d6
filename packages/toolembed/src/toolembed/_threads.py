"""Blocking calls from async code, always awaited to their end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def finish_in_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Run a function in a worker thread; a cancellation waits for its end.

    Otherwise the thread could still use objects that the caller closes or releases.
    """
    # Not a task: the end of the loop cancels all tasks, but threads continue.
    future = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({future})
        # Retrieved, so that asyncio does not report it as never retrieved.
        future.exception()
        raise
