"""Check that each package that a branch changes has a changelog fragment."""

import tomllib
from pathlib import Path
from typing import Any

from release import changelog, history
from release.projects import Project, read_projects

# The metadata of a project whose changes users notice.
_NOTICED = ("dependencies", "optional-dependencies", "requires-python", "scripts")


def problems(root: Path) -> list[str]:
    """Return a message for each package changed without a fragment, and each invalid fragment."""
    projects = read_projects(root).values()
    found = [problem for project in projects for problem in changelog.malformed(project)]
    base = history.branching_point(root)
    if base is None or base == history.head(root):
        print("No commits since the main branch, or no main branch: nothing needs a fragment.")
        return found
    return found + [
        f"{project.name} has changed since {base[:10]} without a fragment: write "
        f"{project.folder.relative_to(root).as_posix()}/changes/+WHAT.TYPE.md (TYPE is one of "
        f"{', '.join(changelog.TYPES)}) and commit it"
        for project in projects
        if _is_changed(project, base, root) and not _has_fragment(project, base, root)
    ]


def _is_changed(project: Project, base: str, root: Path) -> bool:
    settings = project.folder / "pyproject.toml"
    before, now = (_noticed(history.file_at(it, settings, root)) for it in (base, "HEAD"))
    return before != now or history.changed(base, project.source, root)


def _noticed(settings: str) -> dict[str, Any]:
    project = tomllib.loads(settings).get("project", {})
    return {key: project.get(key) for key in _NOTICED}


def _has_fragment(project: Project, base: str, root: Path) -> bool:
    if history.changed(base, project.folder / "changes", root, removals=False):
        return True
    # A release may have turned the fragments into a section.
    before = history.file_at(base, project.changelog, root)
    return f"## {project.version} " not in before and changelog.section(project) is not None
