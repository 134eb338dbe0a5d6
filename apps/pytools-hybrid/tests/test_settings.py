"""Settings: their sources, and invalid values."""

import os
from pathlib import Path

import pytest
from pytools_hybrid import Settings, SettingsError
from pytools_hybrid.settings import Roots


def test_several_roots_are_given_as_flags_or_in_one_variable_like_path(monkeypatch):
    monkeypatch.setenv("PYTOOLS_DIR", f"one{os.pathsep}~/two{os.pathsep}")
    monkeypatch.setenv("HOME", "/home-of-test")
    monkeypatch.setenv("USERPROFILE", "/home-of-test")

    both = (Path("one"), Path("/home-of-test/two"))
    assert Settings.from_flags({}).root == Settings.from_flags({"root": []}).root == both
    flags = [Path("b"), Path(f"a{os.pathsep}c")]
    assert Settings.from_flags({"root": flags}).root == tuple(flags)
    assert Settings.from_flags({"root": Roots.of(flags)}).root == tuple(flags)


def test_a_folder_with_the_separator_in_its_name_is_one_root(monkeypatch, tmp_path):
    (tmp_path / f"a{os.pathsep}b").mkdir()
    monkeypatch.setenv("PYTOOLS_DIR", f"a{os.pathsep}b")

    assert Settings.from_flags({}).root == (Path(f"a{os.pathsep}b"),)


def test_a_variable_that_names_no_folder_is_refused(monkeypatch):
    monkeypatch.setenv("PYTOOLS_DIR", os.pathsep)

    with pytest.raises(SettingsError, match="--root / PYTOOLS_DIR: it is empty"):
        Settings.from_flags({})


@pytest.mark.parametrize(
    ("folders", "chosen"),
    [
        (("tools/mcptools", ".freeact/generated", "examples/tools"), "tools"),
        (("tools/gentools",), "tools"),
        # Many projects keep their scripts there.
        (("tools/scripts", ".freeact/generated", "examples/tools"), ".freeact/generated"),
        (("tools", "examples/tools"), "tools"),
        (("examples/tools",), "examples/tools"),
    ],
)
def test_the_default_root_is_tools_then_freeacts_then_the_examples(tmp_path, folders, chosen):
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)

    root, note = Settings.from_flags({}).resolved_root()

    assert root == Roots.of(chosen)
    assert chosen in note
    assert "no --root" in note


def test_each_root_has_its_own_index_in_the_cache_folder(tmp_path):
    settings = Settings.from_flags({})

    one = settings.resolved_database(tmp_path / "one" / "tools")
    other = settings.resolved_database(tmp_path / "other" / "tools")

    assert one != other
    assert one == settings.resolved_database(tmp_path / "one" / ".." / "one" / "tools")
    assert one.name.startswith("tools-")
    assert "pytools-hybrid" in str(one.parent)


def test_several_roots_share_one_index_that_depends_on_their_order(tmp_path):
    settings = Settings.from_flags({})
    one, other = tmp_path / "one", tmp_path / "other"

    databases = {
        settings.resolved_database(roots) for roots in (one, other, [one, other], [other, one])
    }

    assert len(databases) == 4
    assert settings.resolved_database([one]) == settings.resolved_database([one, one])
    assert settings.resolved_database([one, other]).name.startswith("one+1-")


def test_freeacts_path_is_only_used_for_an_index_of_its_root_alone(tmp_path):
    root = tmp_path / ".freeact" / "generated"

    alone = Settings().resolved_database(root)
    both = Settings().resolved_database([root, tmp_path / "tools"])

    assert alone.parent == tmp_path / ".freeact"
    assert both.parent != alone.parent


def test_a_root_whose_name_is_not_ascii_has_an_index_too(tmp_path):
    path = Settings.from_flags({}).resolved_database(tmp_path / "gereedschap ⚒ \udcff")

    assert path.name.isascii()


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("embedding_model", "gpt", "--model / PYTOOLS_EMBEDDING_MODEL"),
        ("embedding_model", ":x", "--model / PYTOOLS_EMBEDDING_MODEL"),
        ("embedding_dim", 0, "PYTOOLS_EMBEDDING_DIM"),
        ("bm25_weight", -0.1, "PYTOOLS_BM25_WEIGHT"),
        ("vec_weight", float("inf"), "PYTOOLS_VEC_WEIGHT"),
        ("vec_weight", float("nan"), "PYTOOLS_VEC_WEIGHT"),
        ("fusion", "magic", "PYTOOLS_FUSION"),
        ("log_level", "LOUD", "--log-level / PYTOOLS_LOG_LEVEL"),
        ("db_path", Path("\udcff.db"), "--database / PYTOOLS_DATABASE"),
        ("database", "postgresql://me:se@cret@host/tools", "--database / PYTOOLS_DATABASE"),
        ("root", Path("~nobody-of-this-name/x"), "--root / PYTOOLS_DIR"),
        ("no_such_setting", 1, "PYTOOLS_NO_SUCH_SETTING"),
        ("include", [""], "--include / PYTOOLS_INCLUDE"),
        ("exclude", ["*" * 20_000], "--exclude / PYTOOLS_EXCLUDE"),
    ],
)
def test_an_invalid_value_is_reported_with_its_flag_and_variable(field, value, name):
    with pytest.raises(SettingsError) as caught:
        Settings.from_flags({field: value})

    assert str(caught.value).startswith(f"{name}: ")
    assert "secret" not in str(caught.value)


def test_a_tilde_is_expanded_where_no_shell_does_it(monkeypatch):
    monkeypatch.setenv("HOME", "/home-of-test")
    monkeypatch.setenv("USERPROFILE", "/home-of-test")

    settings = Settings(root=Path("~/tools"), db_path=Path("~/index.db"))

    assert settings.root == (Path("/home-of-test/tools"),)
    assert settings.db_path == Path("/home-of-test/index.db")


def test_an_empty_variable_is_not_a_setting(monkeypatch):
    for name in ("PYTOOLS_DIR", "PYTOOLS_DB_PATH", "PYTOOLS_SYNC"):
        monkeypatch.setenv(name, "")

    settings = Settings.from_flags({})

    assert settings.root == ()
    assert settings.db_path is None
    assert settings.sync


def test_freeacts_index_is_found_from_anywhere(tmp_path):
    root = tmp_path / ".freeact" / "generated"

    assert Settings().resolved_database(root) == tmp_path / ".freeact" / "search.db"


def test_lists_are_names_separated_by_commas(monkeypatch):
    monkeypatch.setenv("PYTOOLS_INCLUDE", "mcptools:github:*, mcptools:pdf:*,")
    monkeypatch.setenv("PYTOOLS_ALLOWED_HOSTS", "tools.example")

    settings = Settings.from_flags({"exclude": ["*:delete_*"]})

    assert settings.include == ("mcptools:github:*", "mcptools:pdf:*")
    assert settings.exclude == ("*:delete_*",)
    assert settings.allowed_hosts == ("tools.example",)


def test_a_token_is_never_printed(monkeypatch):
    monkeypatch.setenv("PYTOOLS_TOKEN", "sesame")

    settings = Settings.from_flags({})

    assert settings.token.get_secret_value() == "sesame"
    assert "sesame" not in f"{settings!r} {settings}"


@pytest.mark.parametrize("token", ["open sesame", "sésame", "line\nbreak", "\t"])
def test_a_token_unfit_for_a_header_is_refused_without_showing_it(token):
    with pytest.raises(SettingsError, match="PYTOOLS_TOKEN") as raised:
        Settings.from_flags({"token": token})

    assert token not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("TOOLS", "none"), ("TRANSPORT", "sse"), ("PORT", "-1"), ("PORT", "65536"), ("PORT", "http")],
)
def test_an_invalid_value_for_a_server_names_the_setting(monkeypatch, name, value):
    monkeypatch.setenv(f"PYTOOLS_{name}", value)

    with pytest.raises(SettingsError, match=f"--[a-z]+ / PYTOOLS_{name}"):
        Settings.from_flags({})


@pytest.mark.parametrize("pattern", ["hidden", "mcptools:hidden", "a:b:c:d"])
@pytest.mark.parametrize("name", ["include", "exclude"])
def test_a_pattern_that_can_match_no_id_is_refused(name, pattern):
    with pytest.raises(SettingsError, match=rf"--{name} / PYTOOLS_{name.upper()}.*matches no tool"):
        Settings.from_flags({name: [pattern]})


@pytest.mark.parametrize("name", ["include", "exclude", "confirm"])
@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("delete_*", "*:*:delete_*"),
        ("get_?", "*:*:get_?"),
        ("github:delete_*", "*:github:delete_*"),
        ("github:create_issue", "*:github:create_issue"),
        ("*delete*", "*delete*"),
        ("mcptools:*", "mcptools:*"),
        ("scripts*", "scripts*"),
        ("mcptools:github:*", "mcptools:github:*"),
        ("*", "*"),
    ],
)
def test_a_pattern_that_could_match_no_id_is_a_name_pattern(name, pattern, meant):
    layouts = ["mcptools", "scripts=scripts/{category}/{name}.py"]
    settings = Settings.from_flags({name: [pattern], "layouts": layouts})

    assert getattr(settings, name) == (meant,)


def test_misspelt_variables_are_listed_with_the_likely_setting(monkeypatch):
    monkeypatch.setenv("PYTOOLS_EXCLUDES", "*:pdf:*")
    monkeypatch.setenv("PYTOOLS_DB", "x.db")
    monkeypatch.setenv("PYTOOLS_XYZZY", "1")
    monkeypatch.setenv("PYTOOLS_DIR", "tools")
    monkeypatch.setenv("PYTOOLS_PORT", "9000")

    unknown = Settings.unknown_variables()

    assert unknown["PYTOOLS_EXCLUDES"] == "PYTOOLS_EXCLUDE"
    assert set(unknown) == {"PYTOOLS_EXCLUDES", "PYTOOLS_DB", "PYTOOLS_XYZZY"}


@pytest.mark.usefixtures("no_model_set")
def test_the_commonly_guessed_variable_for_the_root_works_too(monkeypatch):
    monkeypatch.setenv("PYTOOLS_ROOT", "guessed")

    settings = Settings.from_flags({})

    assert settings.root == (Path("guessed"),)
    assert settings.origins == {"root": "PYTOOLS_ROOT"}
    assert Settings.unknown_variables() == {}
    monkeypatch.setenv("PYTOOLS_DIR", "named")
    with pytest.raises(SettingsError, match="PYTOOLS_DIR: is another name for root"):
        Settings.from_flags({})
