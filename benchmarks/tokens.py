"""Count the tokens of the server's definitions and answers, compared with listing all tools.

usage: uv run --with tokenizers python benchmarks/tokens.py --tokenizer FILE [--root DIR]
           [--queries FILE]

The official client uses a real server over stdio. The file of queries has one JSON object per line,
with the key `query`; without it, queries are made from the names of the tools. The tokenizer is a
file in the JSON format of the tokenizers library; the package wordllama 0.2.2 has that of Llama 2,
with 32,000 words (most current models need fewer tokens for the same text). A definition is counted
as compact JSON of its name, description and input schema, which is what a model receives.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import CallToolResult, TextContent, Tool
from tokenizers import Tokenizer
from toolscan import ToolId, ToolRecord, input_schema, scan

Count = Callable[[str], int]

COMMAND = shutil.which("pytools-hybrid", path=str(Path(sys.executable).parent)) or "pytools-hybrid"
PROFILES = ("search", "call", "basic", "all")
DETAILS = ("full", "summary")
LEVELS = ("summary", "schema", "full")
PROFILE_AIM = 900
ANSWER_AIM = 1_200
CALLABLE_AIM = 700
# Run modules without their server as Python tools; their search results are the same.
_CALLING = ("--profile", "call", "--run-python")
_SAMPLE = 100


def counter(file: Path) -> Count:
    tokenizer = Tokenizer.from_file(str(file))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


async def report(root: Path, queries: Sequence[str], count: Count) -> str:
    """Measure everything, and return Markdown tables."""
    records = scan(root).records
    queries = queries or [" ".join(ToolId.words_of(record.id.name)) for record in records]
    ids = [str(record.id) for record in records[:: max(1, len(records) // _SAMPLE)]]
    with tempfile.TemporaryDirectory(prefix="token-bench-") as folder:
        database = Path(folder, "index.db")
        profiles = [await _profile(root, database, name, count) for name in PROFILES]
        async with _connected(root, database) as client:
            answers = await _answers(client, queries, ids, count)
        async with _connected(root, database, *_CALLING) as client:
            found = [await _called(client, "search_tools", query=query) for query in queries]
            aim = f"< {CALLABLE_AIM}"
            row = _row("`search_tools`, five results, `--profile call`", found, count, aim)
            answers += f"\n{row}"
    return "\n\n".join((_listing(records, profiles, count), answers))


async def _profile(
    root: Path, database: Path, profile: str, count: Count
) -> tuple[str, int, int, int]:
    async with _connected(root, database, "--profile", profile) as client:
        if profile != "basic":
            # Wait until the description of search_tools lists all categories.
            await client.call_tool("search_tools", {"query": "anything"})
        tools = (await client.list_tools()).tools
        instructions = count(client.instructions or "")
    given = sum(count(_compact(_as_given(tool))) for tool in tools)
    whole = sum(
        count(_compact(_as_given(tool) | {"output_schema": tool.output_schema})) for tool in tools
    )
    return profile, given, whole, instructions


def _listing(
    records: Iterable[ToolRecord], profiles: Sequence[tuple[str, int, int, int]], count: Count
) -> str:
    lines = [
        "| tokens of the definitions | as a model is given them | with output schemas "
        "| instructions | aim |",
        "|---|--:|--:|--:|--:|",
    ]
    for profile, given, whole, instructions in profiles:
        aim = f"< {PROFILE_AIM}" if profile == PROFILES[0] else ""
        option = f"--profile {profile}"
        lines.append(f"| `{option}` | {given:,} | {whole:,} | {instructions:,} | {aim} |")
    every = [
        count(
            _compact(
                {
                    "name": record.id.name,
                    "description": record.description,
                    "input_schema": input_schema(record),
                }
            )
        )
        for record in records
    ]
    lines.append(f"| all {len(every):,} tools of the tree, listed | {sum(every):,} | | | |")
    times = sum(every) / profiles[0][1]
    said = f"Listing all takes {times:,.0f} times the tokens of the default profile; a tool has"
    return "\n".join([*lines, "", f"{said} {_spread(every)} (p50, p90, most)."])


async def _answers(client: Client, queries: Sequence[str], ids: Sequence[str], count: Count) -> str:
    lines = [
        f"| tokens of an answer (p50, p90, most; {len(queries)} queries, {len(ids)} tools) "
        "| text | structured content | aim |",
        "|---|--:|--:|--:|",
    ]
    for detail in DETAILS:
        found = [
            await _called(client, "search_tools", query=query, detail=detail) for query in queries
        ]
        aim = f"< {ANSWER_AIM:,}" if detail == DETAILS[0] else ""
        lines.append(_row(f"`search_tools`, five results, {detail}", found, count, aim))
    for level in LEVELS:
        described = [await _called(client, "describe_tool", id=id_, detail=level) for id_ in ids]
        lines.append(_row(f"`describe_tool`, {level}", described, count))
    return "\n".join(lines)


async def _called(client: Client, tool: str, **arguments: str) -> CallToolResult:
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        raise SystemExit(f"{tool} {arguments} failed: {result.content}")
    return result


def _row(what: str, answers: Iterable[CallToolResult], count: Count, aim: str = "") -> str:
    texts, structured = [], []
    for answer in answers:
        blocks = (block.text for block in answer.content if isinstance(block, TextContent))
        texts.append(count("\n".join(blocks)))
        structured.append(count(_compact(answer.structured_content)))
    return f"| {what} | {_spread(texts)} | {_spread(structured)} | {aim} |"


def _connected(root: Path, database: Path, *arguments: str) -> Client:
    parameters = StdioServerParameters(
        command=COMMAND,
        args=["serve", "--root", str(root), "--database", str(database), *arguments],
    )
    return Client(stdio_client(parameters))


def _as_given(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
    }


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _spread(counts: Sequence[int]) -> str:
    ordered = sorted(counts)
    shown = (ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10], ordered[-1])
    return " / ".join(f"{it:,}" for it in shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--root", type=Path, default=Path("examples/tools"))
    parser.add_argument("--queries", type=Path, help="requests, one JSON object per line")
    parser.add_argument("--tokenizer", type=Path, required=True)
    options = parser.parse_args()
    lines = options.queries.read_text("utf-8").splitlines() if options.queries else []
    queries = [json.loads(line)["query"] for line in lines]
    print(asyncio.run(report(options.root, queries, counter(options.tokenizer))))


if __name__ == "__main__":
    main()
