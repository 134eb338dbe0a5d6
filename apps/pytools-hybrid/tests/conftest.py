"""A small tree of tools, and settings that use nothing outside the test."""

import asyncio
import functools
import os
import sys
from contextlib import asynccontextmanager

import pytest
import typer.main
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from mcp.client.client import Client
from pytools_hybrid import Follower, Settings, ToolSearch
from pytools_hybrid.index import has_numpy
from pytools_hybrid.serve.metrics import ToolMetrics
from toolembed import _provider

from .openai_stub import openai_stub

# Seconds that a test waits for anything: many times what a slow machine needs.
PATIENCE = 120

# No limits of time, because the time of an example depends on the machine. noxfile.py sets the
# number of examples, which is higher in the weekly run.
hypothesis_settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("TEST_EXAMPLES", "40")),
)
hypothesis_settings.load_profile("patient")

# Creating the options of all commands takes longer than most tests of commands.
typer.main.get_command = functools.cache(typer.main.get_command)

TOOLS = {
    "mcptools/github/create_issue.py": "Open a new issue in a repository, to report a bug.",
    "mcptools/github/list_commits.py": "Show the history of a branch, newest first.",
    "mcptools/pdf/merge_pdfs.py": "Join several PDF documents into one file.",
    "gentools/text/slugify/api.py": "Turn a title into a short name for a web address.",
}

# Enough tools for words to be rare or common, and for requests to have near misses.
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
    # The default would be the accurate model, which is installed; most tests do not need it.
    monkeypatch.setenv("PYTOOLS_EMBEDDING_MODEL", "static")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


# How long the product waits before it answers with less, such as with words instead of vectors.
PATIENCE_OF_THE_PRODUCT = (
    "pytools_hybrid.agents.corpus._EMBEDDING_SECONDS",
    "pytools_hybrid.cli.search._PATIENCE_SECONDS",
    "pytools_hybrid.index.follow._FIRST_SYNC_SECONDS",
    "pytools_hybrid.index.follow._FIRST_TOOLS_SECONDS",
    "pytools_hybrid.index.follow._OPENING_SECONDS",
    "pytools_hybrid.index.index._ENTERING_SECONDS",
    "pytools_hybrid.index.sync._REBUILD_SECONDS",
    "pytools_hybrid.search.vectors._AGAIN_SECONDS",
    "pytools_hybrid.search.vectors._LATEST_SECONDS",
    "pytools_hybrid.search.vectors._SECONDS",
)


@pytest.fixture(autouse=True)
def _no_answer_depends_on_the_speed_of_the_machine(monkeypatch):
    """Let a slow machine get the same answers; a test of one of these limits sets it."""
    for name in PATIENCE_OF_THE_PRODUCT:
        monkeypatch.setattr(name, PATIENCE)


@pytest.fixture
def no_model_set(monkeypatch):
    """Remove the embedding model from the environment: a file or the default sets it."""
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


def calling(app):
    """Return an HTTP client of an application in this process."""
    import httpx2

    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000")


@asynccontextmanager
async def serving(made, root):
    """Serve a tree over HTTP in this process, once it is indexed, and yield a client."""
    from pytools_hybrid.serve.http import create_app
    from pytools_hybrid.serve.mcp import create_server

    async with ToolSearch(root, made, refresh=False) as search:
        await search.index.update()
        follower = Follower(search.index)
        following = asyncio.create_task(follower.run())
        server = create_server(search, follower, settings=made, root=root)
        try:
            async with calling(create_app(search, follower, server, made)) as client:
                yield client
        finally:
            following.cancel()
            await asyncio.wait({following})


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
    # A busy machine may take long to answer a request.
    monkeypatch.setattr(_provider, "_REQUEST_SECONDS", PATIENCE)
    with openai_stub() as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.address)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        # In lower case, it would take precedence.
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "*")
        yield stub


@pytest.fixture
def without_sqlite_vec(monkeypatch, tmp_path):
    """A machine on which sqlite-vec is installed, but cannot be loaded."""
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


@pytest.fixture
def trusted(imported, monkeypatch, tmp_path):
    """Record the user's trust in what a module has imported, as `pytools-hybrid import` does."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    from pytools_hybrid.serve.calls import trust

    trust(imported / "servers.json", imported / "tools")
    return tmp_path / "config" / "pytools-hybrid"


@pytest.fixture
def served(imported, settings, trusted):
    """Talk to a server of imported tools in this process, as through pipes."""
    from pytools_hybrid.serve.http import create_app
    from pytools_hybrid.serve.mcp import create_server

    @asynccontextmanager
    async def serve(ask=None, mode="auto", callbacks=None, **values):
        usual = {"root": imported / "tools", "tools": "call", "watch": False}
        given = settings(**usual | values)
        async with ToolSearch(settings=given, refresh=False) as search:
            follower = Follower(search.index)
            working = asyncio.create_task(follower.run())
            try:
                assert await follower.wait_until_scanned(within=PATIENCE)
                server = create_server(search, follower, settings=given, root=search.roots)
                answering = {"elicitation_callback": ask} | (callbacks or {})
                async with Client(server, mode=mode, **answering) as client:
                    client.search, client.index = search, search.index
                    client.app = create_app(search, follower, server, given)
                    yield client
            finally:
                working.cancel()
                await asyncio.wait([working])

    return serve
