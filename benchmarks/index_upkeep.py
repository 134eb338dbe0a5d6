"""Measure creating an index, finding it unchanged, and following one file."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath

import toolscan
from index_figures import Figure, Times, best
from pytools_hybrid import SearchMode, Settings, ToolSearch
from pytools_hybrid.index import Follower, SQLiteStore, TreeSync
from tool_tree import reword
from toolembed import StaticEmbedder, embed_pending

__all__ = ["cold", "one_file", "restart", "watched"]

_MODEL_ID = StaticEmbedder().model_id
_READER = str(toolscan.ToolRecord.VERSION)
_STEP_SECONDS = 0.01
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.001
# Batches within a quarter of a second of each other are delayed.
_APART_SECONDS = 0.4
_LETTERS = "abcdefghij"


def cold(root: Path, database: Path, tools: int) -> list[Figure]:
    """Scan, index and embed a tree in an empty database, which the other measurements use."""
    (scanning,) = best(1, lambda: toolscan.scan(root))
    with SQLiteStore(database) as store:
        (indexing,) = best(1, lambda: TreeSync(store, root).scan())
        embedder = StaticEmbedder()
        embedder.encode_queries(["loads the model"])
        (embedding,) = best(1, lambda: asyncio.run(embed_pending(store, embedder)))
        if store.count_pending(_MODEL_ID):
            raise SystemExit("some texts were not embedded")
    size = sum(file.stat().st_size for file in database.parent.glob(f"{database.name}*"))
    return [
        Figure(
            what="cold index, CPU",
            value=indexing,
            unit="s",
            floor="scan",
            least=scanning,
            grows=True,
        ),
        Figure(what="embed all, CPU", value=embedding, unit="s", grows=True),
        Figure(what="embedded in a CPU second", value=tools / embedding, unit="texts"),
        Figure(what="database, a tool", value=size / tools / 1000, unit="kB"),
    ]


def restart(root: Path, database: Path, *, repeat: int) -> list[Figure]:
    """Open an index, and find that its tree has not changed."""
    with SQLiteStore(database) as store:
        stamps = store.stored(reader_version=_READER).stamps

    def start() -> None:
        with SQLiteStore(database) as store:
            report = TreeSync(store, root).scan()
        if report.added or report.updated or report.removed:
            raise SystemExit("the tree has changed")

    started, scanned = best(repeat, start, lambda: toolscan.scan(root, known=stamps))
    return [
        Figure(
            what="restart, nothing changed, CPU",
            value=1000 * started,
            unit="ms",
            floor="unchanged scan",
            least=1000 * scanned,
            aim=1.5,
            grows=True,
        )
    ]


def one_file(root: Path, database: Path, paths: list[str]) -> list[Figure]:
    """Update the index after one file was written, given its path."""
    changed, scanned = Times(), Times()
    with SQLiteStore(database) as store:
        for path in paths:
            reword(root / path, "reworded")
            within = [PurePosixPath(path)]
            changed.add(partial(TreeSync(store, root).scan, within))
            scanned.add(partial(toolscan.scan, root, within=[path]))
    return changed.figures("one file → searchable", "its scan", scanned)


def watched(root: Path, database: Path, paths: list[str]) -> list[Figure]:
    """Write files while a service runs, and search until each is found."""
    settings = Settings.from_flags({"database": database, "usage_log": False})
    found = asyncio.run(_watched(settings, root, paths))
    beyond = Times([wall - _STEP_SECONDS for wall in found.wall], found.cpu)
    p50, p95, cpu = beyond.figures("write → found by search, beyond the debounce")
    return [
        Figure(what=p50.what, value=p50.value, unit="ms", aim=30),
        p95,
        Figure(what="write → found and embedded, CPU", value=cpu.value, unit="ms", grows=True),
    ]


async def _watched(settings: Settings, root: Path, paths: list[str]) -> Times:
    times = Times()
    async with ToolSearch(root, settings, refresh=False) as search:
        follower = Follower(search.index)
        following = asyncio.create_task(follower.run())
        await follower.wait_until_ready()
        await _until(partial(_is_embedded, search))
        for number, path in enumerate(paths):
            await asyncio.sleep(_APART_SECONDS)
            # A word of letters alone, without an ending to stem, which no other file contains.
            digits = f"{os.getpid()}{number}"
            word = f"reworded{''.join(_LETTERS[int(digit)] for digit in digits)}x"
            generation = _generation(search)
            wall, cpu = time.perf_counter(), time.process_time()
            reword(root / path, word)
            while not await _finds(search, word, path):
                # Read only the generation, to add little load to what is measured.
                await _until(partial(_has_moved_on, search, generation))
                generation = _generation(search)
            wall = time.perf_counter() - wall
            await _until(partial(_is_embedded, search))
            cpu = time.process_time() - cpu
            if number:  # the first one also starts the watcher
                times.wall.append(wall)
                times.cpu.append(cpu)
        following.cancel()
        await asyncio.wait({following})
    return times


async def _finds(search: ToolSearch, word: str, path: str) -> bool:
    response = await search.search(word, mode=SearchMode.BM25, limit=1)
    return [found.entry.path for found in response.tools] == [path]


def _generation(search: ToolSearch) -> int:
    with search.index.store.reading() as reader:
        return reader.generation()


def _has_moved_on(search: ToolSearch, generation: int) -> bool:
    return _generation(search) != generation


def _is_embedded(search: ToolSearch) -> bool:
    with search.index.store.reading() as reader:
        coverage = reader.coverage(_MODEL_ID)
    return coverage.vectors == coverage.tools


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(_POLL_SECONDS)
