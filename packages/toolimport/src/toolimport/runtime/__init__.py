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

from toolimport.errors import ToolCallError
from toolimport.runtime._imported import ImportedTool, imported_tool
from toolimport.runtime._runner import ToolRunner, close

__all__ = ["ImportedTool", "ToolCallError", "ToolRunner", "close", "imported_tool"]
