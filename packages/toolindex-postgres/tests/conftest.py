"""A PostgreSQL of our own, stores that share its trees, and what they are filled with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from toolindex_postgres import Database, SharedStore

from .postgres import Server, serving
from .sqlite_store import SQLiteStore

# Shrinking runs a server's worth of work again and again.
settings.register_profile(
    "bounded",
    deadline=None,
    max_examples=min(int(os.environ.get("TEST_EXAMPLES", "8")), 12),
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
settings.load_profile("bounded")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches wait until the copy is up to date, however slow this machine is."""
    monkeypatch.setattr("toolindex_postgres._refresh._PATIENCE", 60.0)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server that keeps running."""
    with serving() as started:
        yield started


@pytest.fixture
def mortal() -> Iterator[Server]:
    """A server that a test may stop, and start again."""
    with serving() as started:
        yield started


@pytest.fixture(scope="session")
def database(server: Server) -> str:
    """The address of a database with the schema."""
    address = server.new_database()
    with Database(address) as made:
        made.init()
    return address


_TREES = count(1)


@pytest.fixture
def tree() -> str:
    """The name of a tree that nobody has."""
    return f"tree {next(_TREES)}"


Host = Callable[..., SharedStore]


@pytest.fixture
def host(tmp_path: Path, database: str, tree: str) -> Iterator[Host]:
    """Make a host: `host()` is a store of the test's tree with a separate copy."""
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
