"""From a servers file to packages of tools, with real processes."""

import ast
import asyncio
import json
import sys
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import anyio
import pytest
from toolimport import ImportOptions, ToolCallError, ToolImportError, import_servers
from toolimport.runtime import ToolRunner

from .conftest import PATIENCE
from .raw_server import listening
from .small_server import answer_to

SERVER = Path(__file__).with_name("small_server.py")


def tool(name, description="Do it.", **others):
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema} | others


@pytest.fixture
def write(tmp_path):
    """Write a configuration whose servers follow plans; a plan's `entry` is merged into it."""

    def write_servers(**plans):
        servers = {}
        for name, plan in plans.items():
            path = tmp_path / f"{name}.plan"
            path.write_text(json.dumps({"tools": [tool("do")]} | plan))
            servers[name] = {
                "command": sys.executable,
                "args": ["-S", str(SERVER), str(path)],
            } | plan.get("entry", {})
        file = tmp_path / "servers.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        return file

    return write_servers


@pytest.fixture
def run(tmp_path, quick_imports):
    def run_import(file, **options):
        async def job():
            chosen = ImportOptions(**{"seconds": PATIENCE} | options)
            return await import_servers(file, tmp_path / "tree", chosen)

        return {report.server: report for report in anyio.run(job)}

    return run_import


@pytest.fixture
def ids(tmp_path):
    """Return the description of each tool that can be called, by its id."""

    def found():
        described = {}
        for path in sorted((tmp_path / "tree").glob("mcptools/*/[!_]*.py")):
            module = ast.parse(path.read_text("utf-8"))
            (run,) = (it for it in module.body if isinstance(it, ast.FunctionDef))
            described[f"mcptools:{path.parent.name}:{path.stem}"] = ast.get_docstring(run).strip()
        return described

    return found


def test_each_tool_of_each_server_becomes_a_tool_of_the_tree(write, run, ids):
    reports = run(
        write(
            alpha={"tools": [tool("get-x", "Get X."), tool("get_x", "Get X too."), tool("3d")]},
            beta={"tools": [tool("nothing", None)], "instructions": "All of beta."},
        )
    )
    assert {name: (it.status, it.tools) for name, it in reports.items()} == {
        "alpha": ("imported", 3),
        "beta": ("imported", 1),
    }
    assert ids() == {
        "mcptools:alpha:get_x": "Get X too.",
        "mcptools:alpha:get_x_2": "Get X.",
        "mcptools:alpha:tool_3d": "Do it.",
        "mcptools:beta:nothing": "nothing of beta",
    }


def test_tools_are_listed_page_by_page(write, run):
    tools = [tool(f"t{number}") for number in range(7)]
    assert run(write(paged={"tools": tools, "page": 3}))["paged"].tools == 7


def test_an_invalid_tool_does_not_affect_other_tools(write, run, ids):
    wrong = {
        "bare": {},
        "none": None,
        "odd": {"type": "object", "required": "text", "properties": {"text": None, "n": [1]}},
        "list": {"type": "array"},
        "five": {"type": 5},
    }
    listed = [{"name": name, "inputSchema": schema} for name, schema in wrong.items()]
    odd = {"name": "extras", "title": 5, "annotations": [], "icons": 3, "description": {}}
    report = run(write(a={"tools": [tool("fine"), {"name": 5}, odd, "x", *listed]}))["a"]
    assert set(ids()) == {f"mcptools:a:{name}" for name in ("fine", "extras", *wrong)}
    assert report.failed == {"number 2": "it has no name", "number 4": "it has no name"}
    assert report.notes["odd"] == (
        "text may be anything: its schema is invalid; n may be anything: its schema is invalid; "
        "nothing is required: 'required' is not a list"
    )
    assert set(report.notes) == {"none", "odd", "list", "five", "extras"}


@pytest.fixture
def over_http():
    """Serve a plan's tools over streamable HTTP, with a given content type."""
    with ExitStack() as servers:

        def serve(plan, kind):
            def answer(message):
                return json.dumps(
                    {"jsonrpc": "2.0", "id": message["id"]} | answer_to(plan, message)
                )

            return servers.enter_context(listening(answer, kind))

        yield serve


@pytest.mark.parametrize("way", ["stdio", "application/json", "text/event-stream", "gzip"])
def test_invalid_json_affects_only_its_own_tool(write, over_http, run, ids, way):
    deep: dict = {"type": "string"}
    for _ in range(400):
        deep = {"anyOf": [deep]}
    listed = [
        tool("fine"),
        tool("half", "Say it with \ud83d."),
        tool("name\ud83d"),
        tool("deep", inputSchema={"type": "object", "properties": {"a": deep}}),
    ]
    plan = {"tools": listed}
    entry = {} if way == "stdio" else {"entry": over_http(plan, way) | {"command": None}}
    report = run(write(a=plan | entry))["a"]

    found = ids()
    assert set(found) == {f"mcptools:a:{it}" for it in ("fine", "half", "deep")}
    assert report.failed == {"number 3": "its name contains half of a surrogate pair"}
    assert found["mcptools:a:half"] == "Say it with \N{REPLACEMENT CHARACTER}."
    assert report.notes == {"deep": "Params allows anything: its schema is nested too deeply"}


def test_an_oversized_schema_affects_only_its_own_tool(write, run, ids):
    listed = [
        tool("fine"),
        tool("choices", inputSchema={"properties": {"a": {"enum": list(range(30_000))}}}),
        tool("results", outputSchema={"enum": [{"n": number} for number in range(30_000)]}),
    ]
    report = run(write(a={"tools": listed}))["a"]

    assert set(ids()) == {f"mcptools:a:{it}" for it in ("fine", "choices", "results")}
    assert report.notes == {
        "choices": "a list of more than 1,000 choices was left out",
        "results": "Result allows anything: its schema is too large",
    }


def test_a_failing_server_is_reported_and_does_not_stop_others(write, run, tmp_path):
    reports = run(
        write(
            good={},
            dies={"instead": "die", "stderr": ["cannot open the shop"]},
            empty={"tools": []},
            gone={"entry": {"command": "no-such-program"}},
            unset={"entry": {"env": {"A": "${NOT_SET}"}}},
            closed={"entry": {"command": None, "url": "http://127.0.0.1:9/mcp", "type": "http"}},
            off={"entry": {"disabled": True}},
        )
    )
    errors = {name: it.error for name, it in reports.items() if it.error}
    assert errors == {
        "dies": "ended before it answered; its last lines were: cannot open the shop",
        "empty": "lists no tools",
        "gone": "the command 'no-such-program' is not found; install it, or give its full path",
        "unset": "the environment variable NOT_SET is not set; set it and retry",
        "closed": "cannot be reached: All connection attempts failed",
    }
    assert reports["good"].status == "imported"
    assert reports["off"].status == "disabled"
    assert [it.name for it in (tmp_path / "tree/mcptools").iterdir() if it.is_dir()] == ["good"]


def test_what_the_file_switches_off_is_neither_imported_nor_called(write, run, ids):
    tools = [tool("read"), tool("drop"), tool("wipe")]
    off = {"entry": {"disabledTools": ["drop", "wipe"]}}
    report = run(write(shop={"tools": tools} | off, other={"tools": tools}))["shop"]
    assert (report.tools, report.switched_off) == (1, ("drop", "wipe"))
    assert [it for it in ids() if ":shop:" in it] == ["mcptools:shop:read"]

    file = write(shop={"tools": tools, "entry": {"disabled": True}}, other={"tools": tools})
    with pytest.raises(ToolCallError, match=r"it is disabled in .*servers\.json"):
        ToolRunner("shop", file).run_sync("read", {})
    report = run(file)["shop"]
    assert (report.status, report.removed) == ("disabled", ("__init__.py", "read.py"))
    assert not [it for it in ids() if ":shop:" in it]


def test_a_server_that_another_file_has_too_is_imported_once(write, run, tmp_path, ids):
    file = write(shop={})
    entry = json.loads(file.read_text())["mcpServers"]["shop"]
    run(file)
    other = tmp_path / "elsewhere" / "settings.json"
    other.parent.mkdir()
    servers = {"shop": entry | {"type": "stdio", "env": {}}, "store": entry | {"source": "custom"}}
    other.write_text(json.dumps({"context_servers": servers}))
    reports = run(other)
    assert {it.status for it in reports.values()} == {"skipped"}
    (reason,) = reports["store"].warnings
    assert reason == f"its tools are already imported, as those of 'shop' in {file}"
    assert [*ids()] == ["mcptools:shop:do"]

    other.write_text(json.dumps({"mcpServers": {"store": entry | {"env": {"ACCOUNT": "2"}}}}))
    assert run(other)["store"].status == "imported"


def test_a_server_that_only_the_client_can_start_is_left_alone_with_the_reason(write, run):
    report = run(write(shop={"entry": {"type": "builtin"}}, other={}))["shop"]
    assert (report.status, report.is_fine) == ("skipped", True)
    assert report.warnings == ("the client provides it itself (its type is builtin)",)


def test_a_reference_that_is_not_replaced_is_reported(write, run):
    report = run(write(shop={"entry": {"env": {"KEY": "$SHOP_KEY"}}}))["shop"]
    assert report.status == "imported"
    assert "$SHOP_KEY in 'env' KEY is passed on as it is written" in report.warnings[0]


def test_a_server_that_does_not_answer_times_out(write, run):
    servers = write(hangs={"instead": "hang"}, garbles={"instead": "garbage"})
    # A busy machine may take longer to start the server that writes.
    for seconds in (2, 8, 32, 128):
        errors = {name: it.error for name, it in run(servers, seconds=seconds).items()}
        if "it wrote" in errors["garbles"]:
            break
    given_up = f"did not list its tools within {seconds} s"
    assert errors == {
        "hangs": given_up,
        "garbles": f"{given_up}; it wrote something that is not a message: "
        "Invalid JSON: expected ident at line 1 column 2",
    }


@pytest.fixture
def refusing():
    """An HTTP server that refuses every request: its port, received headers, and a challenge."""

    class Refusing(BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append(self.headers["Authorization"])
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(401)
            if challenge:
                self.send_header("WWW-Authenticate", challenge[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    seen, challenge = [], []
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port, seen, challenge
        server.shutdown()
        thread.join(PATIENCE)


def test_a_server_that_refuses_is_reported_with_its_http_status(
    run, refusing, tmp_path, monkeypatch, caplog
):
    port, seen, challenge = refusing
    monkeypatch.setenv("SHOP_KEY", "hunter2")
    file = tmp_path / "servers.json"
    headers = {"Authorization": "Bearer ${SHOP_KEY}"}
    shop = {"url": f"http://127.0.0.1:{port}/mcp?key=swordfish", "headers": headers}
    caplog.set_level("INFO")
    file.write_text(json.dumps({"servers": {"shop": shop}}))
    assert run(file)["shop"].error == "answered 401 Unauthorized; check its 'headers'"
    assert set(seen) == {"Bearer hunter2"}
    assert "HTTP Request: POST" in caplog.text
    assert "swordfish" not in caplog.text

    challenge.append(f'Bearer resource_metadata="http://127.0.0.1:{port}/.well-known/x"')
    assert run(file)["shop"].error == "answered 401 Unauthorized; check its 'headers'"
    del shop["headers"]
    file.write_text(json.dumps({"servers": {"shop": shop}}))
    assert run(file)["shop"].error == (
        "answered 401 Unauthorized; its server asks for a sign-in (OAuth): put a token in its "
        "'headers'"
    )


def test_no_secret_is_reported_or_written(write, run, tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("MINE", "hunter2-from-outside")
    secrets = {"env": {"API_KEY": "hunter2-literal", "OTHER": "${MINE}"}}
    leaking = [tool("do", "Uses hunter2-literal and hunter2-from-outside.")]
    dies = {"instead": "die", "stderr": ["API_KEY", "OTHER"], "entry": secrets}
    reports = run(write(dies=dies))
    reports |= run(write(garbles={"instead": "garbage", "entry": secrets}), seconds=3)
    leaks = {"tools": leaking, "instructions": "hunter2-literal", "entry": secrets}
    reports |= run(write(leaks=leaks))
    assert "[API_KEY] | [OTHER]" in reports["dies"].error
    written = [it.read_text() for it in (tmp_path / "tree").rglob("*.*") if it.is_file()]
    assert "Uses [API_KEY] and [OTHER]." in "".join(written)
    assert "hunter2" not in "".join([*written, repr(reports), caplog.text])


def test_a_server_with_unchanged_tools_is_not_written(write, run, tmp_path):
    file = write(a={"tools": [tool("one"), tool("two")]})
    run(file)
    before = {it: it.stat().st_mtime_ns for it in (tmp_path / "tree").rglob("*")}
    report = run(file)["a"]
    assert (report.status, report.tools) == ("unchanged", 2)
    assert before == {it: it.stat().st_mtime_ns for it in (tmp_path / "tree").rglob("*")}


def test_a_servers_change_rewrites_only_the_files_it_affects(write, run, ids):
    run(write(a={"tools": [tool("stays"), tool("changes"), tool("goes")]}))
    report = run(write(a={"tools": [tool("stays"), tool("changes", "New."), tool("comes")]}))["a"]
    assert report.status == "updated"
    assert (report.added, report.changed, report.removed) == (("comes",), ("changes",), ("goes",))
    assert set(ids()) == {f"mcptools:a:{name}" for name in ("stays", "changes", "comes")}


def test_edited_files_are_kept_and_reported(write, run, tmp_path):
    file = write(a={})
    run(file)
    module = tmp_path / "tree/mcptools/a/do.py"
    module.write_text("mine")
    assert run(file)["a"].kept == ("do.py",)
    assert module.read_text() == "mine"
    assert run(file, force=True)["a"].changed == ("do",)
    assert module.read_text() != "mine"
    module.unlink()
    assert run(file)["a"].added == ("do",)


def test_a_folder_of_another_program_is_not_changed(write, run, tmp_path):
    module = tmp_path / "tree/mcptools/a/do.py"
    module.parent.mkdir(parents=True)
    module.write_text("mine")
    file = write(a={})
    assert "was not generated by this command" in run(file)["a"].error
    assert module.read_text() == "mine"
    assert run(file, force=True)["a"].status == "imported"


def test_two_configurations_do_not_remove_each_others_server(write, run, tmp_path):
    file = write(a={})
    run(file)
    other = tmp_path / "other.json"
    other.write_text(file.read_text().replace('"-S"', '"-S", "-B"'))
    assert "rename one of the servers" in run(other)["a"].error
    file.unlink()
    assert run(other)["a"].status == "updated", "the file has moved"


def test_a_removed_server_is_reported_and_deleted_only_on_request(write, run, tmp_path, ids):
    run(write(a={}, b={}))
    file = write(b={})
    report = run(file)["a"]
    assert (report.status, report.tools) == ("gone", 1)
    assert set(ids()) == {"mcptools:a:do", "mcptools:b:do"}
    assert run(file, prune=True)["a"].status == "removed"
    assert set(ids()) == {"mcptools:b:do"}
    assert list(run(file)) == ["b"]
    assert run(write(), prune=True)["b"].status == "removed", "the last server is removed, too"
    assert ids() == {}


def test_tools_are_selected_by_name_module_or_id(write, run, ids):
    tools = [tool(name) for name in ("read-it", "write-it", "delete_it")]
    file = write(a={"tools": tools}, b={"tools": tools})
    run(file, include=("read-*", "mcptools:b:*"), exclude=("*delete*",))
    assert set(ids()) == {"mcptools:a:read_it", "mcptools:b:read_it", "mcptools:b:write_it"}
    run(file)
    assert len(ids()) == 6


def test_only_the_named_servers_are_contacted(write, run):
    file = write(a={"instead": "die"}, b={})
    assert {name: it.status for name, it in run(file, only=("b",)).items()} == {"b": "imported"}
    with pytest.raises(ToolImportError, match="has no server 'c'; it has a, b"):
        run(file, only=("c",))


def test_pruning_while_importing_only_some_servers_is_refused(write, run, tmp_path):
    with pytest.raises(ToolImportError, match=r"only: .*prune"):
        run(write(a={}), only=("a",), prune=True)
    assert not (tmp_path / "tree").exists()


def test_servers_whose_folder_names_collide_are_both_kept(write, run, ids):
    reports = run(write(**{"my-shop": {}, "my_shop": {}, "class": {}}))
    assert {it.category for it in reports.values()} == {"my_shop", "my_shop_2", "class_"}
    assert len(ids()) == 3


def test_a_later_server_does_not_take_an_existing_name(write, run):
    run(write(**{"my-shop": {"tools": [tool("get-x")]}}))
    both = {"tools": [tool("get-x"), tool("get_x")]}
    reports = run(write(**{"my-shop": both, "my_shop": both}))
    assert {name: it.category for name, it in reports.items()} == {
        "my-shop": "my_shop",
        "my_shop": "my_shop_2",
    }
    assert reports["my-shop"].added == ("get_x_2",)
    assert reports["my-shop"].changed == ()


def test_a_tool_that_is_listed_twice_is_reported(write, run):
    report = run(write(a={"tools": [tool("x", "1"), tool("x", "2")]}))["a"]
    assert (report.tools, set(report.notes)) == (1, {"x"})


def test_a_file_where_the_tree_should_be_is_reported(write, run, tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/mcptools").write_text("")
    with pytest.raises(ToolImportError, match="a file is there"):
        run(write(a={}))


def test_each_server_is_reported_as_soon_as_it_is_finished(write, tmp_path, quick_imports):
    file = write(slow={"after": str(tmp_path / "quick.told")}, quick={})
    told, stages = [], []

    async def note(report):
        told.append((report.server, (tmp_path / "tree/mcptools/quick/do.py").exists()))
        (tmp_path / f"{report.server}.told").touch()

    async def job():
        # The slow one waits until the other is generated.
        options = ImportOptions(seconds=PATIENCE)
        await import_servers(
            file, tmp_path / "tree", options, on_done=note, on_stage=lambda *it: stages.append(it)
        )

    anyio.run(job)
    assert told == [("quick", True), ("slow", True)]
    assert [stage for server, stage in stages if server == "quick"] == [
        *("waiting", "connecting", "generating"),
    ]


def test_an_error_in_the_callback_stops_no_server_and_is_raised_at_the_end(write, run, tmp_path):
    run(write(gone={}))
    file = write(a={}, b={}, c={})
    told = []

    async def fail(report):
        told.append(report.server)
        raise OSError(28, f"No space left for {report.server}")

    async def job():
        with pytest.raises(OSError, match=f"No space left for {told[:1] or '[abc]'}"):
            await import_servers(file, tmp_path / "tree", ImportOptions(), on_done=fail)
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(job()) == set()
    assert sorted(told[:3]) == ["a", "b", "c"]
    assert told[3:] == ["gone"]
    assert all((tmp_path / "tree/mcptools" / name / "do.py").exists() for name in "abc")


def test_a_package_that_cannot_be_removed_does_not_stop_the_next_one(write, run, tmp_path):
    run(write(a={}, b={}))
    manifest = tmp_path / "tree/mcptools/a/_manifest.json"
    content = json.loads(manifest.read_text())
    content["files"]["sub"] = content["files"].pop("do.py")
    manifest.write_text(json.dumps(content))
    (manifest.parent / "sub").mkdir()
    reports = run(write(), prune=True, force=True)
    assert {name: it.status for name, it in reports.items()} == {"a": "failed", "b": "removed"}
    assert "cannot be removed" in reports["a"].error
    assert not reports["a"].is_fine


def test_a_module_that_the_caller_rejects_is_left_out_with_the_reason(write, tmp_path):
    file = write(a={"tools": [tool("one"), tool("two")]})

    def problem_of(source):
        return "it is the second" if '"two"' in source else ""

    async def job():
        return await import_servers(file, tmp_path / "tree", ImportOptions(), problem_of=problem_of)

    (report,) = anyio.run(job)
    assert (report.added, report.failed) == (("one",), {"two": "it is the second"})
