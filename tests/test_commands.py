"""The commands other than search and serve, run as a user runs them."""

import ast
import json
import os
import pty
import re
import shutil
import signal
import subprocess
from contextlib import closing, suppress

import apsw
import pytest
import sqlite_vec
import typer
from pytools_hybrid.cli.app import top
from toolindex import ToolIndex
from typer.testing import CliRunner

from .conftest import PATIENCE

ISSUE = "mcptools:github:create_issue"


@pytest.fixture
def on_terminal(command, home, environment, patient):
    """Run the command with a terminal as stdout and stderr, and return its output."""

    def run_command(*arguments, columns=110):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [command, *map(str, arguments)],
            cwd=home,
            env=environment | {"COLUMNS": str(columns), "TERM": "xterm-256color"},
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        shown = b""
        # On Linux, reading from a terminal whose writers are gone is an error.
        with suppress(OSError), patient(process, "its end"):
            while data := os.read(ours, 65536):
                shown += data
        os.close(ours)
        assert process.wait(PATIENCE) in {0, 1}
        return shown.decode()

    return run_command


class TestSearch:
    def test_words_without_quotes_are_one_request(self, run, tree):
        words = ("open", "an", "issue", "on", "github")
        bare, quoted = (
            run("search", *query, "--root", tree, "--output", "json")
            for query in (words, (" ".join(words),))
        )

        (answer,) = json.loads(bare.stdout)
        assert answer["query"] == "open an issue on github"
        assert bare.stdout == quoted.stdout

    def test_python_output_is_code_that_imports_each_tool(self, run, tree):
        result = run(
            "search", "open an issue", "--root", tree, "--output", "python", "--limit", "2"
        )

        first, *_ = result.stdout.splitlines()
        module = ast.parse(result.stdout)
        assert re.fullmatch(rf"# 0\.\d\d confidence: {ISSUE}", first)
        imports = [node.module for node in module.body if isinstance(node, ast.ImportFrom)]
        assert imports[0] == "mcptools.github.create_issue"
        assert len(imports) == 2
        functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
        assert all(ast.get_docstring(function) for function in functions)

    def test_an_explanation_shows_channels_ranks_and_words(self, run, tree):
        result = run("search", "open an issue", "--root", tree, "--explain", "--limit", "1")

        lines = [line.strip() for line in result.stdout.splitlines()]
        assert any(line.startswith("bm25   #") and "issue " in line for line in lines)
        assert any(line.startswith("vector #") for line in lines)
        assert any(line.startswith("confidence 0.") for line in lines)

    def test_the_parts_of_an_explanation_in_json_add_up(self, run, tree):
        result = run("search", "open an issue", "--root", tree, "--explain", "--output", "json")

        for tool in json.loads(result.stdout)[0]["tools"]:
            if "bm25" in tool["channels"]:
                told = tool["channels"]["bm25"]["score"]
                assert sum(tool["terms"].values()) == pytest.approx(told, abs=1e-4)

    def test_why_reports_a_tool_s_rank_and_what_it_lacks(self, run, tree):
        result = run(
            "search", "open an issue on github", "--root", tree, "--why", "list_commits", "--limit",
            "2", "--output", "json",
        )  # fmt: skip

        why = json.loads(result.stdout)[0]["why"]
        assert why["id"] == "mcptools:github:list_commits"
        assert why["rank"] > 2
        assert "issue" in why["lacking"]

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["--scope", "gentools"], "the filters of this search leave it out"),
            (["--threshold", "0.99"], "its confidence is"),
        ],
    )
    def test_why_names_what_excludes_a_tool(self, run, tree, arguments, told):
        result = run("search", "open an issue", "--root", tree, "--why", ISSUE, *arguments)

        assert told in result.stdout

    def test_an_unknown_tool_is_an_error_that_names_similar_ones(self, run, tree):
        result = run("search", "issue", "--root", tree, "--why", "create_isue")

        assert result.returncode == 1
        assert ISSUE in result.stderr

    def test_an_unknown_category_is_an_error_that_names_the_known_ones(self, run, tree):
        result = run("search", "open an issue", "--root", tree, "--category", "githb")

        assert result.returncode == 1
        assert "github" in result.stderr

    def test_settings_can_be_in_a_file(self, run, tree, home):
        (home / "pytools.toml").write_text(f'root = "{tree}"\nlimit = 2\n', encoding="utf-8")

        result = run("search", "merge pdf", "--output", "ids")

        assert len(result.stdout.splitlines()) == 2

    def test_a_terminal_gets_a_table(self, on_terminal, tree):
        shown = on_terminal("search", "open an issue", "--root", tree, "--limit", "2")

        assert "create_issue" in shown
        assert "━" in shown
        assert "\x1b[" in shown

    def test_docstrings_cannot_control_the_terminal(self, on_terminal, tree):
        evil = tree / "mcptools" / "evil" / "escape.py"
        evil.parent.mkdir()
        evil.write_text(
            'def run():\n    "Escape \\x1b]0;owned\\x07 [bold red]:smile:[/] quokka."\n', "utf-8"
        )

        shown = on_terminal("search", "escape quokka", "--root", tree, "--explain", "--limit", "1")

        assert "\x1b]0;" not in shown
        assert "[bold red]:smile:[/]" in shown


class TestIndex:
    def test_check_repairs_damage_and_reports_it(self, run, tree, home):
        arguments = ["index", "--root", tree, "--db", home / "index.db"]
        run(*arguments)
        with closing(apsw.Connection(str(home / "index.db"))) as connection:
            connection.enable_load_extension(True)
            connection.load_extension(sqlite_vec.loadable_path())
            connection.execute("DELETE FROM entries_vec WHERE rowid < 4")

        first = run(*arguments, "--check")
        second = run(*arguments, "--check")

        assert "3 tools have no stored vector" in first.stderr
        assert "rebuilt" in first.stderr
        assert "is consistent" in second.stderr
        assert "0 added, 0 updated, 0 removed, 0 embedded" in second.stderr
        assert (first.returncode, second.returncode) == (0, 0)

    def test_check_reads_files_whose_times_are_unchanged(self, run, tree, home):
        arguments = ["index", "--root", tree, "--db", home / "index.db"]
        with closing(apsw.Connection(str(home / "index.db"))) as connection:
            # Index until no file is so new that it would be read again anyway.
            for _ in range(20):
                run(*arguments)
                if not connection.execute("SELECT count(*) FROM entries WHERE inode IS NULL").get:
                    break
            connection.execute(
                "UPDATE entries SET file_hash = 'x', summary = 'wrong' WHERE id = ?", (ISSUE,)
            )

        before = run(*arguments)
        checked = run(*arguments, "--check")

        assert "0 updated" in before.stderr
        assert "1 updated" in checked.stderr

    def test_rebuild_embeds_everything_again_and_keeps_the_usage_record(self, run, tree, home):
        database = home / "index.db"
        run("search", "open an issue", "--root", tree, "--db", database)

        result = run("index", "--root", tree, "--db", database, "--rebuild")

        assert "119 updated, 0 removed, 119 embedded" in result.stderr
        with ToolIndex(database) as index:
            assert index.usage.statistics().searches == 1

    def test_json_output_has_the_changes_and_the_excluded_files(self, run, tree):
        (tree / "mcptools" / "pdf" / "broken.py").write_text("def run(:", "utf-8")

        told = json.loads(run("index", "--root", tree, "--output", "json").stdout)

        assert (told["added"], told["embedded"]) == (119, 119)
        assert [(it["path"], it["reason"]) for it in told["left_out"]] == [
            ("mcptools/pdf/broken.py", "syntax_error")
        ]

    def test_strict_exits_with_1_for_an_excluded_file_or_a_duplicate_tool(
        self, run, tmp_path, home
    ):
        own, shared = tmp_path / "own", tmp_path / "shared"
        for root, name in ((own, "send"), (shared, "read"), (shared, "_private")):
            (root / "mcptools" / "mail").mkdir(parents=True, exist_ok=True)
            source = f"def run() -> str:\n    '''{name.title()} a letter.'''\n"
            (root / "mcptools" / "mail" / f"{name}.py").write_text(source, "utf-8")
        index = ("index", "--root", own, "--root", shared, "--db", home / "i.db", "--strict")
        assert run(*index).returncode == 0
        shutil.copy(own / "mcptools" / "mail" / "send.py", shared / "mcptools" / "mail")

        twice = run(*index)

        assert twice.returncode == 1
        assert "is shadowed by" in twice.stderr
        assert "1 file left out, which --strict does not allow" in twice.stderr

    def test_check_and_rebuild_exclude_each_other(self, run, tree):
        result = run("index", "--root", tree, "--check", "--rebuild")

        assert result.returncode == 2
        assert "--check / --rebuild" in result.stderr

    @pytest.mark.parametrize("model", ["static", "openai:without-a-key"])
    def test_watch_reports_changes_until_interrupted(
        self, command, environment, home, tree, model, patient
    ):
        with (
            subprocess.Popen(
                [command, "index", "--root", str(tree), "--watch", "--model", model],
                cwd=home,
                env=environment,
                stderr=subprocess.PIPE,
                text=True,
            ) as process,
            patient(process, "the report of what was removed"),
        ):
            watchdog = signal.SIGKILL
            try:
                for line in process.stderr:
                    if "following" in line:
                        # Move all files at once, so that one report names them all.
                        (tree / "mcptools" / "pdf").rename(home / "pdf")
                    elif "0 added, 0 updated, 5 removed" in line:
                        watchdog = signal.SIGINT
                        break
            finally:
                process.send_signal(watchdog)
            assert process.wait(PATIENCE) == 130


class TestList:
    def test_categories_are_listed_with_their_counts(self, run, tree):
        result = run("list", "--root", tree, "--output", "json")

        counts = {
            f"{it['source']}:{it['category']}": it["tools"] for it in json.loads(result.stdout)
        }
        assert counts["mcptools:pdf"] == 5
        assert sum(counts.values()) == 119

    def test_the_tools_of_given_categories_are_listed(self, run, tree):
        result = run("list", "pdf", "mail", "--root", tree, "--output", "ids")

        ids = result.stdout.splitlines()
        assert "mcptools:pdf:merge_pdfs" in ids
        assert {id_.split(":")[1] for id_ in ids} == {"pdf", "mail"}

    def test_an_unknown_category_is_an_error_that_names_the_known_ones(self, run, tree):
        result = run("list", "githb", "--root", tree)

        assert result.returncode == 1
        assert "github" in result.stderr

    def test_hidden_tools_are_not_listed(self, run, tree):
        result = run("list", "--root", tree, PYTOOLS_EXCLUDE="*:pdf:*")

        assert "pdf" not in result.stdout

    def test_settings_that_hide_all_tools_are_named(self, run, tree):
        result = run("list", "--root", tree, PYTOOLS_EXCLUDE="*")

        assert (result.returncode, result.stdout) == (1, "")
        assert "the settings include and exclude hide all of them" in result.stderr


class TestDescribe:
    def test_a_tool_is_described_by_any_of_its_names(self, run, tree):
        texts = {
            run("describe", name, "--root", tree).stdout
            for name in (ISSUE, "github__create_issue", "create_issue")
        }

        (text,) = texts
        assert "from mcptools.github.create_issue import Params, run" in text

    def test_json_output_has_schemas(self, run, tree):
        result = run("describe", ISSUE, "--root", tree, "--output", "json", "--detail", "schema")

        assert json.loads(result.stdout)["input_schema"]["properties"]["title"]

    def test_a_terminal_gets_colours(self, on_terminal, tree):
        assert "\x1b[" in on_terminal("describe", ISSUE, "--root", tree)


class TestStatus:
    def test_status_shows_what_the_index_contains(self, run, tree, home):
        database = home / "index.db"
        run("search", "open an issue", "--root", tree, "--db", database)

        text = run("status", "--root", tree, "--db", database).stdout
        told = json.loads(
            run("status", "--root", tree, "--db", database, "--output", "json").stdout
        )

        assert "119 of 119 tools have vectors" in text
        assert "less than a minute ago" in text
        assert (told["tools"], told["vectors"], told["searches"]) == (119, 119, 1)
        assert told["categories"]["mcptools:github"] > 5
        assert told["notes"] == []

    def test_one_category_is_in_the_singular(self, run, write_tools, tmp_path):
        write_tools(tmp_path, "zoo", 2, "Feed the penguins.")
        run("index", "--root", tmp_path)

        assert "2 in 1 category\n" in run("status", "--root", tmp_path).stdout

    def test_a_lost_channel_is_reported(self, run, tree, home):
        database = home / "index.db"
        run("index", "--root", tree, "--db", database)

        result = run(
            "status",
            "--root",
            tree,
            "--db",
            database,
            PYTOOLS_EMBEDDING_MODEL="openai:no-such-model",
        )

        assert "0 of 119 tools have vectors" in result.stdout
        assert "openai" in result.stdout.partition("note:")[2]

    def test_status_records_no_search(self, run, tree, home):
        for _ in range(2):
            result = run("status", "--root", tree, "--db", home / "index.db")

        assert "none recorded" in result.stdout
        assert "never: run pytools-hybrid index" in result.stdout


class TestConfig:
    def test_every_setting_shows_its_value_and_origin(self, run, home):
        (home / "pytools.toml").write_text("limit = 7\n", encoding="utf-8")

        result = run("config", "--output", "json", PYTOOLS_PORT="9000")

        rows = {row["name"]: row for row in json.loads(result.stdout)}
        assert rows["limit"]["value"] == 7
        assert rows["limit"]["origin"].endswith("pytools.toml")
        assert rows["port"]["origin"] == "PYTOOLS_PORT"
        assert rows["fusion"]["origin"] == "default"

    def test_the_token_is_never_shown(self, run):
        for output in ("table", "json", "toml"):
            result = run("config", "--output", output, PYTOOLS_TOKEN="s3cret-s3cret")

            assert "s3cret" not in result.stdout + result.stderr

    def test_toml_output_is_a_file_with_the_same_settings(self, run, home):
        written = run("config", "--output", "toml", PYTOOLS_LIMIT="7", PYTOOLS_INCLUDE="*:pdf:*")
        (home / "pytools.toml").write_text(written.stdout, encoding="utf-8")

        again = run("config", "--output", "json")

        rows = {row["name"]: row["value"] for row in json.loads(again.stdout)}
        assert (rows["limit"], rows["include"]) == (7, ["*:pdf:*"])

    def test_a_file_can_be_named_before_the_command(self, run, tmp_path):
        (tmp_path / "mine.toml").write_text("limit = 7\n", encoding="utf-8")

        result = run("--config", tmp_path / "mine.toml", "--log-level", "ERROR", "config")

        assert "limit = 7" in result.stdout
        assert "log_level = ERROR  (--log-level;" in result.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_commands(run, shell):
    assert "pytools" in run("--show-completion", shell).stdout


def test_completion_knows_the_commands(run):
    result = run(
        _PYTOOLS_HYBRID_COMPLETE="complete_bash", COMP_WORDS="pytools-hybrid se", COMP_CWORD="1"
    )

    assert result.stdout.split() == ["search", "setup", "serve"]


def test_every_command_s_help_has_examples_and_options_in_a_line():
    for name, command in typer.main.get_command(top).commands.items():
        for below, each in getattr(command, "commands", {"": command}).items():
            # Run in this process, because so many processes would take half a minute.
            told = CliRunner().invoke(top, [name, *[below] * bool(below), "--help"]).output
            assert "pytools-hybrid" in told.partition("Options")[2], f"{name} {below}"
            for option in each.params:
                assert len(option.help.partition(" [")[0]) <= 60, f"{name} {option.name}"


def test_the_help_lists_the_commands_in_sections(run):
    told = run("--help").stdout

    headings = [line for line in told.splitlines() if re.fullmatch(r"\w[\w ]+:", line)]
    assert headings[1:] == [
        "Use:", "Tools and servers:", "Index:", "Measure:", "Administration:"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["export"], "export is now: pytools-hybrid report --export"),
        (["search", "x", "--alpha", "0"], "No such option: --alpha; set PYTOOLS_ALPHA"),
        (["serve", "--allowed-host", "x"], "--allowed-host; set PYTOOLS_ALLOWED_HOSTS"),
    ],
)
def test_what_has_another_name_now_is_named(run, arguments, told):
    result = run(*arguments)

    assert result.returncode == 2
    assert told in result.stderr


def test_options_have_the_names_of_freeact_too(run, tree, home):
    result = run(
        "search", "issue", "--root", tree, f"--db={home / 'i.db'}", "--top-k", "2", "--output",
        "ids", "--min-confidence", "0", "--", "--db",
    )  # fmt: skip

    assert len(result.stdout.splitlines()) == 2
    assert (home / "i.db").exists()
