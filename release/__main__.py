"""Release packages, or try to: check, build, look into, try outside, and upload to a local index.

nox -s release                                  a rehearsal of all packages, in their order
nox -s release -- toolrank-hybrid               of one; siblings that it needs count as released
nox -s release -- --tag toolscan-v0.1.0         as the workflow does it: siblings must be released,
                                                and dist/ has what is to be uploaded
"""

import shutil
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from release import changelog, distributions, history, tag
from release.environment import install, use
from release.index import serving, upload
from release.processes import ReleaseError, run, say, status
from release.projects import Project, named, parser, read_projects, with_siblings
from release.tree import checkout, copy, rehearsed


def rehearse(names: list[str], root: Path, addresses: list[str]) -> None:
    """Release packages to an index that is gone afterwards; the workspace stays as it is."""
    projects = read_projects(root)
    chosen = {named(name, root).name for name in names} or set(projects)
    needed = set[str]().union(*(with_siblings(projects[name], projects) for name in chosen))
    known = history.known_files(root)
    with TemporaryDirectory() as name, serving(Path(name, "index")) as address:
        folder = Path(name)
        tree = copy(root, known, folder / "tree")
        indexes = [f"{address}/simple/", *addresses]
        for each in (it for it in projects if it in needed):
            project = rehearsed(named(each, tree), tree)
            dist = folder / "dist" / each
            files = build(project, tree, dist / "packages")
            if each not in chosen:
                upload(files, address)
                continue
            present = {name: it.version for name, it in read_projects(tree).items()}
            _demand(tag.too_small(projects[each], root))
            _demand(tag.problems(project, indexes, present))
            _demand(distributions.problems(files, tree, known))
            describe(project, tree, dist)
            upload(files, address)
            say(use(project, tree, install(project, folder / "try" / each, indexes, projects)))


def release(name: str, root: Path, addresses: list[str], dist: Path) -> None:
    """Make what a tag uploads, after everything has been checked."""
    changes = history.uncommitted(root)
    if changes:
        raise ReleaseError("\n  ".join(["commit these changes, or undo them:", *changes]))
    if dist.exists() and any(dist.iterdir()):
        raise ReleaseError(f"{dist} is not empty, and all of it would be uploaded: remove it")
    with TemporaryDirectory() as folder:
        tree = checkout(root, Path(folder, "tree"))
        project = tag.project_of(name, tree)
        _demand([*tag.misplaced(project, root), *tag.too_small(project, tree)])
        _demand(tag.problems(project, addresses))
        known = history.known_files(tree)
        made = Path(folder, "dist")
        files = build(project, tree, made / "packages")
        _demand(distributions.problems(files, tree, known))
        describe(project, tree, made)
        with serving(made / "packages") as address:
            indexes = [f"{address}/simple/", *addresses]
            say(use(project, tree, install(project, Path(folder, "try"), indexes, [project.name])))
        # Only now: what has not passed must not lie where it would be uploaded from.
        shutil.copytree(made, dist, dirs_exist_ok=True)


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
        "--index", action="append", default=[], help="another index that siblings are on"
    )
    options.add_argument("--dist", type=Path, help="with --tag: where it goes (dist/)")
    chosen = options.parse_args()
    root = chosen.root.resolve()
    # A runner that cancels sends that; as an exception it ends what was started, and tidies up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if chosen.tag:
            release(chosen.tag, root, chosen.index, (chosen.dist or root / "dist").resolve())
        else:
            rehearse(chosen.packages, root, chosen.index)
    except ReleaseError as error:
        return status(error.args)
    except KeyboardInterrupt:
        return status(["interrupted; nothing is left over and nothing was uploaded"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
