"""Searching as you type, and moving through the results by keys."""

import re

import pytest
from playwright.sync_api import expect

RESULTS = "#results h2 a"


def typing(page, text):
    page.get_by_role("searchbox").press("End")
    page.keyboard.type(text)


def test_a_request_is_answered_while_it_is_typed_and_is_in_the_address(visit, site):
    page = visit(site)
    entries = page.evaluate("history.length")
    typing(page, "merge two pdf documents")

    expect(page).to_have_url(f"{site}/?q=merge+two+pdf+documents")
    expect(page.locator(RESULTS).first).to_have_text("merge_pdfs")
    expect(page).to_have_title(re.compile("^merge two pdf documents"))
    assert page.evaluate("history.length") == entries
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.get_by_role("searchbox").fill("")
    expect(page).to_have_url(f"{site}/")
    expect(page.locator(RESULTS)).to_have_count(0)


def test_a_request_that_was_typed_before_the_script_was_loaded_is_answered(visit, site):
    page = visit(f"{site}/console/tools")
    scripts = []
    page.route("**/search.js", lambda route: scripts.append(route))
    with page.expect_request("**/search.js"):
        page.goto(site, wait_until="commit")
    page.get_by_role("searchbox").fill("merge two pdf documents")
    scripts[0].continue_()

    expect(page.locator(RESULTS).first).to_have_text("merge_pdfs")
    expect(page).to_have_url(f"{site}/?q=merge+two+pdf+documents")


def test_only_one_request_is_in_flight_and_the_last_is_shown(visit, site):
    page = visit(site)
    page.clock.install()
    held = []

    def hold_the_first(route):
        held.append(route)
        if len(held) > 1:
            route.continue_()

    page.route("**/?q=*", hold_the_first)
    box = page.get_by_role("searchbox")
    # The text is filled at once, because a slow machine may pause after each typed letter for long
    # enough to send a request.
    with page.expect_request("**/?q=merge"):
        box.fill("merge")
        page.clock.run_for(300)
    box.fill("merge two pdf files")
    # This is longer than the delay before a request.
    page.clock.run_for(300)
    asked = [route.request.url for route in held]
    held[0].continue_()

    expect(page).to_have_url(f"{site}/?q=merge+two+pdf+files")
    assert asked == [f"{site}/?q=merge"]
    assert len(held) == 2


def test_a_screen_reader_announces_the_results(visit, site):
    page = visit(site)
    # Screen readers announce changes of an element that already exists.
    told = page.get_by_role("status").element_handle()
    typing(page, "merge pdf")

    expect(page.locator(RESULTS).first).to_be_visible()
    assert re.match(r"\d results? in \d+ ms", told.inner_text())
    expect(page.get_by_role("status")).to_have_count(1)


def test_keys_move_to_the_field_through_the_results_and_open_a_tool(visit, site):
    page = visit(f"{site}/?q=merge+pdf+files")
    links = page.locator(RESULTS)
    page.keyboard.press("j")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("j")
    expect(page.get_by_role("searchbox")).to_have_value("jmerge pdf files")
    page.keyboard.press("Backspace")
    page.keyboard.press("ArrowDown")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("send mail")
    expect(page.get_by_role("searchbox")).to_have_value("send mail")
    expect(page).to_have_url(f"{site}/?q=send+mail")
    page.keyboard.press("ArrowDown")
    name = links.first.inner_text()
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def test_the_focus_keeps_its_place_when_new_results_arrive(visit, site):
    page = visit(f"{site}/?q=merge+pdf+files")
    held = []
    page.route("**/?q=*", lambda route: held.append(route))
    with page.expect_request("**/?q=send*"):
        page.get_by_role("searchbox").fill("send mail")
    page.get_by_role("searchbox").press("ArrowDown")
    page.keyboard.press("j")
    before = page.locator(RESULTS).nth(1).inner_text()
    held[0].continue_()

    expect(page).to_have_url(f"{site}/?q=send+mail")
    expect(page.locator(RESULTS).nth(1)).not_to_have_text(before)
    expect(page.locator(RESULTS).nth(1)).to_be_focused()


def test_an_answer_to_an_outdated_query_does_not_replace_the_results(visit, site):
    page = visit(f"{site}/?q=merge+pdf+files")
    page.locator(RESULTS).first.evaluate("it => it.dataset.kept = ''")
    held = []
    page.route("**/?q=*", lambda route: held.append(route))
    box = page.get_by_role("searchbox")
    with page.expect_request("**/?q=send*"):
        box.fill("send mail")
    box.fill("merge pdf files")
    with page.expect_request_finished():
        held[0].continue_()

    expect(page.locator("#results")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator(RESULTS).first).to_have_attribute("data-kept", "")
    expect(page).to_have_url(f"{site}/?q=merge+pdf+files")


def test_single_letter_keys_can_be_turned_off_permanently(visit, site):
    page = visit(f"{site}/?q=merge+pdf+files")
    switch = page.get_by_role("checkbox", name="keys")
    expect(switch).to_be_checked()
    switch.uncheck()
    switch.blur()
    for letter in "j/":
        page.keyboard.press(letter)
    expect(page.locator("body")).to_be_focused()
    page.get_by_role("searchbox").press("ArrowDown")
    expect(page.locator(RESULTS).first).to_be_focused()
    page.reload()
    expect(switch).not_to_be_checked()
    switch.check()
    switch.blur()
    page.keyboard.press("j")

    expect(page.locator(RESULTS).first).to_be_focused()


def test_going_back_restores_the_last_search(visit, site):
    page = visit(site)
    typing(page, "send mail")
    expect(page).to_have_url(f"{site}/?q=send+mail")
    first = page.locator(RESULTS).first
    name = first.inner_text()
    first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.go_back()

    expect(page.get_by_role("searchbox")).to_have_value("send mail")
    expect(page.locator(RESULTS).first).to_have_text(name)


@pytest.mark.parametrize("scripts", [True, False])
def test_a_link_contains_the_whole_query(visit, site, scripts):
    page = visit(site, java_script_enabled=scripts)
    page.get_by_role("searchbox").fill("send a message")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Rank by").select_option("keywords")
    page.locator("[name=scope]").select_option("MCP servers' tools")
    page.get_by_label("Category").fill("mail")
    page.get_by_label("Minimum confidence").fill("0.01")
    page.get_by_label("Results", exact=True).fill("2")
    # Scripts may show the same results earlier, and then the page would change meanwhile.
    with page.expect_navigation():
        page.get_by_role("button", name="Search").click()
    expect(page.locator(RESULTS)).to_have_count(2)
    other = visit(page.url, java_script_enabled=not scripts)

    for fresh in (page, other):
        assert fresh.locator(RESULTS).all_inner_texts() == page.locator(RESULTS).all_inner_texts()
        expect(fresh.get_by_role("searchbox")).to_have_value("send a message")
        expect(fresh.get_by_label("Rank by")).to_have_value("bm25")
        expect(fresh.get_by_label("Category")).to_have_value("mail")
        expect(fresh.get_by_label("Results", exact=True)).to_be_visible()


def test_a_mistake_is_shown_while_typing_until_it_is_corrected(visit, site):
    page = visit(f"{site}/?q=send+mail", refused=True)
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Category").fill("mial")
    expect(page.get_by_role("alert")).to_contain_text("mail")
    page.get_by_label("Category").fill("mail")

    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator(RESULTS).first).to_be_visible()


def test_a_stopped_server_is_reported_and_an_ended_session_asks_for_the_token(visit, serve):
    with serve(PYTOOLS_TOKEN="secret") as address:
        page = visit(f"{address}/?q=send+mail", refused=True)
        page.get_by_label("Token").fill("secret")
        # Until it is loaded, a page does not search for what is typed.
        with page.expect_navigation():
            page.get_by_role("button", name="Log in").click()
        expect(page.locator(RESULTS).first).to_be_visible()
        cookies = page.context.cookies()
        page.context.clear_cookies()
        typing(page, "s")
        expect(page.get_by_label("Token")).to_be_visible()
        page.context.add_cookies(cookies)
        with page.expect_navigation():
            page.get_by_role("link", name="Continue").click()
        expect(page.get_by_role("searchbox")).to_have_value("send mails")
    typing(page, " today")

    expect(page.get_by_role("status")).to_have_text("The server does not answer.")
