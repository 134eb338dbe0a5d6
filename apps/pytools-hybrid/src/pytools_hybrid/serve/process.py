"""Running a server process until its client disconnects or a signal arrives."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from pytools_hybrid.errors import PytoolsError, innermost
from pytools_hybrid.exit import exit_now
from pytools_hybrid.serve.mcp import ToolServer
from pytools_hybrid.settings import IDLE_PATTERN

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from types import FrameType

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.settings import Roots, Settings

_log = logging.getLogger("pytools_hybrid")

_FLUSH_SECONDS = 0.5
# How long HTTP requests in progress may take to finish.
_FINISH_SECONDS = 2.0


def serve(settings: Settings, roots: Roots, *, invite: Callable[[str], None] | None = None) -> None:
    """Serve until the client disconnects or a signal arrives, then end the process."""
    asyncio.run(ServerProcess(settings, roots).run(invite))


class ServerProcess:
    """A process that serves one client over stdio, or many over HTTP.

    Attributes:
        server: The server, which answers `initialize` before it has tools.
        follower: Keeps the index up to date; None before it is created, and in profile `basic`.
        greeting_seconds: How long the first request after `initialize` is waited for: some clients
            start a server long before they send a message.
    """

    greeting_seconds: float = 2.0

    def __init__(self, settings: Settings, roots: Roots) -> None:
        self.server: ToolServer = ToolServer(settings)
        self.follower: Follower | None = None
        self._search: ToolSearch | None = None
        self._settings = settings
        self._roots = roots

    async def run(self, invite: Callable[[str], None] | None = None) -> None:
        """Serve until the client disconnects or a signal arrives, then end the process."""
        stopped = asyncio.Event()
        _on_signals(stopped)
        is_http = self._settings.transport == "http"
        serving = asyncio.create_task(self._serve_http(invite) if is_http else self._serve_stdio())
        signalled = asyncio.create_task(stopped.wait())
        await asyncio.wait({serving, signalled}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done() and is_http:
            serving.cancel()
            await asyncio.wait({serving}, timeout=_FINISH_SECONDS)
        elif not serving.done() and self._search is not None:
            # Write pending records of searches, if that is quick.
            flushing = asyncio.create_task(self._search.index.flush())
            await asyncio.wait({flushing}, timeout=_FLUSH_SECONDS)
        status = 0
        if serving.done() and not serving.cancelled() and (error := serving.exception()):
            _log_or_raise(innermost(error))
            status = 1
        if self._settings.tools == "call":
            await _close_connections()
        exit_now(status)

    async def open(self) -> None:
        """Open the index once `initialize` was answered, and keep it up to date until cancelled.

        On a busy machine, the imports and the threads that scan and embed would delay that answer
        so long that clients give up.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self.greeting_seconds):
                await self.server.greeted.wait()
        async with self._opened():
            await asyncio.Event().wait()

    async def _serve_stdio(self) -> None:
        opening = asyncio.create_task(self.open())
        serving = asyncio.create_task(self.server.run_stdio_async())
        await asyncio.wait({opening, serving}, return_when=asyncio.FIRST_COMPLETED)
        if self._search is None and not opening.done():
            # A client that has left at once still learns of invalid settings.
            self._create()
        if opening.done():
            opening.result()
        opening.cancel()
        await asyncio.wait({opening}, timeout=_FINISH_SECONDS)
        serving.result()

    async def _serve_http(self, invite: Callable[[str], None] | None) -> None:
        from pytools_hybrid.serve.http import serve_http

        async with self._opened():
            await serve_http(
                self._search, self.follower, self._settings, self.server, invite=invite
            )

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[None]:
        """Open the index, and keep it up to date during the block."""
        search, follower = self._create()
        if search is None or follower is None:
            # The client is answered at once, even if the tree is large.
            warning = asyncio.create_task(asyncio.to_thread(self._warn_of_idle_patterns))
            yield
            warning.cancel()
            return
        async with search:
            tasks = {
                asyncio.create_task(each) for each in (follower.run(), search.prepare_reranking())
            }
            for task in tasks:
                task.add_done_callback(_log_failure)
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks, timeout=_FLUSH_SECONDS)

    def _create(self) -> tuple[ToolSearch | None, Follower | None]:
        """Create the search, and the tools of the server."""
        from pytools_hybrid.serve.tools import tools_of

        settings, roots = self._settings, self._roots
        if settings.tools != "basic":
            from pytools_hybrid.index import Follower
            from pytools_hybrid.search import ToolSearch

            self._search = ToolSearch(roots, settings, refresh=False)
            self.follower = Follower(self._search.index)
        self.server.offer(
            tools_of(self._search, self.follower, settings, roots, self.server.levels)
        )
        return self._search, self.follower

    def _warn_of_idle_patterns(self) -> None:
        """Log each pattern that matches no tool, in the profile without an index."""
        from toolindex import ToolFilter

        from pytools_hybrid.serve.browse import ToolBrowser

        settings = self._settings
        if not settings.patterns:
            return
        browser = ToolBrowser(self._roots, ToolFilter(), outside_links=settings.outside_links)
        try:
            idle = browser.unmatched(pattern for _, pattern in settings.patterns)
        except PytoolsError as error:
            _log.warning("include and exclude patterns were not checked: %s", error)
            return
        for name, pattern in settings.patterns:
            if pattern in idle:
                _log.warning(IDLE_PATTERN, name, pattern)


def _log_or_raise(error: BaseException) -> None:
    from pytools_hybrid.serve.tools import OUR_ERRORS

    if isinstance(error, OUR_ERRORS):
        raise error
    is_bug = not isinstance(error, OSError | ValueError)
    _log.error("the connection broke: %s", error, exc_info=error if is_bug else None)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a background task of the server ended: %s", error, exc_info=error)


async def _close_connections() -> None:
    """Stop the servers and processes of called tools, but do not wait for long."""
    from toolimport.runtime import close

    from pytools_hybrid.serve.python_tools import end_processes

    end_processes()
    with suppress(TimeoutError):
        async with asyncio.timeout(_FINISH_SECONDS):
            await asyncio.to_thread(close)


def _on_signals(stopped: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def stop(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stopped.set)

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stopped.set)
        except NotImplementedError:
            # Windows' event loop does not support signal handlers.
            signal.signal(number, stop)
