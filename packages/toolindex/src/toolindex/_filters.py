"""Filters: which tools a search may return."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from toolindex._patterns import MAX_LENGTH, matches_any
from toolindex.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Collection

    from toolindex._statistics import ToolOutcomes

_COLLECTIONS = "categories", "tags", "include", "exclude"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFilter:
    """A restriction on tools. The default passes all; otherwise a tool has to pass every part.

    Names have to match exactly, case included. Equal filters are equal values, so a
    filter can be the key of a cache.

    Bounds on success and latency are applied to the usage record, as far back as it is kept.
    `unknown` decides about tools with too few observations: with "include", the default, new tools
    are found until they have proven bad; with "exclude", only tools that have proven good are
    found.

    A pattern has to match the whole id, `source:category:name`. `*` matches any number of
    characters, `?` matches one; every other character, including `[` and `:`, matches itself.

    Attributes:
        source: Only tools of this source (`mcptools`, `gentools`, …).
        categories: Only tools of any of these categories; empty means of all.
        tags: Only tools that have all of these tags.
        path_prefix: Only tools whose file is this path, or below it: posix, relative to the root,
            compared literally and by whole parts, so `mcptools/git` is not a prefix of
            `mcptools/github/create.py`. An absolute path, or one with `..`, matches no tools.
        min_success_rate: The minimum share of successes among a tool's outcomes, from 0 to 1.
        max_latency_ms: The maximum median latency of a tool's successful outcomes, where the median
            is the nearest-rank one, as in `UsageStatistics`.
        min_observations: How many observations a bound requires: outcomes for the success rate,
            successful outcomes with a latency for the latency.
        unknown: Whether tools with fewer observations pass.
        include: Only tools whose id matches any of these patterns; empty means all.
        exclude: No tools whose id matches any of these patterns, even if `include` has it.

    Raises:
        FilterError: A number is out of range, a single string is given instead of several, or a
            pattern is longer than any id.
    """

    source: str | None = None
    categories: Collection[str] = ()
    tags: Collection[str] = ()
    path_prefix: str | None = None
    min_success_rate: float | None = None
    max_latency_ms: float | None = None
    min_observations: int = 5
    unknown: Literal["include", "exclude"] = "include"
    include: Collection[str] = ()
    exclude: Collection[str] = ()

    def __post_init__(self) -> None:
        for argument in _COLLECTIONS:
            given = getattr(self, argument)
            # A string is a collection of strings too, and would be split into letters.
            if isinstance(given, str):
                raise FilterError(argument, f"is a single string, {given!r}; give it in a list")
            names = tuple(given)  # once, because an iterator would then be exhausted
            if not all(isinstance(name, str) for name in names):
                raise FilterError(
                    argument, f"contains something other than strings: {list(names)!r}"
                )
            object.__setattr__(self, argument, frozenset(names))
        for argument in ("include", "exclude"):
            if any(len(pattern) > MAX_LENGTH for pattern in getattr(self, argument)):
                raise FilterError(argument, f"has a pattern of over {MAX_LENGTH} characters")
        if self.path_prefix is not None:
            prefix = str(PurePosixPath(self.path_prefix))
            object.__setattr__(self, "path_prefix", None if prefix == "." else prefix)
        rate, latency = self.min_success_rate, self.max_latency_ms
        if rate is not None and not 0 <= rate <= 1:
            raise FilterError("min_success_rate", f"is {rate}; give a share from 0 to 1")
        if latency is not None and not 0 <= latency < math.inf:
            raise FilterError("max_latency_ms", f"is {latency}; give milliseconds, 0 or more")
        if self.min_observations < 1:
            raise FilterError("min_observations", f"is {self.min_observations}; give 1 or more")
        if self.unknown not in {"include", "exclude"}:
            raise FilterError("unknown", f"is {self.unknown!r}; give 'include' or 'exclude'")

    @property
    def uses_outcomes(self) -> bool:
        """Whether it depends on the usage record, in addition to the index's generation."""
        return self.min_success_rate is not None or self.max_latency_ms is not None

    def can_judge(self, outcomes: ToolOutcomes | None) -> bool:
        """Return whether a tool has enough observations for this filter's bounds."""
        successes, failures, timed, _ = outcomes or (0, 0, 0, None)
        least = self.min_observations
        return (self.min_success_rate is None or successes + failures >= least) and (
            self.max_latency_ms is None or timed >= least
        )

    def passes_id(self, tool_id: str) -> bool:
        """Return whether an id passes `include` and `exclude`, without reading the index.

        A search lets exactly the tools pass for which this is true, as far as these two go.
        """
        return (not self.include or matches_any(self.include, tool_id)) and not matches_any(
            self.exclude, tool_id
        )
