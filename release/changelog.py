"""A package's CHANGELOG.md, and the fragments in `changes/` that become its next section."""

import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from release.processes import ReleaseError, run
from release.projects import Project

_SETTINGS = Path(__file__).with_name("towncrier.toml")
TYPES = tuple(
    it["name"].lower()
    for it in tomllib.loads(_SETTINGS.read_text("utf-8"))["tool"]["towncrier"]["type"]
)
# Stricter than towncrier, which passes over what it cannot read and takes an editor's copies up.
_NAME = re.compile(rf"(?:\+[\w-]+|[1-9]\d*)\.({'|'.join(TYPES)})(?:\.[1-9]\d*)?\.md", re.ASCII)
# A heading, or text without a bullet, would break the section into which it is put.
_BULLETS = re.compile(r"- \S.*(?:\n(?:- \S.*|  .*\S.*|[ \t]*))*")
_HEADING = re.compile(r"^## (\S+)(?: - .+)?$", re.MULTILINE)


def section(project: Project) -> str | None:
    """Return what is written under the heading of the present version, or None without one."""
    _, *parts = _HEADING.split(project.changelog.read_text("utf-8"))
    written = dict(zip(parts[::2], parts[1::2], strict=True))
    text = written.get(str(project.version))
    return text and text.strip()


def types_told(project: Project) -> set[str]:
    """Return the types of changes that the section of the present version tells of."""
    return {it.lower() for it in re.findall(r"^### (\w+)$", section(project) or "", re.MULTILINE)}


def types_waiting(project: Project) -> set[str]:
    """Return the types of the fragments."""
    return {found[1] for path in _fragments(project) if (found := _NAME.fullmatch(path.name))}


def untold(project: Project) -> list[Path]:
    """Return what users are still to be told of, and whatever else lies there."""
    found = ((path, _NAME.fullmatch(path.name)) for path in _fragments(project))
    return [path for path, name in found if name is None or name[1] != "internal"]


def malformed(project: Project) -> Iterator[str]:
    """Yield what lies in `changes/` and cannot become a part of the changelog."""
    for path in _fragments(project):
        place = path.relative_to(project.folder.parents[1])
        if not _NAME.fullmatch(path.name):
            yield (
                f"{place} is no fragment: name it +WHAT.TYPE.md or ISSUE.TYPE.md (TYPE is "
                f"{', '.join(TYPES)}), or remove it"
            )
            continue
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            yield f"{place} cannot be read: {error}"
            continue
        if not _BULLETS.fullmatch(text):
            yield f"{place} is no list: write bullets (`- …`) with their further lines indented"


def build(project: Project, root: Path) -> None:
    """Make the section of the present version of the fragments, which are removed.

    Raises:
        ReleaseError: There are none, or one cannot become a part of the changelog.
    """
    if not untold(project):
        raise ReleaseError(f"{project.name} has no fragments: there is nothing to tell its users")
    _towncrier(project, root, "--yes")


def notes(project: Project, root: Path) -> str:
    """Return what this version's section says, or would say if it were built now."""
    return section(project) or _towncrier(project, root, "--draft").split("\n", 1)[1].strip()


def _fragments(project: Project) -> list[Path]:
    return sorted(project.folder.glob("changes/*"))


def _towncrier(project: Project, root: Path, *arguments: str) -> str:
    wrong = [*malformed(project)]
    if wrong:
        raise ReleaseError(*wrong)
    return run(
        sys.executable, "-m", "towncrier", "build", *arguments,
        "--config", _SETTINGS, "--dir", project.folder,
        "--version", str(project.version), "--date", datetime.now(UTC).date().isoformat(),
        cwd=root,
    )  # fmt: skip
