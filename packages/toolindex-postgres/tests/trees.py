"""Trees of tools, vectors of their texts, and everything that a store returns for them."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from toolindex import SyncReport, ToolFilter
from toolscan import ScanReport, scan

READER = "1"
EVERY = ToolFilter()
MODEL = "model"
ONE = {"mail/send": "Send a message to somebody."}
TWO = {**ONE, "mail/read": "Read the messages of a mailbox."}


def report(tools: Mapping[str, str]) -> ScanReport:
    """Scan tools, given as docstrings by category and name."""
    return _scanned(tuple(sorted(tools.items())))


@lru_cache(maxsize=256)
def _scanned(tools: tuple[tuple[str, str], ...]) -> ScanReport:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tools:
            file = Path(folder, f"mcptools/{name}.py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f'def run(to: str) -> str:\n    """{text}"""\n', encoding="utf-8")
        return scan(folder)


def sync(
    store, tools: Mapping[str, str] | ScanReport, *, within: Iterable[str] | None = None
) -> SyncReport:
    """Make a store equal to tools, or only to some paths of them."""
    scanned = tools if isinstance(tools, ScanReport) else report(tools)
    paths = None if within is None else [f"mcptools/{name}.py" for name in within]
    return store.sync(scanned, reader_version=READER, within=paths)


def embed(store, *, limit: int = 1_000, model: str = MODEL) -> set[str]:
    """Embed pending texts; return their hashes."""
    texts = store.pending(model, limit=limit)
    store.put_vectors(model, {hash_: vector(hash_) for hash_ in texts})
    return set(texts)


def vector(text_hash: str) -> list[float]:
    """Return the vector of a text: pseudo-random, always the same, and not all zeros."""
    return [1.0 + byte for byte in hashlib.sha256(text_hash.encode()).digest()[:8]]


def ids(store) -> list[str]:
    """Return the names of the tools in a store."""
    with store.reading() as reader:
        return [id_.removeprefix("mcptools:") for id_ in reader.ids(EVERY)]


def known(store, queries: Collection[str] = ()) -> dict[str, object]:
    """Return all that a store returns about its tools, and its results for queries with scores."""
    with store.reading() as reader:
        every = reader.ids(EVERY)
        coverage = reader.coverage(MODEL)
        found: dict[str, object] = {
            "entries": dict(reader.entries(every)),
            # A host gets no vectors that no tool needs, so it may not know their length.
            "coverage": (
                coverage.tools,
                coverage.vectors,
                coverage.vectors and coverage.dimensions,
            ),
            "vectors": set(reader.with_vectors(every, model_id=MODEL)),
            "near": _hits(reader.nearest(vector("q"), model_id=MODEL, where=EVERY, depth=50)),
        }
        for query in queries:
            found[f"words of {query}"] = _hits(reader.lexical(query, where=EVERY, depth=50))
            found[f"fuzzy {query}"] = _hits(reader.fuzzy(query, where=EVERY, depth=50))
            found[f"names {query}"] = _hits(reader.named(query, where=EVERY))
    return found


def _hits(hits) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in hits]
