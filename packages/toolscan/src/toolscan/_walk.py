"""Finding the files that a layout can match, without opening any."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from toolscan._records import Rejection
from toolscan._source import leads_outside, outside_root, rejection_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolscan._layout import Layout

# What to include below a folder: everything (`None`), or only the named entries, recursively.
Scope = dict[str, "Scope"] | None


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
    """A path that cannot be followed."""

    path: str
    rejection: Rejection


class _State(NamedTuple):
    """A partially matched layout."""

    layout: Layout
    depth: int
    values: dict[str, str]

    def ends_category(self) -> bool:
        """Return whether the last matched part is the category, and the name follows."""
        if not self.depth or "name" in self.values:
            return False
        return "{category}" in self.layout.parts[self.depth - 1].text


class _Folder(NamedTuple):
    """A folder to be listed."""

    path: str
    states: list[_State]
    scope: Scope
    above: frozenset[tuple[int, int]]


def walk(
    root: str, layouts: Sequence[Layout], scope: Scope, inside: str | None = None
) -> Iterator[Found | CategoryFile | Trouble]:
    """Walk only the folders that a layout can match.

    The depth is that of the layouts, so a loop of symbolic links does no harm. Names come from
    listing folders, never from the scope, so that a file on a file system that ignores case always
    has the spelling in its folder.

    Args:
        root: The folder that the layouts' patterns start from.
        layouts: Where tools are.
        scope: What to include.
        inside: The root's real path, if links that lead out of it must not be followed.
    """
    pending = [_Folder("", [_State(layout, 0, {}) for layout in layouts], scope, frozenset())]
    while pending:
        folder = pending.pop()
        full = f"{root}/{folder.path}"
        try:
            status = os.stat(full)  # noqa: PTH116
            with os.scandir(full) as listed:
                entries = {entry.name: entry for entry in listed}
        except OSError as error:
            yield Trouble(folder.path, rejection_of(error, full))
            continue
        here = (status.st_dev, status.st_ino)
        if here in folder.above:
            loop = "The symbolic link leads back to a folder that contains it."
            yield Trouble(folder.path, Rejection("symlink_loop", loop))
            continue
        for state in folder.states:
            if "__init__.py" in entries and state.ends_category():
                path = f"{folder.path}/__init__.py"
                yield CategoryFile(path, state.layout, state.values["category"])
        below = folder._replace(above=folder.above | {here})
        if folder.scope is not None:
            entries = {name: entries[name] for name in entries.keys() & folder.scope.keys()}
        yield from _reached(root, below, entries, pending, inside)


def _reached(
    root: str,
    folder: _Folder,
    entries: Mapping[str, os.DirEntry[str]],
    pending: list[_Folder],
    inside: str | None,
) -> Iterator[Found | Trouble]:
    prefix = f"{folder.path}/" if folder.path else ""
    for name, entry in entries.items():
        files: list[_State] = []
        folders: list[_State] = []
        for layout, depth, values in folder.states:
            found = layout.parts[depth].match(name)
            ended = depth + 1 == len(layout.parts)
            if found is not None and not (ended and found and name == "__init__.py"):
                reached = _State(layout, depth + 1, values | found if found else values)
                (files if ended else folders).append(reached)
        if not files and not folders:
            continue
        path = prefix + name
        full = f"{root}/{path}"
        try:
            # Only links can lead elsewhere; listing the folder has shown which entries are links.
            if inside is not None and entry.is_symlink() and leads_outside(full, inside):
                yield Trouble(path, outside_root())
                continue
            status = os.stat(full)  # noqa: PTH116
        except OSError as error:
            yield Trouble(path, rejection_of(error, full))
            continue
        below = None if folder.scope is None else folder.scope[name]
        if files and below is None:
            yield Found(path, files[0].layout, files[0].values, status)
        if folders and stat.S_ISDIR(status.st_mode):
            pending.append(_Folder(path, folders, below, folder.above))
