"""The installed command on a machine that cannot load sqlite-vec."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import patience


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """Code that prevents an installed sqlite-vec from being loaded."""
    package = tmp_path / "broken" / "sqlite_vec"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('built for another machine')")
    (package.parent / "sitecustomize.py").write_text(patience.CODE)
    return {"PYTHONPATH": str(package.parent)}


@pytest.mark.anyio
async def test_searches_work_and_name_the_missing_extension(
    tree: Path, run: Callable[..., Any], connect: Callable[..., Any], without: dict[str, str]
) -> None:
    found = run("search", "--root", tree, "merge two pdf files", **without)
    assert (found.returncode, "merge_pdfs" in found.stdout.splitlines()[0]) == (0, True)
    assert "sqlite-vec cannot be loaded" in found.stderr
    assert "searched with numpy" in found.stderr

    async with connect("--root", tree, **without) as client:
        answer = await client.call_tool("search_tools", {"query": "merge two pdf files"})
    assert answer.structured_content["result"][0]["name"] == "merge_pdfs"
    assert "sqlite-vec cannot be loaded" in str(answer.meta)


def test_status_names_the_missing_extension(
    tree: Path, run: Callable[..., Any], without: dict[str, str]
) -> None:
    run("index", "--root", tree)
    told = run("status", "--root", tree, **without)
    assert (told.returncode, "sqlite-vec cannot be loaded" in told.stdout) == (0, True)
