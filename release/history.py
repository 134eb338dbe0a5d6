"""What git knows: which files are ours, what was released last, what a branch has changed."""

from pathlib import Path

from release.processes import ReleaseError, run
from release.projects import Project

# A clone has the first, a repository that was never cloned the second.
_MAIN = ("origin/main", "main")


def known_files(root: Path) -> set[str]:
    """Give the files that git tracks or would take up, by their paths in the repository."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=root)
    return {name for name in listed.split("\0") if name and (root / name).is_file()}


def uncommitted(root: Path) -> list[str]:
    """Give what a release of the last commit would not have."""
    return run("git", "status", "--porcelain", cwd=root).splitlines()


def last_release(project: Project, root: Path, *, before: str | None = None) -> str | None:
    """Give the tag of the last release that the present commit descends from."""
    others = [f"--exclude={before}"] if before else []
    pattern = f"--match={project.name}-v[0-9]*"
    try:
        found = run("git", "describe", "--tags", "--abbrev=0", pattern, *others, cwd=root)
    except ReleaseError:
        return None
    return found.strip()


def branching_point(root: Path) -> str | None:
    """Give the commit where this branch left the main one; None where nobody knows, or on it."""
    head = run("git", "rev-parse", "HEAD", cwd=root).strip()
    for branch in _MAIN:
        try:
            base = run("git", "merge-base", branch, "HEAD", cwd=root).strip()
        except ReleaseError:
            continue
        return None if base == head else base
    return None


def changed(base: str, folder: Path, root: Path) -> list[str]:
    """Give the files of a folder that the commits since then have changed."""
    return run("git", "diff", "--name-only", f"{base}...HEAD", "--", folder, cwd=root).splitlines()


def file_at(commit: str, path: Path, root: Path) -> str | None:
    """Give a file's text as it was, or None where it was not yet."""
    place = path.relative_to(root).as_posix()
    try:
        return run("git", "show", f"{commit}:{place}", cwd=root)
    except ReleaseError:
        return None
