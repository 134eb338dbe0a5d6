"""The names below a root that are ignored."""

from __future__ import annotations

_FOLDERS = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "__pycache__",
        "node_modules",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
    }
)
_FILES = frozenset({"4913", ".DS_Store", *_FOLDERS})
_SUFFIXES = (".pyc", ".pyo", "~", ".swp", ".swx", ".swo", ".tmp", "___jb_tmp___", "___jb_old___")
_PREFIXES = (".#", ".goutputstream-", ".nfs", ".fuse_hidden")


def is_noise(name: str, *, folder: bool) -> bool:
    """Return whether a name is that of a cache, a repository or an editor's file.

    Only names below the root count, because a project may be in a folder called `.venv`. Suffixes
    only count for files: a folder called `build.tmp` is not ignored.
    """
    if folder:
        return name in _FOLDERS
    return name in _FILES or name.endswith(_SUFFIXES) or name.startswith(_PREFIXES)
