"""Caches, repositories and editors' files do not count as the content of a folder."""

import pytest

pytestmark = pytest.mark.anyio

NOISE = [
    ".git/index",
    ".hg/store",
    ".svn/entries",
    ".venv/lib/site.py",
    "node_modules/pkg/index.js",
    "pkg/__pycache__/tool.cpython-312.pyc",
    ".mypy_cache/3.12/a.json",
    ".ruff_cache/0.1/b",
    "tool.pyc",
    "tool.pyo",
    "tool.py~",
    ".tool.py.swp",
    ".tool.py.swx",
    ".tool.py.swo",
    "tool.py.tmp",
    "tool.py___jb_tmp___",
    ".#tool.py",
    ".goutputstream-ABC123",
    ".pytest_cache/v/cache",
    "4913",
]


def write(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")


async def test_noise_alone_causes_no_batch(root, mirroring):
    for name in NOISE:
        (root / name).parent.mkdir(parents=True, exist_ok=True)

    async with mirroring(root) as mirror:
        for name in NOISE:
            write(root / name)
        write(root / "tool.py")
        await mirror.has("tool.py")
        assert {str(path) for path in mirror.mentioned()} == {"tool.py"}


# Nothing says that what has disappeared was a folder.
@pytest.mark.usefixtures("soon")
async def test_a_folder_whose_name_ends_like_a_temporary_file_is_content(root, mirroring):
    async with mirroring(root) as mirror:
        write(root / "build.tmp" / "tool.py")
        await mirror.has("build.tmp/tool.py")
        (root / "build.tmp").rename(root / "build")
        await mirror.has("build/tool.py")
        await mirror.equals_disk()


@pytest.mark.parametrize("above", [".venv", "work.tmp"])
async def test_a_root_below_a_folder_with_an_ignored_name_is_watched(tmp_path, mirroring, above):
    root = tmp_path / above / "generated"
    root.mkdir(parents=True)

    async with mirroring(root) as mirror:
        write(root / "tool.py")
        await mirror.has("tool.py")


async def test_hidden_folders_that_are_not_caches_are_content(root, mirroring):
    async with mirroring(root) as mirror:
        write(root / ".freeact" / "generated" / "tool.py")
        await mirror.has(".freeact/generated/tool.py")
