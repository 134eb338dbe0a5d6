"""Settings in a file: which file is used, and errors in it."""

import os
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytools_hybrid import Settings, SettingsError

TABLE = '[tool.pytools]\nlimit = 7\n[tool.other]\nlimit = "x"\n'


@pytest.fixture
def write(tmp_path):
    """Write a file below the folder that the test is in."""

    def write_file(name, text):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    return write_file


def test_flags_override_variables_override_the_file_overrides_defaults(write, monkeypatch):
    write("pytools.toml", 'limit = 7\nthreshold = 0.5\nfusion = "rrf"\n')
    monkeypatch.setenv("PYTOOLS_THRESHOLD", "0.25")
    monkeypatch.setenv("PYTOOLS_LIMIT", "8")

    settings = Settings.from_flags({"limit": 9, "root": None})

    assert (settings.limit, settings.threshold, settings.fusion) == (9, 0.25, "rrf")
    assert settings.vec_weight == 1.0


@pytest.mark.usefixtures("no_model_set")
def test_each_setting_shows_its_source(write, monkeypatch):
    file = write("pytools.toml", "limit = 7\nthreshold = 0.5\n")
    monkeypatch.setenv("PYTOOLS_THRESHOLD", "0.25")

    origins = Settings.from_flags({"database": "x.db", "bm25_weight": 2}).origins

    assert origins == {
        "limit": str(file),
        "threshold": "PYTOOLS_THRESHOLD",
        "database": "--database",
        "bm25_weight": "the argument bm25_weight",
    }


def test_the_nearest_file_is_used(write, monkeypatch, tmp_path):
    write("pytools.toml", "limit = 7")
    write("a/pytools.toml", "limit = 8")
    (tmp_path / "a" / "b").mkdir()

    assert Settings.from_flags({}).limit == 7
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert Settings.from_flags({}).limit == 8


@pytest.mark.parametrize("other", ["[tool.other]\n", "[tool.pytools-other]\n# [tool.pytools]\n"])
def test_the_nearest_table_in_a_pyproject_is_read(write, tmp_path, monkeypatch, other):
    write("pyproject.toml", TABLE)
    monkeypatch.chdir(write("inner/pyproject.toml", other).parent)

    assert Settings.from_flags({}).limit == 7
    write("pytools.toml", "limit = 6")
    assert Settings.from_flags({}).limit == 6


def test_a_file_can_be_named(write, monkeypatch, tmp_path):
    write("pytools.toml", "limit = 7")
    other = write("elsewhere/mine.toml", "limit = 8")

    assert Settings.from_flags({}, file=other).limit == 8
    monkeypatch.setenv("PYTOOLS_CONFIG", str(other))
    assert Settings.from_flags({}).limit == 8
    monkeypatch.setenv("PYTOOLS_CONFIG", str(tmp_path / "absent.toml"))
    with pytest.raises(SettingsError, match=r"absent\.toml: does not exist"):
        Settings.from_flags({})


def test_paths_in_a_file_are_relative_to_the_file(write, monkeypatch, tmp_path):
    lines = 'root = ["tools", "/opt/tools"]\ndb_path = "index.db"\ntuning = "learned"\n'
    write("project/pytools.toml", lines)
    (tmp_path / "project" / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "project" / "deep")

    settings = Settings.from_flags({})

    assert [str(root) for root in settings.root] == [
        str(tmp_path / "project" / "tools"),
        "/opt/tools",
    ]
    assert settings.db_path == tmp_path / "project" / "index.db"
    assert settings.tuning == tmp_path / "project" / "learned"
    write("project/pytools.toml", 'tuning = "none"')
    assert str(Settings.from_flags({}).tuning) == "none"


def test_a_home_folder_in_a_file_is_the_users(write, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    write("pytools.toml", 'root = "~/tools"')

    assert Settings.from_flags({}).root == (tmp_path / "tools",)


@pytest.mark.usefixtures("no_model_set")
def test_names_may_have_hyphens(write):
    write("pytools.toml", 'embedding-model = "none"')

    assert Settings.from_flags({}).embedding_model == "none"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("limitt = 3", "limitt: is not a setting; did you mean limit?"),
        ("zzz = 3", "zzz: is not a setting; pytools-hybrid config lists them"),
        ("limit = 300", "pytools.toml: limit: "),
        ("limit = ", "pytools.toml: is not valid TOML: "),
        ('include = ["github"]', "pytools.toml: include: 'github' matches no tool"),
        ("bm25_weight = 0\nvec_weight = 0", "above zero"),
        (f"limit = {'1' * 5000}", "is not valid TOML"),
        (f"root = {'[' * 5000}", "is not valid TOML"),
        ('root = "a\\u0000b"', "null byte"),
        ("root = 5", "give a folder"),
        ("log-level = 'INFO'\nlog_level = 'INFO'", "is set twice"),
    ],
)
def test_mistakes_in_a_file_are_reported_with_its_name(write, text, told):
    write("pytools.toml", text)

    with pytest.raises(SettingsError) as caught:
        Settings.from_flags({})

    assert told in str(caught.value)


@pytest.mark.parametrize("text", ["tool = 1 # pytools", "[[tool.pytools]]\nlimit = 7"])
def test_a_pyproject_entry_that_is_not_a_table_is_reported_if_the_file_is_named(write, text):
    file = write("pyproject.toml", text)

    if "[[" in text:
        with pytest.raises(SettingsError, match="not a table"):
            Settings.from_flags({})
    else:
        assert Settings.from_flags({}, file=file).limit == 5


@pytest.mark.parametrize("text", ["[tool]\npytools = {limit = 7}", "[ tool . pytools ]\nlimit = 7"])
def test_a_table_is_read_in_any_toml_notation(write, text):
    write("pyproject.toml", text)

    assert Settings.from_flags({}).limit == 7


def test_a_string_is_one_folder_even_with_separators(write, tmp_path):
    write("pytools.toml", f"root = 'a{os.pathsep}b'")

    assert Settings.from_flags({}).root == (tmp_path / f"a{os.pathsep}b",)


def test_a_byte_order_mark_is_ignored(tmp_path):
    (tmp_path / "pytools.toml").write_bytes(b"\xef\xbb\xbflimit = 7")

    assert Settings.from_flags({}).limit == 7


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_path_that_is_not_a_regular_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pyproject.toml")
    (tmp_path / "endless.toml").symlink_to("/dev/zero")

    assert Settings.from_flags({}).limit == 5
    with pytest.raises(SettingsError, match="it is not a regular file"):
        Settings.from_flags({}, file=tmp_path / "endless.toml")


@pytest.mark.parametrize(
    "line",
    [
        'transport = "http"',
        'host = "0.0.0.0"',
        'token = "x"',
        'allowed-hosts = ["a.example"]',
        'database = "postgresql://a.example/db?tree=t"',
        "outside_links = true",
        'tools = "call"',
        'pin = ["mcptools:shell:run"]',
        "read_only = false",
        "confirm = []",
        "run_python = true",
        'python = "mine"',
        "python_memory = 9000",
    ],
)
def test_only_an_explicitly_named_file_can_expose_this_machine_or_decide_what_agents_may_do(
    write, line
):
    file = write("pytools.toml", line)
    name = line.split()[0]

    with pytest.raises(SettingsError) as caught:
        Settings.from_flags({})
    assert f"pytools.toml: {name.replace('-', '_')}" in str(caught.value)
    assert f"PYTOOLS_CONFIG={file}" in str(caught.value)
    assert Settings.from_flags({}, file=file).origins


def test_a_found_file_can_set_what_only_concerns_searches(write):
    write("pytools.toml", 'tools = "basic"\nexclude = ["*:delete_*"]\ntuning = "learned"\n')

    settings = Settings.from_flags({})

    assert (settings.tools, settings.exclude) == ("basic", ("*:delete_*",))


def test_a_found_file_can_stop_the_usage_record_but_not_delete_it(write, monkeypatch):
    file = write("pytools.toml", "usage_log = false")

    found = Settings.from_flags({})
    named = Settings.from_flags({}, file=file)
    monkeypatch.setenv("PYTOOLS_USAGE_LOG", "false")
    by_variable = Settings.from_flags({})

    assert not found.usage_log
    assert [it.deletes_usage for it in (found, named, by_variable)] == [False, True, True]


def test_a_file_of_another_user_is_skipped(write, monkeypatch, tmp_path):
    write("pytools.toml", "limit = 7")
    if os.getuid() == 0:
        os.chown(tmp_path / "pytools.toml", 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)

    assert Settings.from_flags({}).limit == 5


def test_a_huge_file_is_not_read(write):
    write("pytools.toml", "#" * (5 << 20))

    with pytest.raises(SettingsError, match="is larger than"):
        Settings.from_flags({})


def test_a_wrong_value_that_a_flag_replaces_is_not_an_error(write):
    write("pytools.toml", "limit = 300")

    assert Settings.from_flags({"limit": 3}).limit == 3


def test_a_file_that_is_not_utf8_is_reported_only_if_it_is_named(tmp_path, monkeypatch):
    file = tmp_path / "pyproject.toml"
    file.write_bytes(b"[tool.pytools]\nroot = '\xff'\n")

    assert Settings.from_flags({}).root == ()
    monkeypatch.setenv("PYTOOLS_CONFIG", str(file))
    with pytest.raises(SettingsError, match="is not valid TOML"):
        Settings.from_flags({})


def test_a_folder_that_was_removed_has_no_settings(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    try:
        assert Settings.from_flags({}).limit == 5
    finally:
        os.chdir(tmp_path)


@given(st.text(max_size=200))
def test_any_text_is_settings_or_a_clear_error(tmp_path_factory, text):
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_bytes(text.encode("utf-8", "replace"))

    with suppress(SettingsError):
        Settings.from_flags({}, file=file)
