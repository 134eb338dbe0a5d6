"""Copies of what the packages are made of, so that a release leaves the workspace alone."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from release import changelog, history, waiting
from release.processes import ReleaseError, run
from release.projects import Project, named, read_projects

# Besides the packages: what describes the workspace, what makes changelogs, tools to try with.
_BESIDES = ("pyproject.toml", "uv.lock", "release", "examples/tools")


def copy(root: Path, known: Iterable[str], target: Path) -> Path:
    """Copy the files that git knows as far as packages are made of them."""
    for name in _plain(root, known):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target / name)
    return target


def checkout(root: Path, target: Path) -> Path:
    """Clone the present commit: a working tree has more, and git can be told not to mention it."""
    run("git", "clone", "--quiet", "--no-checkout", root, target, cwd=root)
    run("git", "checkout", "--quiet", "--detach", history.head(root), cwd=target)
    _plain(target, history.known_files(target))
    return target


def _plain(root: Path, known: Iterable[str]) -> list[str]:
    """Give the files that packages are made of, and refuse links: builds follow them anywhere."""
    members = [it.folder.relative_to(root).as_posix() for it in read_projects(root).values()]
    wanted = [
        name
        for name in known
        if any(name == part or name.startswith(f"{part}/") for part in (*members, *_BESIDES))
    ]
    wrong = [name for name in wanted if (root / name).is_symlink() or not (root / name).is_file()]
    if wrong:
        raise ReleaseError(
            f"{', '.join(sorted(wrong))}: a link or a repository of its own, which no package "
            "can have; put the files themselves there"
        )
    return wanted


def rehearsed(project: Project, tree: Path) -> Project:
    """Give a package as its next release will be: what waits in `changes/` becomes a section.

    Where the present version is released already, the next patch stands for the one to come.
    """
    if not waiting.untold(project):
        return project
    if changelog.section(project) is not None:
        run("uv", "version", "--frozen", "--bump=patch", f"--package={project.name}", cwd=tree)
        project = named(project.name, tree)
    changelog.build(project, tree)
    return project
