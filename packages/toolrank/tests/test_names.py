"""A row whose name equals the request is found, in any spelling of the name."""

from contextlib import closing

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from toolrank import IdColumn, name_key
from toolrank._names import NameRetriever, name_share
from toolrank.errors import RankingArgumentError, RetrievalError

CONTENT = IdColumn(table="docs", column="id")
KEYS = ("name_key", "full_key")
NAMES = [
    *[("github", "create_pull_request"), ("gitlab", "createPullRequest"), ("github", "search")],
    *[("jira", "search"), ("mail", "email"), ("stats", "t_test"), ("files", "merge2pdfs")],
]


def fill(connection):
    connection.execute("CREATE TABLE docs (id TEXT UNIQUE, name_key TEXT, full_key TEXT)")
    for group, name in NAMES:
        connection.execute(
            "INSERT INTO docs VALUES (?, ?, ?)",
            (f"{group}:{name}", name_key(name), name_key(group + name)),
        )
    return connection


@pytest.fixture
def named(connection):
    return fill(connection)


def find(connection, text, *, depth=10, **options):
    retriever = NameRetriever(connection, content=CONTENT, keys=KEYS, **options)
    return [(hit.id, hit.score) for hit in retriever.retrieve(text, depth=depth)]


BOTH = [("github:create_pull_request", 1.0), ("gitlab:createPullRequest", 1.0)]


@pytest.mark.parametrize(
    "text",
    [
        "create_pull_request",
        "createPullRequest",
        "create pull request",
        "create-pull-request",
        "  Create_Pull_Request()  ",
        "CREATEPULLREQUEST",
        "ｃｒｅａｔｅ pull request",
    ],
)
def test_every_spelling_of_a_name_finds_its_rows(named, text):
    assert find(named, text) == BOTH


@pytest.mark.parametrize(
    "text",
    ["github create pull request", "github.create_pull_request", "github:create_pull_request"],
)
def test_a_name_with_its_category_finds_only_that_row(named, text):
    assert find(named, text) == BOTH[:1]


@pytest.mark.parametrize(
    "text",
    [
        "use create_pull_request to propose the change",
        "call `createPullRequest()`, please",
        "what does create-pull-request do?",
        "it is (create.pull.request)",
    ],
)
def test_an_identifier_within_a_longer_request_is_a_mention(named, text):
    assert find(named, text) == [(id_, 0.5) for id_, _ in BOTH]


@pytest.mark.parametrize(
    "text",
    [
        "search for my files",
        "send an e-mail to Bob",
        "run a T-test on the groups",
        "please search",
        "at 10:30 or 3.5 days",
        "",
        "?!",
        "\0",
        "\ud800",
        "email" + " " * 300 + "me",
    ],
)
def test_ordinary_words_in_a_longer_request_are_not_names(named, text):
    assert find(named, text) == []


def test_a_pasted_document_is_not_searched_for_names(named):
    text = "use create_pull_request " * 21
    assert find(named, text[:480])
    assert find(named, text) == []


def test_an_index_on_the_keys_is_used(named):
    for key in KEYS:
        named.execute(f"CREATE INDEX by_{key} ON docs ({key})")
    retriever = NameRetriever(named, content=CONTENT, keys=KEYS)
    plan = list(named.execute("EXPLAIN QUERY PLAN " + retriever._sql, ("[]",) * 3))
    assert not [step for *_, step in plan if step.startswith("SCAN docs")]


def test_a_missing_column_is_a_retrieval_error(named):
    retriever = NameRetriever(named, content=CONTENT, keys=("missing",))
    with pytest.raises(RetrievalError, match="missing") as caught:
        retriever.retrieve("search", depth=1)
    assert caught.value.retriever == "name"


def test_column_names_must_be_plain_identifiers(named):
    with pytest.raises(RankingArgumentError) as caught:
        NameRetriever(named, content=CONTENT, keys=("a b",))
    assert caught.value.argument == "keys"


@pytest.mark.parametrize(
    ("request_", "name", "share"),
    [
        ("merging two files", "merge_pdfs", 1 / 2),
        ("merge these PDFs", "mergePdfs", 1.0),
        ("what will the weather be", "get_forecast", 0.0),
        ("", "merge_pdfs", 0.0),
        ("merge", "", 0.0),
        ("喂企鹅", "喂企鹅", 1.0),
        ("merge " * 100_000, "merge", 1.0),
    ],
)
def test_the_share_of_a_names_words_in_a_query_is_computed(request_, name, share):
    assert name_share(request_, name) == share


@given(st.text(st.characters(codec=None), max_size=300))
@example("create_\0x")
@example("a_\ud800b")
@example("_" * 500)
@example("a" * 100_000)
@example("a_b " * 30_000)
@example("Aa" * 250)
def test_no_text_makes_a_search_fail(text):
    with closing(apsw.Connection(":memory:")) as connection:
        find(fill(connection), text)
        assert find(connection, f"a merge2_pdfs, {text[:400]}")[-1][1] == 0.5
