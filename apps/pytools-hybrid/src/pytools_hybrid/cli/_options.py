"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Root = Annotated[
    list[Path] | None,
    typer.Option(
        "--root",
        metavar="DIR",
        readable=False,
        help="The tree of tools: mcptools/<category>/<tool>.py and "
        "gentools/<category>/<tool>/api.py. [env: PYTOOLS_DIR; default: tools, else "
        ".freeact/generated, else examples/tools] Can be repeated; if several trees have the same "
        "tool, the first one wins.",
    ),
]
ImportRoot = Annotated[
    list[Path] | None,
    typer.Option(
        "--root",
        metavar="DIR",
        readable=False,
        help="The folder to write to, as mcptools/<server>/<tool>.py. [env: PYTOOLS_DIR; default: "
        "tools; with setup, tools beside the servers file] Can be repeated: the first is written.",
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        "--db",
        "--database-path",
        metavar="FILE",
        help="The index: a file, or postgresql://user@host/db?tree=NAME for one that many hosts "
        "share. [env: PYTOOLS_DATABASE; default: a file for each root in your cache folder]",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--embedding-model",
        "--model",
        metavar="MODEL",
        help="'static' or 'accurate' (offline), 'none', or a pydantic-ai model such as "
        "'openai:text-embedding-3-small'. [env: PYTOOLS_EMBEDDING_MODEL; default: accurate if it "
        "is installed, else static]",
    ),
]

Alpha = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        min=0,
        max=1,
        help="The weight of meaning in hybrid mode: 0 for words alone, 1 for meaning alone. [env: "
        "PYTOOLS_ALPHA; default: 0.5]",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="DEVICE",
        help="Where a sentence-transformers model runs: cpu, cuda, mps. [env: PYTOOLS_DEVICE; "
        "default: the fastest]",
    ),
]
Include = Annotated[
    list[str] | None,
    typer.Option(
        "--include",
        metavar="PATTERN",
        help="Only tools whose id or name matches, such as 'mcptools:github:*'; can be repeated. "
        "Other tools cannot be found, listed or described. [env: PYTOOLS_INCLUDE, separated by "
        "commas]",
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="PATTERN",
        help=(
            "Exclude tools whose id or name matches, such as 'delete_*'. [env: PYTOOLS_EXCLUDE, "
            "separated by commas]"
        ),
    ),
]
Rerank = Annotated[
    str | None,
    typer.Option(
        "--rerank",
        metavar="MODEL",
        help="A pydantic-ai language model, such as 'openai:gpt-5-mini', that orders the first "
        "results. [env: PYTOOLS_RERANK_MODEL; default: none]",
    ),
]
Output = Annotated[Literal["text", "json"], typer.Option(help="For people, or for programs.")]
