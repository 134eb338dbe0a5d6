"""The setting `database`: a file or a server, under all its names, never with a password."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from pytools_hybrid import Settings, SettingsError
from pytools_hybrid.cli import main

SECRET = "hunter2"
ADDRESS = f"postgresql://me:{SECRET}@db.example:5432/tools?sslmode=verify-full&tree=acme%2Ftools"
SHOWN = "postgresql://me@db.example:5432/tools?sslmode=verify-full&tree=acme/tools"


@pytest.mark.parametrize("name", ["database", "db_path"])
def test_a_file_can_be_given_under_every_name_of_the_setting(name, monkeypatch, tmp_path):
    (tmp_path / "pytools.toml").write_text(f'{name} = "of_file.db"\n', encoding="utf-8")
    assert Settings.from_flags({}).database == tmp_path / "of_file.db"
    monkeypatch.setenv(f"PYTOOLS_{name.upper()}", "of_environment.db")
    assert Settings.from_flags({}).database == Path("of_environment.db")
    assert Settings.from_flags({name: "given.db"}).database == Path("given.db")
    assert Settings(**{name: Path("given.db")}).db_path == Path("given.db")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        # The tests of toolindex-postgres have more.
        (f"postgresql://me:{SECRET}@x@host/db", "an @ as %40"),
        (f"postgresql:/me:{SECRET}", "an @ as %40"),
        (f"mysql://me:{SECRET}@host/db", "give a path or postgresql://"),
        (f" postgresql://me:{SECRET}@host/db", "is written postgresql://"),
        (f"postgresql//me:{SECRET}@host/db", "is written postgresql://"),
        (f"host=localhost user=me password={SECRET}", "is written postgresql://"),
        (f"tree=x password = {SECRET}", "is written postgresql://"),
        (f"me:{SECRET}@host/db", "is written postgresql://"),
    ],
)
def test_an_invalid_address_is_refused_without_being_repeated(given, told):
    with pytest.raises(SettingsError) as caught:
        Settings.from_flags({"database": given})
    assert str(caught.value).startswith("--database / PYTOOLS_DATABASE: ")
    assert told in str(caught.value)
    assert SECRET not in str(caught.value)
    with pytest.raises(ValidationError) as unnamed:
        Settings(database=given)
    assert SECRET not in str(unnamed.value)


def test_printed_settings_contain_no_password(monkeypatch):
    monkeypatch.setenv("PYTOOLS_DATABASE", ADDRESS)
    settings = Settings.from_flags({})

    assert str(settings.server) == SHOWN
    for text in (repr(settings), str(settings), settings.model_dump_json()):
        assert SECRET not in text
    assert SECRET not in repr(settings.model_dump())
    assert SECRET in settings.server.url
    assert settings.server == Settings.from_flags({"database": Path(ADDRESS)}).server


@pytest.mark.parametrize("output", ["table", "json", "toml"])
def test_config_shows_the_address_without_its_password(output, monkeypatch, capsys, root):
    monkeypatch.setenv("PYTOOLS_DATABASE", ADDRESS)
    with pytest.raises(SystemExit):
        main(["config", "--output", output])
    told = capsys.readouterr()

    assert SECRET not in told.out + told.err
    assert (json.dumps(SHOWN) if output != "table" else SHOWN) in told.out
    assert ("keep it in PGPASSWORD" in told.err) == (output == "toml")


def test_a_settings_file_that_was_not_named_cannot_choose_a_server(tmp_path):
    # Otherwise, anyone who can write there could receive our tools, and the password that libpq
    # finds for any server.
    file = tmp_path / "pytools.toml"
    file.write_text(f'database = "{ADDRESS}"\n', encoding="utf-8")

    with pytest.raises(SettingsError, match="database: is only allowed in a file that is named"):
        Settings.from_flags({})
    assert str(Settings.from_flags({}, file=file).server) == SHOWN


@pytest.mark.parametrize("checkout", ["one", "another/place/of"])
def test_hosts_with_the_same_checkout_share_a_tree(checkout, tmp_path):
    root = tmp_path / checkout / "agent" / "lib" / "tools"
    root.mkdir(parents=True)
    settings = Settings(database="postgresql://host/db")
    assert settings.resolved_server(root).tree == "lib/tools"
    (tmp_path / checkout / "agent" / ".git").mkdir()
    server = settings.resolved_server(root)

    assert str(server) == "postgresql://host/db?tree=agent/lib/tools"
    both = settings.resolved_server([root, root.parent])
    assert both.tree == "agent/lib/tools+agent/lib"


def test_a_reader_needs_a_tree_name_but_no_root():
    settings = Settings(database=ADDRESS, sync=False)
    roots, note = settings.resolved_root()
    assert (settings.only_reads, note) == (True, None)
    assert settings.resolved_server(roots).tree == "acme/tools"
    nameless = Settings(database="postgresql://host/db", sync=False)
    with pytest.raises(SettingsError, match="status --all lists the trees"):
        nameless.resolved_database(roots)
    with pytest.raises(SettingsError, match="give the folder"):
        Settings(database=ADDRESS).resolved_root()


def test_each_address_and_tree_has_its_own_copy_in_the_cache_folder(tmp_path):
    given = [
        ADDRESS,
        ADDRESS.replace(SECRET, "another"),
        ADDRESS.replace("me:", "you:"),
        ADDRESS.replace("5432", "5433"),
        ADDRESS.replace("acme%2F", ""),
    ]
    copies = [Settings(database=it).resolved_database(tmp_path) for it in given]

    assert copies[0] == copies[1]
    assert len(set(copies)) == len(given) - 1
    assert all(it.name.endswith(".shared.db") and it.name.isascii() for it in copies)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["database", "init", "--database", ADDRESS], "postgres: this command needs an extra: "),
        (["status", "--database", ADDRESS], "an index on a server needs the extra postgres: "),
    ],
)
def test_without_its_package_a_shared_index_needs_one_sentence(arguments, told):
    code = (
        "import importlib.util, sys\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: "
        "None if name == 'toolindex_postgres' else found(name, *more)\n"
        "from pytools_hybrid.cli import main\n"
        "main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2
    assert told in done.stderr
    assert "[postgres]" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert SECRET not in done.stderr
