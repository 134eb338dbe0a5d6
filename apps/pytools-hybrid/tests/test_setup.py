"""Setting up clients: changes of their files can be undone, and nothing is lost."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytools_hybrid.installation import own_entry
from toolimport import ToolImportError
from toolimport.clients import Client, ServersFile

NAMES = st.sampled_from(["clock", "git", "pytools", "mine", "näme", "a b", "//", 'quo"te'])
THEIRS = st.fixed_dictionaries(
    {"command": st.sampled_from(["uvx", "node", "/* no */", "{[,"])},
    optional={"args": st.lists(st.text(max_size=5), max_size=2), "disabled": st.booleans()},
)
# Entries for our server that were written by hand.
OURS = st.just({"command": "/opt/pytools-hybrid", "args": ["serve", "--root", "/mine"]})
OTHERS = st.dictionaries(
    st.sampled_from(["theme", "inputs", "x"]), st.none() | st.text(max_size=5) | st.lists(st.none())
)
CHANGING = {"open", "os.rename", "os.remove", "os.chmod", "os.mkdir"}
OWN = json.dumps(own_entry([], {})["command"])


def client(folder):
    known = Client.known(system="linux", environment={}, home=folder, folder=folder)
    (folder / ".cursor").mkdir(exist_ok=True)
    return next(it for it in known if it.name == "cursor")


def plan(it, folder, ours=None):
    ours = ours or ServersFile(folder / "servers.json")
    return ours.plan(it, lambda env: own_entry([folder / "tools"], env), folder)


def set_up(it, folder, names=None):
    """Do what the command does after it has imported all servers, or the named ones."""
    ours = ServersFile(folder / "servers.json")
    change = plan(it, folder, ours)
    ours.save()
    return change.make(
        [own for (_, theirs), own in change.names.items() if names is None or theirs in names]
    )


def plain(text):
    """Parse JSON with comments on separate lines."""
    lines = text.removeprefix("\ufeff").splitlines()
    return json.loads("\n".join(it for it in lines if not it.strip().startswith("// note")))


@st.composite
def configurations(draw):
    """Draw the text of a file as people and clients write it."""
    servers = draw(st.dictionaries(NAMES, THEIRS | OURS, max_size=4))
    content = draw(OTHERS) | draw(st.sampled_from([{}, {"mcpServers": servers}]))
    text = json.dumps(
        content, indent=draw(st.sampled_from([None, 2, "\t"])), ensure_ascii=draw(st.booleans())
    )
    lines = text.split("\n")
    for number in range(draw(st.integers(0, 2))):
        lines.insert(draw(st.integers(0, len(lines))), f"// note {number} of mine")
    text = draw(st.sampled_from(["\n", "\r\n"])).join(lines)
    return draw(st.sampled_from(["", "\ufeff"])) + text + draw(st.sampled_from(["", "\n", "\n\n"]))


@given(text=configurations(), names=st.sets(NAMES), data=st.data())
def test_undo_restores_a_file_and_keeps_later_edits(tmp_path_factory, text, names, data):
    folder = tmp_path_factory.mktemp("home")
    it = client(folder)
    it.file.write_bytes(text.encode())
    set_up(it, folder, names)
    if data.draw(st.booleans(), "a second run"):
        set_up(it, folder)
        changed = it.file.read_bytes()
        assert not set_up(it, folder)
        assert it.file.read_bytes() == changed
    lines = it.file.read_bytes().decode().split("\n")
    notes = [f"// note {it} made since" for it in range(data.draw(st.integers(0, 2), "comments"))]
    for note in notes:
        places = [*range(1, len(lines) + 1)]
        for number, line in enumerate(lines):
            if OWN in line:
                # No comments within our entry, which will be removed.
                end = next(it for it in range(number, len(lines)) if lines[it].strip()[:1] == "}")
                places = [it for it in places if not number <= it <= end]
        lines.insert(data.draw(st.sampled_from(places), "where"), note)
    edited = "\n".join(lines)
    it.file.write_bytes(edited.encode())
    it.undo()
    after = it.file.read_bytes().decode()
    if notes:
        assert plain(after).get("mcpServers", {}) == plain(text).get("mcpServers", {})
        assert all(note in after for note in notes)
    else:
        assert after == text
        assert not it.backup.exists()


@st.composite
def dense_texts(draw):
    """Draw a JSONC text with comments, line ends and tabs between any two tokens."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    gaps = st.lists(
        st.sampled_from([" ", "\t", newline, "/* a */", "/**/", '/* { " */', f"// b, }}{newline}"]),
        max_size=3,
    ).map("".join)

    def joined(items, brackets):
        comma = draw(st.sampled_from(["", ","])) if items else ""
        inner = ",".join(f"{draw(gaps)}{it}{draw(gaps)}" for it in items)
        return f"{brackets[0]}{inner}{comma}{draw(gaps)}{brackets[1]}"

    def written(value):
        if isinstance(value, dict):
            members = [
                f"{json.dumps(key)}{draw(gaps)}:{draw(gaps)}{written(it)}"
                for key, it in value.items()
            ]
            if members and draw(st.integers(0, 9)) == 0:
                members.append(members[-1])  # a key that is there twice
            return joined(members, "{}")
        if isinstance(value, list):
            return joined([written(it) for it in value], "[]")
        return json.dumps(value)

    servers = draw(st.dictionaries(NAMES, THEIRS | OURS, max_size=3))
    content = draw(st.sampled_from([{}, {"theme": "x"}])) | draw(
        st.sampled_from([{}, {"mcpServers": servers}, {"mcpServers": servers, "z": {"a": [1]}}])
    )
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return f"{mark}{draw(gaps)}{written(content)}{draw(gaps)}"


def comments(text):
    found = re.finditer(r'"(?:[^"\\]|\\.)*"|(//[^\r\n]*|/\*.*?\*/)', text, re.DOTALL)
    return sorted(it[1].rstrip() for it in found if it[1])


@given(text=dense_texts(), names=st.sets(NAMES))
def test_setup_keeps_every_comment_or_leaves_the_file_alone_and_undo_restores_every_byte(
    tmp_path_factory, text, names
):
    folder = tmp_path_factory.mktemp("home")
    it = client(folder)
    it.file.write_bytes(text.encode())
    try:
        set_up(it, folder, names)
    except ToolImportError:
        assert it.file.read_bytes().decode() == text
    else:
        assert comments(it.file.read_bytes().decode()) == comments(text)
        set_up(it, folder)
    it.undo()
    assert it.file.read_bytes().decode() == text


@pytest.mark.parametrize(
    "comment",
    ['"clock": /* key */ {"command": "uvx"}', '"clock" /* key */: {"command": "uvx"}',
     '"clock": {"command": "uvx"} /* key */', '"clock": {"command": "uvx"} // key'],
)  # fmt: skip
def test_a_comment_beside_a_server_moves_with_it_and_back(tmp_path, comment):
    it = client(tmp_path)
    it.file.write_text(f'{{"mcpServers": {{{comment}\n, "git": {{"command": "uvx"}}}}}}')
    set_up(it, tmp_path)
    it.file.write_text(it.file.read_text().replace("{", '{"theme": 1,', 1))
    it.undo()
    assert "key" in it.file.read_text()


def claude(folder, *, here):
    known = Client.known(system="linux", environment={}, home=folder, folder=here)
    return next(it for it in known if it.name == "claude-code")


def test_the_servers_of_claude_codes_current_project_are_moved_and_restored(tmp_path):
    app, web = tmp_path / "app", tmp_path / "web"
    (app / "src").mkdir(parents=True)
    (app / ".git").mkdir()
    (app / "notes.py").touch()
    notes, other = ({"command": "python", "args": [it]} for it in ("notes.py", "other.py"))
    before = json.dumps(
        {
            "mcpServers": {"one": {"command": "uvx"}},
            "projects": {
                str(app): {"mcpServers": {"notes": notes, "one": notes | {"env": {"A": "b"}}}},
                str(web): {"mcpServers": {"other": other}, "lastCost": 1},
            },
        }
    )
    it = claude(tmp_path, here=app / "src")
    it.file.write_text(before)
    set_up(it, tmp_path)
    content = json.loads(it.file.read_text())
    assert list(content["mcpServers"]) == ["pytools"]
    assert content["mcpServers"]["pytools"]["alwaysLoad"] is True
    assert content["projects"][str(app)]["mcpServers"] == {}
    assert content["projects"][str(web)] == {"mcpServers": {"other": other}, "lastCost": 1}
    ours = json.loads((tmp_path / "servers.json").read_text())["mcpServers"]
    assert {name: definition["cwd"] for name, definition in ours.items()} == {
        "one": str(tmp_path), "notes": str(app), "one-2": str(app),
    }  # fmt: skip
    # Claude Code writes the file all the time.
    it.file.write_text(json.dumps(content | {"numStartups": 4}))
    claude(tmp_path, here=web).undo()
    assert json.loads(it.file.read_text()) == json.loads(before) | {"numStartups": 4}


def test_a_server_that_is_disabled_in_the_current_project_stays(tmp_path):
    it = claude(tmp_path, here=tmp_path / "app")
    project = {"mcpServers": {"notes": {"command": "uvx"}}, "disabledMcpServers": ["notes", "one"]}
    servers = {"one": {"command": "uvx"}, "two": {"command": "node"}}
    it.file.write_text(
        json.dumps({"mcpServers": servers, "projects": {str(tmp_path / "app"): project}})
    )
    change = plan(it, tmp_path)
    assert [*change.names.values()] == ["two"]
    assert change.staying == {"notes": "it is disabled", "one": "it is disabled"}


def test_the_same_server_in_several_clients_is_one_server(tmp_path, monkeypatch):
    monkeypatch.setenv("NOTES_TOKEN", "t0ken")
    program = Path(sys.executable)
    monkeypatch.setenv("PATH", str(program.parent))
    ours = ServersFile(tmp_path / "servers.json")
    env = {"T": "${NOTES_TOKEN}"}
    first = ours.add({"command": program.name, "args": ["a"], "env": env}, "notes")
    same = [
        {"type": "stdio", "command": str(program), "args": ["a"], "env": env, "alwaysAllow": ["x"]},
        {"command": program.name, "args": ["a"], "env": {"T": "${env:NOTES_TOKEN}"}, "cwd": ""},
        {"command": program.name, "args": ["a"], "env": {"T": "t0ken"}, "headers": {}},
    ]
    assert {ours.add(it, "other") for it in same} == {first}
    others = [
        {"command": program.name, "args": ["a"]},
        {"command": program.name, "args": ["a"], "env": {"T": "another"}},
        {"command": program.name, "args": ["a"], "env": env, "disabledTools": ["x"]},
    ]
    assert [ours.add(it, "notes") for it in others] == ["notes-2", "notes-3", "notes-4"]


def test_the_same_server_is_recognised_without_the_values_of_its_variables(tmp_path, monkeypatch):
    monkeypatch.delenv("NOTES_TOKEN", raising=False)
    ours = ServersFile(tmp_path / "servers.json")
    first = ours.add({"command": "uvx", "env": {"T": "${NOTES_TOKEN}"}}, "notes")
    assert ours.add({"command": "uvx", "env": {"T": "${env:NOTES_TOKEN}"}}, "memo") == first


def is_killed(work, number):
    """Run work in a process that is killed before it changes a file for the nth time."""
    process = os.fork()
    if not process:
        left = iter(range(number))

        def kill(event, arguments):
            is_read = event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR)
            if event in CHANGING and not is_read and next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(kill)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert ended in (0, -signal.SIGKILL)
    return ended != 0


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_run_killed_at_any_point_loses_nothing_and_the_next_one_completes(tmp_path):
    before = b'{"mcpServers": {"clock": {"command": "uvx", "args": ["clock"]}}}'
    killed, number = 1, 0
    while killed:
        folder = tmp_path / str(number)
        folder.mkdir()
        it = client(folder)
        it.file.write_bytes(before)
        killed = is_killed(lambda folder=folder, it=it: set_up(it, folder), number)
        assert before in [file.read_bytes() for file in it.file.parent.iterdir()]
        set_up(it, folder)
        assert it.backup.read_bytes() == before
        assert '"clock"' in it.file.read_text().partition(it.aside)[2]
        assert '"clock"' in (folder / "servers.json").read_text()
        killed += is_killed(lambda it=it: it.undo(), number)
        assert before in [file.read_bytes() for file in it.file.parent.iterdir()]
        it.undo()
        assert it.file.read_bytes() == before
        assert {file.name for file in folder.rglob("*")} == {".cursor", "mcp.json", "servers.json"}
        number += 1
    assert number > 5


def test_a_file_is_written_although_another_setup_discards_unfinished_ones(tmp_path, monkeypatch):
    it, sync = client(tmp_path), os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (other.pop()(), sync(file)) if other else None)
    other = [lambda: plan(it, tmp_path)]
    set_up(it, tmp_path)
    assert "pytools" in it.file.read_text()


def test_undo_restores_a_broken_link(tmp_path):
    it = client(tmp_path)
    it.file.symlink_to(tmp_path / "dotfiles" / "mcp.json")
    with pytest.raises(ToolImportError, match=r"mcp\.json, whose folder does not exist; create"):
        set_up(it, tmp_path)
    (tmp_path / "dotfiles").mkdir()
    set_up(it, tmp_path)
    assert "pytools" in (tmp_path / "dotfiles" / "mcp.json").read_text()
    it.undo()
    assert it.file.is_symlink()
    assert not it.file.exists()


def test_the_backup_of_an_earlier_setup_is_kept_and_not_restored(tmp_path):
    it = client(tmp_path)
    it.file.write_text('{"theme": "dark"}')
    set_up(it, tmp_path)
    it.file.unlink()
    assert f"{it.backup} is a copy from before setup" in it.undo()
    set_up(it, tmp_path)
    it.undo()
    (copy,) = it.file.parent.iterdir()
    assert copy.read_text() == '{"theme": "dark"}'


@pytest.mark.parametrize(
    "server",
    [
        {"command": "x", "args": ["--api-key", "hunter2hunter2"]},
        {"command": "x", "args": ["--header=Authorization: Bearer hunter2hunter2"]},
        {"command": "x", "args": ["postgres://me:hunter2hunter2@host/db"]},
        {"url": "https://example.org/mcp?key=hunter2hunter2"},
        {"url": "https://hunter2hunter2@example.org/mcp"},
        {"url": "https://example.org/", "oauth": {"clientSecret": "hunter2hunter2"}},
        {"url": "https://example.org/", "headers": {"X-Any": "hunter2hunter2"}},
    ],
)
def test_a_diff_shows_no_secrets(tmp_path, server):
    it = client(tmp_path)
    it.file.write_text(
        json.dumps({"mcpServers": {"one": server}, "apiKey": "hunter2hunter2"}, indent=2)
        + "\n// sk-4f9a8b7c6d5e4f3a2b1c"
    )
    change = plan(it, tmp_path)
    shown = change.diff()
    assert '"one"' in shown
    assert "hunter2" not in shown
    assert "4f9a8b7c6d5e4f3a2b1c" not in shown


@pytest.mark.parametrize(
    ("system", "environment", "settings", "claude"),
    [
        ("linux", {}, ".config", "."),
        ("linux", {"XDG_CONFIG_HOME": "/me/mine"}, "mine", "."),
        ("darwin", {"XDG_CONFIG_HOME": "/me/mine"}, "Library/Application Support", "."),
        ("win32", {}, "AppData/Roaming", "."),
        ("win32", {"APPDATA": "/me/Profile"}, "Profile", "."),
        ("linux", {"CLAUDE_CONFIG_DIR": "/me/work"}, ".config", "work"),
    ],
)
def test_each_client_has_its_configuration_file_on_each_system(
    system, environment, settings, claude
):
    home = Path("/me")
    known = Client.known(system=system, environment=environment, home=home, folder=home / "here")
    assert {it.name: it.file for it in known} == {
        "claude-code": home / claude / ".claude.json",
        "claude-desktop": home / settings / "Claude" / "claude_desktop_config.json",
        "cursor": home / ".cursor" / "mcp.json",
        "vscode": home / settings / "Code" / "User" / "mcp.json",
        "freeact": home / "here" / ".freeact" / "agent.json",
    }
