"""Scanning several trees as one: of two tools with the same id, the first tree's counts."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol, TypeVar

from toolscan._records import Rejection, ScanReport, Stamp, ToolRecord
from toolscan._source import stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toolscan._records import ScanIssue

T = TypeVar("T")


class _ScanOne(Protocol):
    def __call__(
        self,
        root: str,
        known: Mapping[str, Stamp | None],
        hashes: Mapping[str, str],
        progress: Callable[[int], object] | None,
        found: Callable[[ToolRecord], object] | None,
        /,
    ) -> ScanReport: ...


def scan_several(
    roots: Sequence[str],
    scan_one: _ScanOne,
    known: Mapping[str, Stamp | None],
    hashes: Mapping[str, str],
    progress: Callable[[int], object] | None,
    found: Callable[[ToolRecord], object] | None,
) -> ScanReport:
    """Scan trees in order of precedence.

    The path of a tool determines its id, so two trees have the same tool at the same path. Checking
    one path in all trees is enough to know which of them has the tool now.
    """
    union = _Union(roots)
    stamps, texts = _by_tree(known), _by_tree(hashes)
    files = 0

    def count(number: int) -> None:
        nonlocal read
        read = number
        if progress is not None:
            progress(files + number)

    for number, root in enumerate(roots):
        read = 0
        try:
            report = scan_one(
                root,
                {**stamps[number], **union.shadowed_in(root)},
                texts[number],
                count,
                None if found is None else union.counting(number, found),
            )
        except NotADirectoryError:
            report = ScanReport()
        files += read
        if any(not issue.path for issue in report.issues):
            paths = stamps[number].keys() | texts[number].keys()
            report = replace(report, unchanged=tuple(paths))
        union.add(number, report)
    return union.report()


def _by_tree(paths: Mapping[str, T]) -> defaultdict[int, dict[str, T]]:
    trees: defaultdict[int, dict[str, T]] = defaultdict(dict)
    for path, value in paths.items():
        number, _, relative = path.partition("/")
        if number.isdecimal():
            trees[int(number)][relative] = value
    return trees


class _Union:
    """Collects the reports of trees, in their order."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        self._taken: dict[str, int] = {}
        self._records: list[ToolRecord] = []
        self._issues: list[ScanIssue] = []
        self._unchanged: list[str] = []
        self._touched: dict[str, Stamp | None] = {}
        self._categories: dict[str, str] = {}

    def add(self, number: int, report: ScanReport) -> None:
        for record in report.records:
            if self._takes(number, record.path):
                self._records.append(replace(record, path=f"{number}/{record.path}"))
        for path in report.unchanged:
            if self._takes(number, path):
                self._unchanged.append(f"{number}/{path}")
                if path in report.touched:
                    self._touched[f"{number}/{path}"] = report.touched[path]
        self._issues += [replace(it, path=f"{number}/{it.path}") for it in report.issues]
        self._categories = {**report.categories, **self._categories}

    def counting(
        self, number: int, found: Callable[[ToolRecord], object]
    ) -> Callable[[ToolRecord], object]:
        """Return a function that passes on the next tree's records that no earlier tree has."""

        def pass_on(record: ToolRecord) -> object:
            if record.path in self._taken:
                return False
            return found(replace(record, path=f"{number}/{record.path}"))

        return pass_on

    def shadowed_in(self, root: str) -> dict[str, Stamp]:
        """Return the stamps of the next tree's shadowed files, which need not be read."""
        stamps: dict[str, Stamp] = {}
        for path in self._taken:
            with suppress(OSError):
                stamps[path] = stamp_of(os.stat(f"{root}/{path}"))  # noqa: PTH116
        return stamps

    def _takes(self, number: int, path: str) -> bool:
        """Return whether a tree is the first that has a tool; if not, record an issue."""
        first = self._taken.setdefault(path, number)
        if first != number:
            above = self._roots[first].replace(os.sep, "/").rstrip("/")
            by = path if above == "." else f"{above}/{path}"
            detail = f"It is shadowed by {by}, which has the same id and comes first."
            self._issues.append(Rejection("duplicate_id", detail).issue(f"{number}/{path}"))
        return first == number

    def report(self) -> ScanReport:
        return ScanReport(
            records=tuple(sorted(self._records, key=attrgetter("id"))),
            issues=tuple(sorted(self._issues, key=attrgetter("path"))),
            unchanged=tuple(sorted(self._unchanged)),
            touched=self._touched,
            categories=dict(sorted(self._categories.items())),
        )
