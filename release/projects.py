"""The packages of the workspace: folders, versions, and dependencies on each other."""

import tomllib
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from release.processes import ReleaseError

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
        """The file that describes its released versions."""
        return self.folder / "CHANGELOG.md"

    @property
    def source(self) -> Path:
        """The folder of its Python package."""
        return self.folder / "src" / self.module


def read_projects(root: Path = ROOT) -> dict[str, Project]:
    """Return the packages of a workspace by name, each after the siblings that it needs."""
    settings = [
        _read(path)
        for pattern in _read(root / "pyproject.toml")["tool"]["uv"]["workspace"]["members"]
        for path in sorted(root.glob(f"{pattern}/pyproject.toml"))
    ]
    names: set[str] = {canonicalize_name(it["project"]["name"]) for it in settings}
    found = {it.name: it for it in (_project(each, names) for each in settings)}
    order = TopologicalSorter(
        {name: [it.name for it in project.siblings] for name, project in found.items()}
    )
    return {name: found[name] for name in order.static_order()}


def named(name: str, root: Path = ROOT) -> Project:
    """Return one package by its name on PyPI.

    Raises:
        ReleaseError: There is no such package.
    """
    projects = read_projects(root)
    try:
        return projects[canonicalize_name(name)]
    except KeyError:
        raise ReleaseError(
            f"there is no package {name!r}; the packages are {', '.join(projects)}"
        ) from None


def _project(settings: dict[str, Any], names: set[str]) -> Project:
    project = settings["project"]
    extras = project.get("optional-dependencies", {}).values()
    needed = [*project.get("dependencies", []), *(line for extra in extras for line in extra)]
    requirements = [*map(Requirement, needed)]
    for requirement in requirements:
        requirement.name = canonicalize_name(requirement.name)
    name = canonicalize_name(project["name"])
    backend = settings.get("tool", {}).get("uv", {}).get("build-backend", {})
    return Project(
        name=name,
        folder=settings["folder"],
        module=backend.get("module-name", project["name"].replace("-", "_")),
        version=Version(project["version"]),
        # An extra may require another extra of the same package.
        siblings=tuple(it for it in requirements if it.name in names - {name}),
    )


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8")) | {"folder": path.parent}
