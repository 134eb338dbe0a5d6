"""The JSON API: its answers, and its problem details for invalid requests."""

import json
import os
import re
from urllib.parse import quote

import pytest
from pytools_hybrid import Settings
from pytools_hybrid.serve.http import create_app
from pytools_hybrid.serve.mcp import create_server

from .conftest import calling, serving

pytestmark = pytest.mark.anyio

SEARCH = "/api/v1/tools/search"
PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture
def serve(settings, toolbox):
    """Serve the toolbox in this process: `async with serve(token="secret") as client`.

    Searches use words alone, because most tests here have nothing to do with vectors.
    """

    def serve_toolbox(**flags):
        made = settings(**{"watch": False, "embedding_model": "none"} | flags)
        return serving(made, toolbox)

    return serve_toolbox


@pytest.fixture(scope="module")
async def client(tmp_path_factory):
    """Call a server of one tool, shared by all tests of refused requests."""
    folder = tmp_path_factory.mktemp("refusals")
    tool = folder / "tools/mcptools/pdf/merge_pdfs.py"
    tool.parent.mkdir(parents=True)
    tool.write_text("def run(text: str) -> str:\n    'Join several documents.'\n")
    flags = {"db_path": folder / "index.db", "watch": False, "embedding_model": "none"}
    with pytest.MonkeyPatch.context() as patch:
        for name in [it for it in os.environ if it.startswith("PYTOOLS_")]:
            patch.delenv(name)
        made = Settings.from_flags(flags)
    async with serving(made, folder / "tools") as client:
        yield client


def found(answer):
    assert answer.status_code == 200, answer.text
    return [result["id"] for result in answer.json()["results"]]


def problem(answer, status):
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), answer.text
    details = answer.json()
    assert details["status"] == status
    assert details["type"] == "about:blank"
    assert details["title"]
    return details


async def test_a_search_returns_tools_with_reasons_and_metadata(serve, toolbox):
    async with serve(embedding_model="static") as client:
        answer = (
            await client.get("/search", params={"q": "join pdf documents", "limit": 2})
        ).json()

    assert list(answer) == ["query", "results", "metadata"]
    first = answer["results"][0]
    assert list(first)[:10] == [
        *("name", "category", "source", "description", "score", "confidence", "match_type"),
        *("path", "id", "signature"),
    ]
    assert first["match_type"] == "both"
    assert first["id"] == "mcptools:pdf:merge_pdfs"
    assert first["path"] == f"{toolbox}/mcptools/pdf/merge_pdfs.py"
    assert first["score_breakdown"]["bm25"]["rank"] == 1
    assert first["score_breakdown"].keys() == {"bm25", "vector"}
    assert first["reason"].startswith("keywords #1 · meaning #1")
    assert 0.5 < first["confidence"] <= 1
    metadata = answer["metadata"]
    assert metadata["result_count"] == len(answer["results"]) == 2
    assert metadata["channels"] == ["bm25", "vector"]
    assert metadata["coverage"] == {"tools": 27, "vectors": 27}
    assert metadata["used_llm_rerank"] is False
    assert metadata["lost"] == []
    assert re.fullmatch("[0-9a-f]{32}", metadata["search_id"])


async def test_a_search_takes_a_mode_a_scope_and_a_threshold(serve):
    async with serve(embedding_model="static") as client:
        ours = await client.get("/search", params={"q": "words of a text", "scope": "gentools"})
        words = await client.get("/search", params={"q": "words of a text", "mode": "bm25"})
        sure = await client.get("/search", params={"q": "brew coffee", "threshold": 0.9})

    assert all(id_.startswith("gentools:") for id_ in found(ours))
    assert words.json()["metadata"]["channels"] == ["bm25"]
    assert found(sure) == []
    assert sure.json()["metadata"]["filters_applied"] == {"threshold": 0.9}
    assert "confidence" in sure.json()["metadata"]["notes"][0]


async def test_answers_escape_characters_that_control_a_terminal(serve, write_tool):
    hidden = '\x1b[31m\x7f\x85\x9b31m\u200b\u2028\u202e\ufeff</script>"}]'
    write_tool("mcptools/evil/paint_red.py", ascii(f"Paint {hidden} grün 東京.")[1:-1])

    async with serve() as client:
        found = await client.get("/search", params={"q": f"paint red {hidden}"})
        described = await client.get("/api/v1/tools/paint_red?detail=full")
        unknown = await client.get(f"/api/v1/tools/{quote(hidden)}")

    assert found.headers["x-content-type-options"] == "nosniff"
    for answer in (found, described, unknown):
        assert answer.text.isprintable()
        json.loads(answer.text)
    for answer in (found, described):
        assert "grün 東京" in answer.text
    assert found.json()["query"] == f"paint red {hidden}"


@pytest.mark.parametrize("path", ["/search?q=pdf&{}", SEARCH + "?query=pdf&{}"])
async def test_aliases_are_accepted_unless_they_differ(client, path):
    for name in ("limit", "top_k"):
        answer = await client.get(path.format(f"{name}=1&min_confidence=0"))
        assert len(found(answer)) == 1

    details = problem(await client.get(path.format("limit=1&top_k=2")), 422)

    assert details["errors"][0]["parameter"] in {"limit", "top_k"}
    assert "they differ" in details["detail"]


async def test_categories_and_tags_narrow_a_search(serve, toolbox):
    tagged = toolbox / "mcptools/pdf/stamp_pages.py"
    tagged.write_text(
        "TAGS = ['print']\ndef run(x: str) -> str:\n    '''Stamp pages of a PDF.'''\n"
    )

    async with serve() as client:
        repeated = await client.get(SEARCH, params={"query": "a", "category": ["pdf", "mail"]})
        joined = await client.get(SEARCH, params={"query": "a", "category": "pdf, mail"})
        pages = await client.get(SEARCH, params={"query": "pages", "category": "pdf", "top_k": 9})

    assert found(repeated) == found(joined)
    assert {id_.split(":")[1] for id_ in found(pages)} == {"pdf"}
    assert joined.json()["metadata"]["filters_applied"] == {"category": ["pdf", "mail"]}


async def test_an_unknown_category_is_a_problem_that_names_the_nearest_one(serve):
    async with serve() as client:
        answer = await client.get(SEARCH, params={"query": "a", "category": "githup"})

    details = problem(answer, 404)
    assert details["candidates"][0] == "github"
    assert "'githup'" in details["detail"]


async def test_filters_leave_out_tools_that_are_slow_or_fail(serve):
    async with serve() as client:
        for _ in range(5):
            for tool, is_good in (("mcptools:pdf:merge_pdfs", True), ("rotate_pages", False)):
                report = {"tool_id": tool, "success": is_good, "latency_ms": 900}
                kept = await client.post("/api/v1/outcomes", json=report)
                assert (kept.status_code, kept.json()["recorded"]) == (201, True)
        every = await client.get(SEARCH, params={"query": "pdf", "top_k": 20})
        good = await client.get(SEARCH, params={"query": "pdf", "min_success_rate": 0.5})
        fast = await client.get(SEARCH, params={"query": "pdf", "max_latency_ms": 100})
        known = await client.get(
            SEARCH, params={"query": "pdf", "min_success_rate": 0.5, "unknown": "exclude"}
        )

    assert found(known) == ["mcptools:pdf:merge_pdfs"]
    (merge,) = known.json()["results"]
    assert (merge["success_rate"], merge["avg_latency_ms"]) == (1.0, 900.0)
    assert known.json()["metadata"]["filters_applied"] == {
        "min_success_rate": 0.5,
        "unknown": "exclude",
    }
    assert known.json()["metadata"]["notes"] == []
    assert "unknown=exclude" in good.json()["metadata"]["notes"][-1]
    others = [it for it in good.json()["results"] if it["id"] != "mcptools:pdf:merge_pdfs"]
    assert {(it["success_rate"], it["avg_latency_ms"]) for it in others} == {(None, None)}
    assert all(isinstance(it["tags"], list) for it in others)
    assert {"mcptools:pdf:merge_pdfs", "mcptools:pdf:rotate_pages"} <= set(found(every))
    assert "mcptools:pdf:rotate_pages" not in found(good)
    assert "mcptools:pdf:merge_pdfs" not in found(fast)


async def test_the_language_filter_only_matches_python(serve):
    async with serve() as client:
        python = await client.get(SEARCH, params={"query": "pdf", "language": "Python"})
        rust = await client.get(SEARCH, params={"query": "pdf", "language": "rust"})

    assert found(python)
    assert found(rust) == []
    assert "Python" in rust.json()["metadata"]["notes"][0]


async def test_asking_for_a_language_model_without_one_is_a_problem(serve):
    async with serve() as client:
        asked = await client.get(SEARCH, params={"query": "pdf", "use_llm": "true"})
        declined = await client.get(SEARCH, params={"query": "pdf", "use_llm": "false"})

    assert "PYTOOLS_RERANK_MODEL" in problem(asked, 409)["detail"]
    assert found(declined)


async def test_the_outcome_and_cost_of_reranking_are_reported(serve):
    async with serve(rerank_model="test") as client:
        asked = await client.get(SEARCH, params={"query": "pdf", "use_llm": "true"})
        declined = await client.get(SEARCH, params={"query": "pdf", "use_llm": "false"})

    told = asked.json()["metadata"]
    assert found(asked)
    assert told["rerank"]["model"] == "test"
    assert told["used_llm_rerank"] is told["rerank"]["applied"]
    assert told["rerank"].keys() >= {"reason", "requests", "cost_usd"}
    assert declined.json()["metadata"]["rerank"] is None


@pytest.mark.parametrize(
    ("path", "parameter", "says"),
    [
        ("/search?q=a&colour=red", "colour", "q, limit, threshold, mode, scope"),
        ("/search", "q", "required"),
        ("/search?q=a&q=b", "q", "once"),
        ("/search?q=a&limit=0", "limit", "1"),
        ("/search?q=a&limit=51", "limit", "50"),
        ("/search?q=a&limit=1_0", "limit", "whole number"),
        ("/search?q=a&limit=%201", "limit", "whole number"),
        ("/search?q=a&threshold=nan", "threshold", "number"),
        ("/search?q=a&threshold=2", "threshold", "1"),
        ("/search?q=a&mode=magic", "mode", "'fuzzy'"),
        ("/search?q=a&scope=mine", "scope", "'gentools'"),
        (f"/search?q={'a' * 2001}", "q", "2000"),
        (f"{SEARCH}?query=a&use_llm=yes", "use_llm", "true or false"),
        (f"{SEARCH}?query=a&category=pdf,,mail", "category", "pattern"),
        (f"{SEARCH}?query=a&category={'a' * 501}", "category", "500"),
        (f"{SEARCH}?query=a{'&tags=a' * 101}", "tags", "100"),
        (f"{SEARCH}?query=a&min_success_rate=-1", "min_success_rate", "0"),
        (f"{SEARCH}?query=a&max_latency_ms=1e999", "max_latency_ms", "finite"),
        ("/api/v1/tools/merge_pdfs?detail=all", "detail", "'summary'"),
        ("/api/v1/stats?since=yesterday", "since", "number"),
        ("/health?verbose=1", "verbose", "none"),
    ],
)
async def test_an_invalid_query_is_a_problem_that_says_what_is_allowed(
    client, path, parameter, says
):
    details = problem(await client.get(path), 422)

    (error,) = details["errors"]
    assert error["parameter"] == parameter
    assert says in error["detail"]
    assert details["instance"] == path.partition("?")[0]


async def test_all_errors_of_a_request_are_reported_at_once(client):
    details = problem(await client.get("/search?limit=x&colour=red"), 422)

    assert {error["parameter"] for error in details["errors"]} == {"q", "limit", "colour"}


@pytest.mark.parametrize(("flood", "times"), [("&{}", 3000), ("&tags=,{}", 50)])
async def test_the_number_of_reported_errors_is_limited(client, flood, times):
    parameters = "".join(flood.format(number) for number in range(times))

    answer = await client.get(f"{SEARCH}?top_k=0{parameters}")

    details = problem(answer, 422)
    assert len(details["errors"]) == 20
    assert details["detail"].endswith(" more")
    assert len(answer.content) < 10_000


@pytest.mark.parametrize("name", ["mcptools:pdf:merge_pdfs", "pdf__merge_pdfs", "merge_pdfs"])
async def test_a_tool_is_described_at_three_levels(serve, name):
    async with serve() as client:
        levels = [
            (await client.get(f"/api/v1/tools/{name}", params={"detail": level})).json()
            for level in ("summary", "schema", "full")
        ]

    assert [level["id"] for level in levels] == ["mcptools:pdf:merge_pdfs"] * 3
    assert levels[0].keys() < levels[1].keys() < levels[2].keys()
    assert levels[1]["input_schema"]["properties"].keys() == {"text"}


@pytest.mark.parametrize(
    "name", ["merge_pdf", "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%00", "a/b", "", "%ff"]
)
async def test_an_unknown_tool_is_a_problem(client, name):
    details = problem(await client.get(f"/api/v1/tools/{name}"), 404)

    if name == "merge_pdf":
        assert details["candidates"][0] == "mcptools:pdf:merge_pdfs"


async def test_an_ambiguous_name_is_a_problem_that_lists_the_tools(serve, write_tool):
    write_tool("gentools/paper/merge_pdfs/api.py", "Staple papers together.")

    async with serve() as client:
        details = problem(await client.get("/api/v1/tools/merge_pdfs"), 409)

    assert set(details["candidates"]) == {"gentools:paper:merge_pdfs", "mcptools:pdf:merge_pdfs"}


async def test_tools_outside_the_policy_appear_nowhere(serve):
    async with serve() as client:
        report = {"tool_id": "mcptools:pdf:merge_pdfs", "success": True}
        assert (await client.post("/api/v1/outcomes", json=report)).status_code == 201

    async with serve(exclude=("mcptools:pdf:*",)) as client:
        search = await client.get("/search", params={"q": "join pdf documents", "limit": 50})
        described = await client.get("/api/v1/tools/mcptools:pdf:merge_pdfs")
        category = await client.get(SEARCH, params={"query": "a", "category": "pdf"})
        reported = await client.post("/api/v1/outcomes", json=report)
        statistics = await client.get("/api/v1/stats")

    assert not any(":pdf:" in id_ for id_ in found(search))
    assert "mcptools:pdf:merge_pdfs" not in problem(described, 404).get("candidates", ())
    assert "pdf" not in problem(category, 404)["candidates"]
    problem(reported, 404)
    assert statistics.json()["tools"] == []


async def test_the_usage_record_is_summarized(serve):
    async with serve(embedding_model="static") as client:
        answer = (await client.get("/search", params={"q": "join pdf documents"})).json()
        first, search_id = answer["results"][0]["id"], answer["metadata"]["search_id"]
        report = {"tool_id": first, "success": True, "latency_ms": 12.5, "search_id": search_id}
        reported = await client.post("/api/v1/outcomes", json=report)
        statistics = (await client.get("/api/v1/stats")).json()
        later = (await client.get("/api/v1/stats", params={"since": 9_999_999_999})).json()

    assert reported.json() == {"tool_id": first, "recorded": True, "state": "written"}
    assert (statistics["searches"], statistics["judged"], statistics["first_accepted"]) == (1, 1, 1)
    assert statistics["tools"][0]["tool_id"] == first
    assert statistics["tools"][0]["success_rate"] == 1
    assert statistics["coverage"] == {"tools": 27, "vectors": 27}
    assert (later["searches"], later["tools"]) == (0, [])


async def test_the_answer_says_if_an_outcome_was_not_recorded(serve):
    async with serve(usage_log=False) as client:
        reported = await client.post(
            "/api/v1/outcomes", json={"tool_id": "merge_pdfs", "success": True}
        )

    assert reported.status_code == 200
    assert reported.json() == {
        "tool_id": "mcptools:pdf:merge_pdfs",
        "recorded": False,
        "state": "off",
    }


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        ({"success": True}, "/tool_id", "required"),
        ({"tool_id": "merge_pdfs", "success": "true"}, "/success", "boolean"),
        ({"tool_id": "merge_pdfs", "success": True, "latency_ms": -1}, "/latency_ms", "0"),
        ({"tool_id": "merge_pdfs", "success": True, "a/b": 1}, "/a~1b", "search_id"),
        (["merge_pdfs"], "", "object"),
    ],
)
async def test_an_invalid_report_is_a_problem_with_a_pointer(client, body, pointer, says):
    details = problem(await client.post("/api/v1/outcomes", json=body), 422)

    (error,) = details["errors"]
    assert error["pointer"] == pointer
    assert says in error["detail"]


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'{"tool_id": "\\ud800", "success": true}', "application/json", 400),
        (b"", "application/json", 400),
        (b"[" * 5000, "application/json", 400),
        (b"tool_id=x", "application/x-www-form-urlencoded", 415),
        (b"{}", "text/plain", 415),
        (b"x" * 65537, "application/json", 413),
        (b'{"tool_id": "a", "success": true, "latency_ms": 1e999}', "application/json", 422),
    ],
)
async def test_an_unreadable_report_is_a_problem(client, content, kind, status):
    headers = {"content-type": kind}
    answer = await client.post("/api/v1/outcomes", content=content, headers=headers)

    problem(answer, status)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/search", "GET, HEAD"),
        ("OPTIONS", "/health", "GET, HEAD"),
        ("GET", "/api/v1/outcomes", "POST"),
        ("TRACE", "/api/v1/tools/merge_pdfs", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_a_problem_that_names_the_allowed_ones(
    client, method, path, allowed
):
    answer = await client.request(method, path)

    problem(answer, 405)
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/nothing", "/search/", "/api/v1/tools", "/redoc"])
async def test_an_unknown_path_is_a_problem(client, path):
    assert "/openapi.json" in problem(await client.get(path), 404)["detail"]


async def test_health_describes_the_index(serve):
    async with serve(embedding_model="static") as client:
        await client.get("/search?q=pdf")
        health = (await client.get("/health")).json()

    assert health["status"] == "ok"
    assert health["coverage"] == {"tools": 27, "vectors": 27}
    assert health["channels"] == ["bm25", "vector", "fuzzy"]
    assert health["generation"] > 0


async def test_without_a_model_health_names_the_remaining_channels(serve):
    async with serve() as client:
        await client.get("/search?q=pdf")
        health = (await client.get("/health")).json()

    assert health["channels"] == ["bm25", "fuzzy"]
    assert health["coverage"]["vectors"] == 0


async def test_searches_and_requests_are_counted_for_prometheus(serve, counted):
    async with serve(embedding_model="static") as client:
        await client.get("/search?q=pdf")
        await client.get("/search?q=pdf&limit=0")
        await client.get("/health")
        await client.request("BREW", "/coffee")
        await client.get("/search?q=papers&mode=vector&threshold=1")
        answer = await client.get("/metrics")

    numbers = counted()
    assert {
        "pytools_searches_total(http, hybrid, found)": 1,
        "pytools_searches_total(http, vector, empty)": 1,
        "pytools_search_seconds_count(http, hybrid)": 1,
        "pytools_search_seconds_bucket(http, hybrid, +Inf)": 1,
        "pytools_model_requests_total(query, static:tools2, answered)": 2,
        "pytools_syncs_total(changed)": 1,
        "pytools_http_requests_total(GET, /search, 200)": 2,
        "pytools_http_requests_total(GET, /search, 422)": 1,
        "pytools_http_requests_total(GET, /health, 200)": 1,
        "pytools_http_requests_total(other, none, 404)": 1,
    }.items() <= numbers.items()
    seconds = numbers["pytools_search_seconds_sum(http, hybrid)"]
    assert seconds > 0
    assert numbers.get("pytools_search_seconds_bucket(http, hybrid, 10.0)", 0) == (seconds <= 10)
    assert answer.headers["content-type"].startswith("text/plain")
    assert {
        "pytools_tools 27.0",
        "pytools_vectors 27.0",
        "pytools_embedding_pending 0.0",
        "pytools_index_up_to_date 1.0",
        "pytools_mcp_sessions 0.0",
    } <= set(answer.text.splitlines())
    assert "_created" not in answer.text


async def test_a_search_without_a_channel_is_counted_by_channel(serve, counted):
    async with serve() as client:
        await client.get("/search?q=pdf&mode=vector")
        await client.get("/search?q=pdf")

    assert counted()["pytools_search_channels_lost_total(vector)"] == 1


async def test_the_openapi_document_has_every_path_and_no_dangling_reference(serve):
    async with serve() as client:
        document = (await client.get("/openapi.json")).json()

    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) == {
        *("/health", "/metrics", "/openapi.json", "/search", SEARCH),
        *("/api/v1/tools/{id}", "/api/v1/stats", "/api/v1/outcomes"),
    }
    references = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document))
    assert set(references) == set(document["components"]["schemas"])
    assert "security" not in document
    (query, *_) = document["paths"][SEARCH]["get"]["parameters"]
    assert query["schema"].items() >= {"type": "string", "maxLength": 2000}.items()


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource/mcp",
        "/mcp/.well-known/openid-configuration",
        "/register",
    ],
)
@pytest.mark.parametrize("token", [None, "geheim"])
async def test_oauth_paths_return_404(serve, path, token):
    async with serve(token=token) as client:
        answers = [await client.get(path), await client.post(path, json={"redirect_uris": []})]
        answers.append(await client.get(path, headers={"authorization": "Bearer wrong"}))

    assert {it.status_code for it in answers} == {404}
    assert all("www-authenticate" not in it.headers for it in answers)


async def test_every_path_requires_the_token(serve):
    async with serve(token="geheim") as client:
        document = await client.get("/openapi.json", headers={"authorization": "Bearer geheim"})
        for path in ("/search?q=a", "/openapi.json", "/metrics", "/mcp", "/nothing"):
            refused = await client.get(path)
            problem(refused, 401)
            assert refused.headers["www-authenticate"].startswith("Bearer")
        health = await client.get("/health")
        told = await client.get("/health", headers={"authorization": "bearer geheim"})

    assert document.json()["security"] == [{"token": []}]
    assert health.json().keys() == {"status"}
    assert "generation" in told.json()


@pytest.mark.parametrize(
    "value", ["Bearer wrong", "Bearer geheimx", "Bearer", "Basic geheim", "geheim", "Bearer géheim"]
)
async def test_a_wrong_token_is_refused_even_where_none_is_needed(serve, value):
    async with serve(token="geheim") as client:
        headers = {"authorization": value.encode("latin-1")}
        problem(await client.get("/health", headers=headers), 401)


@pytest.mark.parametrize("path", ["/search?q=a", "/health", "/mcp", "/metrics", "/nothing"])
async def test_other_hosts_and_origins_are_refused_on_every_path(client, path):
    rebound = await client.get(path, headers={"host": "evil.example:8000"})
    page = await client.get(path, headers={"origin": "https://evil.example"})
    own = await client.get(path, headers={"origin": "http://localhost:8000"})

    problem(rebound, 421)
    problem(page, 403)
    assert own.status_code not in {403, 421}


async def test_a_server_without_an_index_has_no_search_paths(settings, toolbox):
    made = settings(tools="basic")
    server = create_server(None, None, settings=made, root=toolbox)

    async with calling(create_app(None, None, server, made)) as client:
        health, metrics = await client.get("/health"), await client.get("/metrics")
        document = (await client.get("/openapi.json")).json()
        search = await client.get("/search?q=pdf")

    assert health.json() == {"status": "ok"}
    assert metrics.status_code == 200
    assert set(document["paths"]) == {"/health", "/metrics", "/openapi.json"}
    problem(search, 404)


async def test_an_unreadable_index_is_reported_without_internals(serve, tmp_path, caplog):
    async with serve() as client:
        await client.get("/search?q=pdf")
        with pytest.MonkeyPatch.context() as patch:
            from toolindex import DatabaseError

            def fail(*_args, **_options):
                raise DatabaseError(tmp_path / "index.db", "disk I/O error")

            patch.setattr("pytools_hybrid.search.engine.RankingEngine.answer", fail)
            answer = await client.get("/search?q=other")
            patch.setattr("pytools_hybrid.index.store.SQLiteStore.reading", fail)
            health = await client.get("/health")
            metrics = await client.get("/metrics")

    assert "pytools_index_up_to_date 0.0" in metrics.text
    assert "pytools_tools" not in metrics.text
    details = problem(answer, 503)
    assert answer.headers["retry-after"]
    assert "index.db" not in answer.text
    assert "disk I/O error" in caplog.text
    assert details["detail"]
    assert health.status_code == 503
    assert health.json()["status"] == "failing"
