"""Tools that say that they are deprecated: they rank lower, and every answer says so."""

import asyncio

import pytest
from pytools_hybrid import SearchMode, ToolSearch

READ = "Read the complete contents of a file as text."
NOTICES = [
    f"{READ} DEPRECATED: Use read_text_file instead.",
    f"{READ} Fails for a folder. This tool is deprecated; use read_text_file.",
    f"{READ}\n\n    .. deprecated:: 2.1\n        Use read_text_file.",
    f"{READ}\n\n    @deprecated use read_text_file",
    f"[Deprecated] {READ}",
    f"{READ[:-1]} (deprecated, use read_text_file).",
    f"Deprecated alias for read_text_file. {READ}",
    f"{READ}\n\n    Note: `read_file` has been deprecated in favor of `read_text_file`.",
    f"{READ}\n\n    Deprecated:\n        Use read_text_file.",
    f"{READ} Note that this tool is being deprecated.",
    f"{READ[:-1]}, deprecated, use read_text_file.",
    f"{READ} Status: deprecated, will be removed.",
]
ABOUT_DEPRECATION = [
    "List the deprecated endpoints of an API.",
    "Deprecated endpoints of an API, newest first.",
    "Tell whether this endpoint is deprecated.",
    "Mark an endpoint of an API as deprecated.",
    "List endpoints.\n\n    Args:\n        text: Deprecated, use the API instead.",
    "List endpoints of an API: active, deprecated, or removed.",
    "List endpoints by label (deprecated, stable, new) of an API.",
    "List endpoints of an API with these fields: id, name, deprecated.",
    "List endpoints. Their state is one of ACTIVE, DEPRECATED, RETIRED.",
    "List endpoints by state.\n\n    - active\n    - deprecated\n    - removed",
    "List endpoints of an API. This tool is not deprecated.",
    "List endpoints of an API. It is no longer deprecated.",
]


@pytest.fixture
def ask(settings, toolbox):
    def search(query, **values):
        async def main():
            async with ToolSearch(toolbox, settings(), refresh=False) as tools:
                await tools.index.update()
                return await tools.search(query, **values)

        return asyncio.run(main())

    return search


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("text", NOTICES)
def test_a_deprecated_tool_ranks_below_its_replacement_and_begins_with_its_notice(
    ask, write_tool, mode, text
):
    write_tool("mcptools/filesystem/read_file.py", text)
    write_tool("mcptools/filesystem/read_text_file.py", f"{READ} Any encoding can be named.")
    for query in ("read a file", "read file", "the complete contents of a file"):
        found = ask(query, mode=mode, limit=50)
        names = [tool.name for tool in found]
        assert names.index("read_text_file") < names.index("read_file"), query
        old = found[names.index("read_file")]
        for shown in (old.summary, old.description):
            assert "deprecated" in shown[:80].lower()
        assert "deprecat" not in found[names.index("read_text_file")].description.lower()
        scores = [tool.score for tool in found]
        assert scores == sorted(scores, reverse=True)


def test_a_deprecated_tool_is_first_if_the_request_has_its_name(ask, write_tool):
    write_tool("mcptools/filesystem/read_file.py", NOTICES[0])
    write_tool("mcptools/filesystem/read_text_file.py", READ)

    assert ask("use read_file on notes.txt")[0].name == "read_file"


@pytest.mark.parametrize("name", ["list_files_deprecated", "deprecated_list_files"])
def test_a_name_can_mark_a_tool_as_deprecated(ask, write_tool, name):
    write_tool(f"mcptools/files/{name}.py", "List the files of a folder and their sizes.")
    write_tool("mcptools/disk/list_entries.py", "List the files of a folder and their sizes.")
    first, second = ask("list the files of a folder and their sizes")[:2]

    assert [first.name, second.name] == ["list_entries", name]
    assert second.summary.startswith("Deprecated.")


@pytest.mark.parametrize("text", ABOUT_DEPRECATION)
def test_a_tool_for_deprecated_things_is_not_deprecated(ask, write_tool, text):
    write_tool("mcptools/api/list_deprecated_endpoints.py", text)
    found = ask("list deprecated endpoints")[0]

    assert found.name == "list_deprecated_endpoints"
    assert found.description.startswith(text[:14])
