"""Somebody who was told nothing finds out why an agent does not find a tool, and puts it right."""

import shutil
import time

from playwright.sync_api import expect

REQUEST = "pass the bill on to accounting"


def test_somebody_sees_why_a_tool_is_not_found_and_makes_it_found(visit, serve, examples, tmp_path):
    tools = shutil.copytree(examples, tmp_path / "tools")
    with serve(tools) as address:
        page = visit(address, refused=True)
        page.get_by_role("searchbox").fill(REQUEST)
        page.get_by_label("Expected another tool?").fill("send email")
        page.get_by_role("button", name="Why not?").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("send_email")
        expect(page.get_by_role("status")).to_contain_text("No. It is number ")
        expect(page.get_by_role("status")).to_contain_text("an agent is shown the first 5")
        shown = page.locator("section", has_text="Make this request find it").locator("code")
        file, lines = shown.all_inner_texts()
        (tools / "capabilities.toml").write_text(lines, encoding="utf-8")
        deadline = time.monotonic() + 30
        while "Yes. It is number " not in page.get_by_role("status").inner_text():
            assert time.monotonic() < deadline
            page.reload()
        page.get_by_role("link", name="All results").click()

        expect(page.locator("#results h2 a", has_text="send_email")).to_be_visible()
    assert file == "tools/capabilities.toml"


def test_a_name_that_is_not_quite_right_leads_on_with_the_request(visit, site):
    page = visit(f"{site}/?q=report+a+bug", refused=True)
    page.get_by_label("Expected another tool?").fill("creat issue")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="create_issue").click()

    expect(page.get_by_role("status")).to_contain_text("Yes. It is number 1")
    expect(page.get_by_role("searchbox")).to_have_value("report a bug")
