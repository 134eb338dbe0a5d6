"""A small tree of tools, and settings that look at nothing outside the test."""

import functools
import os
import sys

import pytest
import typer.main
from hypothesis import settings as hypothesis_settings
from pytools_hybrid import Settings
from pytools_hybrid.index import has_numpy
from pytools_hybrid.serve.metrics import ToolMetrics

from .openai_stub import openai_stub

# Seconds that a test waits for anything: many times what a slow machine takes.
PATIENCE = 120

# How long an example takes says something about the machine, and nothing about the code. How many
# there are is up to noxfile.py: more in the weekly run.
hypothesis_settings.register_profile(
    "patient", deadline=None, max_examples=int(os.environ.get("TEST_EXAMPLES", "40"))
)
hypothesis_settings.load_profile("patient")

# Making the options of all commands takes longer than most of what is tested by them.
typer.main.get_command = functools.cache(typer.main.get_command)

TOOLS = {
    "mcptools/github/create_issue.py": "Open a new issue in a repository, to report a bug.",
    "mcptools/github/list_commits.py": "Show the history of a branch, newest first.",
    "mcptools/pdf/merge_pdfs.py": "Join several PDF documents into one file.",
    "gentools/text/slugify/api.py": "Turn a title into a short name for a web address.",
}

# Enough for words to be rare or common, and for requests to have near misses.
TOOLBOX = TOOLS | {
    "mcptools/github/merge_pull_request.py": "Merge a pull request into its base branch.",
    "mcptools/github/create_branch.py": "Start a new branch from a commit of a repository.",
    "mcptools/github/search_code.py": "Search the code of all repositories for an expression.",
    "mcptools/pdf/rotate_pages.py": "Turn the pages of a PDF document around.",
    "mcptools/pdf/extract_text.py": "Read the text out of the pages of a PDF document.",
    "mcptools/slack/post_message.py": "Post a message to a channel of the team's chat.",
    "mcptools/slack/list_channels.py": "List the channels of a team's chat, with their topics.",
    "mcptools/slack/add_reaction.py": "Put an emoji under a message in a chat.",
    "mcptools/mail/send_email.py": "Send an email with attachments to some addresses.",
    "mcptools/mail/search_inbox.py": "Find emails in the inbox by sender, subject or date.",
    "mcptools/weather/get_forecast.py": "Tell the weather of the next days at a place.",
    "mcptools/weather/get_alerts.py": "List the storm and flood warnings of a region.",
    "mcptools/maps/plan_route.py": "Plan a route between two places by car, train or foot.",
    "mcptools/maps/geocode.py": "Give the coordinates of a street address.",
    "mcptools/calendar/create_event.py": "Put an appointment into a calendar and invite people.",
    "mcptools/calendar/find_free_time.py": "Find a time at which all people are free to meet.",
    "mcptools/music/play_song.py": "Play a song on a loudspeaker.",
    "mcptools/database/run_query.py": "Run an SQL statement on a database and give the rows.",
    "gentools/text/translate/api.py": "Translate a text from one language into another.",
    "gentools/text/count_words/api.py": "Count the words and the lines of a text.",
    "gentools/money/convert_currency/api.py": "Convert an amount between two currencies.",
    "gentools/image/resize_image/api.py": "Change the width and height of a picture.",
    "gentools/files/compress_folder/api.py": "Pack a folder into a ZIP archive.",
}


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith(("PYTOOLS_", "OPENAI_")):
            monkeypatch.delenv(name)
    # The weights of the accurate model are installed here; most tests need none.
    monkeypatch.setenv("PYTOOLS_EMBEDDING_MODEL", "static")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_model_set(monkeypatch):
    """No embedding model in the environment: it is that of a file, or the default."""
    monkeypatch.delenv("PYTOOLS_EMBEDDING_MODEL")


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
def toolbox(tmp_path, write_tool):
    """A root with the tools of a small team."""
    for path, description in TOOLBOX.items():
        write_tool(path, description)
    return tmp_path / "tools"


@pytest.fixture
def settings(tmp_path):
    def make(**values):
        return Settings.from_flags({"db_path": tmp_path / "index.db"} | values)

    return make


@pytest.fixture
def counted():
    """Return what was counted since the test began, as `{"name(label, label)": value}`."""

    def numbers():
        samples = (sample for metric in ToolMetrics().collect() for sample in metric.samples)
        return {f"{it.name}({', '.join(it.labels.values())})": it.value for it in samples}

    before = numbers()
    return lambda: {
        name: value - before.get(name, 0)
        for name, value in numbers().items()
        if value != before.get(name, 0)
    }


@pytest.fixture
def openai(monkeypatch):
    """An endpoint on loopback that serves any model called `openai:…`."""
    with openai_stub() as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.address)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("NO_PROXY", "*")
        yield stub


@pytest.fixture
def without_sqlite_vec(monkeypatch, tmp_path):
    """A machine on which sqlite-vec is there, and cannot be loaded."""
    package = tmp_path / "broken" / "sqlite_vec"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('built for another machine')")
    for suffix in ("so", "dylib", "dll"):
        (package / f"vec0.{suffix}").write_text("no library")
    monkeypatch.delitem(sys.modules, "sqlite_vec", raising=False)
    monkeypatch.syspath_prepend(package.parent)


@pytest.fixture
def without_numpy(monkeypatch):
    """A machine on which numpy is missing."""
    monkeypatch.setitem(sys.modules, "numpy", None)
    has_numpy.cache_clear()
    yield
    has_numpy.cache_clear()
