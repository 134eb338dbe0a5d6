"""Changes below an existing folder: each is reported at the right place."""

import os
import shutil
from pathlib import Path, PurePosixPath

import pytest
from toolwatch import ChangeBatch

pytestmark = pytest.mark.anyio


async def test_the_first_batch_asks_for_a_rescan(root, mirroring):
    """Changes between the caller's first scan and the start of the watch must not be lost."""
    async with mirroring(root) as mirror:
        assert [batch.rescan for batch in mirror.batches] == [True]


async def test_a_new_file_is_named_relative_to_the_root(root, mirroring):
    async with mirroring(root) as mirror:
        (root / "new.py").write_text("x")
        await mirror.sees(new=lambda: PurePosixPath("new.py") in mirror.mentioned())
        assert not any(path.is_absolute() for path in mirror.mentioned())


async def test_created_edited_and_deleted_files_are_followed(root, mirroring):
    async with mirroring(root) as mirror:
        file = root / "tool.py"
        file.write_text("one")
        await mirror.equals_disk()
        file.write_text("two, longer")
        await mirror.equals_disk()
        file.unlink()
        await mirror.equals_disk()
        assert mirror.files == {}


async def test_an_atomic_replacement_of_a_file_is_followed(root, mirroring):
    file = root / "tool.py"
    file.write_text("before")

    async with mirroring(root) as mirror:
        (root / "tool.py.tmp").write_text("after")
        (root / "tool.py.tmp").replace(file)
        await mirror.sees(replaced=lambda: mirror.files.get(PurePosixPath("tool.py")) == b"after")


async def test_a_file_deleted_and_recreated_in_one_batch_is_reported(root, mirroring):
    file = root / "tool.py"
    file.write_text("before")

    async with mirroring(root) as mirror:
        file.unlink()
        file.write_text("after")
        await mirror.sees(recreated=lambda: mirror.files.get(PurePosixPath("tool.py")) == b"after")


async def test_a_folder_regenerated_in_one_batch_is_reported(root, mirroring):
    """A generator removes a server's folder and writes it again at each run."""
    category = root / "mcptools" / "github"
    category.mkdir(parents=True)
    for number in range(26):
        (category / f"tool_{number}.py").write_text("old")

    async with mirroring(root) as mirror:
        shutil.rmtree(category)
        category.mkdir()
        for number in range(26):
            (category / f"tool_{number}.py").write_text("new one")
        await mirror.equals_disk()
        assert len(mirror.files) == 26


async def test_files_in_new_nested_folders_are_found(root, mirroring):
    async with mirroring(root) as mirror:
        deep = root / "gentools" / "pdf" / "merge"
        deep.mkdir(parents=True)
        (deep / "api.py").write_text("x")
        await mirror.equals_disk()
        (deep / "later.py").write_text("y")
        await mirror.has("gentools/pdf/merge/later.py")


async def test_a_folder_moved_in_is_found_with_all_its_files(root, mirroring, tmp_path):
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "inner" / "tool.py").write_text("x")

    async with mirroring(root) as mirror:
        outside.rename(root / "moved")
        await mirror.has("moved/inner/tool.py")
        (root / "moved" / "inner" / "later.py").write_text("y")
        await mirror.has("moved/inner/later.py")


async def test_a_deep_tree_moved_in_out_and_back_is_followed_at_every_depth(
    root, mirroring, tmp_path
):
    deep = tmp_path / "outside" / "one" / "two" / "three"
    deep.mkdir(parents=True)
    (deep / "tool.py").write_text("x")

    async with mirroring(root) as mirror:
        for turn in range(2):
            (tmp_path / "outside").rename(root / "moved")
            await mirror.has("moved/one/two/three/tool.py")
            (root / f"moved/one/two/three/later_{turn}.py").write_text("y")
            (root / f"moved/one/later_{turn}.py").write_text("y")
            await mirror.has(f"moved/one/two/three/later_{turn}.py", f"moved/one/later_{turn}.py")
            (root / "moved" / "one").rename(root / "moved" / "uno")
            await mirror.has(f"moved/uno/two/three/later_{turn}.py")
            (root / "moved" / "uno").rename(root / "moved" / "one")
            (root / "moved").rename(tmp_path / "outside")
            await mirror.sees(absence=lambda: mirror.files == {})


async def test_two_folders_that_swap_names_are_both_followed(root, mirroring):
    for name in ("one", "two"):
        (root / name).mkdir()
        (root / name / f"of_{name}.py").write_text("x")

    async with mirroring(root) as mirror:
        (root / "one").rename(root / "parked")
        (root / "two").rename(root / "one")
        (root / "parked").rename(root / "two")
        await mirror.has("one/of_two.py", "two/of_one.py")
        for name in ("one", "two"):
            (root / name / "later.py").write_text("x")
        await mirror.has("one/later.py", "two/later.py")
        await mirror.equals_disk()


async def test_a_folder_moved_out_or_renamed_removes_its_files(root, mirroring, tmp_path):
    for name in ("stays", "goes", "old_name"):
        (root / name).mkdir()
        (root / name / "tool.py").write_text(name)

    async with mirroring(root) as mirror:
        (root / "goes").rename(tmp_path / "gone")
        (root / "old_name").rename(root / "new_name")
        await mirror.equals_disk()
        expected = {PurePosixPath("stays/tool.py"), PurePosixPath("new_name/tool.py")}
        assert set(mirror.files) == expected


async def test_a_burst_of_500_files_is_followed_to_the_last(root, mirroring):
    async with mirroring(root) as mirror:
        for number in range(500):
            folder = root / f"category_{number % 10}"
            folder.mkdir(exist_ok=True)
            (folder / f"tool_{number}.py").write_text(str(number))
        await mirror.equals_disk()
        assert len(mirror.files) == 500


async def test_changes_made_while_the_consumer_is_busy_are_not_lost(root, mirroring):
    async with mirroring(root) as mirror:
        take = mirror.take

        def take_slowly(batch):
            (root / f"during_{len(mirror.batches)}.py").write_text("x")
            take(batch)
            mirror.take = take

        mirror.take = take_slowly
        (root / "trigger.py").write_text("x")
        await mirror.equals_disk()
        assert len(mirror.files) == 2


async def test_names_in_any_script_are_reported_unchanged(root, mirroring):
    names = ["größe.py", "工具.py", "emoji 🛠 and spaces.py", "e\u0301.py"]

    async with mirroring(root) as mirror:
        for name in names:
            (root / name).write_text("x")
        await mirror.equals_disk()
        assert {str(path) for path in mirror.mentioned()} == set(os.listdir(root))  # noqa: PTH208


def test_a_batch_is_an_immutable_value():
    batch = ChangeBatch(root=Path("/r"), paths=frozenset({PurePosixPath("a.py")}))
    assert batch == ChangeBatch(root=Path("/r"), paths=frozenset({PurePosixPath("a.py")}))
    assert not batch.rescan
    assert not batch.polling
    with pytest.raises(AttributeError):
        batch.rescan = True


async def test_a_name_that_is_not_utf8_is_reported_as_its_folder(root, mirroring):
    """Databases and terminals do not accept such a name."""
    (root / "folder" / "inner").mkdir(parents=True)

    async with mirroring(root) as mirror:
        for folder in ("", "/folder/inner"):
            try:
                with open(os.fsencode(f"{root}{folder}/") + b"caf\xe9.txt", "w"):  # noqa: PTH123
                    pass
            except OSError:
                pytest.skip("this file system does not allow such names")
            await mirror.equals_disk()
        assert mirror.rescans > 1
        for path in mirror.mentioned():
            str(path).encode()
        (root / "after.py").write_text("x")
        await mirror.has("after.py")
