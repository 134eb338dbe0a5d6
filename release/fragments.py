"""Whether what a branch changes in a package is told to those who use it.

python -m release.fragments     compares the commits since the branch left the main one
"""

import sys
import tomllib
from pathlib import Path
from typing import Any

from release import changelog, history
from release.processes import ReleaseError, run, say, status
from release.projects import Project, parser, read_projects

# What of a project's metadata somebody who installs it notices.
_NOTICED = ("dependencies", "optional-dependencies", "requires-python", "scripts")


def problems(root: Path) -> list[str]:
    """Give the packages that have changed without a fragment, and fragments that are none."""
    projects = read_projects(root).values()
    found = [problem for project in projects if (problem := _unreadable(project, root))]
    base = history.branching_point(root)
    if base is None:
        say("On the main branch, or it is not known: which changes have fragments is not asked.")
        return found
    return found + [
        f"{project.name} has changed since {base[:10]}, and its users are not told: write "
        f"{project.folder.relative_to(root).as_posix()}/changes/+WHAT.TYPE.md (TYPE is breaking, "
        "added, changed, deprecated, removed, fixed or security) and commit it"
        for project in projects
        if _is_changed(project, base, root) and not _is_told(project, base, root)
    ]


def _unreadable(project: Project, root: Path) -> str | None:
    try:
        if not project.fragments:
            return None
        changelog.draft(project, root)
    except ReleaseError as error:
        return f"{project.name}: {error}"
    return None


def _is_changed(project: Project, base: str, root: Path) -> bool:
    if history.changed(base, project.source, root):
        return True
    settings = project.folder / "pyproject.toml"
    before = history.file_at(base, settings, root)
    now = history.file_at("HEAD", settings, root)
    return _noticed(before) != _noticed(now)


def _noticed(settings: str | None) -> dict[str, Any]:
    project = tomllib.loads(settings or "").get("project", {})
    return {key: project.get(key) for key in _NOTICED}


def _is_told(project: Project, base: str, root: Path) -> bool:
    try:
        run(
            sys.executable, "-m", "towncrier", "check", f"--compare-with={base}",
            "--config", changelog.SETTINGS, "--dir", project.folder, cwd=root,
        )  # fmt: skip
    except ReleaseError:
        return False
    return True


if __name__ == "__main__":
    try:
        sys.exit(status(problems(parser(__doc__).parse_args().root.resolve())))
    except ReleaseError as error:
        sys.exit(status(error.args))
