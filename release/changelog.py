"""The notes of a version, from a package's CHANGELOG.md and the fragments in its `changes/`.

python -m release.changelog toolscan            prints what this version's section says, or would
python -m release.changelog toolscan --build    writes the section and removes the fragments
"""

import re
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from release.processes import ReleaseError, run, say, status
from release.projects import Project, named, parser
from release.waiting import SETTINGS, malformed, untold

_HEADING = re.compile(r"^## (\S+)(?: - (.+))?$", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What the changelog says about one version."""

    dated: date | None
    text: str

    @property
    def types(self) -> set[str]:
        """What kinds of changes it tells of, as fragments name them."""
        return {heading.lower() for heading in re.findall(r"^### (\w+)$", self.text, re.MULTILINE)}


def sections(project: Project) -> list[Section]:
    """Give what is written under headings of the present version, of which there should be one."""
    try:
        _, *parts = _HEADING.split(project.changelog.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ReleaseError(f"{project.changelog} cannot be read: {error}") from None
    return [
        Section(dated=_dated(dated), text=text.strip())
        for number, dated, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
        if number == str(project.version)
    ]


def section(project: Project) -> Section | None:
    """Give the section of the present version, or None without one."""
    return next(iter(sections(project)), None)


def build(project: Project, root: Path) -> None:
    """Make the section of the present version of the fragments, which are removed."""
    if not untold(project):
        raise ReleaseError(f"{project.name} has no fragments: there is nothing to tell its users")
    _towncrier(project, root, "--yes")


def notes(project: Project, root: Path) -> str:
    """Give what this version's section says, or would say if it were built now."""
    written = section(project)
    if written is not None:
        return written.text
    drafted = _towncrier(project, root, "--draft")
    return drafted.split("\n", 1)[1].strip()


def _towncrier(project: Project, root: Path, *arguments: str) -> str:
    wrong = [*malformed(project)]
    if wrong:
        raise ReleaseError(*wrong)
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
