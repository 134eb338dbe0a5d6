"""`pytools-hybrid cache`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from pytools_hybrid.cli._options import Output
from pytools_hybrid.cli.app import app
from pytools_hybrid.terminal import print_json, printable, say, shown_size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import stat_result
    from pathlib import Path

_cache: typer.Typer = typer.Typer(
    help="List the indexes in your cache folder, or remove unneeded ones.",
    invoke_without_command=True,
    rich_markup_mode=None,
)
app.add_typer(_cache, name="cache")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cached:
    """An index in the cache folder.

    Attributes:
        root: Its tree, or several in one string; empty if the index cannot be read.
        is_there: Whether any of its trees exists.
        tools: The number of its tools; None if the index cannot be read.
        bytes: The total size of its files.
        used_at: When it was last written, in seconds since 1970.
    """

    path: str
    root: str
    is_there: bool
    tools: int | None
    bytes: int
    used_at: float


@_cache.callback(
    epilog="""Examples:

\b
  $ pytools-hybrid cache
  $ pytools-hybrid cache clean
  $ pytools-hybrid cache clean --all --yes"""
)
def cache(
    context: typer.Context,
    *,
    output: Output = "text",
) -> None:
    """List the indexes in your cache folder, or remove unneeded ones."""
    if context.invoked_subcommand is not None:
        return
    found = list(_indexes())
    if output == "json":
        print_json([asdict(each) for each in found])
        return
    for each in found:
        typer.echo(printable(_line(each)))
    say(f"{len(found)} indexes, {shown_size(sum(it.bytes for it in found))}")


@_cache.command(
    epilog="An open index is never removed; without --all, the usage record and the vectors of an "
    "existing root are kept."
)
def clean(
    *,
    all_: Annotated[
        bool, typer.Option("--all", help="Remove all, with their usage records and vectors.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Remove empty indexes, and those whose roots no longer exist."""
    from pathlib import Path

    from toolindex import ToolIndex, ToolIndexError

    from pytools_hybrid.settings import tuned_path

    chosen = [it for it in _indexes() if all_ or it.tools == 0 or (it.root and not it.is_there)]
    if not chosen:
        say("nothing to remove")
        return
    for each in chosen:
        say(_line(each))
    if not yes:
        typer.confirm(
            f"Remove {len(chosen)}, with their usage records and vectors?", abort=True, err=True
        )
    removed = 0
    for each in chosen:
        is_needed = each.is_there and not all_
        try:
            is_gone = ToolIndex.remove(Path(each.path), only_empty=is_needed)
        except (ToolIndexError, OSError) as error:
            say(f"{each.path} was not removed: {error}")
            continue
        if is_gone and not is_needed:
            tuned_path(Path(each.path)).unlink(missing_ok=True)
            for note in Path(each.path).parent.glob(f"{Path(each.path).name}-shared*"):
                note.unlink(missing_ok=True)
        removed += is_gone
        if not is_gone:
            say(f"{each.path} was not removed: it is in use, or not empty")
    say(f"{removed} removed")


def _indexes() -> Iterator[_Cached]:
    from platformdirs import user_cache_path

    # If an index was removed by hand, its kept vectors and damaged copies are still there.
    for path in sorted({_index_of(it) for it in user_cache_path("pytools-hybrid").glob("*.db*")}):
        yield _cached(path)


def _index_of(file: Path) -> Path:
    name, suffix, _ = file.name.rpartition(".db")
    return file.with_name(name + suffix)


def _cached(path: Path) -> _Cached:
    from toolindex import ToolIndex, ToolIndexError

    from pytools_hybrid.settings import is_address

    files = [it for it in path.parent.iterdir() if it.name.startswith(path.name)]
    states: list[stat_result] = []
    for each in files:
        # SQLite removes a log when its last user closes it.
        with suppress(FileNotFoundError):
            if each.is_file():
                states.append(each.stat())
    root, is_there, tools = "", True, None
    try:
        with ToolIndex(path, read_only=True) as index:
            root, is_bound = index.bound_to()
            # An index without a recorded root may belong to any tree.
            is_there = is_bound or not root or is_address(root)
            with index.reading() as reader:
                tools = reader.coverage("").tools
    except (ToolIndexError, OSError):
        pass
    return _Cached(
        path=str(path),
        root=root,
        is_there=is_there,
        tools=tools,
        bytes=sum(it.st_size for it in states),
        used_at=max((it.st_mtime for it in states), default=0.0),
    )


def _line(it: _Cached) -> str:
    tools = "unreadable" if it.tools is None else f"{it.tools} tools"
    gone = "" if it.is_there else " (gone)"
    size = shown_size(it.bytes)
    used = f"{datetime.fromtimestamp(it.used_at, UTC):%Y-%m-%d %H:%M}"
    return f"{it.path}  {it.root or '-'}{gone}  {tools}  {size}  last used {used} UTC"
