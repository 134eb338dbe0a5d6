"""The Python API: a search is opened in one line, and works the same with and without async."""

import asyncio
import cmath
import inspect
import math
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Annotated

import pydantic_ai
import pytest
from pydantic import Field
from pydantic_ai.models.function import FunctionModel
from pytools_hybrid import (
    BlockingIndex,
    BlockingToolSearch,
    Index,
    SearchResponse,
    SettingsError,
    ToolArgumentsError,
    ToolCorpus,
    ToolDefinition,
    ToolLoadError,
    ToolSearch,
    load_tool,
    result_text,
)
from pytools_hybrid.search import Reranking
from toolembed import StaticEmbedder
from toolindex import ForeignDatabaseError
from toolscan import input_schema, scan

from .conftest import PATIENCE


@pytest.fixture
def from_environment(monkeypatch, tmp_path):
    """Set the index's path in the environment, for a program that passes no settings."""
    monkeypatch.setenv("PYTOOLS_DB_PATH", str(tmp_path / "index.db"))


@pytest.fixture
def trees(monkeypatch, tmp_path):
    """Write a tree of modules that the test can import, regardless of earlier imports."""
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(modules, folder="tree"):
        for path, source in modules.items():
            file = tmp_path / folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(source), encoding="utf-8")
        return tmp_path / folder

    yield write
    for name in [it for it in sys.modules if it.partition(".")[0] in {"mcptools", "gentools"}]:
        del sys.modules[name]


# Opening


def test_a_search_takes_three_lines(root, from_environment):
    async def three_lines():
        async with ToolSearch(root) as tools:
            hits = await tools.search("combine papers")
        return [(hit.id, hit.name, hit.category, hit.source, hit.summary, hit.path) for hit in hits]

    assert asyncio.run(three_lines())[0] == (
        "mcptools:pdf:merge_pdfs",
        "merge_pdfs",
        "pdf",
        "mcptools",
        "Join several PDF documents into one file.",
        root / "mcptools/pdf/merge_pdfs.py",
    )


def test_without_a_root_the_one_in_the_settings_is_searched(root, from_environment, monkeypatch):
    monkeypatch.setenv("PYTOOLS_DIR", str(root))

    with BlockingToolSearch() as tools:
        assert tools.search("report a bug")[0].name == "create_issue"


def test_without_any_root_the_error_names_the_flag_and_the_variable():
    with pytest.raises(SettingsError, match=r"^--root / PYTOOLS_DIR: give the folder"):
        ToolSearch()


@pytest.mark.parametrize(("values", "refresh"), [({"sync": False}, True), ({}, False)])
def test_opening_reads_no_tools_without_refresh_or_sync(root, settings, values, refresh):
    async def job():
        async with ToolSearch(root, settings(**values), refresh=refresh) as tools:
            return await tools.index.coverage()

    assert asyncio.run(job()).tools == 0


def test_a_root_that_cannot_be_listed_is_reported_with_the_answer(
    root, settings, monkeypatch, caplog
):
    chosen, listed = settings(embedding_model="none"), os.scandir

    def scandir(path):
        if Path(os.fspath(path)) == root:
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return listed(path)

    async def job():
        async with ToolSearch(root, chosen) as tools:
            await tools.search("report a bug")
        monkeypatch.setattr(os, "scandir", scandir)
        async with ToolSearch(root, chosen) as tools:
            return await tools.search("report a bug")

    response = asyncio.run(job())

    assert response[0].name == "create_issue"
    assert "the index may be out of date" in response.notes[0]
    assert "Permission denied" in caplog.text


def test_a_search_can_be_opened_although_its_model_fails(root, settings, caplog):
    async def job():
        async with ToolSearch(root, settings(embedding_model="openai:none")) as tools:
            return await tools.search("report a bug")

    response = asyncio.run(job())

    assert response[0].name == "create_issue"
    assert "openai" in response.notes[0]
    assert "vectors are missing for now" in caplog.text


def test_a_search_that_follows_the_files_finds_tools_written_later(root, settings, write_tool):
    async def job():
        async with ToolSearch(root, settings(embedding_model="none"), follow=True) as tools:
            before = await tools.search("water the plants")
            write_tool("mcptools/garden/water.py", "Water the plants of the garden.")
            async with asyncio.timeout(PATIENCE):
                while True:
                    after = await tools.search("water the plants")
                    if after and after[0].name == "water":
                        return before, after
                    await asyncio.sleep(0.05)

    before, after = asyncio.run(job())

    assert "water" not in [hit.name for hit in before]
    assert after[0].id == "mcptools:garden:water"


def test_a_search_can_be_entered_again_after_it_was_closed(root, settings):
    async def job():
        tools = ToolSearch(root, settings(embedding_model="none"))
        names = []
        for _ in range(2):
            async with tools:
                names.append((await tools.search("report a bug"))[0].name)
        return names

    assert asyncio.run(job()) == ["create_issue", "create_issue"]


def test_only_one_of_two_concurrent_tasks_can_enter_a_search(root, settings):
    async def job():
        tools = ToolSearch(root, settings(embedding_model="none"))
        entered = await asyncio.gather(
            tools.__aenter__(), tools.__aenter__(), return_exceptions=True
        )
        await tools.__aexit__(None, None, None)
        return entered

    first, second = asyncio.run(job())

    assert isinstance(first, ToolSearch)
    assert isinstance(second, RuntimeError)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(
    "use",
    [
        lambda tools: tools.search("x"),
        lambda tools: tools.find("x"),
        lambda tools: tools.index.update(),
        lambda tools: tools.index.statistics(),
    ],
)
def test_methods_that_need_an_open_index_say_so(root, settings, moment, use):
    async def job():
        tools = ToolSearch(root, settings(embedding_model="none"))
        if moment == "after":
            async with tools:
                pass
        with pytest.raises(RuntimeError, match="use it inside `async with ToolSearch"):
            await use(tools)
        with pytest.raises(RuntimeError, match="use it inside"):
            _ = tools.index.sync

    asyncio.run(job())


def test_a_search_can_be_entered_after_a_cancelled_attempt(root, settings, monkeypatch):
    async def job():
        tools = ToolSearch(root, settings(embedding_model="none"))
        task = asyncio.create_task(tools.__aenter__())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with tools:
            return await tools.search("report a bug")

    assert asyncio.run(job())


# Answers


def test_a_response_is_a_sequence_of_its_tools(root, settings):
    with BlockingToolSearch(root, settings(embedding_model="none")) as tools:
        response = tools.search("documents", limit=3)
        empty = tools.search("")

    assert isinstance(response, SearchResponse)
    assert list(response) == list(response.tools)
    assert response[0] is response.tools[0]
    assert response[:2] == response.tools[:2]
    assert len(response) == len(response.tools)
    assert response.tools[0] in response
    assert response
    assert not empty
    assert empty.notes


def test_a_hit_says_which_of_several_roots_it_comes_from(root, settings, trees):
    other = trees(
        {"mcptools/garden/water.py": 'def run():\n    """Water the plants."""\n'}, "other"
    )
    with BlockingToolSearch([root, other], settings(embedding_model="none")) as tools:
        plants, bug = tools.search("water the plants")[0], tools.search("report a bug")[0]

    assert (plants.root, plants.path) == (other, other / "mcptools/garden/water.py")
    assert bug.path == root / "mcptools/github/create_issue.py"


def test_a_key_in_an_error_of_a_reranking_model_is_hidden(toolbox, settings, monkeypatch):
    def fail(_messages, _info):
        raise RuntimeError("bad key sk-12345678")

    monkeypatch.setenv("SOME_API_KEY", "sk-12345678")
    monkeypatch.setattr(
        "pytools_hybrid.search.rerank.Reranking",
        lambda _name, **_: Reranking(FunctionModel(fail), timeout_s=PATIENCE),
    )
    chosen = settings(embedding_model="none", rerank_model="test")
    with BlockingToolSearch(toolbox, chosen) as tools:
        response = tools.search("do something with a text or a message", limit=5)

    assert "bad key [SOME_API_KEY]" in response.notes[-1]
    assert "bad key [SOME_API_KEY]" in response.rerank.reason


# Without async


def public(cls):
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
    }


def test_both_searches_have_the_same_methods():
    blocking = public(BlockingToolSearch)

    assert blocking.pop("open").return_annotation == "Self"
    assert blocking.pop("close").return_annotation == "None"
    del blocking["call"]
    assert blocking == public(ToolSearch)
    assert inspect.signature(BlockingToolSearch) == inspect.signature(ToolSearch)


def test_both_indexes_have_the_same_methods():
    blocking = public(BlockingIndex)

    del blocking["call"]
    wanted = public(Index)
    for takes_a_function in ("read", "read_usage"):
        del wanted[takes_a_function]
    assert blocking == wanted


def test_a_blocking_search_works_in_a_running_loop_as_in_a_notebook(root, settings):
    async def cell():
        with BlockingToolSearch(root, settings(embedding_model="none")) as tools:
            return tools.search("report a bug")[0].name

    assert asyncio.run(cell()) == "create_issue"


def test_many_threads_can_search_at_once(root, settings):
    found = []
    with BlockingToolSearch(root, settings()) as tools:

        def ask():
            found.append(tools.search("report a bug")[0].name)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)

    assert found == ["create_issue"] * 8


def test_closing_ends_the_thread_and_the_search_can_be_opened_again(root, settings):
    before = set(threading.enumerate())
    tools = BlockingToolSearch(root, settings(embedding_model="none"))
    for _ in range(2):
        assert tools.open().search("report a bug")
        with pytest.raises(RuntimeError, match="already open"):
            tools.open()
        tools.close()
        tools.close()

    # Threads of earlier tests may have ended in the meantime.
    assert set(threading.enumerate()) <= before
    with pytest.raises(RuntimeError, match="is not open"):
        tools.search("report a bug")


def test_an_index_that_cannot_be_opened_leaves_no_thread(root, settings, tmp_path):
    before = set(threading.enumerate())
    (tmp_path / "index.db").write_text("something else" * 1000)

    with pytest.raises(ForeignDatabaseError):
        BlockingToolSearch(root, settings()).open()

    # Threads of earlier tests may have ended in the meantime.
    assert set(threading.enumerate()) <= before


def test_a_search_that_is_never_closed_warns(root, settings):
    before = set(threading.enumerate())
    tools = BlockingToolSearch(root, settings(embedding_model="none")).open()

    with pytest.warns(ResourceWarning, match="was never closed"):
        del tools
    # It is closed in the background, which must not disturb the next test.
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)


LEAVING = """
import sys, threading
from pytools_hybrid import BlockingToolSearch
def count_for_ever():
    counted.set()
    try:
        while tools.index.coverage().tools:
            pass
    except BaseException:
        pass
tools = BlockingToolSearch(sys.argv[1], follow=sys.argv[2] == "follows").open()
print(tools.search("report a bug")[0].name)
if sys.argv[2] == "forgets":
    del tools
if sys.argv[2] == "works":
    for _ in range(4):
        counted = threading.Event()
        threading.Thread(target=count_for_ever, daemon=True).start()
        counted.wait()
"""


@pytest.mark.parametrize("how", ["ends", "forgets", "follows", "works"])
def test_a_program_that_does_not_close_its_search_ends_and_loses_no_record(
    root, from_environment, settings, how
):
    done = subprocess.run(
        [sys.executable, "-c", LEAVING, str(root), how],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )

    assert done.stdout == "create_issue\n"
    assert done.stderr == ""
    with BlockingToolSearch(root, settings()) as tools:
        assert tools.index.statistics().searches == 1


FORKING = """
import os, sys
from pytools_hybrid import BlockingToolSearch
with BlockingToolSearch(sys.argv[1]) as tools:
    if not (child := os.fork()):
        try:
            tools.search("report a bug")
        except RuntimeError as error:
            print(error)
        sys.exit()
    os.waitpid(child, 0)
    print(tools.search("report a bug")[0].name)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_gets_an_error_and_can_still_exit(root, from_environment):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, str(root)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )

    told, found = done.stdout.splitlines()
    assert "this BlockingToolSearch is not open" in told
    assert found == "create_issue"


# Calling a found tool


def hit(root, settings, query):
    with BlockingToolSearch(root, settings(embedding_model="none")) as tools:
        return tools.search(query, limit=1)[0]


def call(function, **arguments):
    return asyncio.run(function.call(arguments))


GENERATED = '''
    from __future__ import annotations

    from enum import Enum
    from pydantic import BaseModel, ConfigDict

    from . import CLIENT

    class Kind(Enum):
        fast = "fast"
        slow = "slow"

    class Params(BaseModel):
        model_config = ConfigDict(extra="forbid", use_enum_values=True)
        text: str
        """What to print"""
        kind: Kind = Kind.fast
        copies: int | None = None

    def run(params: Params) -> str:
        """Print a text on the printer."""
        return CLIENT.run_sync("print", params.model_dump(exclude_none=True))
'''
CLIENT = """
    class Client:
        def run_sync(self, tool_name, tool_args):
            return f"{tool_name} {tool_args}"

    CLIENT = Client()
"""


def test_a_generated_module_is_called_with_its_params(trees, settings):
    root = trees(
        {"mcptools/office/print_text.py": GENERATED, "mcptools/office/__init__.py": CLIENT}
    )

    function = load_tool(hit(root, settings, "print"))

    assert function.id == "mcptools:office:print_text"
    assert function.name == "office__print_text"
    assert function.description == "Print a text on the printer."
    assert function.input_schema["properties"]["text"]["description"] == "What to print"
    assert call(function, text="x", kind="slow") == "print {'text': 'x', 'kind': 'slow'}"
    with pytest.raises(ToolArgumentsError, match=r"copies: .*; colour: Extra inputs"):
        call(function, text="x", copies="many", colour="red")


def test_a_handwritten_tool_is_called_with_its_arguments(trees, settings):
    root = trees(
        {
            "gentools/office/copy_text/api.py": '''
                from datetime import date
                from gentools.office.shared import times

                async def run_parsed(
                    text: str, /, json: int = 2, *, day: date | None = None
                ) -> dict[str, object]:
                    """Copy a text."""
                    return {"text": times(text, json), "day": day}
            ''',
            "gentools/office/shared.py": "def times(text, count):\n    return text * count\n",
        }
    )

    function = load_tool(hit(root, settings, "copy a text"))
    result = call(function, text="ab", day="2026-11-22")

    assert result["text"] == "abab"
    assert result_text(result) == '{"text":"abab","day":"2026-11-22"}'
    assert result_text("as it is") == "as it is"
    with pytest.raises(ToolArgumentsError, match=r"text: Missing .*; copies: Unexpected"):
        call(function, copies=1)


def test_an_exception_in_a_tool_reaches_the_caller(trees, settings):
    root = trees(
        {
            "mcptools/office/burn.py": '''
                def run(number: int) -> int:
                    """Burn a letter."""
                    return int("x" * number)
            '''
        }
    )

    with pytest.raises(ValueError, match="invalid literal"):
        call(load_tool(hit(root, settings, "burn")), number=1)


def test_a_tool_that_cannot_be_imported_is_an_error_with_the_reason(trees, settings):
    source = '''
        import no_such_library

        def run() -> None:
            """Shred a letter."""
    '''
    found = hit(trees({"mcptools/office/shred.py": source}), settings, "shred")

    with pytest.raises(ToolLoadError, match="No module named 'no_such_library'") as raised:
        load_tool(found)

    assert raised.value.tool_id == "mcptools:office:shred"


def test_a_tool_cannot_end_the_program(trees, settings):
    source = """
        import sys
        {}

        {}def run() -> None:
            '''Burn a letter.'''
            sys.exit(7)
    """
    root = trees(
        {
            "mcptools/office/at_import.py": source.format("sys.exit(7)", ""),
            "mcptools/office/at_once.py": source.format("", ""),
            "mcptools/office/later.py": source.format("", "async "),
        }
    )

    with pytest.raises(ToolLoadError, match="cannot be imported: SystemExit: 7"):
        load_tool(hit(root, settings, "at import"))
    for query in ("at once", "later"):
        with pytest.raises(RuntimeError, match="tried to exit the program"):
            call(load_tool(hit(root, settings, query)))


def test_a_tool_that_raises_stopiteration_does_not_hang(trees, settings):
    root = trees(
        {
            "mcptools/office/draw.py": '''
                def run() -> str:
                    """Draw a letter from the drawer."""
                    return next(iter(()))
            '''
        }
    )

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        call(load_tool(hit(root, settings, "draw")))


def test_a_decorator_may_hide_that_a_tool_is_async(trees, settings):
    root = trees(
        {
            "mcptools/office/sign.py": '''
                import functools

                def logged(function):
                    @functools.wraps(function)
                    def call(**arguments):
                        return function(**arguments)
                    return call

                @logged
                async def run() -> str:
                    """Sign a letter."""
                    return "signed"
            '''
        }
    )

    assert call(load_tool(hit(root, settings, "sign"))) == "signed"


def test_a_tool_whose_file_has_changed_since_its_import_is_an_error(trees, settings):
    source = 'def run({}) -> None:\n    """Weigh a letter."""\n'
    root = trees({"mcptools/office/weigh.py": source.format("")})
    found = hit(root, settings, "weigh")
    load_tool(found)
    load_tool(found)
    found.path.write_text(source.format("unit: str"))

    with pytest.raises(
        ToolLoadError, match="has changed since it was imported: restart the program"
    ):
        load_tool(found)


def test_a_tool_whose_file_is_missing_is_an_error(trees, settings):
    root = trees({"mcptools/office/file.py": 'def run() -> None:\n    """File a letter."""\n'})
    found = hit(root, settings, "file a letter")
    found.path.unlink()

    with pytest.raises(ToolLoadError, match="its file cannot be read"):
        load_tool(found)


def test_a_module_of_the_same_name_in_another_tree_is_not_called(trees, settings, tmp_path):
    source = 'def run() -> str:\n    """Stamp a letter."""\n    return "{}"\n'
    init = {"mcptools/office/__init__.py": ""}
    one = trees({"mcptools/office/stamp.py": source.format("one"), **init}, "one")
    two = trees({"mcptools/office/stamp.py": source.format("two"), **init}, "two")
    first = hit(one, settings, "stamp")
    second = hit(two, lambda **values: settings(db_path=tmp_path / "two.db", **values), "stamp")

    assert call(load_tool(first)) == "one"
    with pytest.raises(ToolLoadError, match="imported from another folder"):
        load_tool(second)


def test_a_package_of_another_tree_that_hides_a_module_is_reported(trees, settings, tmp_path):
    source = 'def run() -> None:\n    """{} a letter."""\n'
    init = {"mcptools/office/__init__.py": ""}
    one = trees({"mcptools/office/stamp.py": source.format("Stamp"), **init}, "one")
    two = trees({"mcptools/office/glue.py": source.format("Glue"), **init}, "two")
    load_tool(hit(one, settings, "stamp"))
    found = hit(two, lambda **values: settings(db_path=tmp_path / "two.db", **values), "glue")

    with pytest.raises(ToolLoadError, match=r"the package mcptools\.office was imported from"):
        load_tool(found)


# Tools that a program defines


def held(root):
    return [
        ToolDefinition(
            name=f"{record.id.category}__{record.id.name}",
            description=record.description,
            input_schema=input_schema(record),
        )
        for record in scan(root).records
    ]


@pytest.mark.parametrize(
    "query",
    ["combine papers", "report a bug", "will it rain", "tell the team", "shrink an image"],
)
def test_a_corpus_ranks_like_a_tree_of_the_same_tools(toolbox, settings, query):
    with BlockingToolSearch(toolbox, settings()) as tools:
        expected = [f"{hit.category}__{hit.name}" for hit in tools.search(query, limit=3)]
    with ToolCorpus(settings=settings()) as corpus:
        assert asyncio.run(corpus.rank(query, held(toolbox), limit=3)) == expected


def test_only_new_tools_are_embedded(toolbox, settings):
    embedded = []

    class Counted(StaticEmbedder):
        async def embed_documents(self, texts):
            embedded.extend(texts)
            return await super().embed_documents(texts)

    tools = held(toolbox)

    async def job():
        with ToolCorpus(settings=settings(), embedder=Counted()) as corpus:
            return [
                await corpus.rank("report a bug", held, limit=1)
                for held in (tools, tools[:5], tools, [*tools, ToolDefinition(name="bug_report")])
            ]

    names = asyncio.run(job())

    assert len(embedded) == len(tools) + 1
    assert names[0] == names[2] == ["github__create_issue"]


def test_a_tool_that_has_changed_is_found_by_its_new_words(settings):
    async def job():
        with ToolCorpus(settings=settings(embedding_model="none")) as corpus:
            for description in ("Bake bread.", "Feed the cat."):
                tool = ToolDefinition(name="work", description=description)
                other = ToolDefinition(name="rest", description="Sleep until noon.")
                yield await corpus.rank("cat", [tool, other], limit=1)

    async def collected():
        return [names async for names in job()]

    assert asyncio.run(collected())[1] == ["work"]


def test_concurrent_callers_with_different_tools_do_not_interfere(toolbox, settings):
    tools = held(toolbox)
    halves = tools[: len(tools) // 2], tools[len(tools) // 2 :]

    async def job():
        with ToolCorpus(settings=settings()) as corpus:
            return await asyncio.gather(
                *(corpus.rank("make a document", halves[i % 2], limit=20) for i in range(10))
            )

    for number, names in enumerate(asyncio.run(job())):
        assert names
        assert set(names) <= {tool.name for tool in halves[number % 2]}


def test_a_corpus_can_be_used_in_several_event_loops(settings):
    tools = [ToolDefinition(name="bake", description="Bake bread.")]
    with ToolCorpus(settings=settings()) as corpus:
        for _ in range(3):
            assert asyncio.run(corpus.rank("bread", tools)) == ["bake"]


@pytest.mark.parametrize(
    "names",
    [
        ["a:b", "a.b", "a__b", "a/b"],
        ["", "__", "\x00", ":"],
        ["x" * 500, "名前", "get-forecast", "get_forecast"],
    ],
)
def test_a_corpus_accepts_any_name(settings, names):
    tools = [ToolDefinition(name=name, description="Bake bread.\udcff") for name in names]
    with ToolCorpus(settings=settings(embedding_model="none")) as corpus:
        found = asyncio.run(corpus.rank("bake bread", tools, limit=10))

    assert found
    assert set(found) <= set(names)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"properties": []},
        {"properties": {"a": True, "b": {"type": ["x", None]}}},
        {"properties": {"a\udcff": {"type": "\udcff"}}, "required": [{}]},
    ],
)
def test_a_corpus_accepts_any_schema(settings, schema):
    tool = ToolDefinition(name="bake", description=None, input_schema=schema)
    with ToolCorpus(settings=settings(embedding_model="none")) as corpus:
        assert asyncio.run(corpus.rank("bake", [tool])) == ["bake"]


def test_an_empty_corpus_or_a_limit_of_zero_finds_nothing(settings):
    with ToolCorpus(settings=settings(embedding_model="none")) as corpus:
        assert asyncio.run(corpus.rank("bread", [])) == []
        assert asyncio.run(corpus.rank("bread", [ToolDefinition(name="bread")], limit=0)) == []


def test_a_corpus_whose_model_fails_ranks_by_words_and_says_so(settings, caplog):
    tools = [ToolDefinition(name="bake", description="Bake bread.")]
    with ToolCorpus(settings=settings(embedding_model="openai:none")) as corpus:
        assert asyncio.run(corpus.rank("bread", tools)) == ["bake"]

    assert "openai" in caplog.text


def test_a_deleted_corpus_leaves_no_files(settings, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    corpus = ToolCorpus(settings=settings(embedding_model="none"))
    asyncio.run(corpus.rank("bread", [ToolDefinition(name="bread")]))
    (folder,) = tmp_path.glob("pytools-hybrid-*")

    del corpus

    assert not folder.exists()


# A program's own functions


def merge_pdfs(paths: list[str], output: str = "merged.pdf") -> str:
    """Combine several PDF documents into one.

    Args:
        paths: The documents, in order
        output: The file to write
    """
    return f"{paths} {output} {threading.current_thread() is threading.main_thread()}"


async def rotate_pages(path: str, degrees: Annotated[int, Field(ge=0)] = 90) -> str:
    """Turn the pages of a scan."""
    return f"{path} {degrees}"


class Calendar:
    """A calendar."""

    def add_event(self, title: str, /, *guests: str, **details: int) -> tuple[object, ...]:
        """Put an appointment into the diary."""
        return title, guests, details

    async def __call__(self, town: str) -> str:
        """Predict the weather."""
        return town


class Broken:
    """Raises an error when it is inspected."""

    @property
    def __signature__(self):
        raise RuntimeError("never")

    name = __signature__

    def __call__(self, **arguments):
        return arguments


class LangChainTool:
    """Has the attributes of a LangChain tool."""

    name = "shrink"
    description = "Make an image smaller."
    args = {"width": {"type": "integer"}}  # noqa: RUF012
    tool_call_schema = {"type": "object", "properties": args}  # noqa: RUF012

    async def ainvoke(self, arguments):
        return arguments


def found_in(functions, settings, query):
    with ToolCorpus(functions, settings(embedding_model="none")) as corpus:
        return asyncio.run(corpus.search(query, limit=1))[0]


@pytest.mark.parametrize(
    ("function", "query", "arguments", "result"),
    [
        (merge_pdfs, "combine documents", {"paths": ["a"]}, "['a'] merged.pdf False"),
        (partial(merge_pdfs, output="b"), "combine", {"paths": ["a"]}, "['a'] b False"),
        (rotate_pages, "turn pages", {"path": "a"}, "a 90"),
        (
            Calendar().add_event,
            "appointment",
            {"title": "x", "guests": ["Ada"], "hour": 8},
            ("x", ("Ada",), {"hour": 8}),
        ),
        (Calendar(), "weather", {"town": "Oslo"}, "Oslo"),
        (math.sqrt, "square root", {"x": 9}, 3.0),
        (LangChainTool(), "image", {"width": 9}, {"width": 9}),
        (Broken(), "broken", {"x": 9}, {"x": 9}),
        (pydantic_ai.Tool(rotate_pages, name="turn"), "scan", {"path": "a", "degrees": 1}, "a 1"),
    ],
)
def test_any_callable_is_found_and_called(settings, function, query, arguments, result):
    hit = found_in([str.upper, lambda x: x, function], settings, query)

    assert hit.function is function
    assert 0 < hit.confidence == hit.score <= 1
    assert asyncio.run(hit.call(**arguments)) == result


def test_a_function_is_described_like_a_module_with_the_same_code(tmp_path, settings):
    source = inspect.getsource(merge_pdfs).replace("merge_pdfs", "run")
    file = tmp_path / "mcptools" / "pdf" / "merge_pdfs.py"
    file.parent.mkdir(parents=True)
    file.write_text(source, encoding="utf-8")
    (record,) = scan(tmp_path).records

    tool = found_in([merge_pdfs], settings, "combine").tool

    assert tool.description == record.description
    assert tool.input_schema == {**input_schema(record), "type": "object"}


def test_invalid_arguments_of_a_function_are_refused(settings):
    hit = found_in([rotate_pages], settings, "turn pages")

    for wrong in ({}, {"path": 1}, {"path": "a", "degrees": -1}, {"path": "a", "to": "b"}):
        with pytest.raises(ToolArgumentsError, match="rotate_pages"):
            asyncio.run(hit.call(**wrong))


def test_a_tool_that_needs_an_agent_is_found_and_its_error_says_so(settings):
    def whose(context: pydantic_ai.RunContext[str]) -> str:
        """Say whose account this is."""
        return context.deps

    hit = found_in([pydantic_ai.Tool(whose)], settings, "account")

    with pytest.raises(ToolLoadError, match="give it to an agent"):
        asyncio.run(hit.call())


def test_functions_with_the_same_name_are_distinguished_and_none_is_listed_twice(settings):
    calendar = Calendar()
    functions = [math.sqrt, cmath.sqrt, calendar.add_event, calendar.add_event, merge_pdfs]
    functions += [partial(merge_pdfs, output="b")]
    with ToolCorpus(functions, settings(embedding_model="none")) as corpus:
        hits = asyncio.run(corpus.search("square root appointment documents", limit=20))

    assert {hit.name for hit in hits} == {
        *("math__sqrt", "cmath__sqrt", "Calendar__add_event", "merge_pdfs", "merge_pdfs_2"),
    }


def test_an_object_that_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="'merge_pdfs' is not callable; pass functions"):
        ToolCorpus(["merge_pdfs"])


# The package


def test_importing_the_package_imports_nothing_heavy():
    heavy = "{'numpy', 'pydantic', 'mcp', 'anyio'} & {*sys.modules}"
    code = f"import sys, pytools_hybrid; print({heavy} or None)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )

    assert done.stdout == "None\n"


def test_a_corpus_fuses_ranks_with_the_constant_of_the_settings(settings):
    def merge_pdfs(files: list[str]) -> None:
        """Merge several PDF documents into one file."""

    def read_text(file: str) -> str:
        """Extract the text of a document."""

    def last_of_two(rrf_k):
        chosen = settings(fusion="rrf", rrf_k=rrf_k)
        with ToolCorpus([merge_pdfs, read_text], chosen) as corpus:
            first, second = asyncio.run(corpus.search("merge pdf documents"))
        return second.score / first.score

    assert last_of_two(0.0) < last_of_two(60.0) < last_of_two(1000.0)
