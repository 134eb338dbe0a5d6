"""Why a tool was found, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolrank import RECOMMENDED_CONFIDENCE

if TYPE_CHECKING:
    from toolindex import ToolFilter

    from pytools_hybrid.search._types import FoundTool, SearchResponse

SENSES = {"bm25": "by its words", "vector": "by its meaning", "fuzzy": "by its spelling"}
"""How each channel finds a tool, in words."""

_FEW = 20
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelScore:
    """What one channel says of a tool.

    Attributes:
        rank: The tool's place in the channel's own list, from 1.
        score: The channel's own score for it, on the channel's own scale.
        contribution: How far the score stands out from what merely resembles the request: the
            score less that of the tools at ranks 11 to 50.
    """

    rank: int
    score: float
    contribution: float


def breakdown(found: FoundTool) -> dict[str, ChannelScore]:
    """Return what each channel that lists a tool says of it, by the channel's name."""
    return {
        each.retriever: ChannelScore(
            rank=each.rank,
            score=round(each.score, 6),
            contribution=round(each.score - each.background, 6),
        )
        for each in found.contributions
    }


def doubt(response: SearchResponse) -> str:
    """Return a note if maybe none of an answer's tools does what was asked, or an empty string."""
    # Among a few tools there is nothing to tell a good match from a poor one by.
    if not response.tools or response.tool_count < _FEW:
        return ""
    if response.tools[0].confidence >= RECOMMENDED_CONFIDENCE:
        return ""
    return "none of these may do this; they are only the nearest"


def unknown(response: SearchResponse, where: ToolFilter) -> str:
    """Return a note on the tools that passed a bound on use only for lack of data, if any."""
    count = sum(not where.can_judge(found.outcomes) for found in response.tools)
    if not count:
        return ""
    return (
        f"{count} of {len(response.tools)} results have too little recorded use to know their "
        "success rate or latency: unknown=exclude leaves them out"
    )


def reason(found: FoundTool) -> str:
    """Explain in a line why a tool was found and stands where it does.

    An example: `first by its words, 3rd by its meaning; other tools of pdf fit too`.
    """
    told = [", ".join(_places(found))] if found.contributions else []
    if found.moved_from is not None:
        told.insert(0, f"moved here by the language model, was {_ordinal(found.moved_from)}")
    explanation = found.explanation
    if explanation is not None:
        if explanation.pinned:
            told.insert(0, "the request names it")
        if explanation.part is not None and (explanation.part_score or 0) > explanation.request:
            told.append(f"fits part {explanation.part + 1} of the request best")
        if explanation.group is not None and explanation.group > explanation.merged:
            told.append(f"{found.entry.id.category} has a tool that fits better")
        if explanation.verb < 1:
            told.append("its name stands for another action")
        if explanation.usage > 1:
            told.append("was used successfully before")
        elif explanation.usage < 1:
            told.append("has failed before")
    if found.duplicates:
        told.append(f"stands for {len(found.duplicates)} near-identical tools")
    if found.confidence < RECOMMENDED_CONFIDENCE:
        told.append("but it may not do this at all")
    return "; ".join(told) or "a part of the request brought it up"


def _places(found: FoundTool) -> list[str]:
    return [
        f"{_ordinal(each.rank)} {SENSES.get(each.retriever, 'by ' + each.retriever)}"
        for each in found.contributions
    ]


def _ordinal(rank: int) -> str:
    if rank == 1:
        return "first"
    if rank % 100 in {11, 12, 13}:
        return f"{rank}th"
    return f"{rank}{_ENDINGS.get(rank % 10, 'th')}"
