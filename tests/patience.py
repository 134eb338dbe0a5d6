"""Raise the limits of commands that only a busy machine reaches."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

_SECONDS = 240.0
# For a file `sitecustomize.py` on PYTHONPATH, which every Python runs at its start.
CODE = f"""
import sys
sys.path.append({str(Path(__file__).parent)!r})
import patience
patience.wait_for_the_index()
patience.wait_for_vectors()
"""


def wait_for_the_index() -> None:
    """Wait longer until an index is open and its files are scanned."""
    from pytools_hybrid.index import _first_sync

    _raise(_first_sync, "_OPENING_SECONDS", "_FIRST_SYNC_SECONDS", "_FIRST_TOOLS_SECONDS")
    # One limit is also the default of a parameter.
    _first_sync.FirstSync.opened.__kwdefaults__["within"] = _SECONDS


def wait_for_vectors() -> None:
    """Wait longer until tools are embedded, by a model that never hangs."""
    from pytools_hybrid.cli import _search
    from pytools_hybrid.index import _first_sync

    _raise(_first_sync, "_FIRST_EMBEDDING_SECONDS")
    _raise(_search, "_PATIENCE_SECONDS")


def wait_at_the_end() -> None:
    """Wait longer until a server that ends has written its records."""
    from pytools_hybrid.serve.mcp import _lifecycle
    from toolindex import _usage

    _raise(_lifecycle, "_FLUSH_SECONDS", "_FINISH_SECONDS")
    _raise(_usage, "_PATIENCE_MS", milliseconds=True)


def wait_for_traces() -> None:
    """Wait longer until a program that ends has sent its traces, to a receiver that answers."""
    from pytools_hybrid import tracing

    _raise(tracing, "_END_SECONDS")


def _raise(module: ModuleType, *names: str, milliseconds: bool = False) -> None:
    for name in names:
        assert hasattr(module, name), name
        setattr(module, name, int(1000 * _SECONDS) if milliseconds else _SECONDS)
