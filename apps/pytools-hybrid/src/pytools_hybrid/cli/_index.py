"""`pytools-hybrid index`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._options import Database, Device, Model, Output, Root
from pytools_hybrid.cli._run import existing_roots, run, settings_from
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import (
    Progress,
    print_issues,
    print_json,
    print_sync,
    say,
)

if TYPE_CHECKING:
    from toolembed import EmbeddingError
    from toolindex import SyncReport

    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.settings import Roots, Settings


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid index --root ~/agent/.freeact/generated
  $ pytools-hybrid index --watch
  $ pytools-hybrid index --check"""
)
def index(
    *,
    root: Root = None,
    db: Database = None,
    embedding_model: Model = None,
    device: Device = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Check the index, read every file regardless of its time, and fix differences.",
        ),
    ] = False,
    rebuild: Annotated[
        bool,
        typer.Option(
            "--rebuild",
            help="Rebuild it from the files, and embed all tools again; vectors of other models "
            "and the usage record are kept.",
        ),
    ] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Keep the index up to date as files change, until Ctrl-C."),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Exit with status 1 if a file was left out or a tool is in several roots; files "
            "whose names begin with an underscore do not count.",
        ),
    ] = False,
    output: Output = "text",
) -> None:
    """Bring the index up to date, and report what changed.

    Files that were left out are listed with the reason.
    """
    if watch and output == "json":
        raise SettingsError(
            "--watch / --output", "json is for a single scan; use only one of these flags"
        )
    if watch and strict:
        raise SettingsError(
            "--watch / --strict", "strict is for a single scan; use only one of these flags"
        )
    if check and rebuild:
        raise SettingsError(
            "--check / --rebuild", "use only one of these flags: --rebuild replaces everything"
        )
    settings = settings_from(
        root=root,
        database=db,
        embedding_model=embedding_model,
        device=device,
        watch=watch or None,
    )
    if settings.only_reads:
        raise SettingsError(
            settings.origins.get("sync", "PYTOOLS_SYNC"),
            f"this host only reads {settings.server}; run index on a host that has the tools",
        )
    roots = existing_roots(settings)
    problems = run(
        _index(settings, roots, check=check, rebuild=rebuild, watch=watch, output=output)
    )
    if strict and problems:
        say(f"{problems} files were left out, which --strict does not allow")
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


async def _compare(tools: ToolSearch) -> EmbeddingError | None:
    """Report on stderr whether the model's vectors have changed; return the model's error."""
    from toolembed import EmbeddingError

    try:
        if change := await tools.index.vectors.compare_dimensions():
            say(f"{change}: embedding all tools again; the old vectors are kept")
    except EmbeddingError as error:
        return error
    return None


async def _update(tools: ToolSearch, *, trusts_stamps: bool, output: str) -> Exception | None:
    """Update the index, report the changes, and return what failed."""
    from toolindex import SyncReport

    started = time.monotonic()
    uncompared = await _compare(tools)
    with Progress() as progress:
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
        print_json(_as_json(report, tools, done.embedded, refused, seconds))
    else:
        _print_summary(report, tools, done.embedded, refused, seconds)
    return done.error


def _print_summary(
    report: SyncReport, tools: ToolSearch, embedded: int, refused: dict[str, str], seconds: float
) -> None:
    print_sync(report, tools.index.store.where, embedded=embedded, seconds=seconds)
    if not report.added + report.updated + report.unchanged:
        from pytools_hybrid.settings import no_tools

        say(no_tools(tools.roots))
    print_issues(report, tools.roots)
    for tool_id, reason in refused.items():
        say(f"  no vector for {tool_id}: {reason}")


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
            {
                "path": tools.roots.brief(issue.path),
                "reason": issue.reason,
                "detail": issue.detail,
            }
            for issue in report.issues
        ],
        "without_vector": refused,
        "seconds": round(seconds, 3),
    }


async def _watch(tools: ToolSearch) -> None:
    from pytools_hybrid.index import Follower

    say(f"following {tools.roots}; Ctrl-C ends it")

    def tell(report: SyncReport) -> None:
        say(f"{report.added} added, {report.updated} updated, {report.removed} removed")
        print_issues(report, tools.roots)

    await Follower(tools.index, on_sync=tell).run()
