"""Run MCP's conformance suite and inspector on the installed server.

usage: python tests/conformance/run.py COMMAND TREE

COMMAND is pytools-hybrid, TREE a tree of tools. `conformance` and `mcp-inspector` must be on PATH.
The suite uses HTTP and runs for every revision of the protocol. Over stdio, the inspector, a client
that our other tests do not use, lists the tools of each profile and looks for schemas that some
models refuse. The suite's checks that do not apply are listed in expected_failures.yml.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EXPECTED = Path(__file__).with_name("expected_failures.yml")
REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
PROFILES = ("search", "basic", "all")
SECONDS = 300


def main() -> None:
    command, tree = sys.argv[1:]
    with tempfile.TemporaryDirectory() as home:
        # By default the inspector writes its list of servers to the user's home folder.
        os.environ["MCP_CATALOG_PATH"] = str(Path(home, "catalog.json"))
        # Use arguments, because a client may start servers without its own variables.
        server = [command, "serve", "--root", tree, "--database", str(Path(home, "index.db"))]
        wrong = [
            *(profile for profile in PROFILES if not _inspected(server, profile)),
            *_not_conformant(server, Path(home)),
        ]
    if wrong:
        raise SystemExit(f"these checks failed: {', '.join(wrong)}")


def _inspected(server: list[str], profile: str) -> bool:
    print(f"\n=== inspector over stdio, --profile {profile}", flush=True)
    listing = ["mcp-inspector", "--cli", "--method", "tools/list", "--strict", "--"]
    listing += [*server, "--profile", profile]
    done = subprocess.run(listing, timeout=SECONDS, stdout=subprocess.PIPE, text=True, check=False)
    names = re.findall(r'^ {6}"name": "(\w+)"', done.stdout, re.MULTILINE)
    is_right = done.returncode == 0 and bool(names)
    print(f"{', '.join(names)}: {'no problems' if is_right else f'exit {done.returncode}'}")
    return is_right


def _not_conformant(server: list[str], home: Path) -> Iterator[str]:
    with _listening(server, home / "server.log") as url:
        for revision in REVISIONS:
            print(f"\n=== conformance over HTTP, revision {revision}", flush=True)
            suite = [
                *("conformance", "server", "--url", f"{url}/mcp", "--suite", "all"),
                *("--spec-version", revision, "--expected-failures", str(EXPECTED)),
                *("--output-dir", str(home / revision)),
            ]
            done = subprocess.run(
                suite, timeout=SECONDS, stdout=subprocess.PIPE, text=True, check=False
            )
            print(done.stdout[done.stdout.rfind("\nTotal:") :].strip(), flush=True)
            if done.returncode:
                yield revision


@contextmanager
def _listening(server: list[str], log: Path) -> Iterator[str]:
    """Serve at a free port, and yield the address that the server prints."""
    with log.open("w") as errors, subprocess.Popen(
        [*server, "--transport", "http", "--port", "0"], stderr=errors
    ) as process:  # fmt: skip
        try:
            yield _address(process, log)
        finally:
            process.terminate()
    if process.returncode:
        raise SystemExit(f"the server ended with {process.returncode}: {log.read_text('utf-8')}")


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    while not (said := re.search(r"(http://[\w.:\[\]]+:\d+) ", log.read_text("utf-8"))):
        try:
            server.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        raise SystemExit(f"the server ended: {log.read_text('utf-8')}")
    return said[1]


if __name__ == "__main__":
    main()
