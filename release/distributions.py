"""Whether a wheel and a source distribution hold what they should, and nothing else.

python -m release.distributions dist/*      of any packages of the workspace
"""

import re
import sys
import tarfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

from markdown_it import MarkdownIt
from packaging.metadata import Metadata
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from release import history
from release.processes import ReleaseError, run, say, status
from release.projects import Project, named, parser

# Made by the build: what describes a distribution.
_MADE = re.compile(
    r"PKG-INFO|pyproject\.toml\.orig"
    r"|[^/]+\.dist-info/(METADATA|RECORD|WHEEL|entry_points\.txt)"
)


def problems(files: Sequence[Path], root: Path, known: Collection[str]) -> list[str]:
    """Give what is wrong with distributions of the workspace, in which git knows these files."""
    found = [problem for path in files for problem in _checked(path, known, root)]
    try:
        run(sys.executable, "-m", "twine", "check", "--strict", *files, cwd=root)
    except ReleaseError as error:
        found.append(str(error))
    return found


def _checked(path: Path, known: Collection[str], root: Path) -> Iterator[str]:
    is_wheel = path.suffix == ".whl"
    try:
        name, *_ = (parse_wheel_filename if is_wheel else parse_sdist_filename)(path.name)
    except ValueError as error:
        yield f"{path.name} is no distribution: {error}"
        return
    project = named(name, root)
    contents = _wheel(path) if is_wheel else _source_distribution(path)
    place = project.folder.relative_to(root)
    for inside in contents:
        origin = _of_wheel(inside) if is_wheel else inside
        if not _MADE.fullmatch(inside) and (place / origin).as_posix() not in known:
            yield (
                f"{path.name} holds {inside}, which git does not know: remove it from "
                f"{place.as_posix()}, or have git take it up"
            )
    source = project.source.relative_to(root)
    for file in sorted(it for it in known if PurePosixPath(it).is_relative_to(source.as_posix())):
        inside = str(PurePosixPath(file).relative_to((place / "src").as_posix()))
        if (inside if is_wheel else f"src/{inside}") not in contents:
            yield f"{path.name} lacks {file}: look at the build-backend's settings"
    yield from (f"{path.name}: {problem}" for problem in _described(project, contents))


def _wheel(path: Path) -> dict[str, bytes]:
    with ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}


def _source_distribution(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        files = [(it.name, archive.extractfile(it)) for it in archive if it.isfile()]
        return {name.partition("/")[2]: file.read() for name, file in files if file is not None}


def _of_wheel(inside: str) -> str:
    """Give the file of the package that one in a wheel is, if it is any."""
    first, _, rest = inside.partition("/")
    return rest.removeprefix("licenses/") if first.endswith(".dist-info") else f"src/{inside}"


def _described(project: Project, contents: dict[str, bytes]) -> Iterator[str]:
    described = [it for it in contents if it == "PKG-INFO" or it.endswith(".dist-info/METADATA")]
    try:
        metadata = Metadata.from_email(contents[described[0]], validate=True)
    except ExceptionGroup as group:
        yield from (f"{error}: mend {project.name}'s pyproject.toml" for error in group.exceptions)
        return
    if (metadata.name, metadata.version) != (canonicalize_name(project.name), project.version):
        yield f"it is {metadata.name} {metadata.version}, and not {project.name} {project.version}"
    if not any(it.endswith(f"{project.module}/py.typed") for it in contents):
        yield f"it has no py.typed: add {project.module}/py.typed"
    if not metadata.license_expression:
        yield "it names no licence: set `license` in pyproject.toml"
    for file in metadata.license_files or ["LICENSE"]:
        if not any(it == file or it.endswith(f".dist-info/licenses/{file}") for it in contents):
            yield f"it lacks {file}: set `license-files` in pyproject.toml"
    for requirement in metadata.requires_dist or []:
        if requirement.url:
            yield f"it requires {requirement}, an address: no index takes that"
    for target in _dead_links(metadata.description or ""):
        yield f"its README links to {target}, which leads nowhere on PyPI: name it without a link"


def _dead_links(markdown: str) -> Iterator[str]:
    for block in MarkdownIt().parse(markdown):
        for token in block.children or []:
            target = str(token.attrs.get("href") or token.attrs.get("src") or "#")
            if not re.match(r"https?://|mailto:|#", target):
                yield target


def main() -> int:
    """Check distributions by their paths."""
    options = parser(__doc__)
    options.add_argument("files", nargs="+", type=Path)
    chosen = options.parse_args()
    try:
        files = [path.resolve() for path in chosen.files]
        found = problems(files, chosen.root, history.known_files(chosen.root))
    except ReleaseError as error:
        found = [*error.args]
    if not found:
        say("They hold what they should.")
    return status(found)


if __name__ == "__main__":
    sys.exit(main())
