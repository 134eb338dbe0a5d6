"""pydantic-ai is an extra: what a plain installation says of models that need it."""

import asyncio
import sys
from importlib import import_module

import pytest
from toolembed import EmbeddingError, FailureKind, create_embedder, stand_in
from toolembed.providers import Remedies

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
    # Other tests have imported it, and a part of it would be found without the whole.
    for name in [each for each in sys.modules if each.partition(".")[0] == MODULE]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, MODULE, None)


@pytest.mark.parametrize(("model", "command"), TO_INSTALL)
def test_the_first_use_of_a_model_says_what_to_install(model, command):
    with pytest.raises(EmbeddingError) as refused:
        asyncio.run(create_embedder(model).embed_query("merge"))

    assert refused.value.kind is FailureKind.UNAVAILABLE
    assert str(refused.value).endswith(f"; {command}")


def test_a_program_has_it_said_in_its_own_words():
    embedder = create_embedder("openai:x", remedies=Remedies(distribution="finder"))

    with pytest.raises(EmbeddingError, match=r'install "finder\[openai\]"$'):
        asyncio.run(embedder.embed_query("merge"))


def test_a_provider_that_only_pydantic_ai_may_know_could_be_misspelt():
    said = Remedies().missing("opnai:x")

    assert said.startswith("its package is missing, or its provider misspelt; did you mean openai?")


def test_vectors_of_an_unknown_provider_have_no_stand_in():
    assert stand_in("unheard:x", "unheard:y") is None


def test_the_module_that_is_for_it_alone_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "toolembed.pydantic_ai", raising=False)

    with pytest.raises(ModuleNotFoundError, match=r'install "toolembed\[pydantic-ai\]"'):
        import_module("toolembed.pydantic_ai")
