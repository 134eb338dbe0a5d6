"""Print the reference of the server, as Markdown, from what a running one says of itself.

From the root of the repository:

    uv run python docs/make/server.py > docs/server.md

A test checks that `server.md` is what this prints.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REPOSITORY = Path(__file__).parents[2]
INTRODUCTION = """\
# The server

What `pytools-hybrid serve` offers. This page is generated from the tools, the OpenAPI document and
the metrics of a running server; the guides explain [MCP](guides/agents.md) and [the JSON
API](guides/http.md)."""


async def main() -> None:
    """Ask servers with each of the profiles, and print what they say."""
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    print(INTRODUCTION)
    print("\n## MCP tools")
    tools: dict[str, Any] = {}
    for profile in ("all", "call"):
        with serving(profile) as http:
            async with (
                httpx2.AsyncClient(headers=http.headers, trust_env=False) as session,
                Client(
                    streamable_http_client(f"{http.base_url}/mcp", http_client=session)
                ) as client,
            ):
                tools |= {tool.name: tool for tool in (await client.list_tools()).tools}
            if profile == "call":
                http.get("/search", params={"q": "merge two pdf files"})
                http.post("/api/v1/tools/pdf:merge_pdfs/call", json={"arguments": {}})
                paths = http.get("/openapi.json").json()["paths"]
                metrics = http.get("/metrics").text
    for tool in tools.values():
        required = tool.input_schema.get("required", ())
        print(f"\n### `{tool.name}`\n\n{tool.description}\n")
        print_parameters(
            (name, it, name in required) for name, it in tool.input_schema["properties"].items()
        )
    print("\n## HTTP")
    for path, methods in paths.items():
        for method, operation in methods.items():
            print(f"\n### `{method.upper()} {path}`\n\n{operation['summary']}.\n")
            print_parameters(
                (
                    it["name"],
                    {"description": it.get("description"), **it["schema"]},
                    it.get("required"),
                )
                for it in operation.get("parameters", ())
            )
    print("\n## Metrics\n\nAt `GET /metrics`, for Prometheus.\n")
    print_table(("metric", "labels", ""), families(metrics))


@contextmanager
def serving(profile: str) -> Iterator[httpx2.Client]:
    """Start a server over the example tools, and yield a client of it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        program = [sys.executable, "-m", "pytools_hybrid", "serve", "--transport", "http"]
        options = [
            "--port",
            "0",
            "--profile",
            profile,
            "--root",
            str(REPOSITORY / "examples/tools"),
        ]
        kept = {name: it for name, it in os.environ.items() if not name.startswith("PYTOOLS_")}
        process = subprocess.Popen(
            [*program, *options, "--database", str(Path(folder, "index.db"))],
            cwd=folder,
            env=kept | {"PYTOOLS_TOKEN": "secret", "PYTOOLS_EMBEDDING_MODEL": "static"},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            address = next(
                found[1] for it in lines if (found := re.search(r"serving on (\S+)", it))
            )
            with httpx2.Client(
                base_url=address.rstrip("/"),
                headers={"Authorization": "Bearer secret"},
                timeout=60,
                trust_env=False,
            ) as client:
                # The descriptions of tools name the categories once the files have been scanned.
                while client.get("/health").json()["status"] != "ok":
                    time.sleep(0.05)
                yield client
        finally:
            process.terminate()
            process.communicate()


def print_parameters(parameters: Iterable[tuple[str, dict[str, Any], bool]]) -> None:
    """Print a table of parameters, each with its name, its schema and whether it is required."""
    print_table(
        ("parameter", "values", "default", ""),
        (
            (f"`{name}`", values(it), default(it, required), it.get("description") or "")
            for name, it, required in parameters
        ),
    )


def values(schema: dict[str, Any]) -> str:
    """Return which values a schema allows, in words."""
    shapes = [it for it in schema.get("anyOf", [schema]) if it.get("type") != "null"]
    told = []
    for it in shapes:
        kind = it.get("type", "any")
        if kind == "array":
            told.append(f"list of {values(it['items'])}")
        elif "enum" in it:
            told.append(", ".join(f"`{value}`" for value in it["enum"]))
        elif "maximum" in it:
            told.append(f"{kind}, {it.get('minimum', 0)} to {it['maximum']}")
        else:
            told.append(kind)
    return " or ".join(told)


def default(schema: dict[str, Any], required: bool) -> str:
    """Return the default of a parameter for the table."""
    if required:
        return "required"
    value = schema.get("default")
    return "" if value is None else f"`{value if isinstance(value, str) else json.dumps(value)}`"


def families(metrics: str) -> Iterator[tuple[str, ...]]:
    """Return each metric with its labels and its help, from Prometheus' text format."""
    for name, told in re.findall(r"^# HELP (\w+) (.+)$", metrics, re.M):
        sample = re.search(rf"^{name}(?:_bucket)?{{(.+?)}}", metrics, re.M)
        labels = re.findall(r'(\w+)="', sample[1]) if sample else []
        yield f"`{name}`", ", ".join(f"`{it}`" for it in labels if it != "le"), told


def print_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print a table, or that there is nothing to put in it."""
    lines = [f"| {' | '.join(row)} |".replace("\n", " ") for row in rows]
    if lines:
        print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", *lines, sep="\n")
    else:
        print("No parameters.")


if __name__ == "__main__":
    asyncio.run(main())
