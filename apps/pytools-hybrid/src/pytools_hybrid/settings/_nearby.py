"""Suggestions for a root that has no tools, or does not exist."""

from __future__ import annotations

import os
import stat
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from toolscan import LAYOUTS, ToolScanError, find_tools, scan

from pytools_hybrid.errors import SettingsError, refusal
from pytools_hybrid.settings._layouts import shown_layouts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from toolscan import Layout

    from pytools_hybrid.settings._roots import Roots

# Otherwise, naming a home folder, for example, would take a minute.
_MOST_FOLDERS = 200


def is_folder(root: Path) -> bool:
    """Return whether a root exists.

    Raises:
        SettingsError: It is a file, or cannot be accessed.
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
    """Check that roots exist and are folders; `name` says where they were named."""
    for root in roots:
        if not is_folder(root):
            raise SettingsError(name, missing(root))


def missing(root: Path) -> str:
    """Return a message that a root does not exist, with the one that was probably meant."""
    meant = meant_folder(root)
    hint = f"did you mean {meant}?" if meant else "give the folder that contains the tools"
    return f"{root} does not exist; {hint}"


def no_tools(roots: Roots) -> str:
    """Return a message that says where tools were expected, and which layout has some."""
    if absent := [root for root in roots if not os.path.exists(root)]:  # noqa: PTH110 - no errors
        return missing(absent[0])
    looked = f"no tools in {roots}: looked for {shown_layouts(roots.layouts)}"
    for root in roots:
        fitting = fitting_layouts(root)
        if set(filter(None, fitting.split(","))) - {it.source for it in roots.layouts}:
            return f"{looked}; {root} has tools in another layout: set PYTOOLS_LAYOUTS={fitting}"
    return looked


def without_tools(roots: Roots) -> str | None:
    """Return that message if no file could be a tool, judging by its name; otherwise None."""
    if any(_has_folders(root, roots.layouts) or _has_tools(root, roots.layouts) for root in roots):
        return None
    return no_tools(roots)


def _has_folders(root: Path, layouts: tuple[Layout, ...]) -> bool:
    """Return whether a root has the folders that tools belong in."""
    tops = (layout.parts[0] for layout in layouts)
    return any(top.pattern is None and os.path.exists(root / top.text) for top in tops)  # noqa: PTH110 - no errors


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


def fitting_layouts(root: Path) -> str:
    """Return the layouts in which a root has tools, by name and separated by commas."""
    return ",".join(name for name, layout in LAYOUTS.items() if _holds_tools(root, layout))


def _folders(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, _MOST_FOLDERS) if entry.is_dir()]
    except OSError:
        return
    yield from (folder / name for name in names)


def _has_tools(folder: Path, layouts: tuple[Layout, ...]) -> bool:
    try:
        return bool(find_tools(folder, layouts=layouts))
    except ToolScanError:
        return False


def _holds_tools(root: Path, layout: Layout) -> bool:
    try:
        paths = list(islice(find_tools(root, layouts=[layout]).values(), _MOST_FOLDERS))
        return bool(scan(root, layouts=[layout], within=paths, definitions=False).records)
    except ToolScanError:
        return False
