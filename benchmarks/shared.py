"""Searches of a shared index by several processes: a file, copies, and the server's pages.

    python benchmarks/shared.py --tools 10000 --clients 1 4 8

Each process makes the same requests through the application's store: words, names, and 256 numbers
compared with those of every tool. The first pass is not counted. `searches / s` and the percentiles
are the clients'; `server` is CPU of all of PostgreSQL's processes per search, `fetched` the pages
that a search got from it, `first` the first search of a process. Compare lines of one run.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import random
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
from pytools_hybrid.index import SQLiteStore
from tool_tree import queries, write_tree
from toolindex import ToolFilter
from toolindex_postgres import Database, EngineStore, SharedStore
from toolscan import scan

from tests.postgres import Server, serving

if TYPE_CHECKING:
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

    from toolindex import ToolStore

_MODEL = "random"
_NUMBERS = 256
_REQUESTS = 60
_EVERY = ToolFilter()
_PAGE_KB = 16


def _opened(mode: str, address: str, folder: Path) -> ToolStore:
    file = folder / "search.db"
    if mode == "file":
        return SQLiteStore(file)
    if mode == "copy":
        return SharedStore(SQLiteStore(file), address, tree="t", read_only=True)
    return EngineStore(
        lambda pages: SQLiteStore(folder / f"{os.getpid()}.db", pages=pages),
        address,
        tree="t",
        read_only=True,
    )


def _vector(text: str) -> list[float]:
    chance = random.Random(hashlib.sha256(text.encode()).digest())
    return [chance.gauss(0, 1) for _ in range(_NUMBERS)]


def _search(store: ToolStore, text: str, vector: list[float], *, by_vectors: bool) -> None:
    with store.reading() as reader:
        hits = [*reader.lexical(text, where=_EVERY, depth=100), *reader.named(text, where=_EVERY)]
        if by_vectors:
            hits += reader.nearest(vector, model_id=_MODEL, where=_EVERY, depth=100)
        reader.entries(list(dict.fromkeys(hit.id for hit in hits[:10])))


def _client(
    mode: str,
    address: str,
    folder: Path,
    asked: list[str],
    start: Barrier,
    out: Queue[tuple[float, list[float]]],
    *,
    by_vectors: bool,
) -> None:
    pairs = [(text, _vector(text)) for text in asked]
    with closing(_opened(mode, address, folder)) as store:
        began = time.perf_counter()
        _search(store, *pairs[0], by_vectors=by_vectors)
        first = time.perf_counter() - began
        for text, vector in pairs[::2]:
            _search(store, text, vector, by_vectors=by_vectors)
        start.wait()
        taken: list[float] = []
        for text, vector in pairs * 2:
            began = time.perf_counter()
            _search(store, text, vector, by_vectors=by_vectors)
            taken.append(time.perf_counter() - began)
        start.wait()
        out.put((first, taken))


def _server_cpu(server: Server) -> float:
    """Return the CPU seconds of PostgreSQL's processes, those that have ended too."""
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


def _pages_fetched(address: str) -> int:
    with psycopg.connect(address) as connection:
        row = connection.execute(
            "SELECT idx_tup_fetch FROM pg_stat_user_tables "
            "WHERE schemaname = 'toolindex' AND relname = 'page'"
        ).fetchone()
        return int(row[0] or 0) if row else 0


def _measure(
    mode: str, server: Server, address: str, folder: Path, clients: int, *, by_vectors: bool
) -> str:
    start = multiprocessing.Barrier(clients + 1)
    out: Queue[tuple[float, list[float]]] = multiprocessing.Queue()
    asked = queries(_REQUESTS, 1_000)
    workers = [
        multiprocessing.Process(
            target=_client,
            args=(mode, address, folder, asked, start, out),
            kwargs={"by_vectors": by_vectors},
        )
        for _ in range(clients)
    ]
    for worker in workers:
        worker.start()
    start.wait()
    cpu, began = _server_cpu(server), time.perf_counter()
    start.wait()
    seconds, cpu = time.perf_counter() - began, _server_cpu(server) - cpu
    results = [out.get() for _ in workers]
    for worker in workers:
        worker.join()
    taken = [1_000 * it for _, times in results for it in times]
    cuts = quantiles(taken, n=20)
    first = 1_000 * max(first for first, _ in results)
    return (
        f"{len(taken) / seconds:.0f} | {cuts[9]:.1f} / {cuts[18]:.1f} | "
        f"{1_000 * cpu / len(taken):.2f} | {first:.0f}"
    )


def main() -> None:
    """Build the index three times, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 8])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, serving(Server) as server:
        folder = Path(temporary)
        write_tree(folder / "tools", arguments.tools)
        report = scan(folder / "tools")
        address = server.address("postgres")
        with Database(address) as database:
            database.init()
        stores = {
            "file": SQLiteStore(folder / "search.db"),
            "engine": EngineStore(
                lambda pages: SQLiteStore(folder / "writer.db", pages=pages), address, tree="t"
            ),
        }
        for mode, store in stores.items():
            began, cpu = time.perf_counter(), time.process_time()
            store.sync(report, reader_version="1")
            seconds = time.perf_counter() - began, time.process_time() - cpu
            rate = [f"{len(report.records) / it:.0f}" for it in seconds]
            print(f"cold write, {mode}: {rate[0]} tools / s, {rate[1]} by the client's CPU")
            texts = sorted(store.pending(_MODEL, limit=2 * arguments.tools))
            store.put_vectors(_MODEL, {it: _vector(it) for it in texts})
            store.close()
        (folder / "copy").mkdir()
        with closing(_opened("copy", address, folder / "copy")) as copy, copy.reading():
            pass
        print(
            "| searched by | mode | clients | searches / s | p50 / p95 ms | server ms | first ms |"
        )
        print("|---|---|--:|--:|--:|--:|--:|")
        for by_vectors in (False, True):
            for clients in arguments.clients:
                for mode in ("file", "copy", "engine"):
                    before = _pages_fetched(address)
                    own = folder / "copy" if mode == "copy" else folder
                    line = _measure(mode, server, address, own, clients, by_vectors=by_vectors)
                    fetched = (_pages_fetched(address) - before) * _PAGE_KB / clients / 1_024
                    kind = "words, vectors" if by_vectors else "words"
                    note = f" ({fetched:.1f} MB by a process)" if mode == "engine" else ""
                    print(f"| {kind} | {mode} | {clients} | {line}{note} |", flush=True)


if __name__ == "__main__":
    main()
