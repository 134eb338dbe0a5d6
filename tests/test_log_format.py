"""`PYTOOLS_LOG_FORMAT=json`: the logs of the server and of commands, for a log collector."""

import json

import pytest

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def told(stderr):
    """Return the level, logger and message of each line."""
    lines = [json.loads(line) for line in stderr.splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    return [(line["level"], line["logger"], line["message"]) for line in lines]


def test_errors_of_commands_are_json_objects(run):
    wrong = run("search", "pdf", "--root", "nowhere", PYTOOLS_LOG_FORMAT="json")
    unknown = run("search", "--bogus", PYTOOLS_LOG_FORMAT="json")

    assert wrong.returncode == unknown.returncode == 2
    ((level, _, message),) = told(wrong.stderr)
    assert level == "ERROR"
    assert message.startswith("--root: nowhere does not exist")
    assert "No such option: --bogus" in told(unknown.stderr)[-1][2]


def test_the_format_can_be_set_in_a_file_and_overridden_by_the_variable(run, tree, home):
    (home / "pytools.toml").write_text("log-format = 'json'\n")

    first = run("search", "merge pdf files", "--root", tree)
    second = run("search", "pdf", "--root", "nowhere", PYTOOLS_LOG_FORMAT="text")

    assert "merge_pdfs" in first.stdout
    assert told(first.stderr)[0][2].startswith("indexed 119 tools")
    assert second.stderr.startswith("error: --root: nowhere does not exist")


async def test_a_server_and_its_libraries_log_json_without_secrets(connect, tree, home):
    variables = {
        "PYTOOLS_LOG_LEVEL": "DEBUG",
        "PYTOOLS_LOG_FORMAT": "json",
        "PYTOOLS_TOKEN": "geheim",
        "PYTOOLS_TOCKEN": "misspelt",
    }

    async with connect("--root", tree, **variables) as client:
        await client.call_tool("search_tools", {"query": "merge pdf files geheim"})

    lines = told((home / "stderr").read_text())
    problem = "PYTOOLS_TOCKEN is not a setting; did you mean PYTOOLS_TOKEN?"
    assert ("WARNING", "pytools_hybrid", problem) in lines
    assert {"asyncio", "filelock"} <= {logger for _, logger, _ in lines}
    assert "geheim" not in str(lines)
