"""Options and fixtures of the tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Seconds that a test waits for anything: many times what a slow machine takes.
PATIENCE = 120

# How long an example takes says something about the machine, and nothing about the code. How many
# there are is up to noxfile.py: more in the weekly run.
settings.register_profile(
    "patient", deadline=None, max_examples=int(os.environ.get("TEST_EXAMPLES", "40"))
)
settings.load_profile("patient")


def pytest_addoption(parser):
    parser.addoption(
        "--tools-tree",
        type=Path,
        help="a tree of tool modules whose schemas are compared with pydantic's",
    )


@pytest.fixture
def tree(tmp_path):
    """Write modules below a folder: `tree({"mcptools/c/t.py": "..."})` gives the root."""

    def write(files):
        for path, content in files.items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                target.write_bytes(content)
            else:
                target.write_text(content, encoding="utf-8")
        return tmp_path

    return write


@pytest.fixture
def tool(tree):
    """Read a module given as text: `tool("def run(): ...")` gives its record."""
    import toolscan

    def read(source, path="mcptools/demo/thing.py"):
        return toolscan.read_tool(path, tree({path: source}))

    return read
