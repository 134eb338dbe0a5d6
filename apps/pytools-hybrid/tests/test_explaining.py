"""Why a tool was found, in numbers and in words."""

from dataclasses import replace

import pytest
from pytools_hybrid import FoundTool, MatchType
from pytools_hybrid.search import ChannelScore, breakdown, reason
from toolindex import ToolEntry
from toolrank import Contribution, Explanation
from toolscan import ToolId

ENTRY = ToolEntry(
    id=ToolId(source="mcptools", category="pdf", name="merge_pdfs"),
    path="mcptools/pdf/merge_pdfs.py",
    signature="def run(text: str) -> str",
    summary="",
    description="",
    parameters=(),
    tags=(),
)
WORDS = Contribution(retriever="bm25", rank=1, score=9.0, background=2.5)
MEANING = Contribution(retriever="vector", rank=3, score=0.5, background=0.25)


def found(*contributions, confidence=0.9, duplicates=(), **explanation):
    return FoundTool(
        match_type=MatchType.WORDS,
        entry=ENTRY,
        score=0.8,
        confidence=confidence,
        duplicates=duplicates,
        contributions=contributions,
        explanation=Explanation(**{"request": 0.8, "merged": 0.8} | explanation),
    )


def test_each_channel_shows_its_rank_score_and_contribution():
    assert breakdown(found(WORDS, MEANING)) == {
        "bm25": ChannelScore(rank=1, score=9.0, contribution=6.5),
        "vector": ChannelScore(rank=3, score=0.5, contribution=0.25),
    }


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (found(WORDS, MEANING), "keywords #1 · meaning #3"),
        (found(WORDS, pinned=True), "named in the query; keywords #1"),
        (
            found(WORDS, subquery=1, subquery_score=0.9),
            "keywords #1; fits part 2 of the query best",
        ),
        (found(WORDS, subquery=0, subquery_score=0.5), "keywords #1"),
        (found(WORDS, group=0.9), "keywords #1; raised by a better match in the same category"),
        (found(WORDS, group=0.8), "keywords #1"),
        (found(WORDS, usage=1.1), "keywords #1; was used successfully before"),
        (found(WORDS, usage=0.9), "keywords #1; has failed before"),
        (
            found(WORDS, duplicates=("a:b:c",)),
            "keywords #1; stands for 1 near-identical tools",
        ),
        (found(WORDS, confidence=0.1), "keywords #1; low confidence"),
        (found(), "matched one part of the query"),
        (
            FoundTool(
                entry=ENTRY,
                score=0.5,
                match_type=MatchType.WORDS,
                confidence=0.9,
                contributions=(WORDS,),
            ),
            "keywords #1",
        ),
        (
            replace(found(MEANING), moved_from=6),
            "moved here by the language model, was #6; meaning #3",
        ),
    ],
)
def test_the_reason_is_one_line_of_plain_language(tool, words):
    assert reason(tool) == words


def test_other_channels_have_labels_too():
    assert reason(found(Contribution(retriever="fuzzy", rank=2, score=1))) == "spelling #2"
    assert reason(found(Contribution(retriever="own", rank=3, score=1))) == "own #3"
