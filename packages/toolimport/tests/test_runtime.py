"""Running generated modules: answers of real servers, and failures."""

import asyncio
import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import anyio
import pytest
from mcp_types import CallToolResult, ElicitResult, TextContent
from pydantic import BaseModel, Field, RootModel
from toolimport import ImportOptions, import_servers
from toolimport.runtime import (
    ClientHandlers,
    ImportedTool,
    ToolCallError,
    ToolRunner,
    close,
    imported_servers,
)
from toolimport.runtime._connection import Relay
from toolimport.runtime._runner import arguments_of

from .conftest import PATIENCE

SERVER = Path(__file__).with_name("small_server.py")
NAMES = ("echo", "pid", "environment", "refuse", "crash", "hang", "ask", "picture", "structured")
# Invalid in the protocol: the library would reject the whole list, and each call's result.
WRONG = (
    {"name": "unnamed-schema"},
    {"name": "stray", "inputSchema": {}, "outputSchema": {"$ref": Path("/etc/passwd").as_uri()}},
    {"name": "no-schema", "inputSchema": {}, "outputSchema": {"type": "object", "minimum": "x"}},
)


@pytest.fixture
def calls(tmp_path):
    """Return the calls that the server received, with their arguments."""
    file = tmp_path / "calls"
    return lambda: file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def file(tmp_path):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    count = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    tools = [{"name": name, "description": name, "inputSchema": schema} for name in NAMES]
    tools[-1] |= {"inputSchema": count, "outputSchema": count}
    tools[0]["annotations"] = {"readOnlyHint": True, "openWorldHint": False, "idempotentHint": 1}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"tools": [*tools, *WRONG], "calls": str(tmp_path / "calls")}))
    entry = {
        "command": sys.executable,
        "args": ["-S", str(SERVER), str(plan)],
        "env": {"API_KEY": "${SHOP_KEY:-none}"},
    }
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"shop": entry}}))
    return file


@pytest.fixture
def runner(file):
    yield ToolRunner("shop", file)
    close()


@pytest.fixture
def imported(file, tmp_path, quick_imports, monkeypatch):
    """The package `mcptools.shop`, generated and importable."""

    async def job():
        return await import_servers(file, tmp_path / "tree", ImportOptions())

    assert anyio.run(job)[0].error == ""
    monkeypatch.syspath_prepend(tmp_path / "tree")
    yield lambda name: importlib.import_module(f"mcptools.shop.{name}")
    close()
    for name in [it for it in sys.modules if it.split(".")[0] == "mcptools"]:
        del sys.modules[name]


@pytest.fixture
def script(file, tmp_path):
    """Start a program that has a runner and prints its server's process id before its text."""

    def run(text, **options):
        program = tmp_path / "program.py"
        program.write_text(
            "import os, signal, sys, threading, time\n"
            "from toolimport.runtime import ToolCallError, ToolRunner\n"
            f"runner = ToolRunner('shop', {str(file)!r})\n"
            "if __name__ == '__main__':\n"
            "    print(runner.run_sync('pid', {}), flush=True)\n"
            + textwrap.indent(textwrap.dedent(text), "    ")
        )
        return subprocess.Popen(
            [sys.executable, "-W", "error", str(program)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    return run


def wait_until_gone(pid, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            # A zombie, which its parent has not waited for, counts as gone.
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
            os.kill(pid, 0)
        except (ProcessLookupError, FileNotFoundError):
            return
        threading.Event().wait(0.02)
    raise AssertionError(f"the server {pid} is still there")


def wait_for(condition, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def test_a_generated_module_returns_the_servers_answer(imported):
    module = imported("echo")
    assert module.run(module.Params(name="x")) == '{"name": "x"}'
    assert module.run(module.Params()) == "{}"


def test_a_tool_with_an_output_schema_returns_a_model(imported):
    module = imported("structured")
    assert module.run(module.Params(count=3)) == module.Result(count=3)


def test_an_answer_that_is_not_a_result_is_an_error_that_has_the_answer(imported, monkeypatch):
    module = imported("structured")
    result = CallToolResult(content=[TextContent(type="text", text="three")])
    monkeypatch.setattr(module.CLIENT, "call", lambda *_: result)
    with pytest.raises(ToolCallError, match="does not match its schema: all of it: Inp") as caught:
        module.run(module.Params(count=3))
    assert "the call was carried out" in str(caught.value)
    assert caught.value.answer == "three"


def test_the_server_is_started_once_and_kept_running(runner):
    assert len({runner.run_sync("pid", {}) for _ in range(3)}) == 1


def test_images_are_mentioned_in_the_text_and_returned_by_call(runner):
    assert runner.run_sync("picture", {}) == "{}\n[image: image/png, 4 characters of base64]"
    assert runner.call("picture", {}).content[1].data == "AAAA"


def test_the_error_has_the_servers_message(runner):
    with pytest.raises(ToolCallError, match="shop: refuse: there is no such thing") as caught:
        runner.run_sync("refuse", {})
    assert (caught.value.server, caught.value.tool) == ("shop", "refuse")


def test_secrets_are_redacted_from_a_servers_error(runner, monkeypatch):
    monkeypatch.setenv("SHOP_KEY", "hunter2")
    with pytest.raises(ToolCallError, match=r"wrong key: \[API_KEY\]"):
        runner.run_sync("leak", {})


def test_other_tools_output_schemas_do_not_slow_a_call_down(script):
    """Checking a schema takes as long as a call, and a server may list hundreds."""
    with script("print(any(it.startswith('jsonschema.') for it in sys.modules))") as running:
        assert running.communicate(timeout=PATIENCE)[0].split()[1:] == ["False"]


@pytest.mark.parametrize("name", [it["name"] for it in WRONG])
def test_a_tool_without_schemas_can_be_called(runner, name):
    assert runner.run_sync(name, {"structured": True}) == {"count": 1}


def test_values_are_read_from_the_environment_when_the_server_starts(runner, monkeypatch):
    monkeypatch.setenv("SHOP_KEY", "hunter2")
    assert runner.run_sync("environment", {"name": "API_KEY"}) == "hunter2"
    close()
    monkeypatch.delenv("SHOP_KEY")
    assert runner.run_sync("environment", {"name": "API_KEY"}) == "none"


def test_a_request_that_may_have_been_carried_out_is_not_sent_again(runner, calls):
    runner.run_sync("pid", {})
    with pytest.raises(ToolCallError, match="ended before it answered"):
        runner.run_sync("crash", {})
    assert calls().count("crash {}") == 1


def test_a_dead_server_is_restarted(runner):
    first = int(runner.run_sync("pid", {}))
    with pytest.raises(ToolCallError):
        runner.run_sync("crash", {})
    second = int(runner.run_sync("pid", {}))
    assert second != first
    os.kill(second, signal.SIGKILL)
    wait_until_gone(second)
    third = ""
    for _ in range(2):  # the first may be sent before the end is noticed
        try:
            third = runner.run_sync("pid", {})
            break
        except ToolCallError as error:
            assert "ended before it answered" in str(error)  # noqa: PT017
    assert third.isdecimal()


def test_a_call_that_takes_too_long_times_out_and_the_server_keeps_running(runner, monkeypatch):
    pid = runner.run_sync("pid", {})
    monkeypatch.setenv("PYTOOLS_CALL_TIMEOUT", "0.2")
    with pytest.raises(ToolCallError, match=r"no answer within 0\.2 s.*PYTOOLS_CALL_TIMEOUT"):
        runner.run_sync("hang", {})
    monkeypatch.delenv("PYTOOLS_CALL_TIMEOUT")
    assert runner.run_sync("pid", {}) == pid


@pytest.mark.parametrize("value", ["soon", "0", "-1", "inf", "nan"])
def test_an_invalid_time_limit_is_reported(runner, monkeypatch, value):
    monkeypatch.setenv("PYTOOLS_CALL_TIMEOUT", value)
    with pytest.raises(ToolCallError, match="PYTOOLS_CALL_TIMEOUT is"):
        runner.run_sync("echo", {})


def test_the_configuration_can_be_another_file(file, tmp_path, monkeypatch):
    moved = tmp_path / "moved.json"
    file.rename(moved)
    runner = ToolRunner("shop", file)
    with pytest.raises(ToolCallError, match=r"does not exist.*PYTOOLS_SERVERS"):
        runner.run_sync("echo", {})
    monkeypatch.setenv("PYTOOLS_SERVERS", str(moved))
    assert runner.run_sync("echo", {}) == "{}"
    close()


def test_the_time_limit_includes_connecting_which_waiting_calls_share(file, monkeypatch):
    hanging = [sys.executable, "-c", "import sys; sys.stderr.write('x'); sys.stdin.read()"]
    content = json.loads(file.read_text())
    content["mcpServers"]["shop"] |= {"command": hanging[0], "args": hanging[1:]}
    file.write_text(json.dumps(content))
    monkeypatch.setenv("PYTOOLS_CALL_TIMEOUT", "0.3")
    runner, told = ToolRunner("shop", file), []

    def call():
        with pytest.raises(ToolCallError, match=r"no answer within 0\.3 s"):
            runner.run_sync("echo", {})
        told.append(True)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(told) == 3
    close()


def test_a_server_removed_from_the_configuration_is_reported(file):
    with pytest.raises(ToolCallError, match="no longer contains it"):
        ToolRunner("another", file).run_sync("echo", {})


def test_threads_share_a_connection(runner):
    answers = []

    def call(number):
        answers.append(runner.run_sync("echo", {"name": str(number)}))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(answers) == sorted(json.dumps({"name": str(number)}) for number in range(8))


def test_a_tool_can_be_called_inside_a_running_event_loop(runner):
    async def job():
        return runner.run_sync("echo", {})

    assert asyncio.run(job()) == "{}"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_run_async_does_not_block_the_event_loop(imported, calls):
    module, hanging = imported("structured"), imported("hang")
    async with anyio.create_task_group() as group:
        group.start_soon(hanging.run_async, hanging.Params())
        while "hang {}" not in calls():
            await anyio.sleep(0.01)
        assert await module.run_async(module.Params(count=3)) == module.Result(count=3)
        with pytest.raises(ToolCallError, match="there is no such thing"):
            await imported("refuse").run_async(imported("refuse").Params())
        group.cancel_scope.cancel()
    with anyio.fail_after(PATIENCE):
        while not any(it.startswith("cancelled ") for it in calls()):
            await anyio.sleep(0.01)


def test_servers_end_with_their_program_even_if_they_ignore_signals(script, file):
    content = json.loads(file.read_text())
    entry = content["mcpServers"]["shop"]
    stubborn = (
        "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "subprocess.run(sys.argv[1:], check=False); signal.pause()"
    )
    entry["args"] = ["-c", stubborn, sys.executable, *entry["args"]]
    file.write_text(json.dumps(content))
    with script("sys.exit(3)") as program:
        output, errors = program.communicate(timeout=PATIENCE)
    assert (program.returncode, errors) == (3, "")
    wait_until_gone(int(output))


def test_ctrl_c_ends_a_call_and_the_servers_with_it(script):
    waiting = """
        import signal, warnings
        # A shell that runs the tests in the background makes their processes ignore SIGINT.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # On a busy machine, the signal may arrive before the call has begun.
        warnings.filterwarnings('ignore', 'coroutine .* was never awaited')
        try:
            print('waiting', flush=True)
            runner.run_sync('hang', {})
        except KeyboardInterrupt:
            print('interrupted', flush=True)
    """
    with script(waiting) as program:
        pid = int(program.stdout.readline())
        assert program.stdout.readline() == "waiting\n"
        program.send_signal(signal.SIGINT)
        output, errors = program.communicate(timeout=PATIENCE)
    assert (output, errors, program.returncode) == ("interrupted\n", "", 0)
    wait_until_gone(pid)


def test_an_interrupt_at_any_moment_of_a_call_leaves_the_next_one_working(script):
    # Python checks for interrupts when a call begins, and after a call of a C function.
    interrupting = """
        import asyncio, warnings
        import toolimport.runtime._background
        # The first moments of a call are before it has been taken.
        warnings.filterwarnings('ignore', 'coroutine .* was never awaited')
        called = asyncio.tasks, asyncio.base_events, asyncio.selector_events
        files = {module.__file__ for module in (*called, toolimport.runtime._background)}
        moment, passed, waiting = 0, 0, False
        def interrupt(frame, event, _):
            global passed, waiting
            if event in ('call', 'c_return') and frame.f_code.co_filename in files:
                passed += 1
            waiting = frame.f_code.co_name == 'result'
            if passed == moment or waiting:
                time.sleep(0.02)  # the other thread may have begun the call by now
                raise KeyboardInterrupt
        while not waiting:
            moment, passed = moment + 1, 0
            sys.setprofile(interrupt)
            try:
                runner.run_sync('hang', {})
            except KeyboardInterrupt:
                sys.setprofile(None)
                assert runner.run_sync('pid', {}).isdigit()
        print(moment)
    """
    with script(interrupting) as program:
        output, errors = program.communicate(timeout=PATIENCE)
    assert (errors, program.returncode) == ("", 0)
    pid, moments = output.split()
    assert int(moments) > 10
    wait_until_gone(int(pid))


def test_threads_that_outlive_the_main_thread_can_call_and_servers_end_after_them(script, tmp_path):
    late = """
        def work():
            threading.main_thread().join()
            for _ in range(2):
                print(runner.run_sync('pid', {}), flush=True)
        threading.Thread(target=work).start()
    """
    with script(late) as program:
        output, errors = program.communicate(timeout=PATIENCE)
    assert (errors, program.returncode) == ("", 0)
    assert len(set(output.split())) == 1
    wait_until_gone(int(output.split()[0]))


LATE = """
import sys, threading
from toolimport.runtime import ToolCallError, ToolRunner
runner = ToolRunner("shop", sys.argv[1])
def call(tool):
    try:
        return runner.run_sync(tool, {})
    except ToolCallError as error:
        return error
def work():
    threading.main_thread().join()
    print(call("pid"), flush=True)
if sys.argv[2] == "again":
    call("crash")
threading.Thread(target=work).start()
"""

# Only these versions of CPython do this: https://github.com/python/cpython/issues/113964
STARTS_LATE_THREADS = not (3, 12) <= sys.version_info < (3, 12, 3)


@pytest.fixture(params=["first", "again"])
def late(request, file):
    """Return the result of a call that connects in a thread that outlives the main thread."""
    command = [sys.executable, "-W", "error", "-c", LATE, str(file), request.param]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.skipif(not STARTS_LATE_THREADS, reason="this Python cannot start a thread so late")
def test_a_server_can_be_started_by_a_thread_that_outlives_the_main_thread(late):
    wait_until_gone(int(late))


def test_a_killed_program_leaves_no_server_behind(script):
    with script("time.sleep(60)") as program:
        pid = int(program.stdout.readline())
        program.kill()
        program.communicate(timeout=PATIENCE)
    wait_until_gone(pid)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_has_separate_servers(script):
    forking = """
        import warnings
        warnings.simplefilter('ignore')
        child = os.fork()
        print(runner.run_sync('pid', {}), flush=True)
        if child:
            os.waitpid(child, 0)
            print(runner.run_sync('pid', {}), flush=True)
    """
    with script(forking) as program:
        output, errors = program.communicate(timeout=PATIENCE)
    first, *others = output.split()
    assert (errors, program.returncode) == ("", 0)
    assert sorted(others.count(pid) for pid in set(others)) == [1, 2]
    assert others.count(first) == 2
    for pid in set(others):
        wait_until_gone(int(pid))


def ended(threads):
    for thread in threads:
        thread.join(PATIENCE)
    return not any(thread.is_alive() for thread in threads)


def test_calling_while_connections_are_being_closed_is_an_error(runner, calls):
    pid, told = int(runner.run_sync("pid", {})), []

    def call():
        with pytest.raises(ToolCallError, match="closed in the meantime"):
            runner.run_sync("hang", {})
        told.append(True)

    threads = [threading.Thread(target=call, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_for(lambda: calls().count("hang {}") == 3)
    close()
    assert ended(threads)
    assert len(told) == 3
    wait_until_gone(pid)
    assert int(runner.run_sync("pid", {})) != pid


def test_calls_from_many_threads_end_even_if_connections_are_closed_repeatedly(runner):
    stop, problems = threading.Event(), []

    def call():
        while not stop.is_set():
            try:
                runner.run_sync("echo", {})
            except ToolCallError:
                pass
            except BaseException as error:
                problems.append(error)
                raise

    threads = [threading.Thread(target=call, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        runner_answers = threading.Event()
        runner_answers.wait(0.05)
        close()
    stop.set()
    assert ended(threads)
    assert problems == []


class Item(BaseModel):
    label: str | None = None
    size: int | None = Field(..., alias="the size")


class Given(BaseModel):
    model_config = {"populate_by_name": True}
    class_: str = Field("x", alias="class")
    items: list[Item] = []
    by_name: dict[str, Item] = {}
    note: str | None = None
    maybe: str | None = Field(...)
    limit: int | None = 10


def test_arguments_have_the_servers_names_and_only_what_was_given():
    item = Item.model_validate({"the size": None})
    given = Given(items=[item], by_name={"a": item}, maybe=None)
    assert arguments_of(given) == {
        "items": [{"the size": None}],
        "by_name": {"a": {"the size": None}},
        "maybe": None,
    }


def test_arguments_can_be_a_mapping_or_a_root_model_only():
    assert arguments_of({"a": 1}) == {"a": 1}
    assert arguments_of(RootModel[dict[str, int]]({"a": 1})) == {"a": 1}
    for wrong in (3, RootModel[int](3)):
        with pytest.raises(TypeError, match="parameters must be"):
            arguments_of(wrong)


@pytest.fixture
def tool(imported, tmp_path):
    """The imported tool of a generated module."""
    return lambda name: ImportedTool.read(tmp_path / f"tree/mcptools/shop/{name}.py")


def test_a_tool_is_called_without_importing_its_module(tool):
    async def job():
        return await tool("echo").call({"name": "x"})

    assert anyio.run(job).content[0].text == '{"name": "x"}'
    assert "mcptools" not in sys.modules


def test_an_imported_tool_has_the_servers_schema_and_hints(tool):
    assert tool("structured").input_schema["required"] == ["count"]
    assert tool("echo").annotations == {"readOnlyHint": True, "openWorldHint": False}
    assert tool("pid").annotations == {}


def test_a_module_that_was_not_generated_is_not_an_imported_tool(tool, tmp_path):
    (tmp_path / "mine.py").write_text("def run(): ...")
    (tmp_path / "tree/mcptools/shop/mine.py").write_text("def run(): ...")

    assert ImportedTool.read(tmp_path / "mine.py") is None
    assert tool("mine") is None


def test_progress_and_meta_data_are_passed_on(tool):
    told = []

    async def on_progress(progress, total, message):
        told.append((progress, total, message))

    async def job():
        runner = ToolRunner("shop", tool("echo").servers_file)
        meta = {"example.org/user": "ada"}
        return await runner.forward("progress", {}, meta=meta, on_progress=on_progress)

    sent = json.loads(anyio.run(job).content[0].text)
    assert sent["example.org/user"] == "ada"
    assert told[-1] == (3.0, 3.0, "step 3")


def test_a_report_that_is_being_passed_on_when_the_call_ends_is_not_lost():
    async def job():
        begun, told = asyncio.Event(), []

        async def on_progress(*report):
            begun.set()
            await asyncio.sleep(0)
            told.append(report)

        async with Relay(on_progress, 1) as relay:
            relay.put(1.0, 2.0, "half")
            await begun.wait()
        return told

    assert anyio.run(job) == [(1.0, 2.0, "half")]


def test_a_call_whose_connection_closes_is_an_error(tool, calls):
    async def job():
        async with anyio.create_task_group() as group:

            async def called():
                with pytest.raises(ToolCallError, match="closed in the meantime"):
                    await tool("hang").call({})

            group.start_soon(called)
            while "hang {}" not in calls():
                await anyio.sleep(0.01)
            await asyncio.to_thread(close)

    anyio.run(job)


SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "pattern": "(a+)+$"},
        "count": {"$ref": "#/$defs/count"},
        "mode": {"enum": ["fast", "slow"]},
        "edits": {"type": "array", "items": {"type": "object", "required": ["old"]}},
    },
    "required": ["path"],
    "additionalProperties": False,
    "$defs": {"count": {"type": "integer", "minimum": 1}},
}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"path": "a", "count": 2, "mode": "fast"}, ()),
        ({}, ("path is missing.",)),
        ({"path": 1}, ("path is 1; it must be of type string.",)),
        ({"path": "a", "mode": "x"}, ('mode is "x"; it must be one of "fast", "slow".',)),
        ({"path": "a", "count": 0}, ("count is 0, which does not fit its schema (minimum: 1).",)),
        ({"path": "a", "edits": [{}]}, ("edits.0.old is missing.",)),
        ({"path": "a", "\x1b[2J": 1}, ('There is no argument "\\u001b[2J".',)),
        ({"path": "a" * 40 + "!"}, ()),
    ],
)
def test_violations_of_the_schema_are_described_in_sentences(given, says):
    tool = ImportedTool(server="s", name="t", servers_file=Path("f"), input_schema=SCHEMA)
    assert tool.problems(given) == says


def property_schema(**schema):
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "given", "says"),
    [
        (property_schema(type="integer", default=1), {}, ()),
        (property_schema(type="object", properties={"n": {"default": 1}}), {"a": {}}, ()),
        (property_schema(type="string", nullable=True), {"a": None}, ()),
        (property_schema(type="string"), {"a": None}, ("a is null; it must be of type string.",)),
        ({"properties": {}, "required": ["ghost"]}, {}, ("ghost is missing.",)),
        ({"properties": {}, "required": ["ghost"], "additionalProperties": False}, {}, ()),
        ({"patternProperties": {"^x": {}}, "additionalProperties": False}, {"x": 1}, ()),
        (
            {"properties": {}, "unevaluatedProperties": False},
            {"b": 1},
            ('There is no argument "b".',),
        ),
    ],
)
def test_a_schema_is_normalized_as_its_server_intends(tool, tmp_path, schema, given, says):
    manifest = tmp_path / "tree/mcptools/shop/_manifest.json"
    content = json.loads(manifest.read_text())
    content["definitions"]["echo"]["input_schema"] = schema
    manifest.write_text(json.dumps(content))
    assert tool("echo").problems(given) == says


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"type": "nonsense"},
        {"properties": {"x": {"$ref": Path("/etc/passwd").as_uri()}}},
        {"properties": {"x": {"$ref": "#/properties/x"}}},
        {"properties": {"x": {"enum": list(range(6000))}}},
    ],
)
def test_arguments_are_not_checked_against_an_unusable_schema(schema):
    tool = ImportedTool(server="s", name="t", servers_file=Path("f"), input_schema=schema)
    assert tool.problems({"x": "y"}) == ()


def test_servers_are_listed_with_their_connection_and_configuration_errors(tool, tmp_path):
    (server,) = imported_servers(tmp_path / "tree")
    states = [(server.is_connected(), server.problem())]

    async def job():
        await tool("echo").call({"name": "x"})
        states.append((server.is_connected(), server.problem()))

    anyio.run(job)
    folder = tmp_path / "tree/mcptools/shop"
    assert (server.name, server.folder) == ("shop", folder)
    assert set(server.tools) == {it.stem for it in folder.glob("[!_]*.py")}
    assert states == [(False, ""), (True, "")]
    server.servers_file.unlink()
    assert "PYTOOLS_SERVERS" in server.problem()
    assert not [*imported_servers(tmp_path / "nothing")]


def asker(client, answer=None):
    async def decline(_):
        return ElicitResult(action="decline")

    capabilities = frozenset({"elicitation"})
    return ClientHandlers(answer=answer or decline, capabilities=capabilities, client=client)


async def asked(runner, caller):
    (block,) = (await runner.forward("ask", {}, client=caller)).content
    return json.loads(block.text)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_servers_question_is_passed_on_only_if_its_caller_is_clear(runner):
    assert await asked(runner, asker("ada")) == {"action": "decline"}

    waiting = asyncio.create_task(runner.forward("hang", {}, client=asker("ada")))
    assert await asked(runner, asker("ada")) == {"action": "decline"}
    assert "which one to ask" in (await asked(runner, asker("bob")))["message"]
    waiting.cancel()
    await asyncio.wait([waiting])
    assert await asked(runner, asker("ada")) == {"action": "decline"}
    assert "which one to ask" in (await asked(runner, asker("bob")))["message"]
    await asyncio.to_thread(close)
    assert await asked(runner, asker("bob")) == {"action": "decline"}
    assert "not supported" in (await asked(runner, None))["message"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_question_of_a_cancelled_call_reaches_no_other_client(runner, calls):
    open_, passed_on = asyncio.Event(), []

    async def wait(_):
        open_.set()
        await asyncio.sleep(3600)

    async def note(request):
        passed_on.append(request)
        return ElicitResult(action="decline")

    first = asyncio.create_task(runner.forward("ask", {}, client=asker("ada", wait)))
    await open_.wait()
    second = asyncio.create_task(runner.forward("hang", {}, client=asker("bob", note)))
    while "hang {}" not in calls():
        await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.wait([first])
    assert "which one to ask" in (await asked(runner, asker("bob", note)))["message"]
    assert passed_on == []
    second.cancel()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_a_caller_that_fails_to_answer_affects_only_its_call(runner, monkeypatch):
    async def fail(_):
        raise LookupError("no dialog")

    async def sleep(_):
        await asyncio.sleep(3600)

    assert "no dialog" in (await asked(runner, asker("ada", fail)))["message"]
    monkeypatch.setattr("toolimport.runtime._connection._PATIENCE", 0.001)
    assert "did not answer" in (await asked(runner, asker("ada", sleep)))["message"]
