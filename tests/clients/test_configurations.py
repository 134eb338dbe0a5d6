"""Each configuration in `examples/clients` starts a server that answers."""

import json
import os
import re
import tomllib
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from pytools_hybrid import Settings

pytestmark = pytest.mark.anyio

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "examples" / "clients"
GUIDES = [
    FOLDER / "README.md",
    REPOSITORY / "README.md",
    REPOSITORY / "docs" / "guides" / "freeact.md",
]
# Where the files of each client list their servers.
PLACES = [
    ("mcpServers",), ("servers",), ("mcp_servers",), ("mcp-servers",), ("agent", "mcp_servers"),
]  # fmt: skip
SEARCH = {"search_tools", "describe_tool", "report_outcome"}
CALL = {"call_tool"}
BROWSE = {"list_categories", "list_tools"}


@pytest.fixture
def anyio_backend():
    return "asyncio"


def parsed(file):
    text = file.read_text("utf-8")
    return json.loads(text) if file.suffix == ".json" else tomllib.loads(text)


def is_for_calls(file):
    """Return whether the client runs no code, so that the server has to call tools for it."""
    return not file.name.startswith("freeact")


def servers(file):
    """Return the servers of a configuration, wherever its client expects them."""
    found = {}
    for place in PLACES:
        inner = parsed(file)
        for key in place:
            inner = inner.get(key, {})
        found |= inner
    return found


FILES = sorted(file for file in FOLDER.iterdir() if file.suffix in {".json", ".toml"})
LOCAL = [file for file in FILES if "command" in servers(file)["pytools"]]
REMOTE = [file for file in FILES if file not in LOCAL]
# One configuration for each different way of starting the server.
STARTED = {
    json.dumps([servers(file)["pytools"].get(key) for key in ("command", "args", "env")]): file
    for file in LOCAL
}


@pytest.fixture
def started(command, home, environment, examples):
    """Start the server of a configuration as its client does, in a project with tools."""
    known = {
        "workspaceFolder": str(home),
        # freeact sets these for its servers.
        "PYTOOLS_DIR": ".freeact/generated",
        "PYTOOLS_DB_PATH": str(home / ".freeact" / "search.db"),
        "GEMINI_API_KEY": "not-a-key",
    }
    for place in ("tools", ".freeact/generated"):
        (home / place).parent.mkdir(exist_ok=True)
        (home / place).symlink_to(examples, target_is_directory=True)

    def expanded(text):
        text = text.replace("/absolute/path/to", str(home))
        return re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", lambda at: at[2] or known[at[1]], text)

    @asynccontextmanager
    async def session(file):
        server = servers(file)["pytools"]
        path = f"{Path(command).parent}{os.pathsep}{environment['PATH']}"
        own = {name: expanded(value) for name, value in server.get("env", {}).items()}
        parameters = StdioServerParameters(
            command=server["command"],
            args=[expanded(argument) for argument in server["args"]],
            env=environment | {"PATH": path} | own,
            cwd=home,
        )
        with anyio.fail_after(240), (home / "stderr").open("a") as errors:
            async with Client(stdio_client(parameters, errlog=errors)) as client:
                yield client

    return session


@pytest.mark.parametrize("file", STARTED.values(), ids=lambda file: file.name)
async def test_a_local_server_starts_and_finds_tools(file, started, home):
    async with started(file) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        if "basic" in file.name:
            assert names == BROWSE
            listed = await client.call_tool("list_tools", {"categories": "github"})
            path = listed.structured_content["github"]["mcptools"][0]
        else:
            assert names == (SEARCH | CALL if is_for_calls(file) else SEARCH)
            found = await client.call_tool("search_tools", {"query": "create an issue"})
            hits = {it["id"]: it for it in found.structured_content["result"]}
            hit = hits["mcptools:github:create_issue"]
            if is_for_calls(file):
                # An agent that runs no code has no use for its path.
                assert "path" not in hit
                return
            path = hit["path"]

    assert (home / path).is_file()
    # Agents in a project get paths relative to its folder.
    assert not os.path.isabs(path)  # noqa: PTH117


@pytest.mark.parametrize("file", REMOTE, ids=lambda file: file.name)
def test_a_remote_server_uses_the_default_address_and_a_token_from_the_environment(
    file,
):
    server = servers(file)["pytools"]
    default = Settings()

    assert server["type"] == "http"
    assert server["url"] == f"http://{default.host}:{default.port}/mcp"
    assert re.fullmatch(r"Bearer \$\{[\w:-]+\}", server["headers"]["Authorization"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_configuration_is_explained(file):
    assert any(file.name in guide.read_text("utf-8") for guide in GUIDES)


def test_the_guides_show_the_configurations_of_the_files():
    shown = [
        block
        for guide in GUIDES
        for block in re.findall(
            r"^```(?:json|toml)\n(.*?)^```", guide.read_text("utf-8"), re.M | re.S
        )
    ]
    held = [file.read_text("utf-8") for file in FILES]

    assert shown
    assert not [block for block in shown if not any(block in text for text in held)]
