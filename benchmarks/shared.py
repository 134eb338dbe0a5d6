# pyright: basic
"""Searches of a shared index by several processes: a file, copies, and the server's pages.

    python benchmarks/shared.py --tools 10000 --clients 1 4 8

Each process makes the same requests through the application's store: by words and names, and by
vectors of the model `static`, too. The first pass is not counted. `searches / s` and percentiles
are the clients'; `client` and `server` are CPU per search, of all processes of PostgreSQL for the
second; `fetched` is what a search got of pages, in the first pass and later; `first` the first
search of a process. Compare lines of one run.

Up to 20,000 tools, a host in engine mode writes the server's tables by syncs, which are timed. More
are written to a file by syncs; from its pages and from the same records the tables are filled by
COPY, with what such a host would have written.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from itertools import islice
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
from pytools_hybrid.index import SQLiteStore
from tool_tree import queries, records
from toolembed import StaticEmbedder
from toolindex import ToolFilter
from toolindex_postgres import Database, EngineStore, SharedStore
from toolindex_postgres._notes import Note, Notes
from toolindex_postgres._pages import PageView
from toolindex_postgres._texts import encoded, record_texts
from toolscan import ScanReport, embedding_text

from tests.postgres import Server, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

    from toolindex import ToolStore
    from toolscan import ToolRecord

_MODEL = "static"
_REQUESTS = 60
_EVERY = ToolFilter()
_PAGE_KB = 16
_PORTION = 20_000
_Result = tuple[float, list[float], float, int, int]


def _opened(mode: str, address: str, folder: Path) -> ToolStore:
    file = folder / "search.db"
    if mode == "file":
        return SQLiteStore(file)
    if mode == "copy":
        return SharedStore(SQLiteStore(file), address, tree="t", read_only=True)
    return _engine(folder / f"{os.getpid()}.db", address, read_only=True)


def _engine(file: Path, address: str, *, read_only: bool) -> EngineStore:
    return EngineStore(
        lambda pages: SQLiteStore(file, pages=pages), address, tree="t", read_only=read_only
    )


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
    out: Queue[_Result],
    *,
    by_vectors: bool,
) -> None:
    fetched = 0
    fetch = PageView._fetch

    def counted(view: PageView, number: int) -> bytes:
        nonlocal fetched
        page = fetch(view, number)
        fetched += view._ahead
        return page

    pairs = list(zip(asked, StaticEmbedder().encode_queries(asked), strict=True))
    with (
        patch.object(PageView, "_fetch", counted),
        closing(_opened(mode, address, folder)) as store,
    ):
        began = time.perf_counter()
        _search(store, *pairs[0], by_vectors=by_vectors)
        first = time.perf_counter() - began
        for text, vector in pairs:
            _search(store, text, vector, by_vectors=by_vectors)
        at_first = fetched
        start.wait()
        taken: list[float] = []
        cpu = time.process_time()
        for text, vector in pairs * 2:
            began = time.perf_counter()
            _search(store, text, vector, by_vectors=by_vectors)
            taken.append(time.perf_counter() - began)
        cpu = time.process_time() - cpu
        start.wait()
        out.put((first, taken, cpu, at_first, fetched - at_first))
        # Until the server's CPU has been read: that of a process that is just ending is in no list.
        start.wait()


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


def _measure(
    mode: str,
    server: Server,
    address: str,
    folder: Path,
    clients: int,
    *,
    by_vectors: bool,
    tools: int,
) -> str:
    start = multiprocessing.Barrier(clients + 1)
    out: Queue[_Result] = multiprocessing.Queue()
    asked = queries(_REQUESTS, tools)
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
    start.wait()
    results = [out.get() for _ in workers]
    for worker in workers:
        worker.join()
    firsts, times, cpus, at_first, later = zip(*results, strict=True)
    taken = [1_000 * it for each in times for it in each]
    cuts = quantiles(taken, n=20)
    pages = f"{_PAGE_KB * sum(at_first) / clients / (1 + len(asked)):.0f} / "
    pages += f"{_PAGE_KB * sum(later) / len(taken):.0f}"
    return (
        f"{len(taken) / seconds:.0f} | {cuts[9]:.1f} / {cuts[18]:.1f} | "
        f"{1_000 * sum(cpus) / len(taken):.2f} | {1_000 * cpu / len(taken):.2f} | "
        f"{pages if mode == 'engine' else '–'} | {1_000 * max(firsts):.0f}"
    )


def _portions(tools: int) -> Iterator[tuple[tuple[ToolRecord, ...], dict[str, str]]]:
    """Yield all tools, some at a time, with the texts of their vectors by hash."""
    every = records(tools)
    while part := tuple(islice(every, _PORTION)):
        yield (
            part,
            {
                it.text_hash: embedding_text(it.id, it.description, [p.name for p in it.parameters])
                for it in part
            },
        )


def _sync(store: ToolStore, tools: int) -> None:
    embedder = StaticEmbedder()
    paths: list[str] = []
    seconds = cpu = 0.0
    for part, texts in _portions(tools):
        within = [it.path for it in part]
        paths += within
        began = time.perf_counter(), time.process_time()
        store.sync(ScanReport(records=part), reader_version="1", within=within)
        seconds, cpu = (
            seconds + time.perf_counter() - began[0],
            cpu + time.process_time() - began[1],
        )
        vectors = embedder.encode_documents(list(texts.values()))
        store.put_vectors(_MODEL, dict(zip(texts, vectors, strict=True)))
    store.sync(ScanReport(unchanged=tuple(sorted(paths))), reader_version="1")
    print(f"cold write: {tools / seconds:.0f} tools / s, {tools / cpu:.0f} by the client's CPU")


def _copy(address: str, folder: Path, tools: int) -> None:
    """Fill the server's tables as a host in engine mode would have by syncing the same records."""
    image = folder / "image.db"
    shutil.copy(folder / "search.db", image)
    with closing(sqlite3.connect(image, isolation_level=None)) as it:
        it.execute("PRAGMA journal_mode = DELETE")
        it.execute("ATTACH ? AS kept", (str(folder / "search.db-kept"),))
        ((sql,),) = it.execute("SELECT sql FROM kept.sqlite_schema WHERE name = 'embeddings'")
        it.execute(sql)
        it.execute("INSERT INTO main.embeddings SELECT * FROM kept.embeddings")
    with psycopg.connect(address) as server, server.cursor() as cursor:
        ((tree,),) = cursor.execute(
            "INSERT INTO toolindex.tree (name, generation, reader_version, is_complete) "
            "VALUES ('t', 1, '1', true) RETURNING tree_id"
        ).fetchall()
        cursor.execute("INSERT INTO toolindex.step VALUES (%s, 1)", (tree,))
        pages = image.stat().st_size // (_PAGE_KB << 10)
        cursor.execute("INSERT INTO toolindex.image VALUES (%s, 1, 1, %s, NULL)", (tree, pages))
        into = "COPY toolindex.page FROM STDIN (FORMAT BINARY)"
        with image.open("rb") as file, cursor.copy(into) as rows:
            rows.set_types(["int4", "int4", "bytea"])
            for number in range(pages):
                rows.write_row((tree, number, file.read(_PAGE_KB << 10)))
        image.unlink()
        into = (
            "COPY toolindex.entry (tree_id, id, path, file_hash, text_hash, record, definitions, "
            "generation) FROM STDIN"
        )
        with cursor.copy(into) as rows:
            for part, _ in _portions(tools):
                for it in part:
                    names = encoded(str(it.id)), encoded(it.path)
                    hashes = it.file_hash, it.text_hash
                    rows.write_row((tree, *names, *hashes, *record_texts(it), 1))
        into = (
            "COPY toolindex.tree_vector (tree_id, model, dimensions, text_hash, generation, v) "
            "FROM STDIN (FORMAT BINARY)"
        )
        kept = closing(sqlite3.connect(folder / "search.db-kept"))
        with kept as vectors, cursor.copy(into) as rows:
            rows.set_types(["int4", "text", "int4", "text", "int8", "bytea"])
            for text_hash, vector in vectors.execute("SELECT text_hash, vector FROM embeddings"):
                rows.write_row((tree, _MODEL, len(vector) // 4, text_hash, 1, vector))


def _build(folder: Path, address: str, tools: int) -> None:
    """Write the tree to a file, to the server, and to a copy."""
    with Database(address) as database:
        database.init()
    with closing(SQLiteStore(folder / "search.db")) as store:
        _sync(store, tools)
    (folder / "copy").mkdir()
    if tools <= _PORTION:
        with closing(_engine(folder / "writer.db", address, read_only=False)) as store:
            _sync(store, tools)
        with closing(_opened("copy", address, folder / "copy")) as copy, copy.reading():
            return
    _copy(address, folder, tools)
    for file in folder.glob("search.db*"):
        shutil.copy(file, folder / "copy")
    with psycopg.connect(address) as server:
        ((database_id, tree),) = server.execute(
            "SELECT s.database::text, t.tree_id FROM toolindex.state AS s, toolindex.tree AS t"
        ).fetchall()
    file = folder / "copy" / "search.db"
    with closing(SQLiteStore(file)) as copied, copied.reading() as reader:
        notes = Notes(str(file))
        notes.write(Note(database=database_id, tree=tree, generation=1, copy=reader.generation()))
        notes.close()


def main() -> None:
    """Build the index three times, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--modes", nargs="+", default=["file", "copy", "engine"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, serving(Server) as server:
        folder, address = Path(temporary), server.address("postgres")
        _build(folder, address, arguments.tools)
        _table(server, address, folder, arguments.tools, arguments.clients, arguments.modes)


def _table(
    server: Server, address: str, folder: Path, tools: int, clients: list[int], modes: list[str]
) -> None:
    print(
        "| searched by | mode | clients | searches / s | p50 / p95 ms | client ms | server ms "
        "| fetched KB | first ms |\n|---|---|--:|--:|--:|--:|--:|--:|--:|"
    )
    for by_vectors in (False, True):
        for number in clients:
            for mode in modes:
                own = folder / "copy" if mode == "copy" else folder
                line = _measure(
                    mode, server, address, own, number, by_vectors=by_vectors, tools=tools
                )
                kind = "words, vectors" if by_vectors else "words"
                print(f"| {kind} | {mode} | {number} | {line} |", flush=True)


if __name__ == "__main__":
    main()
