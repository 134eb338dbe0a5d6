"""A server's answers follow the files, however they change and whatever the clocks say."""

import os
import shutil
import time

import anyio
import pytest

pytestmark = pytest.mark.anyio

ROUNDS = 50
FILES = 26
# The aim is a second, which benchmarks measure; on a machine under load it takes longer.
BOUND_SECONDS = 120


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def database(tmp_path):
    return tmp_path / "index.db"


def tools_of(result):
    assert not result.is_error, result.content
    return result.structured_content["result"]


async def follow(client, query, holds):
    """Search until the answer is as expected, and return the seconds that took."""
    began = time.perf_counter()
    with anyio.move_on_after(BOUND_SECONDS):
        while True:
            result = await client.call_tool(
                "search_tools", {"query": query, "mode": "bm25", "limit": 50}
            )
            if holds(tools_of(result)):
                return time.perf_counter() - began
            await anyio.sleep(0.005)
    raise AssertionError(f"not within {BOUND_SECONDS} s: {tools_of(result)}")


async def test_a_category_that_is_regenerated_repeatedly_is_correct_each_time(
    connect, tree, database, write_tools, dump, record_property
):
    def is_whole(number):
        def holds(found):
            zoo = [tool for tool in found if tool["category"] == "zoo"]
            return len(zoo) == FILES and all(f"in round {number}." in t["description"] for t in zoo)

        return holds

    seconds = []
    async with connect("--root", tree, "--db", database, seconds=600) as client:
        await client.call_tool("search_tools", {"query": "what makes it wait for the start"})
        for number in range(ROUNDS):
            shutil.rmtree(tree / "mcptools" / "zoo", ignore_errors=True)
            write_tools(tree, "zoo", FILES, f"Feed penguins in round {number}.")
            seconds.append(await follow(client, "penguins", is_whole(number)))
    assert len([each for each in dump(database)["entries"] if ":zoo:" in each[0]]) == FILES
    seconds.sort()
    figures = {"p50": seconds[ROUNDS // 2], "p95": seconds[-3], "max": seconds[-1]}
    record_property("seconds", figures)
    print({name: round(value, 3) for name, value in figures.items()})


def module(words):
    return f"def run(text: str) -> str:\n    '''{words}'''\n"


def same_size_edits(tool):
    """Return ways to change "wash" to "feed" in a tool without changing the file's size or time."""

    def with_its_old_time():
        status = tool.stat()
        tool.write_text(module("Feed penguins."))
        os.utime(tool, ns=(status.st_atime_ns, status.st_mtime_ns))

    def with_a_time_before_the_old_one():
        tool.write_text(module("Feed penguins."))
        os.utime(tool, (946_684_800, 946_684_800))

    def with_a_time_to_come():
        tool.write_text(module("Feed penguins."))
        os.utime(tool, (4_000_000_000, 4_000_000_000))

    def twice_at_once():
        tool.write_text(module("Comb penguins."))
        tool.write_text(module("Feed penguins."))

    def by_another_file_with_the_same_time():
        status = tool.stat()
        other = tool.with_name("feed.py.tmp")
        other.write_text(module("Feed penguins."))
        os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
        other.replace(tool)

    return [
        with_its_old_time,
        with_a_time_before_the_old_one,
        with_a_time_to_come,
        twice_at_once,
        by_another_file_with_the_same_time,
    ]


@pytest.fixture
def zoo(tree):
    folder = tree / "mcptools" / "zoo"
    folder.mkdir()
    return folder


# With the clock a day ahead, the files look old enough for their times to be trusted. With the
# clock a day behind, their times are in the future.
@pytest.mark.parametrize("clock", ["0", "-86400", "86400"])
def test_the_next_start_sees_edits_that_keep_size_and_time(
    run, counted, tree, zoo, database, dump, clock
):
    arguments = ["index", "--root", tree, "--db", database]
    variables = {"program": counted.command, "COUNTED_CLOCK": clock, **counted.variables}
    tools = [zoo / f"care_{number}.py" for number in range(5)]
    for tool in tools:
        tool.write_text(module("Wash penguins."))
    assert run(*arguments, **variables).returncode == 0

    for number, tool in enumerate(tools):
        same_size_edits(tool)[number]()
    assert run(*arguments, **variables).returncode == 0

    cared = {each[0]: each[2] for each in dump(database)["entries"] if ":zoo:" in each[0]}
    assert cared == {f"mcptools:zoo:care_{number}": "Feed penguins." for number in range(5)}


async def test_a_server_sees_edits_that_keep_size_and_time(connect, tree, zoo, database):
    tool = zoo / "care.py"
    async with connect("--root", tree, "--db", database) as client:
        for edit in same_size_edits(tool):
            tool.write_text(module("Wash penguins."))
            await follow(
                client, "penguins", lambda found: found and "Wash" in found[0]["description"]
            )
            edit()
            await follow(
                client, "penguins", lambda found: found and "Feed" in found[0]["description"]
            )


def test_a_clock_set_back_between_runs_embeds_no_text_twice(
    run, counted, tree, zoo, database, dump
):
    """Usage, vectors and files are then dated in the future."""
    arguments = ["index", "--root", tree, "--db", database]
    for clock in ("31536000", "0", "-31536000", "0"):
        (zoo / "care.py").write_text(module(f"Feed penguins at {clock}."))
        result = run(*arguments, program=counted.command, COUNTED_CLOCK=clock, **counted.variables)

        assert result.returncode == 0, result.stderr
        found = dump(database)
        assert f"Feed penguins at {clock}." in [each[2] for each in found["entries"]]
        assert len(found["vectors"]["counted:words"]) == len(found["entries"])
    assert max(counted.times_embedded().values()) == 1
