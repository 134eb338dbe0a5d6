"""`pytools-hybrid search`, run as a user runs it."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import apsw
import pytest

from .conftest import PATIENCE


def found_tools(result):
    (answer,) = json.loads(result.stdout)
    return answer["tools"]


def test_without_a_root_it_searches_the_example_tools(run, examples, home):
    shutil.copytree(examples, home / "examples" / "tools")

    result = run("search", "open an issue on github")

    assert result.returncode == 0
    assert "using the example tools in examples/tools" in result.stderr
    score, identifier, found_by = result.stdout.splitlines()[0].split()
    assert identifier == "mcptools:github:create_issue"
    assert 0 < float(score) <= 1
    assert found_by == "both"
    assert "Open a new issue" in result.stdout.splitlines()[1]
    assert result.stdout.splitlines()[2].strip() == (
        "examples/tools/mcptools/github/create_issue.py"
    )


def test_a_search_names_the_file_and_the_line_of_a_tool_that_broke(run, tree):
    file = tree / "mcptools" / "github" / "create_issue.py"
    run("search", "x", "--root", tree)
    file.write_text('def run():\n    """Open an issue."""\n    return (\n', encoding="utf-8")

    for query in ("merge two pdf files", "open an issue on github"):
        result = run("search", query, "--root", tree)
        # The first search says it because the index has changed, the second one because it fits.
        assert result.stderr.count("mcptools:github:create_issue is left out until") == 1
        assert f"{file.as_posix()}:3: '(' was never closed" in result.stderr


def test_the_second_search_indexes_nothing(run, tree):
    first = run("search", "open an issue on github", "--root", tree)
    second = run("search", "open an issue on github", "--root", tree)

    assert "indexed 119 tools (119 added" in first.stderr
    assert second.stderr == ""
    assert second.stdout == first.stdout


def test_the_path_is_under_the_root_as_it_was_given(run, tree):
    result = run("search", "merge pdf", "--root", tree.name, "--output", "json", cwd=tree.parent)

    first = found_tools(result)[0]
    assert first["path"] == "tools/mcptools/pdf/merge_pdfs.py"
    assert (tree.parent / first["path"]).is_file()


def test_scope_and_limit_are_applied(run, tree):
    result = run(
        "search", "issue", "--root", tree, "--scope", "gentools", "--limit", "2", "--output", "json"
    )

    found = found_tools(result)
    assert len(found) == 2
    assert all(tool["id"].startswith("gentools:") for tool in found)


def test_any_text_is_a_query(run, tree):
    words = ['"', "-x", "NEAR(", "a AND", "foo:bar", "C++", "don't", "*", "()", "🛠", "工具"]
    words += ["a" * 9999, "issue"]
    flags = ("--embedding-model", "none", "--output", "json")
    result = run("search", "--root", tree, *flags, "--", *words)

    assert result.returncode == 0, result.stderr
    (answer,) = json.loads(result.stdout)
    assert answer["query"] == " ".join(words)


def test_a_missing_root_is_reported_with_the_expected_layout(run):
    result = run("search", "anything")

    assert result.returncode == 2
    assert "--root" in result.stderr
    assert "PYTOOLS_DIR" in result.stderr
    assert ".freeact/generated" in result.stderr.replace("\\", "/")


def test_an_empty_root_is_reported_with_the_expected_layout(run, tmp_path):
    (tmp_path / "empty").mkdir()

    result = run("search", "anything", "--root", tmp_path / "empty")

    assert result.returncode == 1
    assert result.stdout == ""
    assert "mcptools/<category>/<tool>.py" in result.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTOOLS_BM25_WEIGHT", "-1"),
        ("PYTOOLS_VEC_WEIGHT", "nan"),
        ("PYTOOLS_SYNC", "maybe"),
        ("PYTOOLS_EMBEDDING_MODEL", "gpt"),
        ("PYTOOLS_EMBEDDING_DIM", "0"),
        ("PYTOOLS_LOG_LEVEL", "loud"),
    ],
)
def test_an_invalid_setting_is_named(run, tree, name, value):
    result = run("search", "anything", "--root", tree, **{name: value})

    assert result.returncode == 2
    assert name in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("PYTOOLS_EXCLUDES", "; did you mean PYTOOLS_EXCLUDE?"),
        ("TOOLSCRIPT_SEARCH_THRESHOLD", "; did you mean PYTOOLS_THRESHOLD?"),
        ("TOOLSCRIPT_SEARCH_NO_CACHE", ""),
    ],
)
def test_a_variable_that_is_no_setting_is_reported_with_a_suggestion(run, tree, name, hint):
    result = run("search", "merge", "--root", tree, **{name: "*:pdf:*"})

    assert result.returncode == 0
    assert f"{name} is not a setting{hint}\n" in result.stderr


def test_flags_for_http_are_refused_over_stdio(run, tree):
    result = run("serve", "--root", tree, "--port", "9000")

    assert result.returncode == 2
    assert "--port: requires --transport http" in result.stderr


def test_the_offline_model_replaces_one_without_its_package_or_key(run, tree):
    result = run(
        "search", "open an issue on github", "--root", tree,
        "--embedding-model", "openai:text-embedding-3-small",
    )  # fmt: skip

    assert result.returncode == 0
    assert "mcptools:github:create_issue" in result.stdout
    assert "searched with vectors of static:" in result.stderr
    assert "openai" in result.stderr


def test_a_database_of_another_program_is_not_changed(run, tree, tmp_path):
    database = tmp_path / "precious.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE letters (text)")
    connection.close()
    before = database.read_bytes()

    result = run("search", "anything", "--root", tree, "--db", database)

    assert result.returncode == 1
    assert "not a tool index" in result.stderr
    assert database.read_bytes() == before
    assert [path.name for path in tmp_path.glob("precious*")] == ["precious.db"]


def test_tools_are_read_and_never_run(run, tmp_path):
    tool = tmp_path / "tools" / "mcptools" / "trap" / "spring.py"
    tool.parent.mkdir(parents=True)
    trace = tmp_path / "trace"
    tool.write_text(
        f"open({str(trace)!r}, 'w').close()\n\ndef run():\n    '''Spring a harmless trap.'''\n"
    )
    (tool.parent / "__init__.py").write_text(f"open({str(trace)!r}, 'w').close()\n")

    result = run("search", "spring a trap", "--root", tmp_path / "tools")

    assert "mcptools:trap:spring" in result.stdout
    assert not trace.exists()
    assert not list(tmp_path.rglob("__pycache__"))


def test_control_characters_of_a_docstring_do_not_reach_the_terminal(run, tmp_path):
    tool = tmp_path / "tools" / "mcptools" / "evil" / "colour.py"
    tool.parent.mkdir(parents=True)
    tool.write_text("def run():\n    '''Paint \\x1b[31m the \\x07 terminal.'''\n")

    result = run("search", "paint the terminal", "--root", tmp_path / "tools")

    assert "mcptools:evil:colour" in result.stdout
    assert "\x1b" not in result.stdout
    assert "\x07" not in result.stdout


def test_index_lists_excluded_files_with_reasons(run, tree):
    (tree / "mcptools" / "web" / "broken.py").write_text("def run(:\n")
    (tree / "mcptools" / "web" / "silent.py").write_text("def run(): ...\n")

    result = run("index", "--root", tree)

    assert result.returncode == 0
    assert "indexed 119 tools" in result.stderr
    assert "mcptools/web/broken.py" in result.stderr
    assert "mcptools/web/silent.py" in result.stderr


def test_a_path_that_is_not_utf8_does_not_affect_others(run, tree):
    name = b"caf\xe9.py"
    try:
        Path(str(tree / "mcptools" / "web"), name.decode("utf-8", "surrogateescape")).write_text(
            "def run():\n    '''Make coffee.'''\n"
        )
    except OSError:
        pytest.skip("this file system does not allow such names")

    result = run("search", "open an issue on github", "--root", tree)

    assert result.returncode == 0
    assert "mcptools:github:create_issue" in result.stdout


def test_the_version_is_that_of_the_distribution(run):
    assert run("--version").stdout == f"pytools-hybrid {version('pytools-hybrid')}\n"


def test_a_locked_index_is_searched_as_it_is(run, tree, tmp_path):
    database = tmp_path / "index.db"
    run("index", "--root", tree, "--db", database)
    (tree / "mcptools" / "pdf" / "merge_pdfs.py").unlink()
    other = apsw.Connection(str(database))
    other.execute("BEGIN IMMEDIATE")

    result = run("search", "merge pdf files", "--root", tree, "--db", database)

    other.close()
    assert "mcptools:pdf:merge_pdfs" in result.stdout
    assert "another process holds the index locked" in result.stderr


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not restrict this user"
)
def test_an_index_that_cannot_be_written_is_searched_as_it_is(run, tree, tmp_path):
    folder = tmp_path / "fixed"
    database = folder / "index.db"
    run("index", "--root", tree, "--db", database)
    database.chmod(0o444)
    folder.chmod(0o555)
    try:
        result = run("search", "merge pdf files", "--root", tree, "--db", database)
    finally:
        folder.chmod(0o755)

    assert "mcptools:pdf:merge_pdfs" in result.stdout
    assert "used as it is" in result.stderr


def test_a_closed_stdout_causes_no_traceback(command, tree, environment, patient):
    with subprocess.Popen(
        [command, "search", "issue", "--root", tree, "--limit", "50", "--output", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        process.stdout.close()
        with patient(process, "its end"):
            assert "Traceback" not in process.stderr.read()


def test_a_search_by_words_does_not_wait_for_embedding(run, tree):
    result = run("search", "merge pdf files", "--root", tree, "--mode", "bm25")

    assert "119 added" in result.stderr
    assert "0 embedded" in result.stderr


def test_a_search_imports_neither_numpy_nor_rich(tree, home, environment):
    """Importing them takes longer than a search."""
    program = (
        "import sys\n"
        "from pytools_hybrid.cli import main\n"
        f"sys.argv = ['x', 'search', 'open an issue', '--root', {str(tree)!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'rich.table', 'rich.progress', 'mcp', 'pydantic_ai', 'starlette'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    for _ in range(2):
        result = subprocess.run(
            [sys.executable, "-c", program],
            cwd=home,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )

    assert result.stdout.splitlines()[-1] == "[]"
