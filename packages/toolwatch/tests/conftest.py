"""A consumer of batches as an application would write it, and waits with a time limit."""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest
from toolwatch import ChangeBatch, awatch_tools

# The time limit of any wait, in seconds: many times what a slow machine needs.
PATIENCE = 120

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable

    StrPath = str | os.PathLike[str]


class Mirror:
    """The files below a root, which are read again only where batches say so.

    Other roots may be watched at the same time; of those, only the batches are recorded.
    """

    def __init__(self, root: StrPath, others: Iterable[StrPath] = (), **options: Any) -> None:
        self.root = Path(root)
        self.files: dict[PurePosixPath, bytes] = {}
        self.batches: list[ChangeBatch] = []
        self.others: list[ChangeBatch] = []
        self._watched = [root, *others]
        self._options = options
        self._task: asyncio.Task[None] | None = None

    async def follow(self) -> None:
        async for batch in awatch_tools(*self._watched, **self._options):
            if batch.root.name == self.root.name:
                self.take(batch)
            else:
                self.others.append(batch)

    def take(self, batch: ChangeBatch) -> None:
        self.batches.append(batch)
        for path in [PurePosixPath()] if batch.rescan else batch.paths:
            self.files = {
                known: content
                for known, content in self.files.items()
                if known != path and path not in known.parents
            }
            self.files |= read_files(self.root, below=path)

    @property
    def rescans(self) -> int:
        return sum(batch.rescan for batch in self.batches)

    def mentioned(self) -> set[PurePosixPath]:
        return {path for batch in self.batches for path in batch.paths}

    async def sees(self, **kinds: Callable[[], bool]) -> None:
        """Wait until every condition holds; the names say what was missed if one never does."""
        for what, condition in kinds.items():
            await self._until(what, condition)

    async def is_watching(self) -> None:
        await self._until("a first rescan", lambda: bool(self.batches))

    async def equals_disk(self) -> None:
        await self._until("the files as on disk", lambda: self.files == read_files(self.root))

    async def has(self, *names: str) -> None:
        await self._until(
            f"{names}", lambda: all(PurePosixPath(name) in self.files for name in names)
        )

    async def _until(self, what: str, condition: Callable[[], bool]) -> None:
        assert self._task is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while not condition():
                    if self._task.done():
                        self._task.result()
                    await asyncio.sleep(0.005)
                return
        pytest.fail(f"never saw {what}; batches: {self.batches}")

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Mirror]:
        self._task = asyncio.create_task(self.follow())
        try:
            await self.is_watching()
            yield self
        finally:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task


def read_files(root: Path, *, below: PurePosixPath | None = None) -> dict[PurePosixPath, bytes]:
    """Read the files at or below a path, also through links, even if some disappear meanwhile."""
    start = root / (below or PurePosixPath())
    paths = [start]
    for folder, folders, names in os.walk(start, followlinks=True):
        above = Path(folder).resolve()
        for name in tuple(folders):
            target = Path(folder, name).resolve()
            if target == above or target in above.parents:
                folders.remove(name)
        paths += [Path(folder, name) for name in names]
    files: dict[PurePosixPath, bytes] = {}
    for path in paths:
        with suppress(OSError):
            files[PurePosixPath(path.relative_to(root).as_posix())] = path.read_bytes()
    return files


@pytest.fixture
def anyio_backend() -> str:
    """The event loop in which asynchronous tests run."""
    return "asyncio"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty folder to watch, in a folder that nothing else changes."""
    folder = tmp_path / "generated"
    folder.mkdir()
    return folder


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rescans follow each other so soon that a test need not wait ten seconds for one."""
    monkeypatch.setattr("toolwatch._root._RESCAN_SECONDS", 0.5)


@pytest.fixture
def mirroring() -> Callable[..., AbstractAsyncContextManager[Mirror]]:
    """Start a mirror of a root with default settings."""
    return lambda root, *others, **options: Mirror(root, others, **options).running()
