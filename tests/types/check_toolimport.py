"""The types that users of toolimport see. Our two type checkers read this; it is never run."""

from pathlib import Path
from typing import Any, assert_type

from mcp_types import CallToolResult
from toolimport import ImportOptions, ServerReport, ToolCallError, import_servers
from toolimport.runtime import ToolRunner, close


async def an_import_gives_a_report_for_each_server(file: Path) -> None:
    options = ImportOptions(only=("shop",), runtime="mcpygen", seconds=5)
    reports = await import_servers(file, Path("tools"), options, problem_of=lambda _: "")
    assert_type(reports, tuple[ServerReport, ...])
    assert_type(reports[0].added, tuple[str, ...])


def a_runner_calls_tools(file: Path) -> None:
    runner = ToolRunner("shop", file)
    assert_type(runner.run_sync("price", {"article": "tea"}), Any)
    assert_type(runner.call("price", {}), CallToolResult)
    close()


async def an_import_refuses_what_is_no_option(error: ToolCallError) -> None:
    ImportOptions(runtime="other")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ImportOptions(("shop",))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    assert_type(error.reason, str)
