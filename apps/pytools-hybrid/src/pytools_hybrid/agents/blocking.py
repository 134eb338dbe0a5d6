"""Search for code that is not async: scripts, notebooks, threads."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from contextlib import ExitStack, suppress
from functools import cache, partial, wraps
from typing import TYPE_CHECKING, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

from anyio.from_thread import start_blocking_portal

from pytools_hybrid.index import Index, open_store
from pytools_hybrid.search import ToolSearch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.from_thread import BlockingPortal
    from toolembed import Embedder
    from toolindex import ToolFilter, ToolStore
    from toolrank import HybridSearch

    from pytools_hybrid.search import SearchMode
    from pytools_hybrid.settings import Roots, RootsLike, Settings

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", covariant=True)


class _Loop:
    """The event loop of a search, in a thread, from `open` to `close`."""

    def __init__(self, tools: ToolSearch) -> None:
        self._tools = tools
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._process = 0

    @property
    def portal(self) -> BlockingPortal | None:
        """What calls into the loop while it is open; a fork has no thread, and so no loop."""
        return self._portal if self._process == os.getpid() else None

    def open(self) -> None:
        with self._lock, ExitStack() as stack:
            if self._portal is not None:
                raise RuntimeError("this BlockingToolSearch is already open; create another one")
            portal = stack.enter_context(start_blocking_portal(name="pytools-hybrid"))
            stack.enter_context(portal.wrap_async_context_manager(self._tools))
            self._stack, self._portal, self._process = stack.pop_all(), portal, os.getpid()
        _close_at_exit()
        _open_loops.add(self)

    def close(self) -> None:
        with self._lock:
            portal, self._portal = self.portal, None
            if portal is not None:
                try:
                    self._stack.close()
                finally:
                    _open_loops.discard(self)


_open_loops: set[_Loop] = set()


@cache
def _close_at_exit() -> None:
    def close_all() -> None:
        for loop in list(_open_loops):
            loop.close()

    # When atexit runs, worker threads no longer accept work, and closing needs one. This is what
    # concurrent.futures itself uses; no public function runs as early.
    with suppress(RuntimeError):
        getattr(threading, "_register_atexit", atexit.register)(close_all)


class _Blocking(Generic[S]):
    """Calls an object's async methods and waits for their results."""

    def __init__(self, wrapped: S, loop: _Loop) -> None:
        self.wrapped: S = wrapped
        self._loop = loop

    def call(self, method: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method of `wrapped` in its event loop, and wait for the result.

        Raises:
            RuntimeError: The search is not open in this process.
        """
        if (portal := self._loop.portal) is None:
            raise RuntimeError(
                "this BlockingToolSearch is not open: use it inside "
                "`with BlockingToolSearch(…) as tools:`, or call its `open`"
            )
        return portal.call(partial(method, *args, **kwargs))


def _waiting(
    method: Callable[Concatenate[S, P], Awaitable[T]],
) -> Callable[Concatenate[_Blocking[S], P], T]:
    @wraps(method)
    def wait(self: _Blocking[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.call(method, self.wrapped, *args, **kwargs)

    return wait


class BlockingIndex(_Blocking[Index]):
    """The `Index` of a `BlockingToolSearch`, with methods that wait for their results."""

    update: Final = _waiting(Index.update)
    check: Final = _waiting(Index.check)
    rebuild: Final = _waiting(Index.rebuild)
    refused: Final = _waiting(Index.refused)
    coverage: Final = _waiting(Index.coverage)
    changed_at: Final = _waiting(Index.changed_at)
    server_unreachable: Final = _waiting(Index.server_unreachable)
    freshness: Final = _waiting(Index.freshness)
    state: Final = _waiting(Index.state)
    idle_patterns: Final = _waiting(Index.idle_patterns)
    warn_of_idle_patterns: Final = _waiting(Index.warn_of_idle_patterns)
    flush: Final = _waiting(Index.flush)
    statistics: Final = _waiting(Index.statistics)
    tidy: Final = _waiting(Index.tidy)


class BlockingToolSearch(_Blocking[ToolSearch]):
    """A `ToolSearch` with methods that wait for their results.

    It works in its own event loop, in a thread, so it can be used from any thread, even several at
    once, and in a notebook, where a loop is already running. Use it as a context manager, or with
    `open` and `close`; if it is still open when the program ends, it is closed then. The arguments,
    attributes and errors are those of `ToolSearch`, which is `wrapped`.
    """

    def __init__(
        self,
        root: RootsLike | None = None,
        settings: Settings | None = None,
        *,
        embedder: Embedder | None = None,
        refresh: bool = True,
        follow: bool = False,
        store: Callable[[Roots, Settings], ToolStore] = open_store,
        ranking: HybridSearch | None = None,
    ) -> None:
        tools = ToolSearch(
            root,
            settings,
            embedder=embedder,
            refresh=refresh,
            follow=follow,
            store=store,
            ranking=ranking,
        )
        super().__init__(tools, _Loop(tools))
        self.index: BlockingIndex = BlockingIndex(tools.index, self._loop)
        self.settings: Settings = tools.settings
        self.roots: Roots = tools.roots
        self.policy: ToolFilter = tools.policy

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        loop = getattr(self, "_loop", None)
        if loop is None or loop.portal is None:
            return
        message = f"the search of {self.roots} was never closed"
        warnings.warn(message, ResourceWarning, stacklevel=2, source=self)
        # Not waited for: this may be the very thread that has to do it.
        with suppress(RuntimeError):
            threading.Thread(target=loop.close).start()

    def open(self) -> Self:
        """Open the index, and bring it up to date."""
        self._loop.open()
        return self

    def close(self) -> None:
        """Close the index; it can be opened again."""
        self._loop.close()

    search: Final = _waiting(ToolSearch.search)
    terms: Final = _waiting(ToolSearch.terms)
    explain_rank: Final = _waiting(ToolSearch.explain_rank)
    prepare_reranking: Final = _waiting(ToolSearch.prepare_reranking)
    categories: Final = _waiting(ToolSearch.categories)
    entries: Final = _waiting(ToolSearch.entries)
    probe: Final = _waiting(ToolSearch.probe)
    find: Final = _waiting(ToolSearch.find)
    similar: Final = _waiting(ToolSearch.similar)
    describe: Final = _waiting(ToolSearch.describe)
    record_outcome: Final = _waiting(ToolSearch.record_outcome)

    def uses_vectors(self, mode: SearchMode) -> bool:
        """Return whether a search in this mode uses the vector channel."""
        return self.wrapped.uses_vectors(mode)
