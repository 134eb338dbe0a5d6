"""Check whether a tag may be released, and make what is uploaded for it."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from release import changelog, history
from release.processes import ReleaseError, run
from release.projects import Project, named

_TAG = re.compile(r"(?P<name>.+)-v[^-]+")
# Imports every public name of a package, installed with only its declared dependencies.
_FOOTPRINT = Path(__file__).parents[1] / "benchmarks" / "footprint.py"


def make(tag: str, root: Path, dist: Path) -> None:
    """Check everything, then make what a tag uploads from the current commit.

    Raises:
        ReleaseError: The tag may not be released.
    """
    if dist.exists():
        raise ReleaseError(f"{dist} exists, and all of it would be uploaded: remove it")
    with TemporaryDirectory() as folder:
        # A working tree may contain more than the commit.
        tree, made = Path(folder, "tree"), Path(folder, "dist")
        run("git", "clone", "--quiet", root, tree, cwd=root)
        project = project_of(tag, tree)
        found = [*problems(project, root)]
        if found:
            raise ReleaseError(*found)
        _build(project, tree, made / "packages")
        _describe(project, tree, made)
        # Copy at the end, so that nothing unchecked is ever in the folder that is uploaded.
        shutil.copytree(made, dist)


def project_of(tag: str, root: Path) -> Project:
    """Return the package that a tag releases.

    Raises:
        ReleaseError: It is not a package's tag, or not for the version that the package has.
    """
    parts = _TAG.fullmatch(tag)
    if parts is None:
        raise ReleaseError(
            f"the tag {tag!r} is not <distribution>-v<version>, such as toolscan-v0.1.0"
        )
    project = named(parts["name"], root)
    if tag != project.tag:
        raise ReleaseError(
            f"the tag {tag} does not match the version of {project.name}, {project.version}: "
            f"tag {project.tag}, or raise it with `uv version --package {project.name} --bump …`"
        )
    return project


def problems(project: Project, root: Path) -> Iterator[str]:
    """Yield each reason not to release a package as it is, and what to do about it.

    Args:
        project: The package, as of the current commit.
        root: The repository, with its tags and branches.
    """
    if history.branching_point(root) not in (None, history.head(root)):
        yield "the current commit is not on the main branch: have it merged and checked"
    waiting = ", ".join(path.name for path in changelog.unreleased(project))
    if waiting or not changelog.section(project):
        yield (
            f"CHANGELOG.md of {project.name} has no section {project.version}, or lacks "
            f"fragments of changes/ ({waiting or 'none'}): run `uv run --group release "
            f"python -m release changelog {project.name} --build`"
        )
    before = history.last_release(project, root, before=project.tag)
    if before is not None and _is_too_small(project, before):
        part = "minor" if project.version.major == 0 else "major"
        yield (
            f"{project.name} {project.version} is not above {before}, or breaks what it "
            f"promised: run `uv version --package {project.name} --bump {part}`, and change the "
            "heading of its section"
        )


def _is_too_small(project: Project, before: str) -> bool:
    old, new = history.version_of(before), project.version
    place = 2 if new.major == 0 else 1
    if "breaking" in changelog.types_in_section(project):
        return new.release[:place] <= old.release[:place]
    return new <= old


def _build(project: Project, tree: Path, packages: Path) -> None:
    run(
        "uv", "build", "--quiet", "--no-sources", f"--package={project.name}",
        f"--out-dir={packages}", cwd=tree,
    )  # fmt: skip
    # uv writes a .gitignore, which must not be uploaded.
    (packages / ".gitignore").unlink(missing_ok=True)
    files = sorted(packages.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *files, cwd=tree)
    (wheel,) = packages.glob("*.whl")
    _try(project, wheel, tree.with_name("venv"))


def _try(project: Project, wheel: Path, venv: Path) -> None:
    """Install the wheel with dependencies from the index, and import every public name."""
    run("uv", "venv", "--quiet", f"--python={sys.executable}", venv, cwd=venv.parent)
    python = venv / ("Scripts" if os.name == "nt" else "bin") / "python"
    run("uv", "pip", "install", "--quiet", f"--python={python}", wheel, cwd=venv.parent)
    print(run(python, "-I", _FOOTPRINT, project.name, cwd=venv.parent))


def _describe(project: Project, tree: Path, folder: Path) -> None:
    """Write the release notes, and a bill of materials from the lock."""
    run(
        "uv", "export", "--quiet", "--frozen", "--no-dev", "--format=cyclonedx1.5",
        "--preview-features=sbom-export", f"--package={project.name}",
        f"--output-file={folder / f'{project.tag}.cdx.json'}", cwd=tree,
    )  # fmt: skip
    (folder / f"{project.tag}.md").write_text(changelog.notes(project, tree) + "\n", "utf-8")
