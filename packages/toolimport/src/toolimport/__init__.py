"""MCP servers as Python tools: a module for each tool, and the runtime that these modules call.

::

    reports = await import_servers(Path("mcp.json"), Path("tools"), ImportOptions())

reads any client's configuration file, asks each server for its tools, and writes
`tools/mcptools/<server>/<tool>.py`. A generated module calls its server through
`toolimport.runtime`, and needs nothing else from this package.
"""

from typing import TYPE_CHECKING

from toolimport.errors import (
    GeneratorMissingError,
    OptionError,
    ServerError,
    ServersFileError,
    ToolCallError,
    ToolImportError,
)

if TYPE_CHECKING:
    from toolimport.generate import ImportOptions, ServerReport, import_servers
else:
    # Imported on first use, because generated modules only need the runtime.
    def __getattr__(name: str) -> object:
        if name not in _GENERATE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from toolimport import generate

        value = globals()[name] = getattr(generate, name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_GENERATE})


__all__ = [
    "GeneratorMissingError",
    "ImportOptions",
    "OptionError",
    "ServerError",
    "ServerReport",
    "ServersFileError",
    "ToolCallError",
    "ToolImportError",
    "import_servers",
]

_GENERATE = ("ImportOptions", "ServerReport", "import_servers")
