"""What the package indexes have that a release relies on."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.version import Version

from release.processes import ReleaseError, run
from release.projects import Project


def absent(
    project: Project, addresses: Sequence[str], present: Mapping[str, Version]
) -> Iterator[str]:
    """Give the siblings whose floor nobody can install, with what to do about each.

    Args:
        project: The package that needs them.
        addresses: Indexes that they may be on, besides the default one, which is PyPI unless the
            environment says otherwise.
        present: Siblings whose versions below this one are not asked for.
    """
    for sibling in project.siblings:
        floor = _floor(sibling)
        if floor is None:
            yield f"{project.name} requires {sibling} without a floor: write one (>=)"
            continue
        if sibling.name in present and floor < present[sibling.name]:
            continue
        why = _missing(sibling.name, floor, addresses)
        if why is not None:
            yield (
                f"{project.name} requires {sibling}, and {sibling.name} {floor} cannot be "
                f"installed; release it first, if that has not been done. {why}"
            )


def _floor(requirement: Requirement) -> Version | None:
    floors = [it.version for it in requirement.specifier if it.operator == ">="]
    return max(map(Version, floors), default=None)


def _missing(name: str, version: Version, addresses: Sequence[str]) -> str | None:
    with TemporaryDirectory() as folder:
        wanted = Path(folder, "requirements.in")
        wanted.write_text(f"{name}=={version}", "utf-8")
        try:
            run(
                "uv", "pip", "compile", "--quiet", "--no-deps", f"--refresh-package={name}",
                "--index-strategy=unsafe-best-match", *(f"--index={it}" for it in addresses),
                wanted, cwd=Path(folder),
            )  # fmt: skip
        except ReleaseError as error:
            return str(error).partition("\n")[2].removeprefix("error: ")
    return None
