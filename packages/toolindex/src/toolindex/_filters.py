"""Filters: which tools a search may return, as values and as subqueries inside a search.

Patterns of ids mean the same in SQLite and in Python.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from toolindex._errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from toolindex._usage import ToolOutcomes

    # A condition in SQL, and the values of its placeholders.
    Condition = tuple[str, tuple[str | int | float, ...]]

# SQLite allows 50,000 bytes, and no id is nearly as long.
_MAX_PATTERN = 10_000
_COLLECTIONS = "categories", "tags", "include", "exclude"
_STARS = re.compile(r"\*+")
# SQLite ends a pattern at the first of these, or replaces it; no id has any.
_NEVER_IN_IDS = re.compile("[\0\ud800-\udfff]")
_LARGEST_INTEGER = 2**63 - 1

# Each part is computed once per search. Ids without wildcards are looked up; only other patterns
# are matched against every id.
_BY_PATTERN = (
    "(id IN (SELECT value FROM json_each(?)) OR rowid IN (SELECT tool.rowid FROM json_each(?) "
    "AS pattern CROSS JOIN entries AS tool WHERE tool.id GLOB pattern.value))"
)

# Tools with enough observations, by whether they are within the bound.
_BY_SUCCESS = (
    "SELECT tool_id FROM outcomes GROUP BY tool_id "
    "HAVING count(*) >= ? AND (1.0 * sum(success) / count(*) >= ?) = {keeps}"
)
# The median is within a bound if at least half of the values are, so no sorting is needed.
_BY_LATENCY = (
    "SELECT tool_id FROM outcomes WHERE success AND latency_ms IS NOT NULL GROUP BY tool_id "
    "HAVING count(*) >= ? AND (2 * sum(latency_ms <= ?) >= count(*)) = {keeps}"
)


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
        ArgumentError: A number is out of range, a single string is given instead of several, or a
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
                raise ArgumentError(argument, f"is a single string, {given!r}; give it in a list")
            names = tuple(given)  # once, because an iterator would then be exhausted
            if not all(isinstance(name, str) for name in names):
                raise ArgumentError(
                    argument, f"contains something other than strings: {list(names)!r}"
                )
            object.__setattr__(self, argument, frozenset(names))
        for argument in ("include", "exclude"):
            if any(len(pattern) > _MAX_PATTERN for pattern in getattr(self, argument)):
                raise ArgumentError(argument, f"has a pattern of over {_MAX_PATTERN} characters")
        if self.path_prefix is not None:
            prefix = str(PurePosixPath(self.path_prefix))
            object.__setattr__(self, "path_prefix", None if prefix == "." else prefix)
        rate, latency = self.min_success_rate, self.max_latency_ms
        if rate is not None and not 0 <= rate <= 1:
            raise ArgumentError("min_success_rate", f"is {rate}; give a share from 0 to 1")
        if latency is not None and not 0 <= latency < math.inf:
            raise ArgumentError("max_latency_ms", f"is {latency}; give milliseconds, 0 or more")
        if self.min_observations < 1:
            raise ArgumentError("min_observations", f"is {self.min_observations}; give 1 or more")
        if self.unknown not in {"include", "exclude"}:
            raise ArgumentError("unknown", f"is {self.unknown!r}; give 'include' or 'exclude'")

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
        return (not self.include or _matches_any(self.include, tool_id)) and not _matches_any(
            self.exclude, tool_id
        )


def rowids(where: ToolFilter) -> Condition | None:
    """Return a SELECT of the rowids that a filter allows with its parameters, or None for all."""
    conditions = list(_conditions(where))
    if not conditions:
        return None
    joined = " AND ".join(sql for sql, _ in conditions)
    return (
        f"SELECT rowid FROM entries WHERE {joined}",  # noqa: S608 - constants from below
        tuple(value for _, values in conditions for value in values),
    )


# Strings are bound as JSON, in which SQLite accepts even those that are not valid Unicode.


def _conditions(where: ToolFilter) -> Iterator[Condition]:
    if where.source is not None:
        yield "source = ? ->> '$'", (json.dumps(where.source),)
    if where.categories:
        wanted = json.dumps(sorted(where.categories))
        yield "category IN (SELECT value FROM json_each(?))", (wanted,)
    if where.path_prefix is not None:
        # A range instead of LIKE or GLOB, because it has no special characters, and uses the index.
        # "0" is the character after "/".
        bounds = (where.path_prefix, f"{where.path_prefix}/", f"{where.path_prefix}0")
        yield (
            "(path = ? ->> '$' OR (path >= ? ->> '$' AND path < ? ->> '$'))",
            tuple(map(json.dumps, bounds)),
        )
    if where.include:
        yield _BY_PATTERN, _pattern_values(where.include)
    if where.exclude:
        yield f"NOT {_BY_PATTERN}", _pattern_values(where.exclude)
    if where.min_success_rate is not None:
        yield _judged(where, _BY_SUCCESS, where.min_success_rate)
    if where.max_latency_ms is not None:
        yield _judged(where, _BY_LATENCY, where.max_latency_ms)
    if where.tags:
        yield (
            "(SELECT count(DISTINCT declared.value) FROM json_each(entries.tags) AS declared "
            "WHERE declared.value IN (SELECT value FROM json_each(?))) = ?",
            (json.dumps(sorted(where.tags)), len(where.tags)),
        )


def _judged(where: ToolFilter, tools: str, bound: float) -> Condition:
    values = (min(where.min_observations, _LARGEST_INTEGER), bound)
    if where.unknown == "exclude":
        return f"id IN ({tools.format(keeps=1)})", values
    return f"id NOT IN ({tools.format(keeps=0)})", values


def _pattern_values(patterns: Collection[str]) -> tuple[str, str]:
    names = sorted(pattern for pattern in patterns if not _has_wildcard(pattern))
    # `[` would begin a set of characters, and is only literal inside one.
    globs = sorted(
        _STARS.sub("*", pattern).replace("[", "[[]")
        for pattern in patterns
        if _has_wildcard(pattern) and not _NEVER_IN_IDS.search(pattern)
    )
    return json.dumps(names), json.dumps(globs)


def _has_wildcard(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


def _matches_any(patterns: Collection[str], tool_id: str) -> bool:
    return tool_id in patterns or any(
        _compiled(pattern).fullmatch(tool_id) for pattern in patterns if _has_wildcard(pattern)
    )


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    first, *others = (
        "".join("." if character == "?" else re.escape(character) for character in part)
        for part in _STARS.split(pattern)
    )
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    # The first match of a part is as good as a later one, so backtracking is unnecessary. With it,
    # a few stars in a pattern that nearly matches could take years.
    atoms = "".join(f"(?>.*?{part})" for part in middle)
    return re.compile(f"{first}{atoms}.*{last}", re.DOTALL)
