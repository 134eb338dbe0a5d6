"""The tools and servers of a generated tree, without running or importing its modules."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolimport._errors import ServerError
from toolimport._package import MANIFEST_FILE, Manifest
from toolimport._schemas import argument_problems, as_meant
from toolimport.runtime._runner import ToolRunner

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult

    from toolimport.runtime._runner import ClientHandlers

_FOLDERS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedTool:
    """A tool of an MCP server, as recorded by the import.

    Attributes:
        server: The server's name.
        name: The tool's name on the server.
        servers_file: The file that names the server.
        input_schema: The schema of its arguments, as the server means it; None after an import by
            an older version, which did not record it.
        annotations: The server's hints on it, such as `readOnlyHint`.
    """

    server: str
    name: str
    servers_file: Path
    input_schema: Mapping[str, Any] | None = None
    annotations: Mapping[str, bool] = field(default_factory=dict[str, bool])

    @classmethod
    def read(cls, module: Path) -> ImportedTool | None:
        """Return the tool of a generated module; None if the module was not generated."""
        file = module.parent / MANIFEST_FILE
        try:
            stat = file.stat()
        except OSError:
            return None
        manifest = _read_manifest(file, stat)
        if manifest is None or module.stem not in manifest.tools:
            return None
        found = manifest.definitions.get(module.stem, {})
        schema, hints = found.get("input_schema"), found.get("annotations")
        return cls(
            server=manifest.server,
            name=manifest.tools[module.stem],
            servers_file=Path(manifest.source),
            input_schema=as_meant(cast("Any", schema)) if isinstance(schema, dict) else None,
            annotations=cast("dict[str, bool]", hints) if isinstance(hints, dict) else {},
        )

    def problems(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what is wrong with some arguments, in at most two sentences."""
        return self.argument_problems(self.input_schema or {}, arguments)

    @staticmethod
    def argument_problems(
        schema: Mapping[str, Any], arguments: Mapping[str, Any]
    ) -> tuple[str, ...]:
        """Return what is wrong with arguments for any schema, in at most two sentences.

        Patterns are ignored, because an untrusted regular expression may take forever. So are
        schemas that are invalid or large.
        """
        return argument_problems(schema, arguments)

    async def call(
        self,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: ProgressFnT | None = None,
        client: ClientHandlers | None = None,
    ) -> CallToolResult:
        """Call the tool on its server, as `ToolRunner.forward` does.

        Raises:
            ToolCallError: It could not be called.
        """
        runner = ToolRunner(self.server, self.servers_file)
        return await runner.forward(
            self.name, arguments, meta=meta, on_progress=on_progress, client=client
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedServer:
    """An MCP server whose modules are in a tree.

    Attributes:
        name: Its name in the file of servers.
        folder: The folder of its modules.
        tools: The names of its tools on the server, by module.
        servers_file: The file that configures it.
        imported_at: When its modules were generated, in seconds since 1970.
    """

    name: str
    folder: Path
    tools: Mapping[str, str]
    servers_file: Path
    imported_at: float

    def is_connected(self) -> bool:
        """Return whether this process has a connection to it; the first call opens one."""
        return ToolRunner(self.name, self.servers_file).is_connected()

    def problem(self) -> str:
        """Return why no connection can be opened, according to its configuration; else ""."""
        try:
            ToolRunner(self.name, self.servers_file).check()
        except ServerError as error:
            return error.reason
        return ""


def imported_servers(root: Path, folders: str = "mcptools/*") -> Iterator[ImportedServer]:
    """Yield the servers that were imported into a tree, by folder; none of them is contacted.

    Args:
        root: The tree.
        folders: A pattern of the servers' folders in it.
    """
    for file in sorted(root.glob(f"{folders}/{MANIFEST_FILE}")):
        with suppress(OSError):
            stat = file.stat()
            manifest = _read_manifest(file, stat)
            if manifest is not None:
                yield ImportedServer(
                    name=manifest.server,
                    folder=file.parent,
                    tools=manifest.tools,
                    servers_file=Path(manifest.source),
                    imported_at=stat.st_mtime,
                )


def _read_manifest(file: Path, stat: os.stat_result) -> Manifest | None:
    """Return the manifest in a file, which is read again only when it has changed."""
    return _manifest(file.parent, stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache(_FOLDERS)
def _manifest(folder: Path, _time: int, _size: int, _number: int) -> Manifest | None:
    return Manifest.read(folder)
