"""Attacks on the console by other pages, tools and host names, in a real browser."""

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from .conftest import PATIENCE, TOKEN

# Each would open a dialog, send a request to another server or change the title; `visit` reports
# the first two. Only characters that file names can contain.
PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' autofocus onfocus='alert(1)",
    "</title></textarea></pre><script>alert(1)</script>",
    "<base href=https:evil.example><meta http-equiv=refresh content=0;url=https:evil.example>",
    "{{ ''.__class__.__mro__ }}{% raw %}",
    "javascript:alert(1)",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<style>*{display:none}</style>",
    "&lt;script&gt;alert(1)&lt;script&gt;",
    "<b>\u202egnp.exe\u2066\x1b[31m",
]


@contextmanager
def attacker(page):
    """Serve a page at another port; yield its address with the name `evil.example`."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, dict(self.headers)))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://evil.example:{server.server_port}/", asked
        server.shutdown()


@pytest.fixture
def hostile(tmp_path):
    """A tree of tools in which every text is an attack."""
    root = tmp_path / "hostile"
    synonyms = {}
    for number, payload in enumerate(PAYLOADS):
        bare = payload.replace("/", "\u2215").replace("\x1b", "")
        folder = root / "mcptools" / f"pdf {bare}"
        folder.mkdir(parents=True)
        docstring = f"Merge documents {payload}\n\nArgs:\n    text: {payload}\n\nTags: {payload}\n"
        (folder / f"merge_{number} {bare}.py").write_text(
            f"def run(text: str = {payload!r}) -> str:\n    {docstring!r}\n", encoding="utf-8"
        )
        (root / "mcptools" / f"plain_{number}").mkdir()
        (root / "mcptools" / f"plain_{number}" / "merge.py").write_text(
            f"def run(text: str = {payload!r}) -> str:\n    {docstring!r}\n", encoding="utf-8"
        )
        (root / "mcptools" / f"plain_{number}" / f"broken {bare}.py").write_text("def run(:\n")
        synonyms[f"mcptools:plain_{number}:merge"] = payload
    (root / "capabilities.toml").write_text(
        "".join(
            f"[{json.dumps(id_)}]\nsynonyms = [{json.dumps(text)}]\n"
            for id_, text in synonyms.items()
        ),
        encoding="utf-8",
    )
    return root


def test_no_code_in_tools_or_requests_runs(visit, serve, hostile):
    with serve(hostile) as address:
        page = visit(f"{address}/?q=merge+documents&limit=50", refused=True)
        shown = page.locator("#results").inner_text()
        links = page.locator("#results h2 a").evaluate_all("all => all.map(it => it.href)")
        for payload in PAYLOADS:
            with page.expect_response(lambda it: "/?q=" in it.url):
                page.get_by_role("searchbox").fill(payload)
            each = quote(payload)
            page.goto(f"{address}/console/tools/{each}?q={each}")
            page.goto(f"{address}/?q={each}&category={each}&tags={each}&mode={each}")
        # Every third link, which includes attacks by names, tags and synonyms.
        for link in links[::3]:
            page.goto(link)
            page.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
            assert "merge" in page.title()
        for path in ("/console/tools", "/console/usage"):
            page.goto(address + path)
            assert page.url == address + path

    assert len(links) > len(PAYLOADS)
    assert "<script>alert(1)</script>" in shown


FORGED = """
<form id=out method=post action="{site}/console/logout" target=one></form>
<form id=in method=post action="{site}/console/login" target=two>
<input name=token value=guess></form>
<iframe name=one></iframe><iframe name=two></iframe>
<iframe name=framed src="{site}/?q=framed"></iframe>
<img src="{site}/search?q=planted"><script src="{site}/?q=planted"></script>
<link rel=stylesheet href="{site}/console/static/style.css">
<script>
document.forms.out.submit(); document.forms.in.submit();
window.read = "";
for (const path of ["/?q=read", "/search?q=read", "/api/v1/stats", "/console/static/style.css"])
  fetch("{site}" + path, {{credentials: "include"}}).then(it => it.text()).then(
    it => window.read += it).catch(() => window.refused = (window.refused || 0) + 1);
fetch("{site}/mcp", {{method: "POST", mode: "no-cors", body: "{{}}"}}).finally(
  () => window.sent = true);
</script>
"""


@pytest.fixture(params=["site", "locked"])
def guarded(request):
    """The address of a server without a token, then of one with a token."""
    return request.getfixturevalue(request.param)


def log_in(page, token):
    page.get_by_label("Token").fill(token)
    # Until it is loaded, the next page does not search for what is typed.
    with page.expect_navigation():
        page.get_by_role("button", name="Log in").click()


def test_another_site_cannot_act_on_read_or_frame_the_console(browser, guarded, searches):
    window = browser.new_context()
    window.set_default_timeout(1000 * PATIENCE)
    page = window.new_page()
    page.goto(guarded)
    if page.get_by_label("Token").count():
        log_in(page, TOKEN)
    expect(page.get_by_role("searchbox")).to_be_visible()
    before = searches(guarded)
    with attacker(FORGED.format(site=guarded)) as (evil, _):
        other = window.new_page()
        other.goto(evil)
        other.wait_for_function("window.refused === 4 && window.sent")
        other.wait_for_load_state("networkidle")
        framed = other.frame("framed")
        read = other.evaluate("window.read")
        contained = framed and framed.content()
    page.reload()

    assert read == ""
    assert "What would an agent find" not in (contained or "")
    expect(page.get_by_role("searchbox")).to_be_visible()
    assert searches(guarded) == before
    window.close()


def test_a_link_on_another_site_leads_to_its_search(browser, site, searches):
    before = searches(site)
    with attacker(f"<a href='{site}/?q=merge+pdf'>See</a>") as (elsewhere, _):
        page = browser.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.goto(elsewhere)
        page.get_by_role("link", name="See").click()
        expect(page.locator("#results h2 a").first).to_have_text("merge_pdfs")
        page.close()

    assert searches(site) == before + 1


def test_a_rebound_host_name_is_refused(browser, guarded):
    port = guarded.rpartition(":")[2]
    page = browser.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    answers = [
        page.goto(f"http://rebound.example:{port}{path}")
        for path in ("/", "/search?q=pdf", "/console/tools", "/console/static/style.css")
    ]
    said = page.content()
    page.close()

    assert [it.status for it in answers] == [421] * 4
    assert "merge" not in said


def test_the_token_appears_in_no_address_log_storage_or_referrer(visit, locked, locked_folder):
    with attacker("") as (evil, asked):
        page = visit(f"{locked}/?q=merge+pdf", refused=True)
        made = []
        page.context.on("request", lambda it: made.append(it))
        log_in(page, TOKEN)
        page.get_by_role("searchbox").fill("send mail")
        expect(page).to_have_url(f"{locked}/?q=send+mail")
        with page.expect_navigation():
            page.locator("#results h2 a").first.click()
        with page.expect_navigation():
            page.get_by_role("link", name="Catalogue").click()
        readable = page.evaluate(
            "document.cookie + JSON.stringify([{...localStorage}, {...sessionStorage}])"
        )
        foreign = page.context.new_page()
        foreign.goto(f"{locked}/?q=secret+plans")
        foreign.evaluate("address => { location.href = address }", evil)
        foreign.wait_for_url(evil)
        page.get_by_role("button", name="Log out").click()
        log_in(page, "wrong-t0ken")
        expect(page.get_by_role("alert")).to_contain_text("not this server's token")
        address_bar = [page.url, foreign.url]

    said = (locked_folder / "stderr").read_text("utf-8")
    addresses = [it.url for it in made]
    referrers = [it.headers.get("referer", "") for it in made]
    assert [it for it in [*addresses, *referrers, *address_bar, said] if "t0ken" in it] == []
    bodies = [it for it in made if "t0ken" in (it.post_data or "")]
    assert [it.url for it in bodies] == [f"{locked}/console/login"] * 2
    assert readable == "[{},{}]"
    told = [value for _, headers in asked for value in headers.values()]
    assert [value for value in told if locked in value or "pytools-session" in value] == []
