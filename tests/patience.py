"""The installed command with time limits that no busy machine reaches.

usage: python patience.py ARGUMENT ...

When a time limit is reached, the answer is different. So a test that is not about a limit must not
depend on how soon a process is scheduled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

SECONDS = 240.0
# For a file `sitecustomize.py` on PYTHONPATH, which every Python runs at its start.
CODE = f"""
import sys
sys.path.append({str(Path(__file__).parent)!r})
import patience
patience.wait_for_the_index()
patience.wait_for_vectors()
"""

# Time limits, by module.
_INDEX = {
    "pytools_hybrid.index.follow": [
        "_OPENING_SECONDS", "_FIRST_SYNC_SECONDS", "_FIRST_TOOLS_SECONDS",
    ],
}  # fmt: skip
_OTHER_WORK = {
    "pytools_hybrid.index.sync": ["_LEASE_SECONDS", "_REBUILD_SECONDS", "_OTHERS_SECONDS"],
    "pytools_hybrid.reports.doctor": ["_SERVER_SECONDS"],
    "pytools_hybrid.serve.http._app": ["_BODY_SECONDS"],
    "toolimport._generate._worker": ["_LOAD_SECONDS"],
}
_VECTORS = {
    "pytools_hybrid.cli.search": ["_PATIENCE_SECONDS"],
    "pytools_hybrid.index.follow": ["_FIRST_EMBEDDING_SECONDS"],
    "pytools_hybrid.index.index": ["_ENTERING_SECONDS"],
    "pytools_hybrid.search.vectors": ["_SECONDS"],
}
_END = {
    "pytools_hybrid.serve.process": ["_FLUSH_SECONDS", "_FINISH_SECONDS"],
    "toolindex._usage": ["_PATIENCE_MS"],
}
_TRACES = {"pytools_hybrid.telemetry": ["_END_SECONDS"]}


def wait_for_the_index() -> None:
    """Wait longer until an index is open and its files are scanned."""
    _raise(_INDEX)


def wait_for_work() -> None:
    """Wait longer for all work that does not depend on models or clients."""
    _raise(_INDEX)
    _raise(_OTHER_WORK)
    from pytools_hybrid.reports import doctor

    run = doctor._run
    doctor._run = lambda check: run(replace(check, seconds=2 * SECONDS))


def wait_for_vectors() -> None:
    """Wait longer for the vectors of tools and queries, from a model that never hangs."""
    _raise(_VECTORS)


def wait_at_the_end() -> None:
    """Wait longer until a server that ends has written its records."""
    _raise(_END)


def wait_for_traces() -> None:
    """Wait longer until a program that ends has sent its traces, to a receiver that answers."""
    _raise(_TRACES)


def _raise(limits: Mapping[str, Sequence[str]]) -> None:
    for module, names in limits.items():
        raised = import_module(module)
        for name in names:
            limit = 1000 * SECONDS if name.endswith("_MS") else SECONDS
            before = getattr(raised, name)
            assert before <= limit, f"{module}.{name}"
            setattr(raised, name, type(before)(limit))


def main() -> None:
    """Run the command."""
    from pytools_hybrid import cli

    wait_for_work()
    wait_for_vectors()
    cli.main()


if __name__ == "__main__":
    main()
