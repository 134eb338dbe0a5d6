"""Checking the trees of tools: whether they exist, what they contain, and what is left out."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from shlex import quote
from typing import TYPE_CHECKING

from pytools_hybrid.reports.doctor._finding import Commands, Verdict, failed, fine, warning
from pytools_hybrid.settings import fitting_layouts, shown_layouts

if TYPE_CHECKING:
    from pathlib import Path

    from toolscan import ScanIssue

    from pytools_hybrid.errors import SettingsError
    from pytools_hybrid.settings import Roots, Settings

_MOST_UNREAD = 3_000
_SHOWN_ISSUES = 3


def look_at_no_root(error: SettingsError) -> Verdict:
    """Report that there is nothing to search."""
    return failed(str(error), "pytools-hybrid doctor --root FOLDER")


def look_at_root(
    settings: Settings,
    roots: Roots,
    number: int,
    database: Path,
    commands: Commands,
    *,
    is_default: bool = False,
) -> Verdict:
    """Check one tree by scanning it, skipping files that the index has already read."""
    from toolscan import ToolScanError, find_tools, scan

    root = roots.paths[number]
    shown = f"{root} (no --root or PYTOOLS_DIR given)" if is_default else str(root)
    # If a parent folder cannot be entered, os.path returns False, while pathlib raises.
    if os.path.exists(root) and not os.path.isdir(root):  # noqa: PTH110, PTH112
        return failed(f"{root} is a file", "give the folder that contains the tools with --root")
    known = _known(database, root, roots)
    try:
        os.listdir(root)  # noqa: PTH208 - the scan takes what it cannot list for empty
        listed = find_tools(root, layouts=roots.layouts, outside_links=settings.outside_links)
        files = len(listed)
        if files > _MOST_UNREAD and len(known) < files / 2:
            return warning(
                f"{shown}: {files} files, too many to read here; `pytools-hybrid index` lists "
                "those that are left out",
                commands.index(),
            )
        report = scan(
            root, layouts=roots.layouts, known=known, outside_links=settings.outside_links
        )
    except (FileNotFoundError, NotADirectoryError):
        return failed(
            f"{root} does not exist",
            f"mkdir -p {quote(str(root))}, or give another folder with --root",
        )
    except (ToolScanError, PermissionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return failed(f"{root} cannot be read ({reason})", f"chmod -R u+rX {quote(str(root))}")
    except OSError as error:
        return failed(
            f"{root} cannot be read ({error.strerror})", "give another folder with --root"
        )
    # Files whose names begin with an underscore are left out on purpose.
    issues = [issue for issue in report.issues if issue.reason != "private"]
    unchanged = frozenset(report.unchanged)
    tools = len(report.records) + sum(path in unchanged for path in listed.values())
    if not tools:
        why = f" ({_reasons(issues)})" if issues else ""
        fitting = fitting_layouts(root)
        remedy = "pytools-hybrid import servers.json"
        if issues:
            remedy = commands.index()
        elif fitting:
            remedy = f"PYTOOLS_LAYOUTS={fitting} pytools-hybrid doctor --root {quote(str(root))}"
        looked = shown_layouts(roots.layouts)
        return warning(f"{shown}: no tools{why}; looked for {looked}", remedy)
    if problem := _misread(root):
        return warning(
            f"{shown}: {tools} tools; {problem} (its previous content still applies)",
            "fix that line, then run: " + commands.index(),
        )
    if issues:
        return warning(
            f"{shown}: {tools} tools; {len(issues)} left out ({_reasons(issues)})",
            commands.index(),
        )
    return fine(f"{shown}: {tools} tools")


def _known(database: Path, root: Path, roots: Roots) -> dict[str, tuple[int, int, int, int]]:
    """Return the stamps of one tree's files in the index, by path in the tree."""
    from toolindex import ToolIndex, ToolIndexError

    with suppress(ToolIndexError):
        if database.is_file():
            with ToolIndex(database, read_only=True) as index:
                stamps = index.stored(reader_version=roots.reader_version).stamps
            located = ((roots.locate(path), stamp) for path, stamp in stamps.items())
            return {path: stamp for (tree, path), stamp in located if tree == root}
    return {}


def _misread(root: Path) -> str:
    """Return the problem of the tree's `capabilities.toml`, if any."""
    from pytools_hybrid.index import FILE_NAME, CapabilitiesError, parse_capabilities, read_text

    path = root / FILE_NAME
    try:
        parse_capabilities(read_text(path), path)
    except CapabilitiesError as error:
        return str(error)
    return ""


def _reasons(issues: list[ScanIssue]) -> str:
    """Summarize why files are left out: for each reason, the number of files and the first one."""
    counts = Counter(str(issue.reason) for issue in issues)
    reasons = ", ".join(f"{count} × {reason}" for reason, count in counts.most_common())
    first = "; ".join(f"{issue.path}: {issue.detail}" for issue in issues[:_SHOWN_ISSUES])
    return f"{reasons}: {first}"
