"""From flags to settings, and from settings to a job that can be interrupted."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import say

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from pytools_hybrid.settings import Settings

__all__ = ["existing_root", "is_folder", "run", "settings_from"]

T = TypeVar("T")


def run(job: Coroutine[Any, Any, T]) -> T:
    import asyncio
    import signal

    async def until_interrupted() -> T:
        status = 128 + signal.SIGINT
        task = asyncio.current_task()

        def terminate() -> None:
            nonlocal status
            status = 128 + signal.SIGTERM
            if task is not None:
                task.cancel()

        # Windows' event loop has no signal handlers, nor has any outside of the main thread.
        with suppress(RuntimeError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        try:
            return await job
        except asyncio.CancelledError:
            # Ctrl-C or SIGTERM. A thread may be inside a long scan, and an ordinary exit would
            # wait for it; what the index holds is safe at every moment.
            say("interrupted")
            os._exit(status)

    return asyncio.run(until_interrupted())


def settings_from(**flags: Any) -> Settings:  # noqa: ANN401 - each flag has its own type
    from pytools_hybrid.settings import Settings

    settings = Settings.from_flags(flags)
    import logging

    logging.basicConfig(level=settings.log_level, format="%(levelname)s: %(message)s")
    for name, nearest in Settings.unknown_variables().items():
        hint = f"; did you mean {nearest}?" if nearest else ""
        logging.getLogger("pytools_hybrid").warning("%s is no setting%s", name, hint)
    return settings


def existing_root(settings: Settings) -> Path:
    root, note = settings.resolved_root()
    if not is_folder(root):
        raise SettingsError(
            "--root", f"{root} does not exist; give the folder that holds the tools"
        )
    if note:
        say(note)
    return root


def is_folder(root: Path) -> bool:
    """Tell whether the root is there."""
    try:
        mode = root.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise SettingsError("--root", f"{root}: {error.strerror}") from error
    if not stat.S_ISDIR(mode):
        raise SettingsError("--root", f"{root} is a file; give the folder that holds the tools")
    return True
