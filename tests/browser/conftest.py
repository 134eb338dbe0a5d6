"""Fixtures of the browser tests: a server as a process, and Chromium."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

EXAMPLES = Path(__file__).parents[2] / "examples" / "tools"
# Seconds that a test waits for anything; a busy machine may take a minute to start a server.
PATIENCE = 120
# Playwright's default is five seconds.
expect.set_options(timeout=1000 * PATIENCE)
TOKEN = "s3cr3t-t0ken"
# Names of other servers resolve to this machine, as an attacker's name server could arrange.
REBOUND = "--host-resolver-rules=MAP *.example 127.0.0.1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write", action="store_true", help="write the guide's pictures")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = os.environ.get("CHROMIUM")
    if chromium is None:
        pytest.skip("`uv run nox -s browser` finds Chromium, and sets CHROMIUM to its path")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium, args=[REBOUND], timeout=1000 * PATIENCE
        )
        yield launched
        launched.close()


@contextmanager
def serving(root: Path, folder: Path, **variables: str) -> Iterator[str]:
    """Start a server at a free port, and return its address once its index is complete."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTOOLS_", "XDG_"))}
    ours = {"HOME": str(folder), "PYTOOLS_EMBEDDING_MODEL": "static"}
    command = shutil.which("pytools-hybrid", path=str(Path(sys.executable).parent))
    assert command is not None
    errors = folder / "stderr"
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [
                *(command, "serve", "--transport", "http", "--port", "0"),
                # Pages show the root as it is written here.
                *("--root", root.name, "--database", str(folder / "index.db")),
            ],
            stdin=subprocess.DEVNULL,
            stderr=stderr,
            cwd=root.parent,
            env=kept | ours | variables,
        ) as process,
    ):
        try:
            deadline = time.monotonic() + PATIENCE
            while not (found := re.search(r"serving on (\S+) ", said := errors.read_text("utf-8"))):
                assert process.poll() is None, said
                assert time.monotonic() < deadline, said
                time.sleep(0.02)
            # A page that is opened earlier shows fewer results, and adds no others later.
            token = variables.get("PYTOOLS_TOKEN", TOKEN)
            while not is_complete(health := told(found[1], "/health", token)):
                assert time.monotonic() < deadline, health
                time.sleep(0.05)
            yield found[1]
        finally:
            process.kill()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of the example tools."""
    with serving(EXAMPLES, tmp_path_factory.mktemp("site")) as address:
        # One page shows the recorded searches.
        told(address, "/search?q=tool")
        yield address


@pytest.fixture(scope="session")
def locked_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the server with a token, which contains its log."""
    return tmp_path_factory.mktemp("locked")


@pytest.fixture(scope="session")
def locked(locked_folder: Path) -> Iterator[str]:
    """The address of a server with a token."""
    with serving(EXAMPLES, locked_folder, PYTOOLS_TOKEN=TOKEN) as address:
        yield address


def told(address: str, path: str, token: str = TOKEN) -> Any:
    """Return an answer of a server's JSON API, requested with the token."""
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.get(address + path, headers=headers, trust_env=False, timeout=PATIENCE).json()


def is_complete(health: Any) -> bool:
    """Return whether all tools and their vectors are indexed, in an answer about the health."""
    coverage = health.get("coverage", {"tools": 0, "vectors": 0})
    return health["status"] == "ok" and coverage["vectors"] == coverage["tools"] > 0


@pytest.fixture
def searches() -> Callable[[str], int]:
    """Return a function that counts the searches recorded by a server."""
    return lambda address: told(address, "/api/v1/stats")["searches"]


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Any]:
    """Start a server for one test: `with serve(root, PYTOOLS_TOKEN="secret") as address`."""

    def start(root: Path = EXAMPLES, **variables: str) -> Any:
        return serving(root, tmp_path, **variables)

    return start


@contextmanager
def visiting(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open pages, each in a new window with its own cookies and settings.

    Afterwards, no page may have logged anything, such as a violated policy, or loaded anything from
    elsewhere.
    """
    windows: list[BrowserContext] = []
    reported: list[str] = []

    def open_page(address: str, *, refused: bool = False, **settings: Any) -> Page:
        window = browser.new_context(**settings)
        windows.append(window)
        window.set_default_timeout(1000 * PATIENCE)
        page = window.new_page()
        server = address.partition("://")[2].partition("/")[0]

        def request(made: Any) -> None:
            if f"//{server}/" not in made.url:
                reported.append(f"asked for {made.url}")

        def log(message: Any) -> None:
            # Chromium logs error statuses, which some tests expect.
            if not (refused and message.text.startswith("Failed to load resource")):
                reported.append(message.text)

        page.on("console", log)
        page.on("pageerror", lambda error: reported.append(str(error)))
        page.on("dialog", lambda dialog: reported.append(f"a dialog: {dialog.message}"))
        page.on("request", request)
        page.goto(address)
        return page

    yield open_page
    for window in windows:
        window.close()
    assert reported == []


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page in a new window: `visit(address)`."""
    with visiting(browser) as open_page:
        yield open_page


@pytest.fixture(scope="module")
def visit_once(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page that several tests of a module use."""
    with visiting(browser) as open_page:
        yield open_page
