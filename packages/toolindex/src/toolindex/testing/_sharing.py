"""The promises of a store about concurrent use by threads and processes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from toolindex.protocols import ToolStore
from toolindex.testing._trees import TOOLS, embed, expect, fill, near, scanned, stored_paths, words

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

_Store = TypeVar("_Store", bound=ToolStore)

_READ = "mcptools:mail:read"
_ANGLES = {"send": 0.0, "read": 0.5, "merge": 1.0, "split": 1.5}
_FEWER = {path: source for path, source in TOOLS.items() if path != "mcptools/pdf/merge.py"}
_WRITERS = 2


def _check_states(store: ToolStore, patience: float) -> None:
    """A reader sees one state of the store, and every later reader sees each change."""
    fill(store, TOOLS)
    embed(store, _ANGLES)
    promise = "a reader sees one state of the store, whatever others write in the meantime"
    with store.reading() as reader:
        generation = reader.generation()
        _together([lambda: fill(store, {})], patience, "a reader does not block writers")
        expect(reader.coverage("m").tools, 4, promise)
        expect(list(reader.entries([_READ])), [_READ], promise)
        expect(words(reader, "mailbox"), [_READ], promise)
        expect(len(near(reader)), 4, promise)
        expect(reader.generation(), generation, promise)
    with store.reading() as reader:
        expect(reader.coverage("m").tools, 0, "a reader sees every change that ended before it")


def _check_threads(store: ToolStore, patience: float) -> None:
    """Every call may come from any thread."""
    every, fewer = scanned(TOOLS), scanned(_FEWER)
    fill(store, every)
    promise = "a reader sees changes completely, or not at all"

    ended: list[bool] = []
    stopped = threading.Event()

    def write() -> None:
        try:
            for scan in (fewer, every, fewer, every):
                fill(store, scan)
                embed(store, _ANGLES)
        finally:
            ended.append(True)

    def read() -> None:
        while True:
            with store.reading() as reader:
                count = reader.coverage("m").tools
                expect(count in {3, 4}, True, promise)
                found = words(reader, "message messages files file")
                expect(len(found), count, promise)
            if len(ended) == _WRITERS or stopped.is_set():
                return

    works = [*[write] * _WRITERS, read, read]
    try:
        _together(works, patience, "threads do not wait for each other forever")
    finally:
        stopped.set()


def _together(works: Sequence[Callable[[], object]], patience: float, promise: str) -> None:
    """Run several functions at once, each in a thread; raise the first error."""
    failures: list[BaseException] = []

    def recorded(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - it is raised below
            failures.append(error)

    threads = [threading.Thread(target=recorded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience)
    for failure in failures:
        raise failure
    expect([thread for thread in threads if thread.is_alive()], [], promise)


def _check_leases(store: ToolStore, _patience: float) -> None:
    """A lease has one holder at a time."""
    first, second = store.lease("files"), store.lease("files")
    expect(first.acquire(timeout=0), True, "a free lease can be acquired")
    expect(second.acquire(timeout=0.01), False, "a lease has one holder at a time")
    other = store.lease("another kind of work")
    expect(other.acquire(timeout=0), True, "a lease does not wait for that of other work")
    other.release()
    first.release()
    expect(second.acquire(timeout=0), True, "a released lease is free")
    second.release()


def check_handles(
    store: _Store, reopen: Callable[[_Store], AbstractContextManager[ToolStore]]
) -> None:
    """Changes through one handle are visible through every other."""
    promise = "a change is seen by every later reader, in other processes too"
    with reopen(store) as other:
        with other.reading() as reader:
            before = reader.generation()
        fill(store, TOOLS)
        embed(store, _ANGLES)
        store.query_vectors.put("m", {"merge files": [1.0, 0.0]})
        with other.reading() as reader:
            expect(reader.generation() != before, True, promise)
            expect(words(reader, "mailbox"), [_READ], promise)
            expect(near(reader)[0], "mcptools:mail:send", promise)
        expect(other.query_vectors.get("m", "merge files") is not None, True, promise)
        fill(other, _FEWER)
        expect(stored_paths(store), set(_FEWER), promise)
        mine, theirs = store.lease("files"), other.lease("files")
        expect(mine.acquire(timeout=0), True, "a free lease can be acquired")
        expect(
            theirs.acquire(timeout=0),
            False,
            "a lease has one holder at a time, among processes too",
        )
        mine.release()
        store.close()
        expect(stored_paths(other), set(_FEWER), "closing one handle does not close others")
    with reopen(store) as later:
        promise = "what a store holds is still there when it is opened again"
        expect(stored_paths(later), set(_FEWER), promise)
        expect(dict(later.pending("m", limit=9)), {}, promise)


CHECKS = (_check_states, _check_threads, _check_leases)
