"""The command line. Each command imports what it needs, so that help comes at once."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from pytools_hybrid.errors import PytoolsError, RootUnreadableError, SettingsError
from pytools_hybrid.terminal import (
    Progress,
    fail,
    print_lines,
    print_response,
    print_sync,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from toolindex import EmbeddingError

    from pytools_hybrid.search import SearchResponse
    from pytools_hybrid.service import ToolSearch
    from pytools_hybrid.settings import Settings

__all__ = ["app", "main", "serve_settings"]

T = TypeVar("T")

# Who searches does not wait for ever for a model that is slow to begin with.
_PATIENCE_SECONDS = 15.0

app = typer.Typer(
    name="pytools-hybrid",
    help="Find the right Python tools for a request in plain language.",
    epilog='Try: pytools-hybrid search "merge two pdf files". Every setting is also an environment '
    "variable, PYTOOLS_…; the README has the table.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        help="The tree of tools: mcptools/<category>/<tool>.py and "
        "gentools/<category>/<tool>/api.py. [env: PYTOOLS_DIR; default: .freeact/generated, "
        "else examples/tools]",
    ),
]
Database = Annotated[
    Path | None,
    typer.Option(
        "--db",
        help="The index file. [env: PYTOOLS_DB_PATH; default: a file for each root in your "
        "cache folder]",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--embedding-model",
        help="'wordllama' (offline), 'none', or a pydantic-ai model such as "
        "'openai:text-embedding-3-small'. [env: PYTOOLS_EMBEDDING_MODEL; default: wordllama]",
    ),
]

Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include",
        metavar="PATTERN",
        help="Only tools whose id matches, as 'mcptools:github:*'; given several times, any of "
        "them. Others cannot be found, listed or described. [env: PYTOOLS_INCLUDE, with commas]",
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="PATTERN",
        help="No tools whose id matches, as '*:delete_*'. [env: PYTOOLS_EXCLUDE, with commas]",
    ),
]
Rerank = Annotated[
    str | None,
    typer.Option(
        "--rerank",
        metavar="MODEL",
        help="A pydantic-ai language model, as 'openai:gpt-5-mini', that puts the first results "
        "in order. [env: PYTOOLS_RERANK_MODEL; default: none]",
    ),
]


@app.callback(invoke_without_command=True)
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed_version

        typer.echo(f"pytools-hybrid {installed_version('pytools-hybrid')}")
        raise typer.Exit


@app.command(epilog='Example: pytools-hybrid search "send a message to a channel" --limit 3')
def search(
    query: Annotated[str, typer.Argument(help="What the tool should do, in plain language.")],
    *,
    root: Root = None,
    db: Database = None,
    embedding_model: Model = None,
    mode: Annotated[
        Literal["hybrid", "bm25", "vector", "fuzzy"],
        typer.Option(
            help="Words and meaning together, words alone, meaning alone, or words with slips and "
            "parts of names."
        ),
    ] = "hybrid",
    scope: Annotated[
        Literal["all", "gentools", "mcptools"], typer.Option(help="Which tools to search.")
    ] = "all",
    category: Annotated[
        list[str] | None,
        typer.Option(help="Only tools of this category; given several times, of any of them."),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="Only tools with this tag; given several times, with all of them."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=50, help="Results at most.")] = 5,
    min_confidence: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            help="Leave out tools that are less sure to do it; 0.5 prints nothing for most "
            "requests that no tool answers, and for a third of the others.",
        ),
    ] = 0.0,
    rerank: Rerank = None,
    include: Include = None,
    exclude: Exclude = None,
    output: Annotated[
        Literal["text", "json"], typer.Option(help="For people, or for programs.")
    ] = "text",
) -> None:
    """Print the tools that fit a request, best first.

    The index is brought up to date before, and holds only what is on disk.
    """
    settings = _settings(
        root=root,
        db_path=db,
        embedding_model=embedding_model,
        rerank_model=rerank,
        include=include,
        exclude=exclude,
    )
    tools = _existing_root(settings)
    found = _search(
        settings,
        tools,
        query,
        mode=mode,
        scope=scope,
        categories=category,
        tags=tag,
        limit=limit,
        min_confidence=min_confidence,
    )
    response = _run(found)
    print_response(response, tools, output)


@app.command(epilog="Example: pytools-hybrid index --root ~/agent/.freeact/generated")
def index(*, root: Root = None, db: Database = None, embedding_model: Model = None) -> None:
    """Bring the index up to date, and say what changed.

    Files that were left out are listed with the reason.
    """
    settings = _settings(root=root, db_path=db, embedding_model=embedding_model)
    _run(_index(settings, _existing_root(settings)))


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid serve --root .freeact/generated
  $ pytools-hybrid serve --transport http --port 8000
  $ PYTOOLS_TOKEN=… pytools-hybrid serve --transport http --host 0.0.0.0"""
)
def serve(
    *,
    root: Root = None,
    db: Database = None,
    embedding_model: Model = None,
    tools: Annotated[
        Literal["search", "basic", "all"] | None,
        typer.Option(
            help="search_tools, describe_tool and report_outcome; or list_categories and "
            "list_tools, which need no index; or all. [env: PYTOOLS_TOOLS; default: search]"
        ),
    ] = None,
    rerank: Rerank = None,
    include: Include = None,
    exclude: Exclude = None,
    transport: Annotated[
        Literal["stdio", "http"] | None,
        typer.Option(
            help="Over stdin and stdout for one client, or at an address for many, with a JSON API "
            "beside MCP. [env: PYTOOLS_TRANSPORT; default: stdio]"
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            help="The address to listen at; any but this machine's own demands a token. "
            "[env: PYTOOLS_HOST; default: 127.0.0.1]"
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Its port; 0 takes a free one. [env: PYTOOLS_PORT; default: 8000]"),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="What clients send as 'Authorization: Bearer TOKEN'. Others on this machine can "
            "see flags: the variable is better. [env: PYTOOLS_TOKEN]"
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            help="A further name by which clients may address the server. [env: "
            "PYTOOLS_ALLOWED_HOSTS, with commas]",
        ),
    ] = None,
) -> None:
    """Serve the tools to agents, over MCP.

    The index follows the files while the server runs. Over stdio nothing but the protocol is
    written to stdout. Ctrl-C, SIGTERM or a closed stdin end it.
    """
    for_http = {"host": host, "port": port, "token": token, "allowed-host": allowed_host}
    settings = _settings(
        root=root,
        db_path=db,
        embedding_model=embedding_model,
        tools=tools,
        rerank_model=rerank,
        include=include,
        exclude=exclude,
        transport=transport,
        host=host,
        port=port,
        token=token,
        allowed_hosts=allowed_host,
    )
    given = [f"--{name}" for name, value in for_http.items() if value]
    if given and settings.transport == "stdio":
        raise SettingsError(" / ".join(given), "is for --transport http; give that too")
    serve_settings(settings)


@app.command(
    epilog="""Examples:

\b
  $ pytools-hybrid prompt
  $ pytools-hybrid prompt --mode basic --template system.md"""
)
def prompt(
    *,
    mode: Annotated[
        Literal["hybrid", "basic"],
        typer.Option(help="For an agent that searches, or for one that browses categories."),
    ] = "hybrid",
    template: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Print this file with {tool_discovery_workflow} filled in; other braces stay.",
        ),
    ] = None,
) -> None:
    """Print what an agent's system prompt should say about finding tools."""
    from pytools_hybrid import prompts

    text = prompts.DEFAULT_TEMPLATE
    if template is not None:
        try:
            text = template.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError("--template", f"{template} cannot be read: {error}") from error
    typer.echo(prompts.render(text, mode), nl=not text.endswith("\n"))


@app.command(
    "eval",
    epilog="""Example:

\b
  $ cat queries.jsonl
  {"id": "q1", "query": "open an issue on github", "gold": ["mcptools:github:create_issue"]}
  {"id": "q2", "query": "merge two pdf files", "gold": ["mcptools:pdf:merge_pdfs"]}
  $ pytools-hybrid eval --root examples/tools --queries queries.jsonl

Thirty queries tell something, two hundred tell small differences: the table shows the 95 %
interval of ndcg@10. With --output json, "modes" has one entry for each row of the table; its
"failures" are the ids of the queries of which no right tool is among the first ten.""",
)
def evaluate(
    *,
    queries: Annotated[
        Path,
        typer.Option(
            "--queries",
            help='Lines of JSON with "id", "query" and "gold", the ids of all tools that are '
            "right; other keys are ignored. A gold id that is not in the index is told and counts "
            "as a tool that is never found.",
        ),
    ],
    root: Root = None,
    db: Annotated[
        Path | None,
        typer.Option(
            "--db",
            help="Bring this index up to date and evaluate copies of it, which saves embedding "
            "all tools anew. [default: a temporary index, whatever PYTOOLS_DB_PATH says]",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "--embedding-model",
            help="The embedding model, as for search. [env: PYTOOLS_EMBEDDING_MODEL; default: "
            "wordllama]",
        ),
    ] = None,
    mode: Annotated[
        Literal["hybrid", "bm25", "vector"] | None, typer.Option(help="Evaluate this mode alone.")
    ] = None,
    all_modes: Annotated[
        bool,
        typer.Option(
            "--all-modes",
            help="Compare bm25, vector, hybrid as your settings have it, and hybrid with the "
            "other fusion, as 'hybrid (rrf)'; without vectors bm25 is all there is. [default where "
            "no --mode is given]",
        ),
    ] = False,
    limit_k: Annotated[
        str,
        typer.Option(
            "--limit-k",
            metavar="K,K,…",
            help="The depths of recall, up to 50. All other measures look at the first ten (hit@3 "
            "at three).",
        ),
    ] = "1,3,5,10",
    by: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Break ndcg@10 down by a key of the queries' lines, such as 'kind'."
        ),
    ] = None,
    output: Annotated[
        Literal["table", "json"], typer.Option(help="For people, or for programs.")
    ] = "table",
    run: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="FILE",
            help="Write the rankings as a TREC run; of several modes each to its own file: "
            "runs.trec becomes runs.bm25.trec, runs.hybrid-rrf.trec and so on.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE.png",
            help="Draw recall by depth and latency, of each mode. Needs "
            "'pip install \"pytools-hybrid[plot]\"'.",
        ),
    ] = None,
) -> None:
    """Measure on your own queries how well searches find your tools, and what is best there.

    Searches run one after the other, each query once in a mode; the latency is that of the whole
    search, with the embedding of the query.
    """
    from pytools_hybrid import evaluation
    from pytools_hybrid.search import SearchMode

    if mode is not None and all_modes:
        raise SettingsError("--mode / --all-modes", "give one of them")
    settings = _settings(root=root, db_path=db, embedding_model=model)
    asked = evaluation.read_queries(queries, by=by)
    recall_at = evaluation.recall_depths(limit_k)
    compared = evaluation.configurations(settings, SearchMode(mode) if mode else None)
    runs = evaluation.run_paths(run, compared) if run is not None else {}
    database = settings.db_path if db is not None else None
    evaluation.check_outputs(queries=queries, database=database, runs=runs.values(), plot=plot)
    if plot is not None:
        evaluation.require_plotting()
    tools = _existing_root(settings)
    evaluator = evaluation.Evaluator(settings, tools, database=database)
    report = _run(evaluator.evaluate(asked, compared, recall_at=recall_at, by=by))
    if output == "json":
        import json

        typer.echo(json.dumps(evaluation.as_json(report), indent=2))
    else:
        print_lines(evaluation.as_text(report))
    if runs:
        evaluation.write_runs(runs, report.figures)
    if plot is not None:
        title = evaluation.title(report)
        evaluation.write_plot(plot, report.figures, recall_at=recall_at, title=title)
    for file in [*runs.values(), *([plot] if plot is not None else [])]:
        say(f"wrote {file}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors a user can mend end with a sentence, not a traceback."""
    # A caller may have closed them; whoever writes must not fail for it.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    try:
        app(args=arguments)
    except Exception as error:
        from toolindex import ToolIndexError
        from toolrank import ToolRankError

        if not isinstance(error, PytoolsError | ToolIndexError | ToolRankError | OSError):
            raise
        fail(error, status=2 if isinstance(error, SettingsError) else 1)


def serve_settings(settings: Settings) -> None:
    """Serve as settings say, until the client goes or a signal comes; ends the process."""
    from pytools_hybrid.http import check_exposure

    check_exposure(settings)
    tools, note = settings.resolved_root()
    if note:
        say(note)
    if not _is_folder(tools):
        say(f"{tools} does not exist yet; its tools will be found when it does")
    from pytools_hybrid import server

    if settings.transport == "stdio" and sys.stdin.isatty():
        say("speaking MCP over stdin and stdout, for a client that starts this command")
    server.serve(settings, tools)


def _run(job: Coroutine[Any, Any, T]) -> T:
    import asyncio
    import signal

    async def until_interrupted() -> T:
        status = 128 + signal.SIGINT
        task = asyncio.current_task()

        def terminate() -> None:
            nonlocal status
            status = 128 + signal.SIGTERM
            if task is not None:
                task.cancel()

        # Windows' event loop has no signal handlers, nor has any outside of the main thread.
        with suppress(RuntimeError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        try:
            return await job
        except asyncio.CancelledError:
            # Ctrl-C or SIGTERM. A thread may be inside a long scan, and an ordinary exit would
            # wait for it; what the index holds is safe at every moment.
            say("interrupted")
            os._exit(status)

    return asyncio.run(until_interrupted())


def _settings(**flags: Any) -> Settings:  # noqa: ANN401 - each flag has its own type
    from pytools_hybrid.settings import Settings

    settings = Settings.from_flags(flags)
    import logging

    logging.basicConfig(level=settings.log_level, format="%(levelname)s: %(message)s")
    for name, nearest in Settings.unknown_variables().items():
        hint = f"; did you mean {nearest}?" if nearest else ""
        logging.getLogger("pytools_hybrid").warning("%s is no setting%s", name, hint)
    return settings


def _existing_root(settings: Settings) -> Path:
    root, note = settings.resolved_root()
    if not _is_folder(root):
        raise SettingsError(
            "--root", f"{root} does not exist; give the folder that holds the tools"
        )
    if note:
        say(note)
    return root


def _is_folder(root: Path) -> bool:
    """Tell whether the root is there."""
    try:
        mode = root.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise SettingsError("--root", f"{root}: {error.strerror}") from error
    if not stat.S_ISDIR(mode):
        raise SettingsError("--root", f"{root} is a file; give the folder that holds the tools")
    return True


async def _search(
    settings: Settings,
    root: Path,
    query: str,
    *,
    mode: str,
    scope: str,
    categories: list[str] | None,
    tags: list[str] | None,
    limit: int,
    min_confidence: float,
) -> SearchResponse:
    from toolindex import ToolFilter, ToolIndexError

    from pytools_hybrid.search import Scope, SearchMode
    from pytools_hybrid.service import ToolSearch

    async with ToolSearch(root, settings) as tools:
        if settings.sync and not tools.index.read_only:
            # What fails here is told with the answer, where it makes a difference.
            with suppress(ToolIndexError, RootUnreadableError):
                report, embedded = await tools.refresh(), 0
                if tools.uses_vectors(SearchMode(mode)):
                    _, embedded = await _embed(tools, patience=_PATIENCE_SECONDS)
                if report.added or report.updated or report.removed or embedded:
                    print_sync(report, embedded, tools.index.path)
        return await tools.search(
            query,
            mode=SearchMode(mode),
            scope=Scope(scope),
            where=ToolFilter(categories=categories or (), tags=tags or ()),
            limit=limit,
            min_confidence=min_confidence,
        )


async def _index(settings: Settings, root: Path) -> None:
    from pytools_hybrid.service import ToolSearch

    async with ToolSearch(root, settings) as tools:
        report = await tools.refresh()
        failure, embedded = await _embed(tools)
        await tools.tidy()
        print_sync(report, embedded, tools.index.path, with_issues=True)
        for tool_id, reason in (await tools.refused()).items():
            say(f"  no vector for {tool_id}: {reason}")
        if failure is not None:
            raise failure


async def _embed(
    tools: ToolSearch, *, patience: float | None = None
) -> tuple[EmbeddingError | None, int]:
    """Embed what is new; a model that fails is given back, for searches go on without it.

    Args:
        tools: Whose texts.
        patience: How many seconds a model may give no vector before it is not waited for.
    """
    import asyncio

    from toolindex import EmbeddingError

    loop = asyncio.get_running_loop()
    with Progress("embedding") as progress:
        try:
            async with asyncio.timeout(patience) as limit:

                def note(done: int, total: int) -> None:
                    progress(done, total)
                    if patience is not None:
                        limit.reschedule(loop.time() + patience)

                return None, await tools.embed_pending(note)
        except EmbeddingError as error:
            return error, progress.done
        except TimeoutError:
            return None, progress.done
