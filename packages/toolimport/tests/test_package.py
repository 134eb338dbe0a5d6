"""The package as its users see it."""

import os
import subprocess
import sys

import pytest
import toolimport


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
    for name in toolimport.__all__:
        assert hasattr(toolimport, name)
    assert set(toolimport.__all__) <= set(dir(toolimport))
    assert len(set(dir(toolimport))) == len(dir(toolimport))


def test_another_name_is_refused_as_by_any_module():
    with pytest.raises(AttributeError, match="'toolimport' has no attribute 'nothing'"):
        toolimport.nothing  # noqa: B018


def test_importing_it_loads_its_errors_and_nothing_that_takes_long():
    loaded = loaded_by("import toolimport")
    assert {name for name in loaded if name.startswith("toolimport")} == {
        "toolimport",
        "toolimport.errors",
    }
    assert not loaded & {"asyncio", "dataclasses", "logging", "mcp", "pydantic"}


def test_importing_a_generated_module_loads_neither_the_protocol_nor_the_generator():
    loaded = loaded_by("import toolimport.runtime")
    assert {name for name in loaded if name.startswith("toolimport")} == {
        "toolimport",
        "toolimport.errors",
        "toolimport.runtime",
        "toolimport.runtime._runner",
    }
    assert not loaded & {"asyncio", "datamodel_code_generator", "mcp", "pydantic"}
