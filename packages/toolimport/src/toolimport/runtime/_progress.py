"""Passing reports from the connections' thread to another event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

# How long a call that has ended waits for its caller to take the last report.
_LAST_SECONDS = 10.0


class Relay:
    """Passes on reports during the block; a flood of reports does not slow it down.

    Args:
        receive: Called in this loop with each report.
        most: How many reports wait; of more than that, the last.
    """

    def __init__(self, receive: Callable[..., Awaitable[None]], most: int) -> None:
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Any, ...]] = deque(maxlen=most)
        self._is_woken = self._is_left = False
        self._task: asyncio.Task[None] | None = None

    def put(self, *report: Any) -> None:  # noqa: ANN401 - of any kind
        """Accept a report, in the connections' thread."""
        self._waiting.append(report)
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._wake)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Accept a report of progress, as the library passes it on."""
        self.put(progress, total, message)

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
            # Cancelling at once could lose the last report while it is being passed on.
            try:
                await asyncio.wait({self._task}, timeout=_LAST_SECONDS if exc is None else 0)
            finally:
                self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if exc is None:
            await self._pass_on()

    def _wake(self) -> None:
        # Cleared before the report is taken, so that no later one is missed.
        self._is_woken = False
        # Most calls report nothing, and need no task.
        if not self._is_left and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._pass_on())

    async def _pass_on(self) -> None:
        while self._waiting:
            await self._receive(*self._waiting.popleft())
