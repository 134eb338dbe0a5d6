"""The cache folder: a tree without tools leaves no index, and `index --prune` removes old ones."""

import json
import shutil

import pytest
from pytools_hybrid import BlockingToolSearch, Settings
from pytools_hybrid.cli import main
from pytools_hybrid.errors import SettingsError
from toolindex import ToolIndex


@pytest.fixture
def cached(tmp_path):
    """Return the names of the files in the cache folder, without SQLite's logs."""
    folder = tmp_path / "cache" / "pytools-hybrid"
    return lambda: sorted(
        it.name for it in folder.glob("*") if not it.name.endswith(("-wal", "-shm"))
    )


@pytest.fixture
def search():
    """Search a root, with its index in the cache folder."""

    def in_cache(root):
        with BlockingToolSearch(root, Settings(embedding_model="none")) as tools:
            return tools.search("merge files")

    return in_cache


def run(*arguments):
    try:
        main(list(arguments))
    except SystemExit as end:
        return end.code or 0
    return 0


def test_a_search_in_a_root_without_tools_leaves_no_file(tmp_path, search, cached):
    (tmp_path / "empty").mkdir()
    assert "no tools in" in search(tmp_path / "empty").notes[0]
    with pytest.raises(SettingsError, match="mistyped does not exist"):
        search(tmp_path / "mistyped")
    assert cached() == []


def test_a_root_that_appears_later_is_indexed(tmp_path, root, cached):
    place = tmp_path / "later"
    with BlockingToolSearch(place, Settings(embedding_model="none"), refresh=False) as tools:
        assert "later does not exist" in tools.search("merge files").notes[0]
        root.rename(place)
        tools.index.update(vectors=False)
        assert tools.search("merge pdf files")
    assert [it for it in cached() if it.endswith(".db")]


def test_an_emptied_tree_keeps_its_usage_record(root, search, cached):
    with BlockingToolSearch(root, Settings(embedding_model="none")) as tools:
        tools.record_outcome("merge_pdfs", success=True)
    before = cached()
    shutil.rmtree(root)
    root.mkdir()
    search(root)
    assert cached() == before


def test_each_index_is_listed_with_its_root(root, search, capsys):
    search(root)
    assert run("status", "--all", "--output", "json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["root"] == str(root)
    assert listed["is_there"]
    assert listed["tools"] == 4
    assert listed["bytes"] > 0
    assert run("status", "--all") == 0
    assert f"{root}  4 tools" in capsys.readouterr().out


def test_pruning_removes_only_indexes_of_missing_roots(root, tmp_path, search, cached):
    search(root)
    kept = cached()
    shutil.copytree(root, tmp_path / "other")
    search(tmp_path / "other")
    assert len(cached()) > len(kept)
    shutil.rmtree(tmp_path / "other")
    assert run("index", "--prune", "--yes") == 0
    assert cached() == kept


def test_pruning_keeps_an_open_index(root, cached, capsys):
    with BlockingToolSearch(root, Settings(embedding_model="none"), refresh=False) as tools:
        tools.index.update(vectors=False)
        shutil.rmtree(root)
        assert run("index", "--prune", "--yes") == 0
        assert "was not removed: it is in use" in capsys.readouterr().err
    assert [it for it in cached() if it.endswith(".db")]


def test_nothing_is_removed_without_confirmation(root, search, cached):
    search(root)
    before = cached()
    shutil.rmtree(root)
    assert run("index", "--prune") == 2
    assert cached() == before


def test_leftover_files_of_an_index_are_listed_and_kept(root, tmp_path, search, cached, capsys):
    search(root)
    (database,) = (tmp_path / "cache" / "pytools-hybrid").glob("*.db")
    database.rename(f"{database}.corrupt-20261122T101500")
    assert run("status", "--all") == 0
    assert str(database) in capsys.readouterr().out
    assert run("index", "--prune", "--yes") == 0
    assert cached() != []


def test_an_index_without_a_recorded_root_keeps_its_usage_record(root, tmp_path, cached):
    with BlockingToolSearch(root, Settings(embedding_model="none")) as tools:
        tools.record_outcome("merge_pdfs", success=True)
    (database,) = (tmp_path / "cache" / "pytools-hybrid").glob("*.db")
    database.unlink()
    ToolIndex(database).close()
    before = cached()
    assert run("index", "--prune", "--yes") == 0
    assert cached() == before


def test_an_index_behind_a_link_is_removed_at_its_target(tmp_path):
    link, real = tmp_path / "link.db", tmp_path / "elsewhere" / "real.db"
    real.parent.mkdir()
    link.symlink_to(real)
    with ToolIndex(link):
        assert not ToolIndex.remove(link)
    assert ToolIndex.remove(link)
    assert list(real.parent.iterdir()) == []
