"""Importing each package of the workspace: every name exists, and nothing slow is loaded."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from release.projects import read_projects

from .conftest import PATIENCE

ROOT = Path(__file__).parents[1]
MODULES = sorted(it.module for it in read_projects(ROOT).values())
# By package, the modules that importing it must not load.
LIGHT = {
    "toolembed": {"dataclasses", "json", "logging", "numpy", "pydantic_ai"},
    "toolimport": {"dataclasses", "logging", "mcp", "pydantic"},
    "toolindex": {"apsw", "filelock", "json", "logging", "sqlite3", "toolscan"},
    "toolscan": {"ast", "dataclasses", "hashlib", "inspect", "json"},
    "toolwatch": {"anyio", "dataclasses", "logging", "watchfiles"},
}
WITH_PROTOCOLS = {"toolindex"}
SCAN = """
import os
from pathlib import Path
from toolscan import FileStamp, scan
tool = Path("mcptools/demo/join.py")
tool.parent.mkdir(parents=True)
tool.write_text("def run():\\n    'Join.'\\n", "utf-8")
(tool.parent / "__init__.py").write_text("'Demonstrations.'\\n", "utf-8")
found = os.stat(tool)
stamp = FileStamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
report = scan(".", known={tool.as_posix(): stamp})
assert (report.unchanged, report.records) == ((tool.as_posix(),), ())
assert report.categories == {"mcptools:demo": "Demonstrations."}
"""
RANK = """
import sqlite3
from toolrank import BM25Retriever, Channel, FullTextTable, HybridRanker, Query
connection = sqlite3.connect(":memory:")
connection.execute("CREATE VIRTUAL TABLE docs USING fts5(text)")
connection.execute("INSERT INTO docs VALUES (?)", ("merge pdf files",))
words = BM25Retriever(FullTextTable(connection, table="docs", weights=(1.0,)))
assert HybridRanker([Channel(words)]).rank(Query(text="merge pdf"), limit=1)
"""
WATCH = """
from toolwatch import watch_tools
batches = watch_tools(".")
assert next(batches).rescan
batches.close()
"""
# For each use: a program, a module that it loads, and some that it must not load.
USES = {
    "all of toolscan": (
        "from toolscan import *",
        "toolscan._stub",
        {"argparse", "asyncio", "json", "logging", "pydantic"},
    ),
    "a scan that finds nothing changed": (
        SCAN,
        "toolscan._scan",
        {"hashlib", "toolscan._extract", "toolscan._schema"},
    ),
    "opening an index": (
        "from toolindex import ToolIndex\nfor _ in range(2): ToolIndex('index.db').close()",
        "apsw",
        {"asyncio", "toolembed"},
    ),
    "all of toolrank": (
        "import toolrank, toolrank.steps",
        "toolrank._search",
        {"apsw", "asyncio", "logging", "numpy", "pydantic", "pydantic_ai", "statistics"},
    ),
    "ranking by words": (
        RANK,
        "toolrank._ranker",
        {"asyncio", "numpy", "statistics", "toolrank.rerank"},
    ),
    "watching from a thread": (WATCH, "toolwatch._watcher", {"asyncio"}),
    "checking the name of a common model": (
        "from toolembed.providers import check_known_provider, check_model_name\n"
        "check_known_provider(check_model_name('openai:text-embedding-3-small'))",
        "toolembed.providers",
        {"asyncio", "numpy", "pydantic_ai", "toolembed._provider"},
    ),
    "a generated module": (
        "import toolimport.runtime",
        "toolimport.runtime._runner",
        {"asyncio", "datamodel_code_generator", "mcp", "pydantic"},
    ),
    "showing the address of a shared index": (
        "import toolindex_postgres\ntoolindex_postgres.redacted('')",
        "toolindex_postgres",
        {"psycopg", "toolindex", "apsw", "sqlite3"},
    ),
}


@pytest.fixture
def loaded_by(tmp_path):
    """Return the modules that a program loads in a separate process."""

    def run(program):
        code = (
            f"import sys\nbefore = set(sys.modules)\n{program}\nprint(*set(sys.modules) - before)"
        )
        # Measuring coverage would load many of these modules before the program begins.
        quiet = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=quiet,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        return set(done.stdout.split())

    return run


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_exists_and_is_listed_once_by_dir(module):
    package = import_module(module)
    # A package without a list re-exports its names, so that each exists.
    listed = getattr(package, "__all__", ())
    assert set(listed) <= set(dir(package))
    assert len(set(dir(package))) == len(dir(package))
    with pytest.raises(AttributeError, match=f"'{module}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018


@pytest.mark.parametrize("module", LIGHT)
def test_importing_a_package_loads_only_its_errors(module, loaded_by):
    loaded = loaded_by(f"import {module}")

    own = {module, f"{module}.errors"} | (
        {f"{module}.protocols"} if module in WITH_PROTOCOLS else set()
    )
    assert {name for name in loaded if name.startswith(module)} == own
    assert not loaded & {"asyncio", *LIGHT[module]}


@pytest.mark.parametrize(("program", "loads", "leaves"), USES.values(), ids=USES)
def test_each_use_loads_only_what_it_needs(program, loads, leaves, loaded_by):
    loaded = loaded_by(program)

    assert loads in loaded
    assert not loaded & leaves
