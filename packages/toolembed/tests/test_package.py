"""The package as its users see it."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import toolembed
from toolembed.providers import PROVIDERS

PACKAGE = Path(__file__).parents[1]


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
    for name in toolembed.__all__:
        assert hasattr(toolembed, name)
    assert set(toolembed.__all__) <= set(dir(toolembed))
    assert len(set(dir(toolembed))) == len(dir(toolembed))


def test_another_name_is_refused_as_by_any_module():
    with pytest.raises(AttributeError, match="'toolembed' has no attribute 'nothing'"):
        toolembed.nothing  # noqa: B018


def test_importing_it_loads_its_errors_and_nothing_that_takes_long():
    loaded = loaded_by("import toolembed")
    assert {name for name in loaded if name.startswith("toolembed")} == {
        "toolembed",
        "toolembed.errors",
    }
    assert not loaded & {"asyncio", "dataclasses", "json", "logging", "numpy", "pydantic_ai"}


def test_checking_the_name_of_a_usual_model_loads_nothing_that_embeds():
    loaded = loaded_by(
        "from toolembed.providers import check_known_provider, check_model_name\n"
        "check_known_provider(check_model_name('openai:text-embedding-3-small'))"
    )
    assert not loaded & {"asyncio", "numpy", "pydantic_ai", "toolembed._provider"}


def test_each_extra_of_a_provider_is_one_of_the_package():
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {provider.extra for provider in PROVIDERS.values() if provider.extra}

    assert extras | {"accurate", "pydantic-ai"} == set(project["optional-dependencies"])
