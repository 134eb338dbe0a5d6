"""Learning from a user's own requests, and searching with the result."""

import asyncio
import json
import time
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytools_hybrid import ToolSearch
from pytools_hybrid.cli import main
from pytools_hybrid.learn.evaluate import EvaluationQuery, of_models
from pytools_hybrid.learn.tune import fit, recorded, tune
from pytools_hybrid.search import SearchMode, Tuning, write_tuning
from pytools_hybrid.settings import Roots
from toolembed import StaticEmbedder
from toolindex import OutcomeRecord, SearchRecord

# Words that mean these tools only to the people of one team.
SLANG = {
    "mcptools:slack:post_message": "holler",
    "mcptools:mail:send_email": "pigeon",
    "mcptools:music:play_song": "needle",
    "mcptools:pdf:rotate_pages": "pirouette",
    "mcptools:database:run_query": "oracle",
    "mcptools:maps:plan_route": "caravan",
}
PHRASES = ("{} please", "a {} now", "do the {}", "one more {}", "{} again", "start a {}")
REQUESTS = [(phrase.format(word), id_) for id_, word in SLANG.items() for phrase in PHRASES]
MODEL = StaticEmbedder().model_id


def queries(pairs):
    return [
        EvaluationQuery(id=f"q{number}", text=text, gold=(id_,))
        for number, (text, id_) in enumerate(pairs)
    ]


@pytest.fixture
def requests_file(tmp_path):
    def write(pairs):
        lines = [
            json.dumps({"id": each.id, "query": each.text, "gold": each.gold})
            for each in queries(pairs)
        ]
        file = tmp_path / "queries.jsonl"
        file.write_text("\n".join(lines), encoding="utf-8")
        return file

    return write


async def once(root, settings, text):
    async with ToolSearch(root, settings) as tools:
        return await first(tools, text)


async def first(tools, text):
    response = await tools.search(text, limit=1)
    return str(response.tools[0].entry.id), response


def test_open_searches_use_a_new_tuning_and_it_can_be_undone(toolbox, settings, capsys):
    async def search():
        async with ToolSearch(toolbox, settings()) as tools:
            before, _ = await first(tools, "the holler")
            vectors = _vectors(tools)
            outcome = await tune(settings(), Roots.of(toolbox), queries(REQUESTS))
            assert outcome.is_better
            write_tuning(tools.tuning.path, outcome.tuning)

            after, _ = await first(tools, "the holler")
            assert after == "mcptools:slack:post_message"
            assert after != before
            assert (await first(tools, "join two pdf documents"))[0] == "mcptools:pdf:merge_pdfs"
            assert _vectors(tools) == vectors
            return before

    before = asyncio.run(search())
    common = ["--root", str(toolbox), "--database", str(settings().db_path)]
    main_(["status", *common])
    assert "tuned:       36 requests, ndcg@10 0." in capsys.readouterr().out
    main_(["tune", *common, "--undo"])
    assert asyncio.run(once(toolbox, settings(), "the holler"))[0] == before


def test_contradictory_requests_change_nothing(toolbox, settings, requests_file, capsys):
    async def every():
        async with ToolSearch(toolbox, settings()) as tools:
            return [str(entry.id) for entry in await tools.entries()]

    ids = asyncio.run(every())
    # No word or phrase belongs to one tool more often than to another.
    file = requests_file(
        [(text, ids[7 * number % len(ids)]) for number, (text, _) in enumerate(REQUESTS)]
    )

    with pytest.raises(SystemExit) as ended:
        main(tuning(toolbox, settings, file))

    assert ended.value.code == 1
    assert "nothing was written, because the improvement may be due" in capsys.readouterr().err
    assert not settings().resolved_tuning(toolbox).exists()


def test_fewer_than_ten_requests_are_refused(toolbox, settings, requests_file, capsys):
    file = requests_file(REQUESTS[:9])

    with pytest.raises(SystemExit):
        main(tuning(toolbox, settings, file))

    problem = "9 queries are too few to learn from; name a file with at least 10"
    assert f"--queries: {problem}" in capsys.readouterr().err


def test_a_record_with_too_few_requests_is_refused_with_what_to_do(root, settings, capsys):
    asyncio.run(once(root, settings(), "join documents into one"))

    with pytest.raises(SystemExit):
        main(["tune", "--root", str(root), "--database", str(settings().db_path), "--since", "30"])

    problem = "0 queries are too few to learn from; name a file with at least 10"
    assert f"--queries: {problem}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "it was not written by pytools-hybrid tune"),
        (b"[1]", "it was not written by pytools-hybrid tune"),
        (
            Tuning(
                model_id="another:model",
                down=([0.0] * 256,),
                up=([0.0] * 256,),
                requests=10,
                before=0.5,
                after=0.6,
            ).as_bytes(),
            "it was tuned for another:model",
        ),
    ],
)
def test_an_unusable_tuning_file_is_ignored_with_a_note(root, settings, content, reason):
    settings().resolved_tuning(root).write_bytes(content)

    found, response = asyncio.run(once(root, settings(), "join documents into one"))

    assert found == "mcptools:pdf:merge_pdfs"
    assert any("is ignored: " + reason in note for note in response.notes)


def test_a_file_that_is_not_a_tuning_is_not_overwritten(
    root, tmp_path, requests_file, capsys, monkeypatch
):
    precious = tmp_path / "notes.txt"
    precious.write_text("mine")
    monkeypatch.setenv("PYTOOLS_TUNING", str(precious))

    for arguments in (["--queries", str(requests_file(REQUESTS))], ["--undo"]):
        with pytest.raises(SystemExit):
            main(["tune", "--root", str(root), *arguments])
        assert "is not a tuning file; name a new file" in capsys.readouterr().err

    assert precious.read_text() == "mine"


def test_recorded_searches_are_paired_with_tools_that_then_worked():
    now = time.time()

    def search(id_, at, query, *results):
        return SearchRecord(
            id=id_, at=now + at, query=query, mode="hybrid", results=results, latency_ms=1.0
        )

    def outcome(at, tool, *, success=True, search_id=None):
        return OutcomeRecord(at=now + at, tool_id=tool, success=success, search_id=search_id)

    found = recorded(
        [search("1", 0, "named", "a"), search("2", 1, "followed", "b", "c"), search("3", 2, "no")],
        [
            outcome(5, "a", search_id="1"),
            outcome(6, "c"),
            outcome(7, "b", success=False),
            outcome(5_000, "b"),
        ],
    )

    assert [(each.text, each.gold) for each in found] == [("named", ("a",)), ("followed", ("c",))]


numbers = st.floats(-1, 1, width=32)
rows = st.lists(numbers, min_size=4, max_size=4)


@given(
    down=st.lists(rows, min_size=2, max_size=2),
    up=st.lists(rows, min_size=2, max_size=2),
    vector=rows,
)
def test_a_tuning_read_from_its_file_maps_the_same_without_numpy(down, up, vector):
    tuning = Tuning(
        model_id="m", down=tuple(down), up=tuple(up), requests=10, before=0.1, after=0.2
    )
    read = Tuning.parse(tuning.as_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "numpy", None)
        without = read.mapped(array("f", vector))

    assert without == pytest.approx(tuning.mapped(vector), abs=1e-6)
    assert str(read) == str(tuning)


def test_a_few_requests_change_vectors_only_a_little():
    import numpy as np

    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(310, 64))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked, tools = vectors[:10], vectors[10:]

    down, up = fit(asked, tools, [[number] for number in range(10)])

    others = generator.normal(size=(100, 64))
    moved = others + others @ down.T @ up
    cosines = (
        (moved * others).sum(1) / np.linalg.norm(moved, axis=1) / np.linalg.norm(others, axis=1)
    )
    assert cosines.min() > 0.9


def test_each_model_is_compared_and_a_tuned_one_also_untuned(tmp_path, settings):
    file = tmp_path / "tuned"
    write_tuning(
        file,
        Tuning(
            model_id=MODEL,
            down=([0.0] * 256,),
            up=([0.0] * 256,),
            requests=10,
            before=0.1,
            after=0.2,
        ),
    )

    compared = of_models(settings(tuning=file), ["static", "test", "none"], None)

    assert [(each.name, dict(each.selected_by)) for each in compared] == [
        ("static", {}),
        ("static (untuned)", {"PYTOOLS_TUNING": "none"}),
        ("test", {"PYTOOLS_EMBEDDING_MODEL": "test"}),
        ("none", {"PYTOOLS_EMBEDDING_MODEL": "none"}),
    ]
    assert {each.mode for each in compared} == {SearchMode.HYBRID}


def tuning(root, settings, file):
    arguments = {"--root": root, "--database": settings().db_path, "--queries": file}
    return ["tune", *(str(part) for pair in arguments.items() for part in pair)]


def main_(arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert not ended.value.code


def _vectors(tools):
    with tools.index.store.reading() as reader:
        return reader.vectors(MODEL)
