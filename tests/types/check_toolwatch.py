"""The types that users of toolwatch see. Our two type checkers read this; it is never run."""

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from pathlib import Path, PurePosixPath
from threading import Event
from typing import assert_type

import toolwatch
from toolwatch import ChangeBatch


async def changes_come_as_batches(root: Path) -> None:
    async for batch in toolwatch.awatch_tools(root, "shared", debounce_ms=20):
        assert_type(batch, ChangeBatch)
        assert_type(batch.root, Path)
        assert_type(batch.paths, frozenset[PurePosixPath])
        assert_type(batch.rescan, bool)


async def a_watch_can_be_closed(roots: list[Path]) -> None:
    watch = toolwatch.awatch_tools(roots)
    assert_type(watch, AsyncGenerator[ChangeBatch])
    async with aclosing(watch) as batches:
        assert_type(await anext(batches), ChangeBatch)


def a_thread_gets_the_same_batches(root: Path, stop: Event) -> None:
    batches = toolwatch.watch_tools(root, stop=stop, polling=True)
    assert_type(batches, Generator[ChangeBatch])
    assert_type(next(batches), ChangeBatch)


def a_watch_refuses_what_is_no_folder_and_waits_where_it_can(batch: ChangeBatch) -> None:
    toolwatch.awatch_tools(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    watch = toolwatch.awatch_tools("tools")
    list(watch)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    batch.rescan = True  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
