"""The types that users of toolembed see. Our two type checkers read this; it is never run."""

from collections.abc import Mapping, Sequence
from typing import assert_type

from toolembed import (
    Backoff,
    Embedder,
    EmbeddingError,
    EmbeddingLimits,
    FailureKind,
    create_embedder,
    embed_pending,
)
from toolembed.providers import PROVIDERS, InstallHints
from toolembed.testing import check_embedder
from toolindex import ToolIndex, ToolStore


class Remote:
    """A user's embedder, which implements the protocol without naming it."""

    model_id = "remote:v1"
    limits = EmbeddingLimits(texts_per_request=16)

    def __init__(self) -> None:
        self.dimensions: int | None = None

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return [await self.embed_query(text) for text in texts]

    async def embed_query(self, text: str) -> list[float]:
        return [float(len(text)), 1.0]


class Forgetful:
    """An embedder that lacks the method for queries."""

    model_id = "forgetful"
    dimensions = 2
    limits = EmbeddingLimits()

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]


async def what_is_new_is_embedded_by_an_embedder_of_ones_own(index: ToolIndex) -> None:
    report = await embed_pending(index, Remote(), retry=Backoff(), progress=print)
    assert_type(report.embedded, int)
    assert_type(report.refused, Mapping[str, str])
    own: Embedder = Remote()
    assert_type(await own.embed_query("merge"), list[float])
    await check_embedder(Remote())


async def half_an_embedder_is_refused(index: ToolIndex) -> None:
    await embed_pending(
        index,
        Forgetful(),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    )
    await embed_pending(
        "search.db",  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        Remote(),
    )


async def any_store_of_tools_has_what_is_asked_for(store: ToolStore) -> None:
    await embed_pending(store, Remote(), first={"a hash"}, at_most=4)


def a_name_becomes_an_embedder() -> None:
    hints = InstallHints(distribution="finder")
    assert_type(create_embedder("static", hints=hints), Embedder | None)
    assert_type(PROVIDERS["openai"].limits, EmbeddingLimits)


def errors_say_what_to_do_next(error: EmbeddingError) -> None:
    assert_type(error.kind, FailureKind)
    raise error
