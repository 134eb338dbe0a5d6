"""The console: its pages, and the attacks that it prevents."""

import json
import sys
from datetime import UTC, datetime
from html.parser import HTMLParser
from urllib.parse import quote, urlencode

import pytest

from .conftest import serving

pytestmark = pytest.mark.anyio

ADDRESS = "http://127.0.0.1:8000"
HERE = {"origin": ADDRESS}
HOSTILE = """<script>alert(1)</script><img src=x onerror=alert(1)>" onmouseover="alert(1)
</pre></textarea></title>{{ 9871 * 9781 }}&lt;b&gt;\u202egnp.exe"""
ONE_LINE = " ".join(HOSTILE.split())
OWN_SCRIPTS = {"/console/static/keys.js", "/console/static/search.js"}


class Page(HTMLParser):
    """A page as a browser sees it: its elements with their attributes, and its text."""

    def __init__(self, answer):
        super().__init__()
        assert answer.headers["content-type"] == "text/html; charset=utf-8", answer.text
        self.elements, self.texts = [], []
        self.feed(answer.text)
        self.text = "".join(self.texts)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def browse(settings, toolbox):
    """Serve the toolbox to a browser: `async with browse(token="secret") as browser`."""

    def serve_toolbox(**flags):
        made = settings(**{"watch": False, "embedding_model": "none"} | flags)
        return serving(made, toolbox)

    return serve_toolbox


@pytest.fixture
def _one_day(monkeypatch):
    """Keep the day from ending between a record and a plot by days."""
    now = datetime.now(UTC)

    class Today(datetime):
        @classmethod
        def now(cls, tz=None):
            return now

    monkeypatch.setattr("pytools_hybrid.serve.http.console._drawing.datetime", Today)
    monkeypatch.setattr("time.time", now.timestamp)


async def log_in(browser, token="secret", **fields):
    form = {"token": token, "next": "/", **fields}
    return await browser.post("/console/login", data=form, headers=HERE)


async def test_a_search_shows_tools_with_reasons_and_links_to_their_pages(browse):
    async with browse(embedding_model="static") as browser:
        answer = await browser.get("/?q=merging+two+pdf+documents&mode=hybrid&limit=3")
        found = Page(answer)
        links = [it["href"] for it in found.all("a") if it["href"].startswith("/console/tools/")]
        tool = Page(await browser.get(links[0]))
        empty = Page(await browser.get("/"))

    assert links[0].startswith("/console/tools/mcptools%3Apdf%3Amerge_pdfs?q=merging")
    assert "keywords #1 · meaning #1" in found.text
    assert "from mcptools.pdf.merge_pdfs import run\n\nrun(text=…)" in found.text
    assert len(found.all("meter")) == 6
    assert sum(float(it["width"]) for it in found.all("rect")[:2]) == pytest.approx(100, abs=0.1)
    assert "<mark>merge</mark>_<mark>pdfs</mark>" in answer.text
    assert [it["value"] for it in found.all("option") if "selected" in it] == ["hybrid", "all"]
    assert "The tool has rank 1 and a score of" in tool.text
    assert "def run(text: str) -> str" in tool.text
    assert '"type": "object"' in tool.text
    assert "no outcome has been reported yet" in tool.text
    assert "Similar tools" in tool.text
    assert "27 tools can be found" in empty.text


async def test_filters_narrow_a_search_and_empty_fields_are_ignored(browse):
    empty = "&tags=&threshold=&limit="
    async with browse() as browser:
        mail = Page(await browser.get(f"/?q=send+a+message&category=mail&scope=mcptools{empty}"))
        sure = Page(await browser.get("/?q=send+a+message&threshold=1"))

    links = [it["href"] for it in mail.all("a") if it["href"].startswith("/console/tools/")]
    assert links
    assert all("mcptools%3Amail%3A" in link for link in links)
    assert "0 results" in sure.text


async def test_an_expected_tool_is_explained_by_any_of_its_names(browse):
    async with browse() as browser:
        form = "q=merge+pdfs&tool="
        answers = {
            name: await browser.get(f"/console/why?{form}{quote(name)}", follow_redirects=True)
            for name in (
                "rotate_pages",
                "mcptools:pdf:merge_pdfs",
                "merge_pdf",
                "//evil.example",
                "",
            )
        }
        filtered = Page(
            await browser.get(
                "/console/why?q=merge+pdfs&category=mail&tool=merge_pdfs", follow_redirects=True
            )
        )

    texts = {name: Page(answer).text for name, answer in answers.items()}
    assert "the filters of this search leave it out" in filtered.text
    assert "/?q=merge+pdfs&category=mail" in [it["href"] for it in filtered.all("a")]
    assert "The tool has rank" in texts["rotate_pages"]
    assert "Yes. The tool has rank 1 and" in texts["mcptools:pdf:merge_pdfs"]
    assert "/console/tools/mcptools%3Apdf%3Amerge_pdfs?q=merge+pdfs" in answers["merge_pdf"].text
    assert {it.url.host for it in answers.values()} == {"127.0.0.1"}
    assert {answers[it].status_code for it in ("merge_pdf", "//evil.example", "")} == {404}


async def test_suggested_use_cases_include_those_already_in_the_file(browse, toolbox):
    file = toolbox / "capabilities.toml"
    path = "/console/tools/mcptools:pdf:merge_pdfs?q=glue+sheets"
    pages = []
    async with browse() as browser:
        for text in ('use_cases = ["staple"]\n', "use_cases = [staple]\n"):
            file.write_text(f'["mcptools:pdf:merge_pdfs"]\n{text}')
            pages.append(Page(await browser.get(path)).text)

    assert 'changing the tool\'s use cases to:\nuse_cases = ["staple", "glue sheets"]' in pages[0]
    assert "not valid TOML" not in pages[0]
    assert "capabilities.toml: is not valid TOML" in pages[1]
    assert '["mcptools:pdf:merge_pdfs"]\nuse_cases = ["glue sheets"]' in pages[1]


async def test_a_request_that_is_still_being_typed_is_answered_but_not_recorded(browse, toolbox):
    async with browse() as browser:
        typed = await browser.get("/?q=merge+pd", headers={"pytools-typing": "1"})
        sent = await browser.get("/?q=merge+pdfs")
        recorded = (await browser.get("/api/v1/stats")).json()

    assert "merge" in Page(typed).text
    assert sent.status_code == 200
    assert recorded["searches"] == 1


async def test_the_catalogue_lists_categories_their_tools_and_left_out_files(
    browse, write_tool, toolbox
):
    (toolbox / "mcptools/pdf/broken.py").write_text("def run(:\n")
    for number in range(201):
        write_tool(f"mcptools/many/tool_{number:03}.py", "One of many.")
    async with browse() as browser:
        every = Page(await browser.get("/console/tools"))
        links = [it["href"] for it in every.all("a") if "category=many" in it["href"]]
        first = Page(await browser.get(links[0]))
        following = next(it["href"] for it in first.all("a") if it.get("rel") == "next")
        last = Page(await browser.get(following))
    async with browse(exclude=("*:pdf:*",)) as browser:
        narrowed = Page(await browser.get("/console/tools"))

    assert "228 tools" in every.text
    assert "mcptools/pdf/broken.py" in every.text
    assert "broken.py" not in narrowed.text
    assert "category=pdf" not in str(narrowed.all("a"))
    assert "tool_000" in first.text
    assert "tool_200" not in first.text
    assert "2 of 2" in last.text
    assert "tool_200" in last.text


@pytest.mark.usefixtures("_one_day")
async def test_the_usage_page_shows_queries_with_links_to_their_searches(browse):
    async with browse() as browser:
        before = Page(await browser.get("/console/usage?days=30"))
        for query in ("merge pdf", "merge pdf", "zzz", HOSTILE):
            await browser.get(f"/?q={quote(query)}&threshold=0.3")
        found = (await browser.get("/search?q=send+mail")).json()
        search_id, tool = found["metadata"]["search_id"], found["results"][0]["id"]
        outcome = {"tool_id": tool, "success": False, "search_id": search_id}
        await browser.post("/api/v1/outcomes", json=outcome)
        answer = await browser.get("/console/usage")
        use = Page(answer)
    async with browse(exclude=(tool,), usage_log=False) as browser:
        narrowed = Page(await browser.get("/console/usage?days=90"))

    links = [it["href"] for it in use.all("a") if it["href"].startswith("/?q=")]
    assert "Nothing was recorded in the last 30 days" in before.text
    assert links[:2] == ["/?q=merge+pdf", "/?" + urlencode({"q": HOSTILE})]
    assert "/?q=zzz" in links[3:]
    assert links[-1] == "/?q=send+mail"
    assert "Queries whose tools failed" in use.text
    assert f"{tool}10 %1" in use.text.replace("\n", "")
    assert tool not in narrowed.text
    assert "not recorded" in narrowed.text
    assert len(use.all("figure")) == 2
    assert all(it["class"] in {"whole", "hollow"} for it in use.all("rect"))
    assert use.all("path")[-2]["d"].startswith("M85.71 ")
    assert all("aria-label" in it or "aria-hidden" in it for it in use.all("svg"))


@pytest.mark.usefixtures("_one_day")
async def test_a_tool_page_shows_outcomes_and_the_requests_that_found_it(browse):
    async with browse() as browser:
        quiet = Page(await browser.get("/console/tools/mcptools:pdf:merge_pdfs"))
        found = (await browser.get("/search?q=merge+two+pdf+documents")).json()
        tool = found["results"][0]["id"]
        for success in (True, True, False):
            outcome = {"tool_id": tool, "success": success, "latency_ms": 42.0}
            await browser.post("/api/v1/outcomes", json=outcome)
        used = Page(await browser.get(f"/console/tools/{tool}"))

    assert "No search of the last 30 days found it" in quiet.text
    assert not quiet.all("figure")
    assert {"href": "/?q=merge+two+pdf+documents"} in used.all("a")
    assert "Calls per day" in used.text
    assert "Latency of successful calls" in used.text
    assert "3267 %42.0 ms42.0 ms" in used.text.replace("\n", "")
    assert [it["class"] for it in used.all("rect")[-2:]] == ["whole", "hollow"]


async def test_a_tool_page_shows_how_to_make_it_easier_to_find(browse, toolbox, write_tool):
    (toolbox / "mcptools/pdf/silent.py").write_text("def run(a: int, b: int): 'Silent.'\n")
    write_tool("mcptools/pdf/fold_page.py", "Fold a page.")
    (toolbox / "mcptools/mail/good.py").write_text(
        "def run(who: str) -> str:\n"
        "    '''Post a paper letter to a person far away.\n\n"
        "    Args:\n        who: The person.\n    '''\n"
    )
    for category in ("one", "two"):
        write_tool(f"mcptools/{category}/paint_{category}.py", "Paint the wall of a house red.")
    async with browse() as browser:
        silent, fold, good, twin = [
            Page(await browser.get(f"/console/tools/mcptools:{name}")).text
            for name in ("pdf:silent", "pdf:fold_page", "mail:good", "one:paint_one")
        ]

    assert "says little more than its name" in silent
    assert "2 of 2 parameters have no description: a, b." in silent
    assert "says little more than its name" in fold
    assert "Nothing in its text makes it hard to find" in good
    assert "Its summary is the same as that of mcptools:two:paint_two" in twin


async def test_health_shows_the_index_its_roots_and_the_installation(browse, toolbox):
    (toolbox / "mcptools/pdf/broken.py").write_text("def run(:\n")
    (toolbox / "mcptools/pdf/_private.py").write_text("def run(): 'Private.'\n")
    async with browse(embedding_model="static") as browser:
        health = Page(await browser.get("/console/health"))

    assert "up to date" in health.text
    assert "27 of 27 tools have vectors" in health.text
    assert "1 file; the catalogue says why" in health.text
    assert str(toolbox) in health.text
    assert "Imported servers" not in health.text
    for check in ("Python", "SQLite", "sqlite-vec", "settings", "import"):
        assert check in health.text
    assert "embedder" not in health.text


async def test_health_shows_imported_servers_and_why_they_cannot_be_called(
    browse, toolbox, tmp_path
):
    manifest = {
        "server": "github",
        "source": str(tmp_path / "servers.json"),
        "state": "",
        "files": {},
        "tools": {"create_issue": "create_issue"},
    }
    (toolbox / "mcptools/github/_manifest.json").write_text(json.dumps(manifest))
    async with browse() as browser:
        health = Page(await browser.get("/console/health"))

    assert "Imported servers" in health.text
    assert "cannot be called: " in health.text
    assert "PYTOOLS_SERVERS names another file" in health.text


async def test_health_reloads_every_two_seconds_on_request(browse):
    async with browse() as browser:
        still = Page(await browser.get("/console/health"))
        (link,) = (it["href"] for it in still.all("a") if "refresh" in it["href"])
        reloading = Page(await browser.get(link))

    def refresh(page):
        return [it["content"] for it in page.all("meta") if "http-equiv" in it]

    assert (refresh(still), refresh(reloading)) == ([], ["2"])
    assert "/console/health" in {it["href"] for it in reloading.all("a")}


async def test_only_a_form_of_this_server_can_run_all_checks(browse):
    async with browse() as browser:
        foreign = await browser.post("/console/health/checks", headers=FOREIGN[3][0])
        health = Page(await browser.post("/console/health/checks", headers=HERE))

    assert foreign.status_code == 403
    for check in ("root", "database", "embedder", "watcher", "MCP server"):
        assert check in health.text


MISTAKES = [
    ("/?q=a&limit=0", 422, "limit"),
    ("/?q=a&mode=none", 422, "mode"),
    ("/?q=a&category=mial", 404, "mail"),
    ("/?nothing=1", 422, "nothing"),
    ("/console/tools?category=gihtub", 404, "github"),
    ("/console/tools?page=0", 422, "page"),
    ("/console/usage?days=8", 422, "days"),
    ("/console/tools/creat_issue", 404, "mcptools:github:create_issue"),
]


async def test_a_mistake_is_answered_with_a_page_that_says_what_is_wrong(browse):
    async with browse() as browser:
        answers = [await browser.get(path) for path, _, _ in MISTAKES]

    for answer, (_, status, word) in zip(answers, MISTAKES, strict=True):
        assert answer.status_code == status
        assert word in Page(answer).text


async def test_texts_of_tools_and_requests_are_never_interpreted_as_html_or_templates(
    browse, write_tool, toolbox
):
    (toolbox / "mcptools/pdf/hostile.py").write_text(
        f"def run(text: str = {HOSTILE!r}) -> str:\n    {HOSTILE!r}\n", encoding="utf-8"
    )
    write_tool("mcptools/pdf/<b>'x'/merge.py", "Merge.")
    aliases = json.dumps([HOSTILE])
    (toolbox / "capabilities.toml").write_text(
        f'["mcptools:pdf:hostile"]\nsynonyms = {aliases}\n', encoding="utf-8"
    )
    paths = [
        f"/?q={quote(HOSTILE)}&category={quote(HOSTILE)}&tags={quote(HOSTILE)}&limit=50",
        f"/?q=alert+script&mode={quote(HOSTILE)}",
        f"/?q={quote(HOSTILE)}",
        f"/console/tools/mcptools:pdf:hostile?q={quote(HOSTILE)}",
        f"/console/tools/{quote(ONE_LINE)}",
        f"/?{quote(HOSTILE)}=1",
        f"/console/tools?category={quote(HOSTILE)}",
        "/console/tools?category=pdf",
        "/console/tools",
        "/console/usage",
        "/console/health",
    ]
    async with browse(token="secret") as browser:
        pages = [Page(await browser.get(path)) for path in paths]
        await log_in(browser)
        pages += [Page(await browser.get(path)) for path in paths]
        pages.append(Page(await log_in(browser, HOSTILE, next=HOSTILE)))
        shown = [page for page in pages if "alert(1)" in page.text]

    assert len(shown) >= 3
    for page in pages:
        assert {it["src"] for it in page.all("script")} <= OWN_SCRIPTS
        assert [it["src"] for it in page.all("img")] == ["/console/static/icon.svg"]
        assert not page.all("b")
        assert "\u202e" not in page.text
        assert str(9871 * 9781) not in page.text
        for tag, attributes in page.elements:
            assert not any(name.startswith("on") or name == "style" for name in attributes), tag
            for name in ("href", "src", "action"):
                assert attributes.get(name, "/").startswith(("/", "#")), attributes
                assert not attributes.get(name, "/").startswith("//"), attributes


async def test_a_page_only_loads_its_own_files_and_cannot_be_framed(browse):
    async with browse(token="secret") as browser:
        answers = [
            await browser.get("/"),
            await browser.post("/console/login"),
            await log_in(browser),
        ]
        answers += [await browser.get("/?q=pdf"), await browser.get("/console/static/style.css")]
        answers += [await browser.get("/console/tools/nosuch")]

    assert [it.status_code for it in answers] == [401, 403, 303, 200, 200, 404]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; img-src 'self'; ")
        assert "frame-ancestors 'none'" in policy
        assert "script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "same-origin"


async def test_the_token_opens_a_session_that_is_only_valid_for_pages(browse):
    async with browse(token="secret") as browser:
        refused = await browser.get("/?q=pdf")
        in_url = await browser.get("/?q=pdf&token=secret")
        logged_in = await log_in(browser, next="/?q=pdf")
        cookie = logged_in.headers["set-cookie"]
        found = await browser.get(logged_in.headers["location"])
        others = [await browser.get(path) for path in ("/search?q=pdf", "/metrics", "/mcp")]
        logged_out = await browser.post("/console/logout", headers=HERE)
        browser.headers["cookie"] = cookie.partition(";")[0]
        afterwards = await browser.get("/?q=pdf")
        wrong = await log_in(browser, "guessed")

    assert [it.status_code for it in (refused, wrong, in_url, afterwards)] == [401] * 4
    assert "merge_pdfs" not in refused.text
    assert "That is not this server's token." in Page(wrong).text
    assert "Log in" in Page(refused).text
    assert {"value": "/?q=pdf", "type": "hidden", "name": "next"} in Page(refused).all("input")
    assert "secret" not in cookie + logged_in.headers["location"]
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert found.status_code == 200
    assert "merge_pdfs" in found.text.replace("<mark>", "").replace("</mark>", "")
    assert [it.status_code for it in others] == [401] * 3
    assert logged_out.status_code == 303


ELSEWHERE = (
    "//evil.example",
    "https://evil.example/",
    "/\\evil.example",
    "/\t/evil.example",
    "/search",
)


async def test_the_login_only_redirects_to_own_pages(browse):
    async with browse(token="secret") as browser:
        answers = [await log_in(browser, next=elsewhere) for elsewhere in ELSEWHERE]

    assert [it.headers["location"] for it in answers] == ["/"] * len(ELSEWHERE)


FOREIGN = [
    ({}, 403),
    ({"origin": "null"}, 403),
    ({"origin": "http://127.0.0.1:9000"}, 403),
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "http://evil.example:8000", "host": "evil.example:8000"}, 421),
]


async def test_forms_of_other_sites_and_rebound_names_are_refused(browse):
    async with browse(token="secret") as browser:
        await log_in(browser)
        for headers, status in FOREIGN:
            for path in ("/console/login", "/console/logout"):
                answer = await browser.post(path, data={"token": "secret"}, headers=headers)
                assert answer.status_code == status
        rebound = await browser.get("/", headers={"host": "evil.example:8000"})

        assert rebound.status_code == 421
        assert (await browser.get("/")).status_code == 200


async def test_without_a_console_its_paths_do_not_exist(browse):
    async with browse(console=False, token="secret") as browser:
        browser.headers["authorization"] = "Bearer secret"
        answers = [await browser.get(path) for path in ("/", "/console/static/style.css")]

    assert [it.status_code for it in answers] == [404, 404]


async def test_the_page_modules_are_imported_by_the_first_request_for_a_page(browse, monkeypatch):
    console = "pytools_hybrid.serve.http.console"
    for name in [it for it in sys.modules if it.startswith(("jinja2", f"{console}._pages"))]:
        monkeypatch.delitem(sys.modules, name)

    async with browse() as browser:
        await browser.get("/search?q=pdf")
        before = set(sys.modules)
        await browser.get("/")

    assert "jinja2" not in before
    assert f"{console}._pages" not in before
    assert "jinja2" in sys.modules


async def test_no_page_is_larger_than_100_kilobytes(browse, write_tool, toolbox):
    text = "Merge documents. " + 300 * "It joins & merges <pages> of documents. "
    for number in range(60):
        write_tool(f"mcptools/category_{number:03}{80 * 'x'}/merge_{number}.py", f"{number} {text}")
    parameters = ", ".join(f"parameter_{number}: str" for number in range(2_000))
    (toolbox / "mcptools/pdf/huge.py").write_text(f"def run({parameters}):\n    'Huge. {text}'\n")
    async with browse() as browser:
        style = (await browser.get("/console/static/style.css")).content
        search = (await browser.get("/?q=merge+documents&limit=50")).content
        tool = (await browser.get("/console/tools/mcptools:pdf:huge")).content
        every = (await browser.get("/console/tools")).content

    assert max(map(len, (search, tool, every))) + len(style) <= 100_000
