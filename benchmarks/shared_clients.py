# pyright: basic
"""The processes of `shared.py`: what each does with a shared index, and what that costs."""

from __future__ import annotations

import multiprocessing
import os
import time
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pytools_hybrid.index import SQLiteStore
from tool_tree import queries, records
from toolembed import StaticEmbedder
from toolindex import ToolFilter
from toolindex_postgres import SharedStore
from toolindex_postgres._connections import Connection
from toolscan import ScanReport
from toolscan._extract import hash_text

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

    from toolindex import ToolStore
    from toolscan import ToolRecord

    from tests.postgres import Server

MODEL = "static"
REQUESTS = 60
EVERY = ToolFilter()
_SYNCS = 20
_processes = multiprocessing.get_context("spawn")


def opened(mode: str, address: str, folder: Path, *, read_only: bool = True) -> Any:  # noqa: ANN401
    file = SQLiteStore(folder / "search.db")
    return SharedStore(file, address, tree="t", read_only=read_only) if mode == "copy" else file


def search(store: ToolStore, text: str, vector: list[float], *, by_vectors: bool) -> None:
    with store.reading() as reader:
        hits = [*reader.lexical(text, where=EVERY, depth=100), *reader.named(text, where=EVERY)]
        if by_vectors:
            hits += reader.nearest(vector, model_id=MODEL, where=EVERY, depth=100)
        reader.entries(list(dict.fromkeys(hit.id for hit in hits[:10])))


def _sync_one(store: ToolStore, tool: ToolRecord, words: Iterator[int]) -> None:
    """Write one tool with another text and its vector."""
    text = f"{tool.description} {next(words)}"
    tool = replace(tool, description=text, file_hash=hash_text(text), text_hash=hash_text(text))
    store.sync(ScanReport(records=(tool,)), reader_version="1", within=[tool.path])
    store.put_vectors(MODEL, {tool.text_hash: StaticEmbedder().encode_documents([text])[0]})


@dataclass
class Load:
    """What a client process does.

    Attributes:
        by: What it does: search by `words`, by `words, vectors`, or `syncs` of one tool each.
        mode: How it reads the index.
        address: The server.
        folder: Where its files are.
        tools: How many tools the tree has.
    """

    by: str
    mode: str
    address: str
    folder: Path
    tools: int

    def actions(self) -> Generator[Callable[[], None]]:
        """Open the store, and yield the actions, which can be repeated."""
        if self.by == "syncs":
            words = count()
            with closing(opened(self.mode, self.address, self.folder, read_only=False)) as store:
                for tool in islice(records(self.tools), _SYNCS):
                    yield partial(_sync_one, store, tool, words)
            return
        asked = queries(REQUESTS, self.tools)
        by_vectors = self.by != "words"
        pairs = zip(asked, StaticEmbedder().encode_queries(asked), strict=True)
        with closing(opened(self.mode, self.address, self.folder)) as store:
            for text, vector in pairs:
                yield partial(search, store, text, vector, by_vectors=by_vectors)


@dataclass
class _Result:
    """What a client process measured.

    Attributes:
        first: The seconds of its first action.
        taken: The seconds of each counted action.
        cpu: The CPU seconds of these.
        trips: The round trips of the first action, of the others of the first pass, and later.
        megabytes: The peak memory of the process.
    """

    first: float
    taken: list[float]
    cpu: float
    trips: list[int]
    megabytes: float


def _client(load: Load, start: Barrier, out: Queue[_Result]) -> None:
    trips, wait = [0], Connection.wait

    def waited(connection: Connection, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        trips[-1] += 1
        return wait(connection, *args, **options)

    def run(action: Callable[[], None]) -> float:
        began = time.perf_counter()
        action()
        return time.perf_counter() - began

    with patch.object(Connection, "wait", waited), closing(load.actions()) as every:
        actions = [next(every)]
        first = run(actions[0])
        trips.append(0)
        for action in islice(every, (_SYNCS if load.by == "syncs" else REQUESTS) - 1):
            run(action)
            actions.append(action)
        trips.append(0)
        start.wait()
        cpu = time.process_time()
        taken = [run(action) for action in actions * 2]
        cpu = time.process_time() - cpu
        start.wait()
        megabytes = _peak_memory()
        out.put(_Result(first, taken, cpu, trips, megabytes))
        # Wait until the server's CPU has been read, because ending processes would be missed.
        start.wait()


def _peak_memory() -> float:
    """Return this process's peak memory in MB; getrusage() would include its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def server_cpu(server: Server) -> float:
    """Return the CPU seconds of PostgreSQL's processes, including those that have ended."""
    main = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = stat.read_text().partition(" (")
        except OSError:
            continue
        fields = rest.rpartition(")")[2].split()
        if int(number) == main:
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == main:
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(server: Server, loads: list[Load]) -> str:
    clients = len(loads)
    start = _processes.Barrier(clients + 1)
    out: Queue[_Result] = _processes.Queue()
    workers = [_processes.Process(target=_client, args=(it, start, out)) for it in loads]
    for worker in workers:
        worker.start()
    start.wait()
    before, began = server_cpu(server), time.perf_counter()
    start.wait()
    seconds = time.perf_counter() - began
    used = server_cpu(server) - before
    start.wait()
    results = [out.get() for _ in workers]
    for worker in workers:
        worker.join()
    taken = [1_000 * it for result in results for it in result.taken]
    cuts = quantiles(taken, n=20)
    times = [clients, len(taken) // 2 - clients, len(taken)]
    each = zip(*(it.trips for it in results), strict=True)
    trips = [sum(it) / n for it, n in zip(each, times, strict=True)]
    waited = " / ".join(f"{it:,.1f}" for it in trips) if any(trips) else "–"
    cpu = f"{1_000 * used / len(taken):.2f}" if any(trips) else "–"
    return (
        f"{len(taken) / seconds:.0f} | {cuts[9]:.1f} / {cuts[18]:.1f} | "
        f"{1_000 * sum(it.cpu for it in results) / len(taken):.2f} | {cpu} | "
        f"{waited} | {1_000 * max(it.first for it in results):,.0f} | "
        f"{max(it.megabytes for it in results):.0f}"
    )
