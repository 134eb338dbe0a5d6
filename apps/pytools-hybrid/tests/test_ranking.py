"""The order of results: subqueries, duplicates, past use, and reproducible scores."""

import asyncio

import pytest
from pytools_hybrid import Roots, SearchMode, ToolFilter, ToolSearch
from pytools_hybrid.index import open_store
from toolembed import Backoff, EmbeddingError, EmbeddingLimits, StaticEmbedder
from toolindex import OutcomeRecord

from .conftest import PATIENCE

BY_WORDS_AND_MEANING = (SearchMode.HYBRID, SearchMode.VECTOR)
SUBQUERY_SHARE, CATEGORY_WEIGHT = 0.3, 0.3
UNITS = {"bm25": 0.015, "vector": 1.0, "fuzzy": 0.015}
MERGE, SLUGIFY = "mcptools:pdf:merge_pdfs", "gentools:text:slugify"
SEND, POST = "mcptools:mail:send_email", "mcptools:slack:post_message"
ISSUE = "Open a new issue in a repository, to report a bug."


def ids(response):
    return [str(found.entry.id) for found in response.tools]


def use(settings, root, job, embedder=None):
    """Run an async function on an indexed tree."""

    async def main():
        async with ToolSearch(root, settings, embedder=embedder, refresh=False) as search:
            await search.index.update()
            return await job(search)

    return asyncio.run(main())


def ask(settings, root, *requests):
    """Search for each of some requests, given as keyword arguments."""

    async def job(search):
        return [await search.search(**request) for request in requests]

    return use(settings, root, job)


# Tools without a vector.


class UnhurriedEmbedder(StaticEmbedder):
    """Embeds no tools while a search waits for an answer, like models that cost money."""

    is_instant = False


def partly_embedded(settings, root, job, chosen):
    """Run an async function where only the tools whose text begins as chosen have vectors."""

    async def main():
        async with ToolSearch(root, settings, refresh=False) as search:
            await search.index.update(vectors=False)
        embedder = UnhurriedEmbedder()
        with open_store(Roots.of(root), settings) as store:
            texts = store.pending(embedder.model_id, limit=1_000)
            kept = {key: text for key, text in texts.items() if text.startswith(chosen)}
            vectors = await embedder.embed_documents(list(kept.values()))
            store.put_vectors(embedder.model_id, dict(zip(kept, vectors, strict=True)))
        async with ToolSearch(root, settings, embedder=embedder, refresh=False) as search:
            return await job(search)

    return asyncio.run(main())


@pytest.mark.parametrize("fusion", ["linear", "rrf"])
def test_a_tool_without_a_vector_competes_by_its_words(settings, toolbox, fusion):
    async def job(search):
        found = [await search.search(query) for query in ("report a bug", "send an email")]
        return [response.tools for response in found]

    issue, email = partly_embedded(settings(fusion=fusion), toolbox, job, ("merge", "play", "plan"))

    assert str(issue[0].entry.id) == "mcptools:github:create_issue"
    assert str(email[0].entry.id) == SEND
    assert issue[0].explanation.missing == ("vector",)
    assert {each.retriever for each in issue[0].contributions} == {"bm25"}


def test_confidence_in_a_tool_without_a_vector_comes_from_words_alone(settings, toolbox):
    async def job(search):
        modes = (SearchMode.HYBRID, SearchMode.BM25)
        return [(await search.search("report a bug", mode=mode)).tools[0] for mode in modes]

    hybrid, words = partly_embedded(settings(), toolbox, job, ("merge", "play"))

    assert hybrid.entry == words.entry
    assert hybrid.confidence == words.confidence


class WaitingEmbedder:
    """Records its requests, and answers when it is allowed to."""

    limits = EmbeddingLimits(texts_per_request=2)
    dimensions = 3
    model_id = "waiting:vectors"

    def __init__(self):
        self.asked = []
        self.began, self.may = asyncio.Event(), asyncio.Event()

    async def embed_documents(self, texts):
        self.asked.append(texts)
        self.began.set()
        await self.may.wait()
        return [[1.0, 0.0, 0.0] for _ in texts]

    async def embed_query(self, text):
        return [1.0, 0.0, 0.0]


def test_tools_relevant_to_a_search_are_embedded_first(settings, toolbox):
    async def main():
        embedder = WaitingEmbedder()
        async with ToolSearch(toolbox, settings(), embedder=embedder, refresh=False) as search:
            await search.index.update(vectors=False)
            embedding = asyncio.create_task(search.index.update(files=False))
            await embedder.began.wait()
            await search.search("send an email", limit=1)
            embedder.may.set()
            await embedding
        return embedder.asked

    before, wanted, *_ = asyncio.run(main())

    assert not any(text.startswith("send email") for text in before)
    # One tool was requested; the other is also about mail.
    assert {text.partition(" (")[0] for text in wanted} == {"send email", "search inbox"}


# Verbs.

SIMILAR = {
    "mcptools/git/git_show.py": "Show the contents of a commit.",
    "mcptools/git/git_log.py": "Show the commits of a repository.",
    "mcptools/git/git_add.py": "Add the contents of files to the next commit.",
    "mcptools/github/get_issue.py": "Get the details of an issue in a repository.",
    "mcptools/github/create_issue.py": "Create a new issue in a repository.",
    "mcptools/github/list_issues.py": "List the issues of a repository.",
    "mcptools/trace/start_trace.py": "Start a trace of the performance of a page.",
    "mcptools/trace/stop_trace.py": "Stop the trace of the performance of a page.",
    "mcptools/files/read_file.py": "Read the text of a file.",
    "mcptools/files/write_file.py": "Write a text to a file.",
}


@pytest.mark.parametrize("mode", BY_WORDS_AND_MEANING)
def test_among_similar_tools_the_one_with_the_requested_verb_is_first(
    settings, tmp_path, write_tool, mode
):
    for path, description in SIMILAR.items():
        write_tool(path, description)
    expected = {
        "show the latest commits": "mcptools:git:git_log",
        "open an issue": "mcptools:github:create_issue",
        "show an issue": "mcptools:github:get_issue",
        "end the performance trace": "mcptools:trace:stop_trace",
        "begin a performance trace": "mcptools:trace:start_trace",
        "write text to a file": "mcptools:files:write_file",
    }
    requests = [{"query": query, "mode": mode} for query in expected]

    answers = ask(settings(), tmp_path / "tools", *requests)

    found = dict(zip(expected, (ids(answer)[0] for answer in answers), strict=True))
    assert found == expected


# Parts.


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("merge the PDF documents and send an email with the result", {MERGE, SEND}),
        (
            "Plan a route to the office, then put an appointment into my calendar.",
            {"mcptools:maps:plan_route", "mcptools:calendar:create_event"},
        ),
        (
            "get the weather forecast for Oslo and post a message to the channel",
            {"mcptools:weather:get_forecast", POST},
        ),
    ],
)
def test_a_request_for_two_things_finds_tools_for_both(settings, toolbox, mode, text, needed):
    (response,) = ask(settings(), toolbox, {"query": text, "mode": mode})

    # Words tell parts apart; by meaning alone, tools like the one for the first part come between.
    assert needed <= set(ids(response)[: 5 if mode is SearchMode.VECTOR else 3])


class CountingEmbedder:
    """Counts its requests; fails for some texts, and can wait for more before it answers."""

    limits = EmbeddingLimits()
    dimensions = 3
    model_id = "counting:words"

    def __init__(self):
        self.asked = []
        self.waits_for = 0
        self.fails_for = ()

    async def embed_documents(self, texts):
        return [[1.0, len(text) % 7, len(text) % 3] for text in texts]

    async def embed_query(self, text):
        self.asked.append(text)
        async with asyncio.timeout(PATIENCE):
            while len(self.asked) < self.waits_for:
                await asyncio.sleep(0.001)
        if text in self.fails_for:
            raise EmbeddingError(self.model_id, "no route to host")
        return [1.0, len(text) % 7, 0.0]


def test_a_request_and_its_subqueries_are_embedded_together_and_once_each(settings, toolbox):
    model = CountingEmbedder()
    text = "merge the documents, then send an email and play a song"

    async def job(search):
        model.waits_for = 4
        for mode in BY_WORDS_AND_MEANING:
            assert (await search.search(text, mode=mode)).lost == ()
        assert sorted(model.asked) == sorted(
            [text, "merge the documents", "send an email", "play a song"]
        )
        model.waits_for = 0
        model.asked.clear()
        await search.search("send an email and resize a picture")
        assert sorted(model.asked) == ["resize a picture", "send an email and resize a picture"]

    use(settings(), toolbox, job, model)


def test_a_repeated_subquery_is_embedded_once(settings, toolbox):
    model = CountingEmbedder()

    async def job(search):
        await search.search("send an email and send an email")

    use(settings(), toolbox, job, model)

    assert sorted(model.asked) == ["send an email", "send an email and send an email"]


COMPOUND = "merge the documents and send an email"


def test_a_subquery_that_cannot_be_embedded_is_searched_by_words_with_a_note(settings, toolbox):
    model = CountingEmbedder()
    model.fails_for = ("send an email",)

    async def job(search):
        return await search.search(COMPOUND, limit=50)

    response = use(settings(), toolbox, job, model)

    assert {MERGE, SEND} <= set(ids(response))
    assert explanations(response)[SEND].subquery == 1
    assert response.lost == ()
    assert "One part of the query was searched by keywords only." in " ".join(response.notes)


def test_an_answer_without_a_subquerys_vector_is_not_reused_once_there_is_one(
    settings, toolbox, monkeypatch
):
    monkeypatch.setattr("pytools_hybrid.search.vectors._BACKOFF", Backoff(first=0.0))
    model = CountingEmbedder()

    async def job(search):
        model.fails_for = ("send an email",)
        before = await search.search(COMPOUND)
        model.fails_for = ()
        return before, await search.search(COMPOUND)

    async def once(search):
        return await search.search(COMPOUND)

    before, after = use(settings(), toolbox, job, model)
    fresh = use(settings(), toolbox, once, CountingEmbedder())

    assert "One part of the query was searched by keywords only." in " ".join(before.notes)
    assert "by keywords only" not in " ".join(after.notes)
    assert by_id(before) != pytest.approx(by_id(fresh), abs=1e-5)
    assert by_id(after) == pytest.approx(by_id(fresh), abs=1e-5)


# Missing vectors.


# Near-duplicates.


ACCOUNTS = ("github-personal", "github-work", "gitea")
ACTIONS = {"create": ISSUE, "list": "List the issues of a repository, newest first.",
           "close": "Close an issue of a repository for good."}  # fmt: skip


@pytest.fixture
def accounts(toolbox, write_tool):
    """Three servers with equal tools, one of which lacks one of them."""
    for server in ACCOUNTS:
        for action, text in ACTIONS.items():
            if (server, action) != ("gitea", "close"):
                write_tool(f"mcptools/{server}/{action}_issues.py", text)
    return toolbox


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize(
    ("query", "server"),
    [
        ("issues of a repository", None),
        ("issues of a repository at work", "github-work"),
        ("issues of a repository in my personal account", "github-personal"),
    ],
)
def test_equal_tools_of_several_servers_are_offered_from_one_naming_the_others(
    settings, accounts, mode, query, server
):
    (response,) = ask(settings(), accounts, {"query": query, "mode": mode, "limit": 50})

    of_issues = [it for it in response if it.name in {f"{action}_issues" for action in ACTIONS}]
    (chosen,) = {it.category for it in of_issues}
    assert chosen in ACCOUNTS[:2]
    assert server in {None, chosen}
    for found in of_issues:
        has = ACCOUNTS[:2] if found.name == "close_issues" else ACCOUNTS
        assert {found.id, *found.also} == {f"mcptools:{it}:{found.name}" for it in has}
    assert len(of_issues) == len(ACTIONS)
    assert all(found.duplicates == () for found in response)


def test_a_filter_also_applies_to_the_other_servers_that_a_result_names(settings, accounts):
    where = ToolFilter(categories=("gitea", "github-work"))
    request = {"query": "report a bug in a repository", "where": where}
    (response,) = ask(settings(), accounts, request)

    assert {response[0].id, *response[0].also} == {
        "mcptools:gitea:create_issues",
        "mcptools:github-work:create_issues",
    }


@pytest.mark.parametrize(
    "parameters", ["text: int", "text: str, labels: str", "text: Issue", "text: str = 'a'"]
)
def test_tools_with_other_parameters_are_results_of_their_own(
    settings, toolbox, parameters, tmp_path
):
    for server, each in (("github", "text: Issue" * ("Issue" in parameters) or "text: str"),
                         ("gitlab", parameters)):  # fmt: skip
        file = tmp_path / "tools" / "mcptools" / server / "create_issue.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"def run({each}) -> str:\n    '''{ISSUE}'''\n", encoding="utf-8")
    (response,) = ask(settings(), toolbox, {"query": "create issue"})

    assert {found.id for found in response[:2]} == {
        "mcptools:github:create_issue",
        "mcptools:gitlab:create_issue",
    }
    assert all(found.also == found.duplicates == () for found in response)


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize(
    ("name", "prefixed", "text"),
    [
        ("get_summary", "wikipedia_get_summary", "Get a summary."),
        ("getLinks", "wiki_get_links", "Get the links that an article of the wiki has."),
    ],
)
def test_a_tool_that_one_server_has_under_two_names_takes_one_place(
    settings, toolbox, write_tool, mode, name, prefixed, text
):
    for each in (name, prefixed):
        write_tool(f"mcptools/wikipedia/{each}.py", text)
    (response,) = ask(settings(), toolbox, {"query": text, "mode": mode, "limit": 50})

    both = {f"mcptools:wikipedia:{each}" for each in (name, prefixed)}
    assert {response[0].id, *response[0].duplicates} == both
    assert len(both & set(ids(response))) == 1


def test_equal_tools_do_not_shorten_the_list(settings, toolbox, write_tool):
    for server in range(80):
        write_tool(f"mcptools/server{server}/create_issue.py", ISSUE)
    (response,) = ask(settings(), toolbox, {"query": "create issue", "limit": 20})

    assert len(response.tools) == 20
    assert len(response.tools[0].also) > 30


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Give the temperature of a city in Celsius.", "Give the temperature of a city in Kelvin."),
        ("word " * 70 + "and delete it all", "word " * 70 + "and only print it all"),
    ],
)
def test_tools_that_differ_in_one_word_both_stay(settings, toolbox, write_tool, one, other):
    write_tool("mcptools/a/get_value.py", one)
    write_tool("mcptools/b/get_value.py", other)
    (response,) = ask(settings(), toolbox, {"query": "get_value", "limit": 2})

    assert set(ids(response)) == {"mcptools:a:get_value", "mcptools:b:get_value"}


def test_tools_with_almost_no_description_are_not_duplicates(settings, toolbox, write_tool):
    for server in "ab":
        write_tool(f"mcptools/{server}/get_details.py", "Get the details.")
    (response,) = ask(settings(), toolbox, {"query": "get details", "limit": 3})

    assert {"mcptools:a:get_details", "mcptools:b:get_details"} == set(ids(response)[:2])


# Past use.

TWINS = ("mcptools:pier:find_ferry", "gentools:pier:find_ferry")


@pytest.fixture
def twins(toolbox, write_tool):
    """Two tools that differ in their source, with descriptions too short to be duplicates."""
    write_tool("mcptools/pier/find_ferry.py", "Give departures from harbours.")
    write_tool("gentools/pier/find_ferry/api.py", "Give departures from harbours.")
    return toolbox


@pytest.mark.parametrize("mode", SearchMode)
def test_failures_lower_a_score_by_the_documented_formula(settings, twins, mode):
    request = {"query": "departures from the harbour", "mode": mode, "limit": 50}

    async def job(search):
        before = await search.search(**request)
        await search.record_outcome(ids(before)[0], success=False)
        # The id of a tool that no longer exists.
        gone = OutcomeRecord(at=1.0, tool_id="no:such:tool", success=False)
        search.index.store.usage.record_outcomes([gone])
        once = await search.search(**request)
        for _ in range(40):
            await search.record_outcome(ids(before)[0], success=False)
        return before, once, await search.search(**request)

    before, once, often = use(settings(), twins, job)

    first = ids(before)[0]
    assert set(ids(before)[:2]) == set(TWINS)
    for response, failures in ((once, 1), (often, 41)):
        scores, earlier = by_id(response), by_id(before)
        factor = explanations(response)[first].usage
        assert factor == pytest.approx(1 - 0.1 * failures**2 / ((failures + 2) * (failures + 10)))
        assert scores[first] == pytest.approx(earlier[first] * factor)
        for id_ in scores.keys() - {first}:
            assert scores[id_] == pytest.approx(earlier[id_], abs=1e-6)
        assert ids(response).index(first) == 1


def by_id(response):
    return {str(found.entry.id): found.score for found in response.tools}


def explanations(response):
    return {str(found.entry.id): found.explanation for found in response.tools}


# Arithmetic.


@pytest.mark.parametrize("weights", [(1.0, 1.0), (2.0, 0.5)])
@pytest.mark.parametrize("mode", SearchMode)
def test_contributions_and_explanation_add_up_to_the_score(settings, toolbox, mode, weights):
    text = "merge the PDF documents and send an email with the result"
    bm25_weight, vec_weight = weights

    async def job(search):
        for _ in range(5):
            await search.record_outcome(MERGE, success=True)
        return await search.search(text, mode=mode, limit=50)

    response = use(settings(bm25_weight=bm25_weight, vec_weight=vec_weight), toolbox, job)

    weights = {"bm25": bm25_weight, "vector": vec_weight, "fuzzy": 1.0}
    weighted = {name: weight * UNITS[name] for name, weight in weights.items()}
    found = response.tools
    best = {
        each.retriever: each.score
        for tool in found
        for each in tool.contributions
        if each.rank == 1
    }
    attainable = sum(weighted[name] * score for name, score in best.items())
    merged, raised = {}, {}
    for tool in found:
        told = tool.explanation
        given = {each.retriever: max(0.0, each.score) for each in tool.contributions}
        request = sum(weighted[name] * score for name, score in given.items()) / attainable
        assert told.request == pytest.approx(request)
        assert told.merged == pytest.approx(
            told.request + SUBQUERY_SHARE * (told.subquery_score - told.request)
        )
        merged[tool.entry.id] = told.merged
    for tool in found:
        told, here = tool.explanation, (tool.entry.id.source, tool.entry.id.category)
        assert told.group == max(
            score for id_, score in merged.items() if (id_.source, id_.category) == here
        )
        raised[tool.entry.id] = told.usage * (
            (told.merged + CATEGORY_WEIGHT * told.group) / (1 + CATEGORY_WEIGHT)
        )
    first = found[0]
    for tool in found:
        share = raised[tool.entry.id] / raised[first.entry.id]
        assert tool.score == pytest.approx(first.confidence * share)


def test_a_subquery_scores_as_it_would_as_a_request(settings, toolbox):
    subqueries = ["merge the PDF documents", "send an email with the result"]
    whole, *alone = ask(
        settings(),
        toolbox,
        *({"query": text, "limit": 50} for text in (" and ".join(subqueries), *subqueries)),
    )

    scores = [
        {id_: told.request for id_, told in explanations(response).items()} for response in alone
    ]
    for id_, told in explanations(whole).items():
        assert told.subquery_score == pytest.approx(
            max(each.get(id_, 0.0) for each in scores), abs=1e-5
        )
        assert told.subquery_score == pytest.approx(scores[told.subquery].get(id_, 0.0), abs=1e-5)
