"""The command: `toolscan DIR`, or `python -m toolscan DIR`."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

from toolscan._layout import DEFAULT_LAYOUTS, Layout
from toolscan._records import printable
from toolscan._scan import scan
from toolscan.errors import ToolScanError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolscan._records import ScanIssue, ScanReport, ToolRecord

_DESCRIPTION = "List the tools in a tree of Python modules. Nothing in the tree is imported or run."
_EPILOG = """\
layouts:
  Tools are looked for at mcptools/CATEGORY/NAME.py and gentools/CATEGORY/NAME/api.py.
  --layout replaces both, and can be repeated.

exit codes:
  0  the tree was scanned, even if some of its files are not tools
  1  the list could not be written
  2  DIR is not a directory, or an option is wrong

examples:
  toolscan .freeact/generated
  toolscan tools --layout 'scripts=scripts/{category}/{name}.py'
  toolscan tools --issues
  toolscan tools --format jsonl | jq -r .id
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    options = parser.parse_args(argv)
    layouts = options.layout or DEFAULT_LAYOUTS
    try:
        report = scan(options.directory, layouts=layouts)
    except ToolScanError as error:
        parser.error(str(error))
    try:
        _write(_lines(report, issues=options.issues, jsonl=options.format == "jsonl"))
    except BrokenPipeError:
        _silence_stdout()  # the reader has ended, as `head` does
    except OSError as error:
        _silence_stdout()
        _tell(f"toolscan: the list could not be written: {error.strerror or error}")
        return 1
    else:
        _tell(_summary(report, layouts))
    return 0


def _write(lines: Iterable[str]) -> None:
    # There is no standard output if the shell has closed it (`>&-`).
    if sys.stdout is not None:
        for line in lines:
            print(line)
        sys.stdout.flush()


def _silence_stdout() -> None:
    """Discard the output that the interpreter flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(text: str) -> None:
    # Printing to a closed standard error would print to the standard output.
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="toolscan",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", metavar="DIR", help="root of the tree")
    parser.add_argument(
        "--format",
        choices=("table", "jsonl"),
        default="table",
        help="a table for people, or one JSON object per line (default: table)",
    )
    parser.add_argument(
        "--issues",
        action="store_true",
        help="list the files without a usable tool, and why, instead of the tools",
    )
    parser.add_argument(
        "--layout",
        action="append",
        type=_layout,
        default=[],
        metavar="SOURCE=PATTERN",
        help="where tools are, as source=path/{category}/{name}.py",
    )
    parser.add_argument("--version", action="version", version=f"toolscan {version('toolscan')}")
    return parser


def _layout(text: str) -> Layout:
    source, separator, pattern = text.partition("=")
    if not separator or "{" in source:
        hint = "such as mine=scripts/{category}/{name}.py"
        raise argparse.ArgumentTypeError(f"{text!r} is not SOURCE=PATTERN, {hint}")
    try:
        return Layout(source, pattern)
    except ToolScanError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _lines(report: ScanReport, *, issues: bool, jsonl: bool) -> Iterable[str]:
    if jsonl:
        is_utf8 = _encoding().lower().replace("-", "") == "utf8"
        items = (
            map(dataclasses.asdict, report.issues) if issues else map(_record_json, report.records)
        )
        return (json.dumps(item, ensure_ascii=not is_utf8) for item in items)
    if issues:
        return _table([("PATH", "REASON", "DETAIL"), *map(_issue_row, report.issues)])
    return _table([("ID", "PARAMETERS", "SUMMARY"), *map(_record_row, report.records)])


def _record_json(record: ToolRecord) -> dict[str, object]:
    shown = dataclasses.asdict(record)
    del shown["definitions"]
    names = ("size", "mtime_ns", "ctime_ns", "inode")
    shown["stamp"] = dict(zip(names, record.stamp, strict=True)) if record.stamp else None
    return {**shown, "id": str(record.id)}


def _record_row(record: ToolRecord) -> tuple[str, ...]:
    names = ", ".join(
        parameter.name if parameter.required else f"[{parameter.name}]"
        for parameter in record.parameters
    )
    # Untrusted text must not control the terminal.
    return printable(str(record.id)), _clipped(names, 40), _clipped(printable(record.summary), 80)


def _issue_row(issue: ScanIssue) -> tuple[str, ...]:
    return issue.path, issue.reason, issue.detail


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _table(rows: list[tuple[str, ...]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield _encodable("  ".join(cells).rstrip())


def _encodable(line: str) -> str:
    """Escape characters that the terminal's encoding lacks, so that the listing continues."""
    encoding = _encoding()
    return line.encode(encoding, "backslashreplace").decode(encoding)


def _summary(report: ScanReport, layouts: Iterable[Layout]) -> str:
    tools, issues = len(report.records), len(report.issues)
    listing = f" (--issues lists {'it' if issues == 1 else 'them'})" if issues else ""
    summary = f"{_counted(tools, 'tool')}, {_counted(issues, 'file')} without{listing}"
    if not tools:
        summary += f"; looked for {', '.join(layout.pattern for layout in layouts)}"
    return summary


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


if __name__ == "__main__":
    sys.exit(main())
