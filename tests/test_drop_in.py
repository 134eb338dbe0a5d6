"""Our servers in place of freeact's own, in an agent that is configured for freeact's."""

import shutil
import sys
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import apsw
import pytest
import sqlite_vec
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio

ROOT = ".freeact/generated"
DATABASE = ".freeact/search.db"
# The variables that freeact sets for its hybrid search, here without a key.
VARIABLES = {
    "PYTOOLS_DIR": ROOT,
    "PYTOOLS_DB_PATH": DATABASE,
    "PYTOOLS_EMBEDDING_MODEL": "google-gla:gemini-embedding-001",
    "PYTOOLS_EMBEDDING_DIM": "3072",
    "PYTOOLS_SYNC": "true",
    "PYTOOLS_WATCH": "true",
    "PYTOOLS_BM25_WEIGHT": "1.0",
    "PYTOOLS_VEC_WEIGHT": "1.0",
}
OFFLINE = {"PYTOOLS_EMBEDDING_MODEL": "static", "PYTOOLS_EMBEDDING_DIM": "256"}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def project(home, examples):
    """A freeact project with generated tools."""
    shutil.copytree(examples, home / ROOT)
    return home


@pytest.fixture
def start(project, environment, command):
    """Start a module of ours as freeact starts its own, or the equivalent command."""

    @asynccontextmanager
    async def session(module="", **variables):
        program, *args = (sys.executable, "-m", module) if module else (command, "serve")
        parameters = StdioServerParameters(
            command=program, args=args, env=environment | variables, cwd=project
        )
        with anyio.fail_after(PATIENCE), (project / "stderr").open("a") as errors:
            async with Client(stdio_client(parameters, errlog=errors)) as client:
                yield client

    return session


async def search(client, query="create an issue", **arguments):
    result = await client.call_tool("search_tools", {"query": query, **arguments})
    assert not result.is_error, result.content
    return result


async def settled(client):
    """Wait until all tools have vectors, which is a moment after the first search."""
    coverage = {"tools": 1, "vectors": 0}
    while coverage["tools"] != coverage["vectors"]:
        await anyio.sleep(0.01)
        coverage = (await search(client)).meta["pytools/coverage"]


def found(result):
    return [tool["id"] for tool in result.structured_content["result"]]


async def test_the_same_variables_start_a_server_that_answers_without_a_key(start, project):
    """Words find tools while the model cannot be reached, and the answer says so."""
    async with start("pytools_hybrid", **VARIABLES) as client:
        result = await search(client)

    assert "mcptools:github:create_issue" in found(result)
    assert "google:gemini-embedding-001@3072" in " ".join(result.meta["pytools/notes"])
    assert (project / DATABASE).is_file()


async def test_results_have_freeacts_fields_and_relative_paths(start, project):
    async with start(**VARIABLES | OFFLINE) as client:
        (best, *_) = (await search(client)).structured_content["result"]

    assert best["path"] == f"{ROOT}/mcptools/github/create_issue.py"
    assert {"name", "category", "source", "description", "path"} <= best.keys()
    assert (best["name"], best["category"], best["source"]) == (
        "create_issue",
        "github",
        "mcptools",
    )


async def test_every_call_of_freeacts_server_is_accepted(start):
    async with start(**VARIABLES | OFFLINE) as client:
        await settled(client)
        for mode in ("bm25", "vector", "hybrid"):
            result = await search(client, mode=mode, limit=50)
            assert "mcptools:github:create_issue" in found(result)


async def test_without_variables_the_paths_are_those_of_freeact(start, project):
    async with start() as client:
        (best, *_) = (await search(client)).structured_content["result"]

    assert best["path"] == f"{ROOT}/mcptools/github/create_issue.py"
    assert (project / DATABASE).is_file()


async def test_a_weight_of_zero_disables_a_channel(start):
    async with start(**VARIABLES | OFFLINE | {"PYTOOLS_VEC_WEIGHT": "0"}) as client:
        assert (await search(client)).meta["pytools/channels"] == ["bm25"]


async def test_a_subagent_searches_the_agents_index_without_changing_it(start, project, dump):
    subagent = VARIABLES | OFFLINE | {"PYTOOLS_SYNC": "false", "PYTOOLS_WATCH": "false"}
    async with start(**VARIABLES | OFFLINE) as agent:
        await settled(agent)
        before = dump(project / DATABASE)
        async with start(**subagent) as client:
            assert found(await search(client))[0] == "mcptools:github:create_issue"
    after = dump(project / DATABASE)

    assert before == after


async def test_a_subagent_does_not_read_the_tree(start, project):
    subagent = VARIABLES | OFFLINE | {"PYTOOLS_SYNC": "false", "PYTOOLS_WATCH": "false"}
    async with start(**VARIABLES | OFFLINE) as agent:
        await settled(agent)
    tool = project / ROOT / "mcptools/zoo/feed_walrus.py"
    tool.parent.mkdir()
    tool.write_text("def run():\n    '''Feed the walrus.'''\n", encoding="utf-8")

    async with start(**subagent) as client:
        assert "mcptools:zoo:feed_walrus" not in found(await search(client, "feed the walrus"))


async def test_the_basic_server_lists_categories_and_tools(start, project):
    async with start("pytools_hybrid.basic", PYTOOLS_DIR=ROOT) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        categories = (await client.call_tool("list_categories", {})).structured_content
        one = (await client.call_tool("list_tools", {"categories": "text"})).structured_content
        several = await client.call_tool("list_tools", {"categories": ["text", "nosuch", "../.."]})

    assert tools == {"list_categories", "list_tools"}
    for source in ("gentools", "mcptools"):
        assert categories[source] == sorted(
            folder.name
            for folder in (project / ROOT / source).iterdir()
            # Running an example leaves byte code there.
            if folder.is_dir() and folder.name != "__pycache__"
        )
    assert one == {
        "text": {
            "gentools": sorted(
                path.relative_to(project).as_posix()
                for path in (project / ROOT / "gentools/text").glob("*/api.py")
            ),
            "mcptools": [],
        }
    }
    nothing = {"gentools": [], "mcptools": []}
    assert several.structured_content == {**one, "nosuch": nothing, "../..": nothing}
    assert not (project / DATABASE).exists()


async def test_freeacts_database_is_renamed_unchanged(start, project):
    rows = [("mcptools:github:create_issue", "f00", "Open an issue.")]
    with closing(incumbent(project / DATABASE)) as connection:
        connection.execute("INSERT INTO entries_fts VALUES (?, ?, ?)", rows[0])
        connection.execute("INSERT INTO entries_vec VALUES (?, ?)", (rows[0][0], b"\0\0\0\x3f" * 4))

    async with start(**VARIABLES | OFFLINE) as client:
        assert found(await search(client))[0] == "mcptools:github:create_issue"

    assert "search.db.freeact" in (project / "stderr").read_text("utf-8")
    with closing(apsw.Connection(str(project / f"{DATABASE}.freeact"))) as connection:
        kept = connection.execute("SELECT id, file_hash, description FROM entries_fts").fetchall()
    assert kept == rows


def incumbent(path: Path) -> apsw.Connection:
    """Create a database as freeact's search does."""
    connection = apsw.Connection(str(path))
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS entries_vec "
        "USING vec0(id TEXT PRIMARY KEY, embedding float[4])"
    )
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS entries_fts "
        "USING fts5(id, file_hash UNINDEXED, description)"
    )
    return connection


def test_the_prompt_is_a_short_section(run):
    result = run("serve", "--prompt")

    assert result.stdout.startswith("## Finding tools\n")
    assert len(result.stdout.split()) < 200
