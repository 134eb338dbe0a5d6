"""The pages that are generated from the code are up to date."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import PATIENCE

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = runpy.run_path(str(DOCS / "make" / "site.py"))


def printed_by(script, environment, folder):
    """Run a script of docs/make as its docstring says."""
    return subprocess.run(
        [sys.executable, DOCS / "make" / script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        timeout=PATIENCE,
    ).stdout


@pytest.mark.parametrize("page", ["cli", "server", "settings"])
def test_a_generated_page_is_up_to_date(page, environment, tmp_path):
    shown = (DOCS / f"{page}.md").read_text("utf-8")

    assert printed_by(f"{page}.py", environment, tmp_path) == shown, (
        "regenerate it, as its script says"
    )


def test_the_settings_name_every_flag_of_the_command_line():
    settings, options = ((DOCS / f"{page}.md").read_text("utf-8") for page in ("settings", "cli"))
    named = dict(re.findall(r"^\| `\w+` \| (?:`(.+?)`)? ?\| `(PYTOOLS_\w+)`", settings, re.M))
    for shown, variable in re.findall(r"^\| (`-.+?`) \|.+\| `(PYTOOLS_\w+)` \|$", options, re.M):
        # `tune` writes the tuning file; these are no settings, or other names of some.
        if variable not in {"PYTOOLS_CONFIG", "PYTOOLS_TUNING", "PYTOOLS_ALPHA"}:
            flags = {flag for flag, setting in named.items() if setting == variable}
            assert flags & set(re.findall(r"--[\w-]+", shown)), (shown, variable)


@pytest.mark.skipif(sys.platform == "win32", reason="git may have converted line endings")
def test_the_life_of_a_datum_is_up_to_date(environment, tmp_path):
    shown = (DOCS / "datum.md").read_text("utf-8")

    assert printed_by("datum.py", environment, tmp_path) == shown, (
        "regenerate it, as its script says"
    )


def test_the_table_of_decisions_has_each_with_its_title():
    table = (DOCS / "decisions" / "README.md").read_text("utf-8")

    assert re.findall(r"^\| \[(\d+)\]\((.+?)\) \| (.+) \|$", table, re.M) == [
        (
            str(int(file.name[:4])),
            file.name,
            file.read_text("utf-8").splitlines()[0].partition(". ")[2],
        )
        for file in sorted((DOCS / "decisions").glob("0*.md"))
    ]


def test_the_terms_of_the_glossary_are_in_alphabetical_order():
    terms = re.findall(r"^\*\*(.+?)\*\*", (DOCS / "glossary.md").read_text("utf-8"), re.M)

    assert len(terms) > 20
    assert terms == sorted(terms, key=str.casefold)


@pytest.mark.parametrize(
    ("document", "target", "on_site"),
    [
        ("README.md", "docs/architecture.md", "architecture.md"),
        ("README.md", "packages/toolscan", "packages/toolscan/README.md"),
        ("docs/architecture.md", "../benchmarks/RESULTS.md", "benchmarks/RESULTS.md"),
        ("docs/guides/http.md", "agents.md#call_tool", "agents.md#call_tool"),
        ("docs/guides/agents.md", "../../examples/README.md", "../examples/README.md"),
        ("packages/toolscan/README.md", "../toolindex", "../toolindex/README.md"),
        ("README.md", "https://ai.pydantic.dev/models/", "https://ai.pydantic.dev/models/"),
    ],
)  # fmt: skip
def test_links_lead_to_the_same_place_on_the_site(document, target, on_site):
    page = SITE["as_page"](f"See [it]({target}).\n", document)

    assert page == f"See [it]({on_site}).\n"


def test_the_site_shows_code_blocks_without_the_markers_for_tests():
    page = SITE["as_page"]("```json call\n[a](README.md)\n```\n", "docs/guides/http.md")

    assert page == "```json\n[a](README.md)\n```\n"
