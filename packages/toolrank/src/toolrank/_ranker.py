"""The ranker: run the channels, fuse, cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolrank._fusion import Fusion, reciprocal_rank_fusion
from toolrank._weights import check_weight
from toolrank.errors import RankingArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolrank._records import Query, RankedHit
    from toolrank.protocols import Retriever

__all__ = ["Channel", "HybridRanker"]

_MIN_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Channel:
    """A retriever and its say in the fusion.

    Attributes:
        retriever: Where candidates come from.
        weight: Zero or more; 0 keeps the retriever from being asked at all.
    """

    retriever: Retriever
    weight: float = 1.0


class HybridRanker:
    """Fuse the candidates of several retrievers into one ranking.

    Args:
        channels: The retrievers with their weights; names must differ.
        fuse: How to make one ranking of theirs.

    Raises:
        RankingArgumentError: Two channels of one name, or a weight that is negative or not
            finite.
    """

    def __init__(
        self, channels: Iterable[Channel], *, fuse: Fusion = reciprocal_rank_fusion
    ) -> None:
        self._channels = tuple(channels)
        self._fuse = fuse
        names = [channel.retriever.name for channel in self._channels]
        if len(set(names)) < len(names):
            raise RankingArgumentError("channels", f"names must differ, got {names}")
        for channel in self._channels:
            check_weight(channel.weight, of=repr(channel.retriever.name), argument="channels")

    def rank(self, query: Query, *, limit: int, depth: int | None = None) -> list[RankedHit]:
        """Give the best `limit` hits, best first, ties by id.

        Args:
            query: What is asked.
            limit: How many hits to give, at least 1.
            depth: How many candidates to take from each retriever; by default twice the
                limit and at least 100, so that a hit one list ranks low can still rise.

        Raises:
            RankingArgumentError: A limit or a depth below 1.
            RetrievalError: A retriever's source is broken.
        """
        if limit < 1:
            raise RankingArgumentError("limit", f"{limit} is below 1")
        if depth is not None and depth < 1:
            raise RankingArgumentError("depth", f"{depth} is below 1")
        depth = depth or max(2 * limit, _MIN_DEPTH)
        active = [channel for channel in self._channels if channel.weight > 0]
        rankings = {
            channel.retriever.name: channel.retriever.retrieve(query, depth=depth)
            for channel in active
        }
        weights = {channel.retriever.name: channel.weight for channel in active}
        return self._fuse(rankings, weights=weights)[:limit]
