"""An index that follows the files, and recovers from what goes wrong."""

import asyncio
import os
from contextlib import asynccontextmanager

import apsw
import pytest
from pytools_hybrid import SearchMode, ToolSearch
from pytools_hybrid.index import Follower, TreeSync
from pytools_hybrid.index import follow as _follow
from toolembed import Backoff

from .conftest import PATIENCE


@asynccontextmanager
async def kept_up(settings, root):
    async with ToolSearch(root, settings, refresh=False) as search:
        follower = Follower(search.index)
        task = asyncio.create_task(follower.run())
        try:
            await follower.wait_until_ready()
            yield search
        finally:
            task.cancel()
            await asyncio.wait([task])


async def eventually(search, query, holds):
    async with asyncio.timeout(PATIENCE):  # on a busy machine, full scans are far apart
        while True:
            response = await search.search(query, mode=SearchMode.BM25)
            found = [str(tool.entry.id) for tool in response.tools]
            if holds(found):
                return
            await asyncio.sleep(0.01)


def test_a_removed_and_restored_root_is_followed_again(settings, root, write_tool):
    async def main():
        async with kept_up(settings(), root) as search:
            kept = root.with_name("kept")
            root.rename(kept)
            await eventually(search, "bug", lambda found: found == [])
            kept.rename(root)
            await eventually(search, "bug", lambda found: found != [])
            write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
            await eventually(search, "penguins", lambda found: found == ["mcptools:zoo:feed"])

    asyncio.run(main())


def test_a_failed_refresh_is_retried(settings, root, caplog, write_tool):
    async def main():
        async with kept_up(settings(), root) as search:
            other = apsw.Connection(str(search.index.store.path))
            other.execute("BEGIN IMMEDIATE")
            write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
            async with asyncio.timeout(PATIENCE):
                while "could not be brought up to date" not in caplog.text:
                    await asyncio.sleep(0.05)
            assert (await search.search("bug")).tools, "searches go on meanwhile"
            other.execute("ROLLBACK")
            other.close()
            await eventually(search, "penguins", lambda found: found == ["mcptools:zoo:feed"])

    asyncio.run(main())


def test_files_are_followed_while_a_failing_model_is_reported(settings, root, caplog, write_tool):
    async def main():
        async with kept_up(settings(embedding_model="openai:nothing"), root) as search:
            write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
            await eventually(search, "penguins", lambda found: found == ["mcptools:zoo:feed"])
            async with asyncio.timeout(PATIENCE):
                while "vectors are missing for now" not in caplog.text:
                    await asyncio.sleep(0.05)

    asyncio.run(main())


class FailingToEnd(ToolSearch):
    """Has a language model that never finishes loading, and fails when loading is cancelled."""

    fails = True

    async def prepare_reranking(self):
        try:
            await asyncio.Event().wait()
        finally:
            if self.fails:
                self.fails = False
                raise OSError("the model is lost")


def test_an_error_while_stopping_does_not_restart_the_follower(settings, root, caplog):
    async def main():
        async with FailingToEnd(root, settings(), refresh=False) as search:
            follower = Follower(search.index)
            task = asyncio.create_task(follower.run())
            await follower.wait_until_ready()
            task.cancel()
            await asyncio.wait([task], timeout=PATIENCE)
            assert task.cancelled()

    asyncio.run(main())
    assert "restarting" not in caplog.text


def test_a_file_that_only_a_scan_saw_is_removed_from_the_index(
    settings, root, write_tool, tmp_path, monkeypatch
):
    async def main():
        new, brief = tmp_path / "new", root / "mcptools/zoo/brief.py"
        write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
        brief.parent.rename(new)
        async with kept_up(settings(), root) as search:
            update, seen = search.index.sync.update, []

            async def update_while_there_is_a_brief_file(within=None, **options):
                # The watcher looks before and after, but not during an update.
                if not seen and brief.parent.is_dir():
                    write_tool("mcptools/zoo/brief.py", "Count the penguins.")
                report = await update(within, **options)
                if brief.exists():
                    seen.append(report)
                    brief.unlink()
                return report

            monkeypatch.setattr(search.index.sync, "update", update_while_there_is_a_brief_file)
            new.rename(brief.parent)
            await eventually(search, "penguins", lambda found: seen and len(found) == 1)
            # The other file may have been found by the scan at the start.
            assert seen[0].added in {1, 2}

    asyncio.run(main())


class Scans:
    """Counts the updates of an index, and puts a brief file there while some of them run.

    The watcher looks before and after an update, but not meanwhile.
    """

    def __init__(self, monkeypatch, brief):
        self.count, self.during = 0, {}
        self._brief, self._update = brief, TreeSync.update
        monkeypatch.setattr(
            TreeSync, "update", lambda sync, within=None, **options: self(sync, within, options)
        )

    async def __call__(self, sync, within, options):
        self.count += 1
        acts = self.during.get(self.count, ())
        if "brief" in acts:
            self._brief.write_text("def run(text: str) -> str:\n    '''Count the penguins.'''\n")
        report = None if "nothing" in acts else await self._update(sync, within, **options)
        if "unlink" in acts:
            self._brief.unlink()
        if "fail" in acts:
            raise OSError("the disk is full")
        return report

    async def until(self, count):
        async with asyncio.timeout(PATIENCE):
            while self.count < count:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "during",
    [
        pytest.param({3: "fail nothing", 4: "brief unlink"}, id="the retry found it"),
        pytest.param({3: "brief fail", 4: "unlink"}, id="the failed scan found it"),
    ],
)
def test_a_brief_file_is_removed_from_the_index_after_a_failure(
    settings, root, write_tool, monkeypatch, during
):
    async def main():
        write_tool("mcptools/ark/load.py", "Load the ark.")
        write_tool("mcptools/zoo/feed.py", "Feed the lions.")
        scans = Scans(monkeypatch, root / "mcptools/ark/brief.py")
        async with kept_up(settings(), root) as search:
            # At the start, everything is scanned twice.
            await scans.until(2)
            scans.during = during
            write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
            await scans.until(max(during))
            await eventually(search, "penguins", lambda found: found == ["mcptools:zoo:feed"])

    asyncio.run(main())


def test_processes_that_disagree_about_the_files_do_not_scan_them_forever(
    settings, root, write_tool, monkeypatch
):
    async def main():
        theirs = settings(layouts=("mcptools",))
        async with (
            kept_up(settings(), root) as search,
            ToolSearch(root, theirs, refresh=False) as other,
        ):
            update, scans = search.index.sync.update, []

            async def update_and_be_undone(within=None, **options):
                report = await update(within, **options)
                await other.index.update(vectors=False)
                scans.append(report)
                return report

            monkeypatch.setattr(search.index.sync, "update", update_and_be_undone)
            # The other has no such layout, so it removes the tool after every scan.
            write_tool("gentools/zoo/feed/api.py", "Feed the penguins.")
            async with asyncio.timeout(PATIENCE):
                while len(scans) < 4:
                    await asyncio.sleep(0.01)
                seen = 0
                while seen != (seen := len(scans)):
                    await asyncio.sleep(1)

    monkeypatch.setattr(_follow, "_CONFIRMING", Backoff(first=0.01, longest=0.01, tries=3))
    asyncio.run(main())


def test_without_watching_the_index_stays_as_it_was_at_the_start(
    settings, root, write_tool, tmp_path
):
    async def main():
        async with (
            kept_up(settings(watch=False), root) as still,
            kept_up(settings(db_path=tmp_path / "other.db"), root) as following,
        ):
            write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
            await eventually(following, "penguins", lambda found: found != [])
            assert (await still.search("penguins", mode=SearchMode.BM25)).tools == ()
            assert (await still.search("bug")).tools

    asyncio.run(main())


def test_without_syncing_at_the_start_later_changes_are_still_followed(settings, root, write_tool):
    async def main():
        async with kept_up(settings(sync=False), root) as search:
            write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
            write_tool("mcptools/zoo/wash.py", "Wash the penguins.")
            # Changes during the set-up of the watch count as part of the start.
            async with asyncio.timeout(PATIENCE):
                while not (await search.search("penguins", mode=SearchMode.BM25)).tools:
                    write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
                    await asyncio.sleep(0.05)
            assert not (await search.search("bug", mode=SearchMode.BM25)).tools

    asyncio.run(main())


def test_without_syncing_or_watching_nothing_is_read(settings, root):
    async def main():
        async with kept_up(settings(watch=False, sync=False), root) as search:
            assert not (await search.search("bug")).tools

    asyncio.run(main())


def test_a_file_name_that_is_not_utf8_does_not_stop_the_follower(settings, root, write_tool):
    name = os.fsencode(root) + b"/mcptools/github/caf\xe9.txt"

    async def main():
        async with kept_up(settings(), root) as search:
            try:
                with open(name, "w"):  # noqa: PTH123
                    pass
            except OSError:
                pytest.skip("this file system does not allow such names")
            write_tool("mcptools/zoo/feed.py", "Feed the penguins.")
            await eventually(search, "penguins", lambda found: found == ["mcptools:zoo:feed"])

    asyncio.run(main())


def test_callers_do_not_wait_for_an_index_that_cannot_be_refreshed(settings, root, caplog):
    async def main():
        async with ToolSearch(root, settings(), refresh=False) as search:
            other = apsw.Connection(str(search.index.store.path))
            other.execute("BEGIN IMMEDIATE")
            follower = Follower(search.index)
            task = asyncio.create_task(follower.run())
            await follower.wait_until_ready()
            assert "could not be brought up to date" in caplog.text
            await follower.wait_until_ready()
            other.close()
            await eventually(search, "bug", lambda found: found != [])
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(main())


def test_without_syncing_or_watching_no_vectors_are_written(settings, root):
    async def main():
        async with ToolSearch(root, settings(embedding_model="none"), refresh=False) as agent:
            await agent.index.update(vectors=False)
            await agent.search("report a bug")
        other = settings(sync=False, watch=False, usage_log=False)
        async with ToolSearch(root, other, refresh=False) as subagent:
            follower = Follower(subagent.index)
            async with asyncio.timeout(PATIENCE):
                await follower.run()
            await follower.wait_until_ready()
            response = await subagent.search("report a bug")
            assert response.tools
            assert response.coverage.vectors == 0
            return await subagent.index.statistics()

    statistics = asyncio.run(main())
    assert statistics.searches == 1, "only the agent's search is recorded"


def test_a_pattern_or_pinned_id_that_matches_no_tool_is_a_warning(settings, root, caplog):
    made = settings(
        tools="call",
        include=("mcptools:*", "mcptool:*:*"),
        exclude=("gihub:*", "pdf:*"),
        confirm=("deleet_*", "create_*"),
        pin=("mcptools:github:creat_issue", "mcptools:github:create_issue"),
    )

    async def main():
        async with kept_up(made, root):
            pass

    asyncio.run(main())
    warned = [it for it in caplog.messages if "matches no tool" in it]
    assert [it.split("matches")[0].strip() for it in warned] == [
        "the include pattern 'mcptool:*:*'",
        "the exclude pattern '*:gihub:*'",
        "the confirm pattern '*:*:deleet_*'",
        "the pin pattern 'mcptools:github:creat_issue'",
    ]


def test_a_confirmation_that_no_longer_protects_any_tool_is_a_warning(
    settings, root, write_tool, caplog
):
    def warnings():
        return caplog.text.count("'*:*:delete_*' matches no tool")

    async def main():
        async with kept_up(settings(tools="call", confirm=("delete_*",)), root) as search:
            assert warnings() == 1
            async with asyncio.timeout(PATIENCE):
                while warnings() < 2:
                    write_tool("mcptools/github/delete_branch.py", "Delete a branch.")
                    while await search.index.idle_patterns():
                        await asyncio.sleep(0.01)
                    (root / "mcptools/github/delete_branch.py").unlink()
                    while not await search.index.idle_patterns():
                        await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_language_model_that_cannot_be_used_is_reported_before_the_first_search(
    settings, root, caplog, monkeypatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    async def main():
        chosen = settings(rerank_model="openai:gpt-5-mini")
        async with ToolSearch(root, chosen, follow=True), asyncio.timeout(PATIENCE):
            while "results are not reranked" not in caplog.text:
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_under_constant_change_unused_vectors_stay_limited(settings, root, write_tool):
    spares = 5_000

    async def main():
        async with ToolSearch(root, settings(), refresh=False) as search:
            await search.index.update()
            (model,) = await search.index.read(lambda reader: reader.models())
            gone = {f"gone {number}": [1.0] * 256 for number in range(spares)}
            await asyncio.to_thread(search.index.store.put_vectors, model, gone)
            counts = []
            for number in range(12):
                write_tool("mcptools/pdf/merge_pdfs.py", f"Join PDF documents, take {number}.")
                await search.index.update()
                counts.append(await search.index.read(count_kept))
            return counts, (await search.index.coverage()).tools

    counts, tools = asyncio.run(main())

    assert max(counts) == spares + tools


def count_kept(reader):
    return reader.connection.execute("SELECT count(*) FROM embeddings").get
