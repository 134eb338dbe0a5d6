"""Common mistakes: the error or the note names the next step."""

import errno
import json
import os
import re
import socket
from pathlib import Path

import pytest
from pytools_hybrid import BlockingToolSearch, SettingsError
from pytools_hybrid.cli import main
from pytools_hybrid.settings import Roots, missing, no_tools


@pytest.mark.parametrize("wrong", ["semantic", "VECTOR", "", None])
def test_an_unknown_mode_is_an_error_that_names_the_modes(settings, root, wrong):
    with (
        BlockingToolSearch(root, settings(), refresh=False) as tools,
        pytest.raises(ValueError, match=f"no mode {wrong!r}; there are hybrid, bm25, vector, fuzz"),
    ):
        tools.search("merge files", mode=wrong)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"limit": 0}, "limit must be a whole number from 1 to 50, got 0"),
        ({"limit": 51}, "limit must be a whole number from 1 to 50, got 51"),
        ({"threshold": -0.1}, "threshold must be a number from 0 to 1, got -0.1"),
        ({"threshold": float("nan")}, "threshold must be a number from 0 to 1, got nan"),
        ({"limit": 1.5}, "limit must be a whole number from 1 to 50, got 1.5"),
        ({"limit": "3"}, "limit must be a whole number from 1 to 50, got '3'"),
        ({"limit": float("nan")}, "limit must be a whole number from 1 to 50, got nan"),
        ({"top_k": 1.5}, "limit must be a whole number from 1 to 50, got 1.5"),
        ({"threshold": "high"}, "threshold must be a number from 0 to 1, got 'high'"),
        ({"query": None}, "the query must be text, got None"),
        ({"query": b"merge"}, "the query must be text, got b'merge'"),
    ],
)
def test_an_invalid_argument_is_an_error_that_says_what_is_allowed(settings, root, arguments, told):
    with (
        BlockingToolSearch(root, settings(), refresh=False) as tools,
        pytest.raises(ValueError, match=re.escape(told)),
    ):
        tools.search(**{"query": "merge files", **arguments})


def test_an_unknown_scope_is_an_error_that_names_the_scopes(settings, root):
    with (
        BlockingToolSearch(root, settings(), refresh=False) as tools,
        pytest.raises(ValueError, match="no scope 'mcp'; there are all, gentools, mcptools"),
    ):
        tools.search("merge files", scope="mcp")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("statik", "static"),
        ("Static", "static"),
        ("nonne", "none"),
        ("opnai:text-embedding-3-small", "openai"),
        ("sentence-transformer:all-MiniLM-L6-v2", "sentence-transformers"),
    ],
)
def test_a_misspelt_model_is_an_error_that_names_the_nearest(capsys, root, given, meant):
    pytest.importorskip("pydantic_ai")
    with pytest.raises(SystemExit):
        main(["search", "x", "--root", str(root), "--model", given])
    assert f"; did you mean {meant}?" in capsys.readouterr().err


def test_without_tools_the_message_names_the_expected_paths(tmp_path):
    (tmp_path / "empty").mkdir()
    told = no_tools(Roots.of(tmp_path / "empty"))
    assert told.startswith(f"no tools in {tmp_path / 'empty'}: looked for mcptools/<category>/")


def test_a_misspelt_root_is_answered_with_the_nearest_folder(root, capsys):
    wrong = root.with_name(f"{root.name}s")
    with pytest.raises(SystemExit):
        main(["search", "merge files", "--root", str(wrong)])
    told = f"{wrong} does not exist; did you mean {root}?"
    assert told in capsys.readouterr().err
    with pytest.raises(SettingsError, match=f"^root: {re.escape(told)}"):
        BlockingToolSearch(wrong).open()
    # While it follows the files, the folder may still be created.
    with BlockingToolSearch(wrong, follow=True) as tools:
        assert tools.search("merge files").notes[0] == told
    assert f"did you mean {root / 'mcptools'}?" in missing(wrong / "mcptools")
    assert "give the folder" in missing(root.with_name("quite-another"))


def test_a_root_that_is_a_file_is_refused(root):
    file = next(root.rglob("*.py"))
    with pytest.raises(SettingsError, match="is a file; give the folder"):
        BlockingToolSearch(file).open()


def test_a_server_of_a_misspelt_root_names_the_nearest_folder(root, capsys):
    wrong = root.with_name(f"{root.name}s")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(SystemExit):
            main(["serve", "--root", str(wrong), "--transport", "http", "--port", port])
    told = f"{wrong} does not exist; did you mean {root}?\nits tools will be found once it exists\n"
    assert told in capsys.readouterr().err


def test_an_import_without_a_root_writes_to_tools(tmp_path, capsys):
    (tmp_path / ".freeact" / "generated").mkdir(parents=True)
    (tmp_path / "servers.json").write_text('{"mcpServers": {}}')
    with pytest.raises(SystemExit):
        main(["import", "servers.json", "--output", "json"])
    assert json.loads(capsys.readouterr().out)["root"] == "tools"


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EACCES, "fix its permissions"),
        (errno.EROFS, "choose a writable path"),
        (errno.ENOSPC, "free some disk space"),
    ],
)
def test_a_refused_file_access_is_reported_with_a_remedy(monkeypatch, root, capsys, number, remedy):
    def refuse(path, *_, **__):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(SystemExit):
        main(["search", "merge files", "--root", str(root)])
    assert remedy in capsys.readouterr().err
