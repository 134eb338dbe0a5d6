"""Each setting and argument has one name in every interface; older names are aliases."""

import asyncio

import pytest
from mcp.server.mcpserver.exceptions import ToolError
from pytools_hybrid import BlockingToolSearch, Settings, SettingsError
from pytools_hybrid.index import SQLiteStore
from pytools_hybrid.search import Reranking, SearchRequest
from pytools_hybrid.serve.operations import SearchArguments
from pytools_hybrid.serve.tools import read_arguments
from pytools_hybrid.settings import ALIASES
from toolembed.providers import current_name
from toolindex import ToolFilter

GIVEN = {
    "top_k": ("2", {"limit": 2}),
    "min_confidence": ("0.25", {"threshold": 0.25}),
    "dimensions": ("512", {"embedding_dim": 512}),
    "model": ("none", {"embedding_model": "none"}),
    "alpha": ("0.7", {"bm25_weight": 0.3, "vec_weight": 0.7}),
}


@pytest.mark.usefixtures("no_model_set")
@pytest.mark.parametrize("alias", GIVEN)
def test_aliases_work_in_the_environment_files_flags_and_programs(alias, monkeypatch, tmp_path):
    text, meant = GIVEN[alias]
    value = text if alias == "model" else float(text) if "." in text else int(text)
    assert Settings.from_flags({alias: value}).model_dump(include=set(meant)) == meant
    assert Settings(**{alias: value}).model_dump(include=set(meant)) == meant
    file = tmp_path / "pytools.toml"
    file.write_text(f"{alias.replace('_', '-')} = {value!r}\n", encoding="utf-8")
    in_file = Settings.from_flags({})
    assert in_file.model_dump(include=set(meant)) == meant
    file.unlink()
    monkeypatch.setenv(f"PYTOOLS_{alias.upper()}", text)
    from_environment = Settings.from_flags({})
    assert from_environment.model_dump(include=set(meant)) == meant
    assert from_environment.origins.keys() == meant.keys()
    assert Settings.unknown_variables() == {}


def test_a_flag_overrides_a_variable_even_if_one_is_an_alias(monkeypatch):
    monkeypatch.setenv("PYTOOLS_TOP_K", "9")
    monkeypatch.setenv("PYTOOLS_BM25_WEIGHT", "5")
    settings = Settings.from_flags({"limit": 2, "alpha": 1})
    assert (settings.limit, settings.bm25_weight, settings.vec_weight) == (2, 0.0, 1.0)


def test_a_setting_and_its_alias_with_different_values_are_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTOOLS_LIMIT", "3")
    monkeypatch.setenv("PYTOOLS_TOP_K", "3")
    assert Settings.from_flags({}).limit == 3
    monkeypatch.setenv("PYTOOLS_TOP_K", "4")
    with pytest.raises(SettingsError, match="PYTOOLS_TOP_K: is another name for limit, and they"):
        Settings.from_flags({})
    monkeypatch.delenv("PYTOOLS_TOP_K")
    (tmp_path / "pytools.toml").write_text("alpha = 0.5\nvec_weight = 2\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"pytools.toml: alpha: .*vec_weight, and they differ"):
        Settings.from_flags({})


@pytest.mark.parametrize("alpha", ["-0.1", "1.5", "nan", "much"])
def test_alpha_must_be_between_0_and_1(monkeypatch, alpha):
    monkeypatch.setenv("PYTOOLS_ALPHA", alpha)
    with pytest.raises(SettingsError, match="PYTOOLS_ALPHA: give a number from 0"):
        Settings.from_flags({})


def test_aliases_are_accepted_over_mcp():
    asked = SearchArguments.model_validate({"query": "x", "top_k": 3, "min_confidence": 0.2})
    assert (asked.limit, asked.threshold) == (3, 0.2)
    with pytest.raises(ValueError, match="top_k"):
        SearchArguments.model_validate({"query": "x", "limit": 2, "top_k": 3})
    with pytest.raises(ToolError, match="top_k is another name for limit, and they differ"):
        read_arguments(SearchArguments, {"query": "x", "limit": 2, "top_k": 3})


def test_top_k_is_an_alias_of_limit_in_python(settings, root):
    with BlockingToolSearch(root, settings(embedding_model="none")) as tools:
        assert len(tools.search("open merge turn show", top_k=1)) == 1
        with pytest.raises(ValueError, match="top_k is another name for limit"):
            tools.search("open", top_k=1, limit=2)


def test_every_alias_stands_for_a_setting_and_is_not_one_itself():
    fields = Settings.model_fields.keys()
    assert not ALIASES.keys() & fields
    assert {name for names in ALIASES.values() for name in names} <= fields


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("google-gla:gemini-embedding-001", "google:gemini-embedding-001"),
        ("google-vertex:gemini-2.5-flash", "google-cloud:gemini-2.5-flash"),
        ("openai:gpt-5-mini", "openai:gpt-5-mini"),
        ("test", "test"),
    ],
)
def test_older_provider_names_are_replaced_with_current_ones(old, new):
    assert current_name(old) == new
    assert Reranking(old)._model == new


def test_field_weights_set_by_name_leave_the_others_at_their_defaults(
    monkeypatch, tmp_path, root, settings
):
    monkeypatch.setenv("PYTOOLS_FIELD_WEIGHTS", "name=0, description=2.5")
    assert Settings.from_flags({}).field_weights == {"name": 0.0, "description": 2.5}
    monkeypatch.delenv("PYTOOLS_FIELD_WEIGHTS")
    (tmp_path / "pytools.toml").write_text("[field_weights]\nname = 0\n", encoding="utf-8")
    weights = Settings.from_flags({}).field_weights
    assert weights == {"name": 0.0}
    with BlockingToolSearch(root, settings(embedding_model="none")) as tools:
        path = tools.wrapped.index.store.path

    def found(**how):
        with SQLiteStore(path, **how) as store, store.reading() as reader:
            hits = reader.lexical("merge", where=ToolFilter(), depth=9)
            return {hit.id: hit.score for hit in hits}

    by_default, without_names = found(), found(field_weights=weights)
    assert set(by_default) == {"mcptools:pdf:merge_pdfs"}
    assert without_names.get("mcptools:pdf:merge_pdfs", 0) < by_default["mcptools:pdf:merge_pdfs"]
    assert found(field_weights={}) == by_default


NO_WEIGHT = "name=0,description=0,parameters=0,category=0,tags=0"


@pytest.mark.parametrize("wrong", ["nam=3", "name", "name=x", "name=-1", "name=inf", NO_WEIGHT])
def test_invalid_field_weights_are_an_error(monkeypatch, wrong):
    monkeypatch.setenv("PYTOOLS_FIELD_WEIGHTS", wrong)
    with pytest.raises(SettingsError, match="PYTOOLS_FIELD_WEIGHTS"):
        Settings.from_flags({})


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ({"certain": 0.1, "gap": 1.0}, "the first is near-certain"),
        ({"certain": 1.0, "gap": 0.01}, "the lead is clear"),
    ],
)
def test_reranking_is_skipped_when_the_ranking_is_certain(root, settings, numbers, reason):
    with BlockingToolSearch(root, settings(embedding_model="none")) as tools:
        found = tools.search("open report show history several turn title into address")
    assert len(found) > 1
    request = SearchRequest(text="x")
    report = asyncio.run(Reranking("nobody:nothing", **numbers).rerank(request, found)).rerank
    assert reason in report.reason
    assert not report.applied
    assert report.requests == 0


def test_k_of_rank_fusion_is_a_setting(toolbox):
    def scores(k):
        settings = Settings(embedding_model="none", fusion="rrf", rrf_k=k)
        with BlockingToolSearch(toolbox, settings) as tools:
            return [hit.explanation.merged for hit in tools.search("send a message", mode="bm25")]

    assert scores(5) != scores(60)
    assert Settings().rrf_k == 60
