"""The configuration files of many clients, read as the clients read them."""

import json
import sys

import pytest
from toolimport._errors import ServerError, ServersFileError
from toolimport.clients._servers import HttpParameters, read_servers

NPX = {"command": "npx", "args": ["-y", "notes"]}


@pytest.fixture
def read(tmp_path):
    def read_file(name, content):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return read_servers(file)

    return read_file


NESTED = {"notes": {"transport": NPX | {"type": "stdio"}}}
PROCESSES = {
    "zed": ("settings.json", {"context_servers": {"notes": NPX | {"source": "custom", "env": {}}}}),
    "zed-old": (
        "settings.json",
        {"context_servers": {"notes": {"command": {"path": "npx", "args": ["-y", "notes"]}}}},
    ),
    "opencode": (
        "opencode.jsonc",
        '{"mcp": {"notes": {"type": "local", "command": ["npx", "-y", "notes"]}, /* */ }, }',
    ),
    "crush": ("crush.json", {"mcp": {"notes": NPX | {"type": "stdio", "timeout": 120}}}),
    "mcpproxy": ("x.json", {"mcpServers": [NPX | {"name": "notes", "protocol": "stdio"}]}),
    "vscode": ("mcp.json", {"servers": {"notes": NPX | {"type": "stdio"}}, "inputs": []}),
    "vscode-nested": ("settings.json", {"mcp": {"servers": {"notes": NPX}, "inputs": []}}),
    "vscode-dotted": ("settings.json", {"mcp.servers": {"notes": NPX}, "files.eol": "\n"}),
    "amp": ("settings.json", {"amp.mcpServers": {"notes": NPX}, "amp.notifications": True}),
    "claude-project": (".claude.json", {"projects": {"/x": {"mcpServers": {"notes": NPX}}}}),
    "transport": ("mcp.json", {"mcpServers": NESTED}),
    "continue-json": (
        "config.json",
        {"experimental": {"modelContextProtocolServers": [{"name": "notes"} | NESTED["notes"]]}},
    ),
    "codex": ("config.toml", '[mcp_servers.notes]\ncommand = "npx"\nargs = ["-y", "notes"]\n'),
    "freeact": (
        "config.toml",
        '[agent.mcp_servers.own]\ncommand = "x"\n'
        '[agent.ptc_servers.notes]\ncommand = "npx"\nargs = ["-y", "notes"]\n',
    ),
    "continue": ("c.yaml", "mcpServers:\n- name: notes\n  command: npx\n  args: [-y, notes]\n"),
    "librechat": (
        "librechat.yaml",
        "version: 1.2.1\nmcpServers:\n  notes: {type: stdio, command: npx, args: [-y, notes]}\n",
    ),
    "goose": (
        "config.yaml",
        "GOOSE_MODEL: x\nextensions:\n  notes:\n    cmd: npx\n    args: [-y, notes]\n"
        "    enabled: true\n    type: stdio\n    envs: {}\n    timeout: 300\n",
    ),
    "goose-recipe": (
        "recipe.yaml",
        "title: x\nextensions:\n- {type: stdio, name: notes, cmd: npx, args: [-y, notes]}\n",
    ),
    "tiny-agents": (
        "agent.json", {"servers": [{"type": "stdio", "config": NPX, "name": "notes"}]}
    ),
    "bare": ("warp.json", {"notes": NPX | {"working_directory": None}}),
    "roo": ("mcp.json", {"mcpServers": {"notes": NPX | {"alwaysAllow": ["a"], "disabled": False}}}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content"), PROCESSES.values(), ids=PROCESSES)
def test_the_same_server_is_read_from_every_clients_file(read, name, content):
    (entry,) = read(name, content)
    known = {"command": "npx", "args": ["-y", "notes"]}
    assert entry.name == "notes"
    assert {key: it for key, it in entry.definition.items() if key != "timeout"} == known
    assert entry.transport == "stdio"
    assert not entry.disabled
    assert not entry.skipped


ADDRESS = "https://notes.example/mcp"
REMOTES = {
    "gemini": (".gemini/settings.json", {"mcpServers": {"n": {"httpUrl": ADDRESS}}}),
    "windsurf": ("mcp_config.json", {"mcpServers": {"n": {"serverUrl": ADDRESS}}}),
    "opencode": ("opencode.json", {"mcp": {"n": {"type": "remote", "url": ADDRESS}}}),
    "cline": ("mcp.json", {"mcpServers": {"n": {"type": "streamableHttp", "url": ADDRESS}}}),
    "nested": ("mcp.json", {"mcpServers": {"n": {"transport": {"type": "http", "url": ADDRESS}}}}),
    "zed": ("settings.json", {"context_servers": {"n": {"url": ADDRESS}}}),
    "mcpproxy": ("x.json", {"mcpServers": [{"name": "n", "protocol": "auto", "url": ADDRESS}]}),
    "goose": ("c.yaml", f"extensions:\n  n: {{type: streamable_http, uri: '{ADDRESS}'}}\n"),
    "codex": ("config.toml", f'[mcp_servers.n]\nurl = "{ADDRESS}"\n'),
    "cherry": ("mcp.json", {"mcpServers": {"n": {"baseUrl": ADDRESS, "isActive": True}}}),
}


@pytest.mark.parametrize(("name", "content"), REMOTES.values(), ids=REMOTES)
def test_an_address_is_read_from_every_clients_file(read, name, content):
    (entry,) = read(name, content)
    parameters = entry.parameters()
    assert isinstance(parameters, HttpParameters)
    assert (parameters.url, parameters.transport) == (ADDRESS, "http")


def test_codexs_headers_and_variables_are_read(read, monkeypatch):
    monkeypatch.setenv("NOTES_TOKEN", "t0ken")
    monkeypatch.setenv("NOTES_REGION", "eu")
    remote, local = read(
        "config.toml",
        f'[mcp_servers.remote]\nurl = "{ADDRESS}"\nbearer_token_env_var = "NOTES_TOKEN"\n'
        'http_headers = { A = "1" }\nenv_http_headers = { B = "NOTES_REGION" }\n'
        f'[mcp_servers.local]\ncommand = "{sys.executable}"\nenv = {{ T_A = "1" }}\n'
        'env_vars = ["NOTES_REGION", { name = "NOTES_TOKEN", source = "local" }]\n',
    )
    assert remote.parameters().headers == {"A": "1", "B": "eu", "Authorization": "Bearer t0ken"}
    assert {"T_A": "1", "NOTES_REGION": "eu", "NOTES_TOKEN": "t0ken"}.items() <= (
        local.parameters().env.items()
    )
    assert "t0ken" not in repr(remote.parameters())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".gemini/settings.json", {"mcpServers": {"n": {"httpUrl": ADDRESS, "headers": "H"}}}),
        (".qwen/settings.json", {"mcpServers": {"n": {"httpUrl": ADDRESS, "headers": "H"}}}),
        ("crush.json", {"mcp": {"n": {"type": "http", "url": ADDRESS, "headers": "H"}}}),
    ],
    ids=["gemini", "qwen", "crush"],
)
def test_a_plain_dollar_is_a_reference_where_the_client_replaces_it(
    read, monkeypatch, name, content
):
    monkeypatch.setenv("NOTES_TOKEN", "t0ken")
    headers = {"A": "Bearer $NOTES_TOKEN", "B": "${NOTES_TOKEN}"}
    text = json.dumps(content).replace('"H"', json.dumps(headers))
    (entry,) = read(name, text)
    assert entry.parameters().headers == {"A": "Bearer t0ken", "B": "t0ken"}
    assert entry.warnings == ()


def test_gemini_leaves_a_variable_that_is_not_set_as_it_is_written(read, monkeypatch):
    monkeypatch.delenv("NOT_SET", raising=False)
    definition = {"httpUrl": ADDRESS, "headers": {"A": "pa$NOT_SET"}}
    (entry,) = read(".gemini/settings.json", {"mcpServers": {"n": definition}})
    assert entry.parameters().headers == {"A": "pa$NOT_SET"}


@pytest.mark.parametrize(
    ("definition", "place"),
    [
        ({"command": "npx", "env": {"KEY": "$NOTES_TOKEN"}}, "'env' KEY"),
        ({"url": ADDRESS, "headers": {"A": "Bearer $NOTES_TOKEN"}}, "'headers' A"),
        ({"url": "https://$NOTES_TOKEN/mcp"}, "'url'"),
        ({"command": "npx", "args": ["--key", "$NOTES_TOKEN", "$x"]}, "'args'"),
    ],
)
def test_a_plain_dollar_is_a_warning_where_the_client_does_not_replace_it(read, definition, place):
    (entry,) = read("mcp.json", {"mcpServers": {"n": definition}})
    (warning,) = entry.warnings
    assert warning.startswith(f"$NOTES_TOKEN in {place} is passed on as it is written")
    assert "write ${NOTES_TOKEN}" in warning


@pytest.mark.parametrize("value", ["pa$WORD", "${NOTES}", "$5", "a$$B", "^x$", "\\$NOTES x"])
def test_other_dollars_are_no_warning(read, value):
    definition = {"command": "sh", "args": ["-c", "echo $HOME"], "env": {"KEY": value}}
    (entry,) = read("mcp.json", {"mcpServers": {"n": definition}})
    assert entry.warnings == ()


def test_headers_that_a_program_prints_are_a_warning(read):
    definition = {"url": ADDRESS, "headersHelper": "print-headers"}
    (entry,) = read(".mcp.json", {"mcpServers": {"n": definition}})
    assert entry.warnings == (
        "'headersHelper' is not run, so the headers that it prints are not sent",
    )


def test_opencodes_references_are_replaced(read, monkeypatch, tmp_path):
    monkeypatch.setenv("NOTES_TOKEN", "t0ken")
    (tmp_path / "key.txt").write_text("k3y\n")
    definition = {
        "type": "local",
        "command": [sys.executable, "{env:NOTES_TOKEN}"],
        "environment": {"A": "{env:NOTES_TOKEN}", "B": "{file:./key.txt}", "C": "{json}"},
    }
    (entry,) = read("opencode.json", {"mcp": {"n": definition}})
    parameters = entry.parameters()
    assert parameters.args == ("t0ken",)
    assert {"A": "t0ken", "B": "k3y", "C": "{json}"}.items() <= parameters.env.items()
    assert parameters.redactor.text("k3y and t0ken") != "k3y and t0ken"
    (tmp_path / "key.txt").unlink()
    with pytest.raises(ServerError, match=r"key\.txt, which it refers to, cannot be read"):
        entry.parameters()


def test_continues_secrets_are_variables(read, monkeypatch):
    monkeypatch.setenv("NOTES_TOKEN", "t0ken")
    (entry,) = read(
        "config.yaml",
        f"mcpServers:\n- name: n\n  type: streamable-http\n  url: {ADDRESS}\n"
        "  requestOptions:\n    headers: {A: 'Bearer ${{ secrets.NOTES_TOKEN }}'}\n",
    )
    assert entry.parameters().headers == {"A": "Bearer t0ken"}


OFF = {
    "disabled": ("mcp.json", {"mcpServers": {"n": NPX | {"disabled": True}}}),
    "codex": ("config.toml", '[mcp_servers.n]\ncommand = "npx"\nenabled = false\n'),
    "opencode": (
        "opencode.json",
        {"mcp": {"n": {"type": "local", "command": ["npx"], "enabled": False}}},
    ),
    "opencode-override": ("opencode.json", {"mcp": {"n": {"enabled": False}}}),
    "goose": ("config.yaml", "extensions:\n  n: {type: stdio, cmd: npx, enabled: false}\n"),
    "zed": ("settings.json", {"context_servers": {"n": NPX | {"enabled": False}}}),
    "mcpproxy": ("x.json", {"mcpServers": [NPX | {"name": "n", "enabled": False}]}),
    "quarantined": ("x.json", {"mcpServers": [NPX | {"name": "n", "quarantined": True}]}),
    "cherry": ("x.json", {"mcpServers": {"n": NPX | {"isActive": False}}}),
    "jan": ("mcp_config.json", {"mcpServers": {"n": NPX | {"active": False}}}),
    "text": ("x.json", {"mcpServers": {"n": NPX | {"disabled": "true"}}}),
    "number": ("x.json", {"mcpServers": {"n": NPX | {"enabled": 0}}}),
    "yaml": ("x.yaml", "mcpServers:\n  n: {command: npx, enabled: off}\n"),
    "gemini-excluded": ("x.json", {"mcp": {"excluded": ["n"]}, "mcpServers": {"n": NPX}}),
    "gemini-allowed": ("x.json", {"mcp": {"allowed": ["m"]}, "mcpServers": {"n": NPX}}),
    "gemini-old": ("x.json", {"excludeMCPServers": ["n"], "mcpServers": {"n": NPX}}),
    "claude-project": (
        ".claude.json",
        {"projects": {"/x": {"mcpServers": {"n": NPX}, "disabledMcpServers": ["n"]}}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content"), OFF.values(), ids=OFF)
def test_a_server_that_is_switched_off_is_disabled(read, name, content):
    (entry,) = read(name, content)
    assert entry.disabled


SOME_TOOLS = {
    "roo": ("x.json", {"mcpServers": {"n": NPX | {"disabledTools": ["drop"]}}}),
    "gemini": ("x.json", {"mcpServers": {"n": NPX | {"excludeTools": ["drop(x)"]}}}),
    "text": ("x.json", {"mcpServers": {"n": NPX | {"disabledTools": "other, drop"}}}),
    "text-only": ("x.json", {"mcpServers": {"n": NPX | {"includeTools": "keep,keep_too"}}}),
    "gemini-only": ("x.json", {"mcpServers": {"n": NPX | {"includeTools": ["keep", "keep_too"]}}}),
    "codex": ("x.toml", '[mcp_servers.n]\ncommand = "npx"\ndisabled_tools = ["drop"]\n'),
    "codex-only": (
        "x.toml",
        '[mcp_servers.n]\ncommand = "x"\nenabled_tools = ["keep", "keep_too"]\n',
    ),
    "goose": (
        "x.yaml",
        "extensions:\n  n: {type: stdio, cmd: npx, available_tools: [keep, keep_too]}\n",
    ),
    "copilot": ("x.json", {"mcpServers": {"n": NPX | {"tools": ["keep*"]}}}),
    "one-by-one": ("x.json", {"mcpServers": {"n": NPX | {"tools": {"drop": {"enabled": False}}}}}),
    "opencode": ("x.json", {"mcp": {"n": NPX}, "tools": {"n_*": False, "n_keep*": True}}),
    "opencode-permission": ("x.json", {"mcp": {"n": NPX}, "permission": {"n_drop": "deny"}}),
    "amp": ("x.json", {"amp.mcpServers": {"n": NPX}, "amp.tools.disable": ["mcp__n__drop"]}),
    "amp-only": ("x.json", {"amp.mcpServers": {"n": NPX | {"includeTools": ["keep*"]}}}),
    "crush": ("crush.json", {"mcp": {"n": NPX | {"type": "stdio", "disabled_tools": ["drop"]}}}),
    "kiro": (".kiro/settings/mcp.json", {"mcpServers": {"n": NPX | {"disabledTools": ["drop"]}}}),
}  # fmt: skip


@pytest.mark.parametrize(("name", "content"), SOME_TOOLS.values(), ids=SOME_TOOLS)
def test_a_tool_that_is_switched_off_stays_off(read, name, content):
    (entry,) = read(name, content)
    assert [it for it in ("keep", "drop", "keep_too") if entry.takes(it)] == ["keep", "keep_too"]


def test_empty_lists_of_tools_mean_what_they_mean_in_the_client(read):
    entries = read(
        "x.json",
        {
            "mcpServers": {
                "none": NPX | {"includeTools": []},
                "all": NPX | {"tools": ["*"], "disabledTools": [], "available_tools": []},
            }
        },
    )
    assert [entry.takes("x") for entry in entries] == [False, True]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.json", {"context_servers": {"n": {"source": "extension"}}}, "extension"),
        ("x.json", {"context_servers": {"n": {"settings": {"key": 1}}}}, "extension"),
        ("x.yaml", "extensions:\n  n: {type: builtin, enabled: true}\n", "type is builtin"),
        ("x.yaml", "mcpServers:\n- uses: notes/mcp\n  name: n\n", "in another file"),
        ("crush.json", {"mcp": {"n": NPX | {"env": {"A": "$(cat key)"}}}}, "output of a command"),
        ("x.json", {"mcpServers": {"n": None}}, "it is null"),
    ],
)  # fmt: skip
def test_a_server_that_only_the_client_can_start_is_skipped_with_the_reason(
    read, name, content, reason
):
    (entry,) = read(name, content)
    assert reason in entry.skipped


def test_the_servers_of_all_projects_have_distinct_names(read, tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "notes.js").touch()
    python = {"command": sys.executable}
    entries = read(
        ".claude.json",
        {
            "mcpServers": {"n": python},
            "projects": {
                str(tmp_path / "app"): {"mcpServers": {"n": python, "m": NPX}},
                str(tmp_path / "web"): {
                    "mcpServers": {"n": python | {"args": ["notes.js"]}, "m": NPX}
                },
                str(tmp_path / "old"): {"mcpServers": {}, "history": []},
            },
        },
    )
    assert [entry.name for entry in entries] == ["n", "m", "n (web)"]
    assert entries[2].parameters().cwd == tmp_path / "web"


def test_yaml_is_read_by_version_1_2(read):
    (entry,) = read(
        "x.yaml",
        "base: &base {command: npx, env: {A: yes, B: 12:30, C: 0123, D: 7, E: true}}\n"
        "mcpServers:\n  on:\n    <<: *base\n    args: [-p, 22:22, 2024-01-01, 1.5]\n",
    )
    assert entry.name == "on"
    assert entry.mapping("env") == {"A": "yes", "B": "12:30", "C": "0123", "D": "7", "E": "true"}
    assert entry.texts("args") == ("-p", "22:22", "2024-01-01", "1.5")


def test_a_command_line_in_one_string_is_split(read, tmp_path):
    program = tmp_path / "with space"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    line, path = read(
        "x.json",
        {
            "mcpServers": {
                "line": {"command": f"{sys.executable} -m 'two words'", "args": ["x"]},
                "path": {"command": str(program)},
            }
        },
    )
    assert line.parameters().args == ("-m", "two words", "x")
    assert path.parameters().command == str(program)
    with pytest.raises(ServerError, match="'no-such-program' is not found"):
        read("y.json", {"mcpServers": {"n": {"command": "no-such-program -x"}}})[0].parameters()


# Each line repeats the one before it nine times.
BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{it}: &a{it} [{', '.join([f'*a{it - 1}'] * 9)}]\n" for it in range(1, 30)
)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.toml", '[mcp_servers.n]\ncommand = "s3cret\n', "not valid TOML: .*line 2"),
        ("x.yaml", "mcpServers:\n- name: 's3cret\n", "line 3, column 1: is not valid YAML"),
        ("x.yaml", "a: &a [*a]\n", "is not valid YAML"),
        ("x.yaml", "n: {command: a}\nn: {command: b}\n", "line 2, column 1: .*found 'n' twice"),
        ("x.yaml", BOMB, "is not valid YAML"),
        ("x.toml", 'model = "x"\n', "names no servers"),
        ("x.yaml", "- a\n", "must be an object"),
    ],
)
def test_an_invalid_file_is_an_error_that_shows_none_of_it(read, name, text, message):
    with pytest.raises(ServersFileError, match=message) as caught:
        read(name, text)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None
