"""The guides and the transcripts show real output."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from pytools_hybrid import Settings
from pytools_hybrid.serve.http import check_exposure
from pytools_hybrid.settings import variable

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio

DOCS = Path(__file__).parents[1] / "docs"
AGENTS = (DOCS / "guides" / "agents.md").read_text("utf-8")
HTTP = (DOCS / "guides" / "http.md").read_text("utf-8")
TRANSCRIPT = DOCS / "transcripts" / "agent.md"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def clone(home, examples):
    """The part of a clone that the examples use."""
    shutil.copytree(examples, home / "examples" / "tools")
    return home


@pytest.fixture
def indexed(clone, run):
    """The same with a complete index, so that no answer reports missing vectors."""
    assert run("index", "--root", "examples/tools").returncode == 0


@pytest.fixture
def serving(command, clone, environment):
    """Start the server of the guide at a free port, and yield a client."""

    @contextmanager
    def started(*arguments):
        errors = clone / "stderr"
        program = [command, "serve", "--transport", "http", "--port", "0", *arguments]
        with (
            errors.open("w") as stderr,
            subprocess.Popen(program, cwd=clone, env=environment, stderr=stderr) as process,
        ):
            try:
                with httpx2.Client(base_url=address(process, errors), timeout=PATIENCE) as client:
                    yield client
            finally:
                process.terminate()

    return started


def address(process, errors):
    deadline = time.monotonic() + PATIENCE
    while (said := re.search(r"serving on (\S+)", errors.read_text("utf-8"))) is None:
        assert process.poll() is None, errors.read_text("utf-8")
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return said[1]


def section(document, heading):
    """Return the text below a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", document, re.M | re.S)
    assert found is not None, heading
    return found[1]


def rows(text):
    """Return the rows of the tables in a text, by their first cells."""
    cells = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| `")
    ]
    return {first: rest for first, *rest in cells}


def is_shown_as(value, shown):
    """Return whether a value matches what is shown: numbers are rounded, `…` matches any value."""
    match shown:
        case "…":
            return True
        case dict():
            return value.keys() == shown.keys() and all(
                is_shown_as(value[key], each) for key, each in shown.items()
            )
        case list():
            return len(value) == len(shown) and all(map(is_shown_as, value, shown))
        case float():
            return value == pytest.approx(shown, abs=0.011)
    return value == shown


def assert_shown(text, shown):
    """Compare a text with what is shown of it; JSON is compared by value."""
    if shown.startswith("{"):
        assert is_shown_as(json.loads(text), json.loads(shown)), text
    else:
        assert text == shown


async def test_each_call_in_the_guide_for_agents_returns_the_shown_answer(connect, indexed):
    calls = re.findall(
        r"^```json call\n(.*?)^```\n.*?^```text answer\n(.*?)^```", AGENTS, re.M | re.S
    )
    assert len(calls) == AGENTS.count("```json call") == AGENTS.count("```text answer")

    async with connect("--root", "examples/tools", "--tools", "all") as client:
        results = [
            await client.call_tool(asked["name"], asked["arguments"])
            for asked in (json.loads(call) for call, _ in calls)
        ]

    for (_, answer), result in zip(calls, results, strict=True):
        (block,) = result.content
        for line, shown in zip(block.text.splitlines(), answer.splitlines(), strict=True):
            assert_shown(line, shown)


async def test_the_guide_for_agents_has_every_key_of_meta(connect, clone):
    async with connect("--root", "examples/tools", PYTOOLS_RERANK_MODEL="test") as client:
        result = await client.call_tool("search_tools", {"query": "write to a colleague"})

    meta = {
        key.removeprefix("pytools/"): value
        for key, value in result.meta.items()
        if key.startswith("pytools/")
    }
    table = rows(section(AGENTS, "`search_tools`"))
    assert [key for key, rest in table.items() if len(rest) == 1] == list(meta)


def test_each_request_in_the_guide_to_the_api_returns_the_shown_answer(serving, indexed):
    requests = re.findall(
        r"^```console\n\$ curl (.*?)\n```\n\n```json\n(.*?)^```", HTTP, re.M | re.S
    )
    assert len(requests) == HTTP.count("$ curl") == HTTP.count("```json")

    with serving("--root", "examples/tools") as client:
        for arguments, answer in requests:
            url, *options = shlex.split(arguments)
            given = dict(zip(options[::2], options[1::2], strict=True))
            header, body = given.get("-H", ":"), given.get("-d")
            name, _, value = header.partition(": ")
            response = client.request(
                "GET" if body is None else "POST",
                urlsplit(url)._replace(scheme="", netloc="").geturl(),
                content=body,
                headers={name: value} if body else {},
            )

            assert_shown(response.text, answer)


def test_the_transcript_is_up_to_date(environment, tmp_path):
    printed = subprocess.run(
        [sys.executable, TRANSCRIPT.with_name("make.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        timeout=PATIENCE,
    )

    assert printed.stdout == TRANSCRIPT.read_text("utf-8"), "regenerate it, as make.py says"


def test_the_guide_for_teams_starts_a_server_that_can_be_reached():
    guide = (DOCS / "guides" / "team.md").read_text("utf-8")
    unit = re.search(r"^```ini\n(.*?)^```", guide, re.M | re.S)[1]
    container = re.search(r"^```dockerfile\n(.*?)^```", guide, re.M | re.S)[1]

    for shown in (unit, container):
        given = re.findall(r"(PYTOOLS_\w+)=(\S+)", shown)
        variables = dict(given) | {"PYTOOLS_TOKEN": "secret"}
        assert variables.keys() <= {variable(name) for name in Settings.model_fields}
        fields = {name: variables.get(variable(name)) for name in Settings.model_fields}
        settings = Settings.from_flags({"transport": "http"} | fields | {"root": ["/"]})
        assert (settings.host, settings.port, settings.db_path) == (
            "0.0.0.0",
            8000,
            Path(variables["PYTOOLS_DATABASE"]),
        )
        check_exposure(settings)
    assert re.search(r"^ExecStart=\S+/pytools-hybrid serve --transport http$", unit, re.M)
    assert container == (DOCS.parent / "Dockerfile").read_text("utf-8")


def test_the_messages_in_the_troubleshooting_table_are_those_of_the_code():
    troubles = rows((DOCS / "guides" / "troubleshooting.md").read_text("utf-8"))
    code = "".join(file.read_text("utf-8") for file in sorted(DOCS.parent.glob("*/*/src/**/*.py")))
    # Join string literals that the code splits over lines.
    code = re.sub(r'"\s*f?"', "", code)

    said = [each for each in troubles if " " in each]
    assert len(said) > 5
    for each in said:
        for part in filter(None, map(str.strip, each.split("…"))):
            assert part.strip("():; ") in code, part


def test_the_example_with_custom_functions_prints_what_the_page_shows(capsys):
    page = TRANSCRIPT.with_name("calls.md")
    lines = runpy.run_path(str(page.with_suffix(".py")))["FUNCTIONS"].strip()
    exec(lines, {})
    assert f"{lines}\n```\n\n```text\n{capsys.readouterr().out}" in page.read_text("utf-8")
