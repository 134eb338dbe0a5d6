"""The documents are correct: every block of code is run, compared or parsed.

A document is run from top to bottom by one shell, in a folder with the example tools:

- `console`: commands after `$ ` are run, and must print the lines that follow;
- `python`: is run, and must print the `text` block that follows it, if any;
- `json`, `jsonl`, `toml`, `ini`: is parsed;
- any block below a line that ends with a file's name in backticks and a colon: is written to that
  file;
- `sh`: is not run, but our commands in it must exist, as must those in running text.

`…` stands for any text, and alone on a line for any lines.
"""

import configparser
import json
import os
import re
import runpy
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import typer
from pytools_hybrid.cli.app import top

from .conftest import PATIENCE

ROOT = Path(__file__).parents[1]
SITE = runpy.run_path(str(ROOT / "docs" / "make" / "site.py"))
DOCUMENTS = sorted(SITE["documents"](ROOT))
# Documents whose blocks are tested elsewhere.
ELSEWHERE = {
    "README.md": "tests/test_readme.py",
    "docs/cli.md": "tests/test_docs_pages.py",
    "docs/server.md": "tests/test_docs_pages.py",
    "docs/datum.md": "tests/test_docs_pages.py",
    "docs/guides/adapters.md": "tests/adapters/test_guide.py",
    "docs/guides/agents.md": "tests/test_guides.py",
    "docs/guides/freeact.md": "tests/clients/test_configurations.py",
    "docs/guides/http.md": "tests/test_guides.py",
    "docs/transcripts/agent.md": "tests/test_guides.py",
    "docs/transcripts/calls.md": "docs/transcripts/calls.py",
    "docs/transcripts/five-minutes.md": "docs/transcripts/five_minutes.py",
    "examples/clients/README.md": "tests/clients/test_configurations.py",
    "packages/toolindex/README.md": "tests/test_readmes.py",
    "packages/toolindex-postgres/README.md": "tests/test_readmes.py",
    "packages/toolrank/README.md": "tests/test_readmes.py",
    "packages/toolscan/README.md": "tests/test_readmes.py",
    "packages/toolwatch/README.md": "tests/test_readmes.py",
    "packages/toolembed/README.md": "tests/test_readmes.py",
    "packages/toolembed-accurate/README.md": "tests/test_readmes.py",
    "packages/toolimport/README.md": "tests/test_readmes.py",
}
# Blocks that are not tested, by document and first line, and the reasons.
LEFT_ALONE = {
    ("docs/guides/team.md", "FROM python:3.13-slim"): "needs a daemon and the network",
}
_END = "\x1e"
_FENCE = re.compile(r"^( *)```(\w*)([^\n]*)\n(.*?)^\1```$", re.M | re.S)
_NAMED = re.compile(r"`([\w./-]+)`:\s*\Z")
_COMMAND = re.compile(r"(?<!--package )pytools-hybrid(?: [^`\n|&>)]*)?")


class Block(NamedTuple):
    """A block of code.

    Attributes:
        language: The language of the fence.
        text: The code.
        file: The file that the line before names.
        line: Its line in the document.
    """

    language: str
    text: str
    file: str
    line: int


class Step(NamedTuple):
    """A command to run, and the output that is shown, or None."""

    command: str
    shown: str | None
    line: int


def blocks(document):
    text = (ROOT / document).read_text("utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        before = text[: fence.start()]
        indent, language, _, code = fence.groups()
        named = _NAMED.search(before)
        code = re.sub(rf"^{indent}", "", code, flags=re.M)
        found.append(Block(language, code, named[1] if named else "", before.count("\n") + 1))
    return found


def steps(document):
    """Return the commands for a shell, in order."""
    told = []
    for block in blocks(document):
        told += steps_of(document, block, told)
    return told


def steps_of(document, block, before):
    if (document, block.text.partition("\n")[0]) in LEFT_ALONE:
        return []
    if block.file and not block.file.startswith("/"):
        check_syntax(block)
        return [
            Step(
                f"mkdir -p {Path(block.file).parent} && {fed('cat > ' + block.file, block)}",
                "",
                block.line,
            )
        ]
    match block.language:
        case "":
            # A diagram, or a layout.
            return []
        case "console":
            return list(commands(block))
        case "python":
            return [Step(fed(f"{shlex.quote(sys.executable)} -", block), None, block.line)]
        case "text" if before and before[-1].shown is None:
            before[-1] = before[-1]._replace(shown=block.text)
            return []
        case "json" | "jsonl" | "toml" | "ini" | "sh":
            check_syntax(block)
            return []
    pytest.fail(f"{document}:{block.line} is not tested, and is not in LEFT_ALONE")


def fed(command, block):
    return f"{command} <<'END OF BLOCK'\n{block.text}END OF BLOCK"


def commands(block):
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, shown = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n?(.*)", part, re.S).groups()
        assert not re.match(r"(sudo )?(pip|pipx|uv|uvx|npm|npx|docker)\b", command), (
            f"{command}: commands that install belong in a block of sh, which is not run"
        )
        yield Step(command, shown, block.line)


def check_syntax(block):
    match block.language:
        case "json":
            json.loads(block.text)
        case "jsonl":
            for line in block.text.splitlines():
                json.loads(line)
        case "toml":
            tomllib.loads(block.text)
        case "ini":
            configparser.ConfigParser(strict=False, interpolation=None).read_string(block.text)


def pattern(shown):
    """Return the regular expression for a shown output."""
    lines = [
        r"(?:.*\n)*" if line == "…\n" else re.escape(line).replace("…", ".*")
        for line in shown.splitlines(keepends=True)
    ]
    return "".join(lines)


@pytest.fixture
def follow(home, examples, environment, command):
    """Follow a document, and return the output of each step."""
    if sys.platform == "win32":
        pytest.skip("the documents need a POSIX shell")
    shutil.copytree(examples, home / "examples" / "tools")
    folders = [Path(command).parent, Path(sys.executable).parent]
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])

    def followed(told, **variables):
        script = "".join(f"{step.command}\nprintf '{_END}'\n" for step in told)
        with subprocess.Popen(
            ["bash", "-c", f"{script}kill $(jobs -p) 2>/dev/null"],
            cwd=home,
            env=environment | {"PATH": path, "NO_PROXY": "*"} | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as shell:
            try:
                printed, _ = shell.communicate(timeout=PATIENCE)
            finally:
                # Also kill the processes that it left running.
                with suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGKILL)
        return printed.decode("utf-8").split(_END)

    return followed


def with_blocks():
    return [it for it in DOCUMENTS if it not in ELSEWHERE and blocks(it)]


@pytest.mark.parametrize("document", with_blocks())
def test_the_commands_of_a_document_print_what_it_shows(follow, port, document):
    # The port is in place of the documents' 8000.
    told = [
        step._replace(
            command=step.command.replace("8000", str(port)),
            shown=step.shown and step.shown.replace("8000", str(port)),
        )
        for step in steps(document)
    ]

    variables = {"PYTOOLS_PORT": str(port)} if "8000" in str(steps(document)) else {}
    printed = follow(told, **variables)

    assert len(printed) == len(told) + 1, "the shell ended early"
    # Make the parts that match equal, so that pytest shows only the differences.
    agreed = [
        text if step.shown is None or re.fullmatch(pattern(step.shown), text) else step.shown
        for step, text in zip(told, printed, strict=False)
    ]
    assert with_places(document, told, printed) == with_places(document, told, agreed)


def with_places(document, told, texts):
    return "".join(
        f"{document}:{step.line}: $ {step.command}\n{text}"
        for step, text in zip(told, texts, strict=False)
    )


@pytest.mark.parametrize("document", with_blocks())
def test_every_block_of_a_document_is_tested(document):
    steps(document)


def test_a_test_elsewhere_reads_its_document():
    for document, test in ELSEWHERE.items():
        text = (ROOT / test).read_text("utf-8")
        assert Path(document).name in text or Path(document).stem in text, document


def test_every_exception_exists():
    assert LEFT_ALONE.keys() <= {
        (document, block.text.partition("\n")[0])
        for document in DOCUMENTS
        for block in blocks(document)
    }


@pytest.mark.parametrize("document", [it for it in DOCUMENTS if not it.endswith("CHANGELOG.md")])
def test_every_command_of_ours_in_a_document_exists(document):
    text = (ROOT / document).read_text("utf-8")
    code = [block.text for block in blocks(document)]
    code += re.findall(r"`([^`\n]+)`", _FENCE.sub("", text))

    for command in (it for each in code for it in _COMMAND.findall(each)):
        assert unknown_in(command) == "", f"{document}: {command}"


COMMANDS = typer.main.get_command(top)


def unknown_in(command):
    """Return the first word of a command that it does not know."""
    group = COMMANDS
    words = re.findall(r"--[\w-]+|[\w-]+|\S", command.partition(" ")[2])
    while words and words[0] in getattr(group, "commands", {}):
        group = group.commands[words.pop(0)]
    options = {"--help", *(name for it in group.params for name in (*it.opts, *it.secondary_opts))}
    if hasattr(group, "commands") and words and re.match(r"[a-z]", words[0]):
        return words[0]
    return next((it for it in words if it.startswith("--") and it not in options), "")
