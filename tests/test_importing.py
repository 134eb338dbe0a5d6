"""Importing each package of the workspace: every name exists, and nothing slow is loaded."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from release.projects import read_projects

from .conftest import PATIENCE
from .public_names import public_names

ROOT = Path(__file__).parents[1]
MODULES = sorted(it.module for it in read_projects(ROOT).values())
SCAN = """
import os
from pathlib import Path
from toolscan import scan
tool = Path("mcptools/demo/join.py")
tool.parent.mkdir(parents=True)
tool.write_text("def run():\\n    'Join.'\\n", "utf-8")
(tool.parent / "__init__.py").write_text("'Demonstrations.'\\n", "utf-8")
found = os.stat(tool)
stamp = (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
report = scan(".", known={tool.as_posix(): stamp})
assert (report.unchanged, report.records) == ((tool.as_posix(),), ())
assert report.categories == {"mcptools:demo": "Demonstrations."}
"""
RANK = """
import sqlite3
from toolrank import HybridSearch, Tables
connection = sqlite3.connect(":memory:")
connection.execute("CREATE VIRTUAL TABLE docs USING fts5(text)")
connection.execute("INSERT INTO docs VALUES (?)", ("merge pdf files",))
assert HybridSearch(Tables(connection, "docs", weights=(1.0,))).search("merge pdf", limit=1)
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
        "import toolscan",
        "toolscan._scan",
        {"argparse", "asyncio", "json", "logging", "pydantic", "toolscan._docstrings"},
    ),
    "a scan that finds nothing changed": (
        SCAN,
        "toolscan._scan",
        {"hashlib", "toolscan._extract", "toolscan._schema"},
    ),
    "all of toolindex": (
        "import toolindex",
        "toolindex._index",
        {"asyncio", "filelock", "logging", "numpy", "sqlite3", "tempfile"},
    ),
    "opening an index": (
        "from toolindex import ToolIndex\nfor _ in range(2): ToolIndex('index.db').close()",
        "apsw",
        {"asyncio", "toolembed"},
    ),
    "all of toolrank": (
        "import toolrank",
        "toolrank._search",
        {"apsw", "asyncio", "logging", "numpy", "pydantic", "pydantic_ai", "statistics"},
    ),
    "ranking by words": (
        RANK,
        "toolrank._ranking",
        {"asyncio", "numpy", "statistics", "toolrank.rerank"},
    ),
    "all of toolwatch": (
        "import toolwatch",
        "toolwatch._watcher",
        {"anyio", "asyncio", "watchfiles"},
    ),
    "watching from a thread": (WATCH, "watchfiles", {"asyncio"}),
    "all of toolembed": (
        "import toolembed",
        "toolembed._embed",
        {"huggingface_hub", "numpy", "pydantic_ai", "toolembed._transformer"},
    ),
    "checking the name of a common model": (
        "from toolembed.providers import check_model_name, check_provider\n"
        "check_provider(check_model_name('openai:text-embedding-3-small'))",
        "toolembed.providers",
        {"huggingface_hub", "numpy", "pydantic_ai"},
    ),
    "all of toolimport": (
        "import toolimport",
        "toolimport._imports",
        {"asyncio", "json", "logging", "mcp", "pydantic"},
    ),
    "a generated module": (
        "import toolimport.runtime",
        "toolimport.runtime._runner",
        {"asyncio", "datamodel_code_generator", "mcp", "pydantic"},
    ),
    "showing the address of a shared index": (
        "import toolindex_postgres\ntoolindex_postgres.Address.parse('postgresql://')",
        "toolindex_postgres",
        {"psycopg"},
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
def test_every_public_name_exists(module):
    assert public_names(module)
    with pytest.raises(AttributeError, match=f"'{module}' has no attribute 'nothing'"):
        import_module(module).nothing  # noqa: B018


@pytest.mark.parametrize(("program", "loads", "leaves"), USES.values(), ids=USES)
def test_each_use_loads_only_what_it_needs(program, loads, leaves, loaded_by):
    loaded = loaded_by(program)

    assert loads in loaded
    assert not loaded & leaves
