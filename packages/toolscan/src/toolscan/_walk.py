"""Finding the files that a layout can match, without reading any."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from toolscan._records import Reason, Rejection
from toolscan._source import rejection_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolscan._layout import Layout

__all__ = ["CategoryFile", "Found", "Scope", "Trouble", "walk"]

# What to look at below a folder: everything, or only what is named (and so on below it).
Scope = Mapping[str, "Scope"] | None


class Found(NamedTuple):
    """A file whose path a layout matches."""

    path: str
    layout: Layout
    values: dict[str, str]
    status: os.stat_result


class CategoryFile(NamedTuple):
    """The `__init__.py` of a category's folder."""

    path: str
    layout: Layout
    category: str


class Trouble(NamedTuple):
    """A path on the way that cannot be followed."""

    path: str
    rejection: Rejection


class _State(NamedTuple):
    """A layout some of whose parts are matched."""

    layout: Layout
    depth: int
    values: dict[str, str]


def walk(
    root: str, layouts: Sequence[Layout], scope: Scope
) -> Iterator[Found | CategoryFile | Trouble]:
    """Go through the folders that a layout can match, and no others.

    The depth is that of the layouts, so no loop of symbolic links can hold it up. Names come from
    listing the folders, never from the scope: where a file system ignores case, a file has the one
    spelling that its folder gives it.
    """
    states = [_State(layout, 0, {}) for layout in layouts]
    yield from _folder(root, "", states, scope, frozenset())


def _folder(
    root: str, path: str, states: list[_State], scope: Scope, above: frozenset[tuple[int, int]]
) -> Iterator[Found | CategoryFile | Trouble]:
    folder = f"{root}/{path}"
    try:
        status = os.stat(folder)  # noqa: PTH116
        with os.scandir(folder) as entries:
            listed = {entry.name for entry in entries}
    except OSError as error:
        yield Trouble(path, rejection_of(error, folder))
        return
    here = (status.st_dev, status.st_ino)
    if here in above:
        loop = "The symbolic link leads back to a folder that it lies in."
        yield Trouble(path, Rejection(Reason.SYMLINK_LOOP, loop))
        return
    for state in states:
        if "__init__.py" in listed and _ends_category(state):
            yield CategoryFile(f"{path}/__init__.py", state.layout, state.values["category"])
    for name in sorted(listed if scope is None else listed & scope.keys()):
        yield from _entry(root, f"{path}/{name}" if path else name, name, states, scope, above | {here})


def _ends_category(state: _State) -> bool:
    """Tell whether the folder just entered is a category, not a folder above or a tool's own."""
    if not state.depth or "name" in state.values:
        return False
    return "{category}" in state.layout.parts[state.depth - 1].text


def _entry(
    root: str,
    path: str,
    name: str,
    states: list[_State],
    scope: Scope,
    above: frozenset[tuple[int, int]],
) -> Iterator[Found | CategoryFile | Trouble]:
    reached = [
        _State(layout, depth + 1, values | found)
        for layout, depth, values in states
        if (found := layout.parts[depth].match(name)) is not None
    ]
    if not reached:
        return
    full = f"{root}/{path}"
    try:
        status = os.stat(full)  # noqa: PTH116
    except OSError as error:
        yield Trouble(path, rejection_of(error, full))
        return
    files = [state for state in reached if state.depth == len(state.layout.parts)]
    folders = [state for state in reached if state.depth < len(state.layout.parts)]
    if files and name != "__init__.py":
        yield Found(path, files[0].layout, files[0].values, status)
    if folders and stat.S_ISDIR(status.st_mode):
        yield from _folder(root, path, folders, None if scope is None else scope[name], above)
