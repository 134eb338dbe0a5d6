"""Whether a tag may be released: everything that must be so before anything is built.

python -m release.tag toolscan-v0.1.0
"""

import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from packaging.version import Version

from release import changelog, history
from release.processes import ReleaseError, say, status
from release.projects import Project, named, parser
from release.published import absent
from release.waiting import untold

_TAG = re.compile(r"(?P<name>.+)-v[^-]+")


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
    if project.version.release[3:] or str(project.version) != project.version.base_version:
        raise ReleaseError(f"{project.version} is not X.Y.Z, three numbers: that is all we release")
    return project


def misplaced(project: Project, root: Path) -> list[str]:
    """Tell that the present commit is not the one to release, or has another version locked."""
    found = []
    if history.commit_of(f"refs/tags/{project.tag}", root) not in (None, history.head(root)):
        found.append(
            f"the tag {project.tag} is at another commit: check that out, or delete it and tag anew"
        )
    if history.branching_point(root) not in (None, history.head(root)):
        found.append("the present commit is not on the main branch: have it merged and checked")
    lock = tomllib.loads((root / "uv.lock").read_text("utf-8"))
    locked = {it["name"]: it.get("version") for it in lock.get("package", ())}
    if locked.get(project.name) != str(project.version):
        found.append(
            f"uv.lock has {project.name} {locked.get(project.name)}, not {project.version}: run "
            "`uv lock --default-index https://pypi.org/simple` and commit it"
        )
    return found


def problems(
    project: Project, addresses: Sequence[str] = (), present: Mapping[str, Version] | None = None
) -> list[str]:
    """Give what speaks against releasing a package as it is, with what to do about each.

    Args:
        project: The package, in the version that it has.
        addresses: Indexes that siblings may be on, besides the default one.
        present: Versions of siblings, in a rehearsal: those below count as released.
    """
    return [*_untold(project), *absent(project, addresses, present or {})]


def _untold(project: Project) -> list[str]:
    build = f"`uv run --group release python -m release.changelog {project.name} --build`"
    found = []
    place = f"{project.version} in CHANGELOG.md of {project.name}"
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    match changelog.sections(project):
        case []:
            found.append(
                f"CHANGELOG.md of {project.name} has no section {project.version}: {build}"
            )
        case [written]:
            if not written.text:
                found.append(f"the section {place} is empty: write what is new")
            if written.dated is None or written.dated > tomorrow:
                found.append(
                    f"the heading of {place} has no date, or one to come: write it as "
                    f"`## {project.version} - 2026-01-31`"
                )
        case _:
            found.append(f"the heading of {place} stands there twice: make them one section")
    waiting = untold(project)
    if waiting:
        names = ", ".join(path.name for path in waiting)
        found.append(f"changes/ of {project.name} has what no section tells ({names}): {build}")
    return found


def too_small(project: Project, root: Path) -> list[str]:
    """Tell that a version says less than what has changed since the last one, or is below it."""
    before = history.last_release(project, root, before=project.tag)
    if before is None:
        return []
    old, new = history.version_of(before), project.version
    if new <= old:
        return [f"{project.name} {new} is not above {old}, which is released: raise it"]
    written = changelog.section(project)
    if written is None or "breaking" not in written.types:
        return []
    if new.major > old.major or (new.major == 0 and new.minor > old.minor):
        return []
    part = "minor" if new.major == 0 else "major"
    return [
        f"{project.name} {new} breaks what {old} promised: raise it with "
        f"`uv version --package {project.name} --bump {part}`, and its section's heading too"
    ]


def main() -> int:
    """Check one tag."""
    options = parser(__doc__)
    options.add_argument("tag", help="<distribution>-v<version>")
    options.add_argument(
        "--index", action="append", default=[], help="another index that siblings are on"
    )
    chosen = options.parse_args()
    try:
        project = project_of(chosen.tag, chosen.root)
        found = [
            *misplaced(project, chosen.root),
            *too_small(project, chosen.root),
            *problems(project, chosen.index),
        ]
    except ReleaseError as error:
        return status(error.args)
    if not found:
        say(f"{chosen.tag} may be released.")
    return status(found)


if __name__ == "__main__":
    sys.exit(main())
