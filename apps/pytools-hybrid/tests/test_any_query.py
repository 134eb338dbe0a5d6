"""Any text is a valid query: nothing typed or pasted raises an error."""

import asyncio

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pytools_hybrid import SearchMode, ToolSearch

# Text that has caused trouble in tokenizers, query languages and regular expressions.
HARD = [
    "\0",
    "merge\0pdfs",
    "\ud83d",
    "👩‍👩‍👧‍👦 🧾 🇳🇴",
    "merge 📄📄 into 📄",
    '" OR 1=1 -- NEAR(a b) ^a -b (c* AND',
    "'; DROP TABLE entries; --",
    "name_words: create",
    "ﷺ" * 300,
    "ǅ İ ı ß ﬁ",
    "天" * 5000,
    "a and " * 5000,
    "find x, then y. " * 2000,
    '"' * 9999,
    "create_issue " * 3000,
    "x" * 100_000,
    "merge pdfs " * 9091,
    "tabs\tand\nlines\r\n and\u2028others",
]


@pytest.fixture
def runner():
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def search(settings, toolbox, runner):
    """An open search of an indexed tree."""

    async def opened():
        search = await ToolSearch(toolbox, settings(), refresh=False).__aenter__()
        await search.index.update()
        return search

    search = runner.run(opened())
    yield search
    runner.run(search.__aexit__(None, None, None))


def check(runner, search, text):
    for mode in SearchMode:
        response = runner.run(search.search(text, mode=mode, limit=50))
        ids = [found.entry.id for found in response.tools]
        assert len(set(ids)) == len(ids)
        assert response.lost == ()
        assert response.tools or response.notes
        assert all(0 <= found.score <= 1 for found in response.tools)
        assert all(0 <= found.confidence <= 1 for found in response.tools)


@pytest.mark.parametrize("text", HARD, ids=range(len(HARD)))
def test_difficult_text_is_answered_in_every_mode(runner, search, text):
    check(runner, search, text)


def test_any_text_is_answered_in_every_mode(runner, search):
    words = st.sampled_from(
        ["create", "issue", "create_issue", "and", "then", "PDF", "。", '"', "天气"]
    )

    @hypothesis_settings(suppress_health_check=[HealthCheck.too_slow])
    @given(st.text(st.characters(codec=None)) | st.lists(words, max_size=12).map(" ".join))
    @example("merge and \ud800")
    def any_text(text):
        check(runner, search, text)

    any_text()


@pytest.mark.parametrize("mode", SearchMode)
def test_an_emoji_or_a_nul_does_not_affect_neighbouring_words(runner, search, mode):
    for text in ("merge PDF documents 📄", "merge PDF\0documents", "merge\u200bPDF documents"):
        response = runner.run(search.search(text, mode=mode))

        assert str(response.tools[0].entry.id) == "mcptools:pdf:merge_pdfs"


CHINESE = {
    "mcptools/tianqi/yubao.py": "查询某个城市未来几天的天气预报。",
    "mcptools/weibo/fabu.py": "发布一条微博消息，可以附带图片。",
    "mcptools/youxiang/sousuo.py": "在收件箱里搜索邮件。",
    "mcptools/kalender/senden.py": "メールを送信する。",
}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("明天北京天气怎么样", "mcptools:tianqi:yubao"),
        ("把图片发到微博", "mcptools:weibo:fabu"),
        ("帮我搜索邮件", "mcptools:youxiang:sousuo"),
        ("天气", "mcptools:tianqi:yubao"),
        ("メールを送りたい", "mcptools:kalender:senden"),
    ],
)
@pytest.mark.parametrize("mode", [SearchMode.BM25, SearchMode.HYBRID])
def test_tools_are_found_by_words_of_a_language_without_spaces(
    runner, search, write_tool, mode, text, meant
):
    for path, description in CHINESE.items():
        write_tool(path, description)

    async def found():
        await search.index.update()
        return await search.search(text, mode=mode)

    assert str(runner.run(found()).tools[0].entry.id) == meant


def test_text_that_normalization_makes_too_long_is_truncated(runner, search):
    """Normalization expands one such character to eighteen letters."""

    def found(text):
        return runner.run(search.search(text, mode=SearchMode.BM25)).tools

    assert found("ﷺ " * 10 + "merge pdfs")
    assert not found("ﷺ " * 1200 + "merge pdfs")
