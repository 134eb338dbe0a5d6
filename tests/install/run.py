"""Run the commands of docs/guides/install.md and of the Dockerfile in new environments.

usage: python tests/install/run.py PYTHON

PYTHON creates the environments. No container is used: the folders that the Dockerfile copies are
copied to a temporary folder, and its `pip install` is run there.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PIP_LINE = re.compile(r"^pip install \./packages/toolscan \./packages.*$", re.M)
COPY = re.compile(r"^COPY (\S+) /src/(\S+)$", re.M)
RUN = re.compile(r"^RUN cd /src && (pip install .*?) *\\?\n? +&& rm -r /src", re.M | re.S)
QUERY = ["search", "merge two pdf files", "--root", str(ROOT / "examples" / "tools"), "--limit=1"]


def new_environment(python: str, folder: Path) -> Path:
    """Create a virtual environment with pip, and return the folder of its executables."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    return folder / ("Scripts" if sys.platform == "win32" else "bin")


def install(line: str, binaries: Path, folder: Path) -> None:
    """Run a pip command line in an environment, as a shell would."""
    line = line.replace("\\\n", " ").replace("pip install", "pip install --quiet", 1)
    subprocess.run(f"{binaries / line.strip()}", shell=True, check=True, cwd=folder)


def finds(binaries: Path, database: Path) -> None:
    """Search with the command installed in an environment, check the result and print it."""
    command = [str(binaries / "pytools-hybrid"), *QUERY, f"--database={database}"]
    found = subprocess.run(command, check=True, capture_output=True, text=True, cwd="/")
    assert "mcptools:pdf:merge_pdfs" in found.stdout, found
    print(f"{binaries.parent.name}: {found.stdout.splitlines()[0]}")


def main() -> None:
    python = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        guide = PIP_LINE.search((ROOT / "docs" / "guides" / "install.md").read_text("utf-8"))
        dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
        in_container = RUN.search(dockerfile)
        assert guide is not None, "the guide has no pip command"
        assert in_container is not None, "the Dockerfile does not install as this script expects"

        one_line = new_environment(python, folder / "one-line")
        install(guide[0], one_line, ROOT)
        finds(one_line, folder / "one.db")

        for source, target in COPY.findall(dockerfile):
            shutil.copytree(ROOT / source, folder / "src" / target)
        container = new_environment(python, folder / "container")
        install(in_container[1], container, folder / "src")
        shutil.rmtree(folder / "src")
        finds(container, folder / "container.db")


if __name__ == "__main__":
    main()
