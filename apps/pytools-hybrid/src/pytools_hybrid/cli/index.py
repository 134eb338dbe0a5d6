"""`pytools-hybrid index`: updating the index, and removing those that nobody needs."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pytools_hybrid import terminal
from pytools_hybrid.cli import app
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import stat_result

    from toolembed import EmbeddingError
    from toolindex import SyncReport

    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.settings import Roots, Settings

_LOCAL = "sentence-transformers"
_OLLAMA = "ollama"


@app.command(
    "index",
    settings="root database embedding_model",
    epilog="""Examples:

\b
  $ pytools-hybrid index --root ~/agent/.freeact/generated
  $ pytools-hybrid index --watch
  $ pytools-hybrid index --check
  $ pytools-hybrid index --model sentence-transformers:all-MiniLM-L6-v2 --download
  $ pytools-hybrid index --prune

A downloaded model is stored in the Hugging Face cache (HF_HOME); HF_ENDPOINT names another hub.
--prune never removes an open index, nor the record of use of an existing folder.""",
)
def index(
    flags: app.Flags,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Read every file again, and repair the index.")
    ] = False,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild from the files, with new vectors.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the files until Ctrl-C.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if a file was left out.")
    ] = False,
    download: Annotated[
        bool, typer.Option("--download", help="Only download the model; nothing else does.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Only remove indexes of folders that are gone.")
    ] = False,
    yes: app.Yes = False,
    output: app.Output = "text",
) -> None:
    """Report what changed, and list the files that were left out, with the reason."""
    for option, is_given in (("--output", output == "json"), ("--strict", strict)):
        if watch and is_given:
            raise SettingsError(f"--watch / {option}", "use only one: --watch runs until Ctrl-C")
    if check and rebuild:
        raise SettingsError(
            "--check / --rebuild", "use only one of these flags: --rebuild replaces everything"
        )
    if prune:
        _prune(yes=yes)
        return
    if download:
        _download(flags["embedding_model"] or app.settings_from().embedding_model)
        return
    settings = app.settings_from(**flags, watch=watch or None)
    if settings.only_reads:
        raise SettingsError(
            settings.origins.get("sync", "PYTOOLS_SYNC"),
            f"this host only reads {settings.server}; run index on a host that has the tools",
        )
    roots = app.existing_roots(settings)
    problems = app.run(
        _index(settings, roots, check=check, rebuild=rebuild, watch=watch, output=output)
    )
    if strict and problems:
        say(f"{terminal.counted(problems, 'file')} left out, which --strict does not allow")
        raise typer.Exit(1)


async def _index(
    settings: Settings, roots: Roots, *, check: bool, rebuild: bool, watch: bool, output: str
) -> int:
    """Index the files, and return how many were left out, not counting private ones."""
    from pytools_hybrid.search import ToolSearch

    async with ToolSearch(roots, settings, refresh=False) as tools:
        if check:
            await _check(tools)
        if rebuild:
            await tools.index.rebuild(forget_vectors=True)
        problem = await _update(tools, trusts_stamps=not check, output=output)
        if watch:
            if problem is not None:
                say(f"{problem} Retrying.")
            await _watch(tools)
        elif problem is not None:
            raise problem
        issues = tools.index.sync.left_out
        return sum(issue.reason != "private" for issue in issues)


async def _check(tools: ToolSearch) -> None:
    problems = await tools.index.check()
    for problem in problems:
        say(f"  {problem}")
    if problems:
        await tools.index.rebuild()
        say("the search tables were rebuilt")
    elif tools.index.store.damaged is None:
        say(f"{tools.index.store.where} is consistent; comparing it with the files")


async def _update(tools: ToolSearch, *, trusts_stamps: bool, output: str) -> Exception | None:
    """Update the index, report the changes, and return what failed."""
    from toolembed import EmbeddingError
    from toolindex import SyncReport

    started = time.monotonic()
    uncompared: EmbeddingError | None = None
    try:
        if change := await tools.index.vectors.compare_dimensions():
            say(f"{change}: embedding all tools again; the old vectors are kept")
    except EmbeddingError as error:
        uncompared = error
    with terminal.Progress() as progress:
        done = await tools.index.update(trusts_stamps=trusts_stamps, progress=progress)
    if done.report is None and done.files_error is not None:
        raise done.files_error
    report = done.report or SyncReport()
    if done.vectors_error is None and uncompared is not None:
        say(f"the vectors could not be compared with the model's current ones: {uncompared}")
    await tools.index.tidy()
    seconds = time.monotonic() - started
    refused = await tools.index.refused()
    if output == "json":
        terminal.print_json(_as_json(report, tools, done.embedded, refused, seconds))
        return done.error
    terminal.print_sync(report, tools.index.store.where, embedded=done.embedded, seconds=seconds)
    if not report.added + report.updated + report.unchanged:
        from pytools_hybrid.settings import no_tools

        say(no_tools(tools.roots))
    terminal.print_issues(report, tools.roots)
    for tool_id, reason in refused.items():
        say(f"  no vector for {tool_id}: {reason}")
    return done.error


def _as_json(
    report: SyncReport, tools: ToolSearch, embedded: int, refused: dict[str, str], seconds: float
) -> dict[str, Any]:
    return {
        "database": tools.index.store.where,
        "added": report.added,
        "updated": report.updated,
        "removed": report.removed,
        "unchanged": report.unchanged,
        "embedded": embedded,
        "left_out": [
            {"path": tools.roots.short_path(it.path), "reason": it.reason, "detail": it.detail}
            for it in report.issues
        ],
        "without_vector": refused,
        "seconds": round(seconds, 3),
    }


async def _watch(tools: ToolSearch) -> None:
    from pytools_hybrid.index import Follower

    say(f"following {tools.roots}; Ctrl-C ends it")

    def tell(report: SyncReport) -> None:
        say(f"{report.added} added, {report.updated} updated, {report.removed} removed")
        terminal.print_issues(report, tools.roots)

    await Follower(tools.index, on_sync=tell).run()


class CachedIndex(NamedTuple):
    """An index in the cache folder.

    Attributes:
        path: Its file.
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

    def __str__(self) -> str:
        tools = "unreadable" if self.tools is None else f"{self.tools} tools"
        root = f"{self.root or '-'}{'' if self.is_there else ' (gone)'}"
        used = f"last used {datetime.fromtimestamp(self.used_at, UTC):%Y-%m-%d %H:%M} UTC"
        return f"{self.path}  {root}  {tools}  {terminal.shown_size(self.bytes)}  {used}"


def cached_indexes() -> Iterator[CachedIndex]:
    """Yield the indexes in the cache folder, also those of which only a part is left."""
    from platformdirs import user_cache_path
    from toolindex import ToolIndex, ToolIndexError

    from pytools_hybrid.settings import is_address

    # If an index was removed by hand, its kept vectors and damaged copies are still there.
    files = [*user_cache_path("pytools-hybrid").glob("*.db*")]
    for path in sorted({it.with_name("".join(it.name.rpartition(".db")[:2])) for it in files}):
        root, is_there, tools = "", True, None
        with suppress(ToolIndexError, OSError), ToolIndex(path, read_only=True) as index:
            root, is_bound = index.bound_to()
            # An index without a recorded root may belong to any tree.
            is_there = is_bound or not root or is_address(root)
            with index.reading() as reader:
                tools = reader.coverage("").tools
        states: list[stat_result] = []
        for each in files:
            # SQLite removes a log when its last user closes it.
            with suppress(FileNotFoundError):
                if each.name.startswith(path.name) and each.is_file():
                    states.append(each.stat())
        used_at = max((it.st_mtime for it in states), default=0.0)
        size = sum(it.st_size for it in states)
        yield CachedIndex(str(path), root, is_there, tools, size, used_at)


def _prune(*, yes: bool) -> None:
    """Remove empty indexes from the cache folder, and those whose roots no longer exist."""
    from toolindex import ToolIndex, ToolIndexError

    from pytools_hybrid.settings import tuned_path

    chosen = [it for it in cached_indexes() if it.tools == 0 or (it.root and not it.is_there)]
    if not chosen:
        say("nothing to remove")
        return
    for each in chosen:
        say(str(each))
    if not yes and not app.confirm(f"Remove {len(chosen)}, with their usage records and vectors?"):
        raise typer.Abort
    removed = 0
    for each in chosen:
        path = Path(each.path)
        try:
            is_gone = ToolIndex.remove(path, only_empty=each.is_there)
        except (ToolIndexError, OSError) as error:
            say(f"{each.path} was not removed: {error}")
            continue
        if is_gone and not each.is_there:
            for beside in (tuned_path(path), *path.parent.glob(f"{path.name}-shared*")):
                beside.unlink(missing_ok=True)
        removed += is_gone
        if not is_gone:
            say(f"{each.path} was not removed: it is in use, or not empty")
    say(f"{removed} removed")


def _download(model: str) -> None:
    """Download a model that runs on this machine."""
    from shlex import quote

    from toolembed.downloads import download_model

    from pytools_hybrid.settings import REMEDIES

    provider, _, name = model.partition(":")
    if provider == _OLLAMA and name:
        raise SettingsError(
            "--download", f"Ollama keeps its own models; run: ollama pull {quote(name)}"
        )
    if provider != _LOCAL or not name:
        raise SettingsError(
            "--download",
            f"{model!r} cannot be downloaded; use {_LOCAL}:NAME, or list the other models with: "
            "pytools-hybrid doctor --models",
        )
    with terminal.Progress() as progress:

        def show(done: int, total: int) -> None:
            progress(f"downloading {model} (MB)", done // 10**6, total // 10**6)

        folder = download_model(name, show, hints=REMEDIES)
    say(f"{model} is in {folder}; use it with --model {model}")
    if find_spec("sentence_transformers") is None:
        say(f"the package that runs it is not installed; {REMEDIES.to_install(model)}")
