"""The installed toolimport calls a tool of an MCP server, and ends it."""

import json
import sys
from pathlib import Path

from toolimport.runtime import ToolRunner, close

SERVER = """\
from mcp.server.mcpserver import MCPServer

app = MCPServer("shop")


@app.tool(structured_output=False)
def price(article: str) -> str:
    return f"{article} costs 3"


app.run("stdio")
"""

Path("shop.py").write_text(SERVER, "utf-8")
entry = {"command": sys.executable, "args": ["shop.py"], "cwd": str(Path.cwd())}
Path("servers.json").write_text(json.dumps({"mcpServers": {"shop": entry}}), "utf-8")

assert ToolRunner("shop", "servers.json").run_sync("price", {"article": "tea"}) == "tea costs 3"
close()
print("a tool was called")
