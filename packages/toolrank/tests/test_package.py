"""The package as its users see it."""

import os
import subprocess
import sys

import pytest
import toolrank


def loaded_by(program):
    """The modules that a program loads in a process of its own."""
    code = f"import sys\nbefore = set(sys.modules)\n{program}\nprint(*set(sys.modules) - before)"
    # What measures coverage loads much of what is looked for before the program begins.
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=quiet, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_every_public_name_is_there_and_completed_at_a_prompt():
    for name in toolrank.__all__:
        assert hasattr(toolrank, name)
    assert set(toolrank.__all__) <= set(dir(toolrank))
    assert len(set(dir(toolrank))) == len(dir(toolrank))


def test_another_name_is_refused_as_by_any_module():
    with pytest.raises(AttributeError, match="'toolrank' has no attribute 'nothing'"):
        toolrank.nothing  # noqa: B018


def test_importing_it_loads_its_errors_and_nothing_that_takes_long():
    loaded = loaded_by("import toolrank")
    assert {name for name in loaded if name.startswith("toolrank")} == {
        "toolrank",
        "toolrank.errors",
        "toolrank.protocols",
    }
    assert not loaded & {
        "apsw",
        "asyncio",
        "dataclasses",
        "inspect",
        "json",
        "logging",
        "numpy",
        "pydantic",
        "pydantic_ai",
        "statistics",
    }


def test_ranking_loads_neither_asyncio_nor_what_asks_language_models():
    loaded = loaded_by(
        "import sqlite3\n"
        "from toolrank import BM25Retriever, Channel, FullTextTable, HybridRanker, Query\n"
        "connection = sqlite3.connect(':memory:')\n"
        "connection.execute('CREATE VIRTUAL TABLE docs USING fts5(text)')\n"
        "connection.execute('INSERT INTO docs VALUES (?)', ('merge pdf files',))\n"
        "words = BM25Retriever(FullTextTable(connection, table='docs', weights=(1.0,)))\n"
        "ranker = HybridRanker([Channel(words)])\n"
        "assert ranker.rank(Query(text='merge pdf'), limit=1)"
    )
    assert "toolrank._ranker" in loaded
    assert not loaded & {"asyncio", "numpy", "statistics", "toolrank._language_model"}
