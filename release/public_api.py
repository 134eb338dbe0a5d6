"""Whether somebody who uses a package must change their code since its last release.

python -m release.public_api        all packages, compared with their last tags

What is public is what docs/stability.md promises: of the modules in its table, `__all__`.
"""

import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import griffe

from release import changelog, history
from release.processes import ReleaseError, run_bytes, say, status
from release.projects import Project, parser, read_projects


def problems(root: Path) -> Iterator[str]:
    """Give every break of a public API that no fragment, and no section, tells."""
    for project in read_projects(root).values():
        tag = history.last_release(project, root)
        if tag is None:
            say(f"{project.name}: no release yet, as far as the tags here tell")
            continue
        found = breaks(project, tag, root)
        say(f"{project.name}: {len(found)} breaks since {tag}")
        if found and not _is_told(project, tag):
            fragment = f"{project.folder.relative_to(root).as_posix()}/changes/+WHAT.breaking.md"
            yield "\n  ".join(
                [f"{project.name} breaks what {tag} promised: undo it, or write {fragment}", *found]
            )


def breaks(project: Project, tag: str, root: Path) -> list[str]:
    """Give what has changed since a tag so that code that used it may fail, a line each."""
    with tempfile.TemporaryDirectory() as folder:
        # Not griffe.load_git, which adds a worktree and a branch to the repository.
        source = project.source.relative_to(root).as_posix()
        archive = run_bytes("git", "archive", "--format=tar", tag, "--", source, cwd=root)
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        old = _load(project, Path(folder, source).parent)
        _hide(old, promised(project, root))
        new = _load(project, project.source.parent)
        found = griffe.find_breaking_changes(old, new)
        explained = {it.explain(griffe.ExplanationStyle.MARKDOWN).strip() for it in found}
        return sorted(explained.union(_unlisted(old, new)))


def promised(project: Project, root: Path) -> set[str]:
    """Give the modules of a package that docs/stability.md promises, by their full names."""
    page = root / "docs" / "stability.md"
    row = re.search(
        rf"^\| {re.escape(project.name)} \| (`.+`) \|$", page.read_text("utf-8"), re.MULTILINE
    )
    if row is None:
        raise ReleaseError(f"{page} has no row of modules for {project.name}: write one")
    return set(re.findall(r"`([\w.]+)`", row[1]))


def _hide(module: griffe.Module, kept: set[str]) -> None:
    """Have griffe pass over the modules that nobody was promised."""
    for inner in module.modules.values():
        if not inner.is_alias:
            _hide(inner, kept)
            # One above a promised module is on the way to it.
            inner.public = any(f"{it}.".startswith(f"{inner.path}.") for it in kept)


def _load(project: Project, folder: Path) -> griffe.Module:
    loaded = griffe.load(
        project.module, search_paths=[folder], allow_inspection=False, resolve_aliases=True,
        resolve_external=False,
    )  # fmt: skip
    if not isinstance(loaded, griffe.Module):
        raise ReleaseError(f"{project.source} is no package: look at its __init__.py")
    return loaded


def _unlisted(old: griffe.Module, new: griffe.Module) -> Iterator[str]:
    """Give the names that `__all__` no longer has, which griffe overlooks while they exist."""
    for name in {*map(str, old.exports or ())} - {*map(str, new.exports or ())}:
        if name in new.all_members or name not in old.all_members:
            yield f"- `{old.path}.{name}`: *Name is no longer in `__all__`*"
    for name, module in old.modules.items():
        later = new.modules.get(name)
        if module.is_public and not module.is_alias and later is not None:
            yield from _unlisted(module, later)


def _is_told(project: Project, tag: str) -> bool:
    """Look at the fragments, and once they are built at the section of the next version."""
    if any(".breaking" in fragment.suffixes for fragment in project.fragments):
        return True
    written = changelog.section(project)
    return project.tag != tag and written is not None and written.is_breaking


def main() -> int:
    """Compare every package with its last release."""
    try:
        return status(problems(parser(__doc__).parse_args().root.resolve()))
    except ReleaseError as error:
        return status(error.args)


if __name__ == "__main__":
    sys.exit(main())
