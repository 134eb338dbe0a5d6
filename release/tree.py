"""A copy of what the packages are made of, so that trying a release leaves the workspace alone."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from release import changelog
from release.processes import run
from release.projects import Project, named, read_projects

# Besides the packages: what describes the workspace, what makes changelogs, tools to try with.
_BESIDES = ("pyproject.toml", "uv.lock", "release", "examples/tools")


def copy(root: Path, known: Iterable[str], target: Path) -> Path:
    """Copy the files that git knows as far as packages are made of them."""
    members = [it.folder.relative_to(root).as_posix() for it in read_projects(root).values()]
    for name in known:
        if any(name == part or name.startswith(f"{part}/") for part in (*members, *_BESIDES)):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)
    return target


def rehearsed(project: Project, tree: Path) -> Project:
    """Give a package as its next release will be: what waits in `changes/` becomes a section.

    Where the present version is released already, the next patch stands for the one to come.
    """
    if not project.fragments:
        return project
    if changelog.section(project) is not None:
        run("uv", "version", "--frozen", "--bump=patch", f"--package={project.name}", cwd=tree)
        project = named(project.name, tree)
    changelog.build(project, tree)
    return project
