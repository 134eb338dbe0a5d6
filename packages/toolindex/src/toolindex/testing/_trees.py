"""Helpers for the checks of a store: small trees of tools, filled stores, comparisons."""

from __future__ import annotations

import math
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from toolscan import ScanReport, scan

from toolindex._filters import ToolFilter

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping, Sequence

    from toolindex._stored import StoredFiles
    from toolindex.errors import ToolIndexError
    from toolindex.protocols import Candidate, StoreReader, ToolStore

EVERY = ToolFilter()
ODD_TEXTS = (
    "",
    'say "hi',
    "C++ foo:bar -x*",
    "NEAR(a b)",
    "a\0b",
    "名前 🛠",
    "\ud800",
    "x " * 5_000,
)
READER = "1"


def module(description: str, *tags: str) -> str:
    """Return the source of a tool that can be found by the words of its description."""
    return f'__tags__ = {list(tags)}\ndef run() -> None:\n    """{description}"""\n'


TOOLS: Mapping[str, str] = {
    "mcptools/mail/send.py": module("Send a message to somebody.", "post", "outgoing"),
    "mcptools/mail/read.py": module("Read the messages of a mailbox.", "post"),
    "mcptools/pdf/merge.py": module("Merge several files into one."),
    "gentools/pdf/split/api.py": module("Split a file into pages."),
}
SEND, READ, MERGE, SPLIT = (
    "mcptools:mail:send",
    "mcptools:mail:read",
    "mcptools:pdf:merge",
    "gentools:pdf:split",
)


def expect(actual: object, expected: object, promise: str) -> None:
    """Compare two values; the message of a failure is the broken promise."""
    if actual != expected:
        raise AssertionError(f"{promise}: expected {expected!r}, got {actual!r}")


@contextmanager
def refused(kind: type[ToolIndexError], promise: str) -> Generator[None]:
    """Expect a block to raise an error."""
    try:
        yield
    except kind:
        return
    except Exception as error:
        raise AssertionError(f"{promise}: expected {kind.__name__}, got {error!r}") from error
    raise AssertionError(f"{promise}: expected {kind.__name__}, nothing was raised")


def scanned(
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


def fill(
    store: ToolStore,
    modules: Mapping[str, str] | ScanReport,
    *,
    reader_version: str = READER,
    within: Collection[str] | None = None,
    stored: StoredFiles | None = None,
) -> tuple[int, int, int, int]:
    """Sync a store with modules; return how many were added, updated, removed, unchanged."""
    report = store.sync(
        modules if isinstance(modules, ScanReport) else scanned(modules),
        reader_version=reader_version,
        within=within,
        stored=stored,
    )
    return report.added, report.updated, report.removed, report.unchanged


def stored_paths(store: ToolStore, *, within: Collection[str] | None = None) -> set[str]:
    """Return the paths of the files in a store."""
    held = store.stored(reader_version=READER, within=within)
    return {entry.path for entry in held.entries.values()}


def embed(store: ToolStore, angles: Mapping[str, float], *, model_id: str = "m") -> None:
    """Store vectors for pending texts, with two dimensions, length 2 and an angle by first word."""
    vectors = {
        text_hash: [2 * math.cos(angle), 2 * math.sin(angle)]
        for text_hash, text in store.pending(model_id, limit=1_000).items()
        if (angle := angles.get(text.split()[0])) is not None
    }
    store.put_vectors(model_id, vectors)


def ids(candidates: Sequence[Candidate]) -> list[str]:
    """Check the order of candidates, and return their ids."""
    scored = [(-candidate.score, candidate.id) for candidate in candidates]
    expect(scored, sorted(scored), "candidates are ordered best first, equal scores by id")
    found = [id_ for _, id_ in scored]
    expect(sorted(found), sorted(set(found)), "each tool occurs once among the candidates")
    return found


def words(
    reader: StoreReader, query: str, *, where: ToolFilter = EVERY, depth: int = 10
) -> list[str]:
    """Return the ids of the candidates that share words with a query."""
    return ids(reader.lexical(query, where=where, depth=depth))


def near(
    reader: StoreReader, *, model_id: str = "m", where: ToolFilter = EVERY, depth: int = 10
) -> list[str]:
    """Return the ids of candidates near angle 0."""
    return ids(reader.nearest([3.0, 0.0], model_id=model_id, where=where, depth=depth))
