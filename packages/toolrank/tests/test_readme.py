"""The README's script works on any database, and the README lists all public names."""

import importlib
import inspect
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from .conftest import PATIENCE

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")


def block(language):
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)
    return found


@pytest.fixture
def recipes(tmp_path):
    """A database that has nothing to do with this package."""
    path = tmp_path / "recipes.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(block("sql"))
    return path


def run_the_script(database):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", block("python")],
        cwd=database.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_script_ranks_rows_of_another_table_as_shown(recipes):
    ran = run_the_script(recipes)
    assert (ran.stdout, ran.stderr) == (block("text"), "")


def test_the_script_leaves_the_database_as_it_was(recipes):
    before = recipes.read_bytes()
    run_the_script(recipes)
    assert recipes.read_bytes() == before
    assert list(recipes.parent.iterdir()) == [recipes]


def test_the_script_has_at_most_20_lines():
    assert sum(bool(line.strip()) for line in block("python").splitlines()) <= 20


@pytest.mark.parametrize(
    "module",
    ["", ".errors", ".metrics", ".protocols", ".rerank", ".steps", ".testing"],
)
def test_the_table_has_all_public_names(module):
    """Those of the package, and those that are defined in its public modules."""
    names = vars(importlib.import_module(f"toolrank{module}"))
    section = README.partition(f"**`toolrank{module}`**")[2].partition("| **`")[0]
    listed = {
        name
        for cell in re.findall(r"^\| (`[^|]*`) \| ", section, re.M)
        for name in re.findall(r"`(\w+)`", cell)
    }
    is_reexported = module in ("", ".steps")
    public = {
        name
        for name, value in names.items()
        if name[0] != "_"
        and not inspect.ismodule(value)
        and (is_reexported or getattr(value, "__module__", "").startswith(f"toolrank{module}"))
    }
    if module == ".errors":
        public.remove("ToolRankError")
    assert public - {"Relevant", "RerankWhen"} == listed - {"Relevant", "RerankWhen"}
