"""From a servers file to packages of tools."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from toolimport._manifest import Manifest
from toolimport._reasons import refusal
from toolimport.connect import full_path, read_servers
from toolimport.errors import OptionError, ServerError, ServersFileError
from toolimport.generate._clients import initial_for_mcpygen, initial_for_pytools
from toolimport.generate._listing import Listing, list_tools
from toolimport.generate._models import Models, generator_version, require_generator
from toolimport.generate._modules import Runtime, Tool, package_of
from toolimport.generate._names import distinct_names
from toolimport.generate._report import ServerReport
from toolimport.generate._worker import ModelWorker
from toolimport.generate._writing import (
    clear_leftovers,
    digest,
    remove_package,
    write_package,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from toolimport.connect import ServerEntry
    from toolimport.generate._options import ImportOptions

Stage = Literal["waiting", "connecting", "generating"]

_AT_ONCE = 4
# Part of each package's state, so that a new version generates it again.
_GENERATION = 3


async def import_servers(
    file: Path,
    root: Path,
    options: ImportOptions,
    *,
    on_stage: Callable[[str, Stage], object] = lambda _server, _stage: None,
    on_done: Callable[[ServerReport], Awaitable[object]] | None = None,
    problem_of: Callable[[str], str] = lambda _source: "",
    reason_to_skip: Callable[[ServerEntry], str] = lambda _entry: "",
) -> tuple[ServerReport, ...]:
    """Import the servers in a file, a few at a time; a failure does not stop the others.

    Args:
        file: The file.
        root: The tree of tools, created if it does not exist.
        options: What to import, and how.
        on_stage: Called with the current step for each server.
        on_done: Called for each server when it is finished, one at a time. An error that it raises
            stops no server, and is raised when all are finished.
        problem_of: Returns why the source of a module cannot be used, so that its tool is left out
            for that reason; empty if it can be used.
        reason_to_skip: Returns why a server is left alone; empty if it is imported.

    Returns:
        A report for each server in the file's order, followed by servers no longer in it.

    Raises:
        ServersFileError: The file cannot be used.
        OptionError: `only` has an unknown name or is combined with `prune`, or the root cannot be a
            folder.
        GeneratorMissingError: The extra `generate` is not installed.
        OSError: The tree cannot be written.
    """
    # Imported now, so that it does not count against a server's time.
    import mcp.client.client  # noqa: F401

    if options.only and options.prune:
        raise OptionError(
            "only",
            "names some servers, and prune removes tools of servers that are not in the file; "
            "give only one of them",
        )
    require_generator()
    entries = read_servers(file)
    _check_names(file, entries, options.only)
    folder = root / "mcptools"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise OptionError("root", f"{folder} cannot be a folder: a file is there") from None
    clear_leftovers(folder)
    categories = distinct_names([entry.name for entry in entries], _given(folder, file))
    asked = [entry for entry in entries if not options.only or entry.name in options.only]
    # A single thread: the generator keeps a processor busy, and caches what it has read.
    generator = ThreadPoolExecutor(1, thread_name_prefix="generator")
    worker = ModelWorker()
    work = _Work(folder, options, generator, worker, on_stage, on_done, problem_of, reason_to_skip)
    try:
        if any(Manifest.read(folder / categories[entry.name]) is None for entry in asked):
            # The generator loads while the servers start.
            worker.start()
        jobs = (work.one(entry, categories[entry.name]) for entry in asked)
        # Return exceptions, so that this waits for all servers.
        made = await asyncio.gather(*jobs, return_exceptions=True)
        if unexpected := [it for it in made if isinstance(it, BaseException)]:
            raise unexpected[0]
        reports = [it for it in made if isinstance(it, ServerReport)]
        if not options.only:
            names = {entry.name for entry in entries}
            reports += await work.gone(full_path(file), names)
        if work.untold is not None:
            raise work.untold
    finally:
        # Not joined, because an interrupt must not wait until a long list of tools is written.
        work.stopped.set()
        generator.shutdown(wait=False, cancel_futures=True)
        worker.close()
    return tuple(reports)


class _Work:
    """An import run: what all servers share."""

    def __init__(
        self,
        folder: Path,
        options: ImportOptions,
        generator: ThreadPoolExecutor,
        worker: ModelWorker,
        on_stage: Callable[[str, Stage], object],
        on_done: Callable[[ServerReport], Awaitable[object]] | None,
        problem_of: Callable[[str], str],
        reason_to_skip: Callable[[ServerEntry], str],
    ) -> None:
        self._folder = folder
        self._options = options
        self._generator = generator
        self._worker = worker
        self._on_stage = on_stage
        self._on_done = on_done
        self._problem_of = problem_of
        self._reason_to_skip = reason_to_skip
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._telling = asyncio.Lock()
        self.stopped = threading.Event()
        self.untold: Exception | None = None

    async def one(self, entry: ServerEntry, category: str) -> ServerReport:
        """Import one server; its errors become part of the report."""
        if entry.disabled:
            report = ServerReport(server=entry.name, category=category, status="disabled")
            known = Manifest.read(self._folder / category)
            if known is not None and known.source == str(entry.file):
                removed = self._removed(report, self._folder / category, known)
                report = removed if removed.error else replace(removed, status="disabled")
        elif reason := (
            entry.skipped
            or self._reason_to_skip(entry)
            or await asyncio.to_thread(self._imported_from, entry)
        ):
            report = ServerReport(
                server=entry.name, category=category, status="skipped", warnings=(reason,)
            )
        else:
            self._on_stage(entry.name, "waiting")
            async with self._turns:
                started = time.perf_counter()
                report = await self._imported(entry, category)
                report = replace(
                    report, seconds=time.perf_counter() - started, warnings=entry.warnings
                )
        await self._tell(report)
        return report

    def _imported_from(self, entry: ServerEntry) -> str:
        """Return why a server of another import is skipped, or an empty string."""
        if self._options.force:
            return ""
        for folder in self._folder.iterdir():
            known = Manifest.read(folder)
            if known is None or known.source == str(entry.file):
                continue
            other = _entry_of(Path(known.source), known.server)
            if other is not None and not other.disabled and entry.starts_same(other):
                return (
                    f"its tools are already imported, as those of {known.server!r} in {other.file}"
                )
        return ""

    async def gone(self, file: Path, names: set[str]) -> list[ServerReport]:
        """Report packages whose servers are no longer in the file, and remove them if asked to."""
        reports: list[ServerReport] = []
        for folder in sorted(self._folder.iterdir()):
            manifest = Manifest.read(folder)
            if manifest is None or manifest.source != str(file) or manifest.server in names:
                continue
            report = ServerReport(
                server=manifest.server,
                category=folder.name,
                status="gone",
                tools=len(manifest.tools),
            )
            if self._options.prune:
                report = self._removed(report, folder, manifest)
            reports.append(report)
            await self._tell(report)
        return reports

    def _removed(self, report: ServerReport, folder: Path, manifest: Manifest) -> ServerReport:
        try:
            written = remove_package(folder, manifest, force=self._options.force)
        except OSError as error:
            problem = f"{folder} cannot be removed: {refusal(error)}"
            return replace(report, status="failed", error=problem)
        return replace(
            report, status="removed", removed=written.removed, kept=written.kept, tools=0
        )

    async def _imported(self, entry: ServerEntry, category: str) -> ServerReport:
        folder = self._folder / category
        try:
            self._check_owner(folder, entry)
            self._on_stage(entry.name, "connecting")
            started = time.monotonic()
            listing = await list_tools(entry, self._options.seconds)
            left = self._options.seconds - (time.monotonic() - started)
            if not listing.tools:
                raise ServerError(entry.name, "lists no tools")
            self._on_stage(entry.name, "generating")
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(
                self._generator, self._written, entry, category, listing, left
            )
        except ServerError as error:
            problem = error.detail
        except OSError as error:
            problem = f"{folder} cannot be written: {refusal(error)}"
        return ServerReport(server=entry.name, category=category, status="failed", error=problem)

    def _written(
        self, entry: ServerEntry, category: str, listing: Listing, seconds: float
    ) -> ServerReport:
        options, folder = self._options, self._folder / category
        known = Manifest.read(folder)
        given = {tool: module for module, tool in known.tools.items()} if known else {}
        modules = distinct_names([tool.name for tool in listing.tools], given)
        switched_off = tuple(it.name for it in listing.tools if not entry.takes(it.name))
        tools = [
            it
            for it in listing.tools
            if it.name not in switched_off and options.takes(category, it.name, modules[it.name])
        ]
        initial, variables = _initial(entry, listing.about, options.runtime)
        state = _state(entry.name, tools, modules, initial, options.runtime)
        if known and known.state == state and known.is_whole(folder) and not options.force:
            return ServerReport(
                server=entry.name,
                category=category,
                status="unchanged",
                tools=len(known.tools),
                failed=listing.left_out,
                switched_off=switched_off,
                variables=variables,
            )
        try:
            self._worker.load()
        except ValueError as error:
            raise ServerError(entry.name, str(error)) from None
        # A server's time excludes other servers' time, and loading the generator.
        until = time.monotonic() + seconds

        def models(tool: Tool) -> Models:
            self._check()
            return self._worker.models(tool, until)

        package = package_of(
            entry.name,
            tools,
            modules,
            initial,
            options.runtime,
            models=models,
            problem_of=self._problem_of,
        )
        # If the import was stopped, the package is incomplete.
        self._check()
        made = [it for it in tools if it.name not in package.failed]
        manifest = Manifest(
            server=entry.name,
            source=str(entry.file),
            # If a tool was left out, the next import generates the package again.
            state="" if package.failed else state,
            tools={modules[it.name]: it.name for it in made},
            definitions={
                modules[it.name]: {
                    "input_schema": it.input_schema,
                    "annotations": it.annotations,
                }
                for it in made
            },
        )
        written = write_package(folder, package.files, manifest, force=options.force)
        return ServerReport(
            server=entry.name,
            category=category,
            status="imported" if known is None else "updated",
            tools=len(manifest.tools),
            added=_modules_of(written.added),
            changed=_modules_of(written.changed),
            removed=_modules_of(written.removed),
            kept=written.kept,
            notes=_joined(listing.notes, package.notes, {tool.name for tool in tools}),
            failed={**listing.left_out, **package.failed},
            switched_off=switched_off,
            variables=variables,
        )

    def _check(self) -> None:
        if self.stopped.is_set():
            raise ServerError("", "the import was stopped")

    def _check_owner(self, folder: Path, entry: ServerEntry) -> None:
        """Refuse to write to a folder that was not generated from this file."""
        if self._options.force or not folder.exists():
            return
        known = Manifest.read(folder)
        if known is None:
            if any(it.name != "__pycache__" for it in folder.iterdir()):
                raise ServerError(
                    entry.name,
                    f"{folder} was not generated by this command; move it away, or use --force",
                )
        elif known.source != str(entry.file) and _entry_of(Path(known.source), known.server):
            raise ServerError(
                entry.name,
                f"{folder} has the tools of {known.server!r} from {known.source}; rename one of "
                "the servers, or give --force",
            )

    async def _tell(self, report: ServerReport) -> None:
        if self._on_done is not None:
            async with self._telling:
                try:
                    await self._on_done(report)
                except Exception as error:  # noqa: BLE001 - raised when all are finished
                    self.untold = self.untold or error


def _check_names(file: Path, entries: Iterable[ServerEntry], only: Iterable[str]) -> None:
    names = [entry.name for entry in entries]
    if unknown := [name for name in only if name not in names]:
        listed = ", ".join(names) or "none at all"
        raise OptionError("only", f"{file} has no server {unknown[0]!r}; it has {listed}")


def _initial(entry: ServerEntry, about: str, runtime: Runtime) -> tuple[str, tuple[str, ...]]:
    if runtime == "mcpygen":
        return initial_for_mcpygen(entry, about)
    return initial_for_pytools(entry, about), ()


def _state(
    server: str, tools: list[Tool], modules: dict[str, str], initial: str, runtime: Runtime
) -> str:
    made_from = [_GENERATION, generator_version(), server, runtime, initial]
    return digest([*made_from, [(modules[tool.name], asdict(tool)) for tool in tools]])


def _given(folder: Path, file: Path) -> dict[str, str]:
    """Return the existing folders of a file's servers, whose names programs import."""
    manifests = ((Manifest.read(it), it.name) for it in sorted(folder.iterdir()))
    source = str(full_path(file))
    return {found.server: name for found, name in manifests if found and found.source == source}


def _joined(
    listed: Mapping[str, str], made: Mapping[str, str], tools: Collection[str]
) -> dict[str, str]:
    """Return the notes on imported tools, without duplicates."""
    names = [name for name in {**listed, **made} if name in tools]
    both = {name: [it[name] for it in (listed, made) if name in it] for name in names}
    return {name: "; ".join(dict.fromkeys(texts)) for name, texts in both.items()}


def _modules_of(files: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.removesuffix(".py") for name in files if name != "__init__.py")


def _entry_of(file: Path, server: str) -> ServerEntry | None:
    try:
        entries = read_servers(file)
    except (ServersFileError, OSError, ValueError):
        return None
    return next((entry for entry in entries if entry.name == server), None)
