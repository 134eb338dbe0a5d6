"""Whether somebody who uses a package must change their code since its last release.

What is public is what docs/stability.md promised then: of the modules in its table, `__all__`.
"""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import griffe

from release import changelog, history
from release.projects import Project, read_projects

# It logs all that it raises.
logging.getLogger("griffe").setLevel(logging.CRITICAL)


def problems(root: Path) -> Iterator[str]:
    """Yield every break of a public API that neither a fragment nor a section mentions."""
    for project in read_projects(root).values():
        tag = history.last_release(project, root)
        if tag is None:
            print(f"{project.name}: no release yet, as far as the tags here tell")
            continue
        found = breaks(project, tag, root)
        lines = "\n  ".join(["", *found])
        print(f"{project.name} since {tag}: breaks {len(found)}{lines}")
        told = changelog.types_waiting(project)
        if project.tag != tag:
            told |= changelog.types_told(project)
        if found and "breaking" not in told:
            place = project.folder.relative_to(root).as_posix()
            yield (
                f"what {project.name} promised with {tag} breaks: undo it, or write "
                f"{place}/changes/+WHAT.breaking.md{lines}"
            )


def breaks(project: Project, tag: str, root: Path) -> list[str]:
    """Return what fails since a tag for those who used what was promised with it, a line each."""
    folder = project.source.parent
    old = griffe.load_git(
        project.module, ref=tag, repo=root, search_paths=[folder.relative_to(root)],
        allow_inspection=False, resolve_aliases=True, resolve_external=False,
    )  # fmt: skip
    _hide(old, _promised(project, tag, root))
    new = griffe.load(
        project.module, search_paths=[folder], allow_inspection=False, resolve_aliases=True,
        resolve_external=False,
    )  # fmt: skip
    return sorted({_explained(it) for it in griffe.find_breaking_changes(old, new)})


def _promised(project: Project, tag: str, root: Path) -> set[str]:
    """Return the modules that docs/stability.md promised with a tag, by full names."""
    page = history.file_at(tag, root / "docs" / "stability.md", root)
    row = re.search(rf"^\| {re.escape(project.name)} \| (`.+`) \|$", page, re.MULTILINE)
    return set(re.findall(r"`([\w.]+)`", row[1])) if row else set()


def _hide(module: griffe.Object | griffe.Alias, kept: set[str]) -> None:
    """Have griffe pass over the modules that nobody was promised."""
    for inner in module.modules.values():
        if not inner.is_alias:
            _hide(inner, kept)
            # One above a promised module is on the way to it.
            inner.public = any(f"{it}.".startswith(f"{inner.path}.") for it in kept)


def _explained(breakage: griffe.Breakage) -> str:
    said = breakage.explain(griffe.ExplanationStyle.MARKDOWN).strip()
    return said.replace("`<module>`", f"`{breakage.obj.path}`")
