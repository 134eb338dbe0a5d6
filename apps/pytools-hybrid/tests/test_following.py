"""Whatever happens to the files, the index ends up equal to a scan."""

import asyncio
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pytools_hybrid import Follower, Settings, ToolSearch
from pytools_hybrid.index import SQLiteStore, TreeSync
from toolembed import StaticEmbedder
from toolscan import scan

from .conftest import PATIENCE

CATEGORIES = ["mcptools/a", "mcptools/b", "gentools/a", "gentools/b"]
FILES = [
    *(f"{category}/{name}.py" for category in CATEGORIES[:2] for name in "xyz"),
    *(f"{category}/{name}/api.py" for category in CATEGORIES[2:] for name in "xy"),
]
# All have the same length, so that only the bytes reveal an edit.
MODULES = [
    f"def run(text: str) -> str:\n    '''{words}'''\n"
    for words in ("Send mail. ", "Read mail. ", "Sort mail. ")
]
BROKEN = ["def run(:\n", "def run(): pass\n", "x = 1\n", ""]
ANY_TIME = [0, 1, 946_684_800, 2_000_000_000, 4_000_000_000]

files = st.sampled_from(FILES)
categories = st.sampled_from(CATEGORIES)
modules = st.sampled_from(MODULES)


def on_disk(root):
    try:
        report = scan(root, outside_links=False)
    except NotADirectoryError:
        return {}
    return {str(each.id): (each.path, each.file_hash, each.description) for each in report.records}


def in_index(store):
    with store.reading() as reader:
        rows = reader.connection.execute("SELECT id, path, file_hash, description FROM entries")
        return {id_: tuple(rest) for id_, *rest in rows}


def remove(place):
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


class AnyFileOperations(RuleBasedStateMachine):
    """Everything that people, editors and generators do to files."""

    folder: Path

    @initialize()
    def begin(self):
        self.root, self.elsewhere = self.folder / "tools", self.folder / "elsewhere"
        for place in (self.root, self.elsewhere):
            remove(place)
            place.mkdir()
        for path in FILES:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(MODULES[0])
        self.targets = 0
        self.changed = set()
        self.open()

    def _new_target(self, suffix):
        # Each link has its own target; otherwise, a write through one would change others unseen.
        self.targets += 1
        return self.elsewhere / f"target_{self.targets}{suffix}"

    def _noting(self, *paths):
        """Record what a watcher would report; skip an operation that cannot be done."""
        self.changed.update(paths)
        return suppress(OSError, shutil.Error)

    @rule(path=files, module=modules)
    def write(self, path, module):
        with self._noting(path):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(module)

    @rule(path=files, module=st.sampled_from(BROKEN))
    def write_what_is_no_tool(self, path, module):
        with self._noting(path):
            (self.root / path).write_text(module)

    @rule(path=files, module=modules, other=modules)
    def write_twice_within_a_moment(self, path, module, other):
        with self._noting(path):
            (self.root / path).write_text(module)
            (self.root / path).write_text(other)

    @rule(path=files, module=modules)
    def edit_and_give_the_old_times_back(self, path, module):
        with self._noting(path):
            status = (self.root / path).stat()
            (self.root / path).write_text(module)
            os.utime(self.root / path, ns=(status.st_atime_ns, status.st_mtime_ns))

    @rule(path=files, module=modules, seconds=st.sampled_from(ANY_TIME))
    def edit_at_another_time(self, path, module, seconds):
        with self._noting(path):
            (self.root / path).write_text(module)
            os.utime(self.root / path, (seconds, seconds))

    @rule(path=files)
    def touch(self, path):
        with self._noting(path):
            os.utime(self.root / path)

    @rule(path=files, module=modules)
    def replace_atomically(self, path, module):
        with self._noting(path):
            draft = (self.root / path).with_suffix(".py.tmp")
            draft.write_text(module)
            draft.replace(self.root / path)

    @rule(
        path=files, module=modules, suffix=st.sampled_from([".py.tmp", ".py~", ".swp", ".py.orig"])
    )
    def leave_a_draft_behind(self, path, module, suffix):
        with self._noting(path):
            (self.root / path).with_suffix(suffix).write_text(module)

    @rule(path=st.one_of(files, categories))
    def delete(self, path):
        with self._noting(path):
            remove(self.root / path)

    @rule(path=files, other=files)
    def rename_a_file(self, path, other):
        with self._noting(path, other):
            (self.root / path).rename(self.root / other)

    @rule(path=files, other=files)
    def exchange_two_files(self, path, other):
        with self._noting(path, other):
            (self.root / path).rename(self.elsewhere / "third")
            (self.root / other).rename(self.root / path)
            (self.elsewhere / "third").rename(self.root / other)

    @rule(path=categories, other=st.sampled_from([*CATEGORIES, "mcptools/_hidden", "mcptools/new"]))
    def rename_a_category(self, path, other):
        with self._noting(path, other):
            (self.root / path).rename(self.root / other)

    @rule(path=st.one_of(files, categories), name=st.sampled_from("pq"))
    def move_out(self, path, name):
        with self._noting(path):
            (self.root / path).rename(self.elsewhere / name)

    @rule(path=st.one_of(files, categories), name=st.sampled_from("pq"))
    def move_in(self, path, name):
        with self._noting(path):
            (self.elsewhere / name).rename(self.root / path)

    @rule(path=categories, module=modules)
    def move_a_new_category_in(self, path, module):
        with self._noting(path):
            made = self.elsewhere / "made"
            remove(made)
            for name in ("x.py", "x/api.py"):
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).write_text(module)
            remove(self.root / path)
            made.rename(self.root / path)

    @rule(path=categories, module=modules)
    def regenerate(self, path, module):
        with self._noting(path):
            names = [
                file.relative_to(self.root / path) for file in (self.root / path).rglob("*.py")
            ]
            remove(self.root / path)
            for name in names:
                (self.root / path / name).parent.mkdir(parents=True, exist_ok=True)
                (self.root / path / name).write_text(module)

    @rule(path=st.one_of(files, categories))
    def make_a_folder_of_it(self, path):
        with self._noting(path):
            remove(self.root / path)
            (self.root / path).mkdir(parents=True)

    @rule(path=categories, module=modules)
    def make_a_file_of_a_category(self, path, module):
        with self._noting(path):
            remove(self.root / path)
            (self.root / path).write_text(module)

    @rule(path=files, module=modules)
    def link_to_a_file_elsewhere(self, path, module):
        with self._noting(path):
            target = self._new_target(".py")
            target.write_text(module)
            remove(self.root / path)
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).symlink_to(target)

    @rule(path=categories, module=modules)
    def link_to_a_folder_elsewhere(self, path, module):
        with self._noting(path):
            target = self._new_target("")
            for name in ("x.py", "y/api.py"):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                (target / name).write_text(module)
            remove(self.root / path)
            (self.root / path).parent.mkdir(exist_ok=True)
            (self.root / path).symlink_to(target, target_is_directory=True)

    @rule(path=files)
    def link_to_nothing(self, path):
        with self._noting(path):
            remove(self.root / path)
            (self.root / path).symlink_to(self.elsewhere / "nothing")

    @rule(path=files, mode=st.sampled_from([0o000, 0o600]))
    def change_permissions(self, path, mode):
        with self._noting(path):
            (self.root / path).chmod(mode)

    def open(self):
        raise NotImplementedError


class ToldWhatChanged(AnyFileOperations):
    """Refreshes with the changed paths, now and then."""

    store = None

    def open(self):
        self.teardown()
        for file in self.folder.glob("index.db*"):
            file.unlink()
        self.store = SQLiteStore(self.folder / "index.db")
        self._refresh(None)

    @rule()
    def refresh_what_changed(self):
        self._refresh(self.changed)

    @rule()
    def refresh_all(self):
        self._refresh(None)

    def _refresh(self, within):
        paths = None if within is None else [PurePosixPath(path) for path in sorted(within)]
        TreeSync(self.store, self.root).scan(paths)
        self.changed.clear()

    @rule()
    def open_again(self):
        self.store.close()
        self.store = SQLiteStore(self.folder / "index.db")

    @precondition(lambda self: self.store is not None and not self.changed)
    @invariant()
    def the_index_is_what_a_scan_finds(self):
        assert in_index(self.store) == on_disk(self.root)

    def teardown(self):
        if self.store is not None:
            try:
                self._refresh(self.changed)
                assert in_index(self.store) == on_disk(self.root)
                assert self.store.check() == ()
            finally:
                self.store.close()
                self.store = None


class TrustsTheTimesOfFiles(ToldWhatChanged):
    """Skip files that look unchanged: the clock is far enough ahead that every file looks old."""

    def _refresh(self, within):
        super()._refresh(within)
        # No stamp reveals an edit within the same tick of the file system's clock.
        tick = self.elsewhere / "tick"
        tick.touch()
        before = tick.stat().st_ctime_ns
        while tick.stat().st_ctime_ns == before:
            tick.touch()


@pytest.mark.anyio
async def test_a_file_that_is_left_out_is_reported_once_and_not_at_each_rescan(
    root, settings, monkeypatch
):
    monkeypatch.setattr("toolwatch._root._RESCAN_SECONDS", 0.01)
    (root / "mcptools" / "github" / "broken.py").write_text("def run(:")
    rescans, reports, enough = 0, [], asyncio.Event()
    async with ToolSearch(settings=settings(root=[root]), refresh=False) as search:
        index = search.index
        follower = Follower(index, on_sync=reports.append)
        update_files = search.index.sync.update

        async def counted(within=None, **options):
            nonlocal rescans
            rescans += within is None
            if rescans == 4:
                enough.set()
            return await update_files(within, **options)

        monkeypatch.setattr(search.index.sync, "update", counted)
        following = asyncio.create_task(follower.run())
        async with asyncio.timeout(PATIENCE):
            await enough.wait()
        following.cancel()
        await asyncio.wait([following])
    paths = [issue.path for report in reports for issue in report.issues]
    assert len(reports) == 1
    assert "mcptools/github/broken.py" in paths


class Watched(AnyFileOperations):
    """Leaves the detection of changes to the follower of a server."""

    runner = None

    def open(self):
        self.close()
        self.runner = asyncio.Runner()
        self.runner.run(self._open())

    async def _open(self):
        for file in self.folder.glob("index.db*"):
            file.unlink()
        chosen = Settings.from_flags({"db_path": self.folder / "index.db", "usage_log": False})
        self.search = await ToolSearch(self.root, chosen, refresh=False).__aenter__()
        follower = Follower(self.search.index)
        self.follower = asyncio.create_task(follower.run())
        await follower.wait_until_ready()

    @rule(name=st.sampled_from("pq"))
    def move_the_root_away_and_back(self, name):
        with suppress(OSError):
            self.root.rename(self.folder / "away")
            (self.folder / "away").rename(self.root)

    @rule(path=files, other=files)
    def link_to_a_file_of_the_tree(self, path, other):
        with suppress(OSError):
            remove(self.root / path)
            (self.root / path).symlink_to(self.root / other)

    @rule(path=categories, other=categories)
    def link_to_a_category_of_the_tree(self, path, other):
        with suppress(OSError):
            remove(self.root / path)
            (self.root / path).symlink_to(self.root / other, target_is_directory=True)

    @rule()
    def let_the_dust_settle(self):
        self.runner.run(self._settled())

    async def _settled(self):
        # The last event has been seen when this file has.
        marker = self.root / "mcptools" / "marker" / "last.py"
        remove(marker.parent)
        await self._until(lambda found: "mcptools:marker:last" not in found)
        with suppress(OSError):
            marker.parent.mkdir(parents=True)
        if marker.parent.is_dir():
            marker.write_text(MODULES[0])
        await self._until(lambda found: True)
        assert self.search.index.store.check() == ()

    async def _until(self, holds):
        expected, found = on_disk(self.root), None
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds(found := in_index(self.search.index.store)) or found != expected:
                    await asyncio.sleep(0.02)
                while not self._has_all_vectors():
                    await asyncio.sleep(0.02)
        except TimeoutError:
            assert found == expected, "the index differs from a scan"
            assert self._has_all_vectors()

    def _has_all_vectors(self):
        with self.search.index.store.reading() as reader:
            coverage = reader.coverage(StaticEmbedder().model_id)
        return coverage.vectors == coverage.tools

    def teardown(self):
        if self.runner is not None:
            try:
                self.runner.run(self._settled())
            finally:
                self.close()

    def close(self):
        if self.runner is not None:
            self.runner.run(self._close())
            self.runner.close()
            self.runner = None

    async def _close(self):
        self.follower.cancel()
        await asyncio.wait([self.follower])
        await self.search.__aexit__(None, None, None)


@pytest.mark.parametrize(
    ("machine", "share"), [(ToldWhatChanged, 1), (TrustsTheTimesOfFiles, 1), (Watched, 8)]
)
def test_after_any_file_operations_the_index_equals_a_scan(machine, share, tmp_path, monkeypatch):
    if machine is TrustsTheTimesOfFiles:
        now = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: now() + 86_400 * 10**9)

    class OfThisTest(machine):
        folder = tmp_path

    run_state_machine_as_test(
        OfThisTest,
        settings=settings(
            max_examples=settings().max_examples // share,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
