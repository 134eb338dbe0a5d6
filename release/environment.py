"""An environment outside of the workspace, where a release is tried as its users will have it."""

import os
import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from release.processes import ReleaseError, run
from release.projects import Project

_SMOKE = Path(__file__).with_name("smoke")
# That every public name can be imported, with nothing but what is declared.
_FOOTPRINT = Path(__file__).parents[1] / "benchmarks" / "footprint.py"
_PINNED = re.compile(r"^([\w.-]+)==.*\n +# from (\S+)$", re.M)


def install(
    project: Project, folder: Path, addresses: Sequence[str], ours: Collection[str]
) -> Path:
    """Make an environment with one package and what it requires, and give its Python.

    Args:
        project: The package, in the version that it has.
        folder: Where the environment comes to lie.
        addresses: The indexes that our packages are on; others come from the default one.
        ours: The names that must come from those, and from nowhere else.
    """
    folder.mkdir(parents=True)
    wanted, pinned = folder / "requirements.in", folder / "requirements.txt"
    wanted.write_text(f"{project.name}=={project.version}\n", "utf-8")
    indexes = [f"--index={address}" for address in addresses]
    fresh = [f"--refresh-package={name}" for name in ours]
    run(
        "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate",
        "--emit-index-annotation", f"--python={sys.executable}", *indexes, *fresh,
        f"--output-file={pinned}", wanted, cwd=folder,
    )  # fmt: skip
    origins = dict(_PINNED.findall(pinned.read_text("utf-8")))
    for name in {project.name, *(it for it in ours if it in origins)}:
        if not origins[name].startswith(tuple(addresses)):
            raise ReleaseError(
                f"{name} would be installed from {origins[name]}, where somebody else has that "
                f"name; look whether it was uploaded to {' or '.join(addresses)}"
            )
    venv = folder / "venv"
    run("uv", "venv", "--quiet", f"--python={sys.executable}", venv, cwd=folder)
    python = _programs(venv) / ("python.exe" if os.name == "nt" else "python")
    run(
        "uv", "pip", "install", "--quiet", "--no-deps", f"--python={python}", *indexes, *fresh,
        f"--requirements={pinned}", cwd=folder,
    )  # fmt: skip
    return python


def use(project: Project, tree: Path, python: Path) -> str:
    """Use what is installed as its users do, on example tools, and tell what came of it."""
    script = _SMOKE / f"{project.module}.py"
    if not script.is_file():
        raise ReleaseError(f"{project.name} has no small test: write {script}")
    folder = python.parents[2]
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", "")])
    environ = {**os.environ, "PATH": path}
    # Isolated: neither the folder of a script nor variables say where modules are.
    run(python, "-I", _FOOTPRINT, project.name, cwd=folder, env=environ)
    tools = tree / "examples" / "tools"
    said = run(python, "-I", script, tools, cwd=folder, env=environ).strip()
    return f"{project.name} {project.version}: {said}"


def _programs(venv: Path) -> Path:
    return venv / ("Scripts" if os.name == "nt" else "bin")
