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
import toolrank

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


def shown_calls():
    """Return the calls that the API table shows with parameters, as `(name, call)`."""
    cells = re.findall(r"^\| (`.*?`) \| ", README.partition("## API")[2], re.M)
    calls = re.findall(r"`([\w.]+)(\([^`]*\))`", " ".join(cells))
    return [pytest.param(name, call, id=name) for name, call in calls]


@pytest.mark.parametrize(("name", "call"), shown_calls())
def test_the_listed_parameters_are_complete(name, call):
    module, _, attribute = f"toolrank.{name.removeprefix('toolrank.')}".rpartition(".")
    actual = inspect.signature(getattr(importlib.import_module(module), attribute)).parameters
    is_cut = call.endswith(", …)")
    names = {name: getattr(toolrank, name) for name in toolrank.__all__}
    exec(f"def shown{call.replace(', …', '')}: ...", names)
    shown = inspect.signature(names["shown"]).parameters

    assert [*shown] == [*actual][: len(shown) if is_cut else None]
    for parameter in shown.values():
        assert parameter.kind == actual[parameter.name].kind
        if parameter.default is not parameter.empty:
            assert parameter.default == actual[parameter.name].default


@pytest.mark.parametrize("module", ["toolrank", "toolrank.metrics", "toolrank.testing"])
def test_every_public_name_is_in_the_readme(module):
    for name in importlib.import_module(module).__all__:
        assert re.search(rf"\b{name}\b", README), name
