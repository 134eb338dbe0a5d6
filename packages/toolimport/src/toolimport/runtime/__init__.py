"""The runtime of generated tools: each call goes to the tool's MCP server.

Every generated package has a `ToolRunner`, to which every generated `run` passes its parameters::

    from mcptools.time.get_current_time import Params, run

    run(Params(timezone="Europe/Vienna"))

In an event loop, `await run_async(…)` does the same without blocking other tasks.

A program can also call the tool of a generated module without importing it, and gets the server's
own answer::

    tool = ImportedTool.read(Path("tools/mcptools/time/get_current_time.py"))
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

from toolimport._errors import ToolCallError as ToolCallError
from toolimport.runtime._imported import ImportedTool as ImportedTool
from toolimport.runtime._imported import imported_servers as imported_servers
from toolimport.runtime._runner import ClientHandlers as ClientHandlers
from toolimport.runtime._runner import ToolRunner as ToolRunner
from toolimport.runtime._runner import close as close
