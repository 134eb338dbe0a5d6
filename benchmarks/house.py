"""Measure how hard the code is to follow: rooms, circles, lines, files that run for one action.

usage: uv run python benchmarks/house.py [--root DIR] [--files]

The parameters of a search are defined by a class or a function of the app that declares at least
four of them, and a found tool by a class that declares at least four of its fields.

A room is a folder below the app's package. The number of floors is the length of the longest chain
of imports between rooms; a circle is a set of rooms that import each other; an arrow up is an
import against the order of the layers in `pyproject.toml`. A profiler in every thread counts the
files whose code runs while a server answers one search over MCP, and from saving a new tool until
it can be found and has its vector.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
import tomllib
from collections import Counter, defaultdict
from contextlib import closing, contextmanager, suppress
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import FrameType

ROOT = Path(__file__).parents[1]
APP = "pytools_hybrid"
SOURCES = sorted([*ROOT.glob("packages/*/src/*"), *ROOT.glob("apps/*/src/*")])
TOOL = '"""Dance a waltz."""\n\n\ndef run(partner: str) -> str:\n    """Dance a waltz."""\n'
PAUSE_SECONDS = 1.5
LEAST_FIELDS = 4
PARAMETERS = (
    *("query|q|text", "mode", "scope", "limit|top_k", "threshold|min_confidence", "where"),
    *("categories|category", "tags"),
)
TOOL_FIELDS = (
    *("id|tool_id", "name", "category", "source", "description", "score", "confidence"),
    *("match_type", "signature", "path"),
)


def room(module: str) -> str:
    """Return the room of a module of the app; a module outside of the rooms is its own room."""
    return module.split(".")[1] if "." in module else module


def imports(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield each pair of modules of a package of which the first imports the second anywhere."""
    modules = {
        ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in folder.rglob("*.py")
    }
    for path in folder.rglob("*.py"):
        here = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if isinstance(node, ast.ImportFrom) and module.startswith(folder.name):
                for name in node.names:
                    full = f"{module}.{name.name}"
                    yield here.removesuffix(".__init__"), full if full in modules else module


def print_rooms() -> None:
    """Print rooms, floors, circles and arrows up of the app."""
    (folder,) = (it for it in SOURCES if it.name == APP)
    below: dict[str, set[str]] = defaultdict(set)
    for importing, imported in imports(folder):
        if importing != APP and imported != APP and room(importing) != room(imported):
            below[room(importing)].add(room(imported))
    rooms = [it.name for it in folder.iterdir() if it.is_dir() and (it / "__init__.py").exists()]
    flat = [it.stem for it in folder.glob("*.py")]
    print(f"rooms {len(rooms)} ({', '.join(sorted(rooms))}), modules beside them {len(flat)}")
    try:
        order = tuple(TopologicalSorter(below).static_order())
    except CycleError as error:
        print(f"a circle: {' → '.join(error.args[1])}")
    else:
        floors: dict[str, int] = {}
        for each in order:
            floors[each] = 1 + max((floors[it] for it in below[each]), default=0)
        print(f"floors {max(floors.values())}, circles 0, arrows up {arrows_up(below)}")


def arrows_up(below: dict[str, set[str]]) -> int:
    """Count the pairs of rooms whose imports go up the layers, or within one layer."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (layers,) = (
        it["layers"]
        for it in settings["tool"]["importlinter"]["contracts"]
        if it["name"] == "One direction of flow inside the application"
    )
    level = {
        name.strip().rpartition(".")[2]: number
        for number, layer in enumerate(layers)
        for name in layer.replace(":", "|").split("|")
    }
    return sum(
        level.get(importing, -1) >= level.get(imported, len(layers))
        for importing, many in below.items()
        for imported in many
    )


def print_lines() -> None:
    """Print the lines of sources and of tests."""

    def lines(folders: list[Path]) -> int:
        return sum(
            len(path.read_bytes().splitlines())
            for folder in folders
            for path in folder.rglob("*.py")
        )

    app = [it for it in SOURCES if it.name == APP]
    print(f"source lines, app {lines(app):,}, all {lines(SOURCES):,}")
    tests = [*ROOT.glob("packages/*/tests"), *ROOT.glob("apps/*/tests"), ROOT / "tests"]
    print(f"test lines {lines(tests):,}")


def print_definitions() -> None:
    """Print what in the app defines the parameters of a search, and a found tool."""
    (folder,) = (it for it in SOURCES if it.name == APP)
    nodes = [
        (f"{path.relative_to(folder).with_suffix('')}:", node)
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    ]

    def fields(node: ast.AST) -> set[str]:
        if isinstance(node, ast.ClassDef):
            declared = (it.target for it in node.body if isinstance(it, ast.AnnAssign))
            return {it.id for it in declared if isinstance(it, ast.Name)}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return {it.arg for it in (*node.args.args, *node.args.kwonlyargs)}
        return set()

    def defines(node: ast.AST, names: tuple[str, ...]) -> bool:
        return sum(not fields(node).isdisjoint(it.split("|")) for it in names) >= LEAST_FIELDS

    found = defaultdict[str, list[str]](list)
    for where, node in nodes:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if defines(node, PARAMETERS):
            found["a search's parameters"].append(f"{where}{node.name}")
        if isinstance(node, ast.ClassDef) and defines(node, TOOL_FIELDS):
            found["a found tool"].append(f"{where}{node.name}")
    for what, names in found.items():
        print(f"definitions of {what}: {len(names)} ({', '.join(names)})")


def print_commands() -> None:
    """Print how many commands the command line has, and options without --help."""
    import typer
    from pytools_hybrid.cli.app import top

    commands: list[Any] = [typer.main.get_command(top)]
    for each in commands:
        commands += getattr(each, "commands", {}).values()
    leaves = sum(not hasattr(each, "commands") for each in commands)
    options = sum(it.param_type_name == "option" for each in commands for it in each.params)
    print(f"commands {leaves}, options {options}")


class Trace:
    """Counts the calls of our functions in all threads."""

    def __init__(self) -> None:
        self._counted: Counter[tuple[str, str]] | None = None

    @contextmanager
    def counting(self) -> Generator[Counter[tuple[str, str]]]:
        """Count during a block."""
        counted = self._counted = Counter()
        try:
            yield counted
        finally:
            self._counted = None

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Receive a profiler event."""
        if event == "call" and self._counted is not None:
            code = frame.f_code
            if (file := ours(code.co_filename)) is not None:
                self._counted[file, code.co_qualname] += 1


@cache
def ours(file: str) -> str | None:
    """Return the path of one of our source files from its package on, or None for others."""
    path = Path(file)
    for source in SOURCES:
        if path.is_relative_to(source):
            return path.relative_to(source.parent).as_posix()
    return None


def print_counted(title: str, counted: Counter[tuple[str, str]], *, lists: bool) -> None:
    """Print what ran for one action, with each file and its functions if `lists`."""
    files = {file for file, _ in counted}
    lent = sum(
        number for (_, name), number in counted.items() if name.endswith("ConnectionPool._take")
    )
    print(
        f"{title}: {len(files)} files, {len(counted)} functions, {sum(counted.values()):,} calls, "
        f"{lent} connections borrowed"
    )
    for file in sorted(files) if lists else ():
        print(f"  {file}: {', '.join(sorted(name for of, name in counted if of == file))}")


async def print_traces(tree: Path, trace: Trace, *, lists: bool) -> None:
    """Print what runs for a search over MCP and for a saved file."""
    from pytools_hybrid import Follower, Settings, ToolSearch
    from pytools_hybrid.serve.mcp import create_server

    settings = Settings.from_flags({"root": (tree,), "embedding_model": "static"})
    search = ToolSearch(tree, settings, refresh=False)
    follower = Follower(search.index)
    server = create_server(search, follower, settings=settings, root=tree)
    async with search:
        following = asyncio.create_task(follower.run())
        await follower.wait_until_ready()
        for query in ("send a message to a channel", "merge two pdf files", "open an issue"):
            await server.call_tool("search_tools", {"query": query})
        await asyncio.sleep(PAUSE_SECONDS)
        path = tree / "mcptools" / "dancing" / "waltz.py"
        path.parent.mkdir()
        before = (await search.index.coverage()).vectors
        kept = sqlite3.connect(f"{search.index.store.where}-kept")
        await asyncio.sleep(PAUSE_SECONDS)
        with trace.counting() as counted, closing(kept):
            path.write_text(TOOL, "utf-8")
            while kept.execute("SELECT count(*) FROM embeddings").fetchone() == (before,):
                await asyncio.sleep(0.02)
            # The index learns of it right after that.
            await asyncio.sleep(0.3)
        print_counted("a saved file", counted, lists=lists)
        assert (await search.index.coverage()).vectors == before + 1
        # Its polling of the files is not part of a search.
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await asyncio.sleep(PAUSE_SECONDS)
        with trace.counting() as counted:
            await server.call_tool("search_tools", {"query": "translate some text"})
        print_counted("an MCP search", counted, lists=lists)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT / "examples" / "tools")
    parser.add_argument("--files", action="store_true", help="list the files and their functions")
    asked = parser.parse_args()
    print_rooms()
    print_lines()
    print_definitions()
    print_commands()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        tree = Path(shutil.copytree(asked.root, Path(folder, "tools")))
        trace = Trace()
        threading.setprofile(trace)
        sys.setprofile(trace)
        asyncio.run(print_traces(tree, trace, lists=asked.files))


if __name__ == "__main__":
    main()
