"""Whether a tag may be released: everything that must be so before anything is built.

python -m release.tag toolscan-v0.1.0
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from release import changelog, history
from release.index import missing
from release.processes import ReleaseError, say, status
from release.projects import Project, named, parser

_TAG = re.compile(r"(?P<name>.+)-v(?P<version>[^-]+)")


def project_of(tag: str, root: Path) -> Project:
    """Give the package that a tag releases, if that is the version it has."""
    parts = _TAG.fullmatch(tag)
    if parts is None:
        raise ReleaseError(f"the tag {tag!r} is not <distribution>-v<version>, as toolscan-v0.1.0")
    project = named(parts["name"], root)
    if tag != project.tag:
        raise ReleaseError(
            f"the tag {tag} is not the version of {project.name}, which is {project.version}: "
            f"tag {project.tag}, or raise it with `uv version --package {project.name} --bump …`"
        )
    return project


def problems(tag: str, root: Path, addresses: Sequence[str] = ()) -> list[str]:
    """Give everything that speaks against releasing a tag, with what to do about each.

    Args:
        tag: As `toolscan-v0.1.0`.
        root: The workspace.
        addresses: Indexes that siblings may be on, besides the default one.
    """
    project = project_of(tag, root)
    return [*_untold(project), *_too_small(project, root), *_absent(project, addresses)]


def _untold(project: Project) -> list[str]:
    build = f"`uv run --group release python -m release.changelog {project.name} --build`"
    found = []
    written = changelog.section(project)
    if written is None:
        found.append(f"CHANGELOG.md of {project.name} has no section {project.version}: {build}")
    elif written.dated is None:
        found.append(
            f"the heading of {project.version} in CHANGELOG.md of {project.name} has no date: "
            f"write it as `## {project.version} - 2026-01-31`"
        )
    if project.fragments:
        names = ", ".join(path.name for path in project.fragments)
        found.append(f"changes/ of {project.name} has what no section tells ({names}): {build}")
    return found


def _too_small(project: Project, root: Path) -> list[str]:
    before = history.last_release(project, root, before=project.tag)
    written = changelog.section(project)
    if before is None or written is None or not written.is_breaking:
        return []
    old, new = _version(before), project.version
    if new.major > old.major or (new.major == 0 and new.minor > old.minor):
        return []
    part = "minor" if new.major == 0 else "major"
    return [
        f"{project.name} {new} breaks what {old} promised: raise it with "
        f"`uv version --package {project.name} --bump {part}`, and its section's heading too"
    ]


def _version(tag: str) -> Version:
    return Version(tag.rpartition("-v")[2])


def _absent(project: Project, addresses: Sequence[str]) -> list[str]:
    found = []
    for sibling in project.siblings:
        floor = _floor(sibling)
        if floor is None:
            found.append(f"{project.name} requires {sibling} without a floor: write one (>=)")
            continue
        why = missing(f"{sibling.name}=={floor}", addresses)
        if why is not None:
            found.append(
                f"{project.name} requires {sibling}, and {sibling.name} {floor} cannot be "
                f"installed: release it first. {why}"
            )
    return found


def _floor(requirement: Requirement) -> Version | None:
    floors = [it.version for it in requirement.specifier if it.operator == ">="]
    return Version(floors[0]) if floors else None


def main() -> int:
    """Check one tag."""
    options = parser(__doc__)
    options.add_argument("tag", help="<distribution>-v<version>")
    options.add_argument(
        "--index", action="append", default=[], help="another index that siblings are on"
    )
    chosen = options.parse_args()
    try:
        found = problems(chosen.tag, chosen.root, chosen.index)
    except (ReleaseError, InvalidVersion) as error:
        return status(error.args)
    if not found:
        say(f"{chosen.tag} may be released.")
    return status(found)


if __name__ == "__main__":
    sys.exit(main())
