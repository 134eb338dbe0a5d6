"""Fixtures: PostgreSQL servers for the tests, and stores that share their trees."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from toolindex_postgres import Database, SharedStore, _connections

from .postgres import Server, serving
from .sqlite_store import SQLiteStore

# There is no shrinking phase, because each example takes a server seconds.
settings.register_profile(
    "bounded",
    deadline=None,
    max_examples=min(int(os.environ.get("TEST_EXAMPLES", "8")), 12),
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
settings.load_profile("bounded")


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> Iterator[None]:
    """Remove variables that libpq and the server read."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [it for it in os.environ if it.startswith("PG")]:
            patch.delenv(name)
        yield


@contextmanager
def patience() -> Iterator[None]:
    """Let everything wait a minute for the server, so that a slow machine fails no test."""
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("_refresh._PATIENCE", "_usage._PATIENCE", "_copy._LEASE_SECONDS"):
            patch.setattr(f"toolindex_postgres.{limit}", 60.0)
        for limit in ("_connection.BUSY_TIMEOUT_MS", "_opening.BUSY_TIMEOUT_MS"):
            patch.setattr(f"toolindex.{limit}", 60_000)
        # Another thread of the host may be writing the copy.
        for limit in ("_usage._PATIENCE_MS", "_query_vectors._PATIENCE_MS"):
            patch.setattr(f"toolindex.{limit}", 60_000)
        patch.setitem(_connections._DEFAULTS, "connect_timeout", 60)
        for limit in ("_POLL_MS", "_READ_MS"):
            patch.setattr(_connections, limit, 60_000)
        patch.setattr(_connections.Connection, "patience", 60.0)
        yield


@pytest.fixture(autouse=True)
def _patient() -> Iterator[None]:
    with patience():
        yield


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server that no test stops."""
    with serving() as started:
        yield started


@pytest.fixture
def mortal() -> Iterator[Server]:
    """A server that a test may stop and start again."""
    with serving() as started:
        yield started


@pytest.fixture(scope="session")
def database(server: Server) -> str:
    """The address of a database with the schema."""
    address = server.new_database()
    with patience(), Database(address) as made:
        made.init()
    return address


_TREES = count(1)


@pytest.fixture
def tree() -> str:
    """The name of a new tree."""
    return f"tree {next(_TREES)}"


Host = Callable[..., SharedStore]


@pytest.fixture
def host(tmp_path: Path, database: str, tree: str) -> Iterator[Host]:
    """Return a function that makes hosts: stores of the test's tree with separate copies."""
    opened: list[SharedStore] = []
    names = count(1)

    def make(
        *, copy: Path | None = None, address: str = database, tree: str = tree, **options: bool
    ) -> SharedStore:
        path = copy or tmp_path / f"host-{next(names)}.db"
        opened.append(SharedStore(SQLiteStore(path), address, tree=tree, **options))
        return opened[-1]

    yield make
    for store in opened:
        store.close()
