"""Files that settings or a tree name: none of them keeps a command busy or fills the memory."""

import os
import sys

import pytest
from pytools_hybrid import SettingsError, ToolSearch
from pytools_hybrid.learn.evaluate import read_queries
from toolimport.system import read_regular_file

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files"),
]


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=["pipe", "device", "huge"])
def endless(request, tmp_path):
    """A file that nobody should read to its end."""
    file = tmp_path / "endless"
    if request.param == "pipe":
        os.mkfifo(file)
    elif request.param == "device":
        file.symlink_to("/dev/zero")
    else:
        with file.open("wb") as opened:
            opened.truncate(5 << 30)
    return file


async def test_a_tuning_file_named_by_settings_is_ignored_with_a_note(
    endless, toolbox, settings, monkeypatch, tmp_path
):
    (tmp_path / "pytools.toml").write_text('tuning = "endless"\n')
    monkeypatch.chdir(tmp_path)

    async with ToolSearch(toolbox, settings(embedding_model="static")) as tools:
        found = await tools.search("merge pdf files")

    assert found[0].name == "merge_pdfs"
    assert any(str(endless) in note for note in found.notes)


async def test_files_of_a_tree_are_left_out_with_the_reason(endless, toolbox, settings):
    endless.rename(toolbox / "mcptools/pdf/endless.py")
    (toolbox / "capabilities.toml").symlink_to(toolbox / "mcptools/pdf/endless.py")

    async with ToolSearch(toolbox, settings(embedding_model="none")) as tools:
        found = await tools.search("merge pdf files")
        left_out = tools.index.sync.left_out

    assert found[0].name == "merge_pdfs"
    assert "mcptools/pdf/endless.py" in {it.path for it in left_out}


def test_queries_are_read_from_regular_files_only(endless):
    with pytest.raises(SettingsError, match=r"endless: it is (not a regular file|larger than)"):
        read_queries(endless)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"tea")

    assert read_regular_file(file, limit=3) == b"tea"
    with pytest.raises(OSError, match="larger than 2 bytes"):
        read_regular_file(file, limit=2)
