"""Reading servers from a configuration, and the parameters of their connections."""

import json
import os
import sys
from pathlib import Path

import pytest
from toolimport._errors import ServerError, ServersFileError
from toolimport.clients._servers import HttpParameters, StdioParameters, read_servers
from toolimport.runtime import ImportedTool, imported_servers


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="servers.json"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file

    return write_file


@pytest.fixture
def only(write):
    """Return the server entry of a definition."""

    def entry(definition, **others):
        return read_servers(write({"mcpServers": {"one": definition}} | others))[0]

    return entry


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({"mcpServers": {"a": {"command": "x"}, "b": {"url": "http://x"}}}, ["a", "b"]),
        ({"servers": {"a": {"type": "stdio", "command": "x"}}}, ["a"]),
        ({"mcp": {"servers": {"a": {"command": "x"}}}, "editor.fontSize": 12}, ["a"]),
        ({"model": "m", "mcp_servers": {"j": {}}, "ptc_servers": {"a": {"command": "x"}}}, ["a"]),
        (
            {"mcpServers": {"a": {"command": "x"}}, "ptc_servers": {"b": {"command": "x"}}},
            ["a", "b"],
        ),
        ({"a": {"command": "x"}, "b": {"url": "http://x"}}, ["a", "b"]),
        ({"mcpServers": {}}, []),
    ],
    ids=["claude-cursor", "vscode", "vscode-settings", "freeact", "both", "bare", "empty"],
)
def test_the_usual_configurations_are_read(write, content, names):
    assert [entry.name for entry in read_servers(write(content))] == names


def test_comments_and_trailing_commas_are_ignored(write):
    file = write(
        """{
          // of the team
          "servers": { /* one */
            "a": {"command": "x", "args": ["// no comment", "/* nor this */", ",]",],},
          },
        }"""
    )
    assert read_servers(file)[0].texts("args") == ("// no comment", "/* nor this */", ",]")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{"mcpServers": {\n  "a": {"command" "x"}\n}}', 2, 19),
        ('{ // a comment\n"mcpServers": {]}', 2, 16),
        ('{"mcpServers": ', 1, 16),
    ],
)
def test_invalid_json_is_reported_with_its_position(write, text, line, column):
    with pytest.raises(ServersFileError, match=rf"line {line}, column {column}") as caught:
        read_servers(write(text))
    assert caught.value.__cause__ is None, "the cause would contain the whole text"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "must be an object"),
        ({}, "names no servers; expected 'mcpServers'"),
        ({"mcpServers": "x"}, "'mcpServers' must be an object"),
        ({"mcpServers": {"a": "x"}}, "the server 'a' must be an object"),
        ({"other": {"x": 1}}, "names no servers"),
        (
            {"mcpServers": {"a": {"command": "x"}}, "servers": {"a": {"command": "y"}}},
            "two servers called 'a'",
        ),
    ],
)
def test_an_unknown_structure_is_an_error_that_says_what_is_expected(write, content, message):
    with pytest.raises(ServersFileError, match=message):
        read_servers(write(content))


def test_a_server_hidden_by_another_of_the_same_name_is_reported(tmp_path):
    file = tmp_path / "servers.json"
    file.write_text('{"servers": {"a": {"command": "x"}, "a": {"command": "y"}}}')
    with pytest.raises(ServersFileError, match="'a' twice"):
        read_servers(file)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(ServersFileError, match=r"none\.json: does not exist"):
        read_servers(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("definition", "transport"),
    [
        ({"command": "x"}, "stdio"),
        ({"url": "https://x.org/mcp"}, "http"),
        ({"url": "https://x.org/sse"}, "sse"),
        ({"url": "https://x.org/sse/?a=1"}, "sse"),
        ({"url": "https://x.org/sse", "type": "http"}, "http"),
        ({"url": "https://x.org", "transport": "streamable-http"}, "http"),
        ({"url": "https://x.org", "type": "streamable_http"}, "http"),
        ({"url": "https://x.org", "type": "sse"}, "sse"),
        ({"serverUrl": "https://x.org"}, "http"),
    ],
)
def test_the_transport_is_the_named_one_or_follows_from_the_definition(only, definition, transport):
    assert only(definition).transport == transport


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({}, "needs a 'command' to start, or a 'url'"),
        ({"command": "x", "type": "websocket"}, "'type' must be stdio"),
        ({"command": 3}, "'command' must be"),
        ({"command": "x", "args": "y"}, "'args' must be a list"),
        ({"command": "x", "env": ["y"]}, "'env' must be an object"),
        ({"command": "x", "cwd": 3}, "'cwd' must be a path"),
        ({"command": sys.executable, "cwd": "nowhere"}, "nowhere.*does not exist"),
        ({"command": "no-such-program"}, "'no-such-program' is not found; install it"),
        ({"command": "./no-such-program"}, "is not found"),
        ({"command": sys.executable, "args": ["\0"]}, "NUL"),
        ({"command": sys.executable, "envFile": "none.env"}, "'envFile'.*does not exist"),
        ({"url": "ftp://x.org"}, "'url' must begin with http"),
        ({"url": "http://x.org", "headers": {"a": "x\ny"}}, "'headers' must each be one line"),
        ({"url": "http://x.org", "headers": {"a": "\u00e9"}}, "'headers' must .* ASCII"),
    ],
)
def test_an_entry_that_cannot_be_used_is_reported_with_the_servers_name(only, definition, message):
    with pytest.raises(ServerError, match=f"server 'one': .*{message}"):
        only(definition).parameters()


def _make_pipe(file):
    os.mkfifo(file)


def _make_device(file):
    file.symlink_to("/dev/zero")


def _make_huge(file):
    with file.open("wb") as opened:
        opened.truncate(5 << 30)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
@pytest.mark.parametrize("make", [_make_pipe, _make_device, _make_huge])
def test_a_file_that_might_never_end_is_not_read(only, tmp_path, make):
    make(tmp_path / "endless")

    with pytest.raises(ServersFileError, match=r"cannot be read: it is (not a regular|larger)"):
        read_servers(tmp_path / "endless")
    entry = only({"command": sys.executable, "envFile": str(tmp_path / "endless")})
    with pytest.raises(ServerError, match=r"'envFile'.*(does not exist|cannot be read)"):
        entry.parameters()
    folder = tmp_path / "tools" / "mcptools" / "shop"
    folder.mkdir(parents=True)
    (tmp_path / "endless").rename(folder / "_manifest.json")
    (folder / "buy.py").write_text("def run(): 'Buy.'\n")
    assert ImportedTool.read(folder / "buy.py") is None
    assert not [*imported_servers(tmp_path / "tools")]


def test_references_are_replaced_by_the_values_of_variables(only, monkeypatch, tmp_path):
    monkeypatch.setenv("TOKEN", "t0ken")
    monkeypatch.setenv("PYTOOLS_INPUT_API_KEY", "k3y")
    monkeypatch.delenv("UNSET", raising=False)
    parameters = only(
        {
            "command": sys.executable,
            "args": ["--dir=${workspaceFolder}", "${UNSET:-plain}", "${env:TOKEN}", 3],
            "env": {"A": "Bearer ${TOKEN}", "B": "${input:api-key}", "C": "${input:other}", "D": 1},
        },
        inputs=[{"id": "other", "default": "standard"}, {"id": "api-key", "password": True}],
    ).parameters()
    assert isinstance(parameters, StdioParameters)
    assert parameters.args == (f"--dir={tmp_path}", "plain", "t0ken", "3")
    assert given(parameters) == {"A": "Bearer t0ken", "B": "k3y", "C": "standard", "D": "1"}


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("${NOT_SET}", "the environment variable NOT_SET is not set"),
        ("${env:NOT_SET}", "the environment variable NOT_SET is not set"),
        ("${input:api key}", r"PYTOOLS_INPUT_API_KEY, which answers \$\{input:api key\}, is not"),
        ("${command:x}", r"\$\{command:x\} is not supported here"),
        ("${A:-${B:-c}}", "nested references are not supported"),
    ],
)
def test_a_reference_without_a_value_names_the_variable_and_the_server(only, reference, message):
    with pytest.raises(ServerError, match=f"server 'one': .*{message}"):
        only({"url": "http://x.org", "headers": {"Authorization": reference}}).parameters()


def test_variables_in_headers_and_urls_are_expanded(only, monkeypatch):
    monkeypatch.setenv("HOST", "x.org")
    parameters = only({"url": "https://${HOST}/mcp", "headers": {"H": "${HOST}"}}).parameters()
    assert isinstance(parameters, HttpParameters)
    assert (parameters.url, parameters.headers) == ("https://x.org/mcp", {"H": "x.org"})


def test_a_server_starts_in_the_workspace_wherever_it_is_called_from(write, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    definition = {"command": sys.executable}
    for name in ("servers.json", ".vscode/mcp.json", ".freeact/agent.json"):
        entry = read_servers(write({"servers": {"a": definition}}, name))[0]
        assert entry.parameters().cwd == tmp_path, name
    entry = read_servers(write({"servers": {"a": definition | {"cwd": "elsewhere"}}}))[0]
    assert entry.parameters().cwd == tmp_path / "elsewhere"


def test_variables_of_the_entry_override_those_of_the_env_file(only, tmp_path):
    (tmp_path / "x.env").write_text('A=1\nB="two words"\n# C=3\n')
    entry = only(
        {"command": sys.executable, "envFile": "${workspaceFolder}/x.env", "env": {"A": "0"}}
    )
    assert given(entry.parameters()) == {"A": "0", "B": "two words"}


def test_an_interpreters_link_is_not_resolved(only, tmp_path):
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert Path(only({"command": "./python"}).parameters().command) == link


def test_entries_and_parameters_show_no_secrets(only):
    entry = only({"command": sys.executable, "args": ["s3cret"], "env": {"A": "s3cret"}})
    web = only({"url": "http://x.org/?key=s3cret", "headers": {"A": "s3cret"}})
    shown = [repr(entry), repr(entry.parameters()), repr(web), repr(web.parameters())]
    assert "s3cret" not in "".join(shown)


def given(parameters):
    """Return the variables that only this server has; their names have one letter."""
    return {name: it for name, it in parameters.env.items() if len(name) == 1}


def test_a_server_gets_the_needed_variables_and_no_secrets_of_others(only, monkeypatch):
    needed = ["HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE", "UV_INDEX_URL", "npm_config_registry"]
    others = ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "UV_PUBLISH_TOKEN", "DATABASE_URL"]
    for name in (*needed, *others):
        monkeypatch.setenv(name, "http://me:hunter2@127.0.0.1:9")
    parameters = only({"command": sys.executable}).parameters()
    assert set(needed) <= parameters.env.keys()
    assert not set(others) & parameters.env.keys()
    assert "hunter2" not in parameters.redactor.text("no answer from me:hunter2@127.0.0.1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", "me:hunter/2@proxy:3128"),
        ("PIP_EXTRA_INDEX_URL", "https://x.org/simple https://me:hunter/2@y.org/simple"),
        ("UV_INDEX", "ours=https://me:hunter/2@y.org/simple"),
    ],
)
def test_package_index_and_proxy_variables_are_passed_on_but_not_shown(
    only, monkeypatch, name, value
):
    monkeypatch.setenv(name, value)
    parameters = only({"command": sys.executable}).parameters()
    assert parameters.env[name] == value
    assert "hunter" not in parameters.redactor.text(f"cannot reach {value}, with hunter/2")
