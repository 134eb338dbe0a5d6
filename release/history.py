"""What git knows: which files are ours, what was released last, what a branch has changed."""

import os
import re
from pathlib import Path

from packaging.version import VERSION_PATTERN, Version

from release.processes import ReleaseError, run
from release.projects import Project

# A clone has the first, a repository that was never cloned the second.
_MAIN = ("origin/main", "main")
_RELEASE = re.compile(rf"-v{VERSION_PATTERN}$", re.VERBOSE | re.IGNORECASE)


def known_files(root: Path) -> set[str]:
    """Give what git tracks or would take up, by paths in the repository; links are not followed."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=root)
    return {name for name in listed.split("\0") if name and os.path.lexists(root / name)}


def commit_of(name: str, root: Path) -> str | None:
    """Give the commit that a branch or tag leads to, or None where there is no such name."""
    try:
        return run("git", "rev-parse", "--verify", f"{name}^{{commit}}", cwd=root).strip()
    except ReleaseError:
        return None


def uncommitted(root: Path) -> list[str]:
    """Give what a release of the last commit would not have."""
    return run("git", "status", "--porcelain", cwd=root).splitlines()


def head(root: Path) -> str:
    """Give the present commit."""
    return run("git", "rev-parse", "HEAD", cwd=root).strip()


def last_release(project: Project, root: Path, *, before: str | None = None) -> str | None:
    """Give the tag of the highest version, but for one, that the present commit descends from."""
    tags = run("git", "tag", "--merged", "HEAD", "--list", f"{project.name}-v*", cwd=root).split()
    found = [tag for tag in tags if tag != before and _RELEASE.search(tag)]
    return max(found, key=version_of, default=None)


def version_of(tag: str) -> Version:
    """Give the version that a tag releases."""
    return Version(tag.rpartition("-v")[2])


def branching_point(root: Path) -> str | None:
    """Give the commit where this branch left the main one, or None where nobody knows."""
    for branch in _MAIN:
        try:
            return run("git", "merge-base", branch, "HEAD", cwd=root).strip()
        except ReleaseError:
            continue
    return None


def changed(base: str, place: Path, root: Path, *, removals: bool = True) -> bool:
    """Tell whether the commits since then have changed a file, or any in a folder."""
    which = "--diff-filter=" + ("" if removals else "d")
    return bool(run("git", "diff", "--name-only", which, f"{base}...HEAD", "--", place, cwd=root))


def file_at(commit: str, path: Path, root: Path) -> str | None:
    """Give a file's text as it was, or None where it was not yet."""
    place = path.relative_to(root).as_posix()
    try:
        return run("git", "show", f"{commit}:{place}", cwd=root)
    except ReleaseError:
        return None
