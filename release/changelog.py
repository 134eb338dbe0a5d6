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
# Stricter than towncrier, which ignores files that it cannot read and accepts an editor's backups.
_NAME = re.compile(rf"(?:\+[\w-]+|[1-9]\d*)\.({'|'.join(TYPES)})(?:\.[1-9]\d*)?\.md", re.ASCII)
# A heading, or text without a bullet, would break the section that it becomes part of.
_BULLETS = re.compile(r"- \S.*(?:\n(?:- \S.*|  .*\S.*|[ \t]*))*")
_HEADING = re.compile(r"^## (\S+)(?: - .+)?$", re.MULTILINE)


def section(project: Project) -> str | None:
    """Return the current version's section without its heading, or None if there is none."""
    _, *parts = _HEADING.split(project.changelog.read_text("utf-8"))
    written = dict(zip(parts[::2], parts[1::2], strict=True))
    text = written.get(str(project.version))
    return text and text.strip()


def types_in_section(project: Project) -> set[str]:
    """Return the types of changes in the current version's section."""
    return {it.lower() for it in re.findall(r"^### (\w+)$", section(project) or "", re.MULTILINE)}


def types_waiting(project: Project) -> set[str]:
    """Return the types of the fragments in `changes/`."""
    return {found[1] for path in _fragments(project) if (found := _NAME.fullmatch(path.name))}


def unreleased(project: Project) -> list[Path]:
    """Return every file in `changes/` except internal fragments."""
    found = ((path, _NAME.fullmatch(path.name)) for path in _fragments(project))
    return [path for path, name in found if name is None or name[1] != "internal"]


def malformed(project: Project) -> Iterator[str]:
    """Yield a message for each file in `changes/` that cannot become part of the changelog."""
    for path in _fragments(project):
        place = path.relative_to(project.folder.parents[1])
        if not _NAME.fullmatch(path.name):
            yield (
                f"{place} is not a fragment: name it +WHAT.TYPE.md or ISSUE.TYPE.md (TYPE is one "
                f"of {', '.join(TYPES)}), or remove it"
            )
            continue
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            yield f"{place} cannot be read: {error}"
            continue
        if not _BULLETS.fullmatch(text):
            yield f"{place} is not a list: write bullets (`- …`), with continuation lines indented"


def build(project: Project, root: Path) -> None:
    """Turn the fragments into the current version's section, and remove them.

    Raises:
        ReleaseError: There are none, or one cannot become part of the changelog.
    """
    if not unreleased(project):
        raise ReleaseError(f"{project.name} has no fragments, so its users would notice nothing")
    _towncrier(project, root, "--yes")


def notes(project: Project, root: Path) -> str:
    """Return the current version's section; if there is none, what `build` would write."""
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
