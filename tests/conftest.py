"""What the end-to-end tests share: the installed command, a tree of tools, an MCP session."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def command() -> str:
    """The command as installed beside this interpreter."""
    found = shutil.which("pytools-hybrid", path=str(Path(sys.executable).parent))
    assert found is not None, "pytools-hybrid is not installed in this environment"
    return found


@pytest.fixture
def examples() -> Path:
    return REPOSITORY / "examples" / "tools"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder to run commands in, with a cache folder of its own."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def tree(tmp_path: Path, examples: Path) -> Path:
    """A copy of the example tools that a test may change."""
    return Path(shutil.copytree(examples, tmp_path / "tools"))


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    """The caller's environment without settings of ours, and with no way out to the network."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTOOLS_", "XDG_", "OPENAI_"))
    }
    closed = "http://127.0.0.1:9"
    return kept | {
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
    """Run the installed command as a user would."""

    def run_command(
        *arguments: str | Path, cwd: Path = home, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [command, *map(str, arguments)],
            cwd=cwd,
            env=environment | variables,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    return run_command


@pytest.fixture
def connect(command: str, home: Path, environment: dict[str, str]) -> Callable[..., Any]:
    """Start the installed server as a process and talk to it with the official client."""

    @asynccontextmanager
    async def session(*arguments: str | Path, **variables: str) -> AsyncIterator[Client]:
        parameters = StdioServerParameters(
            command=command,
            args=["serve", *map(str, arguments)],
            env=environment | variables,
            cwd=home,
        )
        with anyio.fail_after(60):
            async with Client(stdio_client(parameters)) as client:
                yield client

    return session
