"""Running a server process until its client disconnects or a signal arrives."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from toolembed import EmbeddingError
from toolindex import ToolIndexError

from pytools_hybrid.errors import PytoolsError, innermost
from pytools_hybrid.exit import exit_now
from pytools_hybrid.serve.mcp._server import create_server
from pytools_hybrid.settings import IDLE_PATTERN

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine
    from types import FrameType

    from pytools_hybrid.index import Follower
    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.serve.mcp._server import ToolServer
    from pytools_hybrid.settings import Roots, Settings

_log = logging.getLogger("pytools_hybrid")

_FLUSH_SECONDS = 0.5
# Some clients start a server long before they send a message.
_GREETING_SECONDS = 2.0
# How long HTTP requests in progress may take to finish.
_FINISH_SECONDS = 2.0


def serve(settings: Settings, roots: Roots, *, invite: Callable[[str], None] | None = None) -> None:
    """Serve until the client disconnects or a signal arrives, then end the process."""
    asyncio.run(_until_stopped(settings, roots, invite))


async def _until_stopped(
    settings: Settings, roots: Roots, invite: Callable[[str], None] | None
) -> None:
    stopped = asyncio.Event()
    _on_signals(stopped)
    search = _open(settings, roots)
    serving = asyncio.create_task(_serve(search, settings, roots, invite))
    signalled = asyncio.create_task(stopped.wait())
    await asyncio.wait({serving, signalled}, return_when=asyncio.FIRST_COMPLETED)
    status = 0
    if not serving.done():
        await _stop(serving, search, settings)
    if serving.done() and not serving.cancelled() and (error := serving.exception()) is not None:
        error = innermost(error)
        if isinstance(error, EmbeddingError | ToolIndexError | PytoolsError):
            raise error
        is_ours = not isinstance(error, OSError | ValueError)
        _log.error("the connection broke: %s", error, exc_info=error if is_ours else None)
        status = 1
    if settings.tools == "call":
        await _close_connections()
    exit_now(status)


def _open(settings: Settings, roots: Roots) -> ToolSearch | None:
    if settings.tools == "basic":
        return None
    from pytools_hybrid.search import ToolSearch

    return ToolSearch(roots, settings, refresh=False)


async def _serve(
    search: ToolSearch | None,
    settings: Settings,
    roots: Roots,
    invite: Callable[[str], None] | None,
) -> None:
    if search is None:
        server = create_server(None, None, settings=settings, root=roots)
        # The client is answered at once, even if the tree is large.
        warning = asyncio.create_task(asyncio.to_thread(_warn_of_idle_patterns, settings, roots))
        await _transport(None, None, settings, server)
        warning.cancel()
        return
    from pytools_hybrid.index import Follower

    follower = Follower(search.index)
    server = create_server(search, follower, settings=settings, root=roots)
    if settings.transport == "http":
        async with search, _alongside(follower.run(), search.prepare_reranking()):
            await _transport(search, follower, settings, server, invite=invite)
        return
    # The client is answered at once, even if other processes delay opening the index.
    keeping = asyncio.create_task(_keep_open(search, follower, server))
    serving = asyncio.create_task(_transport(search, follower, settings, server))
    await asyncio.wait({keeping, serving}, return_when=asyncio.FIRST_COMPLETED)
    if keeping.done():
        keeping.result()
    keeping.cancel()
    await asyncio.wait({keeping}, timeout=_FINISH_SECONDS)
    serving.result()


def _warn_of_idle_patterns(settings: Settings, roots: Roots) -> None:
    """Log each pattern that matches no tool, in the profile without an index."""
    from toolindex import ToolFilter

    from pytools_hybrid.serve.browse import ToolBrowser

    if not settings.patterns:
        return
    browser = ToolBrowser(roots, ToolFilter(), outside_links=settings.outside_links)
    try:
        idle = browser.unmatched(pattern for _, pattern in settings.patterns)
    except PytoolsError as error:
        _log.warning("include and exclude patterns were not checked: %s", error)
        return
    for name, pattern in settings.patterns:
        if pattern in idle:
            _log.warning(IDLE_PATTERN, name, pattern)


async def _keep_open(search: ToolSearch, follower: Follower, server: ToolServer) -> None:
    """Open the index once `initialize` was answered, and keep it up to date until cancelled.

    On a busy machine, the threads that scan and embed would delay that answer so long that clients
    give up.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_GREETING_SECONDS):
            await server.greeted.wait()
    async with search, _alongside(follower.run(), search.prepare_reranking()):
        await asyncio.Event().wait()


async def _transport(
    search: ToolSearch | None,
    follower: Follower | None,
    settings: Settings,
    server: ToolServer,
    *,
    invite: Callable[[str], None] | None = None,
) -> None:
    if settings.transport == "stdio":
        await server.run_stdio_async()
        return
    from pytools_hybrid.serve.http import serve_http

    await serve_http(search, follower, settings, server, invite=invite)


@asynccontextmanager
async def _alongside(*work: Coroutine[None, None, None]) -> AsyncGenerator[None]:
    """Run coroutines in the background while the block runs."""
    tasks = {asyncio.create_task(each) for each in work}
    for task in tasks:
        task.add_done_callback(_log_failure)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_FLUSH_SECONDS)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a background task of the server ended: %s", error, exc_info=error)


async def _stop(serving: asyncio.Task[None], search: ToolSearch | None, settings: Settings) -> None:
    if settings.transport == "http":
        serving.cancel()
        await asyncio.wait({serving}, timeout=_FINISH_SECONDS)
    elif search is not None:
        # Write pending records of searches, if that is quick.
        flushing = asyncio.create_task(search.index.flush())
        await asyncio.wait({flushing}, timeout=_FLUSH_SECONDS)


async def _close_connections() -> None:
    """Stop the servers and processes of called tools, but do not wait for long."""
    from toolimport.runtime import close

    from pytools_hybrid.serve.calls import end_processes

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
