"""Check whether users of a package's last release would have to change their code.

The public API is what docs/stability.md promised then: `__all__` of the modules in its table.
"""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import griffe

from release import changelog, history
from release.projects import Project, read_projects

# griffe also logs everything that it raises.
logging.getLogger("griffe").setLevel(logging.CRITICAL)


def problems(root: Path) -> Iterator[str]:
    """Yield a message for each package with breaks that no fragment or section mentions."""
    for project in read_projects(root).values():
        tag = history.last_release(project, root)
        if tag is None:
            print(f"{project.name}: no release among the tags of this repository")
            continue
        found = breaks(project, tag, root)
        lines = "\n  ".join(["", *found])
        print(f"{project.name}: {len(found)} breaking changes since {tag}{lines}")
        types = changelog.types_waiting(project)
        if project.tag != tag:
            types |= changelog.types_in_section(project)
        if found and "breaking" not in types:
            place = project.folder.relative_to(root).as_posix()
            yield (
                f"{project.name} breaks what {tag} promised: undo the change, or write "
                f"{place}/changes/+WHAT.breaking.md{lines}"
            )


def breaks(project: Project, tag: str, root: Path) -> list[str]:
    """Return the breaking changes since a tag, in what it promised, one line each."""
    folder = project.source.parent
    # Not `griffe.load_git`: a killed check leaves a branch behind, and all later ones would fail.
    with TemporaryDirectory() as place:
        old = _loaded(project, history.unpack(tag, folder, root, Path(place)))
    _hide(old, _promised(project, tag, root))
    new = _loaded(project, folder)
    return sorted({_explained(it) for it in griffe.find_breaking_changes(old, new)})


def _loaded(project: Project, folder: Path) -> griffe.Object | griffe.Alias:
    return griffe.load(
        project.module, search_paths=[folder], allow_inspection=False, resolve_aliases=True,
        resolve_external=False,
    )  # fmt: skip


def _promised(project: Project, tag: str, root: Path) -> set[str]:
    """Return the full names of the modules that docs/stability.md promised at a tag."""
    page = history.file_at(tag, root / "docs" / "stability.md", root)
    row = re.search(rf"^\| {re.escape(project.name)} \| (`.+`) \|$", page, re.MULTILINE)
    return set(re.findall(r"`([\w.]+)`", row[1])) if row else set()


def _hide(module: griffe.Object | griffe.Alias, kept: set[str]) -> None:
    """Make griffe ignore the modules that were not promised."""
    for inner in module.modules.values():
        if not inner.is_alias:
            _hide(inner, kept)
            # The parents of a promised module stay public, or griffe would not reach it.
            inner.public = any(f"{it}.".startswith(f"{inner.path}.") for it in kept)


def _explained(breakage: griffe.Breakage) -> str:
    said = breakage.explain(griffe.ExplanationStyle.MARKDOWN).strip()
    return said.replace("`<module>`", f"`{breakage.obj.path}`")
