"""The package as its users see it."""

import os
import subprocess
import sys

import pytest
import toolindex


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
    for name in toolindex.__all__:
        assert hasattr(toolindex, name)
    assert set(toolindex.__all__) <= set(dir(toolindex))
    assert len(set(dir(toolindex))) == len(dir(toolindex))


def test_another_name_is_refused_as_by_any_module():
    with pytest.raises(AttributeError, match="'toolindex' has no attribute 'nothing'"):
        toolindex.nothing  # noqa: B018


def test_importing_it_loads_its_errors_and_nothing_that_takes_long():
    loaded = loaded_by("import toolindex")
    assert {name for name in loaded if name.startswith("toolindex")} == {
        "toolindex",
        "toolindex.errors",
        "toolindex.protocols",
    }
    assert not loaded & {"apsw", "asyncio", "filelock", "json", "logging", "sqlite3", "toolscan"}


def test_opening_an_index_loads_nothing_that_embeds(tmp_path):
    path = tmp_path / "index.db"
    loaded = loaded_by(f"from toolindex import ToolIndex\nToolIndex({str(path)!r}).close()")
    again = loaded_by(f"from toolindex import ToolIndex\nToolIndex({str(path)!r}).close()")
    assert "apsw" in loaded
    assert not again & {"asyncio", "importlib.resources", "toolindex._requests"}
