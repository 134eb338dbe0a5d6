"""The installed command with time limits that no busy machine reaches.

usage: python patience.py ARGUMENT ...

Where a time limit is reached, the answer is another one. So a test that is not about a limit must
not depend on how soon a process gets its turn.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

SECONDS = 240.0
# Limits of work that needs nothing from others, by module.
_LIMITS = {
    "pytools_hybrid.cli._search": ["_PATIENCE_SECONDS"],
    "pytools_hybrid.index._first_sync": ["_OPENING_SECONDS", "_FIRST_SYNC_SECONDS"],
    "pytools_hybrid.index._index": ["_ENTERING_SECONDS"],
    "pytools_hybrid.index._sync": ["_LEASE_SECONDS", "_REBUILD_SECONDS", "_OTHERS_SECONDS"],
    "pytools_hybrid.jobs.doctor._watcher": ["_PATIENCE_SECONDS"],
    "pytools_hybrid.search._query_vectors": ["_SECONDS"],
    "pytools_hybrid.serve.http._connections": ["_HEADERS_SECONDS"],
    "pytools_hybrid.serve.http._limits": ["_BODY_SECONDS", "_DISCARD_SECONDS"],
    "toolimport.generate._worker": ["_LOAD_SECONDS"],
}


def be_patient() -> None:
    """Raise the time limits of this process."""
    for module, names in _LIMITS.items():
        raised = import_module(module)
        for name in names:
            assert getattr(raised, name) < SECONDS, f"{module}.{name}"
            setattr(raised, name, SECONDS)
    from pytools_hybrid.jobs.doctor import _run, _server, _watcher

    for check in (_server.look_at_server, _watcher.look_at_watching):
        check.__kwdefaults__["seconds"] = SECONDS
    verdict = _run._verdict
    _run._verdict = lambda check: verdict(replace(check, seconds=2 * SECONDS))


def main() -> None:
    """Run the command."""
    from pytools_hybrid import cli

    be_patient()
    cli.main()


if __name__ == "__main__":
    main()
