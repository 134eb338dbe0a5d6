"""Running the tools that a release is made with."""

import subprocess
from pathlib import Path


class ReleaseError(Exception):
    """A release cannot go on; each argument says what to do about one problem."""


def run(*command: str | Path, cwd: Path) -> str:
    """Return what a command prints; where it fails, raise its words as the error."""
    words = [str(word) for word in command]
    ended = subprocess.run(words, cwd=cwd, check=False, capture_output=True)
    if ended.returncode:
        said = (ended.stdout + ended.stderr).decode("utf-8", "replace").strip()
        raise ReleaseError(f"`{' '.join(words)}` failed with {ended.returncode}:\n{said}")
    return ended.stdout.decode("utf-8", "replace")
