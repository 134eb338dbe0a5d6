"""What the sessions of noxfile.py install: environments, npm packages, our own wheels."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nox

from release.projects import read_projects

ROOT = Path(__file__).parent
# Every package of the workspace, in the order of their releases.
PROJECTS = read_projects(ROOT)
# The wheels that `wheels` builds, and the locked versions, for the sessions that install a wheel.
DIST = ROOT / ".nox" / "dist"
LOCKED = f"--constraints={DIST / 'locked.txt'}"
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


DEFAULT = f"{sys.version_info.major}.{sys.version_info.minor}"
FOUND = json.loads(_output("uv", "python", "list", "--only-installed", "--output-format=json"))
INSTALLED = {
    "{major}.{minor}".format(**it["version_parts"])
    for it in FOUND
    if it["implementation"] == "cpython" and it.get("variant", "default") == "default"
}
PYTHONS = [version for version in SUPPORTED if version in INSTALLED | {DEFAULT}]


def sync(session: nox.Session, *arguments: str) -> None:
    """Sync the session's environment with the lock, given arguments of `uv sync`."""
    location = session.virtualenv.location
    session.run_install(
        "uv", "sync", "--frozen", "--no-default-groups", f"--python={location}", *arguments,
        env={"UV_PROJECT_ENVIRONMENT": location},
    )  # fmt: skip


def new_environment(session: nox.Session, name: str, *packages: str) -> Path:
    """Install packages into a separate environment, and return the folder of its executables."""
    folder = Path(session.virtualenv.location, name)
    python = f"--python={session.python or DEFAULT}"
    session.run_install("uv", "venv", "--quiet", "--clear", python, str(folder))
    install = ("uv", "pip", "install", "--quiet", "--no-sources", f"--python={folder}")
    session.run_install(*install, *packages)
    return folder / ("Scripts" if os.name == "nt" else "bin")


def install_npm(session: nox.Session, *packages: str) -> Path:
    """Install npm packages, and return the folder of their executables."""
    if shutil.which("npm") is None:
        session.error("this session needs npm, which comes with Node.js")
    folder = Path(session.virtualenv.location, "npm")
    session.run_install(
        "npm", "install", f"--prefix={folder}", "--no-audit", "--no-fund", "--no-save", *packages,
        external=True, silent=True,
    )  # fmt: skip
    return folder / "node_modules" / ".bin"


def program(session: nox.Session, name: str) -> str:
    """Return the path of a program in the session's environment."""
    return str(shutil.which(name, path=session.bin))


def path(*folders: Path) -> dict[str, str]:
    """Return a PATH that begins with these folders."""
    return {"PATH": os.pathsep.join((*map(str, folders), os.environ["PATH"]))}


def wheel(package: str) -> Path:
    """Return the path of a package's built wheel."""
    (wheel,) = DIST.glob(f"{package.replace('-', '_')}-*.whl")
    return wheel


def siblings(session: nox.Session, package: str, *, released: bool = False) -> str:
    """Write the constraints that take our packages from `wheels`, and return pip's option.

    With `released`, a sibling that has a release which the package accepts comes from the index.
    """
    accepted = {it.name: it.specifier for it in PROJECTS[package].siblings} if released else {}
    # A copy of the files without git has no tags.
    tags = _output("git", "tag", "--list").split() if (ROOT / ".git").exists() else []
    published = {
        name
        for name, _, version in (tag.rpartition("-v") for tag in tags)
        if name in accepted and version in accepted[name]
    }
    constraints = Path(session.virtualenv.location, f"siblings-of-{package}.txt")
    ours = (f"{name} @ {wheel(name).as_uri()}\n" for name in PROJECTS if name not in published)
    constraints.write_text("".join(ours), "utf-8")
    return f"--constraints={constraints}"
