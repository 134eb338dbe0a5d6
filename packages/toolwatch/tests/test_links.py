"""Symbolic links below the root: the files that they lead to belong to the root."""

import asyncio
import logging
import shutil
from contextlib import closing
from pathlib import PurePosixPath

import pytest
from toolwatch import watch_tools

# What happens to the target of a link is not always reported.
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("soon")]


@pytest.fixture
def outside(tmp_path):
    """A folder outside the root, to which links can lead."""
    folder = tmp_path / "outside" / "target"
    folder.mkdir(parents=True)
    return folder


def link(path, target):
    path.symlink_to(target, target_is_directory=True)


async def test_a_change_in_a_linked_folder_is_reported_with_its_path_below_the_root(
    root, outside, mirroring
):
    link(root / "linked", outside)

    async with mirroring(root) as mirror:
        (outside / "tool.py").write_text("x")
        await mirror.has("linked/tool.py")
        (outside / "deep" / "deeper").mkdir(parents=True)
        (outside / "deep" / "deeper" / "tool.py").write_text("y")
        await mirror.has("linked/deep/deeper/tool.py")
        assert {path.parts[0] for path in mirror.mentioned()} <= {"linked"}


async def test_a_link_that_is_added_later_is_followed(root, outside, mirroring):
    (outside / "early.py").write_text("x")

    async with mirroring(root) as mirror:
        link(root / "linked", outside)
        await mirror.has("linked/early.py")
        (outside / "later.py").write_text("x")
        await mirror.has("linked/later.py")


async def test_a_link_with_a_new_target_is_followed_there(root, outside, mirroring, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "other.py").write_text("x")
    (outside / "old.py").write_text("x")
    link(root / "linked", outside)

    async with mirroring(root) as mirror:
        link(tmp_path / "new_link", other)
        (tmp_path / "new_link").replace(root / "linked")
        await mirror.has("linked/other.py")
        (other / "later.py").write_text("x")
        await mirror.has("linked/later.py")
        await mirror.equals_disk()


async def test_removing_a_link_removes_its_files(root, outside, mirroring):
    (outside / "tool.py").write_text("x")
    link(root / "linked", outside)

    async with mirroring(root) as mirror:
        (root / "linked").unlink()
        await mirror.sees(absence=lambda: mirror.files == {})
        (outside / "unseen.py").write_text("x")
        (root / "seen.py").write_text("x")
        await mirror.has("seen.py")
        await mirror.equals_disk()


async def test_the_target_of_a_link_may_be_removed_and_recreated(root, outside, mirroring):
    (outside / "old.py").write_text("x")
    link(root / "linked", outside)

    async with mirroring(root) as mirror:
        shutil.rmtree(outside)
        await mirror.sees(absence=lambda: mirror.files == {})
        outside.mkdir()
        (outside / "new.py").write_text("x")
        await mirror.has("linked/new.py")
        (outside / "later.py").write_text("x")
        await mirror.has("linked/later.py")
        await mirror.equals_disk()


async def test_a_folder_above_the_target_of_a_link_may_be_moved_away_and_back(
    root, outside, mirroring
):
    (outside / "tool.py").write_text("x")
    link(root / "linked", outside)
    parked = outside.parent.with_name("parked")

    async with mirroring(root) as mirror:
        outside.parent.rename(parked)
        await mirror.sees(absence=lambda: mirror.files == {})
        parked.rename(outside.parent)
        await mirror.has("linked/tool.py")


async def test_a_link_to_another_link_with_a_new_target_is_followed(
    root, outside, mirroring, tmp_path
):
    other, middle = tmp_path / "other", tmp_path / "middle"
    other.mkdir()
    link(middle, outside)
    link(root / "linked", middle)

    async with mirroring(root) as mirror:
        link(tmp_path / "new_middle", other)
        (tmp_path / "new_middle").replace(middle)
        (other / "tool.py").write_text("x")
        await mirror.has("linked/tool.py")
        (other / "later.py").write_text("x")
        await mirror.has("linked/later.py")


async def test_a_link_back_to_a_folder_above_it_is_not_followed_endlessly(root, mirroring):
    (root / "category").mkdir()
    link(root / "category" / "up", root)
    link(root / "category" / "self", root / "category")

    async with mirroring(root) as mirror:
        (root / "category" / "tool.py").write_text("x")
        await mirror.has("category/tool.py")
        assert all(len(path.parts) <= 2 for path in mirror.mentioned())


async def test_a_folder_with_two_names_is_reported_under_both(root, mirroring):
    (root / "real").mkdir()
    link(root / "alias", root / "real")

    async with mirroring(root) as mirror:
        (root / "real" / "tool.py").write_text("x")
        await mirror.has("real/tool.py", "alias/tool.py")
        (root / "alias").unlink()
        await mirror.equals_disk()
        (root / "real" / "later.py").write_text("x")
        await mirror.has("real/later.py")
        await mirror.equals_disk()


def test_a_root_whose_folders_have_countless_names_through_links_is_polled(root):
    """Ten folders that link to each other have some ten million names."""
    folders = [root / f"folder_{number}" for number in range(10)]
    for folder in folders:
        folder.mkdir()
    for folder in folders:
        for other in folders:
            link(folder / f"to_{other.name}", other)

    with closing(watch_tools(root)) as batches:
        batch = next(batches)
    assert (batch.rescan, batch.polling) == (True, True)


async def test_a_linked_file_is_followed_to_its_target(root, outside, mirroring):
    file = outside / "tool.py"
    file.write_text("before")
    (root / "linked.py").symlink_to(file)

    async with mirroring(root) as mirror:
        file.write_text("after, longer")
        await mirror.sees(
            edit=lambda: mirror.files.get(PurePosixPath("linked.py")) == b"after, longer"
        )
        file.unlink()
        await mirror.sees(absence=lambda: mirror.files == {})
        file.write_text("again")
        await mirror.has("linked.py")


async def test_the_target_of_a_link_may_be_missing_at_first(root, outside, mirroring):
    link(root / "linked", outside / "not_yet")
    link(root / "itself", root / "itself")

    async with mirroring(root) as mirror:
        (outside / "not_yet").mkdir()
        (outside / "not_yet" / "tool.py").write_text("x")
        await mirror.has("linked/tool.py")
        (outside / "not_yet" / "later.py").write_text("x")
        await mirror.has("linked/later.py")


async def test_links_that_editors_use_as_locks_are_ignored(root, mirroring):
    (root / ".#other.py").symlink_to("user@host.1234")

    async with mirroring(root) as mirror:
        (root / ".#tool.py").symlink_to("user@host.1234")
        (root / "tool.py").write_text("x")
        await mirror.has("tool.py")
        assert {str(path) for path in mirror.mentioned()} == {"tool.py"}


def test_nothing_is_logged_while_links_are_followed(root, outside, mirroring, caplog):
    link(root / "linked", outside)

    async def scenario():
        async with mirroring(root) as mirror:
            (outside / "tool.py").write_text("x")
            await mirror.has("linked/tool.py")

    with caplog.at_level(logging.WARNING, "toolwatch"):
        asyncio.run(scenario())
    assert not caplog.records
