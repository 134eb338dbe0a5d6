"""Running the tools that a release is made with, and ending with what is wrong."""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path


class ReleaseError(Exception):
    """A release cannot go on; the message says what to do about it."""


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Give what a command prints; where it fails, its words are those of the error."""
    return run_bytes(*command, cwd=cwd, env=env).decode("utf-8", "replace")


def run_bytes(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> bytes:
    """Give what a command prints that is no text."""
    words = [str(word) for word in command]
    ended = subprocess.run(words, cwd=cwd, env=_environment(env), check=False, capture_output=True)
    if ended.returncode:
        said = (ended.stdout + ended.stderr).decode("utf-8", "replace").strip()
        raise ReleaseError(f"`{' '.join(words)}` failed with {ended.returncode}:\n{said}")
    return ended.stdout


def _environment(given: Mapping[str, str] | None) -> dict[str, str]:
    """Take out what a maintainer may have set that keeps uv from an index of this machine."""
    kept = {
        name: value
        for name, value in (os.environ if given is None else given).items()
        if not name.startswith(("UV_PUBLISH_", "UV_EXCLUDE_NEWER"))
    }
    direct = ",".join(filter(None, [kept.get("NO_PROXY") or kept.get("no_proxy"), "127.0.0.1"]))
    return kept | {"NO_PROXY": direct, "no_proxy": direct}


def say(line: str) -> None:
    """Tell how far it is, at once, also where the output is a file."""
    print(line, flush=True)


def status(problems: Iterable[str]) -> int:
    """Give a program's exit status, with what is wrong on standard error."""
    found = list(problems)
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if found else 0
