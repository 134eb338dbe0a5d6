"""The steps of a release, which RELEASING.md describes.

python -m release packages                      list the packages in the order of their releases
python -m release changelog toolscan            print the notes of its current version
python -m release changelog toolscan --build    write them, and remove the fragments
python -m release check                         find breaks of public APIs, and missing fragments
python -m release make toolscan-v0.1.0          check, build and test what the tag uploads: dist/
"""

import argparse
import sys
from pathlib import Path

from release import changelog, fragments, public_api, tag
from release.processes import ReleaseError
from release.projects import ROOT, named, read_projects


def main() -> int:
    """Run a command, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the workspace (this one)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("packages")
    notes = commands.add_parser("changelog")
    notes.add_argument("package")
    notes.add_argument("--build", action="store_true")
    commands.add_parser("check")
    make = commands.add_parser("make")
    make.add_argument("tag")
    make.add_argument("--dist", type=Path, default=Path("dist"))
    try:
        _do(parser.parse_args())
    except ReleaseError as error:
        for problem in error.args:
            print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0


def _do(chosen: argparse.Namespace) -> None:
    root = chosen.root.resolve()
    match chosen.command:
        case "packages":
            for each in read_projects(root).values():
                print(each.name, each.version, *each.siblings)
        case "changelog":
            project = named(chosen.package, root)
            if chosen.build:
                changelog.build(project, root)
            print(changelog.notes(project, root))
        case "check":
            found = [*public_api.problems(root), *fragments.problems(root)]
            if found:
                raise ReleaseError(*found)
        case _:
            tag.make(chosen.tag, root, chosen.dist.resolve())


if __name__ == "__main__":
    sys.exit(main())
