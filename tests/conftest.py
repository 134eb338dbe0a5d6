"""Fixtures of the end-to-end tests: the installed command, a tree of tools, an MCP session."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import apsw
import mcp.client.stdio
import pytest
import sqlite_vec
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from toolindex import ToolIndex

REPOSITORY = Path(__file__).parents[1]
# The maximum seconds that a test waits for anything, many times what a slow machine needs.
PATIENCE = 240
# The command in a process of its own, with time limits that no busy machine reaches.
PATIENT = (sys.executable, str(Path(__file__).with_name("patience.py")))
# For `release.projects`.
sys.path.append(str(REPOSITORY))
# The SDK's client kills a server soon after closing its stdin, before a busy machine has ended it.
mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT = PATIENCE


@pytest.fixture(scope="session")
def installed() -> str:
    """The command installed in this interpreter's environment."""
    found = shutil.which("pytools-hybrid", path=str(Path(sys.executable).parent))
    assert found is not None, "pytools-hybrid is not installed in this environment"
    return found


@pytest.fixture(scope="session")
def at_once(installed: str) -> Iterator[Path | None]:
    """A folder of programs that start the command quickly, on systems that can fork."""
    if sys.platform != "linux":
        yield None
        return
    # pytest's own temporary folders have names that are too long for a socket's address.
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forking.py")), folder, installed],
            stdout=subprocess.PIPE,
            start_new_session=True,
            # The forked commands must not inherit it either.
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTHONDONTWRITE")},
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield Path(folder)
        process.kill()


@pytest.fixture(scope="session")
def command(installed: str, at_once: Path | None) -> str:
    """The command, started quickly where possible."""
    return installed if at_once is None else str(at_once / "pytools-hybrid")


@pytest.fixture(scope="session")
def patient() -> Callable[..., Any]:
    """Kill a process if a block waits for it too long: `with patient(process, "its answer"):`."""

    @contextmanager
    def waiting(process: subprocess.Popen[Any], what: str) -> Iterator[None]:
        expired: list[str] = []

        def end() -> None:
            expired.append(f"waited {PATIENCE} s for {what}")
            process.kill()

        timer = threading.Timer(PATIENCE, end)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            assert not expired, expired[0]

    return waiting


@pytest.fixture
def port() -> Iterator[int]:
    """A free port, which no other program is given before a server listens on it."""
    with socket.socket() as held:
        # On Linux, a bound socket that does not listen keeps the system from giving the port to
        # others, but a server can still listen on it: servers set this option, too.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        number = held.getsockname()[1]
        if sys.platform != "linux":
            held.close()
        yield number


@pytest.fixture
def examples() -> Path:
    return REPOSITORY / "examples" / "tools"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder to run commands in, with a separate cache folder."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def tree(tmp_path: Path, examples: Path) -> Path:
    """A copy of the example tools that a test may change."""
    return Path(shutil.copytree(examples, tmp_path / "tools"))


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    """The environment without settings of ours, and with no access to the network."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTOOLS_", "XDG_", "OPENAI_", "PYTHONDONTWRITE"))
    }
    closed = "http://127.0.0.1:9"
    return kept | {
        # The weights of the accurate model are installed here; most tests need none.
        "PYTOOLS_EMBEDDING_MODEL": "static",
        "HOME": str(home),
        "USERPROFILE": str(home),
        "LOCALAPPDATA": str(home),
        "HTTP_PROXY": closed,
        "HTTPS_PROXY": closed,
        "ALL_PROXY": closed,
    }


@pytest.fixture
def run(
    command: str, home: Path, environment: dict[str, str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command as a user would, in a separate process."""

    def run_command(
        *arguments: str | Path,
        cwd: Path = home,
        program: Sequence[str] = (command,),
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*program, *map(str, arguments)],
            cwd=cwd,
            env=environment | variables,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )

    return run_command


@pytest.fixture
def connect(command: str, home: Path, environment: dict[str, str]) -> Callable[..., Any]:
    """Start the installed server as a process and talk to it with the official client."""

    @asynccontextmanager
    async def session(
        *arguments: str | Path,
        program: Sequence[str] = (command,),
        seconds: float = PATIENCE,
        **variables: str,
    ) -> AsyncIterator[Client]:
        parameters = StdioServerParameters(
            command=program[0],
            args=[*program[1:], "serve", *map(str, arguments)],
            env=environment | variables,
            cwd=home,
        )
        with anyio.fail_after(seconds), (home / "stderr").open("a") as errors:
            async with Client(stdio_client(parameters, errlog=errors)) as client:
                yield client

    return session


@pytest.fixture(scope="session")
def write_tools() -> Callable[..., list[Path]]:
    """Write tools into a category: `write_tools(root, "mail", 26, "Send the mail of today.")`."""

    def write(root: Path, category: str, count: int, description: str) -> list[Path]:
        folder = root / "mcptools" / category
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / f"tool_{number}.py" for number in range(count)]
        for number, file in enumerate(files):
            file.write_text(
                f'def run(subject: str) -> str:\n    """{description} Its number is {number}."""\n',
                encoding="utf-8",
            )
        return files

    return write


@pytest.fixture
def counted(tmp_path: Path, at_once: Path | None) -> Counted:
    """The command with a test model that records its requests."""
    return Counted(tmp_path, at_once)


class Counted:
    """The command with a model that records its requests.

    Attributes:
        command: The command line that starts it.
        variables: The environment variables that it needs.
        fault: While this file exists, the model fails in the way that its content names.
    """

    def __init__(self, folder: Path, at_once: Path | None) -> None:
        program = Path(__file__).with_name("counted.py")
        self.command = [sys.executable, "-W", "error", str(program)]
        if at_once is not None:
            self.command = [str(at_once / "counted")]
        self.fault = folder / "fault"
        self._log = folder / "requests.jsonl"
        self.variables = {"COUNTED_LOG": str(self._log), "COUNTED_FAULT": str(self.fault)}

    def requests(self, kind: str = "document", **only: object) -> list[dict[str, Any]]:
        """Return the requests to the model, in order."""
        if not self._log.exists():
            return []
        made = []
        for line in self._log.read_text(encoding="utf-8").splitlines():
            # A kill may have truncated a line; that request was never answered.
            with suppress(json.JSONDecodeError):
                made.append(json.loads(line))
        wanted = {"kind": kind} | only
        return [each for each in made if wanted.items() <= each.items()]

    def times_embedded(self, **only: object) -> dict[str, int]:
        """Return how often each text was embedded."""
        return Counter(text for request in self.requests(**only) for text in request["texts"])


@pytest.fixture(scope="session")
def dump() -> Callable[[Path], dict[str, Any]]:
    """Check that an index is intact, and return everything that searches use, without rowids."""
    return look_into


def look_into(database: Path) -> dict[str, Any]:
    with closing(apsw.Connection(str(database))) as connection:
        run = connection.execute
        # A server may be recording searches, and the check counts as writing.
        connection.set_busy_timeout(1000 * PATIENCE)
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        run("ATTACH ? AS kept", (str(ToolIndex.files(database).durable),))
        assert run("PRAGMA integrity_check").get == "ok"
        # Rank 1 compares the full-text table with the content table, row by row.
        run("INSERT INTO entries_fts (entries_fts, rank) VALUES ('integrity-check', 1)")
        run("CREATE VIRTUAL TABLE temp.words USING fts5vocab (main, entries_fts, instance)")
        vectors = {}
        for table, model in run(
            "SELECT vec_table, model_id FROM models WHERE vec_table IS NOT NULL"
        ).fetchall():
            found = run(f"SELECT id, embedding FROM {table} JOIN entries USING (rowid)").fetchall()
            assert run(f"SELECT count(*) FROM {table}").get == len(found), "a vector of no tool"
            vectors[model] = dict(found)
        return {
            "entries": run(
                "SELECT id, path, description, parameters, name_words, file_hash, text_hash "
                "FROM entries ORDER BY id"
            ).fetchall(),
            "words": sorted(
                run("SELECT e.id, term, col, offset FROM words JOIN entries AS e ON e.rowid = doc")
            ),
            "vectors": vectors,
            "kept": {
                tuple(row) for row in run("SELECT model_id, text_hash, vector FROM embeddings")
            },
        }
