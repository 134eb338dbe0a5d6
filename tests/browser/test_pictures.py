"""The guide's pictures: they exist, have the size of the page, and are small.

After a change of the pages: `uv run nox -s browser -- -k picture --write`.
"""

from pathlib import Path

import pytest
from playwright.sync_api import expect

DOCUMENTS = Path(__file__).parents[2] / "docs"
GUIDE = DOCUMENTS / "guides" / "console.md"
WIDE, PHONE = {"width": 1000, "height": 660}, {"width": 390, "height": 760}
PICTURES = {
    "console-light": ("/?q=merge+two+pdf+documents", "light", WIDE),
    "console-dark": ("/?q=merge+two+pdf+documents", "dark", WIDE),
    "console-phone": ("/?q=merge+two+pdf+documents", "light", PHONE),
    "console-why": (
        "/console/tools/mcptools:mail:send_email?q=pass+the+bill+on+to+accounting",
        "light",
        WIDE,
    ),
}
LARGEST = 100_000


@pytest.mark.parametrize("name", PICTURES)
def test_each_picture_of_the_guide_has_the_size_of_its_page(visit, site, name, request):
    path, scheme, size = PICTURES[name]
    page = visit(site + path, color_scheme=scheme, viewport=size)
    expect(page.get_by_role("status")).to_be_in_viewport()
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport()
    picture = page.screenshot()
    file = DOCUMENTS / "images" / f"{name}.png"
    if request.config.getoption("--write"):
        file.write_bytes(picture)

    kept = file.read_bytes()
    assert kept[:4] == b"\x89PNG"
    # These bytes of a PNG file are its width and height.
    assert kept[16:24] == picture[16:24]
    assert max(len(kept), len(picture)) <= LARGEST
    assert f"](../images/{name}.png)" in GUIDE.read_text("utf-8")
