"""Run the tools that make a release."""

import subprocess
from pathlib import Path


class ReleaseError(Exception):
    """A release cannot continue; each argument describes one problem and what to do about it."""


def run(*command: str | Path, cwd: Path) -> str:
    """Return a command's output; if it fails, raise an error that quotes it."""
    words = [str(word) for word in command]
    ended = subprocess.run(words, cwd=cwd, check=False, capture_output=True)
    if ended.returncode:
        output = (ended.stdout + ended.stderr).decode("utf-8", "replace").strip()
        raise ReleaseError(f"`{' '.join(words)}` failed with {ended.returncode}:\n{output}")
    return ended.stdout.decode("utf-8", "replace")
