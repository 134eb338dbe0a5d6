"""Finding a tree's tools by file name."""

from __future__ import annotations

import os
import stat
from operator import attrgetter
from typing import TYPE_CHECKING

from toolscan._issues import Rejection
from toolscan._layout import DEFAULT_LAYOUTS, Layout, ToolId
from toolscan._scan import function_names, identify, issue_of, refuse_duplicate, scope_of
from toolscan._walk import Found, Trouble, walk
from toolscan.errors import RootNotFoundError, ToolReadError

if TYPE_CHECKING:
    from collections.abc import Iterable


_Path = str | bytes | os.PathLike[str]


def find_tools(
    root: _Path,
    *,
    layouts: Iterable[Layout] = DEFAULT_LAYOUTS,
    within: Iterable[_Path] | _Path | None = None,
    outside_links: bool = True,
) -> dict[ToolId, str]:
    """List the tools of a tree by their paths alone.

    No file is opened, except for layouts with several tools in a file. The result contains every
    tool that `scan` reads, and also files that `scan` rejects because of their content, such as a
    syntax error. Files without a valid name and folders that cannot be listed are left out; `scan`
    reports the reasons.

    Args:
        root: The folder that the layouts' patterns start from.
        layouts: Where tools are. Of files with the same id, the earlier layout's has precedence.
        within: Files or folders, or one of them, as for `scan`.
        outside_links: Whether to follow symbolic links that lead out of the root; otherwise, they
            are left out.

    Returns:
        The path of each id, ordered by id; paths are posix and relative to the root.

    Raises:
        RootNotFoundError: The root is not a directory.
        ToolReadError: The root cannot be listed; its `issue` says why.
    """
    base = os.fsdecode(root)
    if not os.path.isdir(base):  # noqa: PTH112  (a str all along: paths may not be UTF-8)
        raise RootNotFoundError(base)
    layouts = tuple(layouts)
    paths: dict[ToolId, str] = {}
    scope = None if within is None else scope_of(base, within)
    inside = None
    if not outside_links:
        inside = base = os.path.realpath(base)
    for item in walk(base, layouts, scope, inside):
        if isinstance(item, Trouble) and not item.path:
            raise ToolReadError(issue_of(os.fsdecode(root), item.rejection)) from item.rejection
        if isinstance(item, Found) and stat.S_ISREG(item.status.st_mode):
            try:
                refuse_duplicate(item.layout, item.values, base, layouts)
                names = [item.values.get("name", "")]
                if item.layout.holds_several:
                    names = function_names(item.path, base, inside)
                tools = [identify(item.path, item.layout, item.values, name) for name in names]
            except Rejection:
                continue
            paths |= dict.fromkeys(tools, item.path)
    # Ten times faster than comparing the ids themselves.
    order = attrgetter("source", "category", "name")
    return {id_: paths[id_] for id_ in sorted(paths, key=order)}
