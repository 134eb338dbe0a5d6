"""The servers of a tree's tools, and whether the tools can be called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from toolimport._manifest import MANIFEST_FILE
from toolimport.errors import ServerError
from toolimport.runtime._imported import read_manifest
from toolimport.runtime._runner import ToolRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedServer:
    """An MCP server whose modules are in a tree.

    Attributes:
        name: Its name in the file of servers.
        category: The folder of its modules, below `mcptools`.
        tools: How many tools were imported.
        servers_file: The file that configures it.
        imported_at: When its modules were generated, in seconds since 1970.
        is_connected: Whether this process has a connection to it; the first call opens one.
        problem: Why no connection can be opened, according to its configuration; else "".
    """

    name: str
    category: str
    tools: int
    servers_file: Path
    imported_at: float
    is_connected: bool
    problem: str


def imported_servers(root: Path) -> tuple[ImportedServer, ...]:
    """Return the servers that were imported into a tree, by category.

    Only their configuration is read; none of them is started or contacted.
    """
    found: list[ImportedServer] = []
    for file in sorted(root.glob(f"mcptools/*/{MANIFEST_FILE}")):
        try:
            stat = file.stat()
        except OSError:
            continue
        manifest = read_manifest(file, stat)
        if manifest is None:
            continue
        runner = ToolRunner(manifest.server, manifest.source)
        try:
            runner.check()
            problem = ""
        except ServerError as error:
            problem = error.detail
        found.append(
            ImportedServer(
                name=manifest.server,
                category=file.parent.name,
                tools=len(manifest.tools),
                servers_file=Path(manifest.source),
                imported_at=stat.st_mtime,
                is_connected=runner.is_connected(),
                problem=problem,
            )
        )
    return tuple(found)
