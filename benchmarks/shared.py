# pyright: basic
"""Measure searches of a shared index by several processes: a file, and a host's copy.

    python benchmarks/shared.py --tools 10000 --clients 1 4 8

A host writes the tree by syncs, and another makes its copy; both are timed. Then each process makes
the same requests through the application's store: by words and names, and by vectors of the model
`static`, too. The first pass is not counted. `a second` and percentiles are measured by the
clients. `client` and `server` are CPU per search; `server` is that of all processes of PostgreSQL.
`round trips` is how often a search waited for the server: the first search, the others of the first
pass, and later ones. `first` is the slowest first search, and `client MB` the peak memory of a
process. `syncs` are changes of one tool with its vector. Compare only lines of one run. `--folder`
keeps a large index for later runs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import struct
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
from pytools_hybrid.index import SQLiteStore
from shared_clients import MODEL, Load, measure, opened
from tool_tree import records
from toolembed import StaticEmbedder
from toolindex_postgres import Database, SharedStore
from toolscan import ScanReport

from tests.postgres import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.queues import Queue

    from toolindex import ToolStore
    from toolscan import ToolRecord

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


def _build(folder: Path, server: Server, tools: int) -> None:
    """Write the tree to a file and to the server, and make a copy."""
    address = server.address("postgres")
    with Database(address) as database:
        database.init()
    (folder / "copy").mkdir()
    with closing(SQLiteStore(folder / "search.db")) as file:
        _sync("file", file, tools)
    writer = SQLiteStore(folder / "writer.db")
    with closing(SharedStore(writer, address, tree="t")) as shared:
        _sync("server", shared, tools)
    # As autovacuum would.
    server.execute("VACUUM ANALYZE")
    began = time.perf_counter()
    with closing(opened("copy", address, folder / "copy")) as copy:
        copy.freshness()
    print(f"first copy: {time.perf_counter() - began:.1f} s; {_sizes(address)}", flush=True)


def _sync(where: str, store: ToolStore, tools: int) -> None:
    """Write all tools to a store."""
    paths: list[str] = []
    seconds = cpu = 0.0
    for part, vectors in _portions(tools):
        within = [it.path for it in part]
        paths += within
        began = time.perf_counter(), time.process_time()
        store.sync(ScanReport(records=tuple(part)), reader_version="1", within=within)
        seconds += time.perf_counter() - began[0]
        cpu += time.process_time() - began[1]
        floats = (memoryview(it).cast("f").tolist() for it in vectors)
        store.put_vectors(MODEL, dict(zip((it.text_hash for it in part), floats, strict=True)))
    store.sync(ScanReport(unchanged=tuple(sorted(paths))), reader_version="1")
    print(f"{where}: {tools / seconds:.0f} tools / s, {tools / cpu:.0f} by the client's CPU")


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
            it.id.embedding_text(it.description, [p.name for p in it.parameters]) for it in part
        ]
        vectors = embedder.encode_documents(texts)
        out.put((part, [struct.pack(f"{len(v)}f", *v) for v in vectors]))
    out.put(None)


def _sizes(address: str) -> str:
    """Return the sizes of the server's large tables, with their indexes."""
    with psycopg.connect(address) as server:
        rows = server.execute(
            "SELECT relname, pg_total_relation_size(oid) >> 20 AS size FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = 'toolindex'::regnamespace ORDER BY size DESC"
        ).fetchall()
    return ", ".join(f"{name} {size:,} MB" for name, size in rows if size)


def main() -> None:
    """Build the index, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--modes", nargs="+", default=["file", "copy"])
    parser.add_argument("--folder", type=Path, help="keep the index in this folder for later runs")
    arguments = parser.parse_args()
    tools = arguments.tools
    with ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = BenchmarkServer(folder / "server")
        stack.callback(server.stop, "fast")
        address = server.address("postgres")
        if not (folder / "built").exists():
            _build(folder, server, tools)
            (folder / "built").touch()
        print(
            "| by | mode | clients | a second | p50 / p95 ms | client ms | server ms "
            "| round trips | first ms | client MB |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"
        )
        loads = [
            Load(by, mode, address, folder / "copy" if mode == "copy" else folder, tools)
            for by in ("words", "words, vectors", "syncs")
            for mode in arguments.modes
            if by != "syncs" or mode == "copy"
        ]
        for load in loads:
            for number in arguments.clients if load.by != "syncs" else (1,):
                figures = measure(server, [load] * number)
                print(f"| {load.by} | {load.mode} | {number} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
