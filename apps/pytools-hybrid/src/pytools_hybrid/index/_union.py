"""Merging the reports of several trees: of two tools with the same id, the first tree's wins."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from toolscan import (
    FileStamp,
    Reason,
    RootNotFoundError,
    ScanIssue,
    ScanReport,
    ToolScanError,
    find_tools,
    scan,
)

from pytools_hybrid.errors import RootUnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from toolindex import StoredFiles
    from toolscan import Layout, ToolId, ToolRecord

    from pytools_hybrid.settings import Roots

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionReport:
    """The result of scanning some trees.

    Attributes:
        scanned: One report on all trees, with the paths used in the index. Tools of a tree that
            could not be listed are reported as unchanged.
        unreadable: Why some trees could not be listed; not all of them failed.
    """

    scanned: ScanReport
    unreadable: tuple[RootUnreadableError, ...] = ()


def scan_roots(
    roots: Roots,
    within: Collection[str] | None,
    *,
    stored: StoredFiles,
    known: Mapping[str, FileStamp],
    hashes: Mapping[str, str],
    outside_links: bool,
    definitions: bool = False,
    progress: Callable[[int], object] | None = None,
    found: Callable[[ToolRecord], object] | None = None,
) -> UnionReport:
    """Scan all trees; of tools with the same id, only the first tree's counts.

    The path of a tool determines its id, so two trees have the same tool at the same path. Checking
    one path in all trees is enough to know which of them has the tool now.

    Args:
        roots: The trees. One that does not exist has no tools.
        within: Only scan these paths, relative to each tree.
        stored: What the index has for these paths.
        known: The stamps, by path in the index, of files that need not be read again.
        hashes: The hashes, by path in the index, of files that need not be parsed again.
        outside_links: Whether to follow symbolic links that lead out of a tree.
        definitions: Whether records include the definitions for schemas.
        progress: Called with the number of files scanned so far.
        found: Called with each record that counts, as soon as it is read; as for `scan`.

    Raises:
        RootUnreadableError: No tree can be listed.
    """
    look = _Looks(
        None if within is None else tuple(within),
        layouts=roots.layouts,
        outside_links=outside_links,
        definitions=definitions,
        progress=progress,
    )
    if len(roots) == 1:
        return UnionReport(scanned=look(roots.paths[0], known, hashes, found))
    union = _Union(roots)
    unreadable: list[RootUnreadableError] = []
    for number, root in enumerate(roots):
        stamps = {**_below(number, known), **union.hidden_in(root)}
        counting = None if found is None else union.counting(number, found)
        try:
            union.add(number, look(root, stamps, _below(number, hashes), counting))
        except RootUnreadableError as error:
            unreadable.append(error)
            paths = {entry.path: None for entry in stored.entries.values()}
            union.add(number, ScanReport(unchanged=tuple(_below(number, paths))))
    if len(unreadable) == len(roots):
        raise unreadable[0]
    return UnionReport(scanned=union.report(), unreadable=tuple(unreadable))


class _Union:
    """Collects the reports of trees, in their order."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._taken: dict[str, int] = {}
        self._records: list[ToolRecord] = []
        self._issues: list[ScanIssue] = []
        self._unchanged: list[str] = []
        self._touched: dict[str, FileStamp | None] = {}
        self._categories: dict[str, str] = {}

    def add(self, number: int, report: ScanReport) -> None:
        stored = self._roots.stored
        for record in report.records:
            if self._takes(number, record.path):
                self._records.append(replace(record, path=stored(number, record.path)))
        for path in report.unchanged:
            if self._takes(number, path):
                self._unchanged.append(stored(number, path))
                if path in report.touched:
                    self._touched[stored(number, path)] = report.touched[path]
        self._issues += [replace(issue, path=stored(number, issue.path)) for issue in report.issues]
        self._categories = {**report.categories, **self._categories}

    def counting(
        self, number: int, found: Callable[[ToolRecord], object]
    ) -> Callable[[ToolRecord], object]:
        """Return a function that passes on the next tree's records that no earlier tree has."""

        def pass_on(record: ToolRecord) -> object:
            if record.path in self._taken:
                return False
            return found(replace(record, path=self._roots.stored(number, record.path)))

        return pass_on

    def hidden_in(self, root: Path) -> dict[str, FileStamp]:
        """Return the stamps of the next tree's shadowed files, which need not be read."""
        stamps: dict[str, FileStamp] = {}
        for path in self._taken:
            with suppress(OSError):
                it = (root / path).stat()
                stamps[path] = FileStamp(it.st_size, it.st_mtime_ns, it.st_ctime_ns, it.st_ino)
        return stamps

    def _takes(self, number: int, path: str) -> bool:
        """Return whether a tree is the first that has a tool; if not, record an issue."""
        first = self._taken.setdefault(path, number)
        if first == number:
            return True
        by = self._roots.shown(self._roots.stored(first, path))
        detail = f"It is shadowed by {by}, which has the same id and comes first."
        place = self._roots.stored(number, path)
        self._issues.append(ScanIssue(path=place, reason=Reason.DUPLICATE_ID, detail=detail))
        return False

    def report(self) -> ScanReport:
        return ScanReport(
            records=tuple(sorted(self._records, key=lambda record: record.id)),
            issues=tuple(sorted(self._issues, key=lambda issue: issue.path)),
            unchanged=tuple(sorted(self._unchanged)),
            touched=self._touched,
            categories=dict(sorted(self._categories.items())),
        )


def _below(number: int, paths: Mapping[str, T]) -> dict[str, T]:
    """Return the items of one tree, by the path relative to it."""
    prefix = f"{number}/"
    return {
        path.removeprefix(prefix): value for path, value in paths.items() if path.startswith(prefix)
    }


class _Looks:
    """Scans one tree after the other, and counts all their files."""

    def __init__(
        self,
        within: Collection[str] | None,
        *,
        layouts: tuple[Layout, ...],
        outside_links: bool,
        definitions: bool,
        progress: Callable[[int], object] | None,
    ) -> None:
        self._within = within
        self._layouts = layouts
        self._outside_links = outside_links
        self._definitions = definitions
        self._progress = progress
        self._before = self._files = 0

    def __call__(
        self,
        root: Path,
        known: Mapping[str, FileStamp],
        hashes: Mapping[str, str],
        found: Callable[[ToolRecord], object] | None,
    ) -> ScanReport:
        self._before = self._files
        try:
            report = scan(
                root,
                layouts=self._layouts,
                within=self._within,
                known=known,
                hashes=hashes,
                outside_links=self._outside_links,
                definitions=self._definitions,
                progress=self._count,
                found=found,
            )
        except RootNotFoundError:
            return ScanReport()
        for issue in report.issues:
            if not issue.path:
                raise RootUnreadableError(root, issue.detail)
        return report

    def _count(self, files: int) -> None:
        self._files = self._before + files
        if self._progress is not None:
            self._progress(self._files)


def count_tools(roots: Roots, *, outside_links: bool) -> int:
    """Count the tools of some trees, from file names alone.

    A tree that cannot be listed counts as empty.
    """
    ids: set[ToolId] = set()
    for root in roots:
        # The scan reports why it cannot be listed.
        with suppress(ToolScanError):
            ids.update(find_tools(root, layouts=roots.layouts, outside_links=outside_links))
    return len(ids)
