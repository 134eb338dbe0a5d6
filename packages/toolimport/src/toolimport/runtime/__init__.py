"""The runtime of generated tools: each call goes to the tool's MCP server.

Every generated package has a `ToolRunner`, to which every generated `run` passes its parameters::

    from mcptools.time.get_current_time import Params, run

    run(Params(timezone="Europe/Vienna"))

In an event loop, `await run_async(…)` does the same without blocking other tasks.

A program can also call the tool of a generated module without importing it, and gets the server's
own answer::

    tool = imported_tool(Path("tools/mcptools/time/get_current_time.py"))
    result = await tool.call({"timezone": "Europe/Vienna"})

The server is started, or connected to, at the first call. The connection is shared by later calls
from any thread, and ends with the interpreter. Its parameters are read from the configuration file
when needed, so that secrets are never copied. A call that fails raises `ToolCallError`. If only a
part of an answer is invalid, the rest is returned, and the logger `toolimport.servers` says so; it
also gets the servers' log messages.

| variable | meaning |
|---|---|
| `PYTOOLS_SERVERS` | the configuration file to use instead of the imported one |
| `PYTOOLS_CALL_TIMEOUT` | how many seconds a call may take; by default 120 |
"""

from typing import TYPE_CHECKING

from toolimport.errors import ToolCallError
from toolimport.runtime._runner import ToolRunner, call_seconds, close

if TYPE_CHECKING:
    from toolimport.runtime._answers import note_of, with_note
    from toolimport.runtime._checking import argument_problems
    from toolimport.runtime._imported import ImportedTool, imported_names, imported_tool
    from toolimport.runtime._questions import Caller, LogMessage
    from toolimport.runtime._servers import ImportedServer, imported_servers
else:
    # Every generated module imports this package, but none needs these names.
    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        home = import_module(f"toolimport.runtime.{_HOMES[name]}")
        value = globals()[name] = getattr(home, name)
        return value

    _HOMES = {
        "Caller": "_questions",
        "LogMessage": "_questions",
        "ImportedServer": "_servers",
        "ImportedTool": "_imported",
        "argument_problems": "_checking",
        "imported_names": "_imported",
        "imported_servers": "_servers",
        "imported_tool": "_imported",
        "note_of": "_answers",
        "with_note": "_answers",
    }


__all__ = [
    "Caller",
    "ImportedServer",
    "ImportedTool",
    "LogMessage",
    "ToolCallError",
    "ToolRunner",
    "argument_problems",
    "call_seconds",
    "close",
    "imported_names",
    "imported_servers",
    "imported_tool",
    "note_of",
    "with_note",
]
