"""The contract of `ToolStore`, as checks for any implementation."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from toolindex.errors import ForeignRootError, ToolIndexError
from toolindex.protocols import ToolStore
from toolindex.testing import _annotating, _filters, _search, _sharing, _usage, _vectors
from toolindex.testing._trees import (
    READER,
    TOOLS,
    embed,
    expect,
    fill,
    module,
    near,
    refused,
    scanned,
    stored_paths,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager

_Store = TypeVar("_Store", bound=ToolStore)

_SEND, _READ, _MERGE, _ = TOOLS
_CHANGED = {**TOOLS, _SEND: module("Post a letter.")}
_FEWER = {path: source for path, source in TOOLS.items() if path != _MERGE}


def check_store(
    factory: Callable[[], AbstractContextManager[_Store]],
    *,
    reopen: Callable[[_Store], AbstractContextManager[ToolStore]] | None = None,
    patience: float = 120.0,
) -> None:
    """Check that a store keeps the promises of the `ToolStore` protocol.

    Kills and full disks are not tested.

    Args:
        factory: Provides a new, empty, writable store each time; it may be closed within the block.
        reopen: Opens a store's data again, as another process would, even after the store was
            closed. Omit it for a store that is not persistent.
        patience: How many seconds threads may make each other wait.

    Raises:
        AssertionError: A promise is broken; the message says which.
    """
    kits = _search, _vectors, _filters, _annotating, _usage
    for check in (*_CHECKS, *(check for kit in kits for check in kit.CHECKS)):
        with factory() as store, _named(check):
            check(store)
    for shared in _sharing.CHECKS:
        with factory() as store, _named(shared):
            shared(store, patience)
    if reopen is not None:
        with factory() as store, _named(_sharing.check_handles):
            _sharing.check_handles(store, reopen)


@contextmanager
def _named(check: Callable[..., None]) -> Generator[None]:
    """Turn any other error into a broken promise."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        promise = check.__doc__ or check.__name__
        raise AssertionError(f"{promise} But it raised {error!r}") from error


def _check_new(store: ToolStore) -> None:
    """A new store is empty, and can be written."""
    expect(store.read_only, False, "a store that can be written says so")
    expect(stored_paths(store), set[str](), "a new store holds no files")
    expect(dict(store.pending("m", limit=9)), {}, "a new store has no texts to embed")
    with store.reading() as reader:
        expect(reader.is_complete(), False, "a new store does not hold a whole tree")
        expect(words(reader, "message") + near(reader), [], "a new store finds nothing")
        expect(list(reader.models()), [], "a new store has vectors of no model")


def _check_sync(store: ToolStore) -> None:
    """A sync makes the store equal to the scan."""
    generations: list[object] = []
    for modules, counts in (
        (TOOLS, (4, 0, 0, 0)),
        (_CHANGED, (0, 1, 0, 3)),
        ({}, (0, 0, 4, 0)),
        (TOOLS, (4, 0, 0, 0)),
    ):
        promise = "a sync counts added, updated, removed and unchanged tools"
        expect(fill(store, modules), counts, promise)
        expect(stored_paths(store), set(modules), "a store holds what was scanned")
        with store.reading() as reader:
            expect(reader.is_complete(), True, "a synced store has a whole tree")
            generations.append(reader.generation())
        again = fill(store, modules)
        expect(again, (0, 0, 0, len(modules)), "repeating a sync changes nothing")
    expect(len(set(generations)), 4, "the generation changes with every change")


def _check_parts(store: ToolStore) -> None:
    """A sync within some paths changes nothing elsewhere."""
    archive = "mcptools/mail/archive.py"
    fill(store, {archive: module("Put away.")}, within=["mcptools/mail"])
    with store.reading() as reader:
        expect(reader.is_complete(), False, "a part that was synced is not a whole tree")
    known = store.stored(reader_version=READER)
    expect(known.is_complete, False, "a part that was synced is not a whole tree")
    expect(set(known.hashes), {archive}, "a part that was synced is known")
    other = store.stored(reader_version="2")
    expect(dict(other.hashes), {}, "what another reader made is not known")
    fill(store, TOOLS)
    part = {"mcptools/mail/archive.py": module("Put a message away.")}
    counts = fill(store, part, within=["mcptools/mail"])
    expect(counts, (1, 0, 2, 0), "a sync within a folder adds and removes there")
    expected = {*part, "mcptools/pdf/merge.py", "gentools/pdf/split/api.py"}
    expect(stored_paths(store), expected, "a sync within a folder leaves the rest alone")
    for within, paths in (
        (["mcptools"], {*part, "mcptools/pdf/merge.py"}),
        (["mcptools/pdf/merge.py", "gone"], {"mcptools/pdf/merge.py"}),
        (["mcptools/ma"], set[str]()),
        ([], set[str]()),
    ):
        held = stored_paths(store, within=within)
        expect(held, paths, f"the files within {within} are those at and below these paths")


def _check_passed_over(store: ToolStore) -> None:
    """A file that the scan skipped as known keeps its entry."""
    scan = scanned(TOOLS)
    fill(store, scan)
    stamps = {record.path: record.stamp for record in scan.records}
    known = store.stored(reader_version=READER)
    expect(known.stamps, stamps, "a stored file has its stamp")
    hashes = {str(record.id): record.file_hash for record in scan.records}
    held = {id_: entry.file_hash for id_, entry in known.entries.items()}
    expect(held, hashes, "a stored file has the hash of its content")
    counts = fill(store, scanned({}, unchanged=TOOLS))
    expect(counts, (0, 0, 0, 4), "a skipped file keeps its entry")
    counts = fill(store, scanned(TOOLS, written_at=2))
    expect(counts, (0, 0, 0, 4), "a file rewritten with the same bytes is unchanged")
    times = {stamp[1] for stamp in store.stored(reader_version=READER).stamps.values()}
    expect(times, {2}, "a rewritten file has its new stamp")
    later = (1, 3, 3, 1)
    touched = replace(scanned({}, unchanged=TOOLS), touched={_SEND: later, _MERGE: None})
    promise = "a file that was skipped for its content has its new stamp"
    expect(fill(store, touched), (0, 0, 0, 4), promise)
    after = store.stored(reader_version=READER).stamps
    expect((after[_SEND], _MERGE in after), (later, False), promise)


def _check_snapshots(store: ToolStore) -> None:
    """A sync uses what was stored before its scan only if it is still valid."""
    fill(store, TOOLS)
    fresh = store.stored(reader_version=READER)
    counts = fill(store, scanned({}, unchanged=TOOLS), stored=fresh)
    expect(counts, (0, 0, 0, 4), "a sync accepts the stored files")
    expect(fill(store, _CHANGED, stored=fresh), (0, 1, 0, 3), "a sync accepts the stored files")
    promise = "a sync does not use stored files from before another change"
    expect(fill(store, TOOLS, stored=fresh), (0, 1, 0, 3), promise)
    fill(store, _FEWER)
    again = store.sync(scanned({}, unchanged=TOOLS), reader_version=READER, stored=fresh)
    promise = "paths that were passed over, but are not held any more, are to be scanned again"
    expect(again.rescan, (_MERGE,), promise)
    expect(stored_paths(store), set(_FEWER), promise)


def _check_readers(store: ToolStore) -> None:
    """Files read by another version are read again, and keep their vectors."""
    fill(store, TOOLS)
    embed(store, {"send": 0.0, "read": 0.5, "merge": 1.0, "split": 1.5})
    promise = "what another reader made is not known"
    expect(dict(store.stored(reader_version="2").stamps), {}, promise)
    part = {_SEND: TOOLS[_SEND], _READ: TOOLS[_READ]}
    counts = fill(store, part, reader_version="2", within=["mcptools/mail"])
    expect(counts, (0, 2, 0, 0), "a file that another reader has read is updated")
    promise = "reading a part again does not count for the whole tree"
    expect(dict(store.stored(reader_version="2").stamps), {}, promise)
    fill(store, TOOLS, reader_version="2")
    held = store.stored(reader_version="2")
    expect(set(held.stamps), set(TOOLS), "what the same reader made is known")
    expect(
        dict(store.stored(reader_version="1").stamps), {}, "what another reader made is not known"
    )
    expect(dict(store.pending("m", limit=9)), {}, "a text that stays the same keeps its vector")


def _check_roots(store: ToolStore) -> None:
    """A store is bound to one tree until the tree is gone."""
    promise = "the store of a tree that exists does not become that of another"
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        store.bind(one)
        store.bind(one)
        with refused(ForeignRootError, promise):
            store.bind(other)
    store.bind(tempfile.gettempdir())


def _check_close(store: ToolStore) -> None:
    """A closed store refuses every use."""
    fill(store, TOOLS)
    store.close()
    promise = "a closed store refuses every use"
    with refused(ToolIndexError, promise):
        store.stored(reader_version=READER)
    with refused(ToolIndexError, promise):
        fill(store, {})
    with refused(ToolIndexError, promise), store.reading():
        pass


_CHECKS = (
    _check_new,
    _check_sync,
    _check_parts,
    _check_passed_over,
    _check_snapshots,
    _check_readers,
    _check_roots,
    _check_close,
)
