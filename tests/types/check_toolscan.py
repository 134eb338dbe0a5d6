"""The types that users of toolscan see. Our two type checkers read this; it is never run.

Each comment that ignores an error marks a line that type checkers must reject; if they do not, the
comment itself is an error.
"""

from pathlib import Path
from typing import Any, assert_type

import toolscan
from toolscan import Layout, Parameter, ScanIssue, ScanReport, ToolId, ToolRecord, ToolScanError
from toolscan.docstrings import Docstring


def a_scan_gives_records_and_issues(root: Path, earlier: ScanReport) -> None:
    report = toolscan.scan(root)
    assert_type(report, ScanReport)
    assert_type(report.records, tuple[ToolRecord, ...])
    assert_type(report.issues, tuple[ScanIssue, ...])
    assert_type([issue.reason == "private" for issue in report.issues], list[bool])
    toolscan.scan("tools", within=["mcptools/github"], progress=print, outside_links=False)
    toolscan.scan(root, layouts=[Layout("mine", "{category}/{name}.py")])
    toolscan.scan(root, known={record.path: record.stamp for record in earlier.records})


def a_scan_refuses_what_is_no_place(report: ScanReport) -> None:
    toolscan.scan(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    toolscan.scan("a", [])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    report.records = ()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def a_record_says_what_is_known_of_a_tool(root: Path) -> None:
    record = toolscan.read_tool(root / "mcptools" / "github" / "create_issue.py", root)
    assert_type(record, ToolRecord)
    assert_type(record.id, ToolId)
    assert_type(record.entrypoint, str)
    assert_type(record.parameters, tuple[Parameter, ...])
    assert_type([one.default for one in record.parameters], list[str | None])
    assert_type(record.stamp, tuple[int, int, int, int] | None)


def found_tools_are_paths_by_id(root: Path) -> None:
    found = toolscan.find_tools(root)
    assert_type(found, dict[ToolId, str])
    assert_type(ToolId.parse("mcptools:github:create_issue"), ToolId)
    found["github"]  # type: ignore[index]  # pyright: ignore[reportArgumentType]


def an_agent_is_shown_schemas_and_texts(record: ToolRecord) -> None:
    assert_type(toolscan.input_schema(record), dict[str, Any])
    assert_type(toolscan.output_schema(record), dict[str, Any] | None)
    assert_type(toolscan.stub(record), str)
    assert_type(Docstring(record.description).examples, tuple[str, ...])
    names = [one.name for one in record.parameters]
    assert_type(record.id.embedding_text(record.description, names), str)
    assert_type(ToolId.words_of("createIssue"), list[str])
    toolscan.stub(record.id)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def an_error_tells_which_issue_it_is(root: Path) -> None:
    try:
        toolscan.read_tool("tool.py", root)
    except toolscan.ToolScanError as error:
        assert_type(error.issue, ScanIssue | None)
        raised: ToolScanError = error
        raise raised from None


def a_name_that_is_not_there_is_refused() -> None:
    from toolscan import (  # type: ignore[attr-defined]
        rescan,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
    )

    rescan()
