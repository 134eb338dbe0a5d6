"""A library leaves the process that uses it as it found it."""

import json
import subprocess
import sys
import textwrap

import pytest

# What a program has set up, and what each library could have changed afterwards.
STATE = """
import asyncio, importlib, json, logging, os, signal, sys, threading, warnings
import huggingface_hub.file_download, httpx2, numpy, threadpoolctl
import mcp.client.client, mcp.client.sse, mcp.client.stdio, mcp.client.streamable_http
import mcp.server.mcpserver

asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())
mine = logging.getLogger("client")
mine.addHandler(logging.StreamHandler())
CONFIGURED = [mine, *map(logging.getLogger, (None, "mcp", "httpx2", "mcp.client.stdio"))]

def attributes(module):
    return {name: id(it) for name, it in vars(module).items() if not name.startswith("__")}

def state():
    loggers = {name: it for name, it in logging.root.manager.loggerDict.items()
               if isinstance(it, logging.Logger)}
    return {
        "mcp": {name: attributes(it) for name, it in MODULES.items()},
        "logging": attributes(logging),
        "configured": [(it.level, it.disabled, it.propagate, it.filters[:], it.handlers[:])
                       for it in CONFIGURED],
        "handlers": [name for name, it in loggers.items() if it.handlers and it is not mine],
        "filters": [name for name, it in loggers.items() if it.filters],
        "levels": [name for name, it in loggers.items() if it.level],
        "blas": [it["num_threads"] for it in threadpoolctl.threadpool_info()],
        "environment": dict(os.environ),
        "hub": {name: it for name, it in vars(huggingface_hub.constants).items() if name.isupper()},
        "warnings": [*warnings.filters, warnings.showwarning, warnings.formatwarning],
        "signals": {it: signal.getsignal(it) for it in signal.valid_signals()},
        "policy": asyncio.get_event_loop_policy(),
        "hooks": [sys.excepthook, threading.excepthook, sys.unraisablehook, sys.displayhook],
        "streams": [sys.stdin, sys.stdout, sys.stderr],
        "path": [*sys.path],
        "folder": os.getcwd(),
        "limits": [sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()],
    }

if sys.version_info >= (3, 14):
    warnings.simplefilter("ignore", DeprecationWarning)
MODULES = {name: it for name, it in sys.modules.items() if name.split(".")[0] == "mcp"}
before = state()
"""
AFTER = """
after = state()
changed = [name for name in before if before[name] != after[name]]
print({name: (before[name], after[name]) for name in changed if name != "mcp"})
print(json.dumps(changed))
"""
# What programs do with each of them.
USES = {
    "toolimport": """
        from toolimport import ImportOptions, import_servers
        from toolimport.runtime import ToolRunner, close
        import pathlib
        file = pathlib.Path(sys.argv[1], "servers.json")
        asyncio.run(import_servers(file, file.parent, ImportOptions()))
        assert ToolRunner("shop", file).run_sync("echo", {}) == "{}"
        try:
            ToolRunner("gone", file).run_sync("echo", {})
        except Exception as error:
            assert "cannot be reached" in str(error), error
        close()
    """,
    "toolembed": """
        import toolembed
        toolembed.create_embedder("static").encode_queries(["merge files"])
        accurate = toolembed.create_embedder("accurate")
        asyncio.run(accurate.embed_documents(["merge files", "word " * 300]))
        import toolembed.downloads
        toolembed.downloads.downloaded_models()
        for model in ("test", "sentence-transformers:no-such-model"):
            try:
                asyncio.run(toolembed.create_embedder(model).embed_query("merge files"))
            except toolembed.EmbeddingError:
                pass
    """,
    "toolscan": """
        import pathlib, toolscan
        folder = pathlib.Path(sys.argv[1])
        for report in range(2):
            (record,) = toolscan.scan(folder / "tools").records
        toolscan.input_schema(record)
    """,
    "toolindex": """
        import pathlib, toolindex, toolscan
        folder = pathlib.Path(sys.argv[1])
        with toolindex.ToolIndex(folder / "index.db") as index:
            index.sync(toolscan.scan(folder / "tools"), reader_version="1")
    """,
    "toolrank": """
        import sqlite3, toolrank
        with sqlite3.connect(":memory:") as db:
            db.execute("CREATE VIRTUAL TABLE tools USING fts5(name, text)")
            db.execute("INSERT INTO tools VALUES ('merge', 'Merge several files into one.')")
        tables = toolrank.Tables(db, "tools", weights=(5, 1))
        assert len(toolrank.HybridSearch(tables).search("merge files", limit=2)) == 1
    """,
    "toolwatch": """
        import pathlib, toolwatch
        async def watch():
            folder = pathlib.Path(sys.argv[1], "tools")
            async for batch in toolwatch.awatch_tools(folder):
                break
        async def job():
            watching = asyncio.create_task(watch())
            for number in range(3000):
                pathlib.Path(sys.argv[1], "tools", f"{number % 7}.py").write_text(str(number))
                done, _ = await asyncio.wait({watching}, timeout=.02)
                if done:
                    return watching.result()
            raise AssertionError("no event")
        asyncio.run(job())
    """,
}
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "shop", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": "{}"}]},
    }.get(asked["method"])
    answer = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
    print("not a message")
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


@pytest.mark.parametrize("package", USES)
def test_using_a_library_changes_nothing_else_in_the_process(package, tmp_path):
    tool = tmp_path / "tools/mcptools/files/merge.py"
    tool.parent.mkdir(parents=True)
    tool.write_text('def run(pattern="\\d"):\n    "Merge files whose names match \\d."\n')
    (tmp_path / "server.py").write_text(SERVER)
    shop = {"command": sys.executable, "args": [str(tmp_path / "server.py")]}
    gone = {"url": "http://127.0.0.1:9/mcp?key=hunter2"}
    servers = json.dumps({"mcpServers": {"shop": shop, "gone": gone}})
    (tmp_path / "servers.json").write_text(servers)
    program = STATE + textwrap.dedent(USES[package]) + AFTER
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.stdout.splitlines()[-1:] == ["[]"], ran.stdout + ran.stderr
    assert "hunter2" not in ran.stdout + ran.stderr
