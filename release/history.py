"""Questions to git: the last release, and what a branch has changed."""

import re
import tarfile
from pathlib import Path

from packaging.version import VERSION_PATTERN, Version

from release.processes import ReleaseError, run
from release.projects import Project

# A clone has the first; a repository without a remote has only the second.
_MAIN = ("origin/main", "main")
_RELEASE = re.compile(rf"-v{VERSION_PATTERN}$", re.VERBOSE | re.IGNORECASE)


def head(root: Path) -> str:
    """Return the current commit."""
    return run("git", "rev-parse", "HEAD", cwd=root).strip()


def last_release(project: Project, root: Path, *, before: str | None = None) -> str | None:
    """Return the tag of the highest version, other than `before`, among the commit's ancestors."""
    tags = run("git", "tag", "--merged", "HEAD", "--list", f"{project.name}-v*", cwd=root).split()
    found = [tag for tag in tags if tag != before and _RELEASE.search(tag)]
    return max(found, key=version_of, default=None)


def version_of(tag: str) -> Version:
    """Return the version in a tag."""
    return Version(tag.rpartition("-v")[2])


def branching_point(root: Path) -> str | None:
    """Return the commit where this branch left main, or None if there is no main branch."""
    for branch in _MAIN:
        try:
            return run("git", "merge-base", branch, "HEAD", cwd=root).strip()
        except ReleaseError:
            continue
    return None


def changed(base: str, place: Path, root: Path, *, removals: bool = True) -> bool:
    """Return whether commits since `base` have changed a file, or any file in a folder."""
    which = "--diff-filter=" + ("" if removals else "d")
    return bool(run("git", "diff", "--name-only", which, f"{base}...HEAD", "--", place, cwd=root))


def unpack(commit: str, folder: Path, root: Path, place: Path) -> Path:
    """Copy a folder as of a commit into another folder, and return the path of the copy."""
    within, archive = folder.relative_to(root), place / "archive.tar"
    run("git", "archive", f"--output={archive}", commit, "--", within.as_posix(), cwd=root)
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    return place / within


def file_at(commit: str, path: Path, root: Path) -> str:
    """Return a file's text at a commit; empty if it did not exist."""
    try:
        return run("git", "show", f"{commit}:{path.relative_to(root).as_posix()}", cwd=root)
    except ReleaseError:
        return ""
