"""From a servers file to packages of tools."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolimport._connect._client import Diagnostics, connected
from toolimport._errors import ServerError, ServersFileError, ToolImportError, refusal
from toolimport._generate._models import require_generator
from toolimport._generate._modules import (
    Tool,
    distinct_names,
    initial_for_mcpygen,
    initial_for_pytools,
    module_source,
)
from toolimport._generate._worker import ModelWorker
from toolimport._imports import ServerReport
from toolimport._package import Manifest, clear_leftovers, digest, remove_package, write_package
from toolimport.clients._secrets import Redactor
from toolimport.clients._servers import full_path, read_servers
from toolimport.clients._shapes import is_ours

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from mcp_types import Tool as ListedTool

    from toolimport._imports import ImportOptions, Stage
    from toolimport.clients._servers import ServerEntry

_AT_ONCE = 4
# Part of each package's state, so that a new version generates it again.
_GENERATION = 3
_MOST_PAGES = 1000
_ABOUT = 2000


@dataclass(eq=False)
class Importer:
    """An import run: what all servers share. The arguments are those of `import_servers`."""

    folder: Path
    options: ImportOptions
    on_stage: Callable[[str, Stage], object]
    on_done: Callable[[ServerReport], Awaitable[object]] | None
    problem_of: Callable[[str], str]

    def __post_init__(self) -> None:
        # A single thread: the generator keeps a processor busy, and caches what it has read.
        self._generator = ThreadPoolExecutor(1, thread_name_prefix="generator")
        self._worker = ModelWorker()
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._reporting = asyncio.Lock()
        self._stopped = threading.Event()
        self._failure: Exception | None = None

    async def run(self, file: Path) -> tuple[ServerReport, ...]:
        """Import the servers in a file."""
        only = self.options.only
        if only and self.options.prune:
            raise ToolImportError(
                "only",
                "names some servers, and prune removes tools of servers that are not in the file; "
                "give only one of them",
            )
        require_generator()
        entries = read_servers(file)
        names = [entry.name for entry in entries]
        if unknown := [name for name in only if name not in names]:
            listed = ", ".join(names) or "none at all"
            raise ToolImportError("only", f"{file} has no server {unknown[0]!r}; it has {listed}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            problem = f"{self.folder} cannot be a folder: a file is there"
            raise ToolImportError("root", problem) from None
        clear_leftovers(self.folder)
        source = str(full_path(file))
        # Existing folders keep their names, which programs import.
        known = {it.server: folder.name for folder, it in self._manifests() if it.source == source}
        categories = distinct_names(names, known)
        asked = [entry for entry in entries if not only or entry.name in only]
        try:
            if any(Manifest.read(self.folder / categories[entry.name]) is None for entry in asked):
                # The generator loads while the servers start.
                self._worker.start()
            jobs = (self._one(entry, categories[entry.name]) for entry in asked)
            # Return exceptions, so that this waits for all servers.
            made = await asyncio.gather(*jobs, return_exceptions=True)
            if unexpected := [it for it in made if isinstance(it, BaseException)]:
                raise unexpected[0]
            reports = [it for it in made if isinstance(it, ServerReport)]
            if not only:
                reports += await self._gone(source, names)
            if self._failure is not None:
                raise self._failure
        finally:
            # Not joined, because an interrupt must not wait until a long list of tools is written.
            self._stopped.set()
            self._generator.shutdown(wait=False, cancel_futures=True)
            self._worker.close()
        return tuple(reports)

    def _manifests(self) -> list[tuple[Path, Manifest]]:
        found = ((it, Manifest.read(it)) for it in sorted(self.folder.iterdir()))
        return [(folder, manifest) for folder, manifest in found if manifest is not None]

    async def _one(self, entry: ServerEntry, category: str) -> ServerReport:
        """Import one server; its errors become part of the report."""
        report = ServerReport(server=entry.name, category=category, status="disabled")
        if entry.disabled:
            known = Manifest.read(self.folder / category)
            if known is not None and known.source == str(entry.file):
                removed = self._removed(report, self.folder / category, known)
                report = removed if removed.error else replace(removed, status="disabled")
        elif reason := (
            entry.skipped
            # It would find itself, and call itself.
            or ("it is pytools-hybrid itself" if is_ours(entry.name, entry.definition) else "")
            or await asyncio.to_thread(self._imported_from, entry)
        ):
            report = replace(report, status="skipped", warnings=(reason,))
        else:
            self.on_stage(entry.name, "waiting")
            async with self._turns:
                started = time.perf_counter()
                report = await self._imported(entry, report)
                report = replace(
                    report, seconds=time.perf_counter() - started, warnings=entry.warnings
                )
        return await self._reported(report)

    def _imported_from(self, entry: ServerEntry) -> str:
        """Return why a server of another import is skipped, or an empty string."""
        for _, known in () if self.options.force else self._manifests():
            if known.source == str(entry.file):
                continue
            other = _entry_of(known)
            if other is not None and not other.disabled and entry.starts_same(other):
                return (
                    f"its tools are already imported, as those of {known.server!r} in {other.file}"
                )
        return ""

    async def _gone(self, source: str, names: Iterable[str]) -> list[ServerReport]:
        """Report packages whose servers are no longer in the file, and remove them if asked to."""
        reports: list[ServerReport] = []
        for folder, manifest in self._manifests():
            if manifest.source != source or manifest.server in names:
                continue
            report = ServerReport(
                server=manifest.server,
                category=folder.name,
                status="gone",
                tools=len(manifest.tools),
            )
            if self.options.prune:
                report = self._removed(report, folder, manifest)
            reports.append(await self._reported(report))
        return reports

    def _removed(self, report: ServerReport, folder: Path, manifest: Manifest) -> ServerReport:
        try:
            written = remove_package(folder, manifest, force=self.options.force)
        except OSError as error:
            problem = f"{folder} cannot be removed: {refusal(error)}"
            return replace(report, status="failed", error=problem)
        return replace(
            report, status="removed", removed=written.removed, kept=written.kept, tools=0
        )

    async def _imported(self, entry: ServerEntry, report: ServerReport) -> ServerReport:
        folder = self.folder / report.category
        try:
            self._check_owner(folder, entry)
            self.on_stage(entry.name, "connecting")
            started = time.monotonic()
            listing = await list_tools(entry, self.options.seconds)
            left = self.options.seconds - (time.monotonic() - started)
            if not listing.tools:
                raise ServerError(entry.name, "lists no tools")
            self.on_stage(entry.name, "generating")
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(
                self._generator, self._written, entry, report, listing, left
            )
        except ServerError as error:
            problem = error.reason
        except OSError as error:
            problem = f"{folder} cannot be written: {refusal(error)}"
        return replace(report, status="failed", error=problem)

    def _written(
        self, entry: ServerEntry, report: ServerReport, listing: Listing, seconds: float
    ) -> ServerReport:
        folder, options = self.folder / report.category, self.options
        known = Manifest.read(folder)
        earlier = {name: module for module, name in known.tools.items()} if known else {}
        modules = distinct_names([it.name for it in listing.tools], earlier)
        switched_off = tuple(it.name for it in listing.tools if not entry.takes(it.name))
        tools = [
            it
            for it in listing.tools
            if it.name not in switched_off
            and options.takes(report.category, it.name, modules[it.name])
        ]
        initial, variables = initial_for_pytools(entry, listing.about), tuple[str, ...]()
        if options.runtime == "mcpygen":
            initial, variables = initial_for_mcpygen(entry, listing.about)
        report = replace(
            report, failed=listing.left_out, switched_off=switched_off, variables=variables
        )
        # Different versions of the generator generate different models.
        generator = version("datamodel-code-generator")
        made_from = [_GENERATION, generator, entry.name, options.runtime, initial]
        state = digest([*made_from, [(modules[tool.name], asdict(tool)) for tool in tools]])
        if known and known.state == state and known.is_whole(folder) and not options.force:
            return replace(report, status="unchanged", tools=len(known.tools))
        try:
            self._worker.load()
        except ValueError as error:
            raise ServerError(entry.name, str(error)) from None
        # A server's time excludes other servers' time, and loading the generator.
        until = time.monotonic() + seconds
        files, failed = {"__init__.py": initial}, dict(listing.left_out)
        notes = {it.name: listing.notes[it.name] for it in tools if it.name in listing.notes}
        made: list[Tool] = []
        for tool in tools:
            self._check()
            try:
                models = self._worker.models(tool, until)
                source = module_source(entry.name, tool, models, options.runtime)
            except ValueError as error:
                failed[tool.name] = str(error)
                continue
            if problem := self.problem_of(source):
                failed[tool.name] = problem
                continue
            made.append(tool)
            files[f"{modules[tool.name]}.py"] = source
            if models.notes:
                texts = (*filter(None, [notes.get(tool.name)]), "; ".join(models.notes))
                notes[tool.name] = "; ".join(dict.fromkeys(texts))
        # If the import was stopped, the package is incomplete.
        self._check()
        manifest = Manifest(
            server=entry.name,
            source=str(entry.file),
            # If a tool was left out, the next import generates the package again.
            state=state if len(made) == len(tools) else "",
            tools={modules[it.name]: it.name for it in made},
            definitions={
                modules[it.name]: {"input_schema": it.input_schema, "annotations": it.annotations}
                for it in made
            },
        )
        written = write_package(folder, files, manifest, force=options.force)
        return replace(
            report,
            status="imported" if known is None else "updated",
            tools=len(manifest.tools),
            added=_modules_of(written.added),
            changed=_modules_of(written.changed),
            removed=_modules_of(written.removed),
            kept=written.kept,
            notes=notes,
            failed=failed,
        )

    def _check(self) -> None:
        if self._stopped.is_set():
            raise ServerError("", "the import was stopped")

    def _check_owner(self, folder: Path, entry: ServerEntry) -> None:
        """Refuse to write to a folder that was not generated from this file."""
        if self.options.force or not folder.exists():
            return
        known = Manifest.read(folder)
        if known is None:
            if any(it.name != "__pycache__" for it in folder.iterdir()):
                raise ServerError(
                    entry.name,
                    f"{folder} was not generated by this command; move it away, or use --force",
                )
        elif known.source != str(entry.file) and _entry_of(known):
            raise ServerError(
                entry.name,
                f"{folder} has the tools of {known.server!r} from {known.source}; rename one of "
                "the servers, or give --force",
            )

    async def _reported(self, report: ServerReport) -> ServerReport:
        if self.on_done is not None:
            async with self._reporting:
                try:
                    await self.on_done(report)
                except Exception as error:  # noqa: BLE001 - raised when all are finished
                    self._failure = self._failure or error
        return report


def _modules_of(files: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.removesuffix(".py") for name in files if name != "__init__.py")


def _entry_of(manifest: Manifest) -> ServerEntry | None:
    """Return the entry of the server of a package; None if its file no longer has one."""
    try:
        entries = read_servers(Path(manifest.source))
    except (ServersFileError, OSError, ValueError):
        return None
    return next((entry for entry in entries if entry.name == manifest.server), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The tools of a server, in its order, with the secrets of its entry redacted.

    Attributes:
        about: The server's description of itself, or an empty string.
        notes: What was simplified, by the tool's name.
        left_out: Why tools were left out, by their place in the list.
    """

    tools: tuple[Tool, ...]
    about: str
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])


async def list_tools(entry: ServerEntry, seconds: float) -> Listing:
    """Connect to a server and ask for its tools, page by page."""
    diagnostics, redactor = Diagnostics(), Redactor(())
    repairs = diagnostics.repairs
    is_late = False
    try:
        parameters = await asyncio.to_thread(entry.parameters)
        redactor = parameters.redactor
        limit = asyncio.timeout(seconds)
        try:
            async with limit, connected(parameters, diagnostics) as client:
                listed: list[ListedTool] = []
                cursor, seen = None, set[str | None]()
                while cursor not in seen:
                    if len(seen) == _MOST_PAGES:
                        problem = f"its list of tools has more than {_MOST_PAGES} pages"
                        raise ServerError(entry.name, problem)
                    seen.add(cursor)
                    page = await client.list_tools(cursor=cursor)
                    listed += page.tools
                    if (cursor := page.next_cursor) is None:
                        break
                info = client.server_info
                described = getattr(info, "description", None) or client.instructions
                about = str(described or getattr(info, "title", None) or "")
        finally:
            is_late = limit.expired()
    except Exception as error:  # noqa: BLE001 - of any library; other servers go on
        if is_late:
            problem = f"did not list its tools within {seconds:g} s"
            if repairs.garbled:
                problem += f"; it wrote something that is not a message: {repairs.garbled}"
            raise diagnostics.explain(TimeoutError(problem), entry.name, redactor) from None
        raise diagnostics.explain(error, entry.name, redactor) from None
    tools = [_tool(tool, redactor) for tool in listed]
    notes = {name: redactor.text(text) for name, text in repairs.notes.items()}
    distinct: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in distinct:
            notes[tool.name] = "it is listed twice; the last one is used"
        distinct[tool.name] = tool
    return Listing(
        tools=tuple(distinct.values()),
        # Cut after redaction, because half a secret would not be found.
        about=cast("str", redactor.listing(about))[:_ABOUT],
        notes=notes,
        left_out=repairs.left_out,
    )


def _tool(tool: ListedTool, redactor: Redactor) -> Tool:
    hints: dict[str, Any] = tool.annotations.model_dump(by_alias=True) if tool.annotations else {}
    cleaned: Any = redactor.listing(
        {
            "description": tool.description or "",
            "title": tool.title or hints.get("title") or "",
            "input_schema": tool.input_schema,
            "output_schema": tool.output_schema,
        }
    )
    annotations = {name: it for name, it in hints.items() if isinstance(it, bool)}
    return Tool(name=tool.name, annotations=annotations, **cleaned)
