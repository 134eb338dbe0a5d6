"""Measure searches of a shared index, on a host with a copy, while its server fails.

    python benchmarks/faults.py

One process searches and records an outcome after each search, and another host sometimes changes a
tool, while the server has a problem. Then the server recovers, and its outcomes are counted. The
full disk is a small tmpfs, which needs root.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
from pytools_hybrid import Settings, ToolSearch
from pytools_hybrid.index import SQLiteStore
from tool_tree import queries, write_tree
from toolindex import DatabaseError, ToolFilter
from toolindex_postgres import Database, SharedStore
from toolscan import scan

from tests.postgres import Server, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_TREE = "t"
_SOCKET = ".s.PGSQL.5432"


@contextmanager
def line(server: Server) -> Generator[Line]:
    """Run a connection to a server during a block."""
    with tempfile.TemporaryDirectory(prefix="line-", dir="/tmp") as folder:
        it = Line(Path(folder), server)
        try:
            yield it
        finally:
            it.close()


class Line:
    """A connection to a server that can be slow, or drop all data.

    Attributes:
        delay: The seconds by which each answer is delayed.
        swallows: Whether all data is dropped.
    """

    def __init__(self, folder: Path, server: Server) -> None:
        self.delay = 0.0
        self.swallows = False
        self.folder = folder
        self._upstream = str(server.folder / _SOCKET)
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / _SOCKET))
        self._listening.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop accepting."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        late: deque[tuple[float, bytes]] = deque()
        with suppress(OSError), client, socket.socket(socket.AF_UNIX) as upstream:
            upstream.connect(self._upstream)
            while True:
                wait = max(0.0, late[0][0] - time.monotonic()) if late else 0.1
                ready, _, _ = select.select([client, upstream], [], [], wait)
                for source in ready:
                    data = source.recv(1 << 20)
                    if not data:
                        return
                    if self.swallows:
                        continue
                    if source is client:
                        upstream.sendall(data)
                    else:
                        late.append((time.monotonic() + self.delay, data))
                while late and late[0][0] <= time.monotonic():
                    client.sendall(late.popleft()[1])


@dataclass
class Seen:
    """The results of one host.

    Attributes:
        taken: The seconds of each search.
        noted: The number of answers that said that they may be out of date.
        failures: The searches that failed.
        outcomes: The number of reported outcomes.
    """

    taken: list[float] = field(default_factory=list[float])
    noted: int = 0
    failures: list[str] = field(default_factory=list[str])
    outcomes: int = 0


async def _search(address: str, seconds: float, event: Callable[[], None]) -> Seen:
    """Search for some seconds during a fault."""
    seen = Seen()
    settings = Settings.from_flags(
        {"database": address, "sync": False, "embedding_model": "static"}
    )
    asked = queries(400, 1_000)
    async with ToolSearch(settings=settings) as tools:
        await tools.search("warm", limit=3)
        happening = asyncio.create_task(asyncio.to_thread(event))
        until, number = time.monotonic() + seconds, 0
        while time.monotonic() < until or not happening.done():
            number += 1
            began = time.perf_counter()
            try:
                answer = await tools.search(asked[number % len(asked)], limit=3)
            except Exception as error:  # noqa: BLE001 - shown in the table
                seen.failures.append(str(error))
                continue
            seen.taken.append(time.perf_counter() - began)
            seen.noted += "as of" in " ".join(answer.notes)
            if answer.tools:
                tool = answer.tools[0].id
                await tools.record_outcome(tool, success=True, latency_ms=float(number))
                seen.outcomes += 1
            await asyncio.sleep(0.02)
        await happening
        until = time.monotonic() + 60
        while (fresh := await tools.index.freshness()) and fresh.waiting:
            if time.monotonic() > until:
                break
            await asyncio.sleep(0.2)
    return seen


def _stored(address: str) -> tuple[int, int]:
    with psycopg.connect(address) as connection:
        row = connection.execute(
            "SELECT count(*), count(DISTINCT event) FROM toolindex.event WHERE search IS NULL"
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _signal(server: Server, number: int) -> None:
    """Send a signal to the server and all of its processes."""
    main = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(main)], capture_output=True, text=True, check=False
    ).stdout.split()
    for pid in [main, *map(int, children)]:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class Faults:
    """The faults of a server, by name; each ends with the server working again."""

    def __init__(self, server: Server, way: Line, address: str) -> None:
        self._server, self._line, self._address = server, way, address
        self._names = iter(range(1_000_000))

    def write(self, count: int, pause: float) -> None:
        """Change the tree from another host, over a separate connection."""
        with tempfile.TemporaryDirectory() as folder:
            store = SharedStore(SQLiteStore(Path(folder, "w.db")), self._address, tree=_TREE)
            with closing(store), store.reading() as reader:
                some = reader.ids(ToolFilter())[0]
            for _ in range(count):
                time.sleep(pause)
                with suppress(DatabaseError):
                    store.annotate({some: [f"alias{next(self._names)}"]})

    def nothing(self) -> None:
        """Nothing happens."""
        self.write(3, 0.5)

    def slow(self, delay: float) -> None:
        """Each answer is delayed."""
        self._line.delay = delay
        self.write(8, 1)
        self._line.delay = 0

    def swallowed(self) -> None:
        """The connection drops all data."""
        self._line.swallows = True
        time.sleep(8)
        self._line.swallows = False

    def stopped(self) -> None:
        """All of the server's processes are stopped, three times."""
        for _ in range(3):
            _signal(self._server, signal.SIGSTOP)
            time.sleep(3)
            _signal(self._server, signal.SIGCONT)
            time.sleep(2)

    def restarted(self) -> None:
        """The server crashes, and is down for three seconds."""
        self._server.stop()
        time.sleep(3)
        self._server.start()

    def read_only(self) -> None:
        """The server is read-only."""
        self._server.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        self._server.execute("SELECT pg_reload_conf()")
        time.sleep(5)
        with psycopg.connect(self._server.address(), autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
            connection.execute("SELECT pg_reload_conf()")

    def full(self) -> None:
        """The server's disk is full."""
        filler = self._server.folder / "data" / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        self.write(5, 1)
        filler.unlink()
        with suppress(RuntimeError):
            # PostgreSQL exits when it cannot write its WAL.
            self._server.start()

    def locked(self) -> None:
        """Another session locks the table of tools for six seconds."""
        with psycopg.connect(self._address) as connection:
            connection.execute("LOCK TABLE toolindex.entry IN EXCLUSIVE MODE")
            time.sleep(6)

    def crowded(self) -> None:
        """Other clients use all connections."""
        self._server.execute("ALTER ROLE agent CONNECTION LIMIT 0")
        self._server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'agent'"
        )
        time.sleep(5)
        self._server.execute("ALTER ROLE agent CONNECTION LIMIT -1")


def _server(folder: Path, name: str, stack: ExitStack) -> Server:
    if name.startswith("disk"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "none", str(folder)], check=True)
        stack.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=True)
    return Server(folder)


def main() -> None:
    """Measure each fault, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tools", type=int, default=1_000)
    parser.add_argument("--only", default="", help="measure only faults whose name contains this")
    arguments = parser.parse_args()
    kinds: dict[str, Callable[[Faults], None]] = {
        "nothing": Faults.nothing,
        "each answer 50 ms late": partial(Faults.slow, delay=0.05),
        "each answer 500 ms late": partial(Faults.slow, delay=0.5),
        "stands still for 3 s, 3 times": Faults.stopped,
        "the line swallows all, 8 s": Faults.swallowed,
        "crashes, 3 s": Faults.restarted,
        "read-only, 5 s": Faults.read_only,
        "disk full, 5 s": Faults.full,
        "tools locked on the server, 6 s": Faults.locked,
        "no connection left, 5 s": Faults.crowded,
    }
    print("| what happens | searches | failed | longest s | p50 ms | said so | outcomes | lost |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, event in kinds.items():
        if arguments.only not in name:
            continue
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
            write_tree(folder / "tools", arguments.tools)
            after = stack.enter_context(ExitStack())
            server = stack.enter_context(serving(partial(_server, name=name, stack=after)))
            way = stack.enter_context(line(server))
            direct = server.address("postgres")
            with Database(direct) as database:
                database.init()
                server.execute("CREATE ROLE agent LOGIN")
                database.grant("agent", write=True)
            copy = SQLiteStore(folder / "w.db")
            with closing(SharedStore(copy, direct, tree=_TREE)) as store:
                store.sync(scan(folder / "tools"), reader_version="1")
            os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
            address = f"postgresql://agent@/postgres?host={way.folder}&tree={_TREE}"
            faults = Faults(server, way, direct)
            seen = asyncio.run(_search(address, 2, partial(event, faults)))
            count, distinct = _stored(direct)
            assert count == distinct
        print(
            f"| {name} | {len(seen.taken)} | {len(seen.failures)} | {max(seen.taken):.2f} "
            f"| {1_000 * median(seen.taken):.0f} | {seen.noted} | {seen.outcomes} "
            f"| {seen.outcomes - count} |",
            flush=True,
        )
        for failure in sorted(set(seen.failures)):
            print(f"  {failure}")


if __name__ == "__main__":
    main()
