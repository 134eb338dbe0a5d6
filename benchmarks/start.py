"""Measure the first and the second search after an installation in an empty environment.

usage: uv run python benchmarks/start.py [--runs N]

Our wheels are built, and installed with their declared dependencies, in the versions of uv.lock,
into a separate environment. The first search compiles every module that it imports and indexes the
example tools (119); before it, everything that the last run wrote is removed. The second search
reuses both. The installed files are read first, so that they are in the disk cache.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUERY = "open an issue on github"
FOUND = "mcptools:github:create_issue"
_OF_EXTRAS = ("toolembed_accurate-", "toolindex_postgres-")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    runs: int = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scripts = install(folder)
        python, command = scripts / "python", scripts / "pytools-hybrid"
        count, taken = size(python)
        print(f"{count} distributions, {taken / 1e6:.0f} MB (without byte code)\n")
        cache = folder / "cache"
        environment = environment_of(cache)
        search = [str(command), "search", QUERY, "--root", str(ROOT / "examples" / "tools")]
        bare = [_timed([str(python), "-c", "pass"], environment) for _ in range(runs + 1)]
        first = []
        for _ in range(runs):
            for written in (cache, *(folder / "environment").rglob("__pycache__")):
                shutil.rmtree(written, ignore_errors=True)
            first.append(_timed(search, environment, FOUND))
        second = [_timed(search, environment, FOUND) for _ in range(runs)]
    print(f"{'seconds, best of ' + str(runs):44} {'CPU':>5} {'wall':>6}")
    for title, times in (
        ("python -c pass", bare),
        ("search, first: no byte code, no index", first),
        ("search, second", second),
    ):
        cpu, wall = min(times)
        print(f"{title:44} {cpu:5.2f} {wall:6.2f}")


def install(folder: Path, package: str = "pytools-hybrid") -> Path:
    """Make an environment with a package, and return the folder of its commands."""
    wheels, environment, locked = folder / "wheels", folder / "environment", folder / "locked.txt"
    _uv("build", "--all-packages", "--wheel", "--no-sources", f"--out-dir={wheels}")
    _uv(
        "export", "--frozen", f"--package={package}", "--no-dev", "--no-hashes",
        "--no-emit-workspace", f"--output-file={locked}",
    )  # fmt: skip
    # A library needs only its own wheel; the app needs its siblings, except for those of extras.
    chosen = "*.whl" if package == "pytools-hybrid" else f"{package}-*.whl"
    built = sorted(it for it in wheels.glob(chosen) if not it.name.startswith(_OF_EXTRAS))
    _uv("venv", f"--python={sys.executable}", str(environment))
    _uv(
        "pip", "install", f"--python={environment}", f"--requirements={locked}", *map(str, built)
    )  # fmt: skip
    return environment / ("Scripts" if os.name == "nt" else "bin")


def _uv(*arguments: str) -> None:
    subprocess.run(["uv", "--quiet", *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def size(python: Path) -> tuple[int, int]:
    """Count the distributions and the bytes of their files, reading them all."""
    program = (
        "from importlib.metadata import distributions\n"
        "found = list(distributions())\n"
        "files = (file.locate() for each in found for file in each.files or ())\n"
        "sizes = (len(file.read_bytes()) for file in files if file.is_file())\n"
        "print(len(found), sum(sizes))"
    )
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    count, taken = map(int, done.stdout.split())
    return count, taken


def environment_of(cache: Path) -> dict[str, str]:
    """Return variables that put the index into a folder and enable byte code."""
    ours = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONPYCACHEPREFIX")
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ours and not name.startswith("PYTOOLS_")
    }
    return kept | {"XDG_CACHE_HOME": str(cache)}


def _timed(
    command: list[str], environment: dict[str, str], expected: str = ""
) -> tuple[float, float]:
    """Run a command, and return its CPU and wall time in seconds."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if expected not in done.stdout:
        raise SystemExit(f"{expected} was not found: {done.stdout}{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, wall


if __name__ == "__main__":
    main()
