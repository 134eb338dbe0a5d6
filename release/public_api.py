"""Whether somebody who uses a package must change their code since its last release.

python -m release.public_api        all packages, compared with their last tags

What is public is what docs/stability.md promised then: of the modules in its table, `__all__`.
"""

import logging
import re
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import griffe

from release import changelog, history, waiting
from release.processes import ReleaseError, run_bytes, say, status
from release.projects import Project, parser, read_projects
from release.signatures import changes

# It logs all that it raises.
logging.getLogger("griffe").setLevel(logging.CRITICAL)


def problems(root: Path) -> Iterator[str]:
    """Give every change of a public API that no fragment, and no section, tells."""
    for project in read_projects(root).values():
        tag = history.last_release(project, root)
        if tag is None:
            say(f"{project.name}: no release yet, as far as the tags here tell")
            continue
        broken, changed = compared(project, tag, root)
        told = _told(project, tag)
        say(f"{project.name} since {tag}: breaks {len(broken)}, changes {len(changed)}")
        fragment = f"{project.folder.relative_to(root).as_posix()}/changes/+WHAT"
        for found, needed, what in (
            (broken, {"breaking"}, f"breaks: undo it, or write {fragment}.breaking.md"),
            (
                changed,
                {"breaking", "changed"},
                f"changes: write {fragment}.breaking.md if somebody's code or types could fail, "
                f"and {fragment}.changed.md otherwise",
            ),
        ):
            lines = "\n  ".join(["", *found])
            if found and not told & needed:
                yield f"what {project.name} promised with {tag} {what}{lines}"
            elif found:
                say(f"The changelog tells of that; of all of it?{lines}")


def compared(project: Project, tag: str, root: Path) -> tuple[list[str], list[str]]:
    """Give what fails since a tag for those who used it, and what may, a line each."""
    with tempfile.TemporaryDirectory() as folder:
        # Not griffe.load_git, which adds a worktree and a branch to the repository.
        source = project.source.relative_to(root).as_posix()
        archive = run_bytes("git", "archive", "--format=tar", tag, "--", source, cwd=root)
        with tarfile.open(fileobj=BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        old = _load(project, Path(folder, source).parent)
        _hide(old, promised(project, tag, root))
        new = _load(project, project.source.parent)
        broken = {*map(_explained, griffe.find_breaking_changes(old, new)), *_unlisted(old, new)}
        return sorted(broken.union(_dropped(project, tag, root))), sorted({*changes(old, new)})


def promised(project: Project, tag: str, root: Path) -> set[str]:
    """Give the modules of a package that docs/stability.md promised with a tag, by full names."""
    page = history.file_at(tag, root / "docs" / "stability.md", root) or ""
    row = re.search(rf"^\| {re.escape(project.name)} \| (`.+`) \|$", page, re.MULTILINE)
    return set(re.findall(r"`([\w.]+)`", row[1])) if row else set()


def _dropped(project: Project, tag: str, root: Path) -> Iterator[str]:
    """Give the commands and the extras that there no longer are."""
    settings = project.folder / "pyproject.toml"
    before, now = (
        tomllib.loads(text or "").get("project", {})
        for text in (history.file_at(tag, settings, root), settings.read_text("utf-8"))
    )
    for key, what in (("scripts", "Command"), ("optional-dependencies", "Extra")):
        for name in before.get(key, {}).keys() - now.get(key, {}).keys():
            yield f"- `{name}`: *{what} was removed*"


def _explained(breakage: griffe.Breakage) -> str:
    said = breakage.explain(griffe.ExplanationStyle.MARKDOWN).strip()
    return said.replace("`<module>`", f"`{breakage.obj.path}`")


def _hide(module: griffe.Module, kept: set[str]) -> None:
    """Have griffe pass over the modules that nobody was promised."""
    for inner in module.modules.values():
        if not inner.is_alias:
            _hide(inner, kept)
            # One above a promised module is on the way to it.
            inner.public = any(f"{it}.".startswith(f"{inner.path}.") for it in kept)


def _load(project: Project, folder: Path) -> griffe.Module:
    try:
        loaded = griffe.load(
            project.module, search_paths=[folder], allow_inspection=False, resolve_aliases=True,
            resolve_external=False,
        )  # fmt: skip
    except (griffe.GriffeError, SyntaxError) as error:
        raise ReleaseError(f"{project.name} cannot be read: {error}") from None
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


def _told(project: Project, tag: str) -> set[str]:
    """Give the types of the fragments, and once they are built of the next version's section."""
    written = changelog.section(project) if project.tag != tag else None
    return waiting.types(project) | (written.types if written else set())


def main() -> int:
    """Compare every package with its last release."""
    try:
        return status(problems(parser(__doc__).parse_args().root.resolve()))
    except ReleaseError as error:
        return status(error.args)


if __name__ == "__main__":
    sys.exit(main())
