"""Scanning a tree, or several, reading one of its files, or listing its tools by file name."""

from __future__ import annotations

import os
import re
import stat
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from toolscan._layout import DEFAULT_LAYOUTS, Layout, ToolId, id_problem, is_private
from toolscan._records import Rejection, ScanReport, Stamp, ToolRecord
from toolscan._roots import scan_several
from toolscan._source import (
    Source,
    decode,
    docstring,
    hash_bytes,
    leads_outside,
    outside_root,
    parse,
    read_source,
    refuse_surrogates,
)
from toolscan._walk import CategoryFile, Found, walk
from toolscan.errors import ToolScanError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from toolscan._records import ScanIssue
    from toolscan._walk import Scope, Trouble

_Path = str | bytes | os.PathLike[str]
_STARTS_WITH_STRING = r"""(?:\s|#[^\n]*\n|\\\n|[(;])*[rRuU]?["']"""


class _RootNotFoundError(ToolScanError, NotADirectoryError):
    pass


def scan(
    root: _Path | Sequence[_Path],
    *,
    layouts: Iterable[Layout] = DEFAULT_LAYOUTS,
    within: Iterable[_Path] | _Path | None = None,
    known: Mapping[str, Stamp | None] | None = None,
    hashes: Mapping[str, str] | None = None,
    outside_links: bool = True,
    definitions: bool = True,
    progress: Callable[[int], object] | None = None,
    found: Callable[[ToolRecord], object] | None = None,
) -> ScanReport:
    """Read every tool module of a tree; nothing is imported or executed.

    A file that cannot be used becomes an issue, and does not stop others from being read.

    Several trees are read as one: of tools with the same id, the first tree's counts, and the
    others are issues. All paths of the report, of `known` and of `hashes` then begin with the
    number of their tree, as in `0/mcptools/github/create_issue.py`. A tree that does not exist has
    no tools. If one cannot be listed, which is an issue with a path such as `0/`, those of its
    paths that are known are reported as unchanged.

    Args:
        root: The folder that the layouts' patterns start from, or several in order of precedence.
        layouts: Where tools are. Of files with the same id, the earlier layout's has precedence.
        within: Files or folders, or one of them, relative to the root or absolute, to limit the
            scan to these and everything below them. They need not exist.
        known: The stamps of earlier records of these layouts, by path. A file with the same stamp
            is not read, and its path is reported as unchanged.
        hashes: The file hashes of these records, by path. A file with the same bytes is not parsed:
            its path is reported as unchanged, and also in `touched` if its stamp differs.
        outside_links: Whether to follow symbolic links that lead out of the root; otherwise, they
            are issues.
        definitions: Whether records have `definitions`. Without them, schemas allow any object, and
            records take a quarter less memory.
        progress: Called for each file, with the number of files processed so far.
        found: Called with each record as soon as it is read, in no particular order. If it returns
            True, it has taken the record: the report lists the path as unchanged instead.

    Raises:
        ToolScanError: The root is not a directory; it is also a `NotADirectoryError`.
    """
    if within is not None:
        within = [within] if isinstance(within, str | bytes | os.PathLike) else list(within)
    scan_one = partial(
        _scan_tree,
        layouts=tuple(layouts),
        within=within,
        outside_links=outside_links,
        definitions=definitions,
    )
    known = {} if known is None else known
    hashes = {} if hashes is None else hashes
    if isinstance(root, str | bytes | os.PathLike):
        return scan_one(os.fsdecode(root), known, hashes, progress, found)
    roots = [os.fsdecode(each) for each in root]
    if len(roots) == 1:
        return scan_one(roots[0], known, hashes, progress, found)
    return scan_several(roots, scan_one, known, hashes, progress, found)


def _directory(root: _Path) -> str:
    base = os.fsdecode(root)
    if not os.path.isdir(base):  # noqa: PTH112  (a str all along: paths may not be UTF-8)
        raise _RootNotFoundError(
            f"{base!r} is not a directory: give the folder that contains the tool tree"
        )
    return base


def _scan_tree(
    root: str,
    known: Mapping[str, Stamp | None],
    hashes: Mapping[str, str],
    progress: Callable[[int], object] | None,
    found: Callable[[ToolRecord], object] | None,
    *,
    layouts: tuple[Layout, ...],
    within: list[_Path] | None,
    outside_links: bool,
    definitions: bool,
) -> ScanReport:
    tree = _Tree(_directory(root), layouts, outside_links=outside_links)
    records: list[ToolRecord] = []
    issues: list[ScanIssue] = []
    unchanged: list[str] = []
    touched: dict[str, Stamp | None] = {}
    categories: dict[str, str] = {}
    for number, item in enumerate(tree.walk(within), start=1):
        if progress is not None:
            progress(number)
        path = item.path
        try:
            match item:
                case Found():
                    tree.refuse_duplicate(item.layout, item.values)
                    stamp = known.get(path)
                    if stamp is not None and _is_unchanged(stamp, item.status):
                        unchanged.append(path)
                        continue
                    identify(path, item.layout, item.values)
                    source = tree.read(path)
                    known_hash = hashes.get(path)
                    if known_hash is not None and known_hash == hash_bytes(source.data):
                        unchanged.append(path)
                        if source.stamp != stamp:
                            touched[path] = source.stamp
                        continue
                    new = _records(source, item, issues, tree, definitions=definitions)
                    left = [it for it in new if found is None or found(it) is not True]
                    records += left
                    if len(left) < len(new):
                        unchanged.append(path)
                case CategoryFile() if _is_category(item):
                    if text := _category_description(tree.read(path).data):
                        categories[f"{item.layout.source}:{item.category}"] = text
                case CategoryFile():
                    pass
                case _:
                    raise item.rejection
        except Rejection as rejection:
            issues.append(rejection.issue(path))
        except (RecursionError, MemoryError):
            deep = Rejection("too_deep", "It is nested too deeply to be read.")
            issues.append(deep.issue(path))
    return ScanReport(
        records=tuple(sorted(records, key=attrgetter("id.source", "id.category", "id.name"))),
        issues=tuple(sorted(issues, key=attrgetter("path"))),
        unchanged=tuple(sorted(unchanged)),
        touched=dict(sorted(touched.items())),
        categories=dict(sorted(categories.items())),
    )


def read_tool(
    path: _Path,
    root: _Path,
    *,
    name: str = "",
    layouts: Iterable[Layout] = DEFAULT_LAYOUTS,
    outside_links: bool = True,
) -> ToolRecord:
    """Read one tool.

    Args:
        path: The file, relative to the root or absolute.
        root: The folder that the layouts' patterns start from.
        name: The name of the tool; only needed for a file that contains several.
        layouts: Where tools are.
        outside_links: Whether the file may be outside the root, reached by symbolic links.

    Raises:
        ToolScanError: The file has no usable tool; its `issue` says why.
    """
    base = os.fsdecode(root)
    relative = _relative(base, path)
    tree = _Tree(base, tuple(layouts), outside_links=outside_links)
    try:
        matched = None if relative is None else tree.match(relative)
        if matched is None or relative is None:
            patterns = ", ".join(layout.pattern for layout in tree.layouts)
            raise Rejection("no_layout", f"No layout has tools here: {patterns}.")
        layout, values = matched
        tool = identify(relative, layout, values, name)
        tree.refuse_duplicate(layout, values)
        if tree.inside is not None and leads_outside(f"{tree.base}/{relative}", tree.inside):
            raise outside_root()
        from toolscan._extract import ReadModule

        return ReadModule(tree.read(relative), relative, tree.read).tool(layout, tool)
    except Rejection as rejection:
        raise rejection.error(os.fsdecode(path) if relative is None else relative) from rejection


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
        ToolScanError: The root is not a directory, which is also a `NotADirectoryError`, or it
            cannot be listed, as its `issue` says.
    """
    tree = _Tree(_directory(root), tuple(layouts), outside_links=outside_links)
    paths: dict[ToolId, str] = {}
    for item in tree.walk(within):
        if isinstance(item, Found) and stat.S_ISREG(item.status.st_mode):
            try:
                tree.refuse_duplicate(item.layout, item.values)
                names = [item.values.get("name", "")]
                if item.layout.holds_several:
                    from toolscan._extract import ReadModule

                    names = ReadModule(tree.read(item.path), item.path, tree.read).functions()[0]
                tools = [identify(item.path, item.layout, item.values, name) for name in names]
            except Rejection:
                continue
            paths |= dict.fromkeys(tools, item.path)
        elif not isinstance(item, Found | CategoryFile) and not item.path:
            raise item.rejection.error(os.fsdecode(root)) from item.rejection
    # Ten times faster than comparing the ids themselves.
    order = attrgetter("source", "category", "name")
    return {id_: paths[id_] for id_ in sorted(paths, key=order)}


class _Tree:
    """A folder with tools, and where they are in it.

    Attributes:
        inside: The root's real path, if links that lead out of it must not be followed.
    """

    def __init__(self, base: str, layouts: tuple[Layout, ...], *, outside_links: bool) -> None:
        self._root = self.base = base
        self.layouts = layouts
        self.inside: str | None = None
        if not outside_links:
            # Use the real path from here on, because a root that is a link may change meanwhile.
            self.inside = self.base = os.path.realpath(base)

    def read(self, path: str) -> Source:
        return read_source(f"{self.base}/{path}", inside=self.inside)

    def walk(
        self, within: Iterable[_Path] | _Path | None
    ) -> Iterator[Found | CategoryFile | Trouble]:
        scope = None if within is None else scope_of(self._root, within)
        return walk(self.base, self.layouts, scope, self.inside)

    def match(self, path: str) -> tuple[Layout, dict[str, str]] | None:
        for layout in self.layouts:
            values = layout.values(path)
            if values is not None and (
                layout.pattern.endswith("/__init__.py") or not path.endswith("/__init__.py")
            ):
                return layout, values
        return None

    def refuse_duplicate(self, layout: Layout, values: dict[str, str]) -> None:
        """Reject a tool if an earlier layout has a file with the same id.

        That file is looked up on disk rather than among the records, so that a scan of a single
        file has the same result as a scan of all.
        """
        for other in self.layouts[: self.layouts.index(layout)]:
            if other.source == layout.source:
                twin = other.path_of(values["category"], values.get("name", ""))
                if os.path.exists(f"{self.base}/{twin}"):  # noqa: PTH110
                    raise Rejection("duplicate_id", f"{twin} has the same id and comes first.")


def _records(
    source: Source, item: Found, issues: list[ScanIssue], tree: _Tree, *, definitions: bool
) -> list[ToolRecord]:
    # Most scans find no change, and take less time than importing the syntax reader.
    from toolscan._extract import ReadModule

    module = ReadModule(source, item.path, tree.read)
    names = [""]
    if item.layout.holds_several:
        names, undocumented = module.functions()
        if undocumented:
            issues.append(undocumented.issue(item.path))
    records: list[ToolRecord] = []
    for name in names:
        tool = identify(item.path, item.layout, item.values, name)
        try:
            records.append(module.tool(item.layout, tool, definitions=definitions))
        except Rejection as rejection:
            if not name:
                raise
            detail = f"{name}() is left out: {rejection.detail}"
            issues.append(Rejection(rejection.reason, detail).issue(item.path))
    return records


def identify(path: str, layout: Layout, values: dict[str, str], name: str = "") -> ToolId:
    """Return the id of the tool at a path; raise `Rejection` if there can be none."""
    if not path.isascii() and re.search("[\ud800-\udfff]", path):
        raise Rejection("name_encoding", "Its name is not UTF-8.")
    if layout.hides(path):
        raise Rejection("private", "Names that start with '_' are private.")
    # If the file has not been read, its tools' names are unknown, and any valid name will do.
    category, name = values["category"], values.get("name") or name or "_"
    if problem := id_problem(category, name):
        raise Rejection("invalid_id", f"It cannot be part of an id: {problem}.")
    return ToolId(source=layout.source, category=category, name=name)


def _is_unchanged(stamp: Stamp, status: os.stat_result) -> bool:
    return stamp == (
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
    ) and stat.S_ISREG(status.st_mode)


def _is_category(item: CategoryFile) -> bool:
    folders = zip(item.layout.parts, item.path.split("/")[:-1], strict=False)
    hidden = any(part.pattern and is_private(name) for part, name in folders)
    return not hidden and not id_problem(item.category)


def _category_description(data: bytes) -> str:
    """Return the docstring of a category's `__init__.py`; "" if it has none.

    Raises:
        Rejection: The file starts with a docstring, but cannot be parsed or stored.
    """
    if not data or data.isspace():
        return ""
    text = decode(data)
    # Generated packages start with code, so they need not be parsed to know they have no docstring.
    if not re.match(_STARTS_WITH_STRING, text):
        return ""
    described = docstring(parse(text).body)
    refuse_surrogates([described])
    return described


def scope_of(base: str, within: Iterable[_Path] | _Path) -> Scope:
    """Return the paths as a tree of names; the end of a path includes everything below it."""
    scope: dict[str, Scope] = {}
    for path in [within] if isinstance(within, str | bytes | os.PathLike) else within:
        relative = _relative(base, path)
        if relative is None:
            continue
        if not relative:
            return None
        _add(scope, relative.split("/"))
    return scope


def _add(scope: dict[str, Scope], names: list[str]) -> None:
    for name in names[:-1]:
        inner = scope.setdefault(name, {})
        if inner is None:  # a folder above it is already included
            return
        scope = inner
    scope[names[-1]] = None


def _relative(base: str, path: _Path) -> str | None:
    """Return a path as posix text relative to the root: "" for the root, `None` outside it."""
    text = os.fsdecode(path)
    bases = [os.path.abspath(base)]  # noqa: PTH100
    if os.path.isabs(text):  # noqa: PTH117
        # Watchers may report paths below the target of a link to the root.
        bases.append(os.path.realpath(base))
        full = os.path.normpath(text)
    else:
        full = os.path.normpath(f"{bases[0]}/{text}")
    for top in bases:
        if full == top or top.startswith(full.rstrip(os.sep) + os.sep):
            return ""  # the root itself, or a folder that contains it
        if full.startswith(top.rstrip(os.sep) + os.sep):
            return full[len(top.rstrip(os.sep)) + 1 :].replace(os.sep, "/")
    return None
