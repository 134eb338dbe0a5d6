# pyright: basic
"""Measure searches of a shared index by several processes: a file, copies, the server's pages.

    python benchmarks/shared.py --tools 10000 --clients 1 4 8

Each process makes the same requests through the application's store: by words and names, and by
vectors of the model `static`, too. The first pass is not counted. `a second` and percentiles are
measured by the clients. `client` and `server` are CPU per search; `server` is that of all processes
of PostgreSQL. `fetched` is the size of the pages that a search fetched, and `round trips` is how
often it waited for the server. Both have three figures: the first search, the others of the first
pass, and later ones. `first` is the slowest first search, and `client MB` the peak memory of a
process. Compare only lines of one run.

With `--standbys 1 2`, engine mode is also measured on the primary and that many standbys; the
address names all of them, and each process connects to one at random. `server` then has a figure
for each. With `--spread 1 2 3`, six trees are spread over that many independent servers instead,
and each tree has a process that searches it, then changes it by syncs of one tool each.

With up to 20,000 tools, a host in engine mode writes the server's tables by syncs, which are timed.
With more tools, syncs write a file, COPY fills the tables from its pages and the same records, as
such a host would have written them, and pgvector indexes the vectors. `recall` is then the share of
the ten nearest tools that engine mode finds. `--folder` keeps a large index for later runs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sqlite3
import struct
import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, cycle, islice
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
from pytools_hybrid.index import SQLiteStore
from tool_tree import queries, records
from toolembed import StaticEmbedder
from toolindex import ToolFilter
from toolindex_postgres import Database, EngineStore, SharedStore, UnreachableStoreError
from toolindex_postgres._connection import Connection
from toolindex_postgres._near_build import NearBuilder
from toolindex_postgres._notes import Note, Notes
from toolindex_postgres._page_view import PageView
from toolindex_postgres._pool import Connections
from toolindex_postgres._texts import encoded, record_texts
from toolscan import ScanReport, embedding_text
from toolscan._hashing import hash_text

from tests.postgres import Replica, Server, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

    from toolindex import ToolStore
    from toolscan import ToolRecord

_processes = multiprocessing.get_context("spawn")
_MODEL = "static"
_REQUESTS = 60
_SYNCS = 20
_TREES = 6
_RECALLED = 200
_EVERY = ToolFilter()
_PAGE_KB = 16
_PORTION = 20_000
_Portion = tuple[list["ToolRecord"], list[bytes]]


class _Server(Server):
    """A server with enough memory for its tables, whose data may already exist."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        folder.parent.chmod(0o755)
        super().__init__(folder)

    def _create(self) -> None:
        if not (self.folder / "data").exists():
            super()._create()

    def start(self) -> None:
        options = (
            "-c fsync=off -c autovacuum=off -c shared_buffers=2GB -c max_wal_size=8GB "
            f"-c listen_addresses='' -k {self.folder}"
        )
        self._control("start", "-l", str(self.folder / "log"), "-o", options)


def _opened(mode: str, address: str, folder: Path, tree: str = "t") -> ToolStore:
    file = folder / "search.db"
    if mode == "file":
        return SQLiteStore(file)
    if mode == "copy":
        return SharedStore(SQLiteStore(file), address, tree=tree, read_only=True)
    return _engine(folder / f"{os.getpid()}.db", address, tree, read_only=True)


def _engine(file: Path, address: str, tree: str = "t", *, read_only: bool = False) -> EngineStore:
    return EngineStore(
        lambda pages: SQLiteStore(file, pages=pages), address, tree=tree, read_only=read_only
    )


def _search(store: ToolStore, text: str, vector: list[float], *, by_vectors: bool) -> None:
    with store.reading() as reader:
        hits = [*reader.lexical(text, where=_EVERY, depth=100), *reader.named(text, where=_EVERY)]
        if by_vectors:
            hits += reader.nearest(vector, model_id=_MODEL, where=_EVERY, depth=100)
        reader.entries(list(dict.fromkeys(hit.id for hit in hits[:10])))


def _sync_one(store: ToolStore, tool: ToolRecord, words: Iterator[int]) -> None:
    """Write one tool with another text and its vector."""
    text = f"{tool.description} {next(words)}"
    tool = replace(tool, description=text, file_hash=hash_text(text), text_hash=hash_text(text))
    store.sync(ScanReport(records=(tool,)), reader_version="1", within=[tool.path])
    store.put_vectors(_MODEL, {tool.text_hash: StaticEmbedder().encode_documents([text])[0]})


@dataclass
class _Load:
    """What a client process does.

    Attributes:
        by: What it does: search by `words`, by `words, vectors`, or `syncs` of one tool each.
        mode: How it reads the index.
        address: The server.
        folder: Where its files are.
        tools: How many tools the tree has.
        tree: The name of the tree.
    """

    by: str
    mode: str
    address: str
    folder: Path
    tools: int
    tree: str = "t"

    def actions(self) -> Generator[Callable[[], None]]:
        """Open the store, and yield the actions, which can be repeated."""
        if self.by == "syncs":
            words = count()
            file = self.folder / f"{os.getpid()}.db"
            with closing(_engine(file, self.address, self.tree)) as store:
                for tool in islice(records(self.tools), _SYNCS):
                    yield partial(_sync_one, store, tool, words)
            return
        asked = queries(_REQUESTS, self.tools)
        by_vectors = self.by != "words"
        pairs = zip(asked, StaticEmbedder().encode_queries(asked), strict=True)
        with closing(_opened(self.mode, self.address, self.folder, self.tree)) as store:
            for text, vector in pairs:
                yield partial(_search, store, text, vector, by_vectors=by_vectors)


@dataclass
class _Result:
    """What a client process measured.

    Attributes:
        first: The seconds of its first action.
        taken: The seconds of each counted action.
        cpu: The CPU seconds of these.
        fetched: The pages fetched by the first action, by the others of the first pass, and later.
        trips: The same for round trips.
        megabytes: The peak memory of the process.
    """

    first: float
    taken: list[float]
    cpu: float
    fetched: list[int]
    trips: list[int]
    megabytes: float


def _client(load: _Load, start: Barrier, out: Queue[_Result]) -> None:
    fetched, trips = [0], [0]
    get, wait = PageView._get, Connection.wait

    def counted(view: PageView, numbers: list[int]) -> dict[int, bytes]:
        fetched[-1] += len(numbers)
        return get(view, numbers)

    def waited(connection: Connection, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        trips[-1] += 1
        return wait(connection, *args, **options)

    def run(action: Callable[[], None]) -> float:
        began = time.perf_counter()
        action()
        return time.perf_counter() - began

    def next_phase() -> None:
        fetched.append(0)
        trips.append(0)

    with (
        patch.object(PageView, "_get", counted),
        patch.object(Connection, "wait", waited),
        closing(load.actions()) as opened,
    ):
        actions = [next(opened)]
        first = run(actions[0])
        next_phase()
        for action in islice(opened, (_SYNCS if load.by == "syncs" else _REQUESTS) - 1):
            run(action)
            actions.append(action)
        next_phase()
        start.wait()
        cpu = time.process_time()
        taken = [run(action) for action in actions * 2]
        cpu = time.process_time() - cpu
        start.wait()
        megabytes = _peak_memory()
        out.put(_Result(first, taken, cpu, fetched, trips, megabytes))
        # Wait until the server's CPU has been read, because ending processes would be missed.
        start.wait()


def _peak_memory() -> float:
    """Return this process's peak memory in MB; getrusage() would include its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _server_cpu(server: Server) -> float:
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


def _measure(servers: list[Server], loads: list[_Load]) -> str:
    clients = len(loads)
    start = _processes.Barrier(clients + 1)
    out: Queue[_Result] = _processes.Queue()
    workers = [_processes.Process(target=_client, args=(it, start, out)) for it in loads]
    for worker in workers:
        worker.start()
    start.wait()
    before, began = [_server_cpu(it) for it in servers], time.perf_counter()
    start.wait()
    seconds = time.perf_counter() - began
    used = [_server_cpu(it) - cpu for it, cpu in zip(servers, before, strict=True)]
    start.wait()
    results = [out.get() for _ in workers]
    for worker in workers:
        worker.join()
    taken = [1_000 * it for result in results for it in result.taken]
    cuts = quantiles(taken, n=20)
    times = [clients, len(taken) // 2 - clients, len(taken)]
    pages, trips = (
        [sum(it) / n for it, n in zip(zip(*each, strict=True), times, strict=True)]
        for each in ([it.fetched for it in results], [it.trips for it in results])
    )
    fetched = " / ".join(f"{_PAGE_KB * it:,.0f}" for it in pages) if any(pages) else "–"
    waited = " / ".join(f"{it:,.1f}" for it in trips) if any(trips) else "–"
    cpu = " + ".join(f"{1_000 * it / len(taken):.2f}" for it in used) if any(trips) else "–"
    return (
        f"{len(taken) / seconds:.0f} | {cuts[9]:.1f} / {cuts[18]:.1f} | "
        f"{1_000 * sum(it.cpu for it in results) / len(taken):.2f} | {cpu} | "
        f"{fetched} | {waited} | {1_000 * max(it.first for it in results):,.0f} | "
        f"{max(it.megabytes for it in results):.0f}"
    )


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
        store.put_vectors(_MODEL, dict(zip((it.text_hash for it in part), floats, strict=True)))
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
                    rows.write_row((tree, _MODEL, len(vector) // 4, it.text_hash, 1, vector))
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
        pages = image.stat().st_size // (_PAGE_KB << 10)
        cursor.execute("INSERT INTO toolindex.image VALUES (%s, 1, 1, %s, NULL)", (tree, pages))
        into = "COPY toolindex.page FROM STDIN (FORMAT BINARY)"
        with image.open("rb") as file, cursor.copy(into) as rows:
            rows.set_types(["int4", "int4", "bytea"])
            for number in range(pages):
                rows.write_row((tree, number, file.read(_PAGE_KB << 10)))
    image.unlink()


def _build(folder: Path, server: Server, tools: int) -> None:
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
        with closing(_engine(folder / "writer.db", address)) as store:
            _sync(store, _portions(tools))
        with closing(_opened("copy", address, folder / "copy")) as copy, copy.reading():
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
    began, cpu, of_server = time.perf_counter(), sum(os.times()[:4]), _server_cpu(server)
    yield
    print(
        f"{name}: {time.perf_counter() - began:.0f} s; CPU {sum(os.times()[:4]) - cpu:.0f} s, "
        f"of the server {_server_cpu(server) - of_server:.0f} s",
        flush=True,
    )


def _build_trees(server: Server, folder: Path, tools: int) -> None:
    """Write the same tools to several trees, by syncs of hosts in engine mode."""
    with Database(server.address("postgres")) as database:
        database.init()
    portions = list(_portions(tools))
    for number in range(_TREES):
        file = folder / f"writer{number}.db"
        with closing(_engine(file, server.address("postgres"), f"t{number}")) as store:
            _sync(store, portions)


def _warm(folder: Path, server: Server, tools: int) -> None:
    """Search until the server has read what it needs from its files, as after a day of searches."""
    for file in (server.folder / "data" / "base").rglob("*"):
        if file.is_file():
            with file.open("rb") as content:
                while content.read(1 << 24):
                    pass
    texts, stopped = queries(_REQUESTS, tools), 0
    vectors = StaticEmbedder().encode_queries(texts)
    with closing(_opened("engine", server.address("postgres"), folder)) as store:
        waiting = list(zip(texts, vectors, strict=True))
        while waiting and stopped < 10 * _REQUESTS:
            try:
                _search(store, *waiting[-1], by_vectors=True)
                waiting.pop()
            except UnreachableStoreError:
                stopped += 1
    print(f"{stopped} searches were stopped by the server's limit while it read its files")


def _recall(address: str, folder: Path, tools: int) -> float:
    """Return the share of the ten nearest tools that engine mode finds."""
    import numpy as np

    asked = StaticEmbedder().encode_queries(queries(_RECALLED, tools))
    with closing(sqlite3.connect(folder / "search.db")) as file:
        file.execute("ATTACH ? AS kept", (str(folder / "search.db-kept"),))
        ids, vectors = zip(
            *file.execute(
                "SELECT e.id, v.vector FROM entries AS e "
                "JOIN kept.embeddings AS v USING (text_hash)"
            ),
            strict=True,
        )
    matrix = np.frombuffer(b"".join(vectors), np.float32).reshape(len(ids), -1)
    found = 0
    with closing(_opened("engine", address, folder)) as store, store.reading() as reader:
        for vector in asked:
            scores = matrix @ np.asarray(vector, np.float32)
            nearest = {ids[it] for it in np.argpartition(scores, -10)[-10:]}
            hits = reader.nearest(vector, model_id=_MODEL, where=_EVERY, depth=10)
            found += len(nearest & {it.id for it in hits})
    return found / (10 * len(asked))


def _sizes(address: str) -> str:
    """Return the sizes of the server's large tables, with their indexes."""
    with psycopg.connect(address) as server:
        rows = server.execute(
            "SELECT relname, pg_total_relation_size(oid) >> 20 AS size FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = 'toolindex'::regnamespace ORDER BY size DESC"
        ).fetchall()
    return ", ".join(f"{name} {size:,} MB" for name, size in rows if size)


def main() -> None:
    """Build the index three times, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 8])
    parser.add_argument("--modes", nargs="+", default=["file", "copy", "engine"])
    parser.add_argument("--folder", type=Path, help="keep the index in this folder for later runs")
    parser.add_argument("--standbys", type=int, nargs="+", default=[])
    parser.add_argument("--spread", type=int, nargs="+", default=[], help="numbers of servers")
    arguments = parser.parse_args()
    tools, clients = arguments.tools, arguments.clients
    with ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = _Server(folder / "server")
        stack.callback(server.stop, "fast")
        address = server.address("postgres")
        replica = partial(Replica, of=server)
        if arguments.spread:
            _build_trees(server, folder, tools)
            others = [
                stack.enter_context(serving(replica)) for _ in range(max(arguments.spread) - 1)
            ]
            for it in others:
                it.promote()
            _print_head()
            for number in arguments.spread:
                _print_spread([server, *others][:number], folder, tools)
            return
        if not (folder / "built").exists():
            _build(folder, server, tools)
            (folder / "built").touch()
        if "engine" in arguments.modes:
            _warm(folder, server, tools)
            print(f"recall {_recall(address, folder, tools):.4f}; {_sizes(address)}")
        _print_head()
        _print_table(folder, tools, clients, [server], address, arguments.modes)
        for number in arguments.standbys:
            with ExitStack() as those:
                servers = [server, *(those.enter_context(serving(replica)) for _ in range(number))]
                hosts = ",".join(str(it.folder) for it in servers)
                every = address.replace(str(server.folder), hosts) + "&load_balance_hosts=random"
                print(f"{number} standbys")
                _print_table(folder, tools, clients, servers, every, ["engine"])


def _print_head() -> None:
    print(
        "| by | mode | clients | a second | p50 / p95 ms | client ms | server ms | fetched KB "
        "| round trips | first ms | client MB |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    )


def _print_table(
    folder: Path,
    tools: int,
    clients: list[int],
    servers: list[Server],
    address: str,
    modes: list[str],
) -> None:
    for by in ("words", "words, vectors"):
        for number in clients:
            for mode in modes:
                own = folder / "copy" if mode == "copy" else folder
                loads = [_Load(by, mode, address, own, tools)] * number
                print(f"| {by} | {mode} | {number} | {_measure(servers, loads)} |", flush=True)


def _print_spread(servers: list[Server], folder: Path, tools: int) -> None:
    """Assign a client and one of the servers to each tree."""
    print(f"{len(servers)} servers")
    for by in ("words", "words, vectors", "syncs"):
        loads = [
            _Load(by, "engine", it.address("postgres"), folder, tools, f"t{number}")
            for number, it in zip(range(_TREES), cycle(servers), strict=False)
        ]
        print(f"| {by} | engine | {_TREES} | {_measure(servers, loads)} |", flush=True)


if __name__ == "__main__":
    main()
