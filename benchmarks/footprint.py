"""Check that an installed package works alone, and measure its size and import time.

usage: python -I benchmarks/footprint.py DISTRIBUTION [--row]

    uv run nox -s footprint            the table of all packages
    uv run nox -s tests lowest newest  the same checks before the tests of each package

Run it with the Python of an environment that contains only the package and its declared
dependencies. Import time is the CPU time (user and system) of a new process until the import is
done, minus that of the bare interpreter in the same run; the first run, which writes byte code,
does not count. `import *` is measured too, because names may be imported at their first use. Sizes
are those of the installed files, without byte code.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

RUNS = 7
# The distributions that importing a package may load. All others are imported when they are used.
LOADS = {
    "toolindex": frozenset({"apsw", "toolscan"}),
    # Every store of it has a thread.
    "toolindex-postgres": frozenset({"apsw", "concurrent.futures", "toolindex", "toolscan"}),
    "toolwatch": frozenset({"anyio"}),
    # Its functions are asynchronous: asyncio and what that loads.
    "toolembed": frozenset({"asyncio", "concurrent.futures", "ssl"}),
}
# Modules of the standard library that importing a package must not load, and why.
SLOW = {
    "asyncio": "takes as long as all our modules; programs that use it have loaded it",
    "concurrent.futures": "loads logging; only calls need threads",
    "email": "belongs to HTTP, which no import uses",
    "multiprocessing": "no import starts a process",
    "ssl": "no import opens a connection",
    "unittest": "only tests need it",
}
# Public modules that need more than the declared dependencies, and what they need.
OPTIONAL = {
    "pytools_hybrid.agents.adapters.fastmcp": "fastmcp",
    "pytools_hybrid.agents.adapters.pydantic_ai": "pydantic_ai",
    "toolembed.pydantic_ai": "pydantic_ai",
    "toolindex_postgres.commands": "typer",
}
COUNT = "import sys, time; print(time.process_time(), *sys.modules)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """The cost of an import: CPU in milliseconds, and the number of loaded modules."""

    cpu: float
    modules: frozenset[str]

    def beyond(self, bare: Import) -> Import:
        """Return the cost beyond that of the bare interpreter."""
        return Import(cpu=self.cpu - bare.cpu, modules=self.modules - bare.modules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Installed sizes, in bytes."""

    own: int
    all: int
    distributions: int


def main() -> None:
    """Check one distribution, and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("distribution")
    parser.add_argument("--row", action="store_true", help="print only a row of the table")
    arguments = parser.parse_args()
    name: str = arguments.distribution
    package, folder = _installed(name)
    names, absent = import_public_names(package, folder)
    bare = _measure("")
    imported = _measure(f"import {package}").beyond(bare)
    used = _measure(f"from {package} import *").beyond(bare)
    _refuse_heavy(name, package, imported.modules)
    size = _measure_size(name)
    own, everything = _megabytes(size.own), _megabytes(size.all)
    if arguments.row:
        print(
            f"| `{name}` | {bare.cpu:.0f} ms | {imported.cpu:.0f} ms | {len(imported.modules)} "
            f"| {used.cpu:.0f} ms | {len(used.modules)} | {own} | {everything} "
            f"| {size.distributions} |"
        )
        return
    print(f"{name}: its {names} public names imported from {folder}")
    for module in absent:
        print(f"  not {module}, which is for {OPTIONAL[module]}")
    print(
        f"  import: {imported.cpu:.0f} ms CPU, {len(imported.modules)} modules; with every name "
        f"{used.cpu:.0f} ms, {len(used.modules)} modules (bare interpreter: {bare.cpu:.0f} ms)"
    )
    print(f"  installed: {own}; {size.distributions} distributions, {everything}")


def _installed(name: str) -> tuple[str, Path]:
    """Return the distribution's package and its folder, after checking that it has types."""
    site = Path(sysconfig.get_path("purelib"))
    typed = [file for file in distribution(name).files or () if file.name == "py.typed"]
    if not typed:
        sys.exit(f"{name} has no py.typed in {site}: install the wheel, or add the file")
    package = typed[0].parts[0]
    spec = find_spec(package)
    if spec is None or spec.origin is None or not Path(spec.origin).is_relative_to(site):
        sys.exit(f"import {package} finds {spec}, not the package installed in {site}")
    return package, Path(spec.origin).parent


def import_public_names(package: str, folder: Path) -> tuple[int, list[str]]:
    """Import all public names; return their number, and the modules whose extra is missing."""
    names = 0
    absent: list[str] = []
    for module in _public_modules(package, folder):
        try:
            imported = importlib.import_module(module)
            # A package without a list re-exports its names.
            listed = getattr(imported, "__all__", [it for it in vars(imported) if it[0] != "_"])
            values = [getattr(imported, name) for name in listed]
            names += sum(not isinstance(value, ModuleType) for value in values)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != OPTIONAL.get(module):
                sys.exit(f"import {module}: {error}. Declare it, or import it where it is used")
            absent.append(module)
        except AttributeError as error:
            sys.exit(f"{error}, which its __all__ names")
    if not names:
        sys.exit(f"{package} has no public name: declare its interface in __all__")
    return names, absent


def _public_modules(package: str, folder: Path) -> Iterator[str]:
    yield package
    for found in iter_modules([str(folder)]):
        name = f"{package}.{found.name}"
        if found.name.startswith("_"):
            continue
        if found.ispkg:
            yield from _public_modules(name, folder / found.name)
        else:
            yield name


def _measure(statement: str) -> Import:
    """Run code in several new processes, and return the least cost."""
    environment = {key: os.environ[key] for key in os.environ if key != "PYTHONDONTWRITEBYTECODE"}
    times = []
    modules: list[str] = []
    for _ in range(RUNS + 1):
        done = subprocess.run(
            [sys.executable, "-I", "-c", f"{statement}\n{COUNT}"],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        seconds, *modules = done.stdout.split()
        times.append(1000 * float(seconds))
    return Import(cpu=min(times[1:]), modules=frozenset(modules))


def _refuse_heavy(name: str, package: str, modules: frozenset[str]) -> None:
    own = LOADS.get(name, frozenset[str]()) | {package}
    for module in sorted(modules):
        top = module.partition(".")[0]
        if module in SLOW and module not in own:
            sys.exit(f"import {package} loads {module}: {SLOW[module]}. Import it where it is used")
        if top not in own and top not in sys.stdlib_module_names:
            sys.exit(
                f"import {package} loads {top}: import it where it is used, or add it to LOADS"
            )


def _measure_size(name: str) -> Size:
    sizes = [_bytes(found) for found in distributions()]
    return Size(own=_bytes(distribution(name)), all=sum(sizes), distributions=len(sizes))


def _bytes(found: Distribution) -> int:
    return sum(
        Path(file.locate()).stat().st_size
        for file in found.files or ()
        if "__pycache__" not in file.parts
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB" if size < 1e7 else f"{size / 1e6:.0f} MB"


if __name__ == "__main__":
    main()
