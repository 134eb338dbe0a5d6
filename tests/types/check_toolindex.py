"""The types that users of toolindex see. Our two type checkers read this; it is never run."""

from collections.abc import Mapping
from pathlib import Path
from typing import assert_type

import toolscan
from toolindex import (
    ArgumentError,
    Coverage,
    IndexReader,
    StoredFiles,
    SyncReport,
    ToolEntry,
    ToolFilter,
    ToolIndex,
    ToolIndexError,
    ToolStore,
    ToolUsage,
    finish_in_thread,
)


def an_index_is_made_equal_to_a_scan(root: Path) -> None:
    with ToolIndex("search.db") as index:
        assert_type(index, ToolIndex)
        stored = index.stored(reader_version=str(toolscan.ToolRecord.VERSION))
        assert_type(stored, StoredFiles)
        scanned = toolscan.scan(root, known=stored.stamps)
        report = index.sync(scanned, reader_version=str(toolscan.ToolRecord.VERSION), stored=stored)
        assert_type(report, SyncReport)
        assert_type(report.issues, tuple[toolscan.ScanIssue, ...])
        assert_type(index.path, Path)
        assert_type(index.damaged, Path | None)
        with index.lease("files").held(timeout=30):
            pass


def a_plan_is_a_value(stored: StoredFiles, scanned: toolscan.ScanReport) -> None:
    assert_type(stored.plan(scanned).changed, list[toolscan.ToolRecord])


def a_reader_gives_entries_and_coverage(index: ToolIndex) -> None:
    with index.reading() as reader:
        assert_type(reader, IndexReader)
        found = reader.entries(["mcptools:github:create_issue"])
        assert_type(found, dict[str, ToolEntry])
        assert_type(reader.ids(ToolFilter(tags=["mail"])), tuple[str, ...])
        assert_type(reader.coverage("remote:v1"), Coverage)
        assert_type(reader.changed_at(), float | None)


def an_entry_has_what_a_search_shows(entry: ToolEntry) -> None:
    assert_type(entry.id, toolscan.ToolId)
    assert_type(entry.path, str)
    assert_type(entry.summary, str)
    assert_type(entry.parameters, tuple[toolscan.Parameter, ...])


def an_index_is_a_store_but_for_its_rankers(index: ToolIndex) -> None:
    store: ToolStore = index  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    assert_type(store.refused("remote:v1"), Mapping[str, str])


def use_is_kept_and_summed_up(index: ToolIndex) -> None:
    assert_type(index.usage.of_tool("mcptools:github:create_issue"), ToolUsage | None)


async def a_thread_gives_what_the_function_gives(index: ToolIndex) -> None:
    assert_type(await finish_in_thread(index.count_pending, "remote:v1"), int)
    await finish_in_thread(
        index.count_pending,  # type: ignore[arg-type]
        1,  # pyright: ignore[reportArgumentType]
    )


def errors_have_one_root(reading: ArgumentError) -> None:
    root: ToolIndexError = reading
    raise root


def a_filter_takes_names_and_not_one_name() -> None:
    ToolFilter(source="mcptools", include=["*:mail:*"], categories=("mail",))
    ToolFilter(source=["mine"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ToolFilter(owner="me")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def a_name_that_is_not_there_is_refused() -> None:
    from toolindex import (  # type: ignore[attr-defined]
        reindex,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
    )

    reindex()
