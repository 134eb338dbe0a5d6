"""What a change has to change, found in the copy before the server is asked to do it."""

from __future__ import annotations

import math
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from toolindex import ToolFilter, VectorError, check_dimensions, plan_sync

from toolindex_postgres import _tree as tree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from toolindex import SyncPlan, ToolStore
    from toolscan import ScanReport

    from toolindex_postgres._connection import Connection
    from toolindex_postgres._tree import State

__all__ = ["changes_aliases", "checked", "different", "plan_of", "vectors_to_restore"]


def plan_of(
    copy: ToolStore,
    scanned: ScanReport,
    reader_version: str,
    within: Collection[str] | None,
    now: State | None,
) -> tuple[SyncPlan, bool, bool | None]:
    """Plan a sync, and find out what is then known about the tree's reader.

    Args:
        copy: The copy, in the state of the tree.
        scanned: As for `SharedStore.sync`; so are the next two.
        reader_version: The version of the reader.
        within: The paths that were scanned.
        now: The state of the tree, if it is known.

    Returns:
        The plan; whether it changes anything on the server; and whether all records are then from
        one reader and cover the whole tree, or None if that need not be recorded.
    """
    held = copy.stored(reader_version=reader_version, within=within)
    reread = not held.is_current
    plan = plan_sync(held.entries, scanned, within=within, reread=reread)
    # A copy stays complete, but its tree may have been dropped and created again.
    is_complete = held.is_complete if now is None else now.is_complete
    is_other = now is not None and now.reader_version != reader_version
    is_whole: bool | None = None
    if within is None and not plan.rescan and (reread or is_other or not is_complete):
        is_whole = True
    elif not reread and not is_complete:
        is_whole = False
    is_news = plan.added or plan.updated or plan.reread or plan.removed
    return plan, bool(is_news) or bool(is_whole), is_whole


def changes_aliases(
    copy: ToolStore, aliases: Mapping[str, Sequence[str]], keep: Collection[str]
) -> bool:
    """Return whether tools would get other aliases than they have in the copy."""
    with copy.reading() as reader:
        held = reader.entries(reader.ids(ToolFilter()))
    return any(
        tuple(aliases.get(id_, ())) != entry.aliases
        for id_, entry in held.items()
        if id_ not in keep
    )


def different(
    copy: ToolStore, connection: Connection, now: State, *, besides: Collection[str]
) -> list[str]:
    """Return the differences between the server and a copy of the same state, as sentences.

    Args:
        copy: The copy.
        connection: A connection to the server, inside a transaction.
        now: The state of the tree.
        besides: Ids of tools to ignore.
    """
    theirs = tree.listing(connection, now.tree, {})
    held = copy.stored(reader_version=now.reader_version or "").entries
    mine = {id_: (it.path, it.file_hash) for id_, it in held.items()}
    count = len({id_ for id_, _ in theirs.items() ^ mine.items()}.difference(besides))
    found = [f"tools that differ between the server and this host's copy: {count}"] if count else []
    if not tree.has_right_counters(connection, now.tree):
        found.append("the counters of the usage record are lower than the numbers of its events")
    return found


def vectors_to_restore(
    copy: ToolStore,
    connection: Connection,
    now: State,
    *,
    among: Collection[str],
    besides: str | None,
) -> Iterator[tuple[str, dict[str, array[float]]]]:
    """Yield vectors that a copy has and the server lacks, by model and text hash.

    Args:
        copy: The copy.
        connection: A connection to the server, inside a transaction.
        now: The state of the tree.
        among: The hashes of the texts.
        besides: A model to ignore.
    """
    with copy.reading() as reader:
        for model in reader.models() if among else ():
            length = reader.coverage(model).dimensions
            wanted = tree.without_vectors(connection, now.tree, model, length, among)
            if model == besides or not wanted:
                continue
            held = reader.vectors(model)
            found: dict[str, array[float]] = {}
            for id_ in wanted.keys() & held.keys():
                # The tool may have another text on the server.
                if wanted[id_] in copy.text_hashes([id_]):
                    with suppress(ValueError):
                        found[wanted[id_]] = tree.vector_of(held[id_], length)
            if found:
                yield model, found


def checked(model_id: str, vectors: Mapping[str, Sequence[float]]) -> dict[str, array[float]]:
    """Return vectors in their stored form, or reject them like the copy would.

    Raises:
        VectorError: They cannot be stored.
    """
    floats = {text_hash: array("f", vector) for text_hash, vector in vectors.items()}
    length = len(next(iter(floats.values())))
    check_dimensions(model_id, length)
    for vector in floats.values():
        size = math.hypot(*vector)
        if len(vector) != length or not math.isfinite(size) or not size:
            raise VectorError(
                model_id,
                "returned vectors of several lengths, or one that is not finite or all zeros",
            )
    return floats
