"""Splitting identifiers into words."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolscan import ToolId


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("createPullRequest2", ["create", "pull", "request", "2"]),
        ("HTTPServer2", ["http", "server", "2"]),
        ("create_pull-request.v2", ["create", "pull", "request", "v", "2"]),
        ("XMLHttpRequest", ["xml", "http", "request"]),
        ("getURL", ["get", "url"]),
        ("URLs", ["urls"]),
        ("listPDFsAndIDs2", ["list", "pdfs", "and", "ids", "2"]),
        ("HTTPServers", ["http", "servers"]),
        ("GETsome", ["ge", "tsome"]),
        ("ＡＰＩ_ﬁnder", ["api", "finder"]),
        ("", []),
        ("__", []),
        ("ÉcoleÀParis", ["école", "à", "paris"]),
        ("E\u0301cole", ["école"]),
        ("größeMessen", ["größe", "messen"]),
        ("日本語Tool", ["日本語", "tool"]),
        ("नमस्ते", ["नमस्ते"]),
        ("x²", ["x", "2"]),
        ("a\N{FULLWIDTH LOW LINE}b", ["a", "b"]),
    ],
)
def test_words_are_split_at_case_digits_and_separators(text, words):
    assert ToolId.words_of(text) == words


@given(st.text())
def test_only_separators_and_case_are_lost(text):
    words = ToolId.words_of(text)
    assert all(words)
    assert "".join(words) == "".join(words).lower()
    letters = [char for char in unicodedata.normalize("NFKC", text).lower() if char.isalnum()]
    assert sum(char.isalnum() for char in "".join(words)) == len(letters)


@given(st.lists(st.text("abcxyz", min_size=1), min_size=1))
def test_snake_kebab_and_pascal_case_have_the_same_words(words):
    snake = "_".join(words)
    kebab = "-".join(words)
    pascal = "".join(word.title() for word in words)
    assert ToolId.words_of(snake) == ToolId.words_of(kebab) == words
    if all(len(word) > 1 for word in words):
        assert ToolId.words_of(pascal) == words
