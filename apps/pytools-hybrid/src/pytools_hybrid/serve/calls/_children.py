"""Killing all child processes of a process, even those that have left its group."""

from __future__ import annotations

import os
import signal
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

_ROUNDS = 20
_ZOMBIE = "Z"


def end_children(process: int) -> None:
    """Kill the descendants of a process, on Linux; do nothing elsewhere.

    The process is stopped, so that it starts no more. It should have made itself the parent of its
    orphaned descendants (`PR_SET_CHILD_SUBREAPER`).
    """
    if sys.platform != "linux":
        return
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, signal.SIGSTOP)
    # A process may have started another before it is killed.
    for _ in range(_ROUNDS):
        if not (living := _descendants(process)):
            return
        for child in living:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)


def _descendants(process: int) -> list[int]:
    children: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
    for file in Path("/proc").glob("[0-9]*/stat"):
        # Its name may have any characters, but only before the last bracket.
        with suppress(OSError, ValueError):
            state, parent, *_ = file.read_text(errors="replace").rpartition(")")[2].split()
            children[int(parent)].append((int(file.parent.name), state))
    found, left = list[int](), [process]
    while left:
        for child, state in children[left.pop()]:
            left.append(child)
            if state != _ZOMBIE:
                found.append(child)
    return found
