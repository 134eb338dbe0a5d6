"""Compare the page of licences with the metadata of the locked wheels, or write it.

From the root of the repository, with access to the package index:

    uv run nox -s licences -- --write

Only the few kilobytes of metadata are downloaded from each wheel in `uv.lock`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from licence_terms import LIBRARY, NVIDIA, LicenceError, check, is_by_file, licence
from packaging.metadata import parse_email
from remotezip import RemoteZip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "licences.md"
# Our packages that only an extra installs.
_BY_EXTRA = {"toolindex-postgres"}
INTRODUCTION = """\
# Licences of what we depend on

Our packages are licensed under [Apache-2.0](../LICENSE), and programs that use them can be too: the
default dependencies require at most attribution, or publishing changed
[files](#mozilla-public-license) of the dependency. The list covers all direct and indirect
dependencies of our packages, with every extra, on every supported platform and Python; it is
generated from the metadata of the wheels in `uv.lock`. A licence that is not permitted, or unknown,
fails `uv run nox -s licences`. Development tools are not listed, because we do not distribute them.

None of these packages is included in ours. An installer downloads each of them unchanged, with the
text of its licence. Wheels may contain compiled third-party libraries, whose licences are not
always in the metadata but in files beside it.

A package without extras in the last column is always installed. `LicenseRef-BSD` is a BSD licence
with an unspecified number of clauses; `any-OSI` is any licence approved by the Open Source
Initiative, at your choice.

| package | licence | comes with |
|---|---|---|
"""
BY_FILE = """
## Mozilla Public License

The MPL of {packages} applies to their files: if you
distribute a changed file, you have to publish its source. We import these packages and have not
changed them. Our files stay under Apache-2.0, and so can yours.
"""
PROPRIETARY = """
## NVIDIA

`sentence-transformers` needs torch, which on Linux requires NVIDIA's libraries for its GPUs, under
NVIDIA's own terms. Everything else in the list is free software. Only that extra installs them, and
the [smaller build of torch](guides/models.md) works without them.
"""
BY_LIBRARY = """
## Lesser General Public License

The LGPL of {packages} lets programs under any licence use the library, as long as their users can
put another version of it in its place: as with every wheel, an installer does that. Only the extra
`postgres` installs it.
"""
DATA = """
## Data

The offline model is ours (Apache-2.0). Its training started from all-MiniLM-L6-v2 (Apache-2.0) and
wordllama (MIT), word vectors distilled from the token embeddings of Llama 2 models; toolembed's
`NOTICE` says more. Models that you choose have their own licences.
"""


class Dependency(NamedTuple):
    """A package that installing one of ours may install.

    Attributes:
        name: Its name.
        version: Its version in the lock.
        url: The address of one of its wheels.
    """

    name: str
    version: str
    url: str


def exported(*arguments: str) -> set[tuple[str, str]]:
    """Return names and versions of what uv would install on any platform."""
    printed = subprocess.run(
        ["uv", "export", "--quiet", "--frozen", "--no-default-groups", "--no-emit-workspace",
         "--no-hashes", "--no-header", "--no-annotate", *arguments],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip
    return set(re.findall(r"^([\w.-]+)==([\w.!+-]+)", printed, re.M))


def reasons() -> dict[tuple[str, str], set[str]]:
    """Return for each dependency the extras that install it; none if it is always installed."""
    always = {
        key
        for folder in ("packages", "apps")
        for path in ROOT.glob(f"{folder}/*/pyproject.toml")
        if (name := tomllib.loads(path.read_text("utf-8"))["project"]["name"]) not in _BY_EXTRA
        for key in exported(f"--package={name}")
    }
    found: dict[tuple[str, str], set[str]] = {key: set() for key in always}
    for path in sorted(ROOT.glob("*/*/pyproject.toml")):
        project = tomllib.loads(path.read_text("utf-8"))["project"]
        for extra in project.get("optional-dependencies", {}):
            for key in exported(f"--package={project['name']}", f"--extra={extra}") - always:
                found.setdefault(key, set()).add(extra)
    return found


def located(keys: Iterable[tuple[str, str]]) -> Iterator[Dependency]:
    """Find a wheel of each dependency in the lock."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))
    wheels = {(it["name"], it.get("version")): it.get("wheels") for it in lock["package"]}
    for key in sorted(keys):
        found = wheels[key]
        if not found:
            raise LicenceError(f"{key[0]} has no wheel to read: it would be built by who installs")
        yield Dependency(*key, found[0]["url"])


def stated(dependency: Dependency) -> str:
    """Download a wheel's metadata, and return its licence."""
    with RemoteZip(dependency.url) as wheel:
        place = next(
            it for it in wheel.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", it)
        )
        metadata, _ = parse_email(wheel.read(place))
    return licence(metadata)


def page() -> str:
    """Make the page.

    Raises:
        LicenceError: At least one dependency has no permitted licence.
    """
    wanted = reasons()
    dependencies = list(located(wanted))
    rows: dict[str, tuple[set[str], set[str]]] = {}
    refused = []
    with ThreadPoolExecutor(8) as threads:
        futures = [(it, threads.submit(stated, it)) for it in dependencies]
    for it, future in futures:
        extras = wanted[it.name, it.version]
        try:
            expression = future.result()
            check(it.name, expression, always=not extras)
        except LicenceError as error:
            refused.append(str(error))
        else:
            licences, by = rows.setdefault(it.name, (set(), set()))
            licences.add(expression)
            by |= extras or {""}
    if refused:
        raise LicenceError("\n".join(refused))
    return "".join(_lines(rows))


def _lines(rows: dict[str, tuple[set[str], set[str]]]) -> Iterator[str]:
    yield INTRODUCTION
    for name, (licences, by) in rows.items():
        brought = "" if "" in by else ", ".join(f"`{it}`" for it in sorted(by))
        yield f"| {name} | {'; '.join(sorted(licences))} | {brought} |\n"
    by_file = [name for name, (them, _) in rows.items() if any(map(is_by_file, them))]
    if by_file:
        yield BY_FILE.format(packages=" and ".join((", ".join(by_file[:-1]), by_file[-1])))
    libraries = [name for name, (them, _) in rows.items() if them & LIBRARY]
    if libraries:
        yield BY_LIBRARY.format(packages=" and ".join(libraries))
    if any(NVIDIA in them for them, _ in rows.values()):
        yield PROPRIETARY
    yield DATA


def main() -> None:
    """Write the page, or check that it is up to date."""
    try:
        text = page()
    except LicenceError as error:
        raise SystemExit(str(error)) from None
    if "--write" in sys.argv[1:]:
        PAGE.write_text(text, "utf-8", newline="\n")
    elif PAGE.read_text("utf-8") != text:
        raise SystemExit("docs/licences.md is out of date: uv run nox -s licences -- --write")


if __name__ == "__main__":
    main()
