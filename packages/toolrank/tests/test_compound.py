"""A compound request is split into subqueries that may each need an answer."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from toolrank._query import MAX_SUBQUERIES, STOP_WORDS, split_request


@pytest.mark.parametrize(
    ("text", "subqueries"),
    [
        (
            "find the invoice, then convert it to pdf and send it to Bob",
            ["find the invoice", "convert it to pdf", "send it to Bob"],
        ),
        ("List my issues. Close old ones!", ["List my issues", "Close old ones"]),
        ("Are issues open? Close old ones", ["Are issues open", "Close old ones"]),
        ("list my issues\nclose old ones", ["list my issues", "close old ones"]),
        ("search flights as well as hotels nearby", ["search flights", "hotels nearby"]),
        ("read the sheet after that plot a chart", ["read the sheet", "plot a chart"]),
        ("book a flight, and reserve a table", ["book a flight", "reserve a table"]),
        ("merge files AND THEN mail them all", []),
        ("创建新的文件，然后发送邮件", ["创建新的文件", "然后发送邮件"]),
    ],
)
def test_sentences_lines_commas_and_conjunctions_end_a_subquery(text, subqueries):
    assert split_request(text) == subqueries


@pytest.mark.parametrize(
    "text",
    [
        "",
        "merge two pdf files",
        "convert report.pdf to a spreadsheet",
        "round 3.5 to a whole number",
        "fetch https://example.com/a,b?c=d.e once",
        "find tools e.g. for translation of documents",
        "ask Dr. Smith for the results",
        "compare apples vs. Oranges in a chart",
        "find letters of J. Doe to the editor",
        "search acme Inc. shares today",
    ],
)
def test_a_request_for_one_thing_has_no_subqueries(text):
    assert split_request(text) == []


def test_an_abbreviation_may_end_a_sentence():
    subqueries = split_request("get shares of Acme Inc. Then plot the course of it")
    assert subqueries == ["get shares of Acme Inc", "Then plot the course of it"]


def test_a_subquery_needs_two_terms_that_are_not_stop_words():
    assert split_request("find the invoice and send it, please do") == []
    assert split_request("find the invoice and send it to Bob") == [
        "find the invoice",
        "send it to Bob",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "1. find files\n2. send mail",
        "1) find files 2) send mail",
        "- find files\n- send mail",
        "• find files\n\n• send mail",
        "a. find files\nb) send mail",
    ],
)
def test_list_markers_are_removed(text):
    assert split_request(text) == ["find files", "send mail"]
    assert split_request(f"my two jobs:\n{text}") == ["my two jobs", "find files", "send mail"]


def test_a_number_in_a_sentence_is_not_a_list_marker():
    assert split_request("show the top 2. Then plot monthly sales") == [
        "show the top 2",
        "Then plot monthly sales",
    ]


@pytest.mark.parametrize("quotes", ['""', "“”", "«»", "``"])
def test_quoted_text_is_not_split(quotes):
    phrase = f"{quotes[0]}salt, pepper and oil{quotes[1]}"
    text = f"create a page named {phrase} and share the link"
    assert split_request(text) == [f"create a page named {phrase}", "share the link"]


def test_a_fully_quoted_request_is_split():
    assert split_request('"find old files and send a mail"') == ["find old files", "send a mail"]


def test_only_the_longest_subqueries_are_kept_in_order_if_there_are_too_many():
    long = [f"first{n} second{n} third{n}" for n in "abc"]
    short = [f"first{n} second{n}" for n in "defg"]
    text = ". ".join([short[0], long[0], short[1], long[1], short[2], long[2], short[3]])
    kept = split_request(text)
    assert len(kept) == MAX_SUBQUERIES
    assert kept == [short[0], *long]


@given(st.text(st.characters(codec=None), max_size=400))
@example("\0, \ud800. and then ")
@example("a" * 100_000)
@example(" " * 100_000)
@example("\n " * 50_000)
@example("." * 100_000)
@example(", and " * 20_000)
@example('"' * 100_000)
@example("“" * 100_000)
@example("find it now. " * 8_000)
@example("1. " * 30_000)
def test_any_text_has_either_no_subqueries_or_several_that_it_contains(text):
    subqueries = split_request(text)
    assert len(subqueries) in (0, *range(2, MAX_SUBQUERIES + 1))
    plain = re.sub(r"\s+", " ", text)
    for each in subqueries:
        assert each in plain or text.count("1")
        assert sum(word.lower() not in STOP_WORDS for word in re.findall(r"\w+", each)) >= 1
