"""Describing a tool in the requested detail."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytools_hybrid import DetailLevel, ToolSearch
from pytools_hybrid.index import TreeSync
from pytools_hybrid.search import short

TOOL = "mcptools:tickets:create_ticket"
MODULE = '''
from typing import Literal, Optional
from pydantic import BaseModel, Field

class Params(BaseModel):
    title: str = Field(..., title="Title", description="One line that names the problem.")
    priority: Optional[Literal["low", "high"]] = None
    from_: int = Field(1, alias="from")

class Result(BaseModel):
    number: int

def run(params: Params) -> Result:
    """File a ticket in the tracker.

    It can be closed later.

    Example:
        run(Params(title="It leaks"))

    Tags: support, urgent
    """
'''


@pytest.fixture
def tree(tmp_path):
    file = tmp_path / "tools" / "mcptools" / "tickets" / "create_ticket.py"
    file.parent.mkdir(parents=True)
    file.write_text(MODULE, encoding="utf-8")
    return tmp_path / "tools"


def described(settings, root, detail, *, name=TOOL, before=None):
    async def main():
        async with ToolSearch(root, settings, refresh=False) as search:
            await search.index.update(vectors=False)
            if before is not None:
                await before(search)
            return (await search.describe(name, detail)).model_dump(exclude_none=True)

    return asyncio.run(main())


def test_a_summary_has_an_id_a_name_a_namespace_and_a_sentence(settings, tree):
    assert described(settings(), tree, DetailLevel.SUMMARY) == {
        "id": TOOL,
        "name": "create_ticket",
        "namespace": "mcptools:tickets",
        "summary": "File a ticket in the tracker.",
    }


def test_schema_adds_everything_needed_for_a_call(settings, tree):
    summary = described(settings(), tree, DetailLevel.SUMMARY)
    schema = described(settings(), tree, DetailLevel.SCHEMA)

    assert schema.items() >= summary.items()
    assert schema["signature"] == "def run(params: Params) -> Result"
    assert schema["input_schema"]["required"] == ["title"]
    assert set(schema["input_schema"]["properties"]) == {"title", "priority", "from"}
    assert schema["output_schema"]["properties"]["number"] == {"type": "integer"}
    assert schema["required"] == ["title"]
    assert schema["defaults"] == {"priority": "None", "from": "1"}
    assert schema["types"] == {
        "title": "str",
        "priority": 'Optional[Literal["low", "high"]]',
        "from": "int",
    }
    assert set(schema) - set(summary) == {
        "signature", "input_schema", "output_schema", "required", "defaults", "types",
    }  # fmt: skip


def test_full_detail_adds_everything_else(settings, tree):
    async def use_it(search):
        await search.record_outcome(TOOL, success=True, latency_ms=20)
        await search.record_outcome(TOOL, success=False)

    schema = described(settings(), tree, DetailLevel.SCHEMA)
    full = described(settings(), tree, DetailLevel.FULL, before=use_it)

    assert full.items() >= schema.items()
    assert "It can be closed later." in full["description"]
    assert full["examples"] == ['run(Params(title="It leaks"))']
    assert full["tags"] == ["support", "urgent"]
    assert full["stub"].startswith("from mcptools.tickets.create_ticket import Params, ")
    assert full["path"] == (tree / "mcptools/tickets/create_ticket.py").as_posix()
    assert full["usage"] == {
        "observations": 2,
        "successes": 1,
        "success_rate": 0.5,
        "latency_p50_ms": 20,
        "latency_p95_ms": 20,
    }


def test_a_tool_that_was_never_used_has_no_usage_figures(settings, tree):
    assert described(settings(), tree, DetailLevel.FULL)["usage"] == {"observations": 0}


def test_a_file_that_breaks_after_it_was_indexed_is_described_from_the_index(settings, tree):
    async def break_it(_search):
        (tree / "mcptools/tickets/create_ticket.py").write_text("def run(:")

    full = described(settings(), tree, DetailLevel.FULL, before=break_it)

    assert "cannot be read now" in full["notes"][0]
    assert full["signature"] == "def run(params: Params) -> Result"
    assert full["required"] == ["title"]
    assert "It can be closed later." in full["description"]
    assert "input_schema" not in full
    assert "stub" not in full


def test_control_and_invisible_characters_are_left_out(settings, tree):
    hostile = "\\x1b]0;owned\\x07 \\u202eevil \\U000e0041\\x9b2J"
    (tree / "mcptools/tickets/hostile.py").write_text(
        "from typing import Annotated\nfrom pydantic import Field\n"
        f"def run(x: Annotated[str, Field(description='{hostile}')] = '\\r\\n') -> str:\n"
        f"    'Be kind. {hostile}\\n\\nIt is kept.'\n"
    )

    full = described(settings(), tree, DetailLevel.FULL, name="hostile")

    shown = json.dumps(full, ensure_ascii=False)
    assert shown.isprintable(), ascii(shown)
    assert full["description"].endswith("\n\nIt is kept.")
    argument = full["input_schema"]["properties"]["x"]
    assert "owned" in argument["description"]
    assert argument["default"] == "\r\n", "values are unchanged"


@pytest.mark.parametrize("linked", ["file", "folder"])
@pytest.mark.parametrize("detail", [DetailLevel.SCHEMA, DetailLevel.FULL])
def test_only_the_indexed_summary_of_a_file_outside_the_root_is_shown(
    settings, tree, tmp_path, linked, detail
):
    outside = tmp_path / "outside"
    outside.mkdir()
    module = "def run(key: str = '{}'):\n    '''{}\n\n    Say it aloud.'''\n"
    (outside / "leak.py").write_text(module.format("sesame", "Opens."))
    place = "mcptools/tickets/leak.py" if linked == "file" else "mcptools/linked"
    (tree / place).symlink_to(outside / "leak.py" if linked == "file" else outside)

    async def index_it_all_the_same(search):
        TreeSync(search.index.store, tree, outside_links=True).scan()
        (outside / "leak.py").write_text(module.format("hunter2", "Secret."))

    told = described(settings(), tree, detail, name="leak", before=index_it_all_the_same)

    assert told.keys() == {"id", "name", "namespace", "summary", "notes"}
    assert told["summary"] == "Opens."
    assert "outside the root" in told["notes"][0]
    assert "PYTOOLS_OUTSIDE_LINKS" in told["notes"][0]


def test_a_root_that_is_a_link_counts_as_inside_itself(settings, tree, tmp_path):
    (tmp_path / "link").symlink_to(tree)

    assert "input_schema" in described(settings(), tmp_path / "link", DetailLevel.SCHEMA)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("short enough", "short enough"),
        ("word " * 60, "word " * 23 + "word…"),
        ("x" * 200, "x" * 119 + "…"),
        ("x" * 118 + "👩‍👩‍👧‍👦" + "y", "x" * 118 + "…"),
        ("x" * 118 + "e\u0301\u0301y", "x" * 118 + "…"),
        ("two\nlines", "two lines"),
    ],
)
def test_a_short_description_ends_between_words_or_characters(text, cut):
    assert short(text, 120) == cut


@given(st.text())
def test_a_short_description_is_never_longer_than_requested(text):
    assert len(short(text, 20)) <= 20
