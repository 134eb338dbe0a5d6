"""The types that users of pytools-hybrid see. Our two type checkers read this; it is never run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, assert_type

import toolindex
from anthropic.types import ToolParam, ToolResultBlockParam, ToolUseBlock
from openai.types.responses import FunctionToolParam, ResponseToolSearchCall
from pydantic_ai import FunctionToolset
from pytools_hybrid import (
    BlockingToolSearch,
    CategoryCount,
    DetailLevel,
    Embedder,
    Follower,
    FoundFunction,
    FoundTool,
    IndexState,
    PytoolsError,
    RankExplanation,
    Recording,
    RerankReport,
    RootsLike,
    Scope,
    SearchMode,
    SearchResponse,
    Settings,
    ToolArgumentsError,
    ToolCorpus,
    ToolDefinition,
    ToolDescription,
    ToolFilter,
    ToolFunction,
    ToolSearch,
    UnknownToolError,
    load_tool,
    result_text,
)
from pytools_hybrid.agents.adapters import claude, fastmcp, openai, pydantic_ai
from toolembed import EmbeddingLimits
from toolindex import ToolEntry
from toolrank import Contribution


class Remote:
    """A user's own embedder."""

    model_id = "remote:v1"
    dimensions = 2
    limits = EmbeddingLimits()

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return [await self.embed_query(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        return [float(len(text)), 1.0]


async def a_search_is_a_sequence_of_tools(root: Path) -> None:
    async with ToolSearch(root) as tools:
        assert_type(tools, ToolSearch)
        response = await tools.search("open an issue on github")
        assert_type(response, SearchResponse)
        assert_type(response[0], FoundTool)
        assert_type(response[:2], tuple[FoundTool, ...])
        for hit in response:
            assert_type(hit.id, str)
            assert_type(hit.score, float)
            assert_type(hit.path, Path)
            assert_type(hit.entry, ToolEntry)
            assert_type(hit.contributions, tuple[Contribution, ...])
        await tools.search(
            "merge files",
            mode=SearchMode.BM25,
            scope=Scope.ALL,
            where=ToolFilter(tags=["pdf"]),
            limit=3,
            threshold=0.2,
        )


async def a_search_refuses_what_it_would_not_understand(tools: ToolSearch) -> None:
    await tools.search(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await tools.search(
        "merge",
        mode="bm25",  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    )
    await tools.search(
        "merge",
        where="pdf",  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    )
    unawaited = tools.search("merge")
    list(unawaited)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]


async def more_is_known_of_a_tool(tools: ToolSearch) -> None:
    described = await tools.describe("mcptools:github:create_issue", DetailLevel.FULL)
    assert_type(described, ToolDescription)
    assert_type(described.input_schema, dict[str, Any] | None)
    assert_type(await tools.categories(), tuple[CategoryCount, ...])
    assert_type(await tools.find("create_issue"), ToolEntry)
    assert_type(await tools.index.coverage(), toolindex.Coverage)
    assert_type(await tools.index.refused(), dict[str, str])
    assert_type((await tools.index.update(progress=print)).embedded, int)


async def what_became_of_a_search_is_told(tools: ToolSearch, hit: FoundTool) -> None:
    placed = await tools.explain_rank("open an issue", hit.id)
    assert_type(placed, RankExplanation)
    assert_type(await tools.record_outcome(hit.id, success=True), Recording)
    assert_type(await tools.index.state(), IndexState)
    assert_type((await tools.search("open an issue", rerank=True)).rerank, RerankReport | None)


async def a_search_takes_roots_settings_and_an_embedder(root: Path) -> None:
    several: RootsLike = [root, "shared"]
    own: Embedder = Remote()
    ToolSearch(several, Settings.from_flags({}), embedder=own, refresh=False)
    ToolCorpus(embedder=Remote())
    ToolSearch(embedder="none")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    async with ToolSearch() as tools:
        await Follower(tools.index).run()


def the_same_without_async(root: Path) -> None:
    with BlockingToolSearch(root) as tools:
        response = tools.search("open an issue", limit=2)
        assert_type(response, SearchResponse)
        assert_type(tools.describe(response[0].id), ToolDescription)
        assert_type(tools.index.coverage(), toolindex.Coverage)


async def what_was_found_can_be_called(hit: FoundTool) -> None:
    function = load_tool(hit)
    assert_type(function, ToolFunction)
    assert_type(function.input_schema, dict[str, Any])
    try:
        result = await function.call({"title": "It fails"})
    except ToolArgumentsError as error:
        assert_type(error.problems, tuple[Mapping[str, Any], ...])
    else:
        assert_type(result_text(result), str)
    load_tool("mcptools:x:y")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def a_program_s_own_tools_are_ranked() -> None:
    held = [ToolDefinition(name="send_mail", description="Send a mail.")]
    with ToolCorpus() as corpus:
        assert_type(await corpus.rank("write to Ada", held, limit=3), list[str])
        await corpus.rank(
            "write to Ada",
            ["send_mail"],  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
        )


async def a_program_s_own_functions_are_found_and_called() -> None:
    (hit,) = await ToolCorpus([len, print]).search("how many", limit=1)
    assert_type(hit, FoundFunction)
    assert_type(hit.tool, ToolFunction)
    await hit.call(obj=[])


def errors_have_one_root(error: UnknownToolError) -> None:
    assert_type(error.candidates, tuple[str, ...])
    root: PytoolsError = error
    raise root


async def agents_are_given_tools(
    hits: SearchResponse, corpus: ToolCorpus, call: ToolUseBlock, asked: ResponseToolSearchCall
) -> None:
    assert_type(pydantic_ai.toolset(hits), FunctionToolset[Any])
    functions = [load_tool(hit) for hit in hits]
    params = [claude.tool_param(function) for function in functions]
    assert_type(params, list[ToolParam])
    search = claude.ClientToolSearch(params, corpus, limit=3)
    assert_type(await search.result(call), ToolResultBlockParam)
    typed = [openai.function_tool(function) for function in functions]
    assert_type(typed, list[FunctionToolParam])
    await openai.ClientToolSearch(typed).output(asked)
    fastmcp.HybridSearchTransform(corpus=corpus)
    claude.ClientToolSearch(typed)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def a_name_that_is_not_there_is_refused() -> None:
    from pytools_hybrid import (  # type: ignore[attr-defined]
        find,  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
    )

    find()
