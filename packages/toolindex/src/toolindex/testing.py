"""A contract kit: run `check_store` over your own implementation of `ToolStore`."""

from __future__ import annotations

import math
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from toolscan import ScanReport, scan

from toolindex import (
    ForeignDatabaseError,
    OutcomeRecord,
    SearchRecord,
    ToolFilter,
    ToolIndexError,
    ToolStore,
    VectorError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from toolindex import StoredFiles, StoreReader
    from toolindex._protocols import Candidate

__all__ = ["check_store"]

_Store = TypeVar("_Store", bound=ToolStore)

_EVERY = ToolFilter()
_ODD_TEXTS = (
    *("", 'say "hi', "C++ foo:bar -x*", "NEAR(a b)", "a\0b", "名前 🛠", "\ud800", "x " * 5_000),
)
_READER = "1"


def _module(description: str, *tags: str) -> str:
    """Return the source of a tool that can be found by the words of its description."""
    return f'__tags__ = {list(tags)}\ndef run() -> None:\n    """{description}"""\n'


_TOOLS: Mapping[str, str] = {
    "mcptools/mail/send.py": _module("Send a message to somebody.", "post", "outgoing"),
    "mcptools/mail/read.py": _module("Read the messages of a mailbox.", "post"),
    "mcptools/pdf/merge.py": _module("Merge several files into one."),
    "gentools/pdf/split/api.py": _module("Split a file into pages."),
}
_SEND, _READ, _MERGE, _SPLIT = _IDS = (
    *("mcptools:mail:send", "mcptools:mail:read", "mcptools:pdf:merge", "gentools:pdf:split"),
)
_SEND_FILE, _READ_FILE, _MERGE_FILE, _SPLIT_FILE = _TOOLS
_NONE: Mapping[str, str] = {}
_CHANGED = {**_TOOLS, _SEND_FILE: _module("Post a letter.")}
_FEWER = {path: source for path, source in _TOOLS.items() if path != _MERGE_FILE}
_WITHOUT_MAIL = {path: source for path, source in _TOOLS.items() if "mail" not in path}
_TWINS = {
    path: _module("Join it.") for path in ("mcptools/a/join.py", "gentools/a/join/api.py")
} | dict(_TOOLS)
_JOINS = "gentools:a:join", "mcptools:a:join"
_BULK = {
    f"mcptools/bulk/tool_{n:03}.py": _module("Send a message to somebody.", "bulk")
    for n in range(60)
}
# The angles of vectors, by the first word of a text: near, and far behind those of the bulk.
_ANGLES = {"send": 0.0, "read": 0.5, "merge": 1.0, "split": 3.0}
_FAR = {"tool": 0.0, "send": 3.0, "read": 2.9, "merge": 3.1, "split": 2.8, "scan": 2.7, "m": 2.7}
_DAY = 86_400.0
_REFUSALS = 12
_SURE_SECONDS = 10.0
_WRITERS = 2


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
    for check in _CHECKS:
        with factory() as store, _named(check):
            check(store)
    for shared in (_check_states, _check_threads):
        with factory() as store, _named(shared):
            shared(store, patience)
    if reopen is not None:
        with factory() as store, _named(_check_handles):
            _check_handles(store, reopen)


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


def _expect(promise: str, *pairs: tuple[object, object]) -> None:
    """Compare values with expected ones; the message of a failure is the broken promise."""
    for actual, expected in pairs:
        if actual != expected:
            raise AssertionError(f"{promise}: expected {expected!r}, got {actual!r}")


@contextmanager
def _refused(kind: type[ToolIndexError], promise: str) -> Generator[None]:
    """Expect a block to raise an error."""
    try:
        yield
    except kind:
        return
    except Exception as error:
        raise AssertionError(f"{promise}: expected {kind.__name__}, got {error!r}") from error
    raise AssertionError(f"{promise}: expected {kind.__name__}, nothing was raised")


def _scan(
    modules: Mapping[str, str], *, unchanged: Iterable[str] = (), written_at: int = 1
) -> ScanReport:
    """Scan modules, by path, as a store's user would.

    Args:
        modules: The source of each.
        unchanged: Paths that are skipped because their stamps are known.
        written_at: When their files were written, the only difference in their stamps.
    """
    report = _scanned(tuple(modules.items()))
    # The stamps of files as new as these cannot be trusted.
    stamp = (1, written_at, written_at, 1)
    records = tuple(replace(record, stamp=stamp) for record in report.records)
    return replace(report, records=records, unchanged=tuple(unchanged))


@lru_cache(maxsize=32)
def _scanned(modules: tuple[tuple[str, str], ...]) -> ScanReport:
    with tempfile.TemporaryDirectory() as folder:
        for path, source in modules:
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source, encoding="utf-8")
        return scan(folder)


def _fill(
    store: ToolStore,
    modules: Mapping[str, str] | ScanReport,
    *,
    reader_version: str = _READER,
    within: Collection[str] | None = None,
    stored: StoredFiles | None = None,
) -> tuple[int, int, int, int]:
    """Sync a store with modules; return how many were added, updated, removed, unchanged."""
    report = store.sync(
        modules if isinstance(modules, ScanReport) else _scan(modules),
        reader_version=reader_version,
        within=within,
        stored=stored,
    )
    return report.added, report.updated, report.removed, report.unchanged


def _paths(store: ToolStore, *, within: Collection[str] | None = None) -> set[str]:
    """Return the paths of the files in a store."""
    held = store.stored(reader_version=_READER, within=within)
    return {entry.path for entry in held.entries.values()}


def _embed(store: ToolStore, angles: Mapping[str, float] = _ANGLES, *, model_id: str = "m") -> None:
    """Store vectors for pending texts, with two dimensions, length 2 and an angle by first word."""
    vectors = {
        text_hash: [2 * math.cos(angle), 2 * math.sin(angle)]
        for text_hash, text in store.pending(model_id, limit=1_000).items()
        if (angle := angles.get(text.split()[0])) is not None
    }
    store.put_vectors(model_id, vectors)


def _ids(candidates: Sequence[Candidate]) -> list[str]:
    """Check the order of candidates, and return their ids."""
    scored = [(-candidate.score, candidate.id) for candidate in candidates]
    _expect("candidates are ordered best first, equal scores by id", (scored, sorted(scored)))
    found = [id_ for _, id_ in scored]
    _expect("each tool occurs once among the candidates", (sorted(found), sorted(set(found))))
    return found


def _by_words(
    reader: StoreReader, query: str, *, where: ToolFilter = _EVERY, depth: int = 10
) -> list[str]:
    return _ids(reader.lexical(query, where=where, depth=depth))


def _alike(
    reader: StoreReader, query: str, *, where: ToolFilter = _EVERY, depth: int = 10
) -> list[str]:
    return _ids(reader.fuzzy(query, where=where, depth=depth))


def _near(
    reader: StoreReader, *, model_id: str = "m", where: ToolFilter = _EVERY, depth: int = 10
) -> list[str]:
    """Return the ids of candidates near angle 0."""
    return _ids(reader.nearest([3.0, 0.0], model_id=model_id, where=where, depth=depth))


def _check_new(store: ToolStore) -> None:
    """A new store is empty, and can be written."""
    _expect("a store that can be written says so", (store.read_only, False))
    empty = set[str]()
    _expect("a new store holds no files", (_paths(store), empty))
    _expect("a new store has no texts to embed", (dict(store.pending("m", limit=9)), {}))
    with store.reading() as reader:
        _expect("a new store does not hold a whole tree", (reader.is_complete(), False))
        found = _by_words(reader, "message") + _near(reader)
        _expect("a new store finds nothing", (found, []))
        _expect("a new store has vectors of no model", (list(reader.models()), []))


def _check_sync(store: ToolStore) -> None:
    """A sync makes the store equal to the scan."""
    generations: list[object] = []
    for modules, counts in (
        (_TOOLS, (4, 0, 0, 0)),
        (_CHANGED, (0, 1, 0, 3)),
        ({}, (0, 0, 4, 0)),
        (_TOOLS, (4, 0, 0, 0)),
    ):
        promise = "a sync counts added, updated, removed and unchanged tools"
        _expect(promise, (_fill(store, modules), counts))
        _expect("a store holds what was scanned", (_paths(store), set(modules)))
        with store.reading() as reader:
            _expect("a synced store has a whole tree", (reader.is_complete(), True))
            generations.append(reader.generation())
        again = _fill(store, modules)
        _expect("repeating a sync changes nothing", (again, (0, 0, 0, len(modules))))
    _expect("the generation changes with every change", (len(set(generations)), 4))


def _check_parts(store: ToolStore) -> None:
    """A sync within some paths changes nothing elsewhere."""
    archive = "mcptools/mail/archive.py"
    _fill(store, {archive: _module("Put away.")}, within=["mcptools/mail"])
    known = store.stored(reader_version=_READER)
    with store.reading() as reader:
        promise = "a part that was synced is not a whole tree"
        _expect(promise, (reader.is_complete(), False), (known.is_complete, False))
    _expect("a part that was synced is known", (set(known.hashes), {archive}))
    other = store.stored(reader_version="2")
    _expect("what another reader made is not known", (dict(other.hashes), {}))
    _fill(store, _TOOLS)
    counts = _fill(store, {archive: _module("Put a message away.")}, within=["mcptools/mail"])
    _expect("a sync within a folder adds and removes there", (counts, (1, 0, 2, 0)))
    expected = {archive, _MERGE_FILE, _SPLIT_FILE}
    _expect("a sync within a folder leaves the rest alone", (_paths(store), expected))
    for within, paths in (
        (["mcptools"], {archive, _MERGE_FILE}),
        ([_MERGE_FILE, "gone"], {_MERGE_FILE}),
        (["mcptools/ma"], set[str]()),
        ([], set[str]()),
    ):
        promise = f"the files within {within} are those at and below these paths"
        _expect(promise, (_paths(store, within=within), paths))


def _check_passed_over(store: ToolStore) -> None:
    """A file that the scan skipped as known keeps its entry."""
    scan = _scan(_TOOLS)
    _fill(store, scan)
    known = store.stored(reader_version=_READER)
    stamps = {record.path: record.stamp for record in scan.records}
    _expect("a stored file has its stamp", (known.stamps, stamps))
    hashes = {str(record.id): record.file_hash for record in scan.records}
    held = {id_: entry.file_hash for id_, entry in known.entries.items()}
    _expect("a stored file has the hash of its content", (held, hashes))
    later = (1, 3, 3, 1)
    touched = replace(_scan({}, unchanged=_TOOLS), touched={_SEND_FILE: later, _MERGE_FILE: None})
    for scanned, promise in (
        (_scan({}, unchanged=_TOOLS), "a skipped file keeps its entry"),
        (_scan(_TOOLS, written_at=2), "a file rewritten with the same bytes is unchanged"),
        (touched, "a file that was skipped for its content is unchanged"),
    ):
        _expect(promise, (_fill(store, scanned), (0, 0, 0, 4)))
    after = store.stored(reader_version=_READER).stamps
    expected = {**dict.fromkeys(_TOOLS, (1, 2, 2, 1)), _SEND_FILE: later}
    del expected[_MERGE_FILE]
    _expect("a file that was rewritten or touched has its new stamp", (after, expected))


def _check_snapshots(store: ToolStore) -> None:
    """A sync uses what was stored before its scan only if it is still valid."""
    _fill(store, _TOOLS)
    fresh = store.stored(reader_version=_READER)
    skipped = _scan({}, unchanged=_TOOLS)
    promise = "a sync accepts the stored files, unless there was a change since"
    for scanned, counts in (
        (skipped, (0, 0, 0, 4)),
        (_scan(_CHANGED), (0, 1, 0, 3)),
        (_scan(_TOOLS), (0, 1, 0, 3)),
    ):
        _expect(promise, (_fill(store, scanned, stored=fresh), counts))
    _fill(store, _FEWER)
    again = store.sync(skipped, reader_version=_READER, stored=fresh)
    promise = "paths that were passed over, but are not held any more, are to be scanned again"
    _expect(promise, (again.rescan, (_MERGE_FILE,)), (_paths(store), set(_FEWER)))


def _check_readers(store: ToolStore) -> None:
    """Files read by another version are read again, and keep their vectors."""
    _fill(store, _TOOLS)
    _embed(store)
    part = {_SEND_FILE: _TOOLS[_SEND_FILE], _READ_FILE: _TOOLS[_READ_FILE]}
    counts = _fill(store, part, reader_version="2", within=["mcptools/mail"])
    _expect("a file that another reader has read is updated", (counts, (0, 2, 0, 0)))
    promise = "reading a part again does not count for the whole tree"
    _expect(promise, (dict(store.stored(reader_version="2").stamps), {}))
    _fill(store, _TOOLS, reader_version="2")
    promise = "only what the same reader made is known"
    for version, paths in ("2", set(_TOOLS)), ("1", set[str]()):
        _expect(promise, (set(store.stored(reader_version=version).stamps), paths))
    promise = "a text that stays the same keeps its vector"
    _expect(promise, (dict(store.pending("m", limit=9)), {}))


def _check_roots(store: ToolStore) -> None:
    """A store is bound to one tree until the tree is gone."""
    promise = "the store of a tree that exists does not become that of another"
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        store.bind(one)
        store.bind(one)
        with _refused(ForeignDatabaseError, promise):
            store.bind(other)
    store.bind(tempfile.gettempdir())


def _check_close(store: ToolStore) -> None:
    """A closed store refuses every use."""
    _fill(store, _TOOLS)
    store.close()
    promise = "a closed store refuses every use"
    with _refused(ToolIndexError, promise):
        store.stored(reader_version=_READER)
    with _refused(ToolIndexError, promise):
        _fill(store, {})
    with _refused(ToolIndexError, promise), store.reading():
        pass


def _check_words(store: ToolStore) -> None:
    """Any string is a query, and finds the tools that share words with it."""
    _fill(store, _TOOLS)
    with store.reading() as reader:
        promise = "tools that share words with a query are found, and no others"
        for query, found in (
            ("mailbox", {_READ}),
            ("several pages", {_MERGE, _SPLIT}),
            ("nothing_like_it", set[str]()),
        ):
            _expect(promise, (set(_by_words(reader, query)), found))
        best = _by_words(reader, "merge several files")[0]
        _expect("candidates come best first", (best, _MERGE))
        promise = "there are as many candidates as asked for, where there are that many"
        for depth in (1, 2):
            found = _by_words(reader, "mailbox several pages", depth=depth)
            _expect(promise, (len(found), depth))
        for text in _ODD_TEXTS:
            _by_words(reader, text)
    _fill(store, _CHANGED)
    with store.reading() as reader:
        promise = "a changed tool is found by its new words only"
        for query, found in ("letter", {_SEND}), ("somebody", set[str]()):
            _expect(promise, (set(_by_words(reader, query)), found))


def _check_fuzzy(store: ToolStore) -> None:
    """Tools are found by words that are misspelt or cut short, and filters apply."""
    _fill(store, _TOOLS)
    with store.reading() as reader:
        promise = "a tool is found by a word that is right, misspelt or cut short"
        for query in ("mailbox", "mailbx", "mialbox", "mailbo"):
            _expect(f"{promise} (asked for {query!r})", (_alike(reader, query)[:1], [_READ]))
        _expect(promise, (set(_alike(reader, "fils")), {_MERGE, _SPLIT}))
        _expect("no more than asked for", (len(_alike(reader, "fils", depth=1)), 1))
        _expect("no word is like that one", (_alike(reader, "xyzzyq"), []))
        for text in _ODD_TEXTS:
            _alike(reader, text)


def _check_names(store: ToolStore) -> None:
    """A tool is found by its name, in any spelling."""
    _fill(store, _TOOLS)
    gentools = ToolFilter(source="gentools")
    with store.reading() as reader:
        promise = "a tool is found by its name, its category and name, or its id"
        for query in ("merge", "Merge()", "pdf_merge", "pdf merge", "PDF.merge", _MERGE):
            found = [hit.id for hit in reader.named(query, where=_EVERY)]
            _expect(f"{promise} (asked for {query!r})", (found, [_MERGE]))
        for query, where in ("", _EVERY), ("merge", gentools):
            _expect(promise, (list(reader.named(query, where=where)), []))
        for text in _ODD_TEXTS:
            reader.named(text, where=_EVERY)
            reader.corrections(text)
            found = _by_words(reader, text, depth=3)
            terms, shares = reader.terms(text, found), reader.lexical_coverage(text, found)
            promise = "terms and shares of them are returned for the requested tools"
            _expect(promise, (set(terms) <= set(found), True), (set(shares) <= set(found), True))
            _expect("tools found by words have some terms", (all(map(terms.get, found)), True))
            are_shares = all(0 < shares.get(id_, 0.0) <= 1 for id_ in found)
            _expect("tools found by words have a share of terms", (are_shares, True))
            _expect("a scale is zero or more", (reader.lexical_scale(text) >= 0, True))


def _check_entries(store: ToolStore) -> None:
    """Details are those of the scan."""
    scan = _scan(_TOOLS)
    _fill(store, scan)
    names = ("id", "path", "signature", "summary", "description", "parameters", "tags")
    with store.reading() as reader:
        found = reader.entries([_SEND, "gone", "\ud800", _MERGE])
        _expect("an id that is gone is left out of the details", (set(found), {_SEND, _MERGE}))
        for record in scan.records:
            entry = reader.entries([str(record.id)])[str(record.id)]
            for name in names:
                promise = f"the {name} of {record.id} is as scanned"
                _expect(promise, (getattr(entry, name), getattr(record, name)))
        _expect("no ids have no details", (dict(reader.entries([])), {}))


def _check_pending(store: ToolStore) -> None:
    """A text is pending for a model until its vector is stored, once for all tools."""
    _fill(store, _TWINS)
    pending = store.pending("m", limit=99)
    promise = "a text that two tools share is pending, and counted, once"
    _expect(promise, (len(pending), 5), (store.count_pending("m"), 5))
    promise = "no more texts are returned than requested"
    _expect(promise, (len(store.pending("m", limit=3)), 3))
    some = [*pending][:2]
    found = set(store.pending("m", limit=99, among=[*some, "gone"]))
    _expect("only requested texts are pending", (found, set(some)))
    _embed(store, {"join": 0.0})
    with store.reading() as reader:
        _expect("a text's vector serves all tools", (_near(reader), list(_JOINS)))
        coverage = reader.coverage("m")
        counts = coverage.tools, coverage.vectors, coverage.dimensions
        _expect("coverage counts tools, and those with a vector", (counts, (6, 2, 2)))
        asked = [*_JOINS, _SEND, "gone", "\ud800"]
        promise = "tools with a vector of a model are distinguished from those without"
        for model, ids in ("m", set(_JOINS)), ("other", set[str]()):
            _expect(promise, (set(reader.with_vectors(asked, model_id=model)), ids))
    promise = "a text with a vector is not pending, for its model"
    _expect(promise, (store.count_pending("m"), 4), (store.count_pending("other"), 5))


def _check_refused(store: ToolStore) -> None:
    """A text that a model refused is not pending for it, and its tools are named."""
    _fill(store, _TWINS)
    pending = store.pending("m", limit=99)
    reasons = {key: "too odd" for key, text in pending.items() if text.startswith("join")}
    promise, others = "a text that was refused is not pending", set(pending) - set(reasons)
    began = time.monotonic()
    store.refuse("m", reasons)
    after_one = set(store.pending("m", limit=99))
    # Each refusal lasts longer than the last; on a slow machine, the first may be over by now.
    if time.monotonic() - began < _SURE_SECONDS:
        _expect(promise, (after_one, others))
    for _ in range(_REFUSALS):
        store.refuse("m", reasons)
    store.refuse("m", {"a text that no tool has": "too late"})
    left = set(store.pending("m", limit=99))
    _expect(promise, (left, others), (store.count_pending("m"), len(others)))
    counts = store.count_pending("other"), len(store.refused("other"))
    _expect("texts are refused for each model separately", (counts, (5, 0)))
    promise = "every tool whose text was refused is named with the reason, and no other"
    _expect(promise, (dict(store.refused("m")), dict.fromkeys(_JOINS, "too odd")))
    store.put_vectors("m", {text_hash: [1.0, 0.0] for text_hash in reasons})
    promise = "a text that has a vector is no longer refused"
    _expect(promise, (dict(store.refused("m")), {}))


def _check_nearest(store: ToolStore) -> None:
    """Tools are found by the cosine of their vectors."""
    _fill(store, _TOOLS)
    _embed(store)
    _embed(store, dict(zip(_ANGLES, reversed(_ANGLES.values()), strict=True)), model_id="other")
    with store.reading() as reader:
        promise = "tools are sorted by the cosine of their vectors, and the nearest are kept"
        _expect(promise, (_near(reader), list(_IDS)), (_near(reader, depth=2), [_SEND, _READ]))
        promise = "models do not disturb each other, and one without vectors finds nothing"
        _expect(promise, (_near(reader, model_id="other")[0], _SPLIT))
        _expect(promise, (_near(reader, model_id="unknown"), []))
        lengths = {id_: len(it) for id_, it in reader.vectors("m").items()}
        _expect("each tool's vector can be read", (lengths, dict.fromkeys(_IDS, 8)))
        promise = "models whose vectors can be searched are named"
        _expect(promise, (set(reader.models()), {"m", "other"}))
        found = reader.nearest([3.0, 0.0], model_id="m", where=_EVERY, depth=9)
        for candidate, angle in zip(found, _ANGLES.values(), strict=True):
            promise = f"the score {candidate.score} is the cosine {math.cos(angle)}"
            _expect(promise, (math.isclose(candidate.score, math.cos(angle), abs_tol=1e-3), True))


def _check_kept_vectors(store: ToolStore) -> None:
    """A vector is kept by its text, even if the tool is removed."""
    states: list[tuple[object, object]] = []

    def note_state() -> None:
        with store.reading() as reader:
            states.append((reader.generation(), reader.state_of("m")))

    _fill(store, _TOOLS)
    note_state()
    late = {text_hash: [1.0, 1.0] for text_hash in store.pending("m", limit=9)}
    _fill(store, {})
    store.put_vectors("m", late)
    for modules in (_TOOLS, _NONE, _TOOLS):
        _fill(store, modules)
        _expect("the vector of a tool that was removed is kept", (store.count_pending("m"), 0))
    with store.reading() as reader:
        _expect("a tool that comes back is found by its vector", (len(_near(reader)), 4))
    store.prune()
    _expect("a vector that a tool needs is never forgotten", (store.count_pending("m"), 0))
    used = store.use_model("m"), store.use_model("unknown")
    _expect("a model can be used if it has vectors", (used, (True, False)))
    _fill(store, _CHANGED)
    with store.reading() as reader:
        _expect("a changed tool is not found by its old vector", (_SEND in _near(reader), False))
    note_state()
    _expect("a changed text is pending", (store.count_pending("m"), 1))
    # The text of the changed tool begins with its name.
    _embed(store)
    note_state()
    for each in zip(*states, strict=True):
        promise = "the generation and a model's state change with its vectors"
        _expect(promise, (len(set(each)), 3))


def _check_bad_vectors(store: ToolStore) -> None:
    """Vectors that cannot be searched are refused, and nothing of their batch is kept."""
    _fill(store, _TOOLS)
    first, second, *_ = store.pending("m", limit=9)
    infinite: list[list[float]] = [[math.nan, 1.0], [math.inf, 0.0], [1e39, 1.0]]
    for bad in (*infinite, [0.0, 0.0], [1e-320, 0.0], [1.0], []):
        with _refused(VectorError, f"a batch with the vector {bad} is refused"):
            store.put_vectors("m", {first: [1.0, 0.0], second: bad})
        _expect("nothing of a refused batch is stored", (store.count_pending("m"), 4))
    store.put_vectors("m", {})


def _check_upkeep(store: ToolStore) -> None:
    """A rebuild loses nothing but the vectors that it is asked to forget."""
    _fill(store, _TOOLS)
    for model in ("m", "other"):
        _embed(store, model_id=model)
    _expect("a store without damage is consistent", (list(store.check()), []))
    store.rebuild(forget="other")
    _expect("a rebuilt store is consistent", (list(store.check()), []))
    promise = "a rebuild forgets the vectors of the model that is named, and keeps others"
    forgotten = store.pending("other", limit=9)
    _expect(promise, (store.count_pending("m"), 0), (len(forgotten), 4))
    hashes = set(store.text_hashes([_SEND, _READ, "gone"]))
    promise = "the hashes of tools' texts are those of pending texts"
    _expect(promise, (len(hashes), 2), (hashes < set(forgotten), True))
    with store.reading() as reader:
        found = _by_words(reader, "mailbox"), _near(reader)[0]
        _expect("a rebuilt store is searched by words and vectors", (found, ([_READ], _SEND)))


def _check_lengths(store: ToolStore) -> None:
    """A model that changes the length of its vectors counts as another model."""
    _fill(store, _TOOLS)
    _embed(store)
    store.use_model("m", dimensions=3)
    promise = "all texts are pending for vectors of another length"
    _expect(promise, (store.count_pending("m"), 4))
    with store.reading() as reader:
        promise = "vectors of each length are counted, and those of the former one found"
        counts = reader.coverage("m", dimensions=2).vectors, reader.coverage("m").vectors
        _expect(promise, (counts, (4, 0)), (len(_near(reader)), 4))
    longer = {text_hash: [1.0, 0.0, 0.0] for text_hash in store.pending("m", limit=9)}
    store.put_vectors("m", longer)
    with store.reading() as reader:
        found = reader.nearest([1.0, 0.0, 0.0], model_id="m", where=_EVERY, depth=9)
        _expect("vectors of both lengths are found", (len(found), 4), (len(_near(reader)), 4))
        _expect("both are of one model", (list(reader.models()), ["m"]))
    store.use_model("m", dimensions=2)
    _expect("vectors of the former length are kept", (store.count_pending("m"), 0))


def _check_filters(store: ToolStore) -> None:
    """A filter passes the same tools in every channel, and finds all of them."""
    scan_pdf, bracketed = "mcptools:pdfs:scan", "mcptools:pdf:[m]erge"
    others = {
        "mcptools/pdfs/scan.py": _module("Scan a file.", "post"),
        "mcptools/pdf/[m]erge.py": _module("Merge no file."),
    }
    _fill(store, {**_BULK, **_TOOLS, **others})
    _embed(store, _FAR)
    for where, expected in (
        (ToolFilter(source="gentools"), {_SPLIT}),
        (ToolFilter(categories=["mail", "pdf"]), {*_IDS, bracketed}),
        (ToolFilter(path_prefix="mcptools/pdf"), {_MERGE, bracketed}),
        (ToolFilter(path_prefix="mcptools/mail/send.py"), {_SEND}),
        (ToolFilter(source="mcptools", categories=["pdfs"]), {scan_pdf}),
        (ToolFilter(tags=["post"]), {_SEND, _READ, scan_pdf}),
        (ToolFilter(tags=["post", "outgoing"]), {_SEND}),
        (ToolFilter(tags=["none has it"]), set[str]()),
        (ToolFilter(source="\ud800"), set[str]()),
        (ToolFilter(include=[_SEND]), {_SEND}),
        (ToolFilter(include=["*:mail:*", _MERGE]), {_SEND, _READ, _MERGE}),
        (ToolFilter(include=["*:pdf:*"]), {_MERGE, _SPLIT, bracketed}),
        (ToolFilter(include=["mcptools:????:*d"]), {_SEND, _READ}),
        (ToolFilter(include=["*:[m]erge"]), {bracketed}),
        (ToolFilter(include=["*:Mail:*"]), set[str]()),
        (ToolFilter(include=["*:mail"]), set[str]()),
        (ToolFilter(exclude=["*:bulk:*", "*e*d", bracketed]), {_MERGE, _SPLIT, scan_pdf}),
        (ToolFilter(include=["*:mail:*"], exclude=[_READ]), {_SEND}),
        (ToolFilter(include=["\ud800*", "\0*"]), set[str]()),
    ):
        _expect_through(store, where, expected)


def _check_categories(store: ToolStore) -> None:
    """Tools that pass a filter are counted by source and category."""
    _fill(store, _TOOLS)
    mail, pdf, made = ("mcptools", "mail"), ("mcptools", "pdf"), ("gentools", "pdf")
    with store.reading() as reader:
        for where, expected in (
            (_EVERY, {mail: 2, pdf: 1, made: 1}),
            (ToolFilter(source="mcptools", categories=["pdf"]), {pdf: 1}),
            (ToolFilter(tags=["outgoing"]), {mail: 1}),
            (ToolFilter(exclude=["*:pdf:merge", "*:read"]), {mail: 1, made: 1}),
            (ToolFilter(source="none"), {}),
        ):
            promise = f"only tools that {where} lets through are counted, and listed"
            _expect(promise, (dict(reader.categories(where)), expected))
            _expect(promise, (len(reader.ids(where)), sum(expected.values())))
        _expect("ids are sorted", (list(reader.ids(_EVERY)), sorted(_IDS)))
        _expect("the last change of a tool has a time", (reader.changed_at() is None, False))


def _check_usage_filters(store: ToolStore) -> None:
    """A filter by use judges tools by their outcomes, once there are enough of them."""
    _fill(store, {**_BULK, **_TOOLS})
    _embed(store, _FAR)
    outcomes = {
        _SEND: (1, 4, 10.0),
        _READ: (5, 0, 900.0),
        _MERGE: (4, 1, 20.0),
        _SPLIT: (0, 1, 1.0),
    }
    store.usage.record_outcomes(
        OutcomeRecord(at=1.0, tool_id=id_, success=number < good, latency_ms=latency)
        for id_, (good, bad, latency) in outcomes.items()
        for number in range(good + bad)
    )
    here = ToolFilter(categories=["mail", "pdf"])
    for where, expected in (
        (replace(here, min_success_rate=0.5), {_READ, _MERGE, _SPLIT}),
        (replace(here, min_success_rate=0.9), {_READ, _SPLIT}),
        (ToolFilter(min_success_rate=0.5, unknown="exclude"), {_READ, _MERGE}),
        (replace(here, max_latency_ms=50, min_observations=4), {_SEND, _MERGE, _SPLIT}),
        (ToolFilter(max_latency_ms=50, min_observations=1, unknown="exclude"), {_SEND, _MERGE}),
    ):
        _expect_through(store, where, expected)


def _expect_through(store: ToolStore, where: ToolFilter, expected: set[str]) -> None:
    """Search with a depth that tools outside the filter would fill on their own."""
    with store.reading() as reader:
        for channel, found in (
            ("meaning", _near(reader, where=where, depth=6)),
            ("words", _by_words(reader, "message messages files file", where=where, depth=6)),
            ("likeness", _alike(reader, "mesage messags fils file", where=where, depth=6)),
        ):
            promise = f"{where} lets all of its tools through, by {channel}"
            _expect(promise, (set(found), expected))


def _check_aliases(store: ToolStore) -> None:
    """Tools are found by their aliases, as last set."""
    _fill(store, _TOOLS)
    generations: list[object] = []
    odd = [text for text in _ODD_TEXTS if text]
    for aliases, changed in (
        ({_SEND: ["ring a bell", "dispatchNote"], _READ: ["peruse"]}, 2),
        ({_SEND: ["ring a bell", "dispatchNote"], _READ: ["peruse"], "gone": ["peruse"]}, 0),
        ({_SEND: ["carrier pigeon"], _MERGE: odd, _READ: []}, 3),
        ({_SEND: ["carrier pigeon"], _READ: ["ring a bell"]}, 2),
    ):
        promise = f"tools with changed aliases are counted {aliases}"
        _expect(promise, (store.annotate(aliases), changed))
        with store.reading() as reader:
            generations.append(reader.generation())
    promise = "the generation changes with aliases, and only then"
    _expect(promise, (len(set(generations)), 3), (generations[0], generations[1]))
    _expect_aliases(store, {_SEND: ["pigeon"], _READ: ["bell"]}, gone=["dispatch", "peruse"])
    with store.reading() as reader:
        held = {id_: tuple(entry.aliases) for id_, entry in reader.entries([_SEND, _MERGE]).items()}
    promise = "the aliases of a tool are those that were set"
    _expect(promise, (held, {_SEND: ("carrier pigeon",), _MERGE: ()}))
    kept = store.annotate({_SEND: ["semaphore"], _READ: ["semaphore"]}, keep=[_SEND, "gone"])
    _expect("tools whose aliases are kept are not counted", (kept, 1))
    _expect_aliases(store, {_SEND: ["pigeon"], _READ: ["semaphore"]}, gone=["bell"])
    _fill(store, _CHANGED)
    _expect_aliases(store, {_SEND: ["pigeon", "letter"], _READ: ["semaphore"]}, gone=["somebody"])
    # A tool that comes back has none.
    for modules in (_WITHOUT_MAIL, _TOOLS):
        _fill(store, modules)
        _expect_aliases(store, {}, gone=["pigeon", "semaphore"])


def _expect_aliases(store: ToolStore, found: dict[str, list[str]], *, gone: list[str]) -> None:
    with store.reading() as reader:
        for id_, queries in found.items():
            for query in queries:
                promise = f"{id_} is found by its alias {query!r}"
                _expect(promise, (_by_words(reader, query), [id_]))
        for query in gone:
            promise = f"nothing is found by {query!r}, which is not an alias"
            _expect(promise, (_by_words(reader, query), []))


def _searched(
    id_: str, *, at: float = 1.0, query: str = "q", results: tuple[str, ...] = (_READ, _SEND)
) -> SearchRecord:
    return SearchRecord(id=id_, at=at, query=query, mode="hybrid", results=results, latency_ms=2.0)


def _usage_generation(store: ToolStore) -> int:
    with store.reading() as reader:
        return reader.usage_generation()


def _check_usage(store: ToolStore) -> None:
    """Searches and outcomes are summarized."""
    usage, generations = store.usage, [_usage_generation(store)]
    _expect("a new store has no searches", (usage.statistics().searches, 0))
    usage.record_searches([_searched("a"), _searched("a"), _searched("b", at=5.0)])
    usage.record_searches([_searched("a"), _searched("c", query="none", results=())])
    outcomes = (
        OutcomeRecord(at=2.0, tool_id=_READ, success=True, latency_ms=10.0, search_id="a"),
        OutcomeRecord(at=3.0, tool_id=_READ, success=True, latency_ms=30.0),
        OutcomeRecord(at=4.0, tool_id=_READ, success=False, latency_ms=900.0),
        OutcomeRecord(at=4.0, tool_id=_SEND, success=False, search_id="b"),
    )
    usage.record_outcomes(outcomes)
    generations.append(_usage_generation(store))
    with store.reading() as reader:
        promise = "successes, failures and latencies are summarized for each tool that has any"
        expected = {_READ: (2, 1, 2, 20.0), _SEND: (0, 1, 0, None)}
        _expect(promise, (dict(reader.outcomes()), expected))
    found = usage.statistics()
    named = [(entry.query, entry.count) for entry in found.queries_without_results]
    used = [(it.tool_id, it.observations, it.successes, it.latency_p50_ms) for it in found.tools]
    for promise, actual, expected in (
        ("a search that is recorded twice counts once", found.searches, 3),
        ("searches without results are counted", found.without_results, 1),
        ("queries without results are named", named, [("none", 1)]),
        ("searches with outcomes are counted", found.judged, 2),
        ("searches whose first result was right are counted", found.first_accepted, 1),
        (
            "outcomes are counted by tool, the most used first, with the latency of successes",
            used,
            [(_READ, 3, 2, 10.0), (_SEND, 1, 0, None)],
        ),
        ("a tool without outcomes has no usage", usage.of_tool("other"), None),
        ("older records are left out", usage.statistics(since=4.5).searches, 1),
        ("no more queries than asked for", usage.statistics(top=0).queries_without_results, ()),
        ("searches are oldest first", [it.id for it in usage.searches()], ["a", "c", "b"]),
        ("older searches are left out", [it.id for it in usage.searches(since=4.5)], ["b"]),
        ("searches found a tool", [it.id for it in usage.searches(found=_READ)], ["a", "b"]),
        ("searches found a tool", usage.searches(found=_READ[:-1]), ()),
        ("outcomes are returned, oldest first", usage.outcomes(), outcomes),
        ("outcomes of a tool", usage.outcomes(since=2.5, tool_id=_READ), outcomes[1:3]),
    ):
        _expect(promise, (actual, expected))
    for tool in found.tools:
        promise = "the usage of one tool is the same as in the statistics of all"
        _expect(promise, (usage.of_tool(tool.tool_id), tool))
    _expect("what is deleted is counted", (usage.clear(), (3, 4)))
    left = usage.statistics().searches, usage.of_tool(_READ)
    _expect("a record that was cleared is empty", (left, (0, None)))
    generations.append(_usage_generation(store))
    promise = "the usage generation changes with every change of outcomes"
    _expect(promise, (len(set(generations)), 3))


def _check_odd_records(store: ToolStore) -> None:
    """Any string can be recorded."""
    for number, text in enumerate(_ODD_TEXTS):
        store.usage.record_searches([_searched(f"{number}{text}", query=text, results=(text,))])
        store.usage.record_outcomes([OutcomeRecord(at=1.0, tool_id=text, success=True)])
        of_text = store.usage.of_tool(text)
        promise = f"what is known of a tool is found by any string ({text[:20]!r})"
        _expect(promise, (of_text is not None and of_text.observations, 1))
    found = store.usage.statistics()
    counts = found.searches, len(found.tools)
    _expect("any string can be recorded", (counts, (len(_ODD_TEXTS), len(_ODD_TEXTS))))


def _check_retention(store: ToolStore) -> None:
    """Old records are deleted, and the oldest if there are too many."""
    now = time.time()
    ages = [20, 10, 3, 2, 1]
    store.usage.record_searches(_searched(f"{age}", at=now - age * _DAY) for age in ages)
    store.usage.record_outcomes(
        OutcomeRecord(at=now - age * _DAY, tool_id=_READ, success=True) for age in ages
    )
    before = _usage_generation(store)
    for age, rows, counts, promise in (
        (30, 9, (0, 0), "other records are kept"),
        (5, 9, (2, 2), "records that are too old are deleted"),
        (5, 1, (2, 2), "the oldest surplus records are deleted"),
    ):
        _expect(promise, (store.usage.retain(max_age_days=age, max_rows=rows), counts))
    promise = "the usage generation moves when outcomes are deleted"
    _expect(promise, (_usage_generation(store) != before, True))
    newest = store.usage.statistics(since=now - 1.5 * _DAY)
    _expect("the newest records are kept", ((newest.searches, len(newest.tools)), (1, 1)))


def _check_query_vectors(store: ToolStore) -> None:
    """Query vectors are kept by model and query."""
    kept = store.query_vectors
    for query in ("merge", *_ODD_TEXTS):
        _expect("a query that was not asked has no vector", (kept.get("m", query), None))
        kept.put("m", {query: [3.0, 4.0]}, used=["merge"])
        values = list(kept.get("m", query) or ())
        alike = len(values) == 2 and math.isclose(values[0], 0.6, rel_tol=1e-6)
        promise = f"the vector of a query is kept, at length 1 ({query[:20]!r} has {values})"
        _expect(promise, (alike, True))
    _expect("models have separate vectors", (kept.get("other", "merge"), None))
    has = [kept.get("m", "merge", dimensions=length) is not None for length in (2, 3)]
    _expect("only a vector of the requested length is returned", (has, [True, False]))
    with _refused(VectorError, "query vectors of zeros are refused"):
        kept.put("m", {"zero": [0.0, 0.0]})


def _check_states(store: ToolStore, patience: float) -> None:
    """A reader sees one state of the store, and every later reader sees each change."""
    _fill(store, _TOOLS)
    _embed(store)
    promise = "a reader sees one state of the store, whatever others write in the meantime"
    with store.reading() as reader:
        generation = reader.generation()
        _together([lambda: _fill(store, {})], patience, "a reader does not block writers")
        _expect(promise, (reader.coverage("m").tools, 4), (list(reader.entries([_READ])), [_READ]))
        _expect(promise, (_by_words(reader, "mailbox"), [_READ]), (len(_near(reader)), 4))
        _expect(promise, (reader.generation(), generation))
    promise = "a reader sees every change that ended before it"
    with store.reading() as reader:
        _expect(promise, (reader.coverage("m").tools, 0))


def _check_threads(store: ToolStore, patience: float) -> None:
    """Every call may come from any thread."""
    every, fewer = _scan(_TOOLS), _scan(_FEWER)
    _fill(store, every)
    promise = "a reader sees changes completely, or not at all"
    ended: list[bool] = []
    stopped = threading.Event()

    def write() -> None:
        try:
            for scan in (fewer, every, fewer, every):
                _fill(store, scan)
                _embed(store)
        finally:
            ended.append(True)

    def read() -> None:
        while True:
            with store.reading() as reader:
                count = reader.coverage("m").tools
                found = _by_words(reader, "message messages files file")
                _expect(promise, (count in {3, 4}, True), (len(found), count))
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
    _expect(promise, ([thread for thread in threads if thread.is_alive()], []))


def _check_leases(store: ToolStore, other: ToolStore | None = None) -> None:
    """A lease has one holder at a time."""
    first, second = store.lease("files"), (other or store).lease("files")
    _expect("a free lease can be acquired", (first.acquire(timeout=0), True))
    promise = "a lease has one holder at a time, among processes too"
    _expect(promise, (second.acquire(timeout=0.01), False))
    third = store.lease("another kind of work")
    _expect("a lease does not wait for that of other work", (third.acquire(timeout=0), True))
    third.release()
    first.release()
    _expect("a released lease is free", (second.acquire(timeout=0), True))
    second.release()


def _check_handles(
    store: _Store, reopen: Callable[[_Store], AbstractContextManager[ToolStore]]
) -> None:
    """Changes through one handle are visible through every other."""
    promise = "a change is seen by every later reader, in other processes too"
    with reopen(store) as other:
        with other.reading() as reader:
            before = reader.generation()
        _fill(store, _TOOLS)
        _embed(store)
        store.query_vectors.put("m", {"merge files": [1.0, 0.0]})
        with other.reading() as reader:
            _expect(promise, (reader.generation() != before, True), (_near(reader)[0], _SEND))
            _expect(promise, (_by_words(reader, "mailbox"), [_READ]))
        _expect(promise, (other.query_vectors.get("m", "merge files") is None, False))
        _fill(other, _FEWER)
        _expect(promise, (_paths(store), set(_FEWER)))
        _check_leases(store, other)
        store.close()
        _expect("closing one handle does not close others", (_paths(other), set(_FEWER)))
    promise = "what a store holds is still there when it is opened again"
    with reopen(store) as later:
        _expect(promise, (_paths(later), set(_FEWER)), (later.count_pending("m"), 0))


_CHECKS: tuple[Callable[[ToolStore], None], ...] = (
    *(_check_new, _check_sync, _check_parts, _check_passed_over, _check_snapshots, _check_readers),
    *(_check_roots, _check_close, _check_words, _check_fuzzy, _check_names),
    *(_check_entries, _check_pending, _check_refused, _check_nearest, _check_kept_vectors),
    *(_check_bad_vectors, _check_upkeep, _check_lengths, _check_filters, _check_categories),
    *(_check_usage_filters, _check_aliases, _check_usage, _check_odd_records, _check_retention),
    *(_check_query_vectors, _check_leases),
)
