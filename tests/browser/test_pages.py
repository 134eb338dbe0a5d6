"""Every page: accessible, on a phone, in dark mode, and without JavaScript."""

import json
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

PAGES = {
    "start": "/",
    "results": "/?q=merge+two+pdf+documents&mode=hybrid&category=pdf",
    "nothing found": "/?q=zzzz+qqqq&threshold=1",
    "a mistake": "/?q=mail&category=mial",
    "catalogue": "/console/tools",
    "category": "/console/tools?category=github",
    "tool": "/console/tools/mcptools:github:create_issue?q=report+a+bug",
    "usage": "/console/usage",
    "health": "/console/health",
    "no such tool": "/console/tools/creat_issue",
}
PHONE = {"width": 360, "height": 740}
# axe's lower levels are a matter of taste.
SERIOUS = {"serious", "critical"}


@pytest.fixture(params=PAGES.values(), ids=PAGES.keys(), scope="module")
def page(request, visit_once, site):
    opened = visit_once(site + request.param, refused=True)
    yield opened
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_accessible(page, scheme):
    page.emulate_media(color_scheme=scheme)
    # In dark mode, only the colours differ.
    options = {"runOnly": ["color-contrast"]} if scheme == "dark" else None
    found = Axe().run(page, options=options).response["violations"]

    serious = [it for it in found if it["impact"] in SERIOUS]
    assert not serious, json.dumps(serious, indent=1)
    expect(page.locator("h1")).to_have_count(1)


def test_a_page_fits_the_width_of_a_phone(page):
    usual = page.viewport_size
    page.set_viewport_size(PHONE)
    width = page.evaluate("document.documentElement.scrollWidth")
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    places = links.evaluate_all("all => all.map(it => it.getBoundingClientRect().toJSON())")
    page.set_viewport_size(usual)

    assert width <= PHONE["width"]
    # All links are visible, in one row.
    assert len({it["top"] for it in places}) == 1
    assert max(it["height"] for it in places) < 45
    assert max(it["right"] for it in places) <= PHONE["width"]


def test_a_page_has_a_dark_and_a_light_mode(page):
    def brightness(of):
        colour = page.evaluate(f"getComputedStyle(document.body).{of}")
        return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")))

    page.emulate_media(color_scheme="light")
    assert brightness("backgroundColor") > 600 > 300 > brightness("color")
    page.emulate_media(color_scheme="dark")
    assert brightness("backgroundColor") < 300 < 600 < brightness("color")


def test_a_page_is_complete_without_javascript(page, visit_once):
    plain = visit_once(page.url, refused=True, java_script_enabled=False)

    def text(shown):
        # Only scripts show the keys, because these do nothing without scripts.
        shown.locator("#keys").evaluate_all("all => all.forEach(it => it.hidden = true)")
        # Times differ, and the index grows as searches are recorded in the background.
        lines = shown.locator("main").inner_text().split("\n")
        return [line for line in lines if not re.search(" (ms|MB|UTC)", line)]

    assert text(plain) == text(page)
    expect(plain.get_by_role("navigation", name="Pages").get_by_role("link")).not_to_have_count(0)
    plain.close()


def test_the_skip_link_leads_to_the_content(visit, site):
    page = visit(f"{site}/console/tools")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip")).to_be_in_viewport()
    page.keyboard.press("Enter")

    expect(page).to_have_url(f"{site}/console/tools#main")


def test_the_health_page_reloads_on_request_until_it_is_stopped(visit, serve, tmp_path):
    root = tmp_path / "tools"
    for number in (1, 2):
        (root / f"mcptools/mail/send_{number}.py").parent.mkdir(parents=True, exist_ok=True)
        (root / f"mcptools/mail/send_{number}.py").write_text("def run(to: str): 'Send mail.'\n")
    with serve(root) as address:
        page = visit(f"{address}/console/health", refused=True)
        tools = page.locator("#tools")
        expect(tools).to_have_text("2")
        page.get_by_role("link", name="Reload").click()
        (root / "mcptools/mail/send_3.py").write_text("def run(to: str): 'Send more mail.'\n")
        expect(tools).to_have_text("3")
        page.get_by_role("link", name="Stop").click()
        expect(page.locator("meta[http-equiv]")).to_have_count(0)
