"""A new user finds out why an agent does not find a tool, and fixes it."""

import shutil
import time

from playwright.sync_api import expect

from .conftest import PATIENCE

REQUEST = "pass the bill on to accounting"


def test_the_page_of_a_tool_shows_how_to_make_a_request_find_it(visit, serve, examples, tmp_path):
    tools = shutil.copytree(examples, tmp_path / "tools")
    with serve(tools) as address:
        page = visit(address, refused=True)
        page.get_by_role("searchbox").fill(REQUEST)
        page.get_by_label("Expected another tool?").fill("send email")
        page.get_by_role("button", name="Why not?").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("send_email")
        expect(page.get_by_role("status")).to_contain_text("No. The tool has rank ")
        expect(page.get_by_role("status")).to_contain_text("an agent sees the first 5")
        shown = page.locator("section", has_text="Make this request find it").locator("code")
        expect(shown).to_have_count(2)
        file, lines = shown.all_inner_texts()
        (tools / "capabilities.toml").write_text(lines, encoding="utf-8")
        deadline = time.monotonic() + PATIENCE
        while "Yes. The tool has rank " not in page.get_by_role("status").inner_text():
            assert time.monotonic() < deadline
            page.reload()
        page.get_by_role("link", name="All results").click()

        expect(page.locator("#results h2 a", has_text="send_email")).to_be_visible()
    assert file == "tools/capabilities.toml"


def test_a_misspelt_name_leads_to_the_tool_and_keeps_the_request(visit, site):
    page = visit(f"{site}/?q=report+a+bug", refused=True)
    page.get_by_label("Expected another tool?").fill("creat issue")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="create_issue").click()

    expect(page.get_by_role("status")).to_contain_text("Yes. The tool has rank 1 ")
    expect(page.get_by_role("searchbox")).to_have_value("report a bug")
