"""Small databases, opened with each supported driver."""

from __future__ import annotations

import os
import sqlite3
from array import array
from contextlib import closing
from typing import TYPE_CHECKING, Any

import apsw
import pytest
import sqlite_vec
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# The time limit of any wait, in seconds: many times what a slow machine needs.
PATIENCE = 120

# How long an example takes depends on the machine, not on the code. noxfile.py sets the number of
# examples; the weekly run has more.
settings.register_profile(
    "patient",
    deadline=None,
    max_examples=int(os.environ.get("TEST_EXAMPLES", "40")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")

DOCUMENTS = {
    "github:create_issue": ("create issue", "Open a new issue in a repository."),
    "github:list_issues": ("list issues", "List the issues of a repository."),
    "mail:send_mail": ("send mail", "Send a message with attachments."),
    "pdf:merge": ("merge", "Merge several PDF files into one."),
}


@pytest.fixture(params=["apsw", "sqlite3"])
def connection(request: pytest.FixtureRequest) -> Iterator[Any]:
    """An empty database in memory."""
    opened = apsw.Connection(":memory:") if request.param == "apsw" else sqlite3.connect(":memory:")
    with closing(opened):
        yield opened


@pytest.fixture
def documents(connection: Any) -> Any:
    """Four documents in a full-text table `docs_fts`, with their ids in `docs`."""
    connection.execute("CREATE TABLE docs (id TEXT UNIQUE)")
    connection.execute(
        "CREATE VIRTUAL TABLE docs_fts USING fts5 (name, text, tokenize = 'porter unicode61')"
    )
    for rowid, (id_, texts) in enumerate(DOCUMENTS.items(), start=1):
        connection.execute("INSERT INTO docs (rowid, id) VALUES (?, ?)", (rowid, id_))
        connection.execute(
            "INSERT INTO docs_fts (rowid, name, text) VALUES (?, ?, ?)", (rowid, *texts)
        )
    return connection


@pytest.fixture
def load_vec(connection: Any) -> Any:
    """The database with sqlite-vec loaded, where the driver can load it."""
    if not hasattr(connection, "enable_load_extension"):
        pytest.skip("this Python's sqlite3 was built without loading of extensions")
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.enable_load_extension(False)
    return connection


@pytest.fixture
def store_vectors(load_vec: Any) -> Callable[[Mapping[int, Sequence[float]]], Any]:
    """Return a function that stores vectors by rowid in `docs_vec` and returns the connection."""

    def store(vectors: Mapping[int, Sequence[float]]) -> Any:
        dimensions = len(next(iter(vectors.values())))
        load_vec.execute(
            "CREATE VIRTUAL TABLE docs_vec USING vec0 "
            f"(embedding float[{dimensions}] distance_metric=cosine)"
        )
        for rowid, vector in vectors.items():
            load_vec.execute(
                "INSERT INTO docs_vec (rowid, embedding) VALUES (?, ?)",
                (rowid, array("f", vector).tobytes()),
            )
        return load_vec

    return store
