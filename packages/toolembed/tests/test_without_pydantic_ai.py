"""Without the extra pydantic-ai, a model that needs it is an error that says what to install."""

import asyncio
import sys
from importlib import import_module

import pytest
from toolembed import EmbeddingError, FailureKind, create_embedder
from toolembed.providers import InstallHints

MODULE = "pydantic_ai"
TO_INSTALL = [
    ("openai:x", 'install "toolembed[openai]"'),
    ("gateway/openai:x", 'install "toolembed[openai]"'),
    ("ollama:x", 'install "toolembed[openai]"'),
    ("google-gla:x", 'install "toolembed[google]"'),
    ("mistral:x", 'install "toolembed[pydantic-ai]" "pydantic-ai-slim[mistral]"'),
    ("cerebras:x", 'install "toolembed[pydantic-ai]"'),
    ("test", 'install "toolembed[pydantic-ai]"'),
]


@pytest.fixture(autouse=True)
def _absent(monkeypatch):
    # Other tests have imported it, and its submodules would still be found.
    for name in [each for each in sys.modules if each.partition(".")[0] == MODULE]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, MODULE, None)


@pytest.mark.parametrize(("model", "command"), TO_INSTALL)
def test_the_first_use_of_a_model_says_what_to_install(model, command):
    with pytest.raises(EmbeddingError) as refused:
        asyncio.run(create_embedder(model).embed_query("merge"))

    assert refused.value.kind is FailureKind.UNAVAILABLE
    assert str(refused.value).endswith(f"; {command}")


def test_a_program_can_replace_the_installation_hint():
    embedder = create_embedder("openai:x", hints=InstallHints(distribution="finder"))

    with pytest.raises(EmbeddingError, match=r'install "finder\[openai\]"$'):
        asyncio.run(embedder.embed_query("merge"))


def test_the_error_for_an_unknown_provider_suggests_a_typo_or_a_missing_package():
    said = InstallHints().missing("opnai:x")

    assert said.startswith("its package is missing, or its provider misspelt; did you mean openai?")


def test_importing_the_pydantic_ai_module_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "toolembed.pydantic_ai", raising=False)

    with pytest.raises(ModuleNotFoundError, match=r'install "toolembed\[pydantic-ai\]"'):
        import_module("toolembed.pydantic_ai")
