"""The tools of the server: arguments, errors and answers."""

import asyncio
import json
from contextlib import asynccontextmanager

import anyio
import pytest
from mcp.client.client import Client
from pytools_hybrid import Settings, ToolSearch
from pytools_hybrid.index import Follower
from pytools_hybrid.serve.mcp import create_server
from toolembed._wordpieces import WordPieces

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio

ISSUE = "mcptools:github:create_issue"


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def served(tree, tmp_path, monkeypatch):
    """Connect to a server in this process, which sends the same messages as through pipes."""
    # A busy machine may need longer than servers wait for the first scan and its vectors.
    for limit in ("_FIRST_SYNC_SECONDS", "_FIRST_EMBEDDING_SECONDS"):
        monkeypatch.setattr(f"pytools_hybrid.index.follow.{limit}", PATIENCE)

    @asynccontextmanager
    async def serve(**flags):
        flags = {"root": tree, "db_path": tmp_path / "index.db", "watch": False} | flags
        settings = Settings.from_flags(flags)
        async with ToolSearch(tree, settings, refresh=False) as search:
            follower = Follower(search.index)
            working = asyncio.create_task(follower.run())
            try:
                await follower.wait_until_ready()
                server = create_server(search, follower, settings=settings, root=tree)
                async with Client(server) as client:
                    yield client
            finally:
                working.cancel()
                await asyncio.wait([working])

    return serve


def names(result):
    return [tool["id"] for tool in result.structured_content["result"]]


async def test_every_tool_has_annotations_and_minimal_schemas(served, tree):
    async with served(tools="all") as client:
        tools = (await client.list_tools()).tools

        for tool in tools:
            assert tool.meta == {"anthropic/alwaysLoad": True}
            notes = tool.annotations
            assert tool.title == notes.title
            reports = tool.name == "report_outcome"
            assert (notes.read_only_hint, notes.idempotent_hint) == (not reports, not reports)
            assert (notes.destructive_hint, notes.open_world_hint) == (False, False)
            assert tool.input_schema["additionalProperties"] is False
            assert tool.output_schema["type"] == "object"
            schemas = json.dumps([tool.input_schema, tool.output_schema])
            for ballast in ('"title"', '"$ref"', '"$defs"', '"null"'):
                assert ballast not in schemas, tool.name


async def test_the_arguments_of_search_tools_have_their_ranges_and_defaults(served, tree):
    async with served() as client:
        (tool, *_) = (await client.list_tools()).tools

        properties = tool.input_schema["properties"]
        assert list(properties) == [
            "query", "mode", "scope", "limit", "categories", "tags", "max_latency_ms",
            "min_success_rate", "unknown", "threshold", "detail",
        ]  # fmt: skip
        assert tool.input_schema["required"] == ["query"]
        assert properties["mode"]["enum"] == ["hybrid", "bm25", "vector", "fuzzy"]
        assert properties["scope"]["enum"] == ["all", "gentools", "mcptools"]
        assert properties["detail"]["enum"] == ["full", "summary"]
        assert {name: it["default"] for name, it in properties.items() if "default" in it} == {
            "mode": "hybrid", "scope": "all", "limit": 5, "unknown": "include", "detail": "full",
        }  # fmt: skip
        assert (properties["limit"]["minimum"], properties["limit"]["maximum"]) == (1, 50)
        assert (properties["threshold"]["minimum"], properties["threshold"]["maximum"]) == (0, 1)
        assert list(tool.output_schema["properties"]) == ["result"]
        result = tool.output_schema["properties"]["result"]
        assert list(result["items"]["properties"]) == [
            "name", "category", "source", "description", "score", "confidence", "match_type",
            "path", "id", "signature", "also", "note",
        ]  # fmt: skip


async def test_the_description_lists_categories_largest_first(served, tree, write_tools):
    write_tools(tree, "penguins", 90, "Feed the penguins.")
    for number in range(200):
        write_tools(tree, f"one_of_many_categories_{number}", 1, "Do one thing.")
    async with served() as client:
        (tool, *_) = (await client.list_tools()).tools

        assert "categories: penguins, " in tool.description
        assert tool.description.endswith(", …")
        assert len(tool.description) < 300


async def test_a_search_of_descriptions_for_a_topic_finds_search_tools_and_call_tool(served):
    """Codex searches them by words, and offers a model only what it finds."""
    async with served(tools="call") as client:
        tools = {tool.name: tool.description for tool in (await client.list_tools()).tools}

        listed = tools["search_tools"].partition(" categories: ")[2]
        assert listed.startswith("github, filesystem, calendar, mail, ")
        assert tools["call_tool"].endswith(f" Categories: {listed}")


async def test_meta_describes_the_search(served):
    async with served() as client:
        result = await client.call_tool("search_tools", {"query": "open an issue on github"})

        meta = {
            name.removeprefix("pytools/"): value
            for name, value in result.meta.items()
            if name.startswith("pytools/")
        }
        assert set(meta) == {
            "search_id", "generation", "coverage", "channels", "model", "lost", "notes",
            "duplicates", "cut",
        }  # fmt: skip
        assert meta["coverage"]["vectors"] == meta["coverage"]["tools"] > 100
        assert meta["channels"] == ["bm25", "vector"]
        assert meta["model"].startswith("static:")
        assert meta["lost"] == meta["notes"] == []


async def test_each_result_has_a_confidence_and_a_match_type(served):
    async with served() as client:
        result = await client.call_tool("search_tools", {"query": "open an issue on github"})

        (first, *others) = result.structured_content["result"]
        assert 0.5 < first["score"] == first["confidence"] <= 1
        assert first["match_type"] == "both"
        assert all(0 <= it["score"] <= first["score"] for it in others)


async def test_filters_exclude_slow_and_failing_tools_and_optionally_unknown_ones(served):
    async with served() as client:

        async def search(**arguments):
            query = {"query": "open an issue on github"}
            return await client.call_tool("search_tools", query | arguments)

        for _ in range(5):
            report = {"tool_id": ISSUE, "success": True, "latency_ms": 900}
            assert not (await client.call_tool("report_outcome", report)).is_error
        good, fast = await search(min_success_rate=0.5), await search(max_latency_ms=100)
        known = await search(min_success_rate=0.5, unknown="exclude")

        assert names(good)[0] == ISSUE
        assert "\nNote: 4 of 5 results have too few recorded calls" in good.content[0].text
        assert ISSUE not in names(fast)
        assert names(known) == [ISSUE]


async def test_a_note_reports_that_no_result_fits_well(served):
    async with served() as client:
        result = None
        while result is None or result.meta["pytools/lost"]:
            await anyio.sleep(0.01)
            result = await client.call_tool("search_tools", {"query": "qwzxplorf the walrus"})

        said = "Low confidence: these are only the closest matches."
        assert result.meta["pytools/notes"] == [said]
        assert list(result.structured_content) == ["result"]
        first, *others = result.structured_content["result"]
        assert first["note"] == said
        assert others
        assert not any("note" in it for it in others)
        assert all(it["score"] < 0.5 for it in (first, *others))
        (block,) = result.content
        *hits, note = block.text.splitlines()
        assert [json.loads(hit)["id"] for hit in hits] == names(result)
        assert note == f"Note: {said}"


@pytest.mark.parametrize("profile", ["search", "call"])
async def test_an_answer_is_one_block_with_a_line_of_json_for_each_result(served, profile):
    async with served(tools=profile) as client:
        result = await client.call_tool("search_tools", {"query": "open an issue on github"})

        (block,) = result.content
        read = [json.loads(line) for line in block.text.splitlines()]
        assert list(result.structured_content) == ["result"]
        for short, whole in zip(read, result.structured_content["result"], strict=True):
            assert short.items() <= whole.items()
            assert set(whole) - set(short) <= {"name", "category", "source"}, "the id contains them"


async def test_a_long_description_is_truncated_after_a_sentence_in_text_and_structured_content(
    served, tree, write_tools
):
    sentence = "Feed one more penguin with a fish that it likes."
    write_tools(tree, "zoo", 1, "\n".join([sentence] * 40))
    async with served() as client:
        found = await client.call_tool("search_tools", {"query": "feed a penguin", "limit": 1})
        whole = await client.call_tool(
            "describe_tool", {"id": "mcptools:zoo:tool_0", "detail": "full"}
        )

    (result,) = found.structured_content["result"]
    cut = "\n".join([sentence] * (800 // (len(sentence) + 1)))
    assert result["description"] == f"{cut} … (describe_tool: all)"
    assert json.loads(found.content[0].text)["description"] == result["description"]
    assert found.meta["pytools/cut"] == [result["id"]]
    assert whole.content[0].text.count("one more penguin") >= 40


async def test_definitions_and_answers_take_few_tokens_of_an_agents_context(served, tree):
    pieces = WordPieces()

    def count(text):
        return len(pieces.numbers(text))

    async with served() as client:
        definitions = [
            tool.model_dump(
                include={"name", "description", "input_schema", "output_schema"}, by_alias=True
            )
            for tool in (await client.list_tools()).tools
        ]
        assert count(json.dumps(definitions, separators=(",", ":"))) < 1500

        for query in ("open an issue on github", "merge pdf files", "what will the weather be"):
            result = await client.call_tool("search_tools", {"query": query})
            assert sum(count(block.text) for block in result.content) < 1200, query


async def test_invalid_arguments_get_an_error_that_says_what_is_allowed(served, tree):
    wrong = {
        "mode is 'magic'; give one of hybrid, bm25, vector, fuzzy.": {"mode": "magic"},
        "scope is 'mine'; give one of all, gentools, mcptools.": {"scope": "mine"},
        "detail is 'all'; give one of full, summary.": {"detail": "all"},
        "limit is 0; give a whole number from 1 to 50.": {"limit": 0},
        "limit is 51; give a whole number from 1 to 50.": {"limit": 51},
        "limit is 2.5; give a whole number from 1 to 50.": {"limit": 2.5},
        "threshold is 1.5; give a number from 0 to 1.": {"threshold": 1.5},
        "tags is 3; give a list of texts.": {"tags": 3},
        "query is ['x']; give text.": {"query": ["x"]},
        "query is None; give text.": {"query": None},
        "There is no argument 'many'; there are query, mode, scope, limit, categories, tags, "
        "max_latency_ms, min_success_rate, unknown, threshold, detail.": {"many": 3},
        "mode is 'magic'; give one of hybrid, bm25, vector, fuzzy. "
        "limit is 0; give a whole number from 1 to 50.": {"mode": "magic", "limit": 0},
        "mode is 'a\\x1b[31m\\n'; give one of hybrid, bm25, vector, fuzzy.": {
            "mode": "a\x1b[31m\n"
        },
    }
    async with served() as client:
        for message, arguments in wrong.items():
            result = await client.call_tool("search_tools", {"query": "x"} | arguments)

            assert result.is_error is True, arguments
            assert [block.text for block in result.content] == [message]
        nothing = await client.call_tool("search_tools", {})
        assert nothing.content[0].text == "The argument query is missing; give text."
        unknown = await client.call_tool("find_tools", {"query": "x"})
        assert unknown.is_error is True
        assert unknown.content[0].text == (
            "Unknown tool 'find_tools'. Available: search_tools, describe_tool, report_outcome."
        )
        long = await client.call_tool("search_tools", {"query": "x", "mode": "y" * 10_000})
        assert len(long.content[0].text) < 200


async def test_an_unknown_category_gets_an_error_with_the_nearest_first(served, tree):
    async with served() as client:
        result = await client.call_tool("search_tools", {"query": "x", "categories": ["gihtub"]})

        assert result.is_error is True
        text = result.content[0].text
        assert text.startswith("there is no category 'gihtub'; there are github, git, ")
        assert text.count(",") <= 20


async def test_null_counts_as_omitted_and_strings_are_converted(served, tree):
    async with served() as client:
        for arguments in (
            {"categories": None, "mode": None, "threshold": None},
            {"categories": "github"},
            {"categories": '["github", "git"]'},
            {"limit": "5"},
        ):
            result = await client.call_tool(
                "search_tools", {"query": "open an issue on github"} | arguments
            )
            assert names(result)[0] == ISSUE, arguments


async def test_categories_tags_threshold_and_detail_narrow_an_answer(served, tree):
    async with served() as client:

        async def search(**arguments):
            query = {"query": "open an issue on github"}
            return await client.call_tool("search_tools", query | arguments)

        pdf = await search(categories=["pdf"])
        assert pdf.structured_content["result"]
        assert all(name.startswith("mcptools:pdf:") for name in names(pdf))

        sure = await search(threshold=0.5)
        assert ISSUE in names(sure)
        assert all(it["confidence"] >= 0.5 for it in sure.structured_content["result"])

        none = await search(tags=["no such tag"])
        (line,) = none.content
        assert none.structured_content == {"result": []}
        assert [line.text] == [f"Note: {note}" for note in none.meta["pytools/notes"]]
        assert "matches the query and the filters" in line.text
        assert none.is_error is False

        full, summary = await search(), await search(detail="summary")
        assert names(full) == names(summary)
        (long, *_), (short, *_) = (it.structured_content["result"] for it in (full, summary))
        assert len(short["description"]) < len(long["description"])
        assert long["description"].startswith(short["description"].rstrip("."))


async def test_describe_tool_returns_more_at_each_level(served, tree):
    async with served() as client:

        async def describe(**arguments):
            result = await client.call_tool("describe_tool", {"id": ISSUE} | arguments)
            (block,) = result.content
            assert json.loads(block.text) == result.structured_content
            return result.structured_content

        summary = await describe(detail="summary")
        schema = await describe()
        full = await describe(detail="full")

        assert set(summary) == {"id", "name", "namespace", "summary"}
        assert len(summary["summary"]) <= 120
        assert summary.items() <= schema.items()
        assert "owner" in schema["input_schema"]["properties"]
        assert set(schema) < set(full)
        assert "create_pull_request" in full["description"]
        assert full["path"] == (tree / "mcptools/github/create_issue.py").as_posix()


async def test_describe_tool_accepts_other_spellings_and_suggests_the_nearest_ids(served, tree):
    async with served() as client:
        for name in ("github__create_issue", "github.create_issue", "create_issue"):
            found = await client.call_tool("describe_tool", {"id": name, "detail": "summary"})
            assert found.structured_content["id"] == ISSUE

        unknown = await client.call_tool("describe_tool", {"id": "github:craete_issue"})
        assert unknown.is_error is True
        assert ISSUE in unknown.content[0].text
        wrong = await client.call_tool("describe_tool", {"id": ISSUE, "detail": "more"})
        assert wrong.content[0].text == "detail is 'more'; give one of summary, schema, full."


async def test_a_reported_outcome_is_in_the_usage_record(served, tree):
    async with served() as client:
        found = await client.call_tool("search_tools", {"query": "open an issue on github"})
        reported = await client.call_tool(
            "report_outcome",
            {
                "tool_id": "github.create_issue",
                "success": True,
                "latency_ms": 12.5,
                "search_id": found.meta["pytools/search_id"],
            },
        )
        described = await client.call_tool("describe_tool", {"id": ISSUE, "detail": "full"})
        unknown = await client.call_tool("report_outcome", {"tool_id": "nope", "success": True})
        missing = await client.call_tool("report_outcome", {"tool_id": ISSUE})
        negative = await client.call_tool(
            "report_outcome", {"tool_id": ISSUE, "success": False, "latency_ms": -1}
        )

        assert reported.structured_content == {"recorded": True, "state": "written"}
        assert described.structured_content["usage"]["observations"] == 1
        assert "Unknown tool 'nope'" in unknown.content[0].text
        assert missing.content[0].text == ("The argument success is missing; give true or false.")
        assert negative.content[0].text == "latency_ms is -1; give a number, 0 or more."


async def test_an_outcome_without_an_id_is_that_of_the_last_search_that_listed_the_tool(
    connect, run, tree, home
):
    index = ("--root", tree, "--db", home / "index.db")
    async with connect(*index) as client:

        async def search(query):
            found = await client.call_tool("search_tools", {"query": query})
            return found.meta["pytools/search_id"]

        async def report(tool_id, **given):
            arguments = {"tool_id": tool_id, "success": True} | given
            assert not (await client.call_tool("report_outcome", arguments)).is_error

        await report("create_issue")
        first = await search("open an issue on github")
        second = await search("create an issue on github")
        await search("merge two pdf files")
        await report("github.create_issue")
        await report("create_issue", search_id=first)

    outcomes = json.loads(run("report", *index, "--export", "outcomes", "--output", "json").stdout)
    assert [it["search_id"] for it in outcomes] == [None, second, first]


async def test_without_a_usage_record_an_outcome_is_not_recorded(served, tree):
    async with served(usage_log=False) as client:
        reported = await client.call_tool("report_outcome", {"tool_id": ISSUE, "success": True})

        assert reported.is_error is False
        assert reported.structured_content == {"recorded": False, "state": "off"}


async def test_a_tool_outside_the_policy_is_neither_found_nor_listed_nor_described(served, tree):
    async with served(tools="all", exclude="mcptools:github:*,*:pdf:*") as client:
        (search, *_) = (await client.list_tools()).tools
        found = await client.call_tool(
            "search_tools", {"query": "open an issue on github", "limit": 50}
        )
        described = await client.call_tool("describe_tool", {"id": ISSUE})
        filtered = await client.call_tool("search_tools", {"query": "x", "categories": ["pdf"]})
        categories = await client.call_tool("list_categories", {})
        listed = await client.call_tool("list_tools", {"categories": ["github", "pdf"]})

        assert "pdf" not in search.description
        assert not [it for it in names(found) if it.startswith(("mcptools:github", "mcptools:pdf"))]
        assert described.is_error is True
        assert "mcptools:github" not in described.content[0].text.partition(" Similar: ")[2]
        assert filtered.is_error is True
        assert "github" not in categories.structured_content["mcptools"]
        assert "pdf" not in categories.structured_content["mcptools"]
        assert listed.structured_content["pdf"] == {"gentools": [], "mcptools": []}
        assert listed.structured_content["github"]["mcptools"] == []


async def test_tools_of_every_layout_are_listed(served, tree):
    (tree / "text.py").write_text(
        "def slug(a):\n    'Make a slug.'\ndef trim(a):\n    'Trim a text.'\n", encoding="utf-8"
    )
    (tree / "scripts" / "text").mkdir(parents=True)
    (tree / "scripts" / "text" / "count.py").write_text("def run():\n    'Count.'\n", "utf-8")
    layouts = "mcptools,functions,scripts=scripts/{category}/{name}.py"
    async with served(tools="all", layouts=layouts) as client:
        categories = (await client.call_tool("list_categories", {})).structured_content
        listed = await client.call_tool("list_tools", {"categories": ["text"]})

        assert categories["functions"] == categories["scripts"] == ["text"]
        assert categories["gentools"] == []
        assert "github" in categories["mcptools"]
        found = listed.structured_content["text"]
        assert found["functions"] == [(tree / "text.py").as_posix()]
        assert found["scripts"] == [(tree / "scripts/text/count.py").as_posix()]


async def test_the_basic_profile_browses_categories_without_an_index(connect, tree, home):
    async with connect("--root", tree, "--tools", "basic") as client:
        tools = (await client.list_tools()).tools
        categories = await client.call_tool("list_categories", {})
        listed = await client.call_tool("list_tools", {"categories": ["pdf", "no such"]})
        one = await client.call_tool("list_tools", {"categories": "pdf"})
        wrong = await client.call_tool("list_tools", {"category": "pdf"})

        assert [tool.name for tool in tools] == ["list_categories", "list_tools"]
        assert "list_categories" in client.instructions
        assert "search_tools" not in client.instructions
        assert client.server_capabilities.tools.list_changed is False
        assert list(categories.structured_content) == ["gentools", "mcptools"]
        assert "pdf" in categories.structured_content["mcptools"]
        merge = (tree / "mcptools/pdf/merge_pdfs.py").as_posix()
        assert merge in listed.structured_content["pdf"]["mcptools"]
        assert listed.structured_content["no such"] == {"gentools": [], "mcptools": []}
        assert json.loads(listed.content[0].text) == listed.structured_content
        assert one.structured_content["pdf"] == listed.structured_content["pdf"]
        assert wrong.content[0].text == (
            "The argument categories is missing; give a list of texts. "
            "There is no argument 'category'; there are categories."
        )
    assert not list(home.rglob("*.db")), "no index is created"
