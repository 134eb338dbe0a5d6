# pyright: basic
"""The index of `shared.py`: written to a file, to a server and to a copy, as hosts would do it."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import struct
import sys
import time
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
from pytools_hybrid.index import SQLiteStore
from shared_clients import MODEL, PAGE_KB, engine, opened, server_cpu
from tool_tree import records
from toolembed import StaticEmbedder
from toolindex_postgres import Database
from toolindex_postgres._near_build import NearBuilder
from toolindex_postgres._notes import Note, Notes
from toolindex_postgres._pool import Connections
from toolindex_postgres._texts import encoded, record_texts
from toolscan import ScanReport, embedding_text

from tests.postgres import Server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from multiprocessing.queues import Queue

    from toolindex import ToolStore
    from toolscan import ToolRecord

TREES = 6
_PORTION = 20_000
_Portion = tuple[list["ToolRecord"], list[bytes]]
_processes = multiprocessing.get_context("spawn")


class BenchmarkServer(Server):
    """A server with enough memory for its tables, whose data may already exist."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        folder.parent.chmod(0o755)
        super().__init__(folder)

    def _create(self) -> None:
        if not (self.folder / "data").exists():
            super()._create()

    def start(self) -> None:
        """Start it, without waits for the disk."""
        options = (
            "-c fsync=off -c autovacuum=off -c shared_buffers=2GB -c max_wal_size=8GB "
            f"-c listen_addresses='' -k {self.folder}"
        )
        self._control("start", "-l", str(self.folder / "log"), "-o", options)


def build(folder: Path, server: Server, tools: int) -> None:
    """Write the tree to a file, to the server, and to a copy."""
    address = server.address("postgres")
    with Database(address) as database:
        database.init()
    (folder / "copy").mkdir()
    with closing(SQLiteStore(folder / "search.db")) as store:
        if tools <= _PORTION:
            _sync(store, _portions(tools))
        else:
            with _timed("rows", server):
                _sync(store, _copied(address, _portions(tools)))
    if tools <= _PORTION:
        with closing(engine(folder / "writer.db", address)) as store:
            _sync(store, _portions(tools))
        with closing(opened("copy", address, folder / "copy")) as copy, copy.reading():
            return
    with _timed("pages", server):
        _copy_pages(address, folder)
    # As autovacuum would.
    server.execute("VACUUM ANALYZE")
    with _timed("pgvector's index", server):
        _index(address)
    for file in folder.glob("search.db*"):
        shutil.copy(file, folder / "copy")
    with psycopg.connect(address) as connection:
        ((database_id, tree, now),) = connection.execute(
            "SELECT s.database::text, t.tree_id, t.generation "
            "FROM toolindex.state AS s, toolindex.tree AS t"
        ).fetchall()
    file = folder / "copy" / "search.db"
    with closing(SQLiteStore(file)) as copied, copied.reading() as reader:
        notes = Notes(str(file))
        notes.write(Note(database=database_id, tree=tree, generation=now, copy=reader.generation()))
        notes.close()


def build_trees(server: Server, folder: Path, tools: int) -> None:
    """Write the same tools to several trees, by syncs of hosts in engine mode."""
    with Database(server.address("postgres")) as database:
        database.init()
    portions = list(_portions(tools))
    for number in range(TREES):
        file = folder / f"writer{number}.db"
        with closing(engine(file, server.address("postgres"), f"t{number}")) as store:
            _sync(store, portions)


def _portions(tools: int) -> Iterator[_Portion]:
    """Yield all tools in portions, which another process prepares in advance."""
    ahead: Queue[_Portion | None] = _processes.Queue(maxsize=2)
    maker = _processes.Process(target=_make, args=(tools, ahead), daemon=True)
    maker.start()
    while (portion := ahead.get()) is not None:
        yield portion
    maker.join()


def _make(tools: int, out: Queue[_Portion | None]) -> None:
    embedder, every = StaticEmbedder(), records(tools)
    while part := list(islice(every, _PORTION)):
        texts = [
            embedding_text(it.id, it.description, [p.name for p in it.parameters]) for it in part
        ]
        vectors = embedder.encode_documents(texts)
        out.put((part, [struct.pack(f"{len(v)}f", *v) for v in vectors]))
    out.put(None)


def _sync(store: ToolStore, portions: Iterable[_Portion]) -> None:
    """Write all tools to a store."""
    paths: list[str] = []
    seconds = cpu = 0.0
    for part, vectors in portions:
        within = [it.path for it in part]
        paths += within
        began = time.perf_counter(), time.process_time()
        store.sync(ScanReport(records=tuple(part)), reader_version="1", within=within)
        seconds += time.perf_counter() - began[0]
        cpu += time.process_time() - began[1]
        floats = (memoryview(it).cast("f").tolist() for it in vectors)
        store.put_vectors(MODEL, dict(zip((it.text_hash for it in part), floats, strict=True)))
    store.sync(ScanReport(unchanged=tuple(sorted(paths))), reader_version="1")
    tools = len(paths)
    print(f"cold write: {tools / seconds:.0f} tools / s, {tools / cpu:.0f} by the client's CPU")


def _copied(address: str, portions: Iterable[_Portion]) -> Iterator[_Portion]:
    """Fill the server's tables with tools as syncs would, and yield the same portions."""
    with psycopg.connect(address, autocommit=True) as server, server.cursor() as cursor:
        ((tree,),) = cursor.execute(
            "INSERT INTO toolindex.tree (name, generation, reader_version, is_complete) "
            "VALUES ('t', 1, '1', true) RETURNING tree_id"
        ).fetchall()
        cursor.execute("INSERT INTO toolindex.step VALUES (%s, 1)", (tree,))
        for part, vectors in portions:
            into = (
                "COPY toolindex.entry (tree_id, id, path, file_hash, text_hash, record, "
                "definitions, generation) FROM STDIN"
            )
            with cursor.copy(into) as rows:
                for it in part:
                    names = encoded(str(it.id)), encoded(it.path)
                    hashes = it.file_hash, it.text_hash
                    rows.write_row((tree, *names, *hashes, *record_texts(it), 1))
            into = (
                "COPY toolindex.tree_vector (tree_id, model, dimensions, text_hash, generation, v) "
                "FROM STDIN (FORMAT BINARY)"
            )
            with cursor.copy(into) as rows:
                rows.set_types(["int4", "text", "int4", "text", "int8", "bytea"])
                for it, vector in zip(part, vectors, strict=True):
                    rows.write_row((tree, MODEL, len(vector) // 4, it.text_hash, 1, vector))
            yield part, vectors


def _copy_pages(address: str, folder: Path) -> None:
    """Send a file's pages to the server, as syncs of a host in engine mode would."""
    image = folder / "image.db"
    shutil.copy(folder / "search.db", image)
    with closing(sqlite3.connect(image, isolation_level=None)) as it:
        it.execute("PRAGMA journal_mode = DELETE")
        it.execute("ATTACH ? AS kept", (str(folder / "search.db-kept"),))
        ((sql,),) = it.execute("SELECT sql FROM kept.sqlite_schema WHERE name = 'embeddings'")
        it.execute(sql)
        it.execute("INSERT INTO main.embeddings SELECT * FROM kept.embeddings")
    with psycopg.connect(address) as server, server.cursor() as cursor:
        ((tree,),) = cursor.execute("SELECT tree_id FROM toolindex.tree").fetchall()
        pages = image.stat().st_size // (PAGE_KB << 10)
        cursor.execute("INSERT INTO toolindex.image VALUES (%s, 1, 1, %s, NULL)", (tree, pages))
        into = "COPY toolindex.page FROM STDIN (FORMAT BINARY)"
        with image.open("rb") as file, cursor.copy(into) as rows:
            rows.set_types(["int4", "int4", "bytea"])
            for number in range(pages):
                rows.write_row((tree, number, file.read(PAGE_KB << 10)))
    image.unlink()


def _index(address: str) -> None:
    connections = Connections(address)
    made = NearBuilder(connections, "t").build()
    connections.close()
    if not made:
        return
    with psycopg.connect(address) as server:
        # The pages already hold all tools, so they need no update.
        server.execute(
            "UPDATE toolindex.image AS i SET follows = t.generation FROM toolindex.tree AS t "
            "WHERE t.tree_id = i.tree_id"
        )


@contextmanager
def _timed(name: str, server: Server) -> Iterator[None]:
    began, cpu, of_server = time.perf_counter(), sum(os.times()[:4]), server_cpu(server)
    yield
    print(
        f"{name}: {time.perf_counter() - began:.0f} s; CPU {sum(os.times()[:4]) - cpu:.0f} s, "
        f"of the server {server_cpu(server) - of_server:.0f} s",
        flush=True,
    )
