"""The packages of the workspace: where they are, which versions they have, who needs whom.

python -m release.projects      lists them in the order in which they are released
"""

import argparse
import tomllib
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from release.processes import ReleaseError, say

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
        """What the next section of the changelog will be made of."""
        return sorted(self.folder.glob("changes/*.md"))

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
    contents = {path: _read(path) for path in files}
    names = {content["project"]["name"] for content in contents.values()}
    found = {
        project.name: project
        for project in (_project(path, content, names) for path, content in contents.items())
    }
    order = TopologicalSorter(
        {name: [it.name for it in project.siblings] for name, project in found.items()}
    )
    return {name: found[name] for name in order.static_order()}


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


def _project(path: Path, content: dict[str, Any], names: set[str]) -> Project:
    project = content["project"]
    extras = project.get("optional-dependencies", {}).values()
    needed = [*project.get("dependencies", []), *(line for extra in extras for line in extra)]
    backend = content.get("tool", {}).get("uv", {}).get("build-backend", {})
    return Project(
        name=project["name"],
        folder=path.parent,
        module=backend.get("module-name", project["name"].replace("-", "_")),
        version=Version(project["version"]),
        # An extra may name the package itself, with another extra.
        siblings=tuple(
            it for it in map(Requirement, needed) if it.name in names - {project["name"]}
        ),
    )


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def parser(description: str | None) -> argparse.ArgumentParser:
    """Give the options that every program here has."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--root", type=Path, default=ROOT, help="the workspace (this one)")
    return made


if __name__ == "__main__":
    for each in read_projects(parser(__doc__).parse_args().root).values():
        say(" ".join([each.name, str(each.version), *map(str, each.siblings)]))
