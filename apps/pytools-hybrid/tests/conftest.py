"""A small tree of tools, and settings that look at nothing outside the test."""

import os

import pytest
from hypothesis import settings as hypothesis_settings
from pytools_hybrid import Settings

# A machine under load is slow at times; how fast things are is measured elsewhere.
hypothesis_settings.register_profile("patient", deadline=None)
hypothesis_settings.load_profile("patient")

TOOLS = {
    "mcptools/github/create_issue.py": "Open a new issue in a repository, to report a bug.",
    "mcptools/github/list_commits.py": "Show the history of a branch, newest first.",
    "mcptools/pdf/merge_pdfs.py": "Join several PDF documents into one file.",
    "gentools/text/slugify/api.py": "Turn a title into a short name for a web address.",
}


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith(("PYTOOLS_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def write_tool(tmp_path):
    """Write a tool's module below the root."""

    def write(path: str, description: str) -> None:
        file = tmp_path / "tools" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"def run(text: str) -> str:\n    '''{description}'''\n", encoding="utf-8")

    return write


@pytest.fixture
def root(tmp_path, write_tool):
    for path, description in TOOLS.items():
        write_tool(path, description)
    return tmp_path / "tools"


@pytest.fixture
def settings(tmp_path):
    def make(**values):
        return Settings.from_flags({"db_path": tmp_path / "index.db"} | values)

    return make
