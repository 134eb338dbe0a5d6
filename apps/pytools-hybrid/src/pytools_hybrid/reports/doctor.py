"""The checks of `pytools-hybrid doctor`: what works here and what does not.

::

    for finding in diagnose(checks(settings)):
        print(finding.status, finding.check, finding.message)

Checks change nothing. Each runs in its own thread with a time limit, so that a check that hangs or
crashes becomes a finding, and the others still run.
"""

from __future__ import annotations

import asyncio
import os
import platform
import queue
import shlex
import shutil
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TextIO

from toolembed.providers import current_name

from pytools_hybrid.errors import SettingsError, innermost
from pytools_hybrid.index import configured_embedder
from pytools_hybrid.installation import install_command
from pytools_hybrid.reports.models import called, remedy_of
from pytools_hybrid.settings import fitting_layouts, shown_layouts, why_unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from toolindex import ToolIndex
    from toolscan import ScanIssue

    from pytools_hybrid.settings import Roots, Settings

_OURS = ("pytools-hybrid", "toolscan", "toolindex", "toolrank-hybrid", "toolwatch")
_SHOW_SETTINGS = "pytools-hybrid config"
_SHOWN_ISSUES = 3
_FREE_BYTES = 200 << 20
_LEASE = "files"
_LEASE_SECONDS = 5.0
_OTHER_PATH = "give another path with --database"
_PROGRAM = (sys.executable, "-m", "pytools_hybrid")
# The server has an empty index. It does not fill it.
_SERVER_VARIABLES = {
    "PYTOOLS_SYNC": "false",
    "PYTOOLS_WATCH": "false",
    "PYTOOLS_USAGE_LOG": "false",
}
_SERVER_SECONDS = 45.0
_SLOW_SECONDS = 120.0
_SERVER_OUTPUT = 400
_GENERATOR = "datamodel_code_generator"


class Status(StrEnum):
    """The status of a finding."""

    OK = "ok"
    WARNING = "warning"
    """Searches work, but could be better or more up to date."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        remedy: The command that fixes it, or another remedy; None if nothing is needed.
        check: The name of the check.
        seconds: How long it took.
        is_overdue: Whether it took too long, and may still be running.
    """

    status: Status
    message: str
    remedy: str | None = None
    check: str = ""
    seconds: float = 0.0
    is_overdue: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """A check.

    Attributes:
        run: Runs the check; an exception counts as a failure.
        seconds: The time limit.
        is_quick: Whether it takes milliseconds, without network requests.
    """

    name: str
    run: Callable[[], Finding]
    seconds: float = 60.0
    is_quick: bool = False


_ok = partial(Finding, Status.OK)
_warning = partial(Finding, Status.WARNING)
_failed = partial(Finding, Status.FAILED)
_reinstalling = partial(install_command, again=True)


def checks(
    settings: Settings | SettingsError, *, settings_file: Path | None = None
) -> tuple[Check, ...]:
    """Return the checks for some settings; for an error, those that need no settings.

    Each only relies on earlier ones.
    """
    installation = (
        Check("Python", _python, is_quick=True),
        Check("SQLite", _full_text_search, is_quick=True),
        Check("sqlite-vec", _vector_search, is_quick=True),
        Check("settings", partial(_settings, settings), is_quick=True),
    )
    if isinstance(settings, SettingsError):
        return (*installation, Check("watcher", partial(_watcher, (), is_wanted=True)))
    try:
        roots, note = settings.resolved_root()
        trees = _Trees(settings, roots, settings.resolved_database(roots))
    except SettingsError as error:
        remedy = "pytools-hybrid doctor --root FOLDER"
        return (
            *installation,
            Check("root", partial(_failed, str(error), remedy)),
            Check("embedder", partial(_embedder, settings, None), _SLOW_SECONDS),
            Check("watcher", partial(_watcher, (), is_wanted=settings.watch)),
        )
    # If this host only reads a shared index, the files are on other hosts.
    here = () if settings.only_reads else roots.paths
    why = " (no --root or PYTOOLS_DIR given)" if note is not None else ""
    found = [
        Check(
            f"root {number}" if len(here) > 1 else "root",
            partial(_root, trees, root, why),
            _SLOW_SECONDS,
        )
        for number, root in enumerate(here, 1)
    ]
    database = _database if settings.server is None else _server_of_database
    found.append(Check("database", partial(database, trees)))
    found.append(Check("embedder", partial(_embedder, settings, trees), _SLOW_SECONDS))
    if settings.rerank_model is not None:
        found.append(Check("reranking", partial(_reranking, settings.rerank_model)))
    if here:
        found.append(Check("watcher", partial(_watcher, here, is_wanted=settings.watch)))
    found.append(Check("MCP server", partial(_mcp_server, trees, settings_file)))
    return (*installation, *found, Check("import", _importing, is_quick=True))


def diagnose(checks: Iterable[Check]) -> Iterator[Finding]:
    """Run checks one after the other, so that none disturbs another's measurements.

    Yields:
        The finding of each check when it ends. A check that takes too long is left running in its
        thread, which does not prevent the process from exiting.
    """
    for check in checks:
        started = time.perf_counter()
        finding = _run(check)
        yield replace(finding, check=check.name, seconds=time.perf_counter() - started)


def _run(check: Check) -> Finding:
    answer: queue.SimpleQueue[Finding] = queue.SimpleQueue()

    def run() -> None:
        try:
            answer.put(check.run())
        except BaseException as error:  # noqa: BLE001 - the others go on
            # The message of an exception group does not say what went wrong; its first error does.
            error = innermost(error)
            text = _first_line(error)
            answer.put(_failed(f"{type(error).__name__}: {text}" if text else type(error).__name__))

    threading.Thread(target=run, name=f"check {check.name}", daemon=True).start()
    try:
        return answer.get(timeout=check.seconds)
    except queue.Empty:
        return Finding(Status.FAILED, f"no answer within {check.seconds:g} s", is_overdue=True)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


@dataclass(frozen=True, slots=True)
class _Trees:
    """The trees to check, and their index."""

    settings: Settings
    roots: Roots
    database: Path

    @property
    def flags(self) -> list[str]:
        return [part for root in self.roots for part in ("--root", str(root))]

    @property
    def index_command(self) -> str:
        """The command that brings the index up to date."""
        flags = self.flags
        if self.settings.database is not None:
            flags += ["--database", str(self.settings.database)]
        # The command uses the same variables and settings file, so only flags are repeated.
        if self.settings.origins.get("embedding_model", "").startswith("--"):
            flags += ["--model", self.settings.embedding_model]
        return shlex.join(["pytools-hybrid", "index", *flags])


def _python() -> Finding:
    versions = ", ".join(f"{name} {version(name)}" for name in _OURS)
    return _ok(f"{platform.python_version()} at {sys.executable}, {versions}")


def _full_text_search() -> Finding:
    import apsw

    try:
        with closing(apsw.Connection(":memory:")) as connection:
            connection.execute("CREATE VIRTUAL TABLE words USING fts5(text, tokenize='porter')")
    except apsw.Error as error:
        return _failed(f"full-text search (FTS5) does not work ({error})", _reinstalling("apsw"))
    return _ok(f"{apsw.sqlite_lib_version()} (apsw's own), with full-text search (FTS5)")


def _vector_search() -> Finding:
    import apsw
    from toolindex import ToolIndex

    from pytools_hybrid.index import has_numpy

    with closing(apsw.Connection(":memory:")) as connection:
        problem = ToolIndex.load_sqlite_vec(connection)
        if not problem:
            return _ok(connection.execute("SELECT vec_version()").get)
    packages, what = ["sqlite-vec"], f"cannot be loaded ({problem})"
    if find_spec("sqlite_vec") is None:
        # It is required wherever it is published.
        packages, what = [], "is not published for this system"
    if has_numpy():
        remedy = _reinstalling(*packages) if packages else None
        return _warning(f"{what}; numpy searches vectors instead", remedy)
    return _failed(
        f"{what}, and numpy cannot be imported: searches use words alone",
        _reinstalling(*packages, "numpy"),
    )


def _settings(settings: Settings | SettingsError) -> Finding:
    """Check the settings, without showing their values, because one of them is a token."""
    if isinstance(settings, SettingsError):
        return _failed(str(settings), f"change or remove {settings.setting}")
    if unknown := type(settings).unknown_variables():
        names = [
            f"{name} is not a setting" + (f" (is {nearest} meant?)" if nearest else "")
            for name, nearest in unknown.items()
        ]
        return _warning("; ".join(names), f"unset {' '.join(unknown)}")
    if not settings.origins:
        return _ok(f"none is set: all defaults ({_SHOW_SETTINGS} shows them)")
    origins = ", ".join(f"{name} ({origin})" for name, origin in settings.origins.items())
    return _ok(f"{origins} ({_SHOW_SETTINGS} shows all)")


def _root(trees: _Trees, root: Path, why: str) -> Finding:
    """Check one tree by scanning it."""
    from toolscan import ToolScanError, scan

    shown, layouts = f"{root}{why}", trees.roots.layouts
    # If a parent folder cannot be entered, os.path returns False, while pathlib raises.
    if os.path.exists(root) and not os.path.isdir(root):  # noqa: PTH110, PTH112
        return _failed(f"{root} is a file", "give the folder that contains the tools with --root")
    try:
        os.listdir(root)  # noqa: PTH208 - the scan takes what it cannot list for empty
        report = scan(root, layouts=layouts, outside_links=trees.settings.outside_links)
    except (FileNotFoundError, NotADirectoryError):
        return _failed(
            f"{root} does not exist",
            f"mkdir -p {quote(str(root))}, or give another folder with --root",
        )
    except (ToolScanError, PermissionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return _failed(f"{root} cannot be read ({reason})", f"chmod -R u+rX {quote(str(root))}")
    except OSError as error:
        return _failed(
            f"{root} cannot be read ({error.strerror})", "give another folder with --root"
        )
    # Files whose names begin with an underscore are left out on purpose.
    issues = [issue for issue in report.issues if issue.reason != "private"]
    if not report.records:
        remedy = "pytools-hybrid import servers.json"
        if issues:
            remedy = trees.index_command
        elif fitting := fitting_layouts(root):
            remedy = f"PYTOOLS_LAYOUTS={fitting} pytools-hybrid doctor --root {quote(str(root))}"
        left_out = f" ({_reasons(issues)})" if issues else ""
        return _warning(f"{shown}: no tools{left_out}; looked for {shown_layouts(layouts)}", remedy)
    shown = f"{shown}: {len(report.records)} tools"
    if problem := _capabilities_problem(root):
        return _warning(
            f"{shown}; {problem} (its previous content still applies)",
            f"fix that line, then run: {trees.index_command}",
        )
    if issues:
        return _warning(
            f"{shown}; {len(issues)} left out ({_reasons(issues)})", trees.index_command
        )
    return _ok(shown)


def _capabilities_problem(root: Path) -> str:
    from pytools_hybrid.index import FILE_NAME, CapabilitiesError, parse_capabilities, read_text

    path = root / FILE_NAME
    try:
        parse_capabilities(read_text(path), path)
    except CapabilitiesError as error:
        return str(error)
    return ""


def _reasons(issues: list[ScanIssue]) -> str:
    """Summarize why files are left out: for each reason, the number of files and the first one."""
    counts = Counter(str(issue.reason) for issue in issues)
    reasons = ", ".join(f"{count} × {reason}" for reason, count in counts.most_common())
    first = "; ".join(f"{issue.path}: {issue.detail}" for issue in issues[:_SHOWN_ISSUES])
    return f"{reasons}: {first}"


def _database(trees: _Trees) -> Finding:
    """Check the index, which is opened read-only."""
    from toolindex import (
        DamagedDatabaseError,
        DatabaseError,
        ForeignDatabaseError,
        NewerSchemaError,
        ToolIndex,
    )

    from pytools_hybrid.index import is_freeact_database

    database, command = trees.database, trees.index_command
    if not os.path.lexists(database):
        # If a parent folder cannot be entered, os.path returns False, while pathlib raises.
        parents = database.absolute().parents
        folder = next(it for it in parents if os.path.exists(it))  # noqa: PTH110
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            return _failed(
                f"{database} does not exist, and {folder} cannot be written", _OTHER_PATH
            )
        if low := _lacks_space(folder):
            return _failed(f"{database} does not exist yet, and {low}", "free some disk space")
        return _warning(f"{database} does not exist yet", command)
    if is_freeact_database(database):
        return _warning(
            f"{database} is the index of freeact's own search; it will be renamed when ours is "
            "created",
            command,
        )
    try:
        with ToolIndex(database, read_only=True) as index:
            index.bind(os.fsencode(trees.roots.identity).decode("utf-8", "backslashreplace"))
            return _opened(index, database, command)
    except ForeignDatabaseError as error:
        return _failed(str(error), _OTHER_PATH)
    except NewerSchemaError as error:
        return _failed(str(error), install_command("pytools-hybrid", upgrade=True))
    except DamagedDatabaseError as error:
        return _failed(f"{error} (indexing renames it, and rebuilds or restores it)", command)
    except DatabaseError as error:
        return _failed(str(error), f"ls -l {quote(str(database))}")


def _opened(index: ToolIndex, database: Path, command: str) -> Finding:
    with index.reading() as reader:
        problem = reader.connection.execute("PRAGMA quick_check(1)").get
        if problem != "ok":
            return _failed(f"{database} is damaged ({problem})", command)
        if index.durable_problem:
            return _failed(index.durable_problem, command)
        tools = reader.coverage("").tools
        schema = reader.connection.pragma("user_version")
        is_complete = reader.is_complete()
    size = database.stat().st_size / 1e6
    shown = f"{database}: {tools} tools, {size:.1f} MB, schema {schema}, intact"
    if not is_complete:
        return _warning(f"{shown}; not all files have been indexed yet", command)
    # SQLite writes a log beside the file.
    if not (os.access(database, os.W_OK) and os.access(database.resolve().parent, os.W_OK)):
        return _warning(
            f"{shown}; it cannot be written, so searches use it without updates",
            f"chmod u+w {quote(str(database))}",
        )
    if low := _lacks_space(database.parent):
        return _warning(f"{shown}; {low}", "free some disk space")
    # Without a lock file, no process has the lease; a check must not create one.
    if database.with_name(f"{database.name}-{_LEASE}.lock").exists():
        lease = index.lease(_LEASE)
        if not lease.acquire(timeout=_LEASE_SECONDS):
            return _warning(
                f"{shown}; another process has been updating it for {_LEASE_SECONDS:g} s",
                "wait for that process, or stop it",
            )
        lease.release()
    return _ok(f"{shown}, can be written, free")


def _lacks_space(folder: Path) -> str:
    free = shutil.disk_usage(folder).free
    return f"only {free / 1e6:.0f} MB of disk space are free" if free < _FREE_BYTES else ""


def _server_of_database(trees: _Trees) -> Finding:
    try:
        server = trees.settings.resolved_server(trees.roots)
    except SettingsError as error:
        return _failed(str(error))
    assert server is not None  # noqa: S101 - the caller has checked
    with server.database() as database:
        status, message, remedy = database.diagnose(server.tree)
    index = "pytools-hybrid index"
    where = " on a host that has the tools"
    if not trees.settings.only_reads:
        index, where = trees.index_command, ""
    run = "run " if where else ""
    remedies = {
        "connect": f"psql {quote(server.shown)} -c 'SELECT 1'",
        "init": "pytools-hybrid database init",
        "upgrade": install_command("pytools-hybrid[postgres]", upgrade=True),
        "index": f"{run}{index}{where}",
        "repair": f"{run}{index} --check{where}",
    }
    return Finding(Status(status), message, remedies.get(remedy))


def _embedder(settings: Settings, trees: _Trees | None) -> Finding:
    """Check the model with a real call, and how many tools have its vectors."""
    from toolembed import EmbeddingError
    from toolindex import ToolIndex, ToolIndexError

    embedder = configured_embedder(settings)
    if embedder is None:
        return _ok("none is configured: searches use words alone")
    if settings.vec_weight == 0:
        return _ok(f"{settings.embedding_model} is not used: PYTOOLS_VEC_WEIGHT is 0")
    try:
        dimensions, milliseconds = called(embedder)
    except EmbeddingError as error:
        return _failed(
            f"{error} (searches use static meanwhile)",
            remedy_of(error.reason, model=settings.embedding_model),
        )
    model_id = embedder.model_id
    shown = (
        f"{model_id} answers: {dimensions} dimensions in {milliseconds:.0f} ms, including loading"
    )
    if trees is None or not trees.database.is_file():
        return _ok(shown)
    try:
        with ToolIndex(trees.database, read_only=True) as index, index.reading() as reader:
            coverage = reader.coverage(model_id)
    except ToolIndexError:
        # The check of the database reports it.
        return _ok(shown)
    if coverage.vectors and coverage.dimensions != dimensions:
        return _warning(
            f"{shown}; the {coverage.vectors} vectors in the index have {coverage.dimensions}, so "
            f"searches use static until all tools are embedded again",
            trees.index_command,
        )
    shown += f"; {coverage.vectors} of {coverage.tools} tools have a vector"
    if coverage.vectors < coverage.tools:
        return _warning(shown, trees.index_command)
    return _ok(shown)


def _reranking(model: str) -> Finding:
    """Check that the language model can be loaded; a call might cost money."""
    from toolrank import ToolRankError
    from toolrank.rerank import LLMReranker

    try:
        LLMReranker(current_name(model))
    except ToolRankError as error:
        problem = why_unusable(model, error)
        return _failed(f"{model} cannot be used ({problem})", remedy_of(problem, model=model))
    return _ok(f"{model} can be loaded; it was not called")


def _watcher(roots: Iterable[Path], *, is_wanted: bool) -> Finding:
    """Check that the system reports changes in the trees, without writing to them."""
    from toolwatch import watch_tools

    if not is_wanted:
        return _ok("turned off (PYTOOLS_WATCH): a server only updates the index when it starts")
    polled: list[str] = []
    for root in roots:
        if root.is_dir():
            with closing(watch_tools(root)) as batches:
                polled += [str(root)] if next(batches).polling else []
    if polled:
        return _warning(
            f"the system cannot watch {', '.join(polled)}; changes are found by polling, within a "
            "second, or later in large trees",
            "sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=512",
        )
    return _ok("the system reports changes")


def _mcp_server(trees: _Trees, settings_file: Path | None) -> Finding:
    """Start the server over stdio, as a client does, with an empty index, and call it."""
    variables = dict(_SERVER_VARIABLES)
    if settings_file is not None:
        variables["PYTOOLS_CONFIG"] = str(settings_file)
    with (
        TemporaryDirectory(prefix="pytools-doctor-") as folder,
        Path(folder, "stderr").open("w+", encoding="utf-8", errors="replace") as errors,
    ):
        flags = ["--database", str(Path(folder, "index.db"))]
        flags += ["--model", trees.settings.embedding_model, "--transport", "stdio"]
        command = [*_PROGRAM, "serve", *trees.flags, *flags]
        started = time.perf_counter()
        try:
            names = asyncio.run(_served(command, variables, errors))
        except Exception as raised:  # noqa: BLE001 - the client raises groups of what it meets
            error = innermost(raised)
            why = _first_line(error) or type(error).__name__
            if isinstance(error, TimeoutError):
                why = f"within {_SERVER_SECONDS:g} s"
            errors.seek(0)
            output = " ".join(errors.read().split())[-_SERVER_OUTPUT:]
            said = f"; its last output: {output}" if output else ""
            remedy = shlex.join(["pytools-hybrid", "serve", *trees.flags])
            return _failed(f"no answer ({why}){said}", remedy)
    seconds = time.perf_counter() - started
    return _ok(
        f"starts and answers in {seconds:.1f} s: {len(names)} MCP tools ({', '.join(names)})"
    )


async def _served(command: list[str], variables: dict[str, str], errors: TextIO) -> list[str]:
    """Return the names of the server's MCP tools, after a search by words alone."""
    import anyio
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    parameters = StdioServerParameters(
        command=command[0], args=command[1:], env=os.environ | variables
    )
    # With asyncio's time-out instead of anyio's, the client would not stop the process.
    with anyio.fail_after(_SERVER_SECONDS):
        async with Client(stdio_client(parameters, errlog=errors)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            if "search_tools" in names:
                query = {"query": "anything", "mode": "bm25"}
                if (await client.call_tool("search_tools", query)).is_error:
                    raise RuntimeError("a search failed")
            return names


def _importing() -> Finding:
    if find_spec(_GENERATOR) is None:
        return _ok(
            "not installed; only `pytools-hybrid import` needs it: "
            + install_command("pytools-hybrid[import]")
        )
    return _ok("MCP servers can be imported")
