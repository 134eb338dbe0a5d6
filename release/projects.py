"""The packages of the workspace: where they are, which versions they have, who needs whom.

python -m release.projects      lists them in the order in which they are released
"""

import argparse
import sys
import tomllib
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from release.processes import ReleaseError, say, status

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """One package, as its pyproject.toml describes it."""

    name: str
    folder: Path
    module: str
    version: Version
    siblings: tuple[Requirement, ...]

    @property
    def tag(self) -> str:
        """The tag that releases this version."""
        return f"{self.name}-v{self.version}"

    @property
    def changelog(self) -> Path:
        """Where the released versions are described."""
        return self.folder / "CHANGELOG.md"

    @property
    def fragments(self) -> list[Path]:
        """What the next section of the changelog will be made of, and whatever lies there."""
        return sorted(self.folder.glob("changes/*"))

    @property
    def source(self) -> Path:
        """The package that is imported."""
        return self.folder / "src" / self.module


def read_projects(root: Path = ROOT) -> dict[str, Project]:
    """Give the packages of a workspace by name, each after the siblings that it needs."""
    workspace = _read(root / "pyproject.toml")["tool"]["uv"]["workspace"]
    files = [
        path
        for pattern in workspace["members"]
        for path in sorted(root.glob(f"{pattern}/pyproject.toml"))
    ]
    read = [_project(path) for path in files]
    names = {project.name for project in read}
    found = {project.name: replace(project, siblings=_ours(project, names)) for project in read}
    order = TopologicalSorter(
        {name: [it.name for it in project.siblings] for name, project in found.items()}
    )
    try:
        return {name: found[name] for name in order.static_order()}
    except CycleError as error:
        raise ReleaseError(
            f"none of these can be released first, since each needs the next: "
            f"{', '.join(error.args[1])}"
        ) from None


def named(name: str, root: Path = ROOT) -> Project:
    """Give one package by the name that it has on an index."""
    projects = read_projects(root)
    try:
        return projects[canonicalize_name(name)]
    except KeyError:
        raise ReleaseError(
            f"there is no package {name!r}; there are {', '.join(projects)}"
        ) from None


def with_siblings(project: Project, projects: dict[str, Project]) -> set[str]:
    """Give the names of a package and of every sibling that is installed with it."""
    return {project.name}.union(
        *(with_siblings(projects[sibling.name], projects) for sibling in project.siblings)
    )


def _project(path: Path) -> Project:
    content = _read(path)
    try:
        project = content["project"]
        extras = project.get("optional-dependencies", {}).values()
        needed = [*project.get("dependencies", []), *(line for extra in extras for line in extra)]
        backend = content.get("tool", {}).get("uv", {}).get("build-backend", {})
        return Project(
            name=canonicalize_name(project["name"]),
            folder=path.parent,
            module=backend.get("module-name", project["name"].replace("-", "_")),
            version=Version(project["version"]),
            siblings=tuple(map(Requirement, needed)),
        )
    except KeyError as error:
        raise ReleaseError(f"{path} has no {error}: write it") from None
    except (InvalidRequirement, InvalidVersion) as error:
        raise ReleaseError(f"{path} cannot be read: {error}") from None


def _ours(project: Project, names: set[str]) -> tuple[Requirement, ...]:
    """Give the requirements that are siblings, by the names that those have."""
    for requirement in project.siblings:
        requirement.name = canonicalize_name(requirement.name)
    # An extra may name the package itself, with another extra.
    return tuple(it for it in project.siblings if it.name in names - {project.name})


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ReleaseError(f"{path} cannot be read: {error}") from None


def parser(description: str | None) -> argparse.ArgumentParser:
    """Give the options that every program here has."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--root", type=Path, default=ROOT, help="the workspace (this one)")
    return made


def main() -> int:
    """List the packages."""
    try:
        for each in read_projects(parser(__doc__).parse_args().root).values():
            say(" ".join([each.name, str(each.version), *map(str, each.siblings)]))
    except ReleaseError as error:
        return status(error.args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
