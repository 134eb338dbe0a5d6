"""Tools to index, vectors for them, and checks of the file from outside."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import apsw
import pytest
import sqlite_vec
from hypothesis import HealthCheck, settings
from toolindex import ToolIndex, _connection, _opening
from toolscan import ScanReport, ToolId, scan

# The time limit of any wait, in seconds: many times what a slow machine needs.
PATIENCE = 120
# The beginning of a program whose processes wait for each other that long, instead of the seconds
# after which the index is reported as busy.
PATIENT = f"""
from toolindex import _connection, _opening
_connection.BUSY_TIMEOUT_MS = _opening.BUSY_TIMEOUT_MS = {PATIENCE * 1000}
_connection._RECOVERY_SECONDS = {PATIENCE}
"""

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
    from pathlib import Path

    from toolscan import ToolRecord

# How long an example takes depends on the machine, not on the code. noxfile.py sets the number of
# examples; the weekly run has more.
settings.register_profile(
    "patient",
    deadline=None,
    max_examples=int(os.environ.get("TEST_EXAMPLES", "40")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")

MODULE = '''\
"""A tool."""
def run(title: str, body: str = "") -> str:
    """Create an issue.

    Args:
        title: What it is about.
        body: The text.
    """
'''
READER = "1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a new index."""
    return tmp_path / "search.db"


@pytest.fixture
def durable(path: Path) -> Path:
    """The path of the durable file."""
    return path.with_name("search.db-kept")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads wait for each other as long as the programs with `PATIENT`."""
    for module in (_connection, _opening):
        monkeypatch.setattr(module, "BUSY_TIMEOUT_MS", PATIENCE * 1000)
    monkeypatch.setattr(_connection, "_RECOVERY_SECONDS", PATIENCE)


@pytest.fixture
def index(path: Path) -> Iterator[ToolIndex]:
    """An empty index."""
    with ToolIndex(path) as opened:
        yield opened


@pytest.fixture
def write_tool() -> Callable[..., Path]:
    """Write a tool module into a tree: `write_tool(root, "mail", "send", "Send a mail.")`."""

    def write(root: Path, category: str, name: str, description: str) -> Path:
        file = root / "mcptools" / category / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'def run(to: str) -> str:\n    """{description}"""\n', encoding="utf-8")
        return file

    return write


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> ToolRecord:
    """A record that the scanner itself made."""
    root = tmp_path_factory.mktemp("template")
    file = root / "mcptools" / "github" / "create_issue.py"
    file.parent.mkdir(parents=True)
    file.write_text(MODULE, encoding="utf-8")
    (record,) = scan(root).records
    return record


@pytest.fixture(scope="session")
def make_record(template: ToolRecord) -> Callable[..., ToolRecord]:
    """Return a function that makes a record from an id, a description and other fields."""

    def make(id_: str, description: str = "Does something.", **fields: Any) -> ToolRecord:
        tool_id = ToolId.parse(id_)
        names = (p.alias or p.name for p in template.parameters)
        text = tool_id.embedding_text(description, names)
        return replace(
            template,
            **{
                "id": tool_id,
                "path": f"{tool_id.source}/{tool_id.category}/{tool_id.name}.py",
                "description": description,
                "summary": description,
                "file_hash": hashlib.sha256(f"{id_} {description}".encode()).hexdigest(),
                "text_hash": hashlib.sha256(text.encode()).hexdigest(),
                "stamp": None,
            }
            | fields,
        )

    return make


@pytest.fixture(scope="session")
def report(make_record: Callable[..., ToolRecord]) -> Callable[..., ScanReport]:
    """Return a function that makes a scan report from descriptions by id."""

    def make(descriptions: Mapping[str, str], *, unchanged: Iterable[str] = ()) -> ScanReport:
        records = [make_record(id_, text) for id_, text in sorted(descriptions.items())]
        return ScanReport(records=tuple(records), unchanged=tuple(unchanged))

    return make


@pytest.fixture(scope="session")
def fill(report: Callable[..., ScanReport]) -> Callable[..., None]:
    """Return a function that syncs an index with descriptions by id, and embeds new texts."""

    def fill_index(
        index: ToolIndex, descriptions: Mapping[str, str], *, model_id: str | None = None
    ) -> None:
        index.sync(report(descriptions), reader_version=READER)
        if model_id is not None and (texts := index.pending(model_id, limit=10_000)):
            index.put_vectors(
                model_id, {hash_: vector_of(text, model_id) for hash_, text in texts.items()}
            )

    return fill_index


def vector_of(text: str, model_id: str, dimensions: int = 4) -> list[float]:
    """Return a text's vector: pseudo-random, always the same, and never all zeros."""
    digest = hashlib.sha256(f"{model_id}\0{text}".encode()).digest()
    return [1.0 + byte for byte in digest[:dimensions]]


@pytest.fixture(scope="session")
def embed() -> Callable[..., list[float]]:
    """Return the vector of a text: `embed(text, model_id)`."""
    return vector_of


@pytest.fixture(scope="session")
def contents() -> Callable[[ToolIndex], dict[str, str]]:
    """Return an index's descriptions by id."""

    def read(index: ToolIndex) -> dict[str, str]:
        with index.reading() as reader:
            return dict(reader.connection.execute("SELECT id, description FROM entries"))

    return read


@pytest.fixture(scope="session")
def matches() -> Callable[[ToolIndex, str], set[str]]:
    """Return the ids that a full-text query finds."""

    def search(index: ToolIndex, query: str) -> set[str]:
        with index.reading() as reader:
            rows = reader.connection.execute(
                "SELECT id FROM entries WHERE rowid IN "
                "(SELECT rowid FROM entries_fts WHERE entries_fts MATCH ?)",
                (query,),
            )
            return {row[0] for row in rows}

    return search


@pytest.fixture(scope="session")
def check_sound() -> Callable[[Path], None]:
    """Check, from outside, that a file is sound and that the search tables match the entries."""

    def check(path: Path) -> None:
        with closing(apsw.Connection(str(path))) as connection:
            connection.enable_load_extension(True)
            connection.load_extension(sqlite_vec.loadable_path())
            connection.execute("ATTACH ? AS kept", (f"{path}-kept",))
            assert connection.execute("PRAGMA integrity_check").get == "ok"
            connection.execute("INSERT INTO entries_fts (entries_fts) VALUES ('integrity-check')")
            # Rank 1 compares the full-text table with the content table, row by row.
            connection.execute(
                "INSERT INTO entries_fts (entries_fts, rank) VALUES ('integrity-check', 1)"
            )
            used = connection.execute(
                "SELECT vec_table, model_id FROM models WHERE vec_table IS NOT NULL"
            )
            for table, model in used.fetchall():
                searchable = connection.execute(f"SELECT rowid, embedding FROM {table}")
                kept = connection.execute(
                    "SELECT e.rowid, v.vector FROM entries AS e JOIN embeddings AS v "
                    "ON v.text_hash = e.text_hash WHERE v.model_id = ?",
                    (model,),
                )
                vectors = sorted(searchable)
                assert vectors == sorted(kept)
                rows = connection.execute(
                    "SELECT entry FROM vector_rows WHERE vec_table = ? ORDER BY entry", (table,)
                )
                assert [row for row, _ in vectors] == [row for (row,) in rows]

    return check


@pytest.fixture(scope="session")
def start() -> Callable[..., subprocess.Popen[str]]:
    """Start a Python program in a separate process."""

    def start_program(code: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    return start_program


@pytest.fixture
def mounting() -> Callable[..., Any]:
    """Mount a file system temporarily; skip the test where that is not allowed."""

    @contextmanager
    def mounted(target: Path, *arguments: str) -> Generator[Path]:
        target.mkdir(exist_ok=True)
        try:
            subprocess.run(
                ["mount", *arguments, str(target)],
                check=True,
                capture_output=True,
                timeout=PATIENCE,
            )
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("this user may not mount file systems")
        try:
            yield target
        finally:
            subprocess.run(["umount", "--lazy", str(target)], check=True, timeout=PATIENCE)

    return mounted


@pytest.fixture
def read_only_view(tmp_path: Path, mounting: Callable[..., Any]) -> Callable[[Path], Any]:
    """Make a folder read-only, for root (by a mount) and for other users."""

    @contextmanager
    def view(folder: Path) -> Generator[Path]:
        if not hasattr(os, "geteuid"):
            pytest.skip("folder permissions do not apply on this system")
        if os.geteuid() == 0:
            with mounting(tmp_path / "read_only", "--bind", str(folder)) as target:
                subprocess.run(
                    ["mount", "-o", "remount,bind,ro", str(target)], check=True, timeout=PATIENCE
                )
                yield target
            return
        files = list(folder.iterdir())
        for file in files:
            file.chmod(0o400)
        folder.chmod(0o500)
        try:
            yield folder
        finally:
            folder.chmod(0o700)
            for file in files:
                file.chmod(0o600)

    return view
