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

from toolindex import OutcomeRecord, SearchRecord, ToolFilter
from toolindex._errors import ForeignDatabaseError, ToolIndexError, VectorError
from toolindex._protocols import ToolStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from toolindex import StoredFiles
    from toolindex._protocols import Candidate, StoreReader

__all__ = ["check_store"]

_Store = TypeVar("_Store", bound=ToolStore)

_EVERY = ToolFilter()
_ODD_TEXTS = (
    "",
    'say "hi',
    "C++ foo:bar -x*",
    "NEAR(a b)",
    "a\0b",
    "名前 🛠",
    "\ud800",
    "x " * 5_000,
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
_SEND, _READ, _MERGE, _SPLIT = (
    "mcptools:mail:send",
    "mcptools:mail:read",
    "mcptools:pdf:merge",
    "gentools:pdf:split",
)
_SEND_FILE, _READ_FILE, _MERGE_FILE, _ = _TOOLS
_CHANGED = {**_TOOLS, _SEND_FILE: _module("Post a letter.")}
_FEWER = {path: source for path, source in _TOOLS.items() if path != _MERGE_FILE}
_WITHOUT_MAIL = {path: source for path, source in _TOOLS.items() if "mail" not in path}
_BULK = {
    f"mcptools/bulk/tool_{n:03}.py": _module("Send a message to somebody.", "bulk")
    for n in range(60)
}
# The angles of vectors, by the first word of a text.
_ANGLES = {"send": 0.0, "read": 0.5, "merge": 1.0, "split": 3.0}
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


def _expect(actual: object, expected: object, promise: str) -> None:
    """Compare two values; the message of a failure is the broken promise."""
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


def _embed(store: ToolStore, angles: Mapping[str, float], *, model_id: str = "m") -> None:
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
    _expect(scored, sorted(scored), "candidates are ordered best first, equal scores by id")
    found = [id_ for _, id_ in scored]
    _expect(sorted(found), sorted(set(found)), "each tool occurs once among the candidates")
    return found


def _by_words(
    reader: StoreReader, query: str, *, where: ToolFilter = _EVERY, depth: int = 10
) -> list[str]:
    """Return the ids of the candidates that share words with a query."""
    return _ids(reader.lexical(query, where=where, depth=depth))


def _near(
    reader: StoreReader, *, model_id: str = "m", where: ToolFilter = _EVERY, depth: int = 10
) -> list[str]:
    """Return the ids of candidates near angle 0."""
    return _ids(reader.nearest([3.0, 0.0], model_id=model_id, where=where, depth=depth))


def _check_new(store: ToolStore) -> None:
    """A new store is empty, and can be written."""
    _expect(store.read_only, False, "a store that can be written says so")
    _expect(_paths(store), set[str](), "a new store holds no files")
    _expect(dict(store.pending("m", limit=9)), {}, "a new store has no texts to embed")
    with store.reading() as reader:
        _expect(reader.is_complete(), False, "a new store does not hold a whole tree")
        _expect(_by_words(reader, "message") + _near(reader), [], "a new store finds nothing")
        _expect(list(reader.models()), [], "a new store has vectors of no model")


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
        _expect(_fill(store, modules), counts, promise)
        _expect(_paths(store), set(modules), "a store holds what was scanned")
        with store.reading() as reader:
            _expect(reader.is_complete(), True, "a synced store has a whole tree")
            generations.append(reader.generation())
        again = _fill(store, modules)
        _expect(again, (0, 0, 0, len(modules)), "repeating a sync changes nothing")
    _expect(len(set(generations)), 4, "the generation changes with every change")


def _check_parts(store: ToolStore) -> None:
    """A sync within some paths changes nothing elsewhere."""
    archive = "mcptools/mail/archive.py"
    _fill(store, {archive: _module("Put away.")}, within=["mcptools/mail"])
    with store.reading() as reader:
        _expect(reader.is_complete(), False, "a part that was synced is not a whole tree")
    known = store.stored(reader_version=_READER)
    _expect(known.is_complete, False, "a part that was synced is not a whole tree")
    _expect(set(known.hashes), {archive}, "a part that was synced is known")
    other = store.stored(reader_version="2")
    _expect(dict(other.hashes), {}, "what another reader made is not known")
    _fill(store, _TOOLS)
    part = {"mcptools/mail/archive.py": _module("Put a message away.")}
    counts = _fill(store, part, within=["mcptools/mail"])
    _expect(counts, (1, 0, 2, 0), "a sync within a folder adds and removes there")
    expected = {*part, "mcptools/pdf/merge.py", "gentools/pdf/split/api.py"}
    _expect(_paths(store), expected, "a sync within a folder leaves the rest alone")
    for within, paths in (
        (["mcptools"], {*part, "mcptools/pdf/merge.py"}),
        (["mcptools/pdf/merge.py", "gone"], {"mcptools/pdf/merge.py"}),
        (["mcptools/ma"], set[str]()),
        ([], set[str]()),
    ):
        held = _paths(store, within=within)
        _expect(held, paths, f"the files within {within} are those at and below these paths")


def _check_passed_over(store: ToolStore) -> None:
    """A file that the scan skipped as known keeps its entry."""
    scan = _scan(_TOOLS)
    _fill(store, scan)
    stamps = {record.path: record.stamp for record in scan.records}
    known = store.stored(reader_version=_READER)
    _expect(known.stamps, stamps, "a stored file has its stamp")
    hashes = {str(record.id): record.file_hash for record in scan.records}
    held = {id_: entry.file_hash for id_, entry in known.entries.items()}
    _expect(held, hashes, "a stored file has the hash of its content")
    counts = _fill(store, _scan({}, unchanged=_TOOLS))
    _expect(counts, (0, 0, 0, 4), "a skipped file keeps its entry")
    counts = _fill(store, _scan(_TOOLS, written_at=2))
    _expect(counts, (0, 0, 0, 4), "a file rewritten with the same bytes is unchanged")
    times = {stamp[1] for stamp in store.stored(reader_version=_READER).stamps.values()}
    _expect(times, {2}, "a rewritten file has its new stamp")
    later = (1, 3, 3, 1)
    touched = replace(_scan({}, unchanged=_TOOLS), touched={_SEND_FILE: later, _MERGE_FILE: None})
    promise = "a file that was skipped for its content has its new stamp"
    _expect(_fill(store, touched), (0, 0, 0, 4), promise)
    after = store.stored(reader_version=_READER).stamps
    _expect((after[_SEND_FILE], _MERGE_FILE in after), (later, False), promise)


def _check_snapshots(store: ToolStore) -> None:
    """A sync uses what was stored before its scan only if it is still valid."""
    _fill(store, _TOOLS)
    fresh = store.stored(reader_version=_READER)
    counts = _fill(store, _scan({}, unchanged=_TOOLS), stored=fresh)
    _expect(counts, (0, 0, 0, 4), "a sync accepts the stored files")
    _expect(_fill(store, _CHANGED, stored=fresh), (0, 1, 0, 3), "a sync accepts the stored files")
    promise = "a sync does not use stored files from before another change"
    _expect(_fill(store, _TOOLS, stored=fresh), (0, 1, 0, 3), promise)
    _fill(store, _FEWER)
    again = store.sync(_scan({}, unchanged=_TOOLS), reader_version=_READER, stored=fresh)
    promise = "paths that were passed over, but are not held any more, are to be scanned again"
    _expect(again.rescan, (_MERGE_FILE,), promise)
    _expect(_paths(store), set(_FEWER), promise)


def _check_readers(store: ToolStore) -> None:
    """Files read by another version are read again, and keep their vectors."""
    _fill(store, _TOOLS)
    _embed(store, {"send": 0.0, "read": 0.5, "merge": 1.0, "split": 1.5})
    promise = "what another reader made is not known"
    _expect(dict(store.stored(reader_version="2").stamps), {}, promise)
    part = {_SEND_FILE: _TOOLS[_SEND_FILE], _READ_FILE: _TOOLS[_READ_FILE]}
    counts = _fill(store, part, reader_version="2", within=["mcptools/mail"])
    _expect(counts, (0, 2, 0, 0), "a file that another reader has read is updated")
    promise = "reading a part again does not count for the whole tree"
    _expect(dict(store.stored(reader_version="2").stamps), {}, promise)
    _fill(store, _TOOLS, reader_version="2")
    held = store.stored(reader_version="2")
    _expect(set(held.stamps), set(_TOOLS), "what the same reader made is known")
    _expect(
        dict(store.stored(reader_version="1").stamps), {}, "what another reader made is not known"
    )
    _expect(dict(store.pending("m", limit=9)), {}, "a text that stays the same keeps its vector")


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
        _expect(_by_words(reader, "mailbox"), [_READ], promise)
        _expect(set(_by_words(reader, "several pages")), {_MERGE, _SPLIT}, promise)
        _expect(_by_words(reader, "merge several files")[0], _MERGE, "candidates come best first")
        _expect(_by_words(reader, "nothing_like_it"), [], promise)
        promise = "there are as many candidates as asked for, where there are that many"
        for depth in (1, 2):
            _expect(len(_by_words(reader, "mailbox several pages", depth=depth)), depth, promise)
        for text in _ODD_TEXTS:
            _by_words(reader, text)
    _fill(store, _CHANGED)
    with store.reading() as reader:
        _expect(_by_words(reader, "letter"), [_SEND], "a changed tool is found by its new words")
        _expect(_by_words(reader, "somebody"), [], "a changed tool is not found by its old words")


def _check_fuzzy(store: ToolStore) -> None:
    """Tools are found by words that are misspelt or cut short, and filters apply."""
    _fill(store, _TOOLS)
    with store.reading() as reader:
        promise = "a tool is found by a word that is right, misspelt or cut short"
        for query in ("mailbox", "mailbx", "mialbox", "mailbo"):
            found = _ids(reader.fuzzy(query, where=_EVERY, depth=10))
            _expect(found[:1], [_READ], f"{promise} (asked for {query!r})")
        found = _ids(reader.fuzzy("fils", where=_EVERY, depth=10))
        _expect(set(found), {_MERGE, _SPLIT}, promise)
        _expect(len(reader.fuzzy("fils", where=_EVERY, depth=1)), 1, "no more than asked for")
        found = _ids(reader.fuzzy("fils", where=ToolFilter(source="gentools"), depth=10))
        _expect(found, [_SPLIT], "a filter holds for misspelt words")
        _expect(
            list(reader.fuzzy("xyzzyq", where=_EVERY, depth=10)), [], "no word is like that one"
        )
        for text in _ODD_TEXTS:
            _ids(reader.fuzzy(text, where=_EVERY, depth=10))


def _check_names(store: ToolStore) -> None:
    """A tool is found by its name, in any spelling."""
    _fill(store, _TOOLS)
    with store.reading() as reader:
        promise = "a tool is found by its name, its category and name, or its id"
        for query in ("merge", "Merge()", "pdf_merge", "pdf merge", "PDF.merge", _MERGE):
            found = [hit.id for hit in reader.named(query, where=_EVERY)]
            _expect(found, [_MERGE], f"{promise} (asked for {query!r})")
        _expect(list(reader.named("", where=_EVERY)), [], promise)
        _expect(list(reader.named("merge", where=ToolFilter(source="gentools"))), [], promise)
        for text in _ODD_TEXTS:
            reader.named(text, where=_EVERY)
            reader.corrections(text)
            found = [it.id for it in reader.lexical(text, where=ToolFilter(), depth=3)]
            terms = reader.terms(text, found)
            _expect(set(terms) <= set(found), True, "terms are returned for the requested tools")
            _expect(all(terms.get(id_) for id_ in found), True, "tools found by words have some")
            shares = reader.lexical_coverage(text, found)
            _expect(set(shares) <= set(found), True, "shares are returned for the requested tools")
            _expect(
                all(0 < shares.get(id_, 0.0) <= 1 for id_ in found),
                True,
                "tools found by words have a share of them",
            )
            _expect(reader.lexical_scale(text) >= 0, True, "a scale is zero or more")


def _check_outcomes(store: ToolStore) -> None:
    """The outcomes of tools are counted, and tools without outcomes are left out."""
    _fill(store, _TOOLS)
    outcomes = [
        *((_SEND, True, None), (_SEND, True, 30.0), (_SEND, False, 90.0)),
        (_READ, False, None),
    ]
    store.usage.record_outcomes(
        OutcomeRecord(at=1.0, tool_id=id_, success=success, latency_ms=latency)
        for id_, success, latency in outcomes
    )
    with store.reading() as reader:
        _expect(
            dict(reader.outcomes()),
            {_SEND: (2, 1, 1, 30.0), _READ: (0, 1, 0, None)},
            "successes, failures and latencies are summarized for each tool that has any",
        )


def _check_entries(store: ToolStore) -> None:
    """Details are those of the scan."""
    scan = _scan(_TOOLS)
    _fill(store, scan)
    with store.reading() as reader:
        found = reader.entries([_SEND, "gone", "\ud800", _MERGE])
        _expect(set(found), {_SEND, _MERGE}, "an id that is gone is left out of the details")
        for record in scan.records:
            for id_, entry in reader.entries([str(record.id)]).items():
                for name in ("id", "path", "signature", "summary", "description", "parameters"):
                    promise = f"the {name} of {id_} is as scanned"
                    _expect(getattr(entry, name), getattr(record, name), promise)
                _expect(tuple(entry.tags), record.tags, f"the tags of {id_} are as scanned")
        _expect(dict(reader.entries([])), {}, "no ids have no details")


def _check_pending(store: ToolStore) -> None:
    """A text is pending for a model until its vector is stored, once for all tools."""
    twins = {path: _module("Join it.") for path in ("mcptools/a/join.py", "gentools/a/join/api.py")}
    _fill(store, {**_TOOLS, **twins})
    pending = store.pending("m", limit=99)
    _expect(len(pending), 5, "a text that two tools share is pending once")
    _expect(store.count_pending("m"), 5, "texts that are pending are counted")
    _expect(len(store.pending("m", limit=3)), 3, "no more texts are returned than requested")
    some = [*pending][:2]
    promise = "only requested texts are pending"
    _expect(set(store.pending("m", limit=99, among=[*some, "gone"])), set(some), promise)
    _embed(store, {"join": 0.0})
    with store.reading() as reader:
        _expect(
            _near(reader),
            ["gentools:a:join", "mcptools:a:join"],
            "a text's vector serves all tools",
        )
        coverage = reader.coverage("m")
        counts = coverage.tools, coverage.vectors, coverage.dimensions
        _expect(counts, (6, 2, 2), "coverage counts tools, and those with a vector")
        asked = ["gentools:a:join", "mcptools:a:join", _SEND, "gone", "\ud800"]
        promise = "tools with a vector of a model are distinguished from those without"
        _expect(set(reader.with_vectors(asked, model_id="m")), set(asked[:2]), promise)
        _expect(len(reader.with_vectors(asked, model_id="other")), 0, promise)
    _expect(store.count_pending("m"), 4, "a text with a vector is not pending")
    _expect(store.count_pending("other"), 5, "texts are pending for each model separately")


def _check_refused(store: ToolStore) -> None:
    """A text that a model refused is not pending for it, and its tools are named."""
    twins = {path: _module("Join it.") for path in ("mcptools/a/join.py", "gentools/a/join/api.py")}
    _fill(store, {**_TOOLS, **twins})
    pending = store.pending("m", limit=99)
    reasons = {key: "too odd" for key, text in pending.items() if text.startswith("join")}
    promise, others = "a text that was refused is not pending", set(pending) - set(reasons)
    began = time.monotonic()
    store.refuse("m", reasons)
    after_one = set(store.pending("m", limit=99))
    # Each refusal lasts longer than the last; on a slow machine, the first may be over by now.
    if time.monotonic() - began < _SURE_SECONDS:
        _expect(after_one, others, promise)
    for _ in range(_REFUSALS):
        store.refuse("m", reasons)
    store.refuse("m", {"a text that no tool has": "too late"})
    _expect(set(store.pending("m", limit=99)), others, promise)
    _expect(store.count_pending("m"), 4, "a text that was refused is not counted as pending")
    promise = "texts are refused for each model separately"
    counts = (store.count_pending("other"), len(store.refused("other")))
    _expect(counts, (5, 0), promise)
    named = dict.fromkeys(("gentools:a:join", "mcptools:a:join"), "too odd")
    promise = "every tool whose text was refused is named with the reason, and no other"
    _expect(dict(store.refused("m")), named, promise)
    store.put_vectors("m", {text_hash: [1.0, 0.0] for text_hash in reasons})
    _expect(dict(store.refused("m")), {}, "a text that has a vector is no longer refused")


def _check_nearest(store: ToolStore) -> None:
    """Tools are found by the cosine of their vectors."""
    _fill(store, _TOOLS)
    _embed(store, _ANGLES)
    _embed(store, dict(zip(_ANGLES, reversed(_ANGLES.values()), strict=True)), model_id="other")
    with store.reading() as reader:
        _expect(
            _near(reader),
            [_SEND, _READ, _MERGE, _SPLIT],
            "tools are sorted by the cosine of their vectors",
        )
        _expect(_near(reader, depth=2), [_SEND, _READ], "the nearest tools are those that are kept")
        _expect(_near(reader, model_id="other")[0], _SPLIT, "models do not disturb each other")
        _expect(_near(reader, model_id="unknown"), [], "a model without vectors finds nothing")
        _expect(
            {id_: len(it) for id_, it in reader.vectors("m").items()},
            dict.fromkeys([_SEND, _READ, _MERGE, _SPLIT], 8),
            "each tool's vector can be read",
        )
        _expect(
            set(reader.models()), {"m", "other"}, "models whose vectors can be searched are named"
        )
        found = reader.nearest([3.0, 0.0], model_id="m", where=_EVERY, depth=9)
        for candidate, angle in zip(found, _ANGLES.values(), strict=True):
            alike = math.isclose(candidate.score, math.cos(angle), abs_tol=1e-3)
            _expect(alike, True, f"the score {candidate.score} is the cosine {math.cos(angle)}")


def _check_kept_vectors(store: ToolStore) -> None:
    """A vector is kept by its text, even if the tool is removed."""
    _fill(store, _TOOLS)
    with store.reading() as reader:
        states = [(reader.generation(), reader.state_of("m"))]
    late = {text_hash: [1.0, 1.0] for text_hash in store.pending("m", limit=9)}
    _fill(store, {})
    store.put_vectors("m", late)
    _fill(store, _TOOLS)
    _expect(store.count_pending("m"), 0, "the vector of a tool that was removed is kept")
    _fill(store, {})
    _fill(store, _TOOLS)
    _expect(store.count_pending("m"), 0, "a tool that comes back has its vector")
    with store.reading() as reader:
        _expect(len(_near(reader)), 4, "a tool that comes back is found by its vector")
    store.prune()
    _expect(store.count_pending("m"), 0, "a vector that a tool needs is never forgotten")
    _expect(store.use_model("m"), True, "a model with vectors can be used")
    _expect(store.use_model("unknown"), False, "a model without vectors cannot be used")
    _fill(store, _CHANGED)
    with store.reading() as reader:
        _expect(_SEND in _near(reader), False, "a changed tool is not found by its old vector")
        states.append((reader.generation(), reader.state_of("m")))
    _expect(store.count_pending("m"), 1, "a changed text is pending")
    _embed(store, _ANGLES)
    with store.reading() as reader:
        states.append((reader.generation(), reader.state_of("m")))
    for each in zip(*states, strict=True):
        _expect(len(set(each)), 3, "the generation and a model's state change with its vectors")


def _check_bad_vectors(store: ToolStore) -> None:
    """Vectors that cannot be searched are refused, and nothing of their batch is kept."""
    _fill(store, _TOOLS)
    first, second, *_ = store.pending("m", limit=9)
    infinite: list[list[float]] = [[math.nan, 1.0], [math.inf, 0.0], [1e39, 1.0]]
    for bad in (*infinite, [0.0, 0.0], [1e-320, 0.0], [1.0], []):
        with _refused(VectorError, f"a batch with the vector {bad} is refused"):
            store.put_vectors("m", {first: [1.0, 0.0], second: bad})
        _expect(store.count_pending("m"), 4, "nothing of a refused batch is stored")
    store.put_vectors("m", {})


def _check_upkeep(store: ToolStore) -> None:
    """A rebuild loses nothing but the vectors that it is asked to forget."""
    _fill(store, _TOOLS)
    _embed(store, _ANGLES)
    _embed(store, _ANGLES, model_id="other")
    _expect(list(store.check()), [], "a store without damage is consistent")
    store.rebuild(forget="other")
    _expect(list(store.check()), [], "a rebuilt store is consistent")
    _expect(store.count_pending("m"), 0, "a rebuild keeps vectors")
    forgotten = store.pending("other", limit=9)
    _expect(len(forgotten), 4, "a rebuild forgets the vectors of the model that is named")
    _expect(
        set(store.text_hashes([_SEND, _READ, "gone"])) < set(forgotten),
        True,
        "the hashes of tools' texts are those of pending texts",
    )
    with store.reading() as reader:
        _expect(_by_words(reader, "mailbox"), [_READ], "a rebuilt store is searched by words")
        _expect(_near(reader)[0], _SEND, "a rebuilt store is searched by vectors")


def _check_lengths(store: ToolStore) -> None:
    """A model that changes the length of its vectors counts as another model."""
    _fill(store, _TOOLS)
    _embed(store, _ANGLES)
    store.use_model("m", dimensions=3)
    _expect(store.count_pending("m"), 4, "all texts are pending for vectors of another length")
    with store.reading() as reader:
        _expect(len(_near(reader)), 4, "vectors of the length that was before are found")
        _expect(reader.coverage("m", dimensions=2).vectors, 4, "and they are counted")
        _expect(reader.coverage("m").vectors, 0, "vectors of the length put to use are counted")
    store.put_vectors(
        "m", {text_hash: [1.0, 0.0, 0.0] for text_hash in store.pending("m", limit=9)}
    )
    with store.reading() as reader:
        found = reader.nearest([1.0, 0.0, 0.0], model_id="m", where=_EVERY, depth=9)
        _expect(len(found), 4, "vectors of the new length are found")
        _expect(len(_near(reader)), 4, "and those of the old one still are")
        _expect(list(reader.models()), ["m"], "both are of one model")
    store.use_model("m", dimensions=2)
    _expect(store.count_pending("m"), 0, "vectors of the length that was before are kept")


def _check_filters(store: ToolStore) -> None:
    """A filter passes the same tools in every channel, and finds all of them."""
    deep = {"mcptools/pdfs/scan.py": _module("Scan a file.", "post")}
    _fill(store, {**_BULK, **_TOOLS, **deep})
    far = {"send": 3.0, "read": 2.9, "merge": 3.1, "split": 2.8, "scan": 2.7}
    _embed(store, {"tool": 0.0} | far)
    for where, expected in (
        (ToolFilter(source="gentools"), {_SPLIT}),
        (ToolFilter(categories=["mail", "pdf"]), {_SEND, _READ, _MERGE, _SPLIT}),
        (ToolFilter(path_prefix="mcptools/pdf"), {_MERGE}),
        (ToolFilter(path_prefix="mcptools/mail/send.py"), {_SEND}),
        (ToolFilter(source="mcptools", categories=["pdf"]), {_MERGE}),
        (ToolFilter(tags=["post"]), {_SEND, _READ, "mcptools:pdfs:scan"}),
        (ToolFilter(tags=["post", "outgoing"]), {_SEND}),
        (ToolFilter(tags=["none has it"]), set[str]()),
        (ToolFilter(source="\ud800"), set[str]()),
    ):
        _expect_through(store, where, expected)


def _check_patterns(store: ToolStore) -> None:
    """A filter by id patterns passes the same tools in every channel."""
    odd = {"mcptools/pdf/[m]erge.py": _module("Merge no file.")}
    _fill(store, {**_BULK, **_TOOLS, **odd})
    angles = {"send": 3.0, "read": 2.9, "merge": 3.1, "split": 2.8, "m": 2.7}
    _embed(store, {"tool": 0.0} | angles)
    bracketed = "mcptools:pdf:[m]erge"
    for where, expected in (
        (ToolFilter(include=[_SEND]), {_SEND}),
        (ToolFilter(include=["*:mail:*", _MERGE]), {_SEND, _READ, _MERGE}),
        (ToolFilter(include=["*:pdf:*"]), {_MERGE, _SPLIT, bracketed}),
        (ToolFilter(include=["mcptools:????:*d"]), {_SEND, _READ}),
        (ToolFilter(include=["*:[m]erge"]), {bracketed}),
        (ToolFilter(include=["*:Mail:*"]), set[str]()),
        (ToolFilter(include=["*:mail"]), set[str]()),
        (ToolFilter(exclude=["*:bulk:*", "*e*d", bracketed]), {_MERGE, _SPLIT}),
        (ToolFilter(include=["*:mail:*"], exclude=[_READ]), {_SEND}),
        (ToolFilter(include=["\ud800*", "\0*"]), set[str]()),
    ):
        _expect_through(store, where, expected)


def _check_categories(store: ToolStore) -> None:
    """Tools that pass a filter are counted by source and category."""
    _fill(store, _TOOLS)
    mail, pdf, made = ("mcptools", "mail"), ("mcptools", "pdf"), ("gentools", "pdf")
    with store.reading() as reader:
        promise = "tools are counted by source and category"
        _expect(dict(reader.categories(_EVERY)), {mail: 2, pdf: 1, made: 1}, promise)
        for where, expected in (
            (ToolFilter(source="mcptools", categories=["pdf"]), {pdf: 1}),
            (ToolFilter(tags=["outgoing"]), {mail: 1}),
            (ToolFilter(exclude=["*:pdf:merge", "*:read"]), {mail: 1, made: 1}),
            (ToolFilter(source="none"), {}),
        ):
            promise = f"only tools that {where} lets through are counted"
            _expect(dict(reader.categories(where)), expected, promise)
            _expect(len(reader.ids(where)), sum(expected.values()), "and no others are listed")
        _expect(list(reader.ids(_EVERY)), sorted(reader.ids(_EVERY)), "ids are sorted")
        promise = "the last change of a tool has a time"
        _expect(reader.changed_at() is not None, True, promise)


def _check_usage_filters(store: ToolStore) -> None:
    """A filter by use judges tools by their outcomes, once there are enough of them."""
    _fill(store, {**_BULK, **_TOOLS})
    _embed(store, {"tool": 0.0, "send": 3.0, "read": 2.9, "merge": 3.1, "split": 2.8})
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
    here = ["mail", "pdf"]
    for where, expected in (
        (ToolFilter(categories=here, min_success_rate=0.5), {_READ, _MERGE, _SPLIT}),
        (ToolFilter(categories=here, min_success_rate=0.9), {_READ, _SPLIT}),
        (ToolFilter(min_success_rate=0.5, unknown="exclude"), {_READ, _MERGE}),
        (
            ToolFilter(categories=here, max_latency_ms=50, min_observations=4),
            {_SEND, _MERGE, _SPLIT},
        ),
        (
            ToolFilter(max_latency_ms=50, min_observations=1, unknown="exclude"),
            {_SEND, _MERGE},
        ),
    ):
        _expect_through(store, where, expected)


def _expect_through(store: ToolStore, where: ToolFilter, expected: set[str]) -> None:
    """Search with a depth that tools outside the filter would fill on their own."""
    with store.reading() as reader:
        by_meaning = set(_near(reader, where=where, depth=5))
        _expect(by_meaning, expected, f"{where} lets all of its tools through, by meaning")
        by_words = set(_by_words(reader, "message messages files file", where=where, depth=5))
        _expect(by_words, expected, f"{where} lets all of its tools through, by words")
        alike = set(_ids(reader.fuzzy("mesage messags fils file", where=where, depth=5)))
        _expect(alike, expected, f"{where} lets all of its tools through, by likeness")


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
        _expect(store.annotate(aliases), changed, promise)
        with store.reading() as reader:
            generations.append(reader.generation())
    promise = "the generation changes with aliases, and only then"
    _expect(len(set(generations)), 3, promise)
    _expect(generations[0], generations[1], promise)
    _expect_aliases(store, {_SEND: ["pigeon"], _READ: ["bell"]}, gone=["dispatch", "peruse"])
    with store.reading() as reader:
        held = {id_: tuple(entry.aliases) for id_, entry in reader.entries([_SEND, _MERGE]).items()}
    promise = "the aliases of a tool are those that were set"
    _expect(held, {_SEND: ("carrier pigeon",), _MERGE: ()}, promise)
    kept = store.annotate({_SEND: ["semaphore"], _READ: ["semaphore"]}, keep=[_SEND, "gone"])
    _expect(kept, 1, "tools whose aliases are kept are not counted")
    _expect_aliases(store, {_SEND: ["pigeon"], _READ: ["semaphore"]}, gone=["bell"])
    _fill(store, _CHANGED)
    _expect_aliases(store, {_SEND: ["pigeon", "letter"], _READ: ["semaphore"]}, gone=["somebody"])
    _fill(store, _WITHOUT_MAIL)
    _expect_aliases(store, {}, gone=["pigeon", "semaphore"])
    _fill(store, _TOOLS)
    _expect_aliases(store, {}, gone=["pigeon", "semaphore"])
    with store.reading() as reader:
        held = {id_: tuple(entry.aliases) for id_, entry in reader.entries([_SEND]).items()}
    _expect(held, {_SEND: ()}, "a tool that comes back has no aliases")


def _expect_aliases(store: ToolStore, found: dict[str, list[str]], *, gone: list[str]) -> None:
    with store.reading() as reader:
        for id_, queries in found.items():
            for query in queries:
                _expect(_by_words(reader, query), [id_], f"{id_} is found by its alias {query!r}")
        for query in gone:
            _expect(
                _by_words(reader, query),
                [],
                f"nothing is found by {query!r}, which is not an alias",
            )


def _searched(
    id_: str, *, at: float = 1.0, query: str = "q", results: tuple[str, ...] = (_READ, _SEND)
) -> SearchRecord:
    return SearchRecord(id=id_, at=at, query=query, mode="hybrid", results=results, latency_ms=2.0)


def _usage_generation(store: ToolStore) -> int:
    with store.reading() as reader:
        return reader.usage_generation()


def _check_usage(store: ToolStore) -> None:
    """Searches and outcomes are summarized."""
    generations = [_usage_generation(store)]
    _expect(store.usage.statistics().searches, 0, "a new store has no searches")
    store.usage.record_searches([_searched("a"), _searched("a"), _searched("b", at=5.0)])
    store.usage.record_searches([_searched("a"), _searched("c", query="none", results=())])
    outcomes = [
        OutcomeRecord(at=2.0, tool_id=_READ, success=True, latency_ms=10.0, search_id="a"),
        OutcomeRecord(at=3.0, tool_id=_READ, success=True, latency_ms=30.0),
        OutcomeRecord(at=4.0, tool_id=_READ, success=False, latency_ms=900.0),
        OutcomeRecord(at=4.0, tool_id=_SEND, success=False, search_id="b"),
    ]
    store.usage.record_outcomes(outcomes)
    generations.append(_usage_generation(store))
    found = store.usage.statistics()
    _expect(found.searches, 3, "a search that is recorded twice counts once")
    _expect(found.without_results, 1, "searches without results are counted")
    named = [(entry.query, entry.count) for entry in found.queries_without_results]
    _expect(named, [("none", 1)], "queries without results are named")
    accepted = found.judged, found.first_accepted
    _expect(accepted, (2, 1), "searches with outcomes are counted, and those whose first was right")
    used = [(tool.tool_id, tool.observations, tool.successes) for tool in found.tools]
    _expect(
        used, [(_READ, 3, 2), (_SEND, 1, 0)], "outcomes are counted by tool, the most used first"
    )
    latencies = [tool.latency_p50_ms for tool in found.tools]
    _expect(latencies, [10.0, None], "latencies are those of successes")
    for tool in found.tools:
        promise = "the usage of one tool is the same as in the statistics of all"
        _expect(store.usage.of_tool(tool.tool_id), tool, promise)
    _expect(store.usage.of_tool("other"), None, "a tool without outcomes has no usage")
    _expect(store.usage.statistics(since=4.5).searches, 1, "older records are left out")
    _expect(
        store.usage.statistics(top=0).queries_without_results, (), "no more queries than asked for"
    )
    kept = store.usage.searches
    _expect([it.id for it in kept()], ["a", "c", "b"], "searches are returned, oldest first")
    _expect([it.id for it in kept(since=4.5)], ["b"], "older searches are left out")
    promise = "searches that found a tool are returned"
    _expect([it.id for it in kept(found=_READ)], ["a", "b"], promise)
    _expect(len(kept(found=_READ[:-1])), 0, promise)
    _expect(store.usage.outcomes(), tuple(outcomes), "outcomes are returned, oldest first")
    its = store.usage.outcomes(since=2.5, tool_id=_READ)
    _expect(its, tuple(outcomes[1:3]), "outcomes of one tool are returned")
    _expect(store.usage.clear(), (3, 4), "what is deleted is counted")
    _expect(store.usage.statistics().searches, 0, "a record that was cleared is empty")
    promise = "a cleared record has no tools"
    _expect(store.usage.of_tool(_READ), None, promise)
    generations.append(_usage_generation(store))
    _expect(len(set(generations)), 3, "the usage generation changes with every change of outcomes")


def _check_odd_records(store: ToolStore) -> None:
    """Any string can be recorded."""
    for number, text in enumerate(_ODD_TEXTS):
        store.usage.record_searches([_searched(f"{number}{text}", query=text, results=(text,))])
        store.usage.record_outcomes([OutcomeRecord(at=1.0, tool_id=text, success=True)])
        of_text = store.usage.of_tool(text)
        promise = f"what is known of a tool is found by any string ({text[:20]!r})"
        _expect(of_text is not None and of_text.observations, 1, promise)
    found = store.usage.statistics()
    _expect(found.searches, len(_ODD_TEXTS), "any string can be recorded of a search")
    _expect(len(found.tools), len(_ODD_TEXTS), "any string can be recorded of an outcome")


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
        _expect(store.usage.retain(max_age_days=age, max_rows=rows), counts, promise)
    promise = "the usage generation moves when outcomes are deleted"
    _expect(_usage_generation(store) != before, True, promise)
    newest = store.usage.statistics(since=now - 1.5 * _DAY)
    _expect((newest.searches, len(newest.tools)), (1, 1), "the newest records are kept")


def _check_query_vectors(store: ToolStore) -> None:
    """Query vectors are kept by model and query."""
    kept = store.query_vectors
    _expect(kept.get("m", "merge"), None, "a query that was not asked has no vector")
    for query in ("merge", *_ODD_TEXTS):
        kept.put("m", {query: [3.0, 4.0]}, used=["merge"])
        values = list(kept.get("m", query) or ())
        alike = len(values) == 2 and math.isclose(values[0], 0.6, rel_tol=1e-6)
        promise = "the vector of a query is kept, at length 1"
        _expect(alike, True, f"{promise} ({query[:20]!r} has {values})")
    _expect(kept.get("other", "merge"), None, "models have separate vectors")
    _expect(
        kept.get("m", "merge", dimensions=3), None, "a vector of another length is not returned"
    )
    _expect(
        kept.get("m", "merge", dimensions=2) is None,
        False,
        "a vector of its own length is returned",
    )
    with _refused(VectorError, "query vectors of zeros are refused"):
        kept.put("m", {"zero": [0.0, 0.0]})


def _check_states(store: ToolStore, patience: float) -> None:
    """A reader sees one state of the store, and every later reader sees each change."""
    _fill(store, _TOOLS)
    _embed(store, _ANGLES)
    promise = "a reader sees one state of the store, whatever others write in the meantime"
    with store.reading() as reader:
        generation = reader.generation()
        _together([lambda: _fill(store, {})], patience, "a reader does not block writers")
        _expect(reader.coverage("m").tools, 4, promise)
        _expect(list(reader.entries([_READ])), [_READ], promise)
        _expect(_by_words(reader, "mailbox"), [_READ], promise)
        _expect(len(_near(reader)), 4, promise)
        _expect(reader.generation(), generation, promise)
    with store.reading() as reader:
        _expect(reader.coverage("m").tools, 0, "a reader sees every change that ended before it")


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
                _embed(store, _ANGLES)
        finally:
            ended.append(True)

    def read() -> None:
        while True:
            with store.reading() as reader:
                count = reader.coverage("m").tools
                _expect(count in {3, 4}, True, promise)
                found = _by_words(reader, "message messages files file")
                _expect(len(found), count, promise)
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
    _expect([thread for thread in threads if thread.is_alive()], [], promise)


def _check_leases(store: ToolStore) -> None:
    """A lease has one holder at a time."""
    first, second = store.lease("files"), store.lease("files")
    _expect(first.acquire(timeout=0), True, "a free lease can be acquired")
    _expect(second.acquire(timeout=0.01), False, "a lease has one holder at a time")
    other = store.lease("another kind of work")
    _expect(other.acquire(timeout=0), True, "a lease does not wait for that of other work")
    other.release()
    first.release()
    _expect(second.acquire(timeout=0), True, "a released lease is free")
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
        _embed(store, _ANGLES)
        store.query_vectors.put("m", {"merge files": [1.0, 0.0]})
        with other.reading() as reader:
            _expect(reader.generation() != before, True, promise)
            _expect(_by_words(reader, "mailbox"), [_READ], promise)
            _expect(_near(reader)[0], "mcptools:mail:send", promise)
        _expect(other.query_vectors.get("m", "merge files") is not None, True, promise)
        _fill(other, _FEWER)
        _expect(_paths(store), set(_FEWER), promise)
        mine, theirs = store.lease("files"), other.lease("files")
        _expect(mine.acquire(timeout=0), True, "a free lease can be acquired")
        _expect(
            theirs.acquire(timeout=0),
            False,
            "a lease has one holder at a time, among processes too",
        )
        mine.release()
        store.close()
        _expect(_paths(other), set(_FEWER), "closing one handle does not close others")
    with reopen(store) as later:
        promise = "what a store holds is still there when it is opened again"
        _expect(_paths(later), set(_FEWER), promise)
        _expect(dict(later.pending("m", limit=9)), {}, promise)


_CHECKS = (
    _check_new,
    _check_sync,
    _check_parts,
    _check_passed_over,
    _check_snapshots,
    _check_readers,
    _check_roots,
    _check_close,
    _check_words,
    _check_fuzzy,
    _check_names,
    _check_outcomes,
    _check_entries,
    _check_pending,
    _check_refused,
    _check_nearest,
    _check_kept_vectors,
    _check_bad_vectors,
    _check_upkeep,
    _check_lengths,
    _check_filters,
    _check_patterns,
    _check_categories,
    _check_usage_filters,
    _check_aliases,
    _check_usage,
    _check_odd_records,
    _check_retention,
    _check_query_vectors,
    _check_leases,
)
