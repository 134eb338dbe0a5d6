"""Why a tool was found and ranks where it does, in numbers and in plain language."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from toolrank import RECOMMENDED_CONFIDENCE

from pytools_hybrid.search.deprecation import deprecation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from toolrank import RankExplanation as Rank

    from pytools_hybrid.search.types import FoundTool, SearchResponse
    from pytools_hybrid.settings import Settings

_LABELS = {"bm25": "keywords", "vector": "meaning", "fuzzy": "spelling"}
_SHOWN_TERMS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelScore:
    """What one channel says about a tool.

    Attributes:
        rank: The tool's place in the channel's own list, from 1.
        score: The channel's own score for it, on the channel's own scale.
        contribution: How far the score stands out from the background: the score minus that of the
            tools at ranks 11 to 50.
    """

    rank: int
    score: float
    contribution: float


def breakdown(found: FoundTool) -> dict[str, ChannelScore]:
    """Return what each channel that lists a tool says about it, by the channel's name."""
    return {
        each.retriever: ChannelScore(
            rank=each.rank,
            score=round(each.score, 6),
            contribution=round(each.score - each.background, 6),
        )
        for each in found.contributions
    }


def channel_shares(found: FoundTool, settings: Settings) -> dict[str, float]:
    """Return the share of a tool's score that came from each channel, summing to 1."""
    weights = {"bm25": settings.bm25_weight, "vector": settings.vec_weight}
    amounts = {
        each.retriever: weights.get(each.retriever, 1.0)
        * (each.strength if settings.fusion == "linear" else 1 / (settings.rrf_k + each.rank))
        for each in found.contributions
    }
    whole = sum(amounts.values()) or 1.0
    return {name: amount / whole for name, amount in amounts.items()}


def reason(found: FoundTool) -> str:
    """Explain in a line why a tool was found and ranks where it does.

    An example: `keywords #1 · meaning #3; raised by a better match in the same category`.
    """
    ranks = [f"{_label(each.retriever)} #{each.rank}" for each in found.contributions]
    told = [" · ".join(ranks)] if ranks else []
    if found.moved_from is not None:
        told.insert(0, f"moved here by the language model, was #{found.moved_from}")
    explanation = found.explanation
    if explanation is not None:
        if explanation.pinned:
            told.insert(0, "named in the query")
        if (explanation.subquery_score or 0) > explanation.request:
            told.append(f"fits part {(explanation.subquery or 0) + 1} of the query best")
        if explanation.group is not None and explanation.group > explanation.merged:
            told.append("raised by a better match in the same category")
        if explanation.verb < 1:
            told.append("its verb differs from the query's")
        if explanation.usage > 1:
            told.append("was used successfully before")
        elif explanation.usage < 1:
            told.append("has failed before")
    if found.duplicates:
        told.append(f"stands for {len(found.duplicates)} near-identical tools")
    if found.also:
        told.append(f"equal tools on other servers: {len(found.also)}")
    if deprecation(found.entry):
        told.append("deprecated")
    if found.confidence < RECOMMENDED_CONFIDENCE:
        told.append("low confidence")
    return "; ".join(told) or "matched one part of the query"


def _label(channel: str) -> str:
    return _LABELS.get(channel, channel)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExplanation:
    """Where a tool ranks among all that answer a request.

    Attributes:
        id: The tool.
        rank: Its place, from 1; None if the search does not get as far as this tool.
        score: Its score, in [0, 1]; None without a place.
        ahead: The id of the tool that it is compared with: the last one shown, or the one before it
            if it was shown itself. None if there is none.
        reasons: Why it does not rank higher, in sentences.
        channels: What each channel says about it, as `breakdown` returns it.
        terms: The request's terms that the tool has, with what each adds to its score.
        lacking: The request's terms that only the other tool has.
    """

    id: str
    rank: int | None
    score: float | None = None
    ahead: str | None = None
    reasons: tuple[str, ...]
    channels: Mapping[str, Mapping[str, float]]
    terms: Mapping[str, float]
    lacking: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the placement as JSON values."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yield the placement as lines of text."""
        yield f"{self.id} is {f'number {self.rank}' if self.rank else 'not found'}"
        for each in self.reasons:
            yield f"  {each}"


def rank_explanation(
    id_: str,
    response: SearchResponse,
    *,
    terms: Mapping[str, Mapping[str, float]],
    passes: bool,
    min_confidence: float,
) -> RankExplanation:
    """Return where a tool stands in a ranking, and why it does not rank higher."""
    own = terms.get(id_, {})
    if not passes:
        reasons: tuple[str, ...] = ("the filters of this search leave it out",)
        return RankExplanation(id=id_, rank=None, reasons=reasons, channels={}, terms=own)
    placing = response.placing
    tools = list(response.tools)
    tool = tools.pop(0) if tools and tools[0].id == id_ else None
    other = tools[0] if tools else None
    lacking = (
        () if other is None else tuple(term for term in terms.get(other.id, {}) if term not in own)
    )
    if tool is None or placing is None or placing.rank is None:
        reasons = (*_absent(placing, own), *_lacks(lacking, other))
        return RankExplanation(
            id=id_, rank=None, reasons=reasons, channels={}, terms=own, lacking=lacking
        )
    reasons = (reason(tool),)
    if tool.confidence < min_confidence:
        reasons += (
            f"its confidence is {tool.confidence:.2f}, and at least {min_confidence:g} was "
            "asked for",
        )
    if other is not None:
        reasons += (*_compared(tool, other, response.channels), *_lacks(lacking, other))
    return RankExplanation(
        id=id_,
        rank=placing.rank,
        score=tool.score,
        ahead=None if other is None else other.id,
        reasons=reasons,
        channels={name: asdict(score) for name, score in breakdown(tool).items()},
        terms=own,
        lacking=lacking,
    )


def _absent(placing: Rank | None, terms: Mapping[str, float]) -> tuple[str, ...]:
    if placing is not None and placing.same is not None:
        number, id_ = placing.same
        return (f"it is merged into result {number}, {id_}, which is equal or nearly identical",)
    ranked = 0 if placing is None else placing.ranked
    return (
        f"Not among the {ranked} best matches." if terms else "No query term occurs in this tool.",
        "synonyms and use cases in capabilities.toml can make it findable",
    )


def _compared(tool: FoundTool, other: FoundTool, searched: Sequence[str]) -> Iterator[str]:
    yield f"Compared with {other.entry.id} ({other.score:.2f}, this tool {tool.score:.2f}):"
    mine, theirs = breakdown(tool), breakdown(other)
    for channel in searched:
        label = _label(channel)
        if channel not in mine:
            yield f"  {label}: not found" + (
                "; it may have no vector yet" if channel == "vector" else ""
            )
        elif channel in theirs:
            yield (
                f"  {label}: rank {mine[channel].rank} ({mine[channel].score:.2f}), the other "
                f"{theirs[channel].rank} ({theirs[channel].score:.2f})"
            )
        else:
            yield f"  {label}: rank {mine[channel].rank}, the other was not found"
    if tool.explanation is not None and other.explanation is not None:
        group, others = tool.explanation.group, other.explanation.group
        if group is not None and others is not None and others > group:
            yield f"  the tools of {other.entry.id.category} fit the query better overall"
        if other.explanation.pinned and not tool.explanation.pinned:
            yield "  the query names the other"
        if tool.explanation.usage < other.explanation.usage:
            yield "  the other was used more successfully"


def _lacks(lacking: Sequence[str], other: FoundTool | None) -> Iterator[str]:
    if lacking and other is not None:
        words = ", ".join(lacking[:_SHOWN_TERMS])
        yield f"Query terms only {other.entry.id.name} has: {words}"
