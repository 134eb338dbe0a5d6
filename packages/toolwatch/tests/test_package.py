"""The package as its users see it."""

import os
import subprocess
import sys

import pytest
import toolwatch


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
    for name in toolwatch.__all__:
        assert hasattr(toolwatch, name)
    assert set(toolwatch.__all__) <= set(dir(toolwatch))
    assert len(set(dir(toolwatch))) == len(dir(toolwatch))


def test_another_name_is_refused_as_by_any_module():
    with pytest.raises(AttributeError, match="'toolwatch' has no attribute 'nothing'"):
        toolwatch.nothing  # noqa: B018


def test_importing_it_loads_its_errors_and_nothing_that_takes_long():
    loaded = loaded_by("import toolwatch")
    assert {name for name in loaded if name.startswith("toolwatch")} == {
        "toolwatch",
        "toolwatch.errors",
    }
    assert not loaded & {"anyio", "asyncio", "dataclasses", "logging", "watchfiles"}


def test_watching_from_a_thread_loads_no_asyncio(tmp_path):
    loaded = loaded_by(
        "from toolwatch import watch_tools\n"
        f"batches = watch_tools({str(tmp_path)!r})\n"
        "assert next(batches).rescan\n"
        "batches.close()"
    )
    assert "toolwatch._watcher" in loaded
    assert "asyncio" not in loaded
