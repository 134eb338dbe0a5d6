"""Options and fixtures of the tests."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The time limit of any wait, in seconds: many times what a slow machine needs.
PATIENCE = 120

# No limits of time, because an example's time depends on the machine. noxfile.py sets the number of
# examples, which is higher in the weekly run.
settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("TEST_EXAMPLES", "40")),
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
    """Write modules below a folder: `tree({"mcptools/c/t.py": "..."})` returns the root."""

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
    """Read a module from text: `tool("def run(): ...")` returns its record."""
    import toolscan

    def read(source, path="mcptools/demo/thing.py"):
        return toolscan.read_tool(path, tree({path: source}))

    return read
