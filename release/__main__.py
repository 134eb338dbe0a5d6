"""Release packages, or try to: check, build, look into, try outside, and upload to a local index.

nox -s release                                  a rehearsal of all packages, in their order
nox -s release -- toolrank-hybrid               of one; siblings that it needs count as released
nox -s release -- --tag toolscan-v0.1.0         as the workflow does it: siblings must be released,
                                                and dist/ has what is to be uploaded
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from release import changelog, distributions, history, tag
from release.environment import install, use
from release.index import serving, upload
from release.processes import ReleaseError, run, say, status
from release.projects import Project, named, parser, read_projects, with_siblings
from release.tree import copy, rehearsed


def rehearse(names: list[str], root: Path) -> None:
    """Release packages to an index that is gone afterwards; the workspace stays as it is."""
    projects = read_projects(root)
    chosen = {named(name, root).name for name in names} or set(projects)
    needed = set[str]().union(*(with_siblings(projects[name], projects) for name in chosen))
    known = history.known_files(root)
    with TemporaryDirectory() as name, serving(Path(name, "index")) as address:
        folder = Path(name)
        tree = copy(root, known, folder / "tree")
        indexes = [f"{address}/simple/"]
        for each in (it for it in projects if it in needed):
            project = rehearsed(named(each, tree), tree)
            dist = folder / "dist" / each
            files = build(project, tree, dist / "packages")
            if each not in chosen:
                upload(files, address)
                continue
            _demand(tag.problems(project.tag, tree, indexes))
            _demand(distributions.problems(files, tree, known))
            describe(project, tree, dist)
            upload(files, address)
            say(use(project, tree, install(project, folder / "try" / each, indexes, projects)))


def release(name: str, root: Path, addresses: list[str], dist: Path) -> None:
    """Make what a tag uploads, after everything has been checked."""
    project = tag.project_of(name, root)
    changes = history.uncommitted(root)
    if changes:
        raise ReleaseError("\n  ".join(["commit these changes, or undo them:", *changes]))
    if dist.exists() and any(dist.iterdir()):
        raise ReleaseError(f"{dist} is not empty, and all of it would be uploaded: remove it")
    _demand(tag.problems(name, root, addresses))
    known = history.known_files(root)
    with TemporaryDirectory() as folder, serving(dist / "packages") as address:
        tree = copy(root, known, Path(folder, "tree"))
        files = build(project, tree, dist / "packages")
        _demand(distributions.problems(files, tree, known))
        describe(project, tree, dist)
        indexes = [f"{address}/simple/", *addresses]
        say(use(project, tree, install(project, Path(folder, "try"), indexes, [project.name])))


def build(project: Project, tree: Path, dist: Path) -> list[Path]:
    """Give a source distribution and the wheel that is made of it."""
    run(
        "uv", "build", "--quiet", "--no-sources", f"--package={project.name}", f"--out-dir={dist}",
        cwd=tree,
    )  # fmt: skip
    # uv tells git to ignore the folder, and would have that uploaded.
    (dist / ".gitignore").unlink(missing_ok=True)
    return sorted(dist.iterdir())


def describe(project: Project, tree: Path, folder: Path) -> None:
    """Write the release's notes, and a bill of the materials that the lock has for it."""
    run(
        "uv", "export", "--quiet", "--frozen", "--no-dev", "--format=cyclonedx1.5",
        "--preview-features=sbom-export", f"--package={project.name}",
        f"--output-file={folder / f'{project.tag}.cdx.json'}", cwd=tree,
    )  # fmt: skip
    (folder / f"{project.tag}.md").write_text(changelog.notes(project, tree) + "\n", "utf-8")


def _demand(problems: list[str]) -> None:
    if problems:
        raise ReleaseError(*problems)


def main() -> int:
    """Rehearse, or make what a tag uploads."""
    options = parser(__doc__)
    options.add_argument("packages", nargs="*", help="their names; all of them without any")
    options.add_argument("--tag", help="make what this tag uploads")
    options.add_argument(
        "--index", action="append", default=[], help="with --tag: another index siblings are on"
    )
    options.add_argument("--dist", type=Path, help="with --tag: where it goes (dist/)")
    chosen = options.parse_args()
    root = chosen.root.resolve()
    try:
        if chosen.tag:
            release(chosen.tag, root, chosen.index, (chosen.dist or root / "dist").resolve())
        else:
            rehearse(chosen.packages, root)
    except ReleaseError as error:
        return status(error.args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
