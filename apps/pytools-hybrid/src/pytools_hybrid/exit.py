"""End the process while threads are still busy."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from pytools_hybrid.tracing import end_tracing

__all__ = ["exit_now"]


def exit_now(status: int) -> NoReturn:
    """End the process without waiting for its threads.

    A thread may be reading from stdin or be in the middle of a long scan, and an ordinary exit
    would wait for it. The index is consistent at any moment.
    """
    end_tracing()
    sys.stderr.flush()
    os._exit(status)
