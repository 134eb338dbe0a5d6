"""With a minimum confidence, only requests that a tool answers find something."""

import asyncio

import pytest
from pytools_hybrid import MatchType, SearchMode, ToolFilter, ToolSearch
from pytools_hybrid.search import calibration_of
from toolembed import StaticEmbedder
from toolrank import RECOMMENDED_CONFIDENCE, Calibration
from toolrank._confidence import Evidence, confidence

CLEAR = {
    "merge several PDF documents into one file": "mcptools:pdf:merge_pdfs",
    "translate a text into another language": "gentools:text:translate",
    "send an email with attachments": "mcptools:mail:send_email",
    "list the channels of the chat": "mcptools:slack:list_channels",
    "convert an amount into another currency": "gentools:money:convert_currency",
    "plan a route by train": "mcptools:maps:plan_route",
}
UNANSWERABLE = [
    "how do I bake bread with yeast",
    "feed the penguins in the zoo",
    "which vaccine do I need for Kenya",
    "prove that there are infinitely many primes",
    "knit a scarf of blue wool",
    "喂企鹅",
]


DOUBT = "Low confidence: these are only the closest matches."


@pytest.fixture
def ask(settings, toolbox):
    """Search for each of some texts; return the responses."""

    def search_all(texts, model="static", **values):
        async def main():
            with_model = settings(embedding_model=model)
            async with ToolSearch(toolbox, with_model, refresh=False) as search:
                await search.index.update()
                return [await search.search(text, **values) for text in texts]

        return asyncio.run(main())

    return search_all


@pytest.fixture
def answers(ask):
    """Search for each of some texts; return the confidences by text."""

    def search_all(texts, **values):
        return {
            text: {str(tool.entry.id): tool.confidence for tool in response.tools}
            for text, response in zip(texts, ask(texts, **values), strict=True)
        }

    return search_all


@pytest.mark.parametrize("model", ["static", "accurate"])
def test_similarity_is_calibrated_for_the_model_that_answers(ask, model):
    (response,) = ask(UNANSWERABLE[:1], model=model, mode=SearchMode.VECTOR)
    (found,) = response.tools[0].contributions
    contrast = Evidence(contrast=found.score - max(found.rivals, 0.0))

    assert response.model.startswith(f"{model}:")
    calibration = calibration_of(response.model)
    assert response.tools[0].confidence == confidence(contrast, calibration=calibration)
    assert (calibration == Calibration()) == (model == "static")


@pytest.mark.parametrize("mode", SearchMode)
def test_the_first_score_is_the_first_tools_confidence(ask, mode):
    clear, others = ask(CLEAR, mode=mode), ask(UNANSWERABLE, mode=mode)

    assert min(response[0].score for response in clear) >= RECOMMENDED_CONFIDENCE
    scores = [tool.score for response in others for tool in response]
    assert max(scores, default=0.0) < RECOMMENDED_CONFIDENCE
    for response in (*clear, *filter(None, others)):
        assert response[0].score == pytest.approx(response[0].confidence)
        scores = [tool.score for tool in response]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("narrowed", [{"limit": 2}, {"threshold": 0.3}])
def test_scores_do_not_depend_on_the_limit_or_the_threshold(ask, narrowed):
    whole, part = ask(CLEAR), ask(CLEAR, **narrowed)

    for response, fewer in zip(whole, part, strict=True):
        scores = {tool.id: tool.score for tool in response}
        assert {tool.id: tool.score for tool in fewer}.items() <= scores.items()


@pytest.mark.parametrize(
    "where",
    [{"include": ["*:maps:plan_route"]}, {"categories": ["maps", "money"]}, {"source": "gentools"}],
    ids=str,
)
@pytest.mark.parametrize("mode", SearchMode)
def test_confidence_does_not_depend_on_which_other_tools_pass_a_filter(answers, mode, where):
    everything = answers(CLEAR, mode=mode, limit=50)
    found = answers(CLEAR, mode=mode, limit=50, where=ToolFilter(**where))

    assert any(found.values())
    for text, tools in found.items():
        shared = tools.keys() & everything[text].keys()
        assert {id_: tools[id_] for id_ in shared} == pytest.approx(
            {id_: everything[text][id_] for id_ in shared}
        )


FEW = {
    "notes/word_count": ("text: str", "Count how often each word occurs.", "count the words"),
    "mail/send": ("to: str, text: str", "Send an email to somebody.", "send an email to Anna"),
}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("mode", "found_by"),
    [(SearchMode.HYBRID, MatchType.BOTH), (SearchMode.BM25, MatchType.WORDS)],
)
def test_confidence_is_meaningful_with_only_one_or_two_tools(
    settings, tmp_path, mode, found_by, count
):
    clear = {}
    for name, (parameters, docstring, request) in list(FEW.items())[:count]:
        tool = tmp_path / "gentools" / name / "api.py"
        tool.parent.mkdir(parents=True)
        tool.write_text(f'def run({parameters}):\n    """{docstring}"""\n', "utf-8")
        clear[request] = "gentools:" + name.replace("/", ":")

    async def main():
        async with ToolSearch(tmp_path, settings()) as search:
            return [
                [await search.search(text, mode=mode) for text in texts]
                for texts in (clear, UNANSWERABLE)
            ]

    answered, others = asyncio.run(main())
    for response, id_ in zip(answered, clear.values(), strict=True):
        assert response[0].id == id_
        assert response[0].confidence >= RECOMMENDED_CONFIDENCE
        assert response[0].match_type == found_by
    doubtful = [tool.confidence for response in others for tool in response]
    assert max(doubtful, default=0.0) < RECOMMENDED_CONFIDENCE


@pytest.mark.parametrize("mode", SearchMode)
def test_the_first_note_warns_if_no_tool_is_likely_to_fit(ask, mode):
    for response in filter(None, ask(UNANSWERABLE, mode=mode)):
        assert response.notes[0] == DOUBT
    for response in ask(CLEAR, mode=mode):
        assert DOUBT not in response.notes


@pytest.mark.parametrize(
    ("text", "values", "found_by"),
    [
        ("merge_pdfs", {}, MatchType.EXACT),
        ("merge PDF documents", {}, MatchType.BOTH),
        ("merge PDF documents", {"mode": SearchMode.BM25}, MatchType.WORDS),
        ("merge PDF documents", {"mode": SearchMode.VECTOR}, MatchType.MEANING),
        ("weather", {}, MatchType.BOTH),
        ("rain tomorrow", {}, MatchType.MEANING),
        ("mrge pdff documens", {"mode": SearchMode.FUZZY}, MatchType.FUZZY),
    ],
)
def test_a_result_says_how_it_was_found(ask, text, values, found_by):
    ((first, *_),) = ask([text], **values)

    assert first.match_type == found_by


@pytest.mark.parametrize("mode", SearchMode)
def test_a_request_that_a_tool_clearly_answers_finds_it(answers, mode):
    found = answers(CLEAR, mode=mode, threshold=RECOMMENDED_CONFIDENCE)

    assert {text: next(iter(tools), None) for text, tools in found.items()} == CLEAR


@pytest.mark.parametrize("mode", SearchMode)
def test_a_threshold_leaves_out_only_tools_below_it(answers, mode):
    everything = answers([*CLEAR, *UNANSWERABLE], mode=mode, limit=50)
    for threshold in (0.1, 0.3, 0.9):
        found = answers(everything, mode=mode, limit=50, threshold=threshold)

        assert found == {
            text: {id_: sure for id_, sure in tools.items() if sure >= threshold}
            for text, tools in everything.items()
        }


@pytest.mark.parametrize("mode", SearchMode)
def test_a_named_tool_has_the_highest_confidence(answers, mode):
    (found,) = answers(["merge_pdfs"], mode=mode).values()

    assert found["mcptools:pdf:merge_pdfs"] == 0.99 == max(found.values())


def test_confident_tools_are_shown_even_below_less_confident_ones(settings, toolbox):
    async def job():
        async with ToolSearch(toolbox, settings(), refresh=False) as search:
            await search.index.update()
            everything = await search.search("create an issue", limit=50)
            sure = await search.search("create an issue", limit=2, threshold=0.3)
        return everything, sure

    everything, sure = asyncio.run(job())
    fitting = [found for found in everything.tools if found.confidence >= 0.3]
    assert [found.entry.id for found in sure.tools] == [found.entry.id for found in fitting[:2]]


class SlowEmbedder(StaticEmbedder):
    """The offline model, unable to embed tools during a search."""

    is_instant = False


def test_a_tool_without_a_vector_does_not_change_the_confidence_of_later_ones(settings, toolbox):
    async def confidences(search):
        found = await search.search("merge several PDF documents into one file", limit=5)
        return {tool.id: tool.confidence for tool in found}

    async def job():
        async with ToolSearch(
            toolbox, settings(), embedder=SlowEmbedder(), refresh=False
        ) as search:
            await search.index.update()
            before = await confidences(search)
            twin = toolbox / "mcptools/pdf/merge_several_documents.py"
            twin.write_text(
                'def run() -> None:\n    """Merge several PDF documents into one file."""\n'
            )
            await search.index.update(vectors=False)
            return before, await confidences(search)

    before, after = asyncio.run(job())

    assert next(iter(after)) == "mcptools:pdf:merge_several_documents"
    later = before.keys() & after.keys()
    assert later
    for id_ in later:
        assert after[id_] == pytest.approx(before[id_], abs=0.05)


def test_an_answer_is_doubted_only_if_none_of_its_tools_is_likely(ask):
    texts = [*CLEAR, *UNANSWERABLE, "show what changed between version 3 and 5 of a wiki page"]
    lesser_first = 0
    for response in ask(texts, limit=10):
        confidences = [found.confidence for found in response]
        is_likely = max(confidences) >= RECOMMENDED_CONFIDENCE
        lesser_first += confidences[0] < RECOMMENDED_CONFIDENCE <= max(confidences)
        assert (DOUBT in response.notes) != is_likely
    assert lesser_first


def test_results_with_the_requested_confidence_are_not_doubted(ask):
    (response,) = ask(["feed the penguins in the zoo"], threshold=0.01)

    assert response.tools
    assert DOUBT not in response.notes
