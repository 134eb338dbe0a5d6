"""Several trees of tools in one index: the first that has a tool wins, whatever changes."""

import asyncio
import os
import tempfile
from contextlib import asynccontextmanager, closing
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytools_hybrid import DetailLevel, SearchMode, Settings, SettingsError, ToolSearch
from pytools_hybrid.errors import RootUnreadableError
from pytools_hybrid.index import Follower, SQLiteStore, TreeSync, open_store
from pytools_hybrid.learn.evaluate import EvaluationQuery, Evaluator, configurations
from pytools_hybrid.serve.browse import BySource, ToolBrowser
from pytools_hybrid.serve.mcp import create_server
from pytools_hybrid.serve.operations import result_values
from pytools_hybrid.settings import Roots
from toolindex import ForeignDatabaseError, ToolFilter
from toolscan import scan

from .conftest import PATIENCE

SEND = "mcptools/mail/send.py"
READ = "mcptools/mail/read.py"
SPLIT = "gentools/pdf/split/api.py"


def module(words):
    return f"def run(text: str) -> str:\n    '''{words}'''\n"


def write(root, path, words):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(module(words), encoding="utf-8")


@pytest.fixture
def own(tmp_path):
    """The tree that comes first."""
    write(tmp_path / "own", SEND, "Send a letter of mine.")
    return tmp_path / "own"


@pytest.fixture
def shared(tmp_path):
    """The tree that comes second, with one tool that the first has too."""
    write(tmp_path / "shared", SEND, "Send a letter of all.")
    write(tmp_path / "shared", READ, "Read the letters in a mailbox.")
    write(tmp_path / "shared", SPLIT, "Split a document into pages.")
    return tmp_path / "shared"


@pytest.fixture
def store(tmp_path):
    with SQLiteStore(tmp_path / "index.db") as store:
        yield store


def in_index(store):
    """Return the path and the file hash of every tool, by id."""
    held = store.stored(reader_version="any")
    return {entry.id: (entry.path, entry.file_hash) for entry in held.entries.values()}


def paths_in(store):
    return {path for path, _ in in_index(store).values()}


def on_disk(roots):
    found = {}
    for number, root in enumerate(roots):
        try:
            records = scan(root, outside_links=False).records
        except NotADirectoryError:
            continue
        for record in records:
            found.setdefault(str(record.id), (f"{number}/{record.path}", record.file_hash))
    return found


@pytest.fixture
def unlistable(monkeypatch):
    """Remove the permission to list some folders, even from the superuser."""
    refused, listed = set(), os.scandir

    def scandir(path):
        if Path(os.fspath(path)) in refused:
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return refused


@asynccontextmanager
async def kept_up(settings, roots):
    async with ToolSearch(roots, settings, refresh=False) as search:
        follower = Follower(search.index)
        task = asyncio.create_task(follower.run())
        try:
            await follower.wait_until_ready()
            yield search
        finally:
            task.cancel()
            await asyncio.wait([task])


async def eventually(search, holds):
    async with asyncio.timeout(PATIENCE):
        while not holds(paths_in(search.index.store)):
            await asyncio.sleep(0.01)


def test_tools_of_all_roots_are_found_each_in_its_own_root(settings, own, shared):
    async def main():
        async with ToolSearch([own, shared], settings(), refresh=False) as search:
            await search.index.update(vectors=False)
            response = await search.search("letter", mode=SearchMode.BM25)
            return {it["id"]: it["path"] for it in result_values(response, search.roots)}

    assert asyncio.run(main()) == {
        "mcptools:mail:send": f"{own.as_posix()}/{SEND}",
        "mcptools:mail:read": f"{shared.as_posix()}/{READ}",
    }


def test_paths_begin_with_roots_as_they_were_named(settings, own, shared):
    async def main():
        async with ToolSearch([own.name, shared.name], settings(), refresh=False) as search:
            await search.index.update(vectors=False)
            described = await search.describe("mcptools:mail:read", DetailLevel.FULL)
            return str(search.roots), described.path

    assert asyncio.run(main()) == ("own, shared", f"shared/{READ}")


def test_the_first_root_with_a_tool_wins_and_the_others_are_reported(store, own, shared):
    report = TreeSync(store, [own, shared]).scan()

    assert paths_in(store) == {f"0/{SEND}", f"1/{READ}", f"1/{SPLIT}"}
    (issue,) = report.issues
    assert (issue.path, issue.reason) == (f"1/{SEND}", "duplicate_id")
    assert f"shadowed by {own.as_posix()}/{SEND}" in issue.detail


def test_refreshing_unchanged_files_changes_nothing(store, own, shared):
    TreeSync(store, [own, shared]).scan()
    with store.reading() as reader:
        before = reader.generation()

    report = TreeSync(store, [own, shared]).scan()

    assert (report.added, report.updated, report.removed, report.unchanged) == (0, 0, 0, 3)
    with store.reading() as reader:
        assert reader.generation() == before


def test_a_tool_removed_from_the_first_root_appears_from_the_next(store, own, shared):
    roots = [own, shared]
    TreeSync(store, roots).scan()

    (own / SEND).unlink()
    report = TreeSync(store, roots).scan([PurePosixPath(SEND)])
    assert f"1/{SEND}" in paths_in(store)
    assert (report.updated, report.removed, report.issues) == (1, 0, ())

    write(own, SEND, "Send a letter once more.")
    TreeSync(store, roots).scan([PurePosixPath("mcptools/mail")])
    assert f"0/{SEND}" in paths_in(store)
    assert f"1/{SEND}" not in paths_in(store)


def test_a_file_that_is_not_a_tool_does_not_shadow_the_next_roots_tool(store, own, shared):
    (own / SEND).write_text("def run(:\n")

    report = TreeSync(store, [own, shared]).scan()

    assert f"1/{SEND}" in paths_in(store)
    assert [issue.path for issue in report.issues] == [f"0/{SEND}"]


def test_a_shadowed_file_is_not_read(store, own, shared):
    (shared / SEND).write_text("def run(:\n")

    (issue,) = TreeSync(store, [own, shared]).scan().issues

    assert issue.reason == "duplicate_id"


FILES = [SEND, READ, SPLIT, "mcptools/pdf/merge.py"]
# All have the same length, so that only the bytes reveal an edit.
CONTENTS = [module("Send mail. "), module("Read mail. "), "def run(:\n", None]
edits = st.tuples(st.integers(0, 1), st.sampled_from(FILES), st.sampled_from(CONTENTS))


def apply(roots, edit):
    number, path, content = edit
    file = roots[number] / path
    if content is None:
        file.unlink(missing_ok=True)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


@given(
    trees=st.lists(edits, max_size=8),
    steps=st.lists(st.lists(edits, min_size=1, max_size=3), max_size=6),
)
def test_refreshing_the_edited_paths_equals_refreshing_everything(trees, steps):
    with tempfile.TemporaryDirectory() as folder, SQLiteStore(Path(folder, "index.db")) as store:
        roots = [Path(folder, "one"), Path(folder, "two")]
        for edit in trees:
            apply(roots, edit)
        TreeSync(store, roots).scan()
        for step in steps:
            for edit in step:
                apply(roots, edit)
            TreeSync(store, roots).scan(sorted({PurePosixPath(path) for _, path, _ in step}))
            assert in_index(store) == on_disk(roots)
        with SQLiteStore(Path(folder, "fresh.db")) as fresh:
            TreeSync(fresh, roots).scan()
            assert in_index(store) == in_index(fresh)


def test_all_roots_are_followed_including_one_that_does_not_exist_yet(
    settings, own, shared, tmp_path
):
    later = tmp_path / "later"

    async def main():
        async with kept_up(settings(), [own, shared, later]) as search:
            write(shared, "mcptools/zoo/feed.py", "Feed the penguins.")
            await eventually(search, lambda paths: "1/mcptools/zoo/feed.py" in paths)
            write(later, "mcptools/zoo/clean.py", "Clean the cages.")
            await eventually(search, lambda paths: "2/mcptools/zoo/clean.py" in paths)
            (own / SEND).unlink()
            await eventually(search, lambda paths: f"1/{SEND}" in paths)
            write(own, SEND, "Send a letter of mine.")
            await eventually(search, lambda paths: f"0/{SEND}" in paths)
            assert f"1/{SEND}" not in paths_in(search.index.store)

    asyncio.run(main())


def test_an_index_inside_one_of_the_roots_is_not_followed(settings, own, shared):
    async def main():
        chosen = settings(db_path=shared / "index.db")
        async with kept_up(chosen, [own, shared]) as search:
            updates = []
            update = search.index.sync.update

            async def counted(within=None, **options):
                updates.append(within)
                return await update(within, **options)

            search.index.sync.update = counted
            write(own, READ, "Read my letters.")
            await eventually(search, lambda paths: f"0/{READ}" in paths)
            # The index has been written; any event for that arrives before this file is seen.
            write(shared, "mcptools/zoo/feed.py", "Feed the penguins.")
            await eventually(search, lambda paths: "1/mcptools/zoo/feed.py" in paths)
            return {str(path) for within in updates for path in within or ()}

    assert not [path for path in asyncio.run(main()) if "index.db" in path]


@pytest.mark.parametrize("within", [None, [PurePosixPath(SEND), PurePosixPath(READ)]])
@pytest.mark.parametrize("refused", ["own", "shared"])
def test_an_unreadable_root_keeps_its_tools_and_does_not_delay_others(
    store, own, shared, unlistable, refused, within, tmp_path
):
    roots = [own, shared]
    TreeSync(store, roots).scan()
    before = in_index(store)
    other = {"own": shared, "shared": own}[refused]
    write(other, READ, "Read the letters in another way.")
    unlistable.add(tmp_path / refused)

    with pytest.raises(RootUnreadableError, match="Permission denied") as raised:
        TreeSync(store, roots).scan(within)

    assert raised.value.root == tmp_path / refused
    after = in_index(store)
    assert after["mcptools:mail:send"] == before["mcptools:mail:send"]
    assert after["gentools:pdf:split"] == before["gentools:pdf:split"]
    assert after["mcptools:mail:read"][0] == f"{roots.index(other)}/{READ}"
    assert after["mcptools:mail:read"] != before["mcptools:mail:read"]

    unlistable.clear()
    TreeSync(store, roots).scan()
    assert in_index(store) == on_disk(roots)


def test_if_no_root_can_be_listed_nothing_changes(store, own, shared, unlistable):
    TreeSync(store, [own, shared]).scan()
    before = in_index(store)
    unlistable.update([own, shared])

    with pytest.raises(RootUnreadableError):
        TreeSync(store, [own, shared]).scan()

    assert in_index(store) == before


def test_an_index_of_another_version_is_read_again_once_all_roots_can_be_listed(
    store, own, shared, unlistable
):
    TreeSync(store, [own, shared]).scan()
    before = in_index(store)
    with closing(_connection(store)) as connection:
        connection.execute("UPDATE meta SET value = 'older' WHERE key = 'reader_version'")
    unlistable.add(shared)

    with pytest.raises(RootUnreadableError):
        TreeSync(store, [own, shared]).scan()

    assert in_index(store) == before
    unlistable.clear()
    assert TreeSync(store, [own, shared]).scan().updated == 3


def _connection(store):
    import apsw

    return apsw.Connection(str(store.path))


def test_new_tools_are_embedded_while_another_root_cannot_be_listed(
    settings, own, shared, unlistable
):
    async def main():
        unlistable.add(shared)
        async with ToolSearch([own, shared], settings(), refresh=False) as search:
            follower = Follower(search.index)
            task = asyncio.create_task(follower.run())
            try:
                async with asyncio.timeout(PATIENCE):
                    while (await search.index.coverage()).vectors != 1:
                        await asyncio.sleep(0.01)
                return await search.search("letter")
            finally:
                task.cancel()
                await asyncio.wait([task])

    response = asyncio.run(main())

    assert [str(tool.entry.id) for tool in response.tools] == ["mcptools:mail:send"]
    assert any(str(shared) in note for note in response.notes)


def test_a_root_named_twice_counts_once(own, tmp_path):
    (tmp_path / "link").symlink_to(own, target_is_directory=True)

    assert Roots.of([own, own.parent / "own", tmp_path / "link"]) == Roots.of(own)


def test_an_empty_list_of_roots_is_refused(settings):
    with pytest.raises(SettingsError, match="--root"):
        ToolSearch([], settings(), refresh=False)


def test_a_root_inside_another_has_its_own_tools(store, own):
    inner = own / "mcptools"
    write(inner, READ, "Read the letters in a mailbox.")

    report = TreeSync(store, [own, inner]).scan()

    assert paths_in(store) == {f"0/{SEND}", f"1/{READ}"}
    assert report.issues == ()


def test_links_from_one_root_into_another_count_as_outside(store, own, shared):
    (own / "mcptools" / "mail" / "alias.py").symlink_to(shared / READ)

    report = TreeSync(store, [own, shared]).scan()
    assert f"0/{'mcptools/mail/alias.py'}" not in paths_in(store)
    assert "outside_root" in {issue.reason for issue in report.issues}

    TreeSync(store, [own, shared], outside_links=True).scan()
    assert "0/mcptools/mail/alias.py" in paths_in(store)


def test_browsing_lists_the_tools_of_all_roots_each_once(own, shared):
    browser = ToolBrowser([own, shared], ToolFilter())

    assert browser.categories().model_dump() == {"gentools": ["pdf"], "mcptools": ["mail"]}
    assert browser.tools("mail")["mail"] == BySource(
        gentools=[], mcptools=[f"{shared.as_posix()}/{READ}", f"{own.as_posix()}/{SEND}"]
    )


def test_browsing_shows_which_root_cannot_be_listed(own, shared, unlistable):
    unlistable.update([shared, Path(os.path.realpath(shared))])

    with pytest.raises(RootUnreadableError) as raised:
        ToolBrowser([own, shared], ToolFilter()).categories()

    assert raised.value.root == shared


def test_an_index_of_several_roots_cannot_be_opened_for_one_of_them(tmp_path, own, shared):
    settings = Settings(db_path=tmp_path / "index.db")
    with closing(open_store(Roots.of([own, shared]), settings)):
        pass

    with closing(open_store(Roots.of([own, shared]), settings)):
        pass
    with pytest.raises(ForeignDatabaseError, match=r"choose another path"):
        open_store(Roots.of(own), settings)
    with pytest.raises(ForeignDatabaseError):
        open_store(Roots.of([shared, own]), settings)


@pytest.mark.parametrize("path", ["mcptools/mail/send.py", "7/mcptools/x/y.py", "x", ""])
def test_a_path_from_an_index_of_other_roots_is_located_in_the_first_root(path):
    assert Roots.of(["one", "two"]).resolve(path) == (Path("one"), path)


def test_an_evaluation_says_why_a_gold_tool_of_any_root_is_missing(settings, own, shared):
    write(shared, "mcptools/zoo/feed.py", "Feed the penguins.")
    (shared / "mcptools" / "zoo" / "feed.py").write_text("def run(:\n")
    queries = [
        EvaluationQuery(id="q", text="letter", gold=("mcptools:mail:read", "mcptools:zoo:feed"))
    ]
    chosen = settings(embedding_model="none")

    async def main():
        evaluator = Evaluator(Roots.of([own, shared]))
        return await evaluator.evaluate(
            queries, configurations(chosen, SearchMode.BM25), recall_at=(1,)
        )

    unknown = asyncio.run(main()).unknown

    assert list(unknown.examples) == ["mcptools:zoo:feed"]
    assert "mcptools/zoo/feed.py was left out" in unknown.examples["mcptools:zoo:feed"]


def test_files_left_out_stay_known_after_a_refresh_of_other_paths(settings, tmp_path):
    roots = [tmp_path / "one", tmp_path / "two"]
    for root in roots:
        (root / "mcptools/pdf").mkdir(parents=True)
        (root / "mcptools/pdf/broken.py").write_text("def run(:\n")

    async def main():
        async with ToolSearch(roots, settings(), refresh=False) as search:
            known = []
            for within in (None, ["capabilities.toml"], ["mcptools/pdf/broken.py"], ["mcptools"]):
                paths = None if within is None else map(PurePosixPath, within)
                await search.index.update(paths, vectors=False)
                known.append([it.path for it in search.index.sync.left_out])
                if within == ["capabilities.toml"]:
                    (roots[0] / "mcptools/pdf/broken.py").write_text("def run():\n    'Split.'\n")
            return known

    both = ["0/mcptools/pdf/broken.py", "1/mcptools/pdf/broken.py"]
    assert asyncio.run(main()) == [both, both, both[1:], both[1:]]


def test_recreating_an_index_clears_the_list_of_files_left_out(settings, tmp_path):
    broken = tmp_path / "one/mcptools/pdf/broken.py"
    broken.parent.mkdir(parents=True)
    broken.write_text("def run(:\n")

    async def main():
        async with ToolSearch(tmp_path / "one", settings(), refresh=False) as search:
            await search.index.update(vectors=False)
            before = search.index.sync.left_out
            broken.write_text("def run():\n    'Split.'\n")
            search.index.store.path.unlink()
            await search.index.update([PurePosixPath("mcptools/other.py")], vectors=False)
            return before, search.index.sync.left_out, await search.entries()

    before, after, entries = asyncio.run(main())

    assert [it.path for it in before] == ["mcptools/pdf/broken.py"]
    assert (len(entries), after) == (1, ())


def test_a_basic_server_lists_the_tools_of_all_roots(settings, own, shared):
    server = create_server(None, None, settings=settings(tools="basic"), root=[own, shared])

    listed = str(asyncio.run(server.call_tool("list_tools", {"categories": "mail"})))

    assert f"{own.as_posix()}/{SEND}" in listed
    assert f"{shared.as_posix()}/{READ}" in listed
    assert f"{shared.as_posix()}/{SEND}" not in listed
