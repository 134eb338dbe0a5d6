"""`pytools-hybrid import`, from a configuration to calls to real servers over each transport."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from .conftest import PATIENCE

SERVER = '''\
import sys
from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel

app = MCPServer("shop", instructions="Everything about the shop.")

class Order(BaseModel):
    article: str
    pieces: int

@app.tool()
def place_order(article: str, pieces: int = 1) -> Order:
    """Buy some pieces of an article."""
    return Order(article=article, pieces=pieces)

@app.tool(name="opening-hours", structured_output=False)
def opening_hours(day: str) -> str:
    """Tell when the shop is open on a day of the week."""
    if day == "never":
        raise ValueError("there is no such day")
    return f"{day}: 9 to 18"

transport, *port = sys.argv[1:]
app.run(transport, **({"port": int(port[0])} if port else {}))
'''
# The servers import a library, which takes a busy machine long.
PATIENTLY = ("import", "--timeout", str(PATIENCE))
TOOLS = ("mcptools:{}:opening_hours", "mcptools:{}:place_order")


@pytest.fixture
def server(tmp_path):
    file = tmp_path / "shop.py"
    file.write_text(SERVER)
    return file


@pytest.fixture
def listening(server, patient):
    """Start the server with a transport, and yield its port."""

    @contextmanager
    def start(transport, port=0):
        with subprocess.Popen(
            [sys.executable, str(server), transport, str(port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            try:
                said = ""
                with patient(process, "the address of the server"):
                    while not (found := re.search(r"running on http://[\d.]+:(\d+)", said)):
                        said = process.stderr.readline()
                        assert said, "the server has ended"
                yield int(found[1])
            finally:
                process.kill()

    return start


@pytest.fixture
def write(tmp_path):
    def write_servers(**servers):
        file = tmp_path / "servers.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        return file

    return write_servers


@pytest.fixture
def call(run, tmp_path):
    """Run a program with the imported tools on its path."""

    def run_program(*lines):
        done = run(
            "-W", "error", "-c", "\n".join(lines), program=(sys.executable,),
            PYTHONPATH=str(tmp_path / "tree"),
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout.splitlines()

    return run_program


def test_servers_over_each_transport_are_imported_found_and_called(
    run, listening, server, write, call, tmp_path
):
    tree, database = ("--root", tmp_path / "tree"), ("--db", tmp_path / "index.db")
    with listening("streamable-http") as web, listening("sse") as events:
        file = write(
            process={"command": sys.executable, "args": [str(server), "stdio"]},
            web={"url": f"http://127.0.0.1:{web}/mcp"},
            events={"url": f"http://127.0.0.1:{events}/sse"},
        )
        done = run(*PATIENTLY, file, *tree, *database)
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.splitlines()) == [
            f"{name}: 2 tools (2 new)" for name in ("events", "process", "web")
        ]
        assert "6 tools of 3 servers in " in done.stderr

        found = run("search", "when is it open on Sunday?", *tree, *database, "--output", "json")
        best = json.loads(found.stdout)
        assert "opening_hours" in json.dumps(best).split("place_order")[0]

        assert call(
            "from mcptools import events, process, web",
            "from importlib import import_module",
            "for package in (process, web, events):",
            "    hours = import_module(f'{package.__name__}.opening_hours')",
            "    print(hours.run(hours.Params(day='Sunday')))",
            "    order = import_module(f'{package.__name__}.place_order')",
            "    print(repr(order.run(order.Params(article='tea', pieces=3))))",
        ) == 3 * ["Sunday: 9 to 18", "Result(article='tea', pieces=3)"]

        again = run(*PATIENTLY, file, *tree, *database)
        assert sorted(again.stdout.splitlines()) == [
            f"{name}: 2 tools, unchanged" for name in ("events", "process", "web")
        ]


def test_a_call_reconnects_to_a_restarted_http_server(
    run, listening, write, tmp_path, patient, port
):
    with listening("streamable-http", port):
        file = write(web={"url": f"http://127.0.0.1:{port}/mcp"})
        assert run(*PATIENTLY, file, "--root", tmp_path / "tree").returncode == 0
        program = """
from mcptools.web.opening_hours import Params, run
from toolimport.runtime import ToolCallError
for _ in sys.stdin:
    try:
        print(run(Params(day="Sunday")), flush=True)
    except ToolCallError as error:
        print(error, flush=True)
"""
        calling = subprocess.Popen(
            [sys.executable, "-c", f"import sys\nsys.path.insert(0, {str(tmp_path / 'tree')!r})\n"
             + program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

        def ask():
            calling.stdin.write("\n")
            calling.stdin.flush()
            with patient(calling, "the result of a call"):
                return calling.stdout.readline().strip()

        assert ask() == "Sunday: 9 to 18"
    with calling:
        assert ask().startswith("web: opening-hours: cannot be reached")
        with listening("streamable-http", port):
            assert ask() == "Sunday: 9 to 18"
        calling.stdin.close()


def test_a_failing_server_exits_with_1_and_the_others_are_imported(run, server, write, tmp_path):
    secret = {"env": {"SHOP_TOKEN": "hunter2-literal"}}
    broken = ["-c", "import os, sys; sys.exit(os.environ['SHOP_TOKEN'])"]
    file = write(
        good={"command": sys.executable, "args": [str(server), "stdio"]},
        bad={"command": sys.executable, "args": broken} | secret,
    )
    done = run(*PATIENTLY, file, "--root", tmp_path / "tree", "--output", "json")
    assert done.returncode == 1
    by_name = {it["server"]: it for it in json.loads(done.stdout)["servers"]}
    assert by_name["good"]["added"] == ["opening_hours", "place_order"]
    assert by_name["bad"]["error"] == "ended before it answered; its last lines were: [SHOP_TOKEN]"
    assert "hunter2" not in done.stdout + done.stderr


def test_our_own_server_is_left_alone(run, write, tmp_path):
    ours = {"command": "/opt/bin/pytools-hybrid", "args": ["serve", "--tools", "call"]}
    uvx = {"command": "uvx", "args": ["pytools-hybrid", "serve"]}
    done = run("import", write(pytools=ours, other=uvx), "--root", tmp_path / "tree")
    assert sorted(done.stdout.splitlines()) == [
        "other: left alone: it is pytools-hybrid itself",
        "pytools: left alone: it is pytools-hybrid itself",
    ]
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ('{"mcpServers": {"a" 1}}', [], "line 1, column 21: is not valid JSON here"),
        ('{"other": 1}', [], "names no servers; expected 'mcpServers'"),
        ('{"mcpServers": {}}', ["--only", "x"], "--only: .* has no server 'x'; it has none at all"),
    ],
)
def test_an_unusable_configuration_exits_with_2(run, tmp_path, text, arguments, message):
    file = tmp_path / "servers.json"
    file.write_text(text)
    done = run("import", file, "--root", tmp_path / "tree", *arguments)
    assert done.returncode == 2
    assert re.search(message, done.stderr)
    assert "Traceback" not in done.stderr


def test_for_freeact_modules_call_the_tool_server_of_mcpygen(run, server, write, home):
    entry = {
        "command": sys.executable,
        "args": [str(server), "stdio"],
        "env": {"SHOP_KEY": "hunter2"},
    }
    root = home / ".freeact" / "generated"
    done = run(*PATIENTLY, write(shop=entry), "--runtime", "mcpygen", "--root", root)
    assert done.returncode == 0, done.stderr
    assert "set these for mcpygen's tool server: SHOP_KEY" in done.stderr
    folder = root / "mcptools" / "shop"
    initial = (folder / "__init__.py").read_text()
    assert "from mcpygen.tool_exec.client import ToolRunner" in initial
    assert "'env': {'SHOP_KEY': '${SHOP_KEY}'}" in initial
    module = (folder / "opening_hours.py").read_text()
    assert "tool_args=params.model_dump(" in module
    assert "exclude_unset=True" in module


def test_a_missing_extra_is_named(run, write, tmp_path):
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "datamodel_code_generator.py").write_text("raise ImportError('not installed')")
    done = run("import", write(), PYTHONPATH=str(blocked))
    assert done.returncode == 2
    assert '[import]"' in done.stderr


def test_an_index_that_could_not_be_updated_exits_with_1(run, counted, server, write, tmp_path):
    file = write(shop={"command": sys.executable, "args": [str(server), "stdio"]})
    counted.fault.write_text("no key")
    done = run(
        *PATIENTLY, file, "--root", tmp_path / "tree", "--output", "json",
        program=counted.command, **counted.variables,
    )  # fmt: skip
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["index_error"]
    assert told["index_error"] in done.stderr
    assert told["servers"][0]["status"] == "imported"


def test_only_and_prune_exclude_each_other(run, write, tmp_path):
    done = run("import", write(a={"command": "x"}), "--only", "a", "--prune")
    assert done.returncode == 2
    assert "--only" in done.stderr


STUBBORN = """
import os, pathlib, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
while True:
    signal.pause()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_import_leaves_no_server_running(
    command, home, environment, write, tmp_path, number
):
    files = [tmp_path / f"{name}.pid" for name in "ab"]
    servers = {
        it.stem: {"command": sys.executable, "args": ["-c", STUBBORN, str(it)]} for it in files
    }
    with subprocess.Popen(
        [command, "import", str(write(**servers)), "--root", str(tmp_path / "tree")],
        cwd=home, env=environment, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        wait_for(lambda: all(it.exists() and it.read_text() for it in files))
        process.send_signal(number)
        process.send_signal(number)  # a terminal and a wrapper each send one
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert "interrupted" in errors
    for it in files:
        wait_for(lambda it=it: not is_running(int(it.read_text())))


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie counts as ended.
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return state.stdout.strip()[:1] not in {"", "Z"}
