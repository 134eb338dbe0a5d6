"""The tool of a generated module, without running or importing the module."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from toolimport._manifest import MANIFEST_FILE, Manifest
from toolimport._schemas import as_meant
from toolimport.runtime._runner import ToolRunner

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult

    from toolimport.runtime._questions import Caller

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

    def problems(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what is wrong with some arguments, in at most two sentences."""
        if self.input_schema is None:
            return ()
        from toolimport.runtime._checking import argument_problems

        return argument_problems(self.input_schema, arguments)

    async def call(
        self,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: ProgressFnT | None = None,
        caller: Caller | None = None,
    ) -> CallToolResult:
        """Call the tool on its server, as `ToolRunner.forward` does.

        Raises:
            ToolCallError: It could not be called.
        """
        runner = ToolRunner(self.server, self.servers_file)
        return await runner.forward(
            self.name, arguments, meta=meta, on_progress=on_progress, caller=caller
        )


def imported_tool(module: Path) -> ImportedTool | None:
    """Return the tool of a generated module; None if the module was not generated."""
    file = module.parent / MANIFEST_FILE
    try:
        stat = file.stat()
    except OSError:
        return None
    manifest = read_manifest(file, stat)
    if manifest is None or module.stem not in manifest.tools:
        return None
    found = manifest.definitions.get(module.stem, {})
    schema = found.get("input_schema")
    annotations = found.get("annotations")
    return ImportedTool(
        server=manifest.server,
        name=manifest.tools[module.stem],
        servers_file=Path(manifest.source),
        input_schema=as_meant(cast("dict[str, Any]", schema)) if isinstance(schema, dict) else None,
        annotations=cast("dict[str, bool]", annotations) if isinstance(annotations, dict) else {},
    )


def imported_names(
    root: Path, folders: str = "mcptools/*"
) -> Iterator[tuple[Path, str, Mapping[str, str]]]:
    """Yield the generated folders of a tree, each with its server and tools.

    The tools are the names on the server, by module. `folders` is a pattern of the folders.
    """
    for file in sorted(root.glob(f"{folders}/{MANIFEST_FILE}")):
        with suppress(OSError):
            manifest = read_manifest(file, file.stat())
            if manifest is not None:
                yield file.parent, manifest.server, manifest.tools


def read_manifest(file: Path, stat: os.stat_result) -> Manifest | None:
    """Return the manifest in a file, which is read again only when it has changed."""
    return _manifest(file.parent, stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache(_FOLDERS)
def _manifest(folder: Path, _time: int, _size: int, _number: int) -> Manifest | None:
    return Manifest.read(folder)
