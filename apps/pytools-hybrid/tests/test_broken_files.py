"""Tools whose files can no longer be read do not vanish without a word."""

import asyncio
import logging

import pytest
from pytools_hybrid import ToolSearch
from toolindex import ToolFilter

from .conftest import PATIENCE

REQUEST = "open an issue in a repository"
ISSUE = "mcptools/github/create_issue.py"
DOCUMENTED = '"""Open a new issue in a repository, to report a bug."""'


@pytest.fixture
def searched(toolbox, settings):
    """Run an async function on an open search of the toolbox."""

    def run(job, **values):
        async def main():
            chosen = settings(embedding_model="none", watch=False, **values)
            async with ToolSearch(toolbox, chosen) as tools:
                return await job(tools)

        return asyncio.run(main())

    return run


def broken_notes(response):
    return [note for note in response.notes if "is left out until" in note]


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (f"def run(\n    {DOCUMENTED}\n".encode(), ":1: '(' was never closed."),
        (f"def run():\n    {DOCUMENTED[:-3]}".encode(), ":2: unterminated triple-quoted string"),
        (f"def run():\n    {DOCUMENTED}\n    'ü'".encode("latin-1"), ":3: Its bytes are not utf-8"),
        (f"def walk():\n    {DOCUMENTED}\n".encode(), ": It defines no function run()"),
        (b"", ": It is empty."),
        (b"\0", ": It contains NUL bytes"),
        (b"#" * (2 << 20) + b"\n", ": It is larger than the limit"),
    ],
)
def test_a_search_that_misses_a_broken_tool_reports_it_once(searched, toolbox, content, where):
    async def job(tools):
        assert broken_notes(await tools.search(REQUEST)) == []
        (toolbox / ISSUE).write_bytes(content)
        await tools.index.update(vectors=False)
        assert broken_notes(await tools.search("rotate the pages of a document")) == []
        unrecorded = await tools.search(REQUEST, record=False)
        first, second = [await tools.search(REQUEST) for _ in range(2)]
        (note,) = broken_notes(first)
        assert note.startswith("mcptools:github:create_issue is left out until its file is ")
        assert f"repaired: {(toolbox / ISSUE).as_posix()}{where}" in note
        assert broken_notes(unrecorded) == [note]
        assert broken_notes(second) == []
        return note

    searched(job)


def test_a_broken_tool_is_mentioned_again_only_if_it_is_broken_in_another_way(searched, toolbox):
    async def job(tools):
        shown = []
        for content in ("def run(", "def run(", DOCUMENTED, f"def run():\n    {DOCUMENTED}", "'"):
            (toolbox / ISSUE).write_text(content)
            await tools.index.update(vectors=False)
            shown.append(len(broken_notes(await tools.search(REQUEST))))
        return shown

    assert searched(job) == [1, 0, 1, 0, 1]


def test_tools_that_a_search_may_not_list_are_not_mentioned(searched, toolbox):
    (toolbox / ISSUE).write_text(f"def run(:\n    {DOCUMENTED}\n")

    async def job(tools, where=None):
        return broken_notes(await tools.search(REQUEST, where=where))

    assert searched(job, exclude="*:github:*") == []
    for where in (ToolFilter(source="gentools"), ToolFilter(categories=["pdf"])):
        assert searched(lambda tools, where=where: job(tools, where)) == []
    assert len(searched(lambda tools: job(tools, ToolFilter(categories=["github"])))) == 1


def test_files_that_were_never_tools_and_removed_ones_are_not_mentioned(searched, toolbox):
    (toolbox / "mcptools/github/issue_helpers.py").write_text(f"def helper():\n    {DOCUMENTED}\n")
    (toolbox / "mcptools/github/_issue.py").write_text("def run(")

    async def job(tools):
        first = await tools.search(REQUEST)
        (toolbox / ISSUE).unlink()
        await tools.index.update(vectors=False)
        return broken_notes(first) + broken_notes(await tools.search(REQUEST))

    assert searched(job) == []


def test_a_file_of_several_tools_is_not_broken_while_it_has_others(searched, toolbox):
    file = toolbox / "issues.py"
    file.write_text(f"def open_issue():\n    {DOCUMENTED}\ndef close():\n    'Close it.'\n")

    async def job(tools):
        notes = []
        for line in ("", "__all__ = ['open_issue', 'gone']\n", "def ("):
            file.write_text(f"def open_issue():\n    {DOCUMENTED}\n{line}")
            await tools.index.update(vectors=False)
            notes += broken_notes(await tools.search(REQUEST))
        return notes

    (note,) = searched(job, layouts="mcptools,functions")
    assert note.startswith("functions:issues:* is left out until its file is repaired: ")
    assert f"{file.as_posix()}:3: invalid syntax" in note


def test_a_server_warns_of_each_broken_file_once(toolbox, settings, caplog):
    (toolbox / "mcptools/pdf/broken.py").write_text("def run(")

    def warnings():
        return [it.getMessage() for it in caplog.records if it.levelno == logging.WARNING]

    async def main():
        chosen = settings(embedding_model="none")
        async with ToolSearch(toolbox, chosen, refresh=True, follow=True):
            (toolbox / ISSUE).write_text("def run():\n    ''")
            async with asyncio.timeout(PATIENCE):
                while len(warnings()) < 2:
                    await asyncio.sleep(0.05)
            (toolbox / ISSUE).write_text("def run():\n  ''\n  return (")
            async with asyncio.timeout(PATIENCE):
                while len(warnings()) < 3:
                    await asyncio.sleep(0.05)

    asyncio.run(main())
    places = [it.split("repaired: ")[1] for it in warnings()]
    assert places[0].startswith(f"{toolbox.as_posix()}/mcptools/pdf/broken.py:1: '(' was never")
    assert places[1].startswith(f"{toolbox.as_posix()}/{ISSUE}: No docstring")
    assert places[2].startswith(f"{toolbox.as_posix()}/{ISSUE}:3: '(' was never closed")
