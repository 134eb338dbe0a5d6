"""Progress of calls, and that no other notifications are promised."""

import pytest
from toolindex import Lease

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def test_a_client_is_promised_no_notifications_of_changes(connect, tree):
    async with connect("--root", tree) as client:
        assert client.server_capabilities.tools.list_changed is False


async def test_progress_is_reported_while_a_search_waits_for_the_first_index(
    counted, connect, tree, tmp_path
):
    reports, later = [], []
    # The index cannot be opened before the first report.
    opening = Lease(tmp_path / "index.db", "rescue")
    assert opening.acquire(timeout=PATIENCE)

    async def report(progress, total, message):
        reports.append((progress, message))
        opening.release()

    # The client may call back after an answer, so each call has a list of its own.
    async def report_later(progress, total, message):
        later.append((progress, message))

    counted.fault.write_text("hang")
    arguments = ["--root", tree, "--db", tmp_path / "index.db"]
    async with connect(*arguments, program=counted.command, **counted.variables) as client:
        query = {"query": "open an issue on github", "mode": "bm25"}
        first = await client.call_tool("search_tools", query, progress_callback=report)
        assert first.structured_content["result"]
        assert reports
        assert {message.partition(":")[0] for _, message in reports} <= {
            "opening the index",
            "scanning the files", "embedding new tools",
        }  # fmt: skip
        assert [it for it, _ in reports] == sorted({it for it, _ in reports}), "progress increases"

        counted.fault.unlink()
        await client.call_tool("search_tools", query, progress_callback=report_later)
        assert later == [], "there is nothing left to wait for"
