"""Reports of progress, from the thread of the connections to a loop that serves others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from mcp.shared.dispatcher import ProgressFnT

    _Report = tuple[float, float | None, str | None]


class ProgressRelay:
    """Passes reports on as long as the block lasts; a server that floods it is not waited for.

    Args:
        on_progress: Called in the loop of the block.
    """

    def __init__(self, on_progress: ProgressFnT) -> None:
        self._on_progress = on_progress
        self._loop = asyncio.get_running_loop()
        self._latest: _Report | None = None
        self._is_woken = self._is_left = False
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Take a report, in the thread of the connections."""
        self._latest = (progress, total, message)
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._wake)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_left = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if exc is None:
            await self._pass_on()

    def _wake(self) -> None:
        # Before the report is taken, so that none that comes meanwhile is missed.
        self._is_woken = False
        # Most calls report nothing, and need no task.
        if not self._is_left and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._pass_on())

    async def _pass_on(self) -> None:
        while (latest := self._latest) is not None:
            self._latest = None
            await self._on_progress(*latest)
