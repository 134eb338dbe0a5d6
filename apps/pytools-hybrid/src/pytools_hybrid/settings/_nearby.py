"""What may have been meant by a folder that has no tools, or does not exist."""

from __future__ import annotations

import os
import stat
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from pytools_hybrid.errors import SettingsError, refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

LAYOUTS = (
    "mcptools/<category>/<tool>.py and gentools/<category>/<tool>/api.py "
    "with a documented run() or run_parsed()"
)
"""Where tools lie in a root, in words."""

_LEVELS_UP = 3
# So that naming a home folder, say, takes a moment, not a minute.
_MOST_FOLDERS = 200


def is_folder(root: Path) -> bool:
    """Return whether a root exists.

    Raises:
        SettingsError: It is a file, or the system does not let us see what it is.
    """
    try:
        mode = root.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise SettingsError("--root", f"{root}: {refusal(error)}") from error
    if not stat.S_ISDIR(mode):
        raise SettingsError("--root", f"{root} is a file; give the folder that contains the tools")
    return True


def check_roots(roots: Iterable[Path], name: str) -> None:
    """Check that roots exist.

    Args:
        roots: The roots.
        name: What named them: a flag, a variable, a file or an argument.

    Raises:
        SettingsError: One does not exist, or is not a folder.
    """
    for root in roots:
        if not is_folder(root):
            raise SettingsError(name, missing(root))


def missing(root: Path) -> str:
    """Return a sentence that says that a root does not exist, and which one may be meant."""
    meant = meant_folder(root)
    hint = f"did you mean {meant}?" if meant else "give the folder that contains the tools"
    return f"{root} does not exist; {hint}"


def no_tools(roots: Iterable[Path]) -> str:
    """Return a sentence that says what was looked for, and which folder near a root has tools."""
    roots = list(roots)
    if absent := [root for root in roots if not os.path.exists(root)]:  # noqa: PTH110 - no errors
        return missing(absent[0])
    for root in roots:
        if (meant := nearby_root(root)) is not None:
            hint = f"; {meant} has tools: give that folder as the root"
            break
    else:
        hint = ""
    return f"no tools in {', '.join(map(str, roots))}: looked for {LAYOUTS}{hint}"


def meant_folder(folder: Path) -> Path | None:
    """Return the folder whose name is nearest to that of a folder that does not exist."""
    for wrong in (folder, *folder.parents):
        if not wrong.parent.is_dir():
            continue
        names = [it.name for it in _folders(wrong.parent)]
        for name in get_close_matches(wrong.name, names, n=1):
            return wrong.parent / name / folder.relative_to(wrong)
        return None
    return None


def nearby_root(root: Path) -> Path | None:
    """Return a folder with tools, a few levels above a root or two below it."""
    full = root.absolute()
    above = islice(full.parents, _LEVELS_UP)
    for folder in (*above, *islice(_below(full), _MOST_FOLDERS)):
        if _has_tools(folder):
            return folder
    return None


def _below(root: Path) -> Iterator[Path]:
    children = sorted(_folders(root))
    yield from children
    for child in children:
        yield from sorted(_folders(child))


def _folders(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MOST_FOLDERS) if entry.is_dir()]
    except OSError:
        return
    yield from (folder / name for name in names)


def _has_tools(folder: Path) -> bool:
    from toolscan import ToolScanError, find_tools

    try:
        return bool(find_tools(folder))
    except ToolScanError:
        return False
