"""What waits in a package's `changes/` to be told: which fragments are right, and of which type."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from release.projects import Project

SETTINGS = Path(__file__).with_name("towncrier.toml")
TYPES = tuple(
    it["name"].lower()
    for it in tomllib.loads(SETTINGS.read_text("utf-8"))["tool"]["towncrier"]["type"]
)
# Stricter than towncrier, which passes over what it cannot read and takes an editor's copies up.
_NAME = re.compile(rf"(?:\+[\w-]+|[1-9]\d*)\.({'|'.join(TYPES)})(?:\.[1-9]\d*)?\.md", re.ASCII)
# A heading, or text without a bullet, would break the section into which it is put.
_BULLETS = re.compile(r"- \S.*(?:\n(?:- \S.*|  .*\S.*|[ \t]*))*")


def untold(project: Project) -> list[Path]:
    """Give what users are still to be told of, and whatever else lies there."""
    found = ((path, _NAME.fullmatch(path.name)) for path in project.fragments)
    return [path for path, name in found if name is None or name[1] != "internal"]


def types(project: Project) -> set[str]:
    """Give the types of the fragments of a package."""
    return {found[1] for path in project.fragments if (found := _NAME.fullmatch(path.name))}


def malformed(project: Project) -> Iterator[str]:
    """Give what lies in `changes/` and cannot become a part of the changelog."""
    for path in project.fragments:
        place = path.relative_to(project.folder.parents[1])
        if not _NAME.fullmatch(path.name) or path.is_symlink() or not path.is_file():
            yield (
                f"{place} is no fragment: name it +WHAT.TYPE.md or ISSUE.TYPE.md (TYPE is "
                f"{', '.join(TYPES)}), or remove it"
            )
            continue
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            yield f"{place} is not UTF-8: save it as that"
            continue
        if not _BULLETS.fullmatch(text.replace("\r\n", "\n")):
            yield f"{place} is no list: write bullets (`- …`) with their further lines indented"
