"""Which paths below the root say nothing about its content."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import PurePosixPath

__all__ = ["is_noise"]

_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules", ".mypy_cache", ".ruff_cache"}
)
_SUFFIXES = (".pyc", ".pyo", "~", ".swp", ".swx", ".swo", ".tmp")


def is_noise(path: PurePosixPath) -> bool:
    """Tell whether a path (relative to the root) is a cache, a repository's, or an editor's.

    Only parts below the root count: a project may well live under a folder called `.venv`.
    """
    return not _FOLDERS.isdisjoint(path.parts) or path.name.endswith(_SUFFIXES)
