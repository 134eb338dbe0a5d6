"""Settings: where they come from, and what cannot work."""

from pathlib import Path

import pytest
from pytools_hybrid import Settings, SettingsError


def test_the_defaults_need_nothing():
    settings = Settings.from_flags({})

    assert settings.embedding_model == "wordllama"
    assert settings.sync
    assert settings.watch
    assert (settings.bm25_weight, settings.vec_weight) == (1.0, 1.0)


def test_the_environment_is_read_under_the_names_that_freeact_uses(monkeypatch):
    for name, value in {
        "PYTOOLS_DIR": "some/tools",
        "PYTOOLS_DB_PATH": "some.db",
        "PYTOOLS_EMBEDDING_MODEL": "google-gla:gemini-embedding-001",
        "PYTOOLS_EMBEDDING_DIM": "3072",
        "PYTOOLS_SYNC": "false",
        "PYTOOLS_WATCH": "false",
        "PYTOOLS_BM25_WEIGHT": "0.5",
        "PYTOOLS_VEC_WEIGHT": "2",
    }.items():
        monkeypatch.setenv(name, value)

    settings = Settings.from_flags({})

    assert settings.root == Path("some/tools")
    assert settings.db_path == Path("some.db")
    assert settings.embedding_dim == 3072
    assert not settings.sync
    assert not settings.watch
    assert (settings.bm25_weight, settings.vec_weight) == (0.5, 2.0)


def test_a_flag_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("PYTOOLS_DIR", "from/environment")

    assert Settings.from_flags({"root": Path("from/flag")}).root == Path("from/flag")
    assert Settings.from_flags({"root": None}).root == Path("from/environment")


def test_freeacts_folder_is_the_first_default(tmp_path):
    (tmp_path / "examples" / "tools").mkdir(parents=True)
    (tmp_path / ".freeact" / "generated").mkdir(parents=True)
    settings = Settings.from_flags({})

    root, note = settings.resolved_root()

    assert root == Path(".freeact/generated")
    assert "no --root" in note
    assert settings.resolved_database(root) == Path(".freeact/search.db")


def test_the_examples_are_the_second_default(tmp_path):
    (tmp_path / "examples" / "tools").mkdir(parents=True)

    root, note = Settings.from_flags({}).resolved_root()

    assert root == Path("examples/tools")
    assert "example tools" in note


def test_without_any_root_the_error_names_what_was_looked_for():
    with pytest.raises(SettingsError, match=r"PYTOOLS_DIR.*\.freeact"):
        Settings.from_flags({}).resolved_root()


def test_each_root_has_an_index_of_its_own_in_the_cache_folder(tmp_path):
    settings = Settings.from_flags({})

    one = settings.resolved_database(tmp_path / "one" / "tools")
    other = settings.resolved_database(tmp_path / "other" / "tools")

    assert one != other
    assert one == settings.resolved_database(tmp_path / "one" / ".." / "one" / "tools")
    assert one.name.startswith("tools-")
    assert "pytools-hybrid" in str(one.parent)


def test_a_root_whose_name_is_not_ascii_has_an_index_too(tmp_path):
    path = Settings.from_flags({}).resolved_database(tmp_path / "gereedschap ⚒ \udcff")

    assert str(path).isascii() or str(tmp_path)
    path.name.encode("ascii")


@pytest.mark.parametrize(
    ("field", "value", "flag"),
    [
        ("embedding_model", "gpt", "--embedding-model"),
        ("embedding_model", ":x", "--embedding-model"),
        ("embedding_dim", 0, "--embedding-dim"),
        ("bm25_weight", -0.1, "--bm25-weight"),
        ("vec_weight", float("inf"), "--vec-weight"),
        ("fusion", "magic", "--fusion"),
        ("log_level", "LOUD", "--log-level"),
    ],
)
def test_a_value_that_cannot_work_is_named_with_its_flag_and_variable(field, value, flag):
    with pytest.raises(SettingsError) as caught:
        Settings.from_flags({field: value})

    assert flag in str(caught.value)
    assert f"PYTOOLS_{field.upper()}" in str(caught.value)
