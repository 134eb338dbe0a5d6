"""Modules that were imported when the application had the runtime keep working."""

import importlib
import json
import sys

import pytest
from pytools_hybrid.runtime import ToolCallError, close

# The modules as `import` wrote them.
PACKAGE = """\
from pytools_hybrid.runtime import ToolRunner

CLIENT = ToolRunner(
    server_name='shop',
    servers_file={file!r},
)
"""
MODULE = """\
from __future__ import annotations

from pydantic import BaseModel


class Params(BaseModel):
    article: str


from . import CLIENT

def run(params: Params) -> str:
    \"\"\"Say what an article costs.\"\"\"
    return CLIENT.run_sync(tool_name="price", tool_args=params)
"""
SERVER = """\
import json, sys

for line in sys.stdin:
    message = json.loads(line)
    match message["method"]:
        case "initialize":
            about = {"serverInfo": {"name": "shop", "version": "1"}, "capabilities": {"tools": {}}}
            answer = {"result": {"protocolVersion": "2025-06-18"} | about}
        case "tools/call":
            article = message["params"]["arguments"]["article"]
            content = [{"type": "text", "text": f"{article}: 3"}]
            answer = {"result": {"content": content, "isError": article == "coffee"}}
        case "tools/list":
            tools = [{"name": "price", "inputSchema": {"type": "object"}}]
            answer = {"result": {"tools": tools}}
        case _:
            answer = {"error": {"code": -32601, "message": "unknown"}}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"]} | answer), flush=True)
"""


@pytest.fixture
def old_module(tmp_path, monkeypatch):
    server, file = tmp_path / "server.py", tmp_path / "servers.json"
    server.write_text(SERVER)
    entry = {"command": sys.executable, "args": ["-S", str(server)]}
    file.write_text(json.dumps({"mcpServers": {"shop": entry}}))
    package = tmp_path / "mcptools" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE.format(file=str(file)))
    (package / "price.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("mcptools.shop.price")
    close()
    for name in [it for it in sys.modules if it.split(".")[0] == "mcptools"]:
        del sys.modules[name]


def test_a_module_with_the_old_runtime_calls_its_server_and_raises_toolcallerror(old_module):
    assert old_module.run(old_module.Params(article="tea")) == "tea: 3"
    with pytest.raises(ToolCallError, match="shop: price: coffee: 3"):
        old_module.run(old_module.Params(article="coffee"))
