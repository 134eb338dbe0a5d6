"""Copying an index from a file to a tree on a server, and back."""

from __future__ import annotations

import sqlite3
from array import array
from contextlib import closing
from typing import TYPE_CHECKING

from toolindex import DatabaseError, ToolIndex, backup_path, kept_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from toolindex_postgres._address import Address
    from toolindex_postgres._store import SharedStore

    Progress = Callable[[str, int, int | None], object]

_BATCH = 500


def existing_file(target: Path) -> Path | None:
    """Return which of the files of an index exists already, or None."""
    files = target, kept_path(target), backup_path(target)
    return next((it for it in files if it.exists()), None)


def to_server(source: Path, store: SharedStore, address: Address, progress: Progress) -> str:
    """Copy vectors and the usage record of a file; repeating it only adds what is missing.

    Args:
        source: The file.
        store: The tree, which already has the tools of their files.
        address: Its address.
        progress: Called with a stage, what is done, and the total.

    Returns:
        What was copied, as a sentence.
    """
    with closing(ToolIndex(source, read_only=True)) as old:
        vectors = _add_vectors(old, store, progress)
        # The copy has what this host has already sent; other hosts do not send this record.
        known = store.copy.usage
        ids, equal = {it.id for it in known.searches()}, set(known.outcomes())
        searches = [it for it in old.usage.searches() if it.id not in ids]
        outcomes = [it for it in old.usage.outcomes() if it not in equal]
        store.usage.record_searches(searches)
        store.usage.record_outcomes(outcomes)
    where = str(address.of(store.tree))
    with store.reading() as reader:
        return _report(where, reader.coverage("").tools, vectors, len(searches), len(outcomes))


def fetched(store: SharedStore) -> str:
    """Fetch everything of a tree into its copy; return the copy's file, or "" without tools.

    Raises:
        DatabaseError: The server cannot be reached.
    """
    if problem := store.freshness().problem:
        where, _, reason = problem.partition(": ")
        raise DatabaseError(where, reason)
    with store.reading() as reader:
        if not reader.coverage("").tools:
            return ""
    # This includes the records of other hosts.
    store.usage.statistics()
    return store.copy.where


def to_file(copy: Path, target: Path) -> str:
    """Make a new file from the file of a copy, complete or not at all."""
    partial = target.with_name(f"{target.name}.partial")
    for source, made in ((copy, partial), (kept_path(copy), kept_path(partial))):
        # Left over from an interrupted run.
        made.unlink(missing_ok=True)
        if source.exists():
            with (
                closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as old,
                closing(sqlite3.connect(made)) as new,
            ):
                old.backup(new)
    if kept_path(partial).exists():
        kept_path(partial).replace(kept_path(target))
    partial.replace(target)
    with closing(ToolIndex(target, read_only=True)) as index, index.reading() as reader:
        vectors = sum(reader.coverage(model).vectors for model in reader.models())
        usage = index.usage
        counts = len(usage.searches()), len(usage.outcomes())
        return _report(str(target), reader.coverage("").tools, vectors, *counts)


def _report(where: str, tools: int, vectors: int, searches: int, outcomes: int) -> str:
    return (
        f"{where} has {tools} tools; copied: {vectors} vectors, "
        f"{searches} searches, {outcomes} outcomes"
    )


def _add_vectors(old: ToolIndex, store: SharedStore, progress: Progress) -> int:
    added = 0
    with old.reading() as reader:
        given = {model: reader.vectors(model) for model in reader.models()}
    for model, by_id in given.items():
        floats = {id_: array("f", vector) for id_, vector in by_id.items()}
        lengths = {len(vector) for vector in floats.values()}
        if len(lengths) != 1:
            continue
        store.use_model(model, dimensions=lengths.pop())
        with store.reading() as new:
            held = frozenset(new.with_vectors(floats, model_id=model))
        missing = [id_ for id_ in floats if id_ not in held]
        for start in range(0, len(missing), _BATCH):
            progress("copying vectors", start, len(missing))
            by_hash: dict[str, array[float]] = {}
            for id_ in missing[start : start + _BATCH]:
                # If a file has changed since, its text is different.
                same = set(old.text_hashes([id_])) & set(store.text_hashes([id_]))
                by_hash |= dict.fromkeys(same, floats[id_])
            store.put_vectors(model, by_hash)
            added += len(by_hash)
    return added
