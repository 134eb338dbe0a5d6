"""The notes of a version, from a package's CHANGELOG.md and the fragments in its `changes/`.

python -m release.changelog toolscan            prints what this version's section says, or would
python -m release.changelog toolscan --build    writes the section and removes the fragments
"""

import re
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from packaging.version import Version

from release.processes import ReleaseError, run, say, status
from release.projects import Project, named, parser

_HEADING = re.compile(r"^## (\S+)(?: - (.+))?$", re.M)
SETTINGS = Path(__file__).with_name("towncrier.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What the changelog says about one version."""

    dated: date | None
    text: str

    @property
    def is_breaking(self) -> bool:
        """Whether users have to change their code."""
        return "\n### Breaking\n" in f"\n{self.text}\n"


def section(project: Project, version: Version | None = None) -> Section | None:
    """Give the section of a version, the present one if none is said, or None without one."""
    _, *parts = _HEADING.split(project.changelog.read_text("utf-8"))
    for number, dated, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        if number == str(version or project.version):
            return Section(dated=_dated(dated), text=text.strip())
    return None


def build(project: Project, root: Path) -> None:
    """Make the section of the present version of the fragments, which are removed."""
    if not project.fragments:
        raise ReleaseError(f"{project.name} has no fragments: there is nothing to tell its users")
    _towncrier(project, root, "--yes")


def notes(project: Project, root: Path) -> str:
    """Give what this version's section says, or would say if it were built now."""
    written = section(project)
    if written is not None:
        return written.text
    return draft(project, root)


def draft(project: Project, root: Path) -> str:
    """Give what the fragments say, and fail for one whose name says no type."""
    drafted = _towncrier(project, root, "--draft")
    return drafted.split("\n", 1)[1].strip()


def _towncrier(project: Project, root: Path, *arguments: str) -> str:
    return run(
        sys.executable, "-m", "towncrier", "build", *arguments,
        "--config", SETTINGS, "--dir", project.folder,
        "--version", str(project.version), "--date", datetime.now(UTC).date().isoformat(),
        cwd=root,
    )  # fmt: skip


def _dated(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text or "")
    except ValueError:
        return None


def main() -> int:
    """Print or write the notes of the version that a package has."""
    options = parser(__doc__)
    options.add_argument("package", help="its name on an index")
    options.add_argument("--build", action="store_true", help="write them into CHANGELOG.md")
    chosen = options.parse_args()
    try:
        project = named(chosen.package, chosen.root)
        if chosen.build:
            build(project, chosen.root)
        say(notes(project, chosen.root))
    except ReleaseError as error:
        return status(error.args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
