"""A server's usage record is complete, however the server ends."""

import os
import signal
import sys
from contextlib import closing, suppress

import anyio
import apsw
import pytest

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.parametrize(
    "end",
    [
        "closed",
        pytest.param(
            "signalled",
            marks=pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals"),
        ),
    ],
)
async def test_the_last_search_before_the_end_is_recorded(connect, counted, tree, tmp_path, end):
    arguments = ["--root", tree, "--db", tmp_path / "index.db"]
    variables = counted.variables | {"COUNTED_PATIENT": "1"}
    async with connect(*arguments, program=counted.command, **variables) as client:
        await client.call_tool("search_tools", {"query": "the last question"})
        if end == "signalled":
            (start,) = counted.requests("start")
            os.kill(start["pid"], signal.SIGTERM)
            with anyio.fail_after(PATIENCE), suppress(ProcessLookupError):
                while True:
                    os.kill(start["pid"], 0)
                    await anyio.sleep(0.02)
    with closing(apsw.Connection(str(tmp_path / "index.db-kept"))) as connection:
        queries = connection.execute("SELECT query FROM searches").fetchall()
    assert queries == [("the last question",)]
