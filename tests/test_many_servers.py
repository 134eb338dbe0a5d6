"""Many processes on one index: all answer, and no work is done twice."""

import os
import shutil
import signal

import anyio
import pytest

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio

BATCH = 64


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def many(tmp_path, write_tools):
    for letter in "abcdefghijklmnopqrst":
        write_tools(tmp_path / "many", f"group_{letter}", 50, f"Do what {letter * 5} asks for.")
    return tmp_path / "many"


@pytest.fixture
def database(tmp_path):
    return tmp_path / "shared" / "index.db"


@pytest.fixture
def server(connect, counted, database):
    """Start a server with the counted model."""

    def start(root, **variables):
        return connect(
            "--root", root, "--db", database,
            program=counted.command, **counted.variables, **variables,
        )  # fmt: skip

    return start


async def ask(client, query, **arguments):
    result = await client.call_tool("search_tools", {"query": query, **arguments})
    assert not result.is_error, result.content
    return result


def tools_of(result):
    return result.structured_content["result"]


def ids(result):
    return [tool["id"] for tool in tools_of(result)]


async def eventually(search, holds):
    """Repeat a search until its answer is as expected."""
    with anyio.fail_after(PATIENCE):
        while not holds(found := await search()):
            await anyio.sleep(0.02)
    return found


def has_all_vectors(result):
    coverage = result.meta["pytools/coverage"]
    return coverage["vectors"] == coverage["tools"] and not result.meta["pytools/lost"]


async def with_all_vectors(client, query):
    return await eventually(lambda: ask(client, query), has_all_vectors)


def assert_nobody_saw_a_lock(home, results):
    said = (home / "stderr").read_text() + "".join(str(result.content) for result in results)
    assert "locked" not in said
    assert "Traceback" not in said


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
async def test_servers_that_start_together_embed_each_text_once_despite_a_kill(
    server, many, counted, dump, database, home
):
    killed, answers, covered = [], [], []

    async def search(client):
        return await ask(client, "ggggg", mode="hybrid", limit=50)

    async def use(name):
        try:
            async with server(many, COUNTED_NAME=name) as client:
                answers.append(await search(client))
                answers.append(await eventually(lambda: search(client), has_all_vectors))
                covered.append(name)
        except Exception:
            # The client of the killed server may raise anything.
            if name not in killed:
                raise

    async def kill_the_one_that_embeds():
        while len(made := counted.requests()) < 5:
            await anyio.sleep(0.005)
        killed.append(made[-1]["name"])
        os.kill(made[-1]["pid"], signal.SIGKILL)
        counted.fault.unlink()

    # So the server that is killed is not done by then, and has made no further request.
    counted.fault.write_text("hang at 5")
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for name in "abcd":
                tasks.start_soon(use, name)
            tasks.start_soon(kill_the_one_that_embeds)

    assert sorted(covered + killed) == list("abcd")
    for answer in answers:
        assert len(ids(answer)) == 50
        assert all(id_.startswith("mcptools:group_g:") for id_ in ids(answer))
    times = counted.times_embedded()
    assert len(times) == 1_000
    lost = counted.requests(name=killed[0])[-1]["texts"]
    twice = {text for text, count in times.items() if count > 1}
    assert max(times.values()) <= 2
    assert twice <= set(lost)
    assert len(lost) <= BATCH
    assert len(dump(database)["vectors"]["counted:words"]) == 1_000
    assert_nobody_saw_a_lock(home, answers)


async def test_a_sub_agent_that_neither_syncs_nor_watches_sees_other_servers_changes(
    server, tree, counted, write_tools
):
    async with (
        server(tree) as one,
        server(tree, COUNTED_NAME="sub", PYTOOLS_SYNC="false", PYTOOLS_WATCH="false") as sub,
    ):
        await eventually(lambda: ask(one, "merge pdf files"), has_all_vectors)

        async def search():
            return await ask(sub, "feed the penguins in the zoo", mode="bm25", limit=1)

        write_tools(tree, "zoo", 1, "Feed the penguins with herring.")
        await eventually(search, lambda result: ids(result) == ["mcptools:zoo:tool_0"])
        await eventually(lambda: ask(sub, "penguins"), has_all_vectors)
        shutil.rmtree(tree / "mcptools" / "zoo")
        await eventually(search, lambda result: ids(result) != ["mcptools:zoo:tool_0"])


async def test_commands_work_while_servers_run(server, tree, counted, run, database, home):
    results = []
    async with server(tree, COUNTED_NAME="a") as one, server(tree, COUNTED_NAME="b") as two:
        for turn in range(3):
            tool = tree / "mcptools" / "zoo" / f"feed_{turn}.py"
            tool.parent.mkdir(exist_ok=True)
            tool.write_text(f"def run():\n    '''Feed the penguins, turn {turn}.'''\n")
            indexed = await anyio.to_thread.run_sync(
                lambda: run(
                    "index", "--root", tree, "--db", database,
                    program=counted.command, **counted.variables,
                )
            )  # fmt: skip
            assert indexed.returncode == 0, indexed.stderr
            assert "locked" not in indexed.stderr
            for client in (one, two):
                result = await ask(client, f"feed the penguins turn {turn}", limit=50)
                assert f"mcptools:zoo:feed_{turn}" in ids(result)
                results.append(result)
        results += [await with_all_vectors(client, "penguins") for client in (one, two)]
    assert max(counted.times_embedded().values()) == 1
    assert_nobody_saw_a_lock(home, results)


async def test_servers_with_two_models_share_an_index_without_interfering(
    server, many, counted, dump, database, home, write_tools
):
    async def finds(client, query, category, *, limit):
        await eventually(
            lambda: ask(client, query, mode="vector", limit=limit),
            lambda found: (
                has_all_vectors(found)
                and {tool["category"] for tool in tools_of(found)} == {category}
            ),
        )

    async with (
        server(many, COUNTED_MODEL="small", COUNTED_DIMENSIONS="128") as small,
        server(many, COUNTED_MODEL="large", COUNTED_DIMENSIONS="512") as large,
    ):
        for client in (small, large):
            await finds(client, "ggggg", "group_g", limit=50)
        write_tools(many, "zoo", 3, "Feed penguins.")
        for client in (small, large):
            await finds(client, "feed penguins", "zoo", limit=3)
    found = dump(database)
    tools = {entry[0] for entry in found["entries"]}
    assert {model: set(vectors) for model, vectors in found["vectors"].items()} == {
        "counted:small": tools, "counted:large": tools,
    }  # fmt: skip
    for model in ("counted:small", "counted:large"):
        assert max(counted.times_embedded(model=model).values()) == 1
    assert_nobody_saw_a_lock(home, [])
