"""The values of a search: the request, the tools found, the answer."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from toolindex import Coverage, ToolFilter
from toolscan import LAYOUTS

from pytools_hybrid.settings import DEFAULT_LIMIT

if TYPE_CHECKING:
    from toolindex import ToolEntry, ToolOutcomes
    from toolrank import Contribution, Explanation
    from toolrank import RankExplanation as Rank
    from toolscan import Layout

    from pytools_hybrid.settings import Roots

# No request is this long; anything pasted after it is ignored.
_QUERY_CHARACTERS = 20_000
_NO_COVERAGE = Coverage(tools=0, vectors=0, dimensions=0)


class _Choice(StrEnum):
    """A choice whose error message names all values."""

    @classmethod
    def _missing_(cls, value: object) -> None:
        what = cls.__name__.removeprefix("Search").lower()
        raise ValueError(f"there is no {what} {value!r}; there are {', '.join(cls)}")


class SearchMode(_Choice):
    """Which channels a search uses."""

    HYBRID = "hybrid"
    BM25 = "bm25"
    VECTOR = "vector"
    FUZZY = "fuzzy"


class Scope(_Choice):
    """Which source's tools a search may return."""

    ALL = "all"
    GENTOOLS = "gentools"
    MCPTOOLS = "mcptools"


class MatchType(StrEnum):
    """How a tool was found."""

    EXACT = "exact"
    """The request is its name."""

    WORDS = "words"
    """It shares words with the request."""

    MEANING = "meaning"
    """It means what the request means."""

    BOTH = "both"
    """Both words and meaning."""

    FUZZY = "fuzzy"
    """It has words that are spelt like those of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search request; for one state of the index, equal requests have equal answers.

    Attributes:
        text: The request in plain language.
        mode: Which channels to use.
        where: Which tools. limit: How many at most.
        min_confidence: The minimum confidence of a result, in [0, 1].
        explain_id: A tool's id: the answer then has that tool, the one that it is compared with,
            and where it stands in the answer of the search. None for a search.
    """

    text: str
    mode: SearchMode = SearchMode.HYBRID
    where: ToolFilter = field(default_factory=ToolFilter)
    limit: int = DEFAULT_LIMIT
    min_confidence: float = 0.0
    explain_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTool:
    """One result.

    Attributes:
        entry: The tool's entry in the index.
        score: In [0, 1]; decreasing from result to result. The first score is the first tool's
            confidence, so that scores of different searches can be compared; the others are lower
            in proportion to how well they fit.
        match_type: How it was found.
        confidence: In [0, 1]; how likely the tool answers the request, or the part of it that it
            answers best. It means about the same for every search and mode, but is less reliable if
            a filter leaves few tools to compare with.
        duplicates: Ids of near-identical tools of its server that this one represents.
        also: Ids of equal tools of other servers, which can be called instead.
        contributions: What each channel contributed.
        explanation: How the score came about.
        outcomes: The recorded outcomes of using it, or None.
        moved_from: Its place, from 1, before a language model moved it; None if none did.
        roots: The trees, as given to `ToolSearch`.
    """

    entry: ToolEntry
    score: float
    match_type: MatchType
    confidence: float = 0.0
    duplicates: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    contributions: tuple[Contribution, ...] = ()
    explanation: Explanation | None = None
    outcomes: ToolOutcomes | None = None
    moved_from: int | None = None
    roots: Roots | None = field(default=None, repr=False, compare=False)

    @property
    def id(self) -> str:
        """The id, `source:category:name`."""
        return str(self.entry.id)

    @property
    def name(self) -> str:
        """The last part of the id, such as "create_issue"."""
        return self.entry.id.name

    @property
    def category(self) -> str:
        """The middle part of the id, such as "github"."""
        return self.entry.id.category

    @property
    def source(self) -> str:
        """The first part of the id, such as "mcptools" or "gentools"."""
        return self.entry.id.source

    @property
    def signature(self) -> str:
        """The signature of the function to call, on one line."""
        return self.entry.signature

    @property
    def summary(self) -> str:
        """What the tool does, in a sentence."""
        return self.entry.summary

    @property
    def description(self) -> str:
        """The whole docstring."""
        return self.entry.description

    @property
    def root(self) -> Path:
        """Its tree, as given to `ToolSearch`."""
        return Path() if self.roots is None else self.roots.resolve(self.entry.path)[0]

    @property
    def path(self) -> Path:
        """Its file, in that tree."""
        return Path() if self.roots is None else Path(*self.roots.resolve(self.entry.path))

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """Where the tools are in that tree."""
        default = (LAYOUTS["mcptools"], LAYOUTS["gentools"])
        return default if self.roots is None else self.roots.layouts


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankReport:
    """How a language model changed the order, and what that cost.

    Attributes:
        model: The model.
        applied: Whether the order is the model's; otherwise it is that of the search.
        reason: Why, in one line.
        requests: How many requests were made to the model; 0 if none was needed, or if an earlier
            answer was cached.
        input_tokens: The tokens sent, as reported by the provider.
        output_tokens: The tokens that the model returned.
        cost_usd: The price of these tokens; None if it is unknown.
        milliseconds: How long the search waited for it.
    """

    model: str
    applied: bool
    reason: str
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    milliseconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {**asdict(self), "milliseconds": round(self.milliseconds, 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResponse(Sequence[FoundTool]):
    """The answer to a search: the tools, best first, and notes on them.

    It is a sequence of its tools, so that `for hit in response` and `response[0]` work as expected,
    and an empty answer is false.

    Attributes:
        tools: The tools, best first.
        notes: What to know about the answer: failed channels with the reasons, missing vectors, and
            what to try if nothing was found.
        lost: The notes about failed channels, or about a model that was replaced.
        generation: The generation of the index that answered.
        coverage: How many tools the index has, and how many of them have a vector of the model that
            was used, or would have been.
        channels: The names of the channels that ran: "bm25", "vector", "fuzzy".
        model: The embedding model whose vectors were searched; empty if only words were.
        rerank: How a language model changed the order; None if reranking is off.
        is_complete: Whether the whole tree has been indexed since the database was created.
        dimension_mismatch: Whether the query's vector and those in the index differ in length.
        vector_problem: Why the wanted model's vectors found less than they could, or nothing; empty
            if they did not.
        unembedded: Ids of tools that fit by words and have no vector yet, best first.
        search_id: The id of the search in the usage record.
        early: A message that nothing was found because the index is still being filled, with its
            progress; otherwise empty.
        placing: The rank of the tool in `explain_id`.
    """

    tools: tuple[FoundTool, ...]
    notes: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    generation: int = 0
    coverage: Coverage = _NO_COVERAGE
    channels: tuple[str, ...] = ()
    model: str = ""
    rerank: RerankReport | None = None
    is_complete: bool = True
    dimension_mismatch: bool = False
    vector_problem: str = ""
    unembedded: tuple[str, ...] = ()
    search_id: str = ""
    early: str = ""
    placing: Rank | None = None

    @overload
    def __getitem__(self, index: int) -> FoundTool: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[FoundTool, ...]: ...
    def __getitem__(self, index: int | slice) -> FoundTool | tuple[FoundTool, ...]:
        return self.tools[index]

    def __len__(self) -> int:
        return len(self.tools)

    @property
    def tool_count(self) -> int:
        """How many tools the index had when it answered."""
        return self.coverage.tools


def module_name(relative: Path) -> str:
    """Return the dotted name that imports a file, given its path relative to the root."""
    parts = relative.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def cut_query(query: str) -> str:
    """Cut a query that is too long, even after normalization, which may expand characters."""
    query = query[:_QUERY_CHARACTERS]
    normal = unicodedata.normalize("NFKC", query)
    return normal[:_QUERY_CHARACTERS] if len(normal) > _QUERY_CHARACTERS else query
