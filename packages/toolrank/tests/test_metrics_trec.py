"""TREC files: other tools can read what is written, and a round trip loses nothing."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toolrank import Contribution, Hit, RankedHit, RankingArgumentError, ToolRankError
from toolrank.metrics import (
    TrecFormatError,
    evaluate,
    ranked_ids,
    read_qrels,
    read_run,
    write_qrels,
    write_run,
)

# Any string, including lone surrogates, and often characters that would split a line.
names = st.text(
    st.one_of(
        st.characters(codec=None), st.sampled_from(" %\t\n\r\x00\x1c\x85\xa0\u2028\ufeff\ud800a2F")
    ),
    min_size=1,
)
scores = st.floats(allow_nan=False, allow_infinity=False)
hit_lists = st.lists(
    st.builds(Hit, id=names, score=scores), min_size=1, unique_by=lambda hit: hit.id
).map(lambda hits: sorted(hits, key=lambda hit: -hit.score))

# Each example rewrites a file in the same folder.
same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def hits(**score_by_id):
    return [Hit(id=id_, score=score) for id_, score in score_by_id.items()]


def written(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_run_is_written_in_trec_format(tmp_path):
    path = tmp_path / "run"
    write_run(path, {"q1": hits(a=2.5, b=1), "q2": hits(a=1e-7)}, tag="bm25")
    assert path.read_bytes() == (
        b"q1 Q0 a 1 2.5 bm25\n"
        b"q1 Q0 b 2 1.0 bm25\n"
        b"q2 Q0 a 1 1e-07 bm25\n"
    )  # fmt: skip


def test_qrels_are_written_in_trec_format(tmp_path):
    path = tmp_path / "qrels"
    write_qrels(path, {"q2": {"b", "a"}, "q1": {"c": 3.0, "d": 0, "e": -1}})
    assert path.read_bytes() == b"q2 0 a 1\nq2 0 b 1\nq1 0 c 3\nq1 0 d 0\nq1 0 e -1\n"


def test_ids_escape_only_characters_that_would_split_a_line(tmp_path):
    path = tmp_path / "qrels"
    write_qrels(path, {"wer ist da?": ["github:create_issue", "100 %", "größe\u00a0日本🙂"]})
    assert path.read_text(encoding="utf-8") == (
        "wer%20ist%20da? 0 100%20%25 1\n"
        "wer%20ist%20da? 0 github:create_issue 1\n"
        "wer%20ist%20da? 0 größe%C2%A0日本🙂 1\n"
    )


@same_folder
@given(run=st.dictionaries(names, hit_lists), tag=names)
def test_a_written_run_is_read_back_unchanged(tmp_path, run, tag):
    write_run(tmp_path / "run", run, tag=tag)
    assert read_run(tmp_path / "run") == run


@same_folder
@given(
    qrels=st.dictionaries(names, st.dictionaries(names, st.integers(-(10**20), 10**20), min_size=1))
)
def test_written_qrels_are_read_back_unchanged(tmp_path, qrels):
    write_qrels(tmp_path / "qrels", qrels)
    assert read_qrels(tmp_path / "qrels") == qrels


@same_folder
@given(run=st.dictionaries(names, hit_lists), tag=names)
def test_every_line_has_six_fields_separated_by_spaces(tmp_path, run, tag):
    write_run(tmp_path / "run", run, tag=tag)
    content = (tmp_path / "run").read_bytes()
    lines = content.decode().splitlines()
    assert len(lines) == content.count(b"\n") == sum(map(len, run.values()))
    assert all(len(line.split()) == 6 for line in lines)


def test_a_ranked_hit_is_written_with_its_score(tmp_path):
    found = Contribution(retriever="bm25", rank=1, score=9.0)
    ranked = RankedHit(id="a", score=0.5, contributions=(found,))
    write_run(tmp_path / "run", {"q": [ranked]})
    assert read_run(tmp_path / "run") == {"q": hits(a=0.5)}


def test_a_query_that_found_nothing_has_no_line_and_scores_zero(tmp_path):
    run, qrels = {"q1": hits(a=1.0), "q2": []}, {"q1": ["a"], "q2": ["b"]}
    write_run(tmp_path / "run", run)
    back = read_run(tmp_path / "run")
    assert back == {"q1": hits(a=1.0)}
    assert evaluate(ranked_ids(back), qrels, ["mrr"]) == evaluate(ranked_ids(run), qrels, ["mrr"])


def test_ranked_ids_returns_the_ids_of_a_run_in_order():
    assert ranked_ids({"q1": hits(b=2, a=1), "q2": []}) == {"q1": ["b", "a"], "q2": []}


def test_a_run_is_sorted_by_score_and_not_by_rank(tmp_path):
    path = written(tmp_path / "run", "q Q0 a 1 0.1 t\np Q0 a 1 1 t\nq Q0 b 2 9 t\nq Q0 c 3 -3 t\n")
    assert read_run(path) == {"q": hits(b=9.0, a=0.1, c=-3.0), "p": hits(a=1.0)}


def test_equal_scores_are_ordered_by_rank_and_then_by_id(tmp_path):
    path = written(tmp_path / "run", "q Q0 c 2 1 t\nq Q0 b 2 1 t\nq Q0 d 1 1 t\n")
    assert [hit.id for hit in read_run(path)["q"]] == ["d", "b", "c"]


@pytest.mark.parametrize(
    "text",
    [
        "q\tQ0\ta\t1\t0.5\tt\n",
        "  q  Q0  a  1  0.5  t\r\n\r\n",
        "\n\nq iter a 1 5e-1 t",
        "\ufeffq Q0 a 1 .5 t",
    ],
    ids=["tabs", "windows", "blank lines", "byte order mark"],
)
def test_files_of_other_tools_are_read(tmp_path, text):
    assert read_run(written(tmp_path / "run", text)) == {"q": hits(a=0.5)}


def test_unicode_spaces_are_part_of_an_id(tmp_path):
    path = written(tmp_path / "qrels", "q 0 a\u00a0b\u2028c 1\n")
    assert read_qrels(path) == {"q": {"a\u00a0b\u2028c": 1}}


def test_a_percent_sign_that_is_not_an_escape_is_literal(tmp_path):
    path = written(tmp_path / "qrels", "q 0 100% 1\nq 0 50%-off 1\n")
    assert read_qrels(path) == {"q": {"100%": 1, "50%-off": 1}}


def test_an_empty_file_has_no_queries(tmp_path):
    assert read_run(written(tmp_path / "empty", "")) == {}
    assert read_qrels(tmp_path / "empty") == {}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("q Q0 a 1 0.5", "5 fields, where 6 belong"),
        ("q Q0 a b 1 0.5 t", "7 fields, where 6 belong"),
        ("q Q0 a first 0.5 t", "rank 'first' and score '0.5' are not two numbers"),
        ("q Q0 a 1 high t", "rank '1' and score 'high' are not two numbers"),
        ("q Q0 a 1 nan t", "rank '1' and score 'nan' are not two numbers"),
        ("q Q0 a 1 1e999 t", "rank '1' and score '1e999' are not two numbers"),
        ("p Q0 x 2 0.5 t", "'x' is twice in query 'p'"),
        (b"q Q0 \xff 1 0.5 t", "it is not UTF-8"),
        ("q Q0 %FF 1 0.5 t", "it is not UTF-8"),
    ],
)
def test_an_invalid_line_of_a_run_is_reported_with_the_expected_format(tmp_path, line, problem):
    good = b"p Q0 x 1 1.0 t\n\n"
    path = written(tmp_path / "run", good + (line if isinstance(line, bytes) else line.encode()))
    with pytest.raises(TrecFormatError) as raised:
        read_run(path)
    assert str(raised.value) == (
        f"{path}, line 3: {problem}; write the line as: qid Q0 docid rank score tag"
    )
    assert (raised.value.path, raised.value.line) == (path, 3)
    assert raised.value.expected == "qid Q0 docid rank score tag"
    assert isinstance(raised.value, ToolRankError)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("q 0 a", "3 fields, where 4 belong"),
        ("q 0 a 0.5", "rel '0.5' is not a whole number"),
        ("p 0 x 2", "'x' is twice in query 'p'"),
    ],
)
def test_an_invalid_line_of_qrels_is_reported_with_the_expected_format(tmp_path, line, problem):
    path = written(tmp_path / "qrels", "p 0 x 1\n" + line)
    with pytest.raises(TrecFormatError) as raised:
        read_qrels(path)
    assert str(raised.value) == f"{path}, line 2: {problem}; write the line as: qid 0 docid rel"


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        ({"q": [Hit(id="a", score=1.0), Hit(id="b", score=2.0)]}, "'b' has score 2.0 after 1.0"),
        ({"q": [Hit(id="a", score=float("nan"))]}, "'a' has score nan"),
        ({"q": [Hit(id="a", score=float("inf"))]}, "'a' has score inf"),
        ({"q": [Hit(id="a", score=2.0), Hit(id="a", score=1.0)]}, "'a' is there twice"),
        ({"q": [Hit(id="", score=2.0)]}, "an empty name"),
        ({"": [Hit(id="a", score=2.0)]}, "an empty name"),
    ],
)
def test_a_run_that_cannot_be_read_back_is_not_written(tmp_path, run, problem):
    path = written(tmp_path / "run", "as it was")
    with pytest.raises(RankingArgumentError, match=problem) as raised:
        write_run(path, {"fine": hits(a=1.0), **run})
    assert raised.value.argument == "run"
    assert path.read_text() == "as it was"


def test_a_run_needs_a_name(tmp_path):
    with pytest.raises(RankingArgumentError, match="an empty name") as raised:
        write_run(tmp_path / "run", {}, tag="")
    assert raised.value.argument == "tag"


@pytest.mark.parametrize(
    ("relevant", "problem"),
    [
        ({"a": 0.5}, "the gain of 'a' is 0.5; give a whole number"),
        ({"a": float("inf")}, "the gain of 'a' is inf; give a whole number"),
        ([], "has no ids"),
        ("a", "'a' is one string"),
        ([7], "7 is not an id"),
        ([""], "an empty name"),
    ],
)
def test_qrels_that_cannot_be_read_back_are_not_written(tmp_path, relevant, problem):
    path = written(tmp_path / "qrels", "as it was")
    with pytest.raises(RankingArgumentError, match=problem) as raised:
        write_qrels(path, {"fine": ["a"], "q": relevant})
    assert raised.value.argument == "qrels"
    assert path.read_text() == "as it was"
