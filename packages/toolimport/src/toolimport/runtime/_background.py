"""The one thread of a process in which all connections live."""

from __future__ import annotations

import asyncio
import atexit
import os
import selectors
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from toolimport._threads import start, started_executor
from toolimport.runtime._link import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Hashable
    from concurrent.futures import Future

    from toolimport.connect import Parameters

T = TypeVar("T")

CLOSED = "the connection was closed in the meantime"

_CLOSE_SECONDS = 12.0
_LEAVE_SECONDS = 5.0
_NAME = "pytools-runtime"


class Background:
    """An event loop in a thread, and the links that live in it; made at the first call."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._jobs: set[Future[Any]] = set()
        # Each loop has its own: while one is being closed another may begin.
        self._links: dict[asyncio.AbstractEventLoop, dict[Hashable, Link]] = {}

    def run(self, job: Coroutine[Any, Any, T]) -> T:
        """Run a job in the loop, and wait for it; an interrupt of the waiting cancels it.

        Raises:
            CancelledError: All was closed meanwhile.
            RuntimeError: It is called from a job: it would wait for itself.
        """
        future = self._submitted(job)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
        finally:
            self._jobs.discard(future)

    async def awaited(self, job: Coroutine[Any, Any, T]) -> T:
        """Run a job in the loop for a task of another; cancelling the task cancels it.

        Raises:
            RuntimeError: All was closed meanwhile, or it is called from a job.
        """
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
            raise RuntimeError("a tool is called from inside the thread that has the connections")
        # At once, so that no job comes to a loop that is being closed.
        with self._lock:
            try:
                loop = self._started()
                future: Future[T] = asyncio.run_coroutine_threadsafe(job, loop)
            except BaseException:
                # An interrupt may come at any moment; a job that runs by then cannot be closed.
                with suppress(ValueError):
                    job.close()
                raise
            self._jobs.add(future)
        return future

    def link(self, key: Hashable, name: str, find: Callable[[], Parameters]) -> Link:
        """Return the one link of a server; to be called in the loop."""
        links = self._links.setdefault(asyncio.get_running_loop(), {})
        if key not in links:
            links[key] = Link(name, find)
        return links[key]

    def is_connected(self, key: Hashable) -> bool:
        """Return whether a server has an open connection; from any thread."""
        links = [by_key.get(key) for by_key in tuple(self._links.values())]
        return any(link is not None and link.is_open for link in links)

    def close(self) -> None:
        """End all connections and the thread, and the jobs; the next call starts anew."""
        if self._process != os.getpid():  # inherited: they are the parent's
            return
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
            jobs, self._jobs = self._jobs, set()
        if loop is None or thread is None:
            return
        # First: one that finds its connection closed may open another.
        for job in tuple(jobs):
            job.cancel()
        closing = asyncio.run_coroutine_threadsafe(self._close_links(), loop)
        try:
            closing.result(_CLOSE_SECONDS)
        except TimeoutError:
            closing.cancel()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_CLOSE_SECONDS)
            self._links.pop(loop, None)

    async def _close_links(self) -> None:
        loop = asyncio.get_running_loop()
        while links := self._links.pop(loop, None):
            # At once: a server that does not end by itself has seconds until it is killed.
            closing = (link.close() for link in links.values())
            await asyncio.gather(*closing, return_exceptions=True)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            loop = _new_loop()
            thread = threading.Thread(target=_serve, args=(loop,), name=_NAME, daemon=True)
            try:
                # Once the main thread has ended, executors take no work, whatever the version.
                if threading.main_thread().is_alive():
                    loop.set_default_executor(started_executor(_NAME))
                start(thread)
            except BaseException:
                loop.close()
                raise
            self._loop, self._thread = loop, thread
            _at_exit(self)
        return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(_drain())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _drain() -> None:
    """Wait for what is still being tidied up, and cancel what takes too long."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=_LEAVE_SECONDS)
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_LEAVE_SECONDS)


def _new_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":
        return asyncio.ProactorEventLoop()
    # Not epoll or kqueue: a forked process shares those with its parent, and by letting go of what
    # it has inherited would make the parent deaf.
    return asyncio.SelectorEventLoop(selectors.PollSelector())


_EXITING: set[int] = set()


def _at_exit(running: Background) -> None:
    """Have the connections closed when the interpreter ends."""
    if id(running) in _EXITING:
        return
    _EXITING.add(id(running))
    # `atexit` comes after the threads of executors have ended, and a connection that is being
    # closed may need one to look an address up.
    register = getattr(threading, "_register_atexit", atexit.register)
    try:
        register(_close_or_wait, running)
    except RuntimeError:  # the main thread has ended, and another has begun to call
        atexit.register(running.close)


def _close_or_wait(running: Background) -> None:
    """Close now, or once the threads have ended that the interpreter waits for: they may call."""
    others = (
        it
        for it in threading.enumerate()
        if not it.daemon and it is not threading.main_thread() and not it.name.startswith(_NAME)
    )
    if any(others):
        atexit.register(running.close)
    else:
        running.close()


_background = Background()


def background() -> Background:
    """Return the background of this process."""
    return _background


def _forget() -> None:
    """Begin anew in a forked process: the threads are its parent's, and so are the servers."""
    global _background
    # Kept, so that nothing of it is closed: the other ends listen to the parent.
    _KEPT.append(_background)
    _background = Background()


_KEPT: list[Background] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
