"""pydantic-ai is an extra: what a plain installation does and says without it."""

import asyncio
import json
import subprocess
import sys
from importlib import import_module

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from pytools_hybrid import Settings
from pytools_hybrid.index import configured_embedder
from pytools_hybrid.installation import install_command
from pytools_hybrid.reports.models import model_choices
from pytools_hybrid.search import Reranking
from pytools_hybrid.settings import check_language_model
from toolembed import EmbeddingError, FailureKind

from .conftest import PATIENCE

MODULE = "pydantic_ai"
# As if it were not installed: both finding and importing it fail.
COMMAND = (
    f"import sys; sys.modules[{MODULE!r}] = None; from pytools_hybrid.cli import search, main; "
    f"search._PATIENCE_SECONDS = {PATIENCE}; main()"
)
TO_INSTALL = [
    ("openai:x", install_command("pytools-hybrid[openai]")),
    ("gateway/openai:x", install_command("pytools-hybrid[openai]")),
    ("ollama:x", install_command("pytools-hybrid[openai]")),
    ("google-gla:x", install_command("pytools-hybrid[google]")),
    ("voyageai:x", install_command("pytools-hybrid[voyageai]")),
    ("mistral:x", install_command("pytools-hybrid[pydantic-ai]", "pydantic-ai-slim[mistral]")),
    ("cerebras:x", install_command("pytools-hybrid[pydantic-ai]")),
    ("test", install_command("pytools-hybrid[pydantic-ai]")),
]


@pytest.fixture
def run(root):
    def started(command, *arguments):
        return subprocess.run(
            [sys.executable, "-c", COMMAND, command, "--root", str(root), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    return started


@pytest.fixture
def absent(monkeypatch):
    # Other tests have imported it, and its submodules would still be found.
    for name in [each for each in sys.modules if each.partition(".")[0] == MODULE]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, MODULE, None)


def test_tools_are_indexed_and_found_by_their_meaning(run):
    found = run("search", "join documents", "--mode", "vector", "--output", "json")
    (answer,) = json.loads(found.stdout)
    assert "4 embedded" in found.stderr
    assert answer["notes"] == []
    assert answer["tools"][0]["id"] == "mcptools:pdf:merge_pdfs"


def test_an_agent_is_served(root):
    async def searched():
        server = StdioServerParameters(
            command=sys.executable, args=["-c", COMMAND, "serve", "--root", str(root)]
        )
        async with asyncio.timeout(PATIENCE), Client(stdio_client(server)) as client:
            return await client.call_tool("search_tools", {"query": "merge pdf files"})

    answer = asyncio.run(searched()).content
    assert any("mcptools:pdf:merge_pdfs" in each.text for each in answer)


@pytest.mark.parametrize("name", ["PYTOOLS_EMBEDDING_MODEL", "PYTOOLS_RERANK_MODEL"])
def test_a_search_with_a_model_uses_words_and_says_what_to_install(run, monkeypatch, name):
    monkeypatch.setenv(name, "openai:x")
    # The model is asked for the order, however clear the lead is.
    monkeypatch.setenv("PYTOOLS_RERANK_CERTAIN", "1")
    monkeypatch.setenv("PYTOOLS_RERANK_GAP", "1")
    found = run("search", "join the pages of several pdf files", "--output", "json")
    (answer,) = json.loads(found.stdout)
    assert answer["tools"][0]["id"] == "mcptools:pdf:merge_pdfs"
    assert install_command("pytools-hybrid[openai]") in found.stderr


def test_enriching_with_a_model_fails_and_says_what_to_install(run):
    done = run("enrich", "--dry-run", "--model", "openai:x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f"; {install_command('pytools-hybrid[openai]')}\n")


@pytest.mark.parametrize(("model", "command"), TO_INSTALL)
def test_the_first_use_of_a_model_says_what_to_install(absent, model, command):
    embedder = configured_embedder(Settings.from_flags({"embedding_model": model}))
    with pytest.raises(EmbeddingError) as refused:
        asyncio.run(embedder.embed_query("merge"))
    assert refused.value.kind is FailureKind.UNAVAILABLE
    assert str(refused.value).endswith(f"; {command}")
    assert check_language_model(model) == model
    why = asyncio.run(Reranking(model).prepare())
    assert why.startswith("its package is missing")
    assert why.endswith(f"; {command}")


def test_only_our_own_models_can_be_used(absent, monkeypatch):
    monkeypatch.setenv("OLLAMA_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_API_KEY", "of no use")
    choices = {choice.setting: choice for choice in model_choices()}
    # `accurate` is in a separate package, which may be installed.
    assert {name for name, choice in choices.items() if choice.works} - {"accurate"} == {"static"}
    openai = choices["openai:text-embedding-3-small"]
    assert openai.remedy == install_command("pytools-hybrid[openai]")


def test_modules_that_need_pydantic_ai_say_what_to_install(absent, monkeypatch):
    name = "pytools_hybrid.agents.adapters.pydantic_ai"
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"\[pydantic-ai\]"):
        import_module(name)
