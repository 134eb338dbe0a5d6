"""The README of each package: its examples print the output shown, its table has every name."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from release.projects import read_projects

from .conftest import PATIENCE
from .postgres import Server, serving
from .public_names import public_names

ROOT = Path(__file__).parents[1]
PACKAGES = {
    name: project
    for name, project in read_projects(ROOT).items()
    if project.folder.parent.name == "packages"
}
# Where the blocks before the examples belong, by package and language, in order.
FILES = {
    "toolimport": {"json": ["servers.json"], "python": ["shop.py"]},
    "toolrank-hybrid": {"sql": ["recipes.db"]},
    "toolscan": {"python": ["tools/mcptools/tickets/create_ticket.py"]},
}
MORE_FILES = {
    "toolindex-postgres": {
        "tools/mcptools/mail/send.py": 'def run(to: str) -> str:\n    """Send a message."""\n'
    }
}
ROWS = re.compile(r"^\| `([\w.]+)` \| \S.*\. \|$", re.M)


def text_of(package):
    return (PACKAGES[package].folder / "README.md").read_text("utf-8")


def parts(package):
    """Return the files of a README, and its examples: code with the output that follows."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text_of(package), re.M | re.S)
    paths = {language: iter(them) for language, them in FILES.get(package, {}).items()}
    files = dict(MORE_FILES.get(package, {}))
    examples = []
    for (language, code), (following, output) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if (language, following) == ("python", "text"):
            examples.append((code, output))
        elif language in {"python", "json", "sql"}:
            files[next(paths[language])] = code
    return files, examples


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".db":
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(content)
    else:
        path.write_text(content, "utf-8")


@pytest.fixture
def environment(request):
    """The variables of an example's process; one package needs a server."""
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    if request.node.callspec.params["package"] != "toolindex-postgres":
        yield {**os.environ, "PATH": programs}
        return
    if sys.platform == "win32":
        pytest.skip("the server is reached by a socket")
    with serving(Server) as server:
        where = {"PGHOST": str(server.folder), "PGUSER": "postgres", "PGDATABASE": "postgres"}
        yield {**os.environ, **where}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_examples_print_the_output_shown_and_change_no_file(package, environment, tmp_path):
    files, examples = parts(package)
    for path, content in files.items():
        write(tmp_path / path, content)
    before = {path: (tmp_path / path).read_bytes() for path in files}

    assert examples
    for code, output in examples:
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (ran.stdout, ran.stderr) == (output, "")
    assert {path: (tmp_path / path).read_bytes() for path in files} == before


@pytest.mark.parametrize("package", PACKAGES)
def test_the_table_lists_every_public_name_once(package):
    _, _, table = text_of(package).partition("\n## Public names\n")
    table = table.partition("\n## ")[0].strip().partition("\n\n")[0]
    head, rule, *rows = table.splitlines()

    assert (head, rule) == ("| Name | What it is for |", "|---|---|")
    assert all(map(ROWS.fullmatch, rows)), "a row is a name in backticks and a sentence"
    assert sorted(ROWS.findall(table)) == public_names(PACKAGES[package].module)
