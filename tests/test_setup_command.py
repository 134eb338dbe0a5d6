"""`pytools-hybrid setup`: a client's servers are replaced by ours, and restored."""

import asyncio
import json
import os
import sys

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from pytools_hybrid.cli import main
from toolimport import ToolImportError
from toolimport.clients import ServersFile

SERVER = '''\
from mcp.server.mcpserver import MCPServer

app = MCPServer("clock")

@app.tool()
def current_time(city: str) -> str:
    """Tell what time it is in a city."""
    return "noon"

app.run("stdio")
'''
KEY = "sk-4f9a8b7c6d5e4f3a2b1c"


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clock.py").write_text(SERVER)
    (tmp_path / ".cursor").mkdir()
    return tmp_path


@pytest.fixture
def cursor(home):
    file = home / ".cursor" / "mcp.json"
    clock = json.dumps({"command": sys.executable, "args": ["clock.py"], "env": {"API_KEY": KEY}})
    file.write_bytes(
        b"{\r\n  // mine\r\n"
        b'  "mcpServers": {\r\n    "clock": ' + clock.encode() + b", // noon\r\n"
        b'    "gone": {"command": "no-such-program"}\r\n  }\r\n}\r\n'
    )
    return file


@pytest.fixture
def setup(capsys):
    def run_setup(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["setup", *map(str, arguments)])
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return run_setup


def test_imported_servers_are_replaced_and_others_stay(setup, cursor, home):
    before = cursor.read_bytes()
    status, shown, said = setup("cursor", "--yes")
    assert status == 1
    assert "gone could not be imported, and stays in the client" in said
    assert KEY not in shown + said

    text = cursor.read_text()
    assert "// mine" in text
    servers = text.partition("_mcpServers_before_pytools")
    assert '"gone"' in servers[0]
    assert '"pytools"' in servers[0]
    assert '"clock"' in servers[2]
    ours = home / ".config" / "pytools-hybrid"
    assert list(json.loads((ours / "servers.json").read_text())["mcpServers"]) == ["clock"]
    assert (ours / "tools" / "mcptools" / "clock" / "current_time.py").exists()

    assert setup("cursor", "--undo")[0] == 0
    assert cursor.read_bytes() == before
    assert [it.name for it in cursor.parent.iterdir()] == ["mcp.json"]


def test_a_client_finds_and_calls_a_tool_after_setup(setup, cursor, home):
    clock = {"command": sys.executable, "args": [str(home / "clock.py")]}
    cursor.write_text(json.dumps({"mcpServers": {"clock": clock}}))
    assert setup("cursor", "--yes")[0] == 0
    entry = json.loads(cursor.read_text())["mcpServers"]["pytools"]
    environment = os.environ | entry.get("env", {})
    server = StdioServerParameters(
        command=entry["command"], args=entry["args"], env=environment, cwd=home.parent
    )

    async def ask():
        async with Client(stdio_client(server)) as client:
            found = await client.call_tool("search_tools", {"query": "what time is it in Tokyo"})
            best = found.structured_content["result"][0]
            assert best["input_schema"]["required"] == ["city"]
            return await client.call_tool(
                "call_tool", {"id": best["id"], "arguments": {"city": "Tokyo"}}
            )

    assert asyncio.run(ask()).content[0].text == "noon"


def test_a_second_run_changes_nothing(setup, cursor):
    cursor.write_text(
        json.dumps({"mcpServers": {"clock": {"command": sys.executable, "args": ["clock.py"]}}})
    )
    assert setup("--yes")[0] == 0
    before = cursor.read_bytes()
    status, shown, said = setup("--yes")
    assert (status, shown) == (0, "")
    assert "nothing to change" in said
    assert cursor.read_bytes() == before


def test_undo_keeps_later_changes_of_the_client(setup, cursor):
    cursor.write_text('{"theme": "dark"}')
    assert setup("cursor", "--yes")[0] == 0
    changed = json.loads(cursor.read_text()) | {"theme": "light"}
    cursor.write_text(json.dumps(changed))
    assert "changed since setup" in setup("cursor", "--undo")[2]
    assert json.loads(cursor.read_text()) == {"theme": "light", "mcpServers": {}}


def test_undo_removes_a_new_file_and_keeps_a_link(setup, cursor, home):
    cursor.unlink()
    setup("cursor", "--yes")
    assert setup("cursor", "--undo")[0] == 0
    assert not cursor.exists()

    (home / "dotfiles.json").write_text("{}")
    cursor.symlink_to(home / "dotfiles.json")
    setup("cursor", "--yes")
    assert cursor.is_symlink()
    assert "pytools" in (home / "dotfiles.json").read_text()
    setup("cursor", "--undo")
    assert (home / "dotfiles.json").read_text() == "{}"


def test_servers_added_by_a_concurrent_run_are_kept(home):
    file = home / "servers.json"
    first, second = ServersFile(file), ServersFile(file)
    second.add({"command": "b"}, "two")
    second.save()
    first.add({"command": "a"}, "one")
    with pytest.raises(ToolImportError, match="changed in the meantime; run setup again"):
        first.save()
    assert list(json.loads(file.read_text())["mcpServers"]) == ["two"]


def test_a_server_that_a_concurrent_setup_drops_stays_in_the_client(
    setup, cursor, home, monkeypatch
):
    gone = {"command": "no-such-program"}
    cursor.write_text(json.dumps({"mcpServers": {"gone": gone}}))
    file = home / ".config" / "pytools-hybrid" / "servers.json"
    concurrent, save = ServersFile(file), ServersFile.save
    concurrent.add(gone | {"cwd": str(home)}, "gone")
    concurrent.save()

    def save_before_the_other_drops(ours):
        save(ours)
        concurrent.drop({"gone"})

    monkeypatch.setattr(ServersFile, "save", save_before_the_other_drops)
    status, _, said = setup("cursor", "--yes")
    assert status == 1
    assert f"another setup has removed gone from {file}" in said
    assert "gone could not be imported, and stays in the client" in said


@pytest.mark.parametrize("content", [b"\n", b"\xef\xbb\xbf", b""])
def test_undo_restores_a_nearly_empty_file_byte_for_byte(setup, cursor, content):
    cursor.write_bytes(content)
    assert setup("cursor", "--yes")[0] == 0
    assert "pytools" in cursor.read_text("utf-8-sig")
    setup("cursor", "--undo")
    assert cursor.read_bytes() == content


def test_nothing_changes_without_confirmation(setup, cursor):
    before = cursor.read_bytes()
    status, shown, said = setup("cursor")
    assert status == 1
    assert '+    "pytools": {' in shown
    assert "the entry also gets --confirm for each tool that its server annotates" in said
    assert "--yes" in said
    assert cursor.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "reason"),
    [('{"mcpServers": {', "not valid JSON"), ("[]", "must contain a JSON object"),
     ('{"mcpServers": []}', "must be an object")],
)  # fmt: skip
def test_a_broken_file_is_left_as_it_is(setup, cursor, content, reason):
    cursor.write_text(content)
    status, _, said = setup("cursor", "--yes")
    assert status == 1
    assert reason in said
    assert cursor.read_text() == content


def test_a_read_only_file_is_left_as_it_is(setup, cursor):
    before = cursor.read_bytes()
    cursor.chmod(0o444)
    status, _, said = setup("cursor", "--yes")
    assert status == 1
    assert "read-only" in said
    assert cursor.read_bytes() == before


def test_our_own_entry_is_updated_and_never_imported(setup, cursor):
    ours = {"command": "pytools-hybrid", "args": ["serve", "--root", "/mine"], "env": {"A": "b"}}
    cursor.write_text(json.dumps({"mcpServers": {"search": ours}}))
    before = cursor.read_bytes()
    assert setup("cursor", "--yes")[0] == 0
    servers = json.loads(cursor.read_text())["mcpServers"]
    assert list(servers) == ["search"]
    assert servers["search"]["args"][-2:] == ["--root", "/mine"]
    assert servers["search"]["env"] == {"A": "b"}
    setup("cursor", "--undo")
    assert cursor.read_bytes() == before


def test_the_entry_for_any_other_client_is_printed(setup, home):
    status, shown, _ = setup("--print")
    entry = json.loads(shown)["mcpServers"]["pytools"]
    assert status == 0
    assert entry["args"][-2:] == ["--root", str(home / ".config" / "pytools-hybrid" / "tools")]


def test_freeact_gets_our_entry_and_keeps_its_servers(setup, home):
    file = home / ".freeact" / "config.toml"
    file.parent.mkdir()
    file.write_text('# mine\n[agent.ptc_servers.time]\ncommand = "uvx"\n')
    before = file.read_bytes()
    assert setup("freeact", "--yes")[0] == 0
    assert "[agent.mcp_servers.pytools]" in file.read_text()
    assert setup("freeact", "--yes")[1] == ""
    setup("freeact", "--undo")
    assert file.read_bytes() == before


DESTRUCTIVE = """
@app.tool(annotations=ToolAnnotations(destructiveHint=True))
def stop_clock() -> str:
    'Stop the clock for good.'
    return "stopped"

@app.tool(annotations=ToolAnnotations(readOnlyHint=False))
def wind_clock() -> str:
    'Wind the clock.'
    return "wound"
"""


def test_tools_annotated_as_destructive_require_confirmation(setup, cursor, home):
    source = SERVER.replace("app.run", f"{DESTRUCTIVE}\napp.run")
    (home / "clock.py").write_text(f"from mcp_types import ToolAnnotations\n{source}")
    cursor.write_text(
        json.dumps({"mcpServers": {"clock": {"command": sys.executable, "args": ["clock.py"]}}})
    )
    status, _, said = setup("cursor", "--yes")
    assert status == 0
    assert "asks you before calling mcptools:clock:stop_clock, annotated as destructive" in said
    args = json.loads(cursor.read_text())["mcpServers"]["pytools"]["args"]
    assert args[-2:] == ["--confirm", "mcptools:clock:stop_clock"]
    assert args.count("--confirm") == 1
    assert setup("cursor", "--yes")[1] == "", "a second run changes nothing"
    assert '"mcptools:clock:stop_clock"' in setup("--print")[1]


def test_the_same_server_in_several_clients_is_imported_once(setup, cursor, home):
    clock = {"command": sys.executable, "args": ["clock.py"]}
    cursor.write_text(json.dumps({"mcpServers": {"clock": clock}}))
    claude = home / ".claude.json"
    claude.write_text(
        json.dumps({"mcpServers": {"time": clock | {"type": "stdio", "env": {}}}}, indent=2)
    )
    code = home / ".config" / "Code" / "User" / "mcp.json"
    code.parent.mkdir(parents=True)
    code.write_text(json.dumps({"servers": {"clock": clock | {"type": "stdio"}}, "inputs": []}))
    desktop = home / ".config" / "Claude" / "claude_desktop_config.json"
    desktop.parent.mkdir()
    desktop.write_text(json.dumps({"mcpServers": {"clock": clock}}))
    files = (cursor, claude, code, desktop)
    before = [file.read_bytes() for file in files]
    status, _, said = setup("--yes")
    assert status == 0
    assert "clock is the same server as time; it is imported once" in said
    assert said.count("now finds its tools through pytools-hybrid") == 4
    ours = home / ".config" / "pytools-hybrid"
    assert list(json.loads((ours / "servers.json").read_text())["mcpServers"]) == ["time"]
    assert [it.name for it in (ours / "tools" / "mcptools").iterdir() if it.is_dir()] == ["time"]
    assert json.loads(claude.read_text())["mcpServers"]["pytools"]["alwaysLoad"] is True
    assert "alwaysLoad" not in cursor.read_text()
    assert setup("--undo")[0] == 0
    assert [file.read_bytes() for file in files] == before


def test_the_servers_of_the_current_project_are_imported_and_restored(setup, home, monkeypatch):
    project = home / "app"
    project.mkdir()
    (project / "clock.py").write_text(SERVER)
    clock = {"type": "stdio", "command": sys.executable, "args": ["clock.py"], "env": {}}
    file = home / ".claude.json"
    file.write_text(
        json.dumps({"projects": {str(project): {"mcpServers": {"clock": clock}}}}, indent=2)
    )
    before = file.read_bytes()
    monkeypatch.chdir(project)
    status, _, said = setup("claude-code", "--yes")
    assert status == 0
    assert "Claude Code now finds its tools" in said
    tools = home / ".config" / "pytools-hybrid" / "tools"
    assert (tools / "mcptools" / "clock" / "current_time.py").exists()
    monkeypatch.chdir(home)
    assert setup("claude-code", "--undo")[0] == 0
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "servers",
    [{}, {"gone": {"command": "no-such-program"}}, {"off": {"command": "uvx", "disabled": True}}],
    ids=["none", "failing", "disabled"],
)
def test_setup_does_not_report_success_if_no_server_was_imported(setup, cursor, servers):
    cursor.write_text(json.dumps({"mcpServers": servers}))
    status, _, said = setup("cursor", "--yes")
    assert status == ("gone" in servers)
    assert "finds its tools" not in said
    assert "none of its servers was imported" in said
    for name in servers:
        assert name in said


def test_undo_needs_no_settings(setup, cursor, home, monkeypatch):
    cursor.write_text('{"theme": "dark"}')
    assert setup("cursor", "--yes")[0] == 0
    (home / "pytools.toml").write_text("limit = [")
    below = home / "project"
    below.mkdir()
    monkeypatch.chdir(below)
    monkeypatch.setenv("PYTOOLS_LIMIT", "many")
    assert "pytools.toml" in setup("cursor")[2]
    assert setup("--print", "--root", "tools")[0] == 0
    assert setup("cursor", "--undo")[0] == 0
    assert cursor.read_text() == '{"theme": "dark"}'
