"""Runs the tools that `toolimport.generate` makes: each call goes to the tool's MCP server.

Every generated package has a `ToolRunner`, and every generated `run` hands its parameters to it::

    from mcptools.time.get_current_time import Params, run

    run(Params(timezone="Europe/Vienna"))

A program that has the path of a generated module, and does not want to import it, calls the tool by
`imported_tool`, whose answer is the server's own::

    tool = imported_tool(Path("tools/mcptools/time/get_current_time.py"))
    result = await tool.call({"timezone": "Europe/Vienna"})

The server is started, or connected to, at the first call; it stays for the calls that follow, of
any thread, and ends with the interpreter. What its connection needs is read from the configuration
file when it is needed, so that no secret is ever copied. A call that fails raises `ToolCallError`.

| variable | means |
|---|---|
| `PYTOOLS_SERVERS` | the configuration file, in place of the one that was imported |
| `PYTOOLS_CALL_TIMEOUT` | how many seconds a call may take; 120 where it is not set |
"""

from typing import TYPE_CHECKING

from toolimport.errors import ToolCallError
from toolimport.runtime._runner import ToolRunner, close

if TYPE_CHECKING:
    from toolimport.runtime._checking import argument_problems
    from toolimport.runtime._imported import ImportedTool, imported_tool
    from toolimport.runtime._servers import ImportedServer, imported_servers
else:
    # Every generated module imports this package, and none of them needs these.
    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        home = import_module(f"toolimport.runtime.{_HOMES[name]}")
        value = globals()[name] = getattr(home, name)
        return value

    _HOMES = {
        "ImportedServer": "_servers",
        "ImportedTool": "_imported",
        "argument_problems": "_checking",
        "imported_servers": "_servers",
        "imported_tool": "_imported",
    }


__all__ = [
    "ImportedServer",
    "ImportedTool",
    "ToolCallError",
    "ToolRunner",
    "argument_problems",
    "close",
    "imported_servers",
    "imported_tool",
]
