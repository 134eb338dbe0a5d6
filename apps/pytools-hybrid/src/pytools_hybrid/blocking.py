"""The search for code that is not async: scripts, notebooks, threads."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import warnings
from contextlib import ExitStack, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

from anyio.from_thread import start_blocking_portal

from pytools_hybrid.description import DetailLevel
from pytools_hybrid.search import Scope, SearchMode
from pytools_hybrid.service import ToolSearch
from pytools_hybrid.threads import started_executor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from pathlib import PurePosixPath
    from types import TracebackType

    from toolindex import Coverage, SyncReport, ToolEntry, ToolFilter, UsageStatistics

    from pytools_hybrid.catalogue import CategoryCount
    from pytools_hybrid.description import ToolDescription
    from pytools_hybrid.embedding import LimitedEmbedder
    from pytools_hybrid.placement import Placement
    from pytools_hybrid.recorder import Recording
    from pytools_hybrid.roots import Roots, RootsLike
    from pytools_hybrid.search import SearchResponse
    from pytools_hybrid.settings import Settings
    from pytools_hybrid.state import IndexState

__all__ = ["BlockingToolSearch"]

P = ParamSpec("P")
T = TypeVar("T")

_NAME = "pytools-hybrid"


class _Running:
    """An open search in its own event loop, in a thread, until it is closed."""

    def __init__(self, tools: ToolSearch) -> None:
        self._process = os.getpid()
        self._closing = threading.Lock()
        with ExitStack() as stack:
            self.portal = stack.enter_context(start_blocking_portal(name=_NAME))
            self.portal.call(_use_started_threads)
            stack.enter_context(self.portal.wrap_async_context_manager(tools))
            self._stack = stack.pop_all()
        _register()
        _all_running.add(self)

    def is_elsewhere(self) -> bool:
        """Tell whether this process was forked from that one, which leaves threads behind."""
        return self._process != os.getpid()

    def close(self) -> None:
        """Close the search and end the thread; what is closed stays so."""
        if self.is_elsewhere():
            return
        with self._closing:
            try:
                self._stack.close()
            finally:
                _all_running.discard(self)


def _use_started_threads() -> None:
    asyncio.get_running_loop().set_default_executor(started_executor(_NAME))


_all_running: set[_Running] = set()


@cache
def _register() -> None:
    def close_all() -> None:
        for running in list(_all_running):
            running.close()

    # By the time of atexit, worker threads take no work any more, and closing needs one. This is
    # what concurrent.futures itself uses; no public function runs as early.
    register = getattr(threading, "_register_atexit", atexit.register)
    with suppress(RuntimeError):
        register(close_all)


class BlockingToolSearch:
    """A `ToolSearch` whose methods wait for their answers.

    It does its work in an event loop of its own, in a thread. So it can be used from any thread,
    also from several at once, and in a notebook, where a loop is running already. Use it as a
    context manager, or with `open` and `close`; what is still open when the program ends is
    closed then.

    Args:
        root: As for `ToolSearch`.
        settings: As for `ToolSearch`.
        embedder: As for `ToolSearch`.
        refresh: As for `ToolSearch`.
        follow: As for `ToolSearch`.

    Attributes:
        settings: The settings.
        roots: The trees.
        policy: The tools that may be found, listed and described.

    Raises:
        SettingsError: A setting cannot work, or nothing says where the tools are.
        DatabaseError: (on opening) The index can be neither written nor read.
    """

    def __init__(
        self,
        root: RootsLike | None = None,
        settings: Settings | None = None,
        *,
        embedder: LimitedEmbedder | None = None,
        refresh: bool = True,
        follow: bool = False,
    ) -> None:
        self._running: _Running | None = None
        self._lock = threading.Lock()
        self._tools = tools = ToolSearch(
            root, settings, embedder=embedder, refresh=refresh, follow=follow
        )
        self.settings: Settings = tools.settings
        self.roots: Roots = tools.roots
        self.policy: ToolFilter = tools.policy

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        running = getattr(self, "_running", None)
        if running not in _all_running:
            return
        message = f"the search of {self.roots} was never closed"
        warnings.warn(message, ResourceWarning, stacklevel=2, source=self)
        # Whichever thread this is, it may be the one that would have to do the work.
        with suppress(RuntimeError):
            threading.Thread(target=running.close).start()

    def open(self) -> Self:
        """Open the index, and bring it up to date."""
        with self._lock:
            if self._running is not None:
                raise RuntimeError("this BlockingToolSearch is open already; make another one")
            if not threading.main_thread().is_alive():
                raise RuntimeError(
                    "no BlockingToolSearch can be opened once the main thread has ended: have "
                    "that one wait for the others (`Thread.join`)"
                )
            self._running = _Running(self._tools)
        return self

    def close(self) -> None:
        """Close the index; it can be opened again."""
        with self._lock:
            running, self._running = self._running, None
            if running is not None:
                running.close()

    def _call(self, method: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        if (running := self._running) is None:
            raise RuntimeError(
                "this BlockingToolSearch is not open: use it inside "
                "`with BlockingToolSearch(…) as tools:`, or call its `open`"
            )
        if running.is_elsewhere():
            raise RuntimeError(
                "this BlockingToolSearch was opened before this process was forked: make one "
                "after the fork, or start processes by another method than fork"
            )
        if running not in _all_running:
            raise RuntimeError(
                "this BlockingToolSearch was closed meanwhile, as each is when the main thread "
                "ends: have that one wait for the others (`Thread.join`)"
            )
        return running.portal.call(partial(method, *args, **kwargs))

    def refresh(
        self,
        within: Iterable[PurePosixPath] | None = None,
        *,
        trusts_stamps: bool = True,
        progress: Callable[[int], object] | None = None,
    ) -> SyncReport:
        """Make the index equal to the files: all, or those at some paths."""
        return self._call(
            self._tools.refresh, within, trusts_stamps=trusts_stamps, progress=progress
        )

    def check(self) -> tuple[str, ...]:
        """Look the whole index through, whatever the files are."""
        return self._call(self._tools.check)

    def rebuild(self, *, forget_vectors: bool = False) -> None:
        """Make the search tables again; the next refresh reads every file anew."""
        self._call(self._tools.rebuild, forget_vectors=forget_vectors)

    def embed_pending(self, progress: Callable[[int, int], object] | None = None) -> int:
        """Embed what the model has not embedded yet, storing each batch as it comes."""
        return self._call(self._tools.embed_pending, progress)

    def compare_model(self) -> str:
        """Ask the model for a vector, and say how it differs from those in the index."""
        return self._call(self._tools.compare_model)

    def refused(self) -> dict[str, str]:
        """Give the tools whose text the model has refused, by id, with its reasons."""
        return self._call(self._tools.refused)

    def search(
        self,
        query: str,
        *,
        mode: SearchMode = SearchMode.HYBRID,
        scope: Scope = Scope.ALL,
        where: ToolFilter | None = None,
        limit: int | None = None,
        threshold: float | None = None,
        rerank: bool | None = None,
        top_k: int | None = None,
    ) -> SearchResponse:
        """Find the tools that fit a request, best first."""
        return self._call(
            self._tools.search,
            query,
            mode=mode,
            scope=scope,
            where=where,
            limit=limit,
            threshold=threshold,
            rerank=rerank,
            top_k=top_k,
        )

    def terms(self, query: str, ids: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        """Give the terms of a request that some tools have, with what each adds to their scores."""
        return self._call(self._tools.terms, query, ids)

    def place(
        self,
        query: str,
        name: str,
        *,
        mode: SearchMode = SearchMode.HYBRID,
        scope: Scope = Scope.ALL,
        where: ToolFilter | None = None,
        limit: int | None = None,
        threshold: float | None = None,
    ) -> Placement:
        """Say where a tool stands for a request, and why it does not stand higher."""
        return self._call(
            self._tools.place,
            query,
            name,
            mode=mode,
            scope=scope,
            where=where,
            limit=limit,
            threshold=threshold,
        )

    def prepare_reranking(self) -> None:
        """Load the language model that the settings name, so that no search waits for that."""
        self._call(self._tools.prepare_reranking)

    def categories(self) -> tuple[CategoryCount, ...]:
        """Give the categories that have tools to find, by source and name, with their counts."""
        return self._call(self._tools.categories)

    def entries(self, where: ToolFilter | None = None) -> tuple[ToolEntry, ...]:
        """Give the tools that can be found, by id."""
        return self._call(self._tools.entries, where)

    def probe(self) -> SearchResponse:
        """Ask each channel once, and return an answer, for its model and its notes."""
        return self._call(self._tools.probe)

    def idle_patterns(self) -> tuple[str, ...]:
        """Give the patterns of the policy that match no tool: they may be misspelt."""
        return self._call(self._tools.idle_patterns)

    def find(self, name: str) -> ToolEntry:
        """Find the tool that somebody means by an id, of ours or in another system's spelling."""
        return self._call(self._tools.find, name)

    def describe(self, name: str, detail: DetailLevel = DetailLevel.SCHEMA) -> ToolDescription:
        """Describe a tool."""
        return self._call(self._tools.describe, name, detail)

    def coverage(self) -> Coverage:
        """Count the tools in the index, and those that the model has given vectors."""
        return self._call(self._tools.coverage)

    def changed_at(self) -> float | None:
        """Give when a tool was last added or updated, in seconds since 1970; None without any."""
        return self._call(self._tools.changed_at)

    def state(self) -> IndexState:
        """Give the generation and the coverage of the index, both of one moment."""
        return self._call(self._tools.state)

    def record_outcome(
        self,
        tool_id: str,
        *,
        success: bool,
        latency_ms: float | None = None,
        search_id: str | None = None,
    ) -> Recording:
        """Write down what came of using a tool."""
        return self._call(
            self._tools.record_outcome,
            tool_id,
            success=success,
            latency_ms=latency_ms,
            search_id=search_id,
        )

    def flush(self) -> None:
        """Write what has been noted of searches, which else happens a moment later."""
        self._call(self._tools.flush)

    def statistics(self, *, since: float | None = None) -> UsageStatistics:
        """Sum the usage record up."""
        return self._call(self._tools.statistics, since=since)

    def tidy(self) -> None:
        """Forget old vectors that no tool needs, and the oldest of the usage record."""
        self._call(self._tools.tidy)

    def uses_vectors(self, mode: SearchMode) -> bool:
        """Tell whether a search of this mode asks the vector channel."""
        return self._tools.uses_vectors(mode)
