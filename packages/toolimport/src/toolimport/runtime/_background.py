"""The thread of a process that runs all connections."""

from __future__ import annotations

import asyncio
import atexit
import os
import selectors
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

    from mcp_types import ErrorData, InputRequest, InputResponse

    from toolimport.clients._servers import Parameters
    from toolimport.runtime._connection import Connection
    from toolimport.runtime._runner import ClientHandlers

    Key = tuple[str, str, frozenset[str]]

T = TypeVar("T")

CLOSED = "the connection was closed in the meantime"

_CLOSE_SECONDS = 12.0
_LEAVE_SECONDS = 5.0
_NAME = "pytools-runtime"


class Background:
    """An event loop in a thread, and its connections; started at the first call."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._jobs: set[Future[Any]] = set()
        # Each loop has its own: while one is being closed, another may start.
        self._connections: dict[asyncio.AbstractEventLoop, dict[Key, Connection]] = {}
        # `atexit` runs after executors' threads have ended, and closing a connection may need one
        # to look up an address.
        try:
            getattr(threading, "_register_atexit", atexit.register)(self._close_or_wait)
        except RuntimeError:  # the main thread has ended, and another has begun to call
            atexit.register(self.close)

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        """Run a job in the loop and wait for it; interrupting the wait cancels the job."""
        future = self._submitted(job)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
        finally:
            self._jobs.discard(future)

    async def awaited(self, job: Coroutine[Any, Any, T]) -> T:
        """Run a job in the loop for a task of another loop; cancelling the task cancels the job."""
        future = self._submitted(job)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise RuntimeError(CLOSED) from None
        finally:
            self._jobs.discard(future)

    def _submitted(self, job: Coroutine[Any, Any, T]) -> Future[T]:
        if threading.current_thread() is self._thread:
            job.close()
            raise RuntimeError("a tool was called from the thread that runs the connections")
        loop = None
        try:
            # Hold the lock, so that no job is submitted to a loop that is being closed.
            with self._lock:
                loop = self._started()
                future: Future[T] = asyncio.run_coroutine_threadsafe(job, loop)
                self._jobs.add(future)
        except BaseException:  # an interrupt can come at any moment
            if loop is None:
                job.close()
            else:
                # Only the loop knows whether the job has begun.
                loop.call_soon_threadsafe(_drop, job)
            raise
        return future

    def connection(self, key: Key, find: Callable[[], Parameters]) -> Connection:
        """Return a server's connection; must be called in the loop."""
        # Imported only now, with the library.
        from toolimport.runtime._connection import Connection

        connections = self._connections.setdefault(asyncio.get_running_loop(), {})
        if key not in connections:
            _, name, capabilities = key
            connections[key] = Connection(name, find, capabilities)
        return connections[key]

    def is_connected(self, file: str, name: str) -> bool:
        """Return whether a server has an open connection; from any thread."""
        found = [it for by_key in tuple(self._connections.values()) for it in tuple(by_key.items())]
        return any(connection.is_open for key, connection in found if key[:2] == (file, name))

    def close(self) -> None:
        """End all connections, jobs and the thread; the next call starts again."""
        if self._process != os.getpid():  # inherited from the parent process, which owns them
            return
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            jobs, self._jobs = self._jobs, set()
        if loop is None or thread is None:
            return
        # Cancel jobs first, because one that finds its connection closed might open another.
        for job in tuple(jobs):
            job.cancel()
        closing = asyncio.run_coroutine_threadsafe(self._close_all(), loop)
        try:
            closing.result(_CLOSE_SECONDS)
        except TimeoutError:
            closing.cancel()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_CLOSE_SECONDS)
            self._connections.pop(loop, None)

    async def _close_all(self) -> None:
        while connections := self._connections.pop(asyncio.get_running_loop(), None):
            # Concurrently: a server that does not exit is only killed after seconds.
            closing = (connection.close() for connection in connections.values())
            await asyncio.gather(*closing, return_exceptions=True)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            if sys.platform == "win32":
                loop: asyncio.AbstractEventLoop = asyncio.ProactorEventLoop()
            else:
                # Not epoll or kqueue, which a forked process shares with its parent: closing an
                # inherited one would stop events in the parent.
                loop = asyncio.SelectorEventLoop(selectors.PollSelector())
            thread = threading.Thread(target=_serve, args=(loop,), name=_NAME, daemon=True)
            try:
                thread.start()
            except BaseException:
                loop.close()
                raise
            self._loop, self._thread = loop, thread
        return self._loop

    def _close_or_wait(self) -> None:
        """Close after non-daemon threads have finished, which may make calls."""
        if any(not it.daemon and it is not threading.main_thread() for it in threading.enumerate()):
            atexit.register(self.close)
        else:
            self.close()


def in_this_loop(client: ClientHandlers) -> ClientHandlers:
    """Return handlers that can be asked from other loops, and answer in the current one."""
    loop = asyncio.get_running_loop()

    async def answer(request: InputRequest) -> InputResponse | ErrorData:
        job = cast("Coroutine[Any, Any, InputResponse | ErrorData]", client.answer(request))
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(job, loop))

    return replace(client, answer=answer)


def _drop(job: Coroutine[Any, Any, Any]) -> None:
    """Cancel a job, whether it is running or has not begun; must be called in the loop."""
    for task in asyncio.all_tasks():
        if task.get_coro() is job:
            task.cancel()
            return
    job.close()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        # Wait for remaining cleanup, and cancel it if it takes too long.
        if left := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.wait(left, timeout=_LEAVE_SECONDS))
        if left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left, timeout=_LEAVE_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


# The last is that of this process. A forked process starts afresh, and keeps that of its parent,
# which owns the threads and servers, from being closed.
_ALL = [Background()]

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _ALL.append(Background()))


def background() -> Background:
    """Return the background of this process."""
    return _ALL[-1]
