"""Matrix products in one thread.

OpenBLAS divides even small products among threads that wait for each other at full load. If other
programs are running, a product of one millisecond takes fifty, on every core.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator

_lock = threading.Lock()
_users = 0
_limit: Any = None


@contextmanager
def one_thread() -> Generator[None]:
    """Make numpy compute products in one thread, in the whole process, until the last user leaves.

    Without threadpoolctl nothing changes.
    """
    global _users, _limit
    with _lock:
        _users += 1
        if _users == 1 and (controller := _controller()) is not None:
            _limit = controller.limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users and _limit is not None:
                _limit.restore_original_limits()
                _limit = None


@cache
def _controller() -> Any:  # noqa: ANN401 - it has no types
    """Find the loaded libraries; numpy must already be imported."""
    try:
        return import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        return None
