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
import sqlite3
import sys
import tempfile
from contextlib import ExitStack, closing
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
from shared_build import TREES, BenchmarkServer, build, build_trees
from shared_clients import EVERY, MODEL, REQUESTS, Load, measure, opened, search
from tool_tree import queries
from toolembed import StaticEmbedder
from toolindex_postgres import UnreachableStoreError

from tests.postgres import Replica, serving

if TYPE_CHECKING:
    from tests.postgres import Server

_RECALLED = 200


def _warm(folder: Path, server: Server, tools: int) -> None:
    """Search until the server has read what it needs from its files, as after a day of searches."""
    for file in (server.folder / "data" / "base").rglob("*"):
        if file.is_file():
            with file.open("rb") as content:
                while content.read(1 << 24):
                    pass
    texts, stopped = queries(REQUESTS, tools), 0
    vectors = StaticEmbedder().encode_queries(texts)
    with closing(opened("engine", server.address("postgres"), folder)) as store:
        waiting = list(zip(texts, vectors, strict=True))
        while waiting and stopped < 10 * REQUESTS:
            try:
                search(store, *waiting[-1], by_vectors=True)
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
    with closing(opened("engine", address, folder)) as store, store.reading() as reader:
        for vector in asked:
            scores = matrix @ np.asarray(vector, np.float32)
            nearest = {ids[it] for it in np.argpartition(scores, -10)[-10:]}
            hits = reader.nearest(vector, model_id=MODEL, where=EVERY, depth=10)
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
        server = BenchmarkServer(folder / "server")
        stack.callback(server.stop, "fast")
        address = server.address("postgres")
        replica = partial(Replica, of=server)
        if arguments.spread:
            build_trees(server, folder, tools)
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
            build(folder, server, tools)
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
                loads = [Load(by, mode, address, own, tools)] * number
                print(f"| {by} | {mode} | {number} | {measure(servers, loads)} |", flush=True)


def _print_spread(servers: list[Server], folder: Path, tools: int) -> None:
    """Assign a client and one of the servers to each tree."""
    print(f"{len(servers)} servers")
    for by in ("words", "words, vectors", "syncs"):
        loads = [
            Load(by, "engine", it.address("postgres"), folder, tools, f"t{number}")
            for number, it in zip(range(TREES), cycle(servers), strict=False)
        ]
        print(f"| {by} | engine | {TREES} | {measure(servers, loads)} |", flush=True)


if __name__ == "__main__":
    main()
