"""Scanning a tree, or reading one of its files."""

from __future__ import annotations

import os
import stat
from operator import attrgetter
from typing import TYPE_CHECKING

from toolscan._category import category_description
from toolscan._hashing import hash_bytes
from toolscan._issues import Reason, Rejection, ScanIssue
from toolscan._layout import DEFAULT_LAYOUTS, Layout, ToolId, id_problem, is_private
from toolscan._records import FileStamp, ScanReport, ToolRecord
from toolscan._source import Source, leads_outside, outside_root, read_source
from toolscan._walk import CategoryFile, Found, Scope, walk
from toolscan.errors import RootNotFoundError, ToolReadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


_Path = str | bytes | os.PathLike[str]


def scan(
    root: _Path,
    *,
    layouts: Iterable[Layout] = DEFAULT_LAYOUTS,
    within: Iterable[_Path] | _Path | None = None,
    known: Mapping[str, FileStamp | None] | None = None,
    hashes: Mapping[str, str] | None = None,
    outside_links: bool = True,
    definitions: bool = True,
    progress: Callable[[int], object] | None = None,
    found: Callable[[ToolRecord], object] | None = None,
) -> ScanReport:
    """Read every tool module of a tree; nothing is imported or executed.

    A file that cannot be used becomes an issue, and does not stop others from being read.

    Args:
        root: The folder that the layouts' patterns start from.
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
        RootNotFoundError: The root is not a directory.
    """
    base = os.fsdecode(root)
    if not os.path.isdir(base):  # noqa: PTH112  (a str all along: paths may not be UTF-8)
        raise RootNotFoundError(base)
    layouts = tuple(layouts)
    records: list[ToolRecord] = []
    issues: list[ScanIssue] = []
    unchanged: list[str] = []
    touched: dict[str, FileStamp | None] = {}
    categories: dict[str, str] = {}
    stamps: Mapping[str, FileStamp | None] = {} if known is None else known
    hashes = {} if hashes is None else hashes
    scope = None if within is None else scope_of(base, within)
    inside = None
    if not outside_links:
        # Use the real path from here on, because a root that is a link may be changed meanwhile.
        inside = base = os.path.realpath(base)
    for number, item in enumerate(walk(base, layouts, scope, inside), start=1):
        if progress is not None:
            progress(number)
        try:
            match item:
                case Found():
                    refuse_duplicate(item.layout, item.values, base, layouts)
                    stamp = stamps.get(item.path)
                    if _is_unchanged(stamp, item.status):
                        unchanged.append(item.path)
                        continue
                    identify(item.path, item.layout, item.values)
                    source = read_source(f"{base}/{item.path}", inside=inside)
                    known_hash = hashes.get(item.path)
                    if known_hash is not None and known_hash == hash_bytes(source.data):
                        unchanged.append(item.path)
                        if source.stamp != stamp:
                            touched[item.path] = source.stamp
                        continue
                    new = _records(
                        source, item, issues, _reader(base, inside), definitions=definitions
                    )
                    left = [it for it in new if found is None or found(it) is not True]
                    records += left
                    if len(left) < len(new):
                        unchanged.append(item.path)
                case CategoryFile() if not _is_category(item):
                    pass
                case CategoryFile():
                    source = read_source(f"{base}/{item.path}", inside=inside)
                    if text := category_description(source.data):
                        categories[f"{item.layout.source}:{item.category}"] = text
                case _:
                    raise item.rejection
        except Rejection as rejection:
            issues.append(issue_of(item.path, rejection))
        except (RecursionError, MemoryError):
            deep = Rejection(Reason.TOO_DEEP, "It is nested too deeply to be read.")
            issues.append(issue_of(item.path, deep))
    return ScanReport(
        records=tuple(sorted(records, key=attrgetter("id.source", "id.category", "id.name"))),
        issues=tuple(sorted(issues, key=lambda issue: issue.path)),
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
        ToolReadError: The file has no usable tool; its `issue` says why.
    """
    base = os.fsdecode(root)
    layouts = tuple(layouts)
    relative = _relative(base, path)
    shown = os.fsdecode(path) if relative is None else relative
    inside = None
    if not outside_links:
        inside = base = os.path.realpath(base)
    try:
        found = None if relative is None else _match(relative, layouts)
        if found is None or relative is None:
            raise Rejection(Reason.NO_LAYOUT, f"No layout has tools here: {_patterns(layouts)}.")
        full = f"{base}/{relative}"
        layout, values = found
        tool = identify(relative, layout, values, name)
        refuse_duplicate(layout, values, base, layouts)
        if inside is not None and leads_outside(full, inside):
            raise outside_root()
        from toolscan._extract import ReadModule

        return ReadModule(read_source(full, inside=inside), relative, _reader(base, inside)).tool(
            layout, tool
        )
    except Rejection as rejection:
        raise ToolReadError(issue_of(shown, rejection)) from rejection


def _records(
    source: Source,
    item: Found,
    issues: list[ScanIssue],
    read: Callable[[str], Source],
    *,
    definitions: bool,
) -> list[ToolRecord]:
    # Most scans find no change, and take less time than importing the syntax reader.
    from toolscan._extract import ReadModule

    module = ReadModule(source, item.path, read)
    names = [""]
    if item.layout.holds_several:
        names, undocumented = module.functions()
        if undocumented:
            issues.append(issue_of(item.path, undocumented))
    records: list[ToolRecord] = []
    for name in names:
        tool = identify(item.path, item.layout, item.values, name)
        try:
            records.append(module.tool(item.layout, tool, definitions=definitions))
        except Rejection as rejection:
            if not name:
                raise
            detail = f"{name}() is left out: {rejection.detail}"
            issues.append(issue_of(item.path, Rejection(rejection.reason, detail)))
    return records


def _reader(base: str, inside: str | None) -> Callable[[str], Source]:
    return lambda path: read_source(f"{base}/{path}", inside=inside)


def function_names(path: str, base: str, inside: str | None) -> list[str]:
    """Return the names of the functions that are tools, in a file of several."""
    from toolscan._extract import ReadModule

    read = _reader(base, inside)
    return ReadModule(read(path), path, read).functions()[0]


def _match(path: str, layouts: Sequence[Layout]) -> tuple[Layout, dict[str, str]] | None:
    for layout in layouts:
        values = layout.values(path)
        if values is not None and (
            layout.pattern.endswith("/__init__.py") or not path.endswith("/__init__.py")
        ):
            return layout, values
    return None


def _patterns(layouts: Sequence[Layout]) -> str:
    return ", ".join(layout.pattern for layout in layouts)


def identify(path: str, layout: Layout, values: dict[str, str], name: str = "") -> ToolId:
    """Return the id of the tool at a path; raise `Rejection` if there can be none."""
    if not path.isascii() and not _is_utf8(path):
        raise Rejection(Reason.NAME_ENCODING, "Its name is not UTF-8.")
    if layout.hides(path):
        raise Rejection(Reason.PRIVATE, "Names that start with '_' are private.")
    # If the file has not been read, its tools' names are unknown, and any valid name will do.
    category, name = values["category"], values.get("name") or name or "_"
    if problem := id_problem(category, name):
        raise Rejection(Reason.INVALID_ID, f"It cannot be part of an id: {problem}.")
    return ToolId(source=layout.source, category=category, name=name)


def _is_category(item: CategoryFile) -> bool:
    """Return whether the folder of a category's file can contain tools."""
    folders = zip(item.layout.parts, item.path.split("/")[:-1], strict=False)
    hidden = any(part.pattern and is_private(name) for part, name in folders)
    return not hidden and not id_problem(item.category)


def refuse_duplicate(
    layout: Layout, values: dict[str, str], base: str, layouts: Sequence[Layout]
) -> None:
    """Reject a tool if an earlier layout has a file with the same id.

    That file is looked up on disk rather than among the records, so that a scan of a single file
    has the same result as a scan of all.
    """
    for other in layouts[: layouts.index(layout)]:
        if other.source == layout.source:
            twin = other.path_of(values["category"], values.get("name", ""))
            if os.path.exists(f"{base}/{twin}"):  # noqa: PTH110
                detail = f"{twin} has the same id and comes first."
                raise Rejection(Reason.DUPLICATE_ID, detail)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_unchanged(stamp: FileStamp | None, status: os.stat_result) -> bool:
    """Compare a known stamp with a file: by size, times and inode, without opening it."""
    return (
        stamp is not None
        and stamp.mtime_ns == status.st_mtime_ns
        and stamp.size == status.st_size
        and stamp.ctime_ns == status.st_ctime_ns
        and stamp.inode == status.st_ino
        and stat.S_ISREG(status.st_mode)
    )


def issue_of(path: str, rejection: Rejection) -> ScanIssue:
    return ScanIssue(
        path=printable(path),
        reason=rejection.reason,
        detail=printable(rejection.detail),
        text=rejection.text,
    )


def printable(text: str) -> str:
    """Escape undecodable bytes of file names, and control characters."""
    if text.isascii() and text.isprintable():
        return text
    shown = os.fsencode(text).decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in shown)


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
