"""Whether what a branch changes in a package is told to those who use it."""

import tomllib
from pathlib import Path
from typing import Any

from release import changelog, history
from release.projects import Project, read_projects

# What of a project's metadata somebody who installs it notices.
_NOTICED = ("dependencies", "optional-dependencies", "requires-python", "scripts")


def problems(root: Path) -> list[str]:
    """Return the packages that have changed without a fragment, and fragments that are none."""
    projects = read_projects(root).values()
    found = [problem for project in projects for problem in changelog.malformed(project)]
    base = history.branching_point(root)
    if base is None or base == history.head(root):
        print("No commit since the main branch, or none is known: nothing needs a fragment yet.")
        return found
    return found + [
        f"{project.name} has changed since {base[:10]}, and its users are not told: write "
        f"{project.folder.relative_to(root).as_posix()}/changes/+WHAT.TYPE.md (TYPE is "
        f"{', '.join(changelog.TYPES)}) and commit it"
        for project in projects
        if _is_changed(project, base, root) and not _is_told(project, base, root)
    ]


def _is_changed(project: Project, base: str, root: Path) -> bool:
    settings = project.folder / "pyproject.toml"
    before, now = (_noticed(history.file_at(it, settings, root)) for it in (base, "HEAD"))
    return before != now or history.changed(base, project.source, root)


def _noticed(settings: str) -> dict[str, Any]:
    project = tomllib.loads(settings).get("project", {})
    return {key: project.get(key) for key in _NOTICED}


def _is_told(project: Project, base: str, root: Path) -> bool:
    if history.changed(base, project.folder / "changes", root, removals=False):
        return True
    # Or a release has made a section of what was there.
    before = history.file_at(base, project.changelog, root)
    return f"## {project.version} " not in before and changelog.section(project) is not None
