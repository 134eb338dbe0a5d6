"""Copying an index to a server or from it; to a server, tools are read from their files again."""

from __future__ import annotations

import asyncio
from array import array
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolindex import ToolIndex, finish_in_thread

from pytools_hybrid.errors import PytoolsError, SettingsError
from pytools_hybrid.index import SharedIndex, open_store
from pytools_hybrid.jobs.evaluate import copy_files
from pytools_hybrid.search import ToolSearch
from pytools_hybrid.settings import check_roots

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from toolindex import ToolStore

    from pytools_hybrid.settings import Roots, Settings

_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The contents of an index after it was copied.

    Attributes:
        vectors: How many vectors were copied this time.
        searches: How many recorded searches were copied.
        outcomes: How many recorded outcomes were copied.
    """

    where: str
    tools: int
    vectors: int
    searches: int
    outcomes: int

    def __str__(self) -> str:
        return (
            f"{self.where} has {self.tools} tools; copied: {self.vectors} vectors, "
            f"{self.searches} searches, {self.outcomes} outcomes"
        )


async def to_server(
    given: Settings, wanted: Settings, progress: Callable[[str, int, int | None], object]
) -> Moved:
    """Copy an index from a file to a server. Repeating it only adds what is missing.

    Raises:
        SettingsError: There is no such file, or a root does not exist.
        ToolIndexError: The file cannot be read, or the server cannot be written to.
    """
    source = given.db_path
    if source is None or not source.is_file():
        raise SettingsError("FROM", f"{source} does not exist; pytools-hybrid cache lists indexes")
    roots, _ = wanted.resolved_root()
    check_roots(roots, wanted.origins.get("root", "--root"))
    async with ToolSearch(roots, wanted, refresh=False) as tools:
        done = await tools.index.bring_up_to_date(vectors=False, progress=progress)
        if done.files_error is not None:
            raise done.files_error
        copy, store = wanted.resolved_database(roots), tools.index.store
        with closing(ToolIndex(source, read_only=True)) as old:
            vectors = await finish_in_thread(_add_vectors, old, store, progress)
            searches, outcomes = await finish_in_thread(_add_usage, old, store, copy)
        count = (await tools.index.state()).coverage.tools
    where = str(wanted.resolved_server(roots))
    return Moved(where=where, tools=count, vectors=vectors, searches=searches, outcomes=outcomes)


async def to_file(given: Settings, wanted: Settings) -> Moved:
    """Copy a tree from a server to a new file, which is created complete or not at all.

    Raises:
        SettingsError: The file exists, or the tree is not named or has no tools.
        PytoolsError: The server cannot be reached.
        ToolIndexError: The server refuses, or the file cannot be written.
    """
    target = wanted.db_path
    for there in () if target is None else ToolIndex.files(target):
        if there.exists():
            raise SettingsError("TO", f"{there} exists already; give the path of a new file")
    if target is None:
        raise SettingsError("TO", "give the path of a new file")
    given, roots = _readable(given)

    def take() -> Moved:
        with closing(open_store(roots, given)) as store:
            if isinstance(store, SharedIndex) and (problem := store.freshness().problem):
                raise PytoolsError(problem)
            with store.reading() as reader:
                if not reader.coverage("").tools:
                    raise SettingsError(
                        "FROM",
                        f"{given.resolved_server(roots)} has no tools; pytools-hybrid database "
                        "status lists the trees",
                    )
            # This includes the records of other hosts.
            store.usage.statistics()
            _copy_whole(given.resolved_database(roots), target)
        with closing(ToolIndex(target, read_only=True)) as index, index.reading() as reader:
            return Moved(
                where=str(target),
                tools=reader.coverage("").tools,
                vectors=sum(reader.coverage(model).vectors for model in reader.models()),
                searches=len(index.usage.searches()),
                outcomes=len(index.usage.outcomes()),
            )

    return await asyncio.to_thread(take)


def _readable(given: Settings) -> tuple[Settings, Roots]:
    """Return settings that do not require the files, if they are not on this host."""
    with suppress(SettingsError):
        roots, _ = given.resolved_root()
        check_roots(roots, "root")
        return given, roots
    given = given.model_copy(update={"sync": False})
    return given, given.resolved_root()[0]


def _copy_whole(database: Path, target: Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    for part in (partial, ToolIndex.files(partial).durable):
        # Left over from an interrupted run.
        part.unlink(missing_ok=True)
    copy_files(database, partial)
    if ToolIndex.files(partial).durable.exists():
        ToolIndex.files(partial).durable.replace(ToolIndex.files(target).durable)
    partial.replace(target)


def _add_vectors(
    old: ToolIndex, store: ToolStore, progress: Callable[[str, int, int | None], object]
) -> int:
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


def _add_usage(old: ToolIndex, store: ToolStore, copy: Path) -> tuple[int, int]:
    with closing(ToolIndex(copy, read_only=True)) as now:
        known = {it.id for it in now.usage.searches()}, set(now.usage.outcomes())
    searches = [it for it in old.usage.searches() if it.id not in known[0]]
    outcomes = [it for it in old.usage.outcomes() if it not in known[1]]
    store.usage.record_searches(searches)
    store.usage.record_outcomes(outcomes)
    return len(searches), len(outcomes)
