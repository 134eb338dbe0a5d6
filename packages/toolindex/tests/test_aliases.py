"""Aliases: words by which tools are found although their files do not contain them."""

import apsw
import pytest
from toolindex import DatabaseError, ToolIndex
from toolindex._rows import alias_words

SHELL, FETCH = "mcptools:shell:run_command", "mcptools:web:fetch"
TOOLS = {SHELL: "Run a command.", FETCH: "Fetch a page."}


@pytest.fixture
def filled(index, fill):
    """An index of two tools."""
    fill(index, TOOLS, model_id="m")
    return index


def aliases_of(index):
    with index.reading() as reader:
        return {id_: entry.aliases for id_, entry in reader.entries(list(TOOLS)).items()}


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([], ""),
        (["Commit with git", "git push"], "commit with git git push"),
        (["runCommand", "s3_upload"], "runcommand run command s3 s 3 upload"),
        (["メール送信", "mail"], "メール送信 mail メー ール ル送 送信"),
        (["  ", "-"], ""),
    ],
)
def test_aliases_are_split_like_names_and_keep_their_order(texts, words):
    assert alias_words(texts) == words


def test_a_tool_is_found_by_its_aliases_in_their_own_column(filled, matches):
    filled.annotate({SHELL: ["commit changes with git", "terminal"]})
    assert matches(filled, "alias_words: committing") == {SHELL}
    assert matches(filled, "description: git") == set()
    assert matches(filled, "terminal") == {SHELL}


def test_aliases_without_spaces_are_found_by_a_part_of_them(filled, matches):
    filled.annotate({SHELL: ["端末を開く"]})
    assert matches(filled, '"端末"') == {SHELL}


def test_aliases_do_not_affect_vectors(filled):
    filled.annotate({SHELL: ["terminal"]})
    assert filled.count_pending("m") == 0
    with filled.reading() as reader:
        assert reader.coverage("m").vectors == 2


def test_reading_the_aliases_uses_an_index(filled):
    with filled.reading() as reader:
        plan = reader.connection.execute(
            "EXPLAIN QUERY PLAN SELECT id, aliases FROM entries WHERE aliases != '[]'"
        ).fetchall()
    assert "entries_with_aliases" in str(plan)


def test_a_read_only_index_accepts_only_the_aliases_it_already_has(filled):
    filled.annotate({SHELL: ["terminal"]})
    filled.close()
    with ToolIndex(filled.path, read_only=True) as index:
        assert index.annotate({SHELL: ["terminal"]}) == 0
        with pytest.raises(DatabaseError, match="read-only"):
            index.annotate({})
        assert aliases_of(index)[SHELL] == ("terminal",)


def test_aliases_that_another_process_has_set_are_not_set_again(path, fill):
    """Here, it sets them after this process compared them and before this process locks."""
    ahead = []

    def overtaken(_, sql, __):
        if sql.startswith("BEGIN IMMEDIATE") and not ahead:
            ahead.append(None)
            ahead.append(other.annotate({SHELL: ["terminal"]}))
        return True

    with ToolIndex(path) as other:
        fill(other, TOOLS)
        apsw.connection_hooks.append(lambda connection: connection.set_exec_trace(overtaken))
        try:
            with ToolIndex(path) as index:
                assert index.annotate({SHELL: ["terminal"]}) == 0
        finally:
            apsw.connection_hooks.pop()
    assert ahead == [None, 1]
